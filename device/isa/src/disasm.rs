//! [`Inst`] to assembler text, the same text `llvm-mc` prints.
//!
//! A form's assembler syntax says which operand goes where; this module finds each operand's value in the [`Inst`] and
//! prints it as the form's operand kind asks. An operand that cannot be what it encodes is printed with LLVM's comment
//! (`/*Invalid register, …*/`) rather than rejected.

mod image;
mod operand;
mod symbolic;

use crate::tables;
use std::fmt;
use std::fmt::Write as _;

use crate::decode::decode_for;
use crate::encoding::{CachePolicy, Decode, Flags, Form, Kind, Name, OperandSpec, Print, Tables};
use crate::fields;
use crate::inst::{Arch, DecodeError, Dpp, Format, Inst, Op, Operand, WaveSize};
use crate::registers::RegisterFile;
use crate::tables::notation::{Notation, Style};

/// Assembler text of one instruction, by its `Display`.
#[derive(Clone, Copy, Debug)]
pub struct Disassembly {
    inst: Inst,
    arch: Arch,
    wave: WaveSize,
}

impl Disassembly {
    /// The text of `inst`, which must have been decoded for `arch`.
    ///
    /// The wave size decides how lane masks are named: `vcc_lo` or `vcc`.
    pub const fn new(inst: Inst, arch: Arch, wave: WaveSize) -> Disassembly {
        Disassembly { inst, arch, wave }
    }
}

impl fmt::Display for Disassembly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = tables::of(self.arch);
        let Some(form) = tables.forms.get(usize::from(self.inst.form)) else {
            return out.write_str(self.inst.op.mnemonic());
        };
        let (file, notation, wave) = (RegisterFile::of(self.arch), Notation::of(self.arch), self.wave);
        Printer { tables, file, notation, form, inst: &self.inst, wave }.print(out)
    }
}

/// One line of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Address of the instruction.
    pub address: u64,
    /// Dwords of the instruction, [`Line::len`] of them valid.
    words: [u32; 5],
    /// Number of dwords.
    count: u8,
    /// The instruction, or why there is none. Bytes that are none take one dword (the rest of the code, when shorter).
    pub inst: Result<Inst, DecodeError>,
    arch: Arch,
    wave: WaveSize,
}

impl Line {
    /// The instruction's dwords, literal included.
    pub fn words(&self) -> &[u32] {
        &self.words[..usize::from(self.count)]
    }

    /// Returns the target address of a branch.
    pub fn target(&self) -> Option<u64> {
        self.inst.ok().and_then(|inst| inst.branch_target(self.address))
    }

    /// Assembler text; bytes that are no instruction become `.long`.
    pub fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inst {
            Ok(inst) => Disassembly::new(inst, self.arch, self.wave).fmt(out),
            Err(_) => write!(out, ".long {:#010x}", self.words[0]),
        }
    }
}

/// Disassembles `code`, whose first byte is at address `base`, to its end.
pub fn disassemble(arch: Arch, wave: WaveSize, code: &[u8], base: u64) -> impl Iterator<Item = Line> + '_ {
    let mut offset = 0usize;
    std::iter::from_fn(move || {
        let rest = code.get(offset..).filter(|rest| !rest.is_empty())?;
        let inst = decode_for(arch, wave, rest);
        let size = inst.map_or(4, |inst| usize::from(inst.size)).min(rest.len());
        let mut words = [0u32; 5];
        let mut count = 0u8;
        for (word, bytes) in words.iter_mut().zip(rest[..size].chunks(4)) {
            let mut dword = [0; 4];
            dword[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(dword);
            count += 1;
        }
        let address = base.wrapping_add(offset as u64);
        offset += size;
        Some(Line { address, words, count, inst, arch, wave })
    })
}

/// Prints one instruction.
struct Printer<'a> {
    tables: &'static Tables,
    file: &'static RegisterFile,
    notation: &'static Notation,
    form: &'static Form,
    inst: &'a Inst,
    wave: WaveSize,
}

type Out<'a, 'b> = &'a mut fmt::Formatter<'b>;

impl Printer<'_> {
    fn print(&self, out: Out<'_, '_>) -> fmt::Result {
        let dual = self.inst.format == Format::Vopd;
        self.mnemonic(out, self.inst.op, dual)?;
        if self.inst.format.is_image() {
            return self.image(out);
        }
        let mut syntax = self.tables.syntax[usize::from(self.form.syntax)].0;
        while let Some(dollar) = syntax.find('$') {
            out.write_str(&syntax[..dollar])?;
            syntax = &syntax[dollar + 1..];
            let end = syntax.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(syntax.len());
            if let Some(name) = Name::parse(&syntax[..end]) {
                self.named(out, name)?;
            }
            syntax = &syntax[end..];
        }
        out.write_str(syntax)
    }

    /// `v_fma_f32`, or `v_dual_fmac_f32` for half of a VOPD.
    #[expect(clippy::unused_self, reason = "one of the printing steps")]
    fn mnemonic(&self, out: Out<'_, '_>, op: Op, dual: bool) -> fmt::Result {
        let mnemonic = op.mnemonic();
        if dual {
            write!(out, "v_dual_{}", mnemonic.strip_prefix("v_").unwrap_or(mnemonic))
        } else {
            out.write_str(mnemonic)
        }
    }

    /// The form's operand of that name.
    fn spec(&self, name: Name) -> Option<OperandSpec> {
        self.tables.operands_of(self.form).iter().copied().find(|spec| spec.0 == name)
    }

    fn has(&self, name: Name) -> bool {
        self.spec(name).is_some()
    }

    /// Prints what `$name` stands for.
    fn named(&self, out: Out<'_, '_>, name: Name) -> fmt::Result {
        if name == Name::Vcc {
            return out.write_str(match self.wave {
                WaveSize::Wave32 => "vcc_lo",
                WaveSize::Wave64 => "vcc",
            });
        }
        let Some(spec) = self.spec(name) else { return Ok(()) };
        let kind = self.tables.kind(spec);
        match kind.print {
            // Which byte of a register is the scale.
            Print::Mods if self.has(Name::ScaleSrc0) => {
                if name != Name::Src0Modifiers {
                    return Ok(());
                }
                self.op_sel(out)?;
                self.packed(out, " op_sel_hi:[", self.inst.mods.op_sel_hi, true, false)
            }
            Print::FpMods | Print::IntMods | Print::Mods => self.modified(out, name, kind.print),
            Print::OpSel => self.op_sel(out),
            Print::OpSelHi => self.packed(out, " op_sel_hi:[", self.inst.mods.op_sel_hi, true, false),
            Print::NegLo => self.packed(out, " neg_lo:[", self.inst.mods.neg, false, false),
            Print::NegHi => self.packed(out, " neg_hi:[", self.inst.mods.neg_hi, false, false),
            Print::Operand | Print::First | Print::U16ImmOperand | Print::U32ImmOperand
                if kind.decode != Decode::Imm =>
            {
                self.operand(out, name, kind)
            }
            Print::ExpSrc0 | Print::ExpSrc1 | Print::ExpSrc2 | Print::ExpSrc3 => {
                let source = kind.print as u32 - Print::ExpSrc0 as u32;
                if self.inst.imm >> (8 + source) & 1 != 0 {
                    self.operand(out, name, kind)
                } else {
                    out.write_str("off")
                }
            }
            _ => self.number(out, name, kind),
        }
    }

    /// A source with its modifiers.
    fn modified(&self, out: Out<'_, '_>, name: Name, print: Print) -> fmt::Result {
        let (source, bit) = match name {
            Name::Src0Modifiers => (Name::Src0, 1),
            Name::Src1Modifiers => (Name::Src1, 2),
            _ => (Name::Src2, 4),
        };
        let Some(spec) = self.spec(source) else { return Ok(()) };
        let kind = self.tables.kind(spec);
        let neg = self.inst.mods.neg & bit != 0;
        let sext = self.inst.sdwa.is_some_and(|sdwa| sdwa.sext & bit != 0);
        let abs = self.inst.mods.abs & bit != 0;
        let (open, close) = match print {
            Print::FpMods => {
                // `-1` would be another constant than `neg(1)`.
                let constant = matches!(
                    self.value(source, kind),
                    Operand::InlineInt(_) | Operand::InlineFloat(_) | Operand::Literal(_)
                );
                match (neg, abs, constant) {
                    (true, false, true) => ("neg(", ")"),
                    (true, false, false) => ("-", ""),
                    (true, true, _) => ("-|", "|"),
                    (false, true, _) => ("|", "|"),
                    (false, false, _) => ("", ""),
                }
            }
            _ if sext => ("sext(", ")"),
            _ => ("", ""),
        };
        out.write_str(open)?;
        self.operand(out, source, kind)?;
        out.write_str(close)
    }

    fn op_sel(&self, out: Out<'_, '_>) -> fmt::Result {
        let op_sel = self.inst.mods.op_sel;
        if matches!(
            self.inst.op,
            Op::V_PERMLANE16_B32
                | Op::V_PERMLANEX16_B32
                | Op::V_PERMLANE16_VAR_B32
                | Op::V_PERMLANEX16_VAR_B32
        ) {
            // Bit 0 fetches inactive lanes, bit 1 is bound control.
            if op_sel & 3 != 0 {
                write!(out, " op_sel:[{},{}]", op_sel & 1, op_sel >> 1 & 1)?;
            }
            return Ok(());
        }
        self.packed(out, " op_sel:[", op_sel, false, self.form.flags.has(Flags::OPSEL))
    }

    /// A modifier with one bit per source, printed unless it has its default value.
    fn packed(&self, out: Out<'_, '_>, label: &str, bits: u8, high: bool, destination: bool) -> fmt::Result {
        const SOURCES: [(Name, Name); 3] = [
            (Name::Src0, Name::Src0Modifiers),
            (Name::Src1, Name::Src1Modifiers),
            (Name::Src2, Name::Src2Modifiers),
        ];
        let wmma = self.form.flags.has(Flags::WMMA);
        let count = if wmma { 3 } else { SOURCES.iter().take_while(|(source, _)| self.has(*source)).count() };
        let value = |source: usize| self.has(SOURCES[source].1) && bits >> source & 1 != 0;
        let default = high && self.form.flags.has(Flags::PACKED);
        let destination = destination && count > 0 && (self.has(Name::Vdst) || self.has(Name::Sdst));
        if (0..count).all(|source| value(source) == default) && !(destination && bits & 8 != 0) {
            return Ok(());
        }
        out.write_str(label)?;
        for source in 0..count {
            if source != 0 {
                out.write_char(',')?;
            }
            write!(out, "{}", u8::from(value(source)))?;
        }
        if destination {
            write!(out, ",{}", bits >> 3 & 1)?;
        }
        out.write_char(']')
    }

    /// The register or constant the instruction has as its operand `name`.
    fn value(&self, name: Name, kind: &Kind) -> Operand {
        fields::operand(self.form, self.inst, name, kind)
    }

    /// A number as its kind asks.
    fn number(&self, out: Out<'_, '_>, name: Name, kind: &Kind) -> fmt::Result {
        let inst = self.inst;
        let mem = &inst.mem;
        let imm = inst.imm;
        match kind.print {
            Print::NamedBit => {
                let set = match name {
                    Name::Clamp => inst.mods.clamp,
                    Name::Gds => mem.gds,
                    Name::Tfe => mem.tfe,
                    _ => false,
                };
                if set { write!(out, " {}", name.text()) } else { Ok(()) }
            }
            Print::Operand if name == Name::Imm => match fields::constant(self.inst) {
                Operand::Literal(value) => operand::integer(out, i64::from(value.cast_signed()), value),
                _ => Ok(()),
            },
            Print::Branch => write!(out, "{imm}"),
            Print::Operand => operand::integer(out, i64::from(imm), imm),
            Print::U16ImmOperand if inst.op == Op::S_VERSION => symbolic::version(out, imm),
            Print::U16ImmOperand | Print::U32ImmOperand => write!(out, "{imm:#x}"),
            Print::Offset | Print::FlatOffset if mem.offset != 0 => write!(out, " offset:{}", mem.offset),
            Print::Offset0 if mem.offset != 0 => write!(out, " offset0:{}", mem.offset),
            Print::Offset1 if mem.offset1 != 0 => write!(out, " offset1:{}", mem.offset1),
            Print::SMEMOffset => operand::signed_hex(out, mem.offset),
            Print::SMEMOffsetMod => {
                out.write_str(" offset:")?;
                operand::signed_hex(out, mem.offset)
            }
            Print::Swizzle => symbolic::swizzle(out, mem.offset.cast_unsigned()),
            Print::CPol if self.tables.cache_policy == CachePolicy::Hints => self.cache_policy(out),
            Print::CPol if self.tables.cache_policy == CachePolicy::Scopes => {
                let first = if inst.format == Format::Smem { " glc" } else { " sc0" };
                for (set, text) in [(mem.glc, first), (mem.slc, " nt"), (mem.dlc, " sc1")] {
                    if set {
                        out.write_str(text)?;
                    }
                }
                Ok(())
            }
            Print::CPol => {
                for (set, text) in [(mem.glc, " glc"), (mem.slc, " slc"), (mem.dlc, " dlc")] {
                    if set {
                        out.write_str(text)?;
                    }
                }
                Ok(())
            }
            Print::BufferFormat if self.notation.style == Style::Gfx9 => {
                symbolic::split_format(out, mem.format)
            }
            Print::BufferFormat => symbolic::buffer_format(out, mem.format),
            Print::DPP8
            | Print::DPPCtrl
            | Print::DppRowMask
            | Print::DppBankMask
            | Print::DppBoundCtrl
            | Print::DppFI => self.dpp(out, kind.print),
            Print::OModSI => out.write_str(match inst.mods.omod {
                1 => " mul:2",
                2 => " mul:4",
                3 => " div:2",
                _ => "",
            }),
            Print::SDelayALU => symbolic::delay_alu(out, imm),
            Print::Endpgm if imm != 0 => write!(out, " {imm}"),
            Print::Hwreg => symbolic::hwreg(out, self.notation, imm),
            Print::SendMsg => symbolic::message(out, self.notation, imm),
            Print::DepCtr => symbolic::dep_ctr(out, imm),
            Print::SWaitCnt => symbolic::wait_count(out, self.notation, imm),
            Print::GPRIdxMode => symbolic::index_mode(out, imm),
            Print::CBSZ if imm & 7 != 0 => write!(out, " cbsz:{}", imm & 7),
            Print::ABID if imm >> 4 & 15 != 0 => write!(out, " abid:{}", imm >> 4 & 15),
            Print::BLGP if imm >> 8 & 7 != 0 => {
                let bit = |bit: u32| imm >> (8 + bit) & 1;
                if inst.op.negates_by_blgp() {
                    write!(out, " neg:[{},{},{}]", bit(0), bit(1), bit(2))
                } else {
                    write!(out, " blgp:{}", imm >> 8 & 7)
                }
            }
            Print::SDWADstSel | Print::SDWADstUnused | Print::SDWASrc0Sel | Print::SDWASrc1Sel => {
                self.sub_dword(out, kind.print)
            }
            Print::WaitVDST => write!(out, " wait_vdst:{}", imm >> 16 & 15),
            Print::WaitVAVDst => write!(out, " wait_va_vdst:{}", imm >> 16 & 15),
            Print::WaitVMVSrc => write!(out, " wait_vm_vsrc:{}", imm >> 20 & 15),
            Print::BitOp3 if imm > 10 => write!(out, " bitop3:{imm:#x}"),
            Print::BitOp3 if imm != 0 => write!(out, " bitop3:{imm}"),
            Print::ByteSel if imm != 0 => write!(out, " byte_sel:{imm}"),
            Print::IndexKey8bit | Print::IndexKey16bit if imm != 0 => write!(out, " index_key:{imm}"),
            Print::WaitEXP => write!(out, " wait_exp:{}", imm & 15),
            Print::InterpAttr => write!(out, "attr{}", imm & 0x3f),
            Print::InterpAttrChan => write!(out, ".{}", ["x", "y", "z", "w"][(imm >> 8 & 3) as usize]),
            Print::ExpTgt => symbolic::export_target(out, imm & 0x3f),
            _ => Ok(()),
        }
    }

    /// Temporal hint and scope.
    fn cache_policy(&self, out: Out<'_, '_>) -> fmt::Result {
        let mem = &self.inst.mem;
        if mem.scale_offset {
            out.write_str(" scale_offset")?;
        }
        let (stores, atomic) = (self.form.flags.has(Flags::STORES), self.form.flags.has(Flags::ATOMIC));
        let th = if atomic {
            symbolic::atomic_hint(mem.th, mem.scope)
        } else {
            symbolic::hint(mem.th, mem.scope, stores)
        };
        match th {
            _ if mem.th == 0 => {}
            Some(name) if atomic => write!(out, " th:TH_ATOMIC_{name}")?,
            Some(name) => write!(out, " th:TH_{}_{name}", if stores { "STORE" } else { "LOAD" })?,
            None if atomic => write!(out, " th:TH_ATOMIC_{:#x}", mem.th)?,
            None => write!(out, " th:{:#x}", mem.th)?,
        }
        out.write_str(
            ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][usize::from(mem.scope & 3)],
        )?;
        out.write_str(if mem.non_volatile { " nv" } else { "" })
    }

    /// Returns true if the first operands have registers of 64 bits.
    fn has_wide_registers(&self) -> bool {
        [Name::Vdst, Name::Src0, Name::Src1]
            .into_iter()
            .filter_map(|name| self.spec(name))
            .any(|spec| self.tables.kind(spec).width == 2)
    }

    /// Parts of registers.
    fn sub_dword(&self, out: Out<'_, '_>, print: Print) -> fmt::Result {
        let sdwa = self.inst.sdwa.unwrap_or_default();
        match print {
            Print::SDWADstSel => write!(out, "dst_sel:{}", symbolic::part(sdwa.dst_sel)),
            Print::SDWADstUnused => {
                let names = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];
                write!(out, "dst_unused:{}", names.get(usize::from(sdwa.dst_unused)).unwrap_or(&""))
            }
            Print::SDWASrc0Sel => write!(out, "src0_sel:{}", symbolic::part(sdwa.src_sel[0])),
            _ => write!(out, "src1_sel:{}", symbolic::part(sdwa.src_sel[1])),
        }
    }

    fn dpp(&self, out: Out<'_, '_>, print: Print) -> fmt::Result {
        match (self.inst.dpp, print) {
            (Some(Dpp::Dpp8(dpp)), Print::DPP8) => {
                out.write_str("dpp8:[")?;
                for lane in 0..8 {
                    if lane != 0 {
                        out.write_char(',')?;
                    }
                    write!(out, "{}", dpp.selector(lane))?;
                }
                out.write_char(']')
            }
            (Some(Dpp::Dpp16(dpp)), Print::DPPCtrl) => {
                // Only one permutation is there for registers of 64 bits, and only where it has this name.
                if self.notation.style == Style::Gfx9
                    && !matches!(dpp.ctrl, 0x150..=0x15f)
                    && self.has_wide_registers()
                {
                    return out.write_str(" /* DP ALU dpp only supports row_newbcast */");
                }
                symbolic::dpp_control(out, self.notation.style, dpp.ctrl)
            }
            (Some(Dpp::Dpp16(dpp)), Print::DppRowMask) => write!(out, " row_mask:{:#x}", dpp.row_mask),
            (Some(Dpp::Dpp16(dpp)), Print::DppBankMask) => write!(out, " bank_mask:{:#x}", dpp.bank_mask),
            (None, Print::DppBoundCtrl) if self.inst.mods.op_sel & 2 != 0 => out.write_str(" bound_ctrl:1"),
            (None, Print::DppFI) if self.inst.mods.op_sel & 1 != 0 => out.write_str(" fi:1"),
            (Some(Dpp::Dpp16(dpp)), Print::DppBoundCtrl) if dpp.bound_ctrl => out.write_str(" bound_ctrl:1"),
            (Some(Dpp::Dpp16(dpp)), Print::DppFI) if dpp.fetch_inactive => out.write_str(" fi:1"),
            (Some(Dpp::Dpp8(dpp)), Print::DppFI) if dpp.fetch_inactive => out.write_str(" fi:1"),
            _ => Ok(()),
        }
    }
}
