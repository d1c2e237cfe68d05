//! The shape of the generated encoding tables.
//!
//! A table file (`tables/gfx9.rs`, `tables/gfx11.rs`, `tables/gfx12.rs`) lists the *forms* of every operation: the bits that are fixed, where each operand's
//! bits are and what kind of operand it is, and the assembler syntax. `decode` and `disasm` are interpreters of these
//! tables, so a further architecture of the family is a further table.

use crate::inst::{Format, Op};

/// All tables of one architecture.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) cache_policy: CachePolicy,
    /// VOP3 has `OPSEL` for operations of 16 bits whose forms have no operand for it.
    pub(crate) has_halves: bool,
    /// In the order they are searched: long encodings first, because a long form can hide behind a short one's opcode.
    pub(crate) tables: &'static [Table],
    pub(crate) groups: &'static [Group],
    pub(crate) forms: &'static [Form],
    pub(crate) operands: &'static [&'static [OperandSpec]],
    pub(crate) syntax: &'static [Syntax],
    pub(crate) kinds: &'static [Kind],
    pub(crate) fields: &'static [&'static [Segment]],
    pub(crate) images: &'static [Image],
}

impl Tables {
    /// Operands of a form.
    pub(crate) fn operands_of(&self, form: &Form) -> &'static [OperandSpec] {
        self.operands[usize::from(form.operands)]
    }

    /// Kind of an operand.
    pub(crate) fn kind(&self, operand: OperandSpec) -> &'static Kind {
        &self.kinds[usize::from(operand.1)]
    }

    /// Bits of an operand, empty when the encoding implies it.
    pub(crate) fn field(&self, operand: OperandSpec) -> &'static [Segment] {
        self.fields[usize::from(operand.2)]
    }
}

/// Parts of the cache policy of memory instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// A bit for each cache to bypass: GLC, SLC, DLC.
    Bits,
    /// SC0, NT and SC1: two bits of a scope, and a hint.
    Scopes,
    /// A temporal hint and a scope.
    Hints,
}

/// Forms of one length: a run of groups.
#[derive(Debug)]
pub(crate) struct Table {
    /// Length of the encoding without a trailing literal.
    pub(crate) bytes: u8,
    pub(crate) first: u16,
    pub(crate) len: u16,
}

/// Forms that the same bits select: a run of forms sorted by these bits of [`Form::value`]. Groups with more such bits come first.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) mask: u128,
    pub(crate) first: u16,
    pub(crate) len: u16,
}

/// One encoding of an operation.
#[derive(Debug)]
pub(crate) struct Form {
    /// Its bits without operands. The group's mask has those that select it. The others are in fields that only operations with more
    /// operands have: the decoder does not look at them, as hardware does not, and the encoder writes them as they are here.
    pub(crate) value: u128,
    pub(crate) op: Op,
    /// Y operation of a VOPD.
    pub(crate) dual: Option<Op>,
    pub(crate) format: Format,
    /// Index into [`Tables::syntax`].
    pub(crate) syntax: u16,
    /// Index into [`Tables::operands`].
    pub(crate) operands: u16,
    pub(crate) flags: Flags,
    /// Bit *n*: processor *n* of the family has it. [`crate::tables::bit`] is that of an architecture.
    pub(crate) processors: u8,
}

/// Properties of a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    /// Only in waves of 32.
    pub(crate) const W32: Flags = Flags(1 << 0);
    /// Only in waves of 64.
    pub(crate) const W64: Flags = Flags(1 << 1);
    /// Packed 16-bit operation: `op_sel_hi` is 1 by default.
    pub(crate) const PACKED: Flags = Flags(1 << 2);
    /// `op_sel` has a bit for the destination.
    pub(crate) const OPSEL: Flags = Flags(1 << 3);
    /// Matrix operation: three modifier bits are always printed, for any operands.
    pub(crate) const WMMA: Flags = Flags(1 << 4);
    /// Atomic that returns the old value.
    pub(crate) const RTN: Flags = Flags(1 << 5);
    /// Writes `VCC` without naming it.
    pub(crate) const DEF_VCC: Flags = Flags(1 << 6);
    /// Writes `EXEC` without naming it.
    pub(crate) const DEF_EXEC: Flags = Flags(1 << 7);
    /// Reads `VCC` without naming it.
    pub(crate) const USE_VCC: Flags = Flags(1 << 8);
    /// Accumulates into its destination.
    pub(crate) const ACC: Flags = Flags(1 << 9);
    /// The Y half of a VOPD accumulates into its destination.
    pub(crate) const ACC_Y: Flags = Flags(1 << 10);
    /// SDST is a source.
    pub(crate) const SDST_IN: Flags = Flags(1 << 11);
    /// VDATA is written.
    pub(crate) const DATA_OUT: Flags = Flags(1 << 12);
    /// VDATA is read.
    pub(crate) const DATA_IN: Flags = Flags(1 << 13);
    /// Buffer operation with `offen`.
    pub(crate) const OFFEN: Flags = Flags(1 << 14);
    /// Buffer operation with `idxen`.
    pub(crate) const IDXEN: Flags = Flags(1 << 15);
    /// Buffer operation with `tfe`.
    pub(crate) const TFE: Flags = Flags(1 << 16);

    /// Its temporal hint is one of stores.
    pub(crate) const STORES: Flags = Flags(1 << 17);
    /// Its temporal hint is one of atomics.
    pub(crate) const ATOMIC: Flags = Flags(1 << 18);

    /// Buffer operation with `lds`.
    pub(crate) const LDS: Flags = Flags(1 << 19);

    /// Returns true if all bits of `other` are set.
    pub(crate) const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An operand of a form: its name, kind (index into [`Tables::kinds`]) and field (index into [`Tables::fields`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandSpec(pub(crate) Name, pub(crate) u8, pub(crate) u8);

/// A run of an operand's bits: first bit in the instruction, first bit in the operand, length.
#[derive(Debug)]
pub(crate) struct Segment(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// Shape of an image instruction, on which the registers in its text depend.
#[derive(Debug)]
pub(crate) struct Image {
    /// Index of the form.
    pub(crate) form: u16,
    /// Address registers before the coordinates.
    pub(crate) extra: u8,
    /// Properties, see the constants.
    pub(crate) flags: u8,
    /// Data registers of the form itself.
    pub(crate) data: u8,
    /// Address registers of the form itself.
    pub(crate) addresses: u8,
    /// Bit *n*: the operation exists with *n* data registers.
    pub(crate) data_sizes: u32,
    /// Bit *n*: the operation exists with *n* address registers.
    pub(crate) address_sizes: u32,
}

impl Image {
    /// Has coordinates.
    pub(crate) const COORDINATES: u8 = 1 << 0;
    /// Has a level of detail, clamp or mip level.
    pub(crate) const LOD: u8 = 1 << 1;
    /// Has gradients.
    pub(crate) const GRADIENTS: u8 = 1 << 2;
    /// The gradients are 16 bits wide.
    pub(crate) const G16: u8 = 1 << 3;
    /// Ray intersection: all registers are as the form says.
    pub(crate) const BVH: u8 = 1 << 4;
    /// Ray intersection with 16-bit addresses.
    pub(crate) const A16: u8 = 1 << 5;
    /// Returns four texels of one channel.
    pub(crate) const GATHER4: u8 = 1 << 6;

    /// Returns true if the property is set.
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Assembler syntax after the mnemonic, with `$name` where an operand goes.
#[derive(Debug)]
pub(crate) struct Syntax(pub(crate) &'static str);

/// Way in which an operand is read and printed.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) decode: Decode,
    /// 32-bit registers it occupies.
    pub(crate) width: u8,
    /// Type of an inline constant or literal in its place.
    pub(crate) imm: Imm,
    /// True of two halves whose constants are inline ones, to which LLVM compares the low half of a literal.
    pub(crate) inline: bool,
    pub(crate) print: Print,
    /// LLVM's name of the register class the operand must be in, empty when it is no register.
    pub(crate) class: &'static str,
}

/// Meaning of an operand's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decode {
    /// A number.
    Imm,
    /// A VGPR number.
    Vgpr,
    /// The number of an accumulation register.
    Agpr,
    /// The number of a vector register, bit 9 saying whether it is an accumulation register.
    Av,
    /// As `Av`, in a memory instruction: the operand that has the bit has it for the others as well.
    AvMemory,
    /// A source whose vector registers are accumulation registers if bit 9 is set.
    SrcAv,
    /// A source whose vector registers are accumulation registers.
    SrcAgpr,
    /// A source of SDWA: a VGPR, or with bit 8 set anything else but a literal.
    SdwaSrc,
    /// Destination of a comparison in SDWA: `VCC`, or with bit 7 set the SGPRs with this number.
    SdwaVopcDst,
    /// An SGPR number or one of the special registers below 128.
    Sgpr,
    /// A source: SGPR, constant, literal or VGPR.
    Src,
    /// A lane mask: one SGPR in waves of 32, two in waves of 64.
    Bool,
    /// Half a VGPR, bit 7 selecting the high half.
    VgprT16,
    /// A source that can be half a VGPR, bit 7 selecting the high half.
    SrcT16,
    /// VDSTY of a VOPD, whose lowest bit is the inverse of VDSTX's.
    VopdDstY,
    /// A constant that is part of the encoding.
    Literal,
}

/// Type of a constant operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imm {
    /// No constant can be in its place.
    None,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Half precision.
    Fp16,
    /// Single precision.
    Fp32,
    /// Double precision.
    Fp64,
    /// `bfloat16`.
    Bf16,
    /// Two 16-bit integers.
    V2Int16,
    /// Two halves.
    V2Fp16,
    /// Two `bfloat16`.
    V2Bf16,
}

/// Way in which an operand is printed, named after LLVM's printer methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::upper_case_acronyms, reason = "names are LLVM's")]
pub(crate) enum Print {
    Operand,
    First,
    Branch,
    FpMods,
    IntMods,
    Mods,
    NamedBit,
    U16ImmOperand,
    U32ImmOperand,
    Offset,
    Offset0,
    Offset1,
    FlatOffset,
    SMEMOffset,
    SMEMOffsetMod,
    Swizzle,
    CPol,
    BufferFormat,
    DPP8,
    DPPCtrl,
    DppRowMask,
    DppBankMask,
    DppBoundCtrl,
    DppFI,
    OModSI,
    OpSel,
    OpSelHi,
    NegLo,
    NegHi,
    SDelayALU,
    BitOp3,
    Endpgm,
    Hwreg,
    SendMsg,
    DepCtr,
    SWaitCnt,
    WaitVDST,
    WaitVAVDst,
    WaitVMVSrc,
    WaitEXP,
    ByteSel,
    IndexKey16bit,
    IndexKey8bit,
    SDWADstSel,
    SDWADstUnused,
    SDWASrc0Sel,
    SDWASrc1Sel,
    CBSZ,
    ABID,
    BLGP,
    GPRIdxMode,
    InterpAttr,
    InterpAttrChan,
    ExpTgt,
    ExpSrc0,
    ExpSrc1,
    ExpSrc2,
    ExpSrc3,
    DMask,
    Dim,
    R128A16,
}

/// Puts an operand's bits where its field is.
pub(crate) fn scatter(bits: u128, field: &[Segment], value: u32) -> u128 {
    field.iter().fold(bits, |bits, &Segment(bit, shift, len)| {
        let mask = (1u128 << len) - 1;
        bits & !(mask << bit) | (u128::from(value) >> shift & mask) << bit
    })
}

macro_rules! names {
    ($($variant:ident $text:literal,)*) => {
        /// Name of an operand, after LLVM's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name { $($variant,)* }

        impl Name {
            /// The operand a `$name` of an assembler syntax stands for.
            pub(crate) fn parse(text: &str) -> Option<Name> {
                match text { $($text => Some(Name::$variant),)* _ => None }
            }

            /// The text of the name.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Name::$variant => $text,)* }
            }
        }
    };
}

names! {
    A16 "a16", Abid "abid", Addr "addr", Attr "attr", Attrchan "attrchan", BankMask "bank_mask", Bitop3 "bitop3", Blgp "blgp", BoundCtrl "bound_ctrl",
    ByteSel "byte_sel", Cbsz "cbsz", Clamp "clamp", Cpol "cpol", D16 "d16", Data0 "data0", Data1 "data1", Dim "dim", Dmask "dmask", Dpp8 "dpp8",
    DppCtrl "dpp_ctrl", DstSel "dst_sel", DstUnused "dst_unused", En "en", Fi "fi", Format "format", Gds "gds", Idx "idx", Imm "imm", ImmX "immX",
    IndexKey8bit "index_key_8bit", IndexKey16bit "index_key_16bit",
    Lwe "lwe", NegHi "neg_hi", NegLo "neg_lo", Offset "offset", Offset0 "offset0", Offset1 "offset1", Omod "omod",
    OpSel "op_sel", OpSelHi "op_sel_hi", R128 "r128", RowMask "row_mask", Rsrc "rsrc", Saddr "saddr", Samp "samp", Sbase "sbase",
    ScaleSrc0 "scale_src0", ScaleSrc1 "scale_src1",
    Sdata "sdata", Sdst "sdst", Simm16 "simm16", Soffset "soffset", Src0 "src0", Src0Modifiers "src0_modifiers", Src0Sel "src0_sel",
    Src0X "src0X", Src0Y "src0Y", Src1 "src1", Src1Modifiers "src1_modifiers", Src1Sel "src1_sel", Src2 "src2",
    Src2Modifiers "src2_modifiers", Src3 "src3", Srsrc "srsrc", Ssamp "ssamp", Tfe "tfe", Tgt "tgt", Unorm "unorm",
    Vaddr "vaddr", Vaddr0 "vaddr0", Vaddr1 "vaddr1", Vaddr2 "vaddr2", Vaddr3 "vaddr3", Vaddr4 "vaddr4", Vcc "vcc",
    Vdata "vdata", Vdst "vdst", VdstX "vdstX", VdstY "vdstY", Vsrc1X "vsrc1X", Vsrc1Y "vsrc1Y", Waitexp "waitexp",
    Waitvdst "waitvdst", Waitvsrc "waitvsrc",
}
