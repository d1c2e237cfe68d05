//! Bytes to [`Inst`].
//!
//! The decoder finds the form whose selecting bits match, longest encodings first, reads the form's operands and brings them
//! into [`Inst`]'s arrangement. It accepts any bytes: what is no instruction is an error that says why.

mod code;
mod number;

use crate::encoding::{Decode, Flags, Form, Kind, Name, Segment, Table, Tables};
use crate::fields;
use crate::halves;
use crate::inst::{
    Arch, DecodeError, Dual, FloatConst, Format, Inst, MemFields, Mods, Op, Operand, WaveSize,
};
use crate::registers::RegisterFile;
use crate::tables;
use crate::tables::notation::Notation;
use code::{Code, truncated};

/// `src0` of a DPP8 instruction: lanes switched off by `EXEC` read as 0, or are read.
const DPP8_FI: [u64; 2] = [0xe9, 0xea];
/// Source number that asks for a literal.
const LITERAL: u32 = 255;
/// Source numbers of gfx9 that ask for a dword of SDWA or DPP.
const MODIFIERS: [u32; 2] = [0xf9, 0xfa];
/// Bit of an operand that makes it an accumulation register.
const ACC: u32 = 1 << 9;

/// Decodes the instruction at the start of `bytes`, for a wave of 32 lanes.
///
/// # Errors
///
/// [`DecodeError`] when the bytes end too early or are not an instruction of `arch`.
pub fn decode(arch: Arch, bytes: &[u8]) -> Result<Inst, DecodeError> {
    decode_for(arch, WaveSize::Wave32, bytes)
}

/// Decodes the instruction at the start of `bytes`.
///
/// The wave size selects among forms that exist in one size only: VOPD in waves of 32, and the register counts of the
/// matrix operations.
///
/// # Errors
///
/// [`DecodeError`] when the bytes end too early or are not an instruction of `arch` in waves of this size.
pub fn decode_for(arch: Arch, wave: WaveSize, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let tables = tables::of(arch);
    let code = Code::new(bytes)?;
    let mut failure = None;
    for table in tables.tables {
        if usize::from(table.bytes) > code.available {
            continue;
        }
        let Some(index) = find(tables, table, (wave, tables::bit(arch)), code.bits) else { continue };
        let reader =
            Reader::new((tables, RegisterFile::of(arch)), &tables.forms[index], wave, table.bytes, code);
        match reader.inst(index) {
            Ok(inst) => return Ok(inst),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| code.unknown(Notation::of(arch))))
}

/// Returns the number of dwords at the beginning of `bytes`, which is no instruction, to step over: the minimum
/// length of the encoding, so that the dwords after it are read in step.
pub(crate) fn unreadable(arch: Arch, bytes: &[u8]) -> u32 {
    let Some(word) = bytes.first_chunk().copied().map(u32::from_le_bytes) else { return 1 };
    let (_, length) = Notation::of(arch).encoding(word);
    u32::try_from(length.min(bytes.len()) / 4).unwrap_or(1).max(1)
}

/// Index of the form in `table` that the bits match.
fn find(tables: &Tables, table: &Table, (wave, processor): (WaveSize, u8), bits: u128) -> Option<usize> {
    let bits = if table.bytes < 16 { bits & ((1 << (u32::from(table.bytes) * 8)) - 1) } else { bits };
    let first = usize::from(table.first);
    tables.groups[first..first + usize::from(table.len)].iter().find_map(|group| {
        let first = usize::from(group.first);
        let forms = &tables.forms[first..first + usize::from(group.len)];
        let key = bits & group.mask;
        let selects = |form: &Form| form.value & group.mask;
        // Most groups belong to other encodings: their values lie all below or all above.
        if !(selects(forms.first()?)..=selects(forms.last()?)).contains(&key) {
            return None;
        }
        let start = forms.partition_point(|form| selects(form) < key);
        forms[start..]
            .iter()
            .take_while(|form| selects(form) == key)
            .position(|form| {
                let other = match wave {
                    WaveSize::Wave32 => Flags::W64,
                    WaveSize::Wave64 => Flags::W32,
                };
                form.processors & processor != 0 && !form.flags.has(other)
            })
            .map(|position| first + start + position)
    })
}

/// Reads the operands of one form.
struct Reader {
    tables: &'static Tables,
    file: &'static RegisterFile,
    form: &'static Form,
    wave: WaveSize,
    code: Code,
    /// Length of the encoding without a trailing literal.
    bytes: usize,
    /// The literal: the encoding's own constant, or the dword after the encoding once an operand asked for it.
    literal: Option<u32>,
    /// True if the literal follows the encoding.
    trailing: bool,
}

impl Reader {
    fn new(
        (tables, file): (&'static Tables, &'static RegisterFile),
        form: &'static Form,
        wave: WaveSize,
        bytes: u8,
        code: Code,
    ) -> Reader {
        Reader { tables, file, form, wave, code, bytes: usize::from(bytes), literal: None, trailing: false }
    }

    fn invalid(&self) -> DecodeError {
        DecodeError::InvalidOperand { op: self.form.op, word: self.code.word(0) }
    }

    /// The whole instruction.
    fn inst(mut self, index: usize) -> Result<Inst, DecodeError> {
        let form = self.form;
        let flags = form.flags;
        if self.lacks_modifiers() {
            return Err(self.invalid());
        }
        let mut inst = Inst {
            op: form.op,
            format: form.format,
            size: 0,
            form: u16::try_from(index).unwrap_or(u16::MAX),
            dst: Operand::None,
            dst2: Operand::None,
            src: [Operand::None; 4],
            mods: Mods { op_sel_hi: 7, ..Mods::default() },
            dpp: None,
            sdwa: None,
            mem: MemFields {
                offen: flags.has(Flags::OFFEN),
                idxen: flags.has(Flags::IDXEN),
                tfe: flags.has(Flags::TFE),
                lds: flags.has(Flags::LDS),
                glc: flags.has(Flags::RTN) && !form.format.is_image(),
                ..MemFields::default()
            },
            imm: 0,
            dual: form.dual.or(self.scales()).map(|op| Dual {
                op,
                dst: Operand::None,
                src: [Operand::None; 3],
            }),
        };
        let specs = self.tables.operands_of(form);
        // A constant inside the encoding is known before the operands that refer to it.
        for &spec in specs {
            if self.tables.kind(spec).decode == Decode::Literal && spec.0 == Name::Imm {
                let value = gather(self.code.bits, self.tables.field(spec));
                self.literal = u32::try_from(value).ok();
            }
        }
        for &spec in specs {
            let kind = self.tables.kind(spec);
            let field = self.tables.field(spec);
            if field.is_empty() {
                continue;
            }
            let value = gather(self.code.bits, field);
            match kind.decode {
                Decode::Imm => self.number(&mut inst, spec.0, value, field)?,
                _ => {
                    let operand = self.operand(&mut inst, spec.0, kind, value)?;
                    self.place(&mut inst, spec.0, operand);
                }
            }
        }
        inst.mods.op_sel |= halves::read(self.tables, form, self.code.bits);
        self.implied(&mut inst);
        if form.format == Format::Mimg {
            self.image_addresses(&mut inst)?;
        }
        if !fields::fits(&inst) {
            return Err(self.invalid());
        }
        let size = self.bytes + if self.trailing { 4 } else { 0 };
        inst.size = u8::try_from(size).unwrap_or(u8::MAX);
        Ok(inst)
    }

    /// The operation that loads the scales of a matrix instruction, if that is part of the form.
    fn scales(&self) -> Option<Op> {
        let mut specs = self.tables.operands_of(self.form).iter();
        specs.any(|spec| spec.0 == Name::ScaleSrc0).then_some(Op::V_MFMA_LD_SCALE_B32)
    }

    /// Returns true if the first source announces a dword of DPP or SDWA, and the form has none.
    ///
    /// Forms with a first source refuse these numbers by themselves; those without one, as `v_nop`, do not read the field.
    fn lacks_modifiers(&self) -> bool {
        self.bytes == 4
            && self.form.format == Format::Vop1
            && self.file.flat_scratch.is_some()
            && MODIFIERS.contains(&(self.code.word(0) & 0x1ff))
    }

    /// Operand of `kind` with encoded value `value`.
    fn operand(
        &mut self,
        inst: &mut Inst,
        name: Name,
        kind: &Kind,
        value: u64,
    ) -> Result<Operand, DecodeError> {
        let value = u32::try_from(value).map_err(|_| self.invalid())?;
        let width = u32::from(kind.width);
        match kind.decode {
            Decode::Vgpr if kind.class == "VGPR_32_Lo128" => Ok(self.half(inst, name, value)),
            Decode::Vgpr => self.vgpr(value, width),
            Decode::Agpr => self.agpr(value, width),
            Decode::Av if value & ACC != 0 => self.agpr(value & 0xff, width),
            Decode::Av => self.vgpr(value & 0xff, width),
            Decode::AvMemory if value & ACC != 0 || self.follows_accumulator(inst, name) => {
                self.agpr(value & 0xff, width)
            }
            Decode::AvMemory => self.vgpr(value & 0xff, width),
            Decode::SrcAgpr if value >= 256 => self.agpr(value - 256, width),
            Decode::SrcAv if value & ACC != 0 && value & 256 != 0 => self.agpr(value & 0xff, width),
            Decode::SrcAv => self.source(value & !ACC, width),
            Decode::SrcAgpr => self.source(value, width),
            Decode::SdwaSrc if value < 256 => self.vgpr(value, width),
            Decode::SdwaSrc if value - 256 == LITERAL => Err(self.invalid()),
            Decode::SdwaSrc => self.source(value - 256, width),
            Decode::SdwaVopcDst if value & 0x80 == 0 => Ok(Operand::Sgpr(self.file.vcc)),
            Decode::SdwaVopcDst => self.source(value & 0x7f, 2),
            Decode::VgprT16 => Ok(self.half(inst, name, value)),
            Decode::SrcT16 if value >= 256 => Ok(self.half(inst, name, value - 256)),
            Decode::Src if value >= 256 && kind.class == "VS_32_Lo128" => {
                Ok(self.half(inst, name, value - 256))
            }
            // LLVM takes what is no vector register for one.
            Decode::Src if value < 256 && kind.class == "VGPR_16" => Err(self.invalid()),
            Decode::Sgpr | Decode::Src | Decode::SrcT16 => self.source(value, width),
            Decode::Bool => match self.wave {
                WaveSize::Wave32 => self.source(value, 1),
                WaveSize::Wave64 => self.source(value, 2),
            },
            Decode::VopdDstY => {
                let Operand::Vgpr(x) = inst.dst else { return Err(self.invalid()) };
                self.vgpr(value | u32::from(!x & 1), 1)
            }
            Decode::Literal | Decode::Imm => Ok(Operand::Literal(value)),
        }
    }

    /// Half of a VGPR: 16-bit operands of the short encodings have 128 registers and a bit for the half.
    #[expect(clippy::unused_self, reason = "one of the operand readers")]
    fn half(&self, inst: &mut Inst, name: Name, value: u32) -> Operand {
        if value & 0x80 != 0 {
            inst.mods.op_sel |= halves::bit(inst.op, name);
        }
        Operand::Vgpr(low8(value & 0x7f))
    }

    fn vgpr(&self, number: u32, width: u32) -> Result<Operand, DecodeError> {
        if number + width.max(1) > 256 {
            return Err(self.invalid());
        }
        Ok(Operand::Vgpr(low8(number)))
    }

    fn agpr(&self, number: u32, width: u32) -> Result<Operand, DecodeError> {
        self.vgpr(number, width)?;
        Ok(Operand::Agpr(low8(number)))
    }

    /// Returns true if an operand of a memory instruction is an accumulation register because the operand before it
    /// is one.
    #[expect(clippy::unused_self, reason = "one of the operand readers")]
    fn follows_accumulator(&self, inst: &Inst, name: Name) -> bool {
        let before = match (name, inst.format) {
            (Name::Data1, _) => inst.src[1],
            (Name::Data0, _) => inst.dst,
            (Name::Vdata, format) if !format.is_buffer() => inst.dst,
            _ => Operand::None,
        };
        matches!(before, Operand::Agpr(_))
    }

    /// Source number `value`, `width` registers wide.
    fn source(&mut self, value: u32, width: u32) -> Result<Operand, DecodeError> {
        let width = width.max(1);
        Ok(match value {
            256.. => return self.vgpr(value - 256, width),
            0..128 => self.scalar_register(low8(value), width).ok_or_else(|| self.invalid())?,
            128..=192 => Operand::InlineInt(low8(value - 128).cast_signed()),
            193..=208 => Operand::InlineInt(low8(192u32.wrapping_sub(value)).cast_signed()),
            240..=248 => match FloatConst::from_index(low8(value - 240)) {
                Some(constant) => Operand::InlineFloat(constant),
                None => return Err(self.invalid()),
            },
            LITERAL => Operand::Literal(self.trailing_literal()?),
            // The rest are registers of at most 64 bits.
            _ if width > 2 => return Err(self.invalid()),
            235 => Operand::SharedBase,
            236 => Operand::SharedLimit,
            237 => Operand::PrivateBase,
            238 => Operand::PrivateLimit,
            239 => Operand::PopsExitingWaveId,
            251 => Operand::Vccz,
            252 => Operand::Execz,
            253 => Operand::Scc,
            254 if width == 1 => Operand::LdsDirect,
            _ => return Err(self.invalid()),
        })
    }

    /// Scalar register `number`, the first of `width`.
    fn scalar_register(&self, number: u8, width: u32) -> Option<Operand> {
        if self.file.bank(number).is_none() {
            let whole = match width {
                1 => self.file.names(number),
                2 => self.file.names(number) && self.file.begins_any_width(number),
                _ => self.file.is_null(number),
            };
            return whole.then_some(Operand::Sgpr(number));
        }
        self.file.aligned(number, width).map(Operand::Sgpr)
    }

    /// The constant of the encoding, or the dword after it; one literal serves all operands.
    fn trailing_literal(&mut self) -> Result<u32, DecodeError> {
        if let Some(literal) = self.literal {
            return Ok(literal);
        }
        if self.bytes > 4 && self.file.flat_scratch.is_some() {
            return Err(self.invalid()); // No literal follows eight bytes on gfx9.
        }
        if self.bytes + 4 > self.code.available {
            return Err(truncated(self.bytes + 4, self.code.available));
        }
        let literal = self.code.word(self.bytes / 4);
        self.literal = Some(literal);
        self.trailing = true;
        Ok(literal)
    }

    /// Puts a register or constant where [`Inst`] keeps it.
    fn place(&self, inst: &mut Inst, name: Name, operand: Operand) {
        let flags = self.form.flags;
        let fmamk = inst.op.constant_place() == Some(1);
        match name {
            Name::Vdst | Name::VdstX => inst.dst = operand,
            Name::Sdst if flags.has(Flags::SDST_IN) => inst.src[0] = operand,
            Name::Sdst if inst.format == Format::Vop3Sd => inst.dst2 = operand,
            Name::Sdst => inst.dst = operand,
            Name::Src0 | Name::Src0X | Name::Vaddr | Name::Vaddr0 | Name::Addr | Name::Sbase => {
                inst.src[0] = operand;
            }
            Name::Src1 | Name::Vsrc1X => inst.src[if fmamk { 2 } else { 1 }] = operand,
            Name::Srsrc | Name::Rsrc | Name::Data0 => inst.src[1] = operand,
            Name::Soffset if inst.format == Format::Smem => inst.src[1] = operand,
            Name::Src2 | Name::Soffset | Name::Ssamp | Name::Samp | Name::Saddr | Name::Data1 => {
                inst.src[2] = operand;
            }
            Name::Src3 | Name::Idx => inst.src[3] = operand,
            Name::Sdata => inst.src[2] = operand,
            Name::Vdata => match inst.format {
                Format::Mubuf | Format::Mtbuf | Format::Mimg | Format::Vimage | Format::Vsample => {
                    if flags.has(Flags::DATA_OUT) {
                        inst.dst = operand;
                    }
                    if flags.has(Flags::DATA_IN) {
                        inst.src[3] = operand;
                    }
                }
                _ => inst.src[1] = operand,
            },
            Name::Imm => match inst.format {
                Format::Vopd => self.place_vopd_constant(inst, operand),
                Format::Sopk => inst.src[0] = operand,
                _ => inst.src[if fmamk { 1 } else { 2 }] = operand,
            },
            Name::Vaddr1 | Name::Vaddr2 | Name::Vaddr3 | Name::Vaddr4 => {
                if let Operand::Vgpr(number) = operand {
                    inst.mem.offset |= i32::from(number) << fields::address_shift(name);
                }
            }
            Name::VdstY | Name::Src0Y | Name::Vsrc1Y | Name::ScaleSrc0 | Name::ScaleSrc1 => {
                let Some(dual) = &mut inst.dual else { return };
                match name {
                    Name::VdstY => dual.dst = operand,
                    Name::Src0Y | Name::ScaleSrc0 => dual.src[0] = operand,
                    Name::ScaleSrc1 => dual.src[1] = operand,
                    _ => dual.src[if dual.op.constant_place() == Some(1) { 2 } else { 1 }] = operand,
                }
            }
            _ => {}
        }
    }

    /// The constant of a VOPD belongs to whichever half takes one.
    #[expect(clippy::unused_self, reason = "part of placing an operand")]
    fn place_vopd_constant(&self, inst: &mut Inst, operand: Operand) {
        if let Some(slot) = inst.op.constant_place() {
            inst.src[slot] = operand;
        }
        if let Some(dual) = &mut inst.dual
            && let Some(slot) = dual.op.constant_place()
        {
            dual.src[slot] = operand;
        }
    }

    /// Operands the encoding does not spell out.
    fn implied(&self, inst: &mut Inst) {
        let flags = self.form.flags;
        let (vcc, exec) = (Operand::Sgpr(self.file.vcc), Operand::Sgpr(self.file.exec));
        match inst.format {
            Format::Vopc | Format::Vop3 if flags.has(Flags::DEF_EXEC) => {
                // Older comparisons write another mask as well.
                if inst.dst.is_none() && flags.has(Flags::DEF_VCC) {
                    inst.dst = vcc;
                }
                *(if inst.dst.is_none() { &mut inst.dst } else { &mut inst.dst2 }) = exec;
            }
            Format::Vopc if inst.dst.is_none() && flags.has(Flags::DEF_VCC) => inst.dst = vcc,
            Format::Vop2 => {
                if flags.has(Flags::DEF_VCC) {
                    inst.dst2 = vcc;
                }
                if flags.has(Flags::USE_VCC) {
                    inst.src[2] = vcc;
                }
            }
            // A scalar atomic that returns has its data where the old value goes.
            Format::Smem if flags.has(Flags::RTN) => inst.src[2] = inst.dst,
            // The barrier in `M0`.
            Format::Sop1 if inst.src[0].is_none() && inst.op.names_barrier() => {
                inst.src[0] = Operand::Sgpr(self.file.m0);
            }
            _ => {}
        }
        if inst.op == Op::V_CNDMASK_B32 && inst.format == Format::Vopd {
            inst.src[2] = vcc;
        }
        if flags.has(Flags::ACC) {
            inst.src[2] = inst.dst;
        }
        if let Some(dual) = &mut inst.dual {
            if dual.op == Op::V_CNDMASK_B32 {
                dual.src[2] = vcc;
            }
            if flags.has(Flags::ACC_Y) {
                dual.src[2] = dual.dst;
            }
        }
    }

    /// Reads the addresses an image instruction has outside its encoding.
    fn image_addresses(&mut self, inst: &mut Inst) -> Result<(), DecodeError> {
        let specs = self.tables.operands_of(self.form);
        if specs.iter().any(|spec| spec.0 == Name::Vaddr1) {
            let addresses = self.trailing_literal()?;
            inst.mem.offset = addresses.cast_signed();
        }
        Ok(())
    }
}

/// Collects an operand's bits.
fn gather(bits: u128, field: &[Segment]) -> u64 {
    field.iter().fold(0, |value, &Segment(bit, shift, len)| {
        #[expect(clippy::cast_possible_truncation, reason = "a segment has at most 32 bits")]
        let part = (bits >> bit) as u64 & ((1u64 << len) - 1);
        value | part << shift
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the low byte is asked for")]
const fn low8(value: u32) -> u8 {
    value as u8
}
