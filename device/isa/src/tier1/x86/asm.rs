//! An assembler for the instructions of compiled regions: AVX-512 on whole registers, masks, and a little integer
//! code.
//!
//! Memory operands are a base register and a displacement, or a constant of the [pool](Assembler::constant). Sources:
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, sections 2.3 (VEX), 2.7 (EVEX) and 3 to 5.

mod elements;
mod links;
mod mark;
mod vex;
mod ways;

pub(crate) use elements::Element;
pub(crate) use links::{Link, Links, Place, Routine};

use super::encoding::{Evex, KMOVW_TO, VMOVD, VMOVQ, VPBROADCASTD_FROM, Vex};

/// A 512-bit register, 0 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zmm(pub(crate) u8);

/// A mask register, 0 to 7; `K0` as a write mask means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) u8);

/// No mask.
pub(crate) const K0: Mask = Mask(0);

/// A general register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

/// Memory at a displacement from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(pub(crate) Gpr, pub(crate) i32);

/// The last source of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(Zmm),
    /// 64 bytes.
    Memory(At),
    /// One dword for all lanes.
    Splat(At),
    /// One constant for all lanes.
    Constant(u32),
    /// One constant of 64 bits for all pairs of lanes.
    Constant64(u64),
    /// A constant for each lane.
    Words([u32; 16]),
    /// A constant for each lane of eight.
    Eight([u32; 8]),
    /// An element for each lane: its distance from a base is in a register.
    Indexed(Gpr, Zmm),
}

impl From<Zmm> for Operand {
    fn from(register: Zmm) -> Operand {
        Operand::Register(register)
    }
}

/// A place in the code, perhaps one that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

/// Conditions of jumps and `setcc`, by their numbers in opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Condition {
    Overflow = 0,
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Less = 12,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
    Greater = 15,
}

/// Two-operand integer instructions, by the numbers of their forms `r, r/m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Integer {
    Add = 0x03,
    Or = 0x0b,
    Adc = 0x13,
    Sbb = 0x1b,
    And = 0x23,
    Sub = 0x2b,
    Xor = 0x33,
    Cmp = 0x3b,
    Mov = 0x8b,
}

/// Target of a displacement.
enum Target {
    Label(Label),
    /// A constant of the pool.
    Constant(usize),
    /// One of those for each lane.
    Words(usize),
    /// One of those for each lane of eight.
    Eight(usize),
}

/// Code in the making.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<u8>,
    /// Place of each label.
    labels: Vec<Option<usize>>,
    /// Labels that are where others are.
    same: Vec<(Label, Label)>,
    /// Displacements to fill in: the place, the place that they count from, and the target.
    open: Vec<(usize, usize, Target)>,
    pool: Vec<u32>,
    words: Vec<[u32; 16]>,
    eights: Vec<[u32; 8]>,
    links: Links,
    /// Rows of vector registers that code stores to memory, except in [cold ways](super::body::Cold) and at the ends
    /// of waves.
    pub(crate) stored: Vec<u32>,
    /// Number of rows that code has loaded from memory.
    pub(crate) filled: usize,
}

impl Assembler {
    /// Bytes so far.
    pub(crate) fn position(&self) -> usize {
        self.code.len()
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to this place.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.code.len());
    }

    /// Returns the code with its constants after it, the places of labels in it, and the addresses of this process
    /// that it has.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<Option<usize>>, Links) {
        // Nothing runs on into the constants.
        self.code.push(0xcc);
        while !self.code.len().is_multiple_of(64) {
            self.code.push(0xcc);
        }
        let words = self.code.len();
        for words in core::mem::take(&mut self.words) {
            self.code.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let eights = self.code.len();
        for words in core::mem::take(&mut self.eights) {
            self.code.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        for (label, other) in core::mem::take(&mut self.same) {
            self.labels[label.0 as usize] = self.labels[other.0 as usize];
        }
        let pool = self.code.len();
        for word in core::mem::take(&mut self.pool) {
            self.code.extend(word.to_le_bytes());
        }
        for (at, from, target) in core::mem::take(&mut self.open) {
            let to = match target {
                Target::Label(label) => self.labels[label.0 as usize].expect("every label is bound"),
                Target::Constant(index) => pool + index * 4,
                Target::Words(index) => words + index * 64,
                Target::Eight(index) => eights + index * 32,
            };
            let distance = (to as i64 - from as i64) as i32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        (self.code, self.labels, self.links)
    }

    /// Returns the index of a label in the list that [`Assembler::finish`] gives.
    pub(crate) fn index(label: Label) -> usize {
        label.0 as usize
    }

    fn constant(&mut self, value: u32) -> usize {
        if let Some(index) = self.pool.iter().position(|&word| word == value) {
            return index;
        }
        self.pool.push(value);
        self.pool.len() - 1
    }

    fn constant64_in_pool(&mut self, value: u64) -> usize {
        let words = [value as u32, (value >> 32) as u32];
        if let Some(index) = self.pool.windows(2).position(|two| two == words) {
            return index;
        }
        self.pool.extend(words);
        self.pool.len() - 2
    }

    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    /// `ModRM`, `SIB` and displacement of a memory operand; a displacement of one byte counts in units of `scale`.
    fn memory(&mut self, reg: u8, At(base, displacement): At, scale: i32) {
        let base = base as u8;
        let short = if displacement % scale == 0 { i8::try_from(displacement / scale).ok() } else { None };
        let mode = if short.is_some() { 0x40 } else { 0x80 };
        self.byte(mode | (reg & 7) << 3 | base & 7);
        if base & 7 == 4 {
            self.byte(0x24);
        }
        match short {
            Some(byte) => self.byte(byte.cast_unsigned()),
            None => self.code.extend(displacement.to_le_bytes()),
        }
    }

    /// A vector instruction of 512 bits: `reg` and `second` are the operands in `ModRM.reg` and `vvvv`.
    pub(crate) fn evex(&mut self, op: Evex, reg: Zmm, second: Zmm, last: impl Into<Operand>) {
        self.masked(op, reg, second, last, K0);
    }

    /// As [`Assembler::evex`], for the lanes of a mask; other lanes stay.
    pub(crate) fn masked(&mut self, op: Evex, reg: Zmm, second: Zmm, last: impl Into<Operand>, mask: Mask) {
        self.vector(op, reg.0, second.0, last.into(), mask);
    }

    /// A comparison to a mask.
    pub(crate) fn compare(&mut self, op: Evex, to: Mask, first: Zmm, last: impl Into<Operand>, mask: Mask) {
        self.vector(op, to.0, first.0, last.into(), mask);
    }

    /// A shift by a constant: `to` is in `vvvv`, and `ModRM.reg` extends the opcode.
    pub(crate) fn shift(&mut self, op: Evex, to: Zmm, from: Zmm, mask: Mask) {
        self.vector(op, op.extension, to.0, Operand::Register(from), mask);
    }

    fn vector(&mut self, op: Evex, reg: u8, second: u8, last: Operand, Mask(mask): Mask) {
        let (x, b) = match last {
            Operand::Register(Zmm(number)) => (number >> 4 & 1, number >> 3 & 1),
            Operand::Memory(At(base, _)) | Operand::Splat(At(base, _)) => (0, base as u8 >> 3),
            Operand::Constant(_) | Operand::Constant64(_) | Operand::Words(_) | Operand::Eight(_) => (0, 0),
            Operand::Indexed(base, Zmm(index)) => (index >> 3 & 1, base as u8 >> 3),
        };
        // The index has its fifth bit where that of `vvvv` is, which means nothing then.
        let second = if let Operand::Indexed(_, Zmm(index)) = last { index & 16 } else { second };
        let one = matches!(last, Operand::Splat(_) | Operand::Constant(_) | Operand::Constant64(_));
        let splat = u8::from(one && !op.scalar || op.rounding.is_some());
        let not = |bit: u8, at: u8| (!bit & 1) << at;
        let p0 = not(reg >> 3, 7) | not(x, 6) | not(b, 5) | not(reg >> 4, 4) | op.map;
        let p1 = u8::from(op.wide) << 7 | (!second & 15) << 3 | 4 | op.prefix;
        let length = op.rounding.unwrap_or(if op.short { 0 } else { 2 }) << 5;
        let p2 = length | splat << 4 | not(second >> 4, 3) | mask;
        self.code.extend([0x62, p0, p1, p2, op.opcode]);
        let unit = if matches!(last, Operand::Splat(_)) { if op.wide { 8 } else { 4 } } else { op.unit };
        self.last(reg, op.immediate, last, unit);
    }

    /// `ModRM` and the bytes after it; displacements of memory operands count in units of `unit`.
    fn last(&mut self, reg: u8, immediate: Option<u8>, last: Operand, unit: i32) {
        match last {
            Operand::Register(Zmm(number)) => self.byte(0xc0 | (reg & 7) << 3 | number & 7),
            Operand::Memory(at) | Operand::Splat(at) => self.memory(reg, at, unit),
            Operand::Indexed(base, Zmm(index)) => {
                self.code.extend([0x44 | (reg & 7) << 3, (index & 7) << 3 | base as u8 & 7, 0]);
            }
            Operand::Constant(value) => {
                let index = self.constant(value);
                self.in_pool(reg, immediate, Target::Constant(index));
            }
            Operand::Constant64(value) => {
                let index = self.constant64_in_pool(value);
                self.in_pool(reg, immediate, Target::Constant(index));
            }
            Operand::Eight(words) => {
                let known = self.eights.iter().position(|known| *known == words);
                let index = known.unwrap_or_else(|| {
                    self.eights.push(words);
                    self.eights.len() - 1
                });
                self.in_pool(reg, immediate, Target::Eight(index));
            }
            Operand::Words(words) => {
                let known = self.words.iter().position(|known| *known == words);
                let index = known.unwrap_or_else(|| {
                    self.words.push(words);
                    self.words.len() - 1
                });
                self.in_pool(reg, immediate, Target::Words(index));
            }
        }
        if let Some(value) = immediate {
            self.byte(value);
        }
    }

    /// `ModRM` and displacement of a constant or label.
    fn in_pool(&mut self, reg: u8, immediate: Option<u8>, target: Target) {
        self.byte((reg & 7) << 3 | 5);
        let at = self.code.len();
        self.code.extend([0; 4]);
        self.open.push((at, at + 4 + usize::from(immediate.is_some()), target));
    }

    /// The first lane of a register to a general register.
    pub(crate) fn first_lane(&mut self, to: Gpr, from: Zmm) {
        self.vector(VMOVD, from.0, 0, Operand::Register(Zmm(to as u8)), K0);
    }

    /// The first two lanes of a register to a general register.
    pub(crate) fn first_two_lanes(&mut self, to: Gpr, from: Zmm) {
        self.vector(VMOVQ, from.0, 0, Operand::Register(Zmm(to as u8)), K0);
    }

    /// A general register to all lanes.
    pub(crate) fn everywhere(&mut self, to: Zmm, from: Gpr) {
        self.vector(VPBROADCASTD_FROM, to.0, 0, Operand::Register(Zmm(from as u8)), K0);
    }

    /// A mask to a general register, whose number stands for a mask's.
    pub(crate) fn mask_to(&mut self, to: Gpr, from: Mask) {
        self.mask(KMOVW_TO, Mask(to as u8), Mask(0), from);
    }

    /// A mask instruction on registers.
    pub(crate) fn mask(&mut self, op: Vex, reg: Mask, second: Mask, rm: Mask) {
        self.code.extend([0xc4, 0xe0 | op.map, op.third(second.0), op.opcode]);
        self.byte(0xc0 | (reg.0 & 7) << 3 | rm.0 & 7);
    }

    /// A mask instruction with a constant.
    pub(crate) fn mask_by(&mut self, op: Vex, reg: Mask, rm: Mask, constant: u8) {
        self.mask(op, reg, Mask(0), rm);
        self.byte(constant);
    }

    /// A mask instruction with memory.
    pub(crate) fn mask_at(&mut self, op: Vex, reg: Mask, at: At) {
        let base = if at.0 as u8 >= 8 { 0 } else { 0x20 };
        self.code.extend([0xc4, 0xc0 | base | op.map, op.third(0), op.opcode]);
        self.memory(reg.0, at, 1);
    }

    fn rex(&mut self, wide: bool, reg: u8, rm: u8) {
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | rm >> 3;
        if rex != 0x40 {
            self.byte(rex);
        }
    }

    /// `op to, [at]`.
    pub(crate) fn load(&mut self, op: Integer, wide: bool, to: Gpr, at: At) {
        self.rex(wide, to as u8, at.0 as u8);
        self.byte(op as u8);
        self.memory(to as u8, at, 1);
    }

    /// `mov [at], from`.
    pub(crate) fn store(&mut self, wide: bool, at: At, from: Gpr) {
        self.rex(wide, from as u8, at.0 as u8);
        self.byte(0x89);
        self.memory(from as u8, at, 1);
    }

    /// `lea to, [at]`.
    pub(crate) fn address(&mut self, to: Gpr, at: At) {
        self.rex(true, to as u8, at.0 as u8);
        self.byte(0x8d);
        self.memory(to as u8, at, 1);
    }

    /// `lea to, [label]`.
    pub(crate) fn address_of_label(&mut self, to: Gpr, label: Label) {
        self.rex(true, to as u8, 0);
        self.byte(0x8d);
        self.in_pool(to as u8, None, Target::Label(label));
    }

    /// `op to, from`.
    pub(crate) fn integer(&mut self, op: Integer, wide: bool, to: Gpr, from: Gpr) {
        self.rex(wide, to as u8, from as u8);
        self.code.extend([op as u8, 0xc0 | (to as u8 & 7) << 3 | from as u8 & 7]);
    }

    /// `op to, value`, sign-extended where wide.
    pub(crate) fn immediate(&mut self, op: Integer, wide: bool, to: Gpr, value: u32) {
        self.rex(wide, 0, to as u8);
        let register = to as u8 & 7;
        if op == Integer::Mov {
            self.code.extend([0xc7, 0xc0 | register]);
        } else {
            let extension = op as u8 >> 3;
            self.code.extend([0x81, 0xc0 | extension << 3 | register]);
        }
        self.code.extend(value.to_le_bytes());
    }

    /// `mov to, value` of 64 bits.
    pub(crate) fn constant64(&mut self, to: Gpr, value: u64) {
        self.code.extend([0x48 | to as u8 >> 3, 0xb8 | to as u8 & 7]);
        self.code.extend(value.to_le_bytes());
    }

    /// `cmp [at], value`, sign-extended where wide.
    pub(crate) fn compare_immediate(&mut self, wide: bool, at: At, value: i8) {
        self.rex(wide, 0, at.0 as u8);
        self.byte(0x83);
        self.memory(7, at, 1);
        self.byte(value.cast_unsigned());
    }

    /// `or byte [at], value` (1), `and` (4) or `cmp byte [at], value` (7), by the extension of the opcode.
    pub(crate) fn byte_immediate(&mut self, extension: u8, at: At, value: u8) {
        self.rex(false, 0, at.0 as u8);
        self.byte(0x80);
        self.memory(extension, at, 1);
        self.byte(value);
    }

    /// The time stamp counter to `Rax`; `Rdx` is used.
    pub(crate) fn ticks(&mut self) {
        self.code.extend([0x0f, 0x31]);
        self.shift_by(4, true, Gpr::Rdx, 32);
        self.integer(Integer::Or, true, Gpr::Rax, Gpr::Rdx);
    }

    /// Asks the processor to fetch a cache line soon, to read or to write it.
    pub(crate) fn prefetch(&mut self, write: bool, at: At) {
        self.rex(false, 0, at.0 as u8);
        // `prefetcht0` or `prefetchw`.
        self.code.extend([0x0f, if write { 0x0d } else { 0x18 }]);
        self.memory(1, at, 1);
    }

    /// `setcc` to a byte, which a word of zeros around it makes 0 or 1; a register below `Rsp`.
    pub(crate) fn set(&mut self, condition: Condition, to: Gpr) {
        self.code.extend([0x0f, 0x90 | condition as u8, 0xc0 | to as u8 & 7]);
        self.code.extend([0x0f, 0xb6, 0xc0 | (to as u8 & 7) << 3 | to as u8 & 7]);
    }

    /// `cmovcc to, from` of 64 bits.
    pub(crate) fn choose(&mut self, condition: Condition, to: Gpr, from: Gpr) {
        self.rex(true, to as u8, from as u8);
        self.code.extend([0x0f, 0x40 | condition as u8, 0xc0 | (to as u8 & 7) << 3 | from as u8 & 7]);
    }

    /// `imul to, from`.
    pub(crate) fn multiply(&mut self, wide: bool, to: Gpr, from: Gpr) {
        self.rex(wide, to as u8, from as u8);
        self.code.extend([0x0f, 0xaf, 0xc0 | (to as u8 & 7) << 3 | from as u8 & 7]);
    }

    /// `shl`, `shr` (5) or `sar` (7) of `to` by `cl`; 4 is `shl`.
    pub(crate) fn shift_by_cl(&mut self, extension: u8, wide: bool, to: Gpr) {
        self.rex(wide, 0, to as u8);
        self.code.extend([0xd3, 0xc0 | extension << 3 | to as u8 & 7]);
    }

    /// Shifts by a constant.
    pub(crate) fn shift_by(&mut self, extension: u8, wide: bool, to: Gpr, count: u8) {
        self.rex(wide, 0, to as u8);
        self.code.extend([0xc1, 0xc0 | extension << 3 | to as u8 & 7, count]);
    }

    /// `test low, low` of 32 or 64 bits.
    pub(crate) fn test(&mut self, wide: bool, register: Gpr) {
        self.rex(wide, register as u8, register as u8);
        self.code.extend([0x85, 0xc0 | (register as u8 & 7) << 3 | register as u8 & 7]);
    }

    pub(crate) fn not(&mut self, wide: bool, register: Gpr) {
        self.rex(wide, 0, register as u8);
        self.code.extend([0xf7, 0xd0 | register as u8 & 7]);
    }
}
