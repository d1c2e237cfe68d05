//! MUBUF and MTBUF.

use belfry_isa::inst::{Format, Inst, Operand};

use super::atomic::Function;
use super::gfx9::buffer_format;
use super::memory::{Transfer, put, take, transfer};
use super::number::{F16, F32, Rules, convert, from_double, half_value};
use super::state::{End, State};

/// A descriptor's fields.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    base: u64,
    stride: u64,
    records: u64,
    /// Bytes that stay together; 0 when the buffer is not swizzled.
    element: u64,
    index_stride: u64,
    add_thread: bool,
    check: u32,
    format: u32,
    select: [u32; 4],
}

impl Descriptor {
    fn read(state: &State, inst: &Inst) -> Result<Descriptor, End> {
        let Operand::Sgpr(at) = inst.src[1] else { return Err(End::Unknown) };
        let word = [0, 1, 2, 3].map(|n| if at == state.null() { 0 } else { state.sgpr(at + n) });
        let soffset = u64::from(state.scalar(inst.src[2]));
        if state.facts().is_gfx9 {
            return Ok(Descriptor::older(word, soffset));
        }
        Ok(Descriptor {
            base: (u64::from(word[0]) | u64::from(word[1] & 0xffff) << 32).wrapping_add(soffset),
            stride: u64::from(word[1] >> 16 & 0x3fff),
            records: u64::from(word[2]),
            element: [0, 4, 8, 16][(word[1] >> 30) as usize],
            index_stride: 8 << (word[3] >> 21 & 3),
            add_thread: word[3] >> 23 & 1 != 0,
            check: word[3] >> 28 & 3,
            format: word[3] >> 12 & 63,
            select: [0, 3, 6, 9].map(|shift| word[3] >> shift & 7),
        })
    }

    /// A descriptor of GFX9: whether it is checked by record or by byte follows from stride and swizzle.
    fn older(word: [u32; 4], soffset: u64) -> Descriptor {
        let field = |n: usize, low: u32, bits: u32| word[n] >> low & ((1 << bits) - 1);
        let by_thread = field(3, 23, 1) == 1;
        let data_format = field(3, 15, 4);
        let stride = u64::from(field(1, 16, 14) + if by_thread { data_format << 14 } else { 0 });
        let swizzled = field(1, 31, 1) == 1;
        let by_record = stride > 0 && swizzled;
        let records = u64::from(word[2]);
        Descriptor {
            base: (u64::from(word[0]) | u64::from(field(1, 0, 16)) << 32).wrapping_add(soffset),
            stride,
            records: if by_record { records } else { records.saturating_sub(soffset) },
            element: if swizzled { 4 } else { 0 },
            index_stride: 8 << field(3, 21, 2),
            add_thread: by_thread,
            check: if by_record { 0 } else { 3 },
            format: if by_thread { 0 } else { buffer_format(data_format, field(3, 12, 3)) },
            select: [0, 3, 6, 9].map(|low| field(3, low, 3)),
        }
    }

    /// Address of `bytes` at an index and offset; `None` when they are outside.
    fn address(&self, index: u64, offset: u64, bytes: u64) -> Option<u64> {
        let structured = index >= self.records || offset + bytes > self.stride;
        let outside = match self.check {
            0 => structured,
            1 => index >= self.records,
            2 => self.records == 0,
            _ if self.element != 0 && self.stride != 0 => structured,
            _ => index * self.stride + offset + bytes > self.records,
        };
        if outside {
            return None;
        }
        let Some(block) = offset.checked_div(self.element) else {
            return Some(self.base.wrapping_add(index * self.stride + offset));
        };
        // Records are interleaved element by element, in groups of `index_stride`.
        let (group, lane) = (index / self.index_stride, index % self.index_stride);
        let row = group * self.stride + block * self.element;
        let at = row * self.index_stride + lane * self.element + offset % self.element;
        Some(self.base.wrapping_add(at))
    }
}

/// Runs a buffer instruction.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Result<(), End> {
    let mnemonic = inst.op.mnemonic();
    if mnemonic.contains("_inv") || mnemonic.contains("_wb") {
        return Ok(());
    }
    let (_, name) = mnemonic.split_once("buffer_").ok_or(End::Unknown)?;
    let descriptor = Descriptor::read(state, inst)?;
    let vdata = match (inst.dst, inst.src[3]) {
        (operand @ (Operand::Vgpr(_) | Operand::Agpr(_)), _) | (_, operand) => {
            state.vector_register(operand).unwrap_or_default()
        }
    };
    for lane in state.active() {
        let vaddr = match inst.src[0] {
            Operand::Vgpr(register) => u32::from(register),
            _ => 0,
        };
        let vector = |n: u32| u64::from(state.vgpr(vaddr + n, lane));
        let index = if inst.mem.idxen { vector(0) } else { 0 };
        let offset = if inst.mem.offen { vector(u32::from(inst.mem.idxen)) } else { 0 };
        let index = index + if descriptor.add_thread { u64::from(lane) } else { 0 };
        let offset = offset + u64::from(inst.mem.offset as u32);
        let access = Access { descriptor, index, offset, lane, vdata };
        let loaded = if let Some(name) = name.strip_prefix("atomic_") {
            access.atomic(state, inst, name)?
        } else if inst.mem.lds {
            access.load_lds(state, name, inst.mem.offset as u32)?;
            0
        } else if name.contains("format") {
            access.formatted(state, inst, name)?
        } else {
            access.plain(state, name)?
        };
        if inst.mem.tfe && loaded != 0 {
            state.set_vgpr(vdata + loaded, lane, 0);
        }
    }
    Ok(())
}

/// A lane's access.
struct Access {
    descriptor: Descriptor,
    index: u64,
    offset: u64,
    lane: u32,
    vdata: u32,
}

impl Access {
    fn address(&self, further: u64, bytes: u64) -> Option<u64> {
        self.descriptor.address(self.index, self.offset + further, bytes)
    }

    /// Loads and stores of bytes; the registers loaded.
    fn plain(&self, state: &mut State, name: &str) -> Result<u32, End> {
        let transfer = transfer(name).ok_or(End::Unknown)?;
        let unit = transfer.bytes.min(4);
        if name.starts_with("load") {
            let mut bytes = Vec::new();
            for at in (0..transfer.bytes).step_by(unit) {
                bytes.extend(match self.address(at as u64, unit as u64) {
                    Some(va) => state.load(va, unit)?,
                    None => vec![0; unit],
                });
            }
            put(state, self.vdata, self.lane, transfer, &bytes);
            return Ok(transfer.bytes.div_ceil(4) as u32);
        }
        let bytes = take(state, self.vdata, self.lane, transfer);
        for (at, part) in (0u64..).step_by(unit).zip(bytes.chunks(unit)) {
            if let Some(va) = self.address(at, unit as u64) {
                state.store(va, part)?;
            }
        }
        Ok(0)
    }

    fn atomic(&self, state: &mut State, inst: &Inst, name: &str) -> Result<u32, End> {
        let function = Function::parse(name).ok_or(End::Unknown)?;
        let words = function.bits / 32;
        let operand = |n: u32| {
            if words == 2 {
                state.vpair(self.vdata + n * 2, self.lane)
            } else {
                u64::from(state.vgpr(self.vdata + n, self.lane))
            }
        };
        let operands = [operand(0), if function.has_two() { operand(1) } else { 0 }];
        let bytes = function.bits as usize / 8;
        let old = match self.address(0, bytes as u64) {
            // Atomics are aligned.
            Some(va) if va % bytes as u64 != 0 => return Err(End::Memory),
            Some(va) => {
                let old = state.load_number(va, bytes)?;
                let new = function.apply(old, operands[0], operands[1]);
                state.store(va, &new.to_le_bytes()[..bytes])?;
                old
            }
            None => 0,
        };
        if !inst.mem.glc {
            return Ok(0);
        }
        if words == 2 {
            state.set_vpair(self.vdata, self.lane, old);
        } else {
            state.set_vgpr(self.vdata, self.lane, old as u32);
        }
        // The status comes after all data registers that the instruction names.
        Ok(words * if function.has_two() { 2 } else { 1 })
    }

    /// Loads to LDS at `M0` plus the instruction's offset, one dword for each lane.
    fn load_lds(&self, state: &mut State, name: &str, offset: u32) -> Result<(), End> {
        let words = transfer(name).map_or(1, |transfer| transfer.bytes as u32 / 4);
        if words > 1 {
            for n in 0..words {
                let value = match self.address(u64::from(n) * 4, 4) {
                    Some(va) => state.load_number(va, 4)? as u32,
                    None => 0,
                };
                let at = (state.m0() & 0xffff) + offset + (self.lane * words + n) * 4;
                if at as usize + 4 <= state.lds.len() {
                    state.lds_store(at, &value.to_le_bytes())?;
                }
            }
            return Ok(());
        }
        let value = if name.ends_with("format_x") {
            self.components(state, self.descriptor.format)?[0]
        } else {
            let transfer = transfer(name).ok_or(End::Unknown)?;
            let raw = match self.address(0, transfer.bytes as u64) {
                Some(va) => state.load_number(va, transfer.bytes)?,
                None => 0,
            };
            match (transfer.signed, transfer.bytes) {
                (true, 1) => raw as u8 as i8 as i32 as u32,
                (true, 2) => raw as u16 as i16 as i32 as u32,
                _ => raw as u32,
            }
        };
        let at = (state.m0() & 0xffff) + offset + self.lane * 4;
        if state.facts().is_gfx9 && at as usize + 4 > state.lds.len() {
            return Ok(());
        }
        state.lds_store(at, &value.to_le_bytes())
    }

    /// The components of an element, selected, as 32-bit values.
    fn components(&self, state: &State, format: u32) -> Result<[u32; 4], End> {
        let Some(layout) = Layout::of(format) else { return Ok([0; 4]) };
        let bytes = layout.bytes();
        Ok(match self.address(0, bytes as u64) {
            Some(va) => layout.unpack(&state.load(va, bytes)?),
            None => [0; 4],
        })
    }

    /// `format_x` to `format_xyzw`, with descriptor formats (MUBUF) or the instruction's own (MTBUF).
    fn formatted(&self, state: &mut State, inst: &Inst, name: &str) -> Result<u32, End> {
        let typed = inst.format == Format::Mtbuf;
        let format = match u32::from(inst.mem.format) {
            _ if !typed => self.descriptor.format,
            format if state.facts().is_gfx9 => buffer_format(format & 15, format >> 4),
            format => format,
        };
        let letters = name.rsplit_once('_').map_or("", |(_, letters)| letters).len();
        let (d16, high) = (name.contains("d16"), name.contains("d16_hi"));
        let layout = Layout::of(format);
        let one = layout.map_or(0, Layout::one);
        let select = |values: [u32; 4], n: usize| match self.descriptor.select[n] {
            _ if typed => values[n],
            0 => 0,
            1 => one,
            source @ 4..=7 => values[source as usize - 4],
            _ => 0,
        };
        if name.starts_with("load") {
            let inside = layout.is_some_and(|layout| self.address(0, layout.bytes() as u64).is_some());
            let values = self.components(state, format)?;
            let values = if inside { values } else { [0; 4] };
            let values: Vec<u32> = (0..letters).map(|n| select(values, n)).collect();
            if !d16 {
                for (n, value) in (0..).zip(&values) {
                    state.set_vgpr(self.vdata + n, self.lane, *value);
                }
                return Ok(letters as u32);
            }
            let float = layout.is_some_and(Layout::is_float);
            let halves: Vec<u32> = values
                .into_iter()
                .map(|value| {
                    if float {
                        convert::<F32, F16>(u64::from(value), Rules::IEEE, Rules::IEEE) as u32
                    } else {
                        value & 0xffff
                    }
                })
                .collect();
            if letters == 1 {
                let half = Transfer { bytes: 2, signed: false, half: Some(high) };
                put(state, self.vdata, self.lane, half, &halves[0].to_le_bytes()[..2]);
                return Ok(1);
            }
            for (n, pair) in (0..).zip(halves.chunks(2)) {
                let old = state.vgpr(self.vdata + n, self.lane);
                let old = if state.facts().is_gfx9 { 0 } else { old };
                let upper = pair.get(1).map_or(old & 0xffff_0000, |value| value << 16);
                state.set_vgpr(self.vdata + n, self.lane, pair[0] | upper);
            }
            return Ok(letters.div_ceil(2) as u32);
        }
        let Some(layout) = layout else { return Ok(0) };
        let mut registers = [0; 4];
        for (n, value) in registers.iter_mut().take(letters).enumerate() {
            *value = if d16 {
                let word = state.vgpr(self.vdata + n as u32 / 2, self.lane);
                let half = if n % 2 == 1 || high { word >> 16 } else { word & 0xffff };
                layout.widen(half)
            } else {
                state.vgpr(self.vdata + n as u32, self.lane)
            };
        }
        let mut stored = letters;
        if state.facts().repeats_component {
            let first = registers[0];
            registers[letters..].fill(first);
            stored = 4;
        }
        let mut values = [0; 4];
        if typed {
            values = registers;
        } else {
            // Component n goes where select n says.
            for (n, value) in registers.iter().enumerate().take(stored) {
                if let target @ 4..=7 = self.descriptor.select[n] {
                    values[target as usize - 4] = *value;
                }
            }
        }
        let bytes = layout.pack(values);
        if let Some(va) = self.address(0, bytes.len() as u64) {
            state.store(va, &bytes)?;
        }
        Ok(0)
    }
}

/// A format: widths of its components from the lowest bits up, and how they are read.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bits: &'static [u32],
    kind: &'static str,
}

/// The formats in the order of their numbers, from 1 (`BUF_FMT_8_UNORM`) on.
const FORMATS: &[(&[u32], &str)] = &[
    (&[8], "unorm snorm uscaled sscaled uint sint"),
    (&[16], "unorm snorm uscaled sscaled uint sint float"),
    (&[8, 8], "unorm snorm uscaled sscaled uint sint"),
    (&[32], "uint sint float"),
    (&[16, 16], "unorm snorm uscaled sscaled uint sint float"),
    (&[11, 11, 10], "float"),
    (&[10, 11, 11], "float"),
    (&[2, 10, 10, 10], "unorm snorm uint sint"),
    (&[10, 10, 10, 2], "unorm snorm uscaled sscaled uint sint"),
    (&[8, 8, 8, 8], "unorm snorm uscaled sscaled uint sint"),
    (&[32, 32], "uint sint float"),
    (&[16, 16, 16, 16], "unorm snorm uscaled sscaled uint sint float"),
    (&[32, 32, 32], "uint sint float"),
    (&[32, 32, 32, 32], "uint sint float"),
];

impl Layout {
    fn of(format: u32) -> Option<Layout> {
        FORMATS
            .iter()
            .flat_map(|&(bits, kinds)| kinds.split(' ').map(move |kind| Layout { bits, kind }))
            .nth((format as usize).checked_sub(1)?)
    }

    fn bytes(self) -> usize {
        self.bits.iter().sum::<u32>() as usize / 8
    }

    fn is_float(self) -> bool {
        !matches!(self.kind, "uint" | "sint")
    }

    fn one(self) -> u32 {
        if self.is_float() { 1.0_f32.to_bits() } else { 1 }
    }

    /// 16 bits of a register as what a store of 32 would have.
    fn widen(self, half: u32) -> u32 {
        match self.kind {
            "uint" => half,
            "sint" => half as u16 as i16 as i32 as u32,
            _ => convert::<F16, F32>(u64::from(half), Rules::IEEE, Rules::IEEE) as u32,
        }
    }

    fn unpack(self, bytes: &[u8]) -> [u32; 4] {
        let bit = |at: u32| u32::from(bytes[at as usize / 8] >> (at % 8) & 1);
        let mut values = [0, 0, 0, self.one()];
        let mut at = 0;
        for (value, &width) in values.iter_mut().zip(self.bits) {
            let raw = (0..width).fold(0, |raw, n| raw | bit(at + n) << n);
            at += width;
            let signed =
                if raw >> (width - 1) & 1 != 0 { i64::from(raw) - (1i64 << width) } else { i64::from(raw) };
            let largest = (1u64 << width) - 1;
            let single = |value: f64| from_double::<F32>(value, Rules::IEEE) as u32;
            *value = match self.kind {
                "unorm" => single(f64::from(raw) / largest as f64),
                "snorm" => single((signed as f64 / (largest / 2) as f64).max(-1.0)),
                "uscaled" => single(f64::from(raw)),
                "sscaled" => single(signed as f64),
                "uint" => raw,
                "sint" => signed as u32,
                _ if width == 32 => raw,
                _ if width == 16 => convert::<F16, F32>(u64::from(raw), Rules::IEEE, Rules::IEEE) as u32,
                // No sign, five bits of exponent like a half.
                _ => convert::<F16, F32>(u64::from(raw << (15 - width)), Rules::IEEE, Rules::IEEE) as u32,
            };
        }
        values
    }

    fn pack(self, values: [u32; 4]) -> Vec<u8> {
        let mut bytes = vec![0u8; self.bytes()];
        let mut at = 0;
        for (&value, &width) in values.iter().zip(self.bits) {
            let raw = self.component(value, width);
            for n in 0..width {
                bytes[(at + n) as usize / 8] |= ((raw >> n & 1) << ((at + n) % 8)) as u8;
            }
            at += width;
        }
        bytes
    }

    fn component(self, value: u32, width: u32) -> u64 {
        let number = f64::from(f32::from_bits(value));
        let number = if number.is_nan() { 0.0 } else { number };
        let largest = (1u64 << width) - 1;
        let half = (largest / 2) as f64;
        let nearest = |value: f64| value.round_ties_even() as i64 as u64;
        match self.kind {
            "unorm" => nearest(number.clamp(0.0, 1.0) * largest as f64),
            "snorm" => nearest(number.clamp(-1.0, 1.0) * half),
            "uscaled" => number.clamp(0.0, largest as f64) as u64,
            "sscaled" => number.clamp(-half - 1.0, half) as i64 as u64,
            "uint" => u64::from(value).min(largest),
            "sint" => i64::from(value as i32).clamp(-(1 << (width - 1)), (1 << (width - 1)) - 1) as u64,
            _ if width == 32 => u64::from(value),
            _ => {
                let bits = convert::<F32, F16>(u64::from(value), Rules::IEEE, Rules::IEEE);
                if width == 16 {
                    bits
                } else if half_value(bits).is_nan() {
                    largest
                } else if bits & 0x8000 != 0 {
                    0
                } else {
                    bits >> (15 - width)
                }
            }
        }
    }
}
