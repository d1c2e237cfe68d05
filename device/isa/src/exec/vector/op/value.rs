//! Values in vector registers: how lanes are read and written.

use crate::exec::di::{Di, Kind, Source, flag};
use crate::exec::vector::op::Format;
use crate::lanes::Lanes;
use crate::registers::slot;
use crate::wave::Wave;

/// A value held in one or two vector registers.
pub(crate) trait Reg: Copy + Default + 'static {
    /// 16, 32 or 64.
    const BITS: u32;
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [Self; 16];
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[Self; 16]);
    fn modify(self, format: Format, source: &Source) -> Self;
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
}

#[inline(always)]
pub(super) fn words(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u32; 16] {
    match source.kind {
        Kind::Vector => w.v.row(source.value + half)[chunk].0,
        _ => [source.scalar(w); 16],
    }
}

impl Reg for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u32; 16] {
        words(w, source, half, chunk)
    }
    #[inline(always)]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u32; 16]) {
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { values[i] } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, format: Format, source: &Source) -> u32 {
        let sign = if format == Format::F16 { 0x8000 } else { 0x8000_0000 };
        let value = if source.abs { self & !sign } else { self };
        if source.neg { value ^ sign } else { value }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn from_bits(bits: u64) -> u32 {
        bits as u32
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Reg for u16 {
    const BITS: u32 = 16;
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the half asked for")]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u16; 16] {
        let shift = if source.high { 16 } else { 0 };
        words(w, source, half, chunk).map(|word| (word >> shift) as u16)
    }
    #[inline(always)]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u16; 16]) {
        let (shift, keep) = if di.flags & flag::DST_HIGH != 0 { (16, 0xffff) } else { (0, 0xffff_0000) };
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            let new = row[i] & keep | u32::from(values[i]) << shift;
            row[i] = if mask >> i & 1 != 0 { new } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, _format: Format, source: &Source) -> u16 {
        let value = if source.abs { self & 0x7fff } else { self };
        if source.neg { value ^ 0x8000 } else { value }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn from_bits(bits: u64) -> u16 {
        bits as u16
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Reg for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn gather(w: &Wave, source: &Source, half: u32, chunk: usize) -> [u64; 16] {
        match source.kind {
            Kind::Vector => {
                let low = &w.v.row(source.value + half)[chunk].0;
                let high = &w.v.row(source.value + half + w.halves)[chunk].0;
                core::array::from_fn(|i| u64::from(low[i]) | u64::from(high[i]) << 32)
            }
            _ => [source.scalar64(w); 16],
        }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "split into halves")]
    fn scatter(w: &mut Wave, di: &Di, half: u32, chunk: usize, mask: u16, values: &[u64; 16]) {
        let halves = w.halves;
        let row = &mut w.v.row_mut(di.dst + half)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { values[i] as u32 } else { row[i] };
        }
        let row = &mut w.v.row_mut(di.dst + half + halves)[chunk].0;
        for i in 0..16 {
            row[i] = if mask >> i & 1 != 0 { (values[i] >> 32) as u32 } else { row[i] };
        }
    }
    #[inline(always)]
    fn modify(self, _format: Format, source: &Source) -> u64 {
        let value = if source.abs { self & !(1 << 63) } else { self };
        if source.neg { value ^ 1 << 63 } else { value }
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> u64 {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
}

/// Sixteen lanes of a 32-bit source, modifiers applied when `MODS`.
#[inline(always)]
pub(crate) fn read<L: Lanes, const PLAIN: bool>(
    w: &Wave,
    source: &Source,
    half: u32,
    format: Format,
) -> [L::V; 2] {
    if PLAIN {
        let row = w.v.row(source.value + half);
        return [L::load(&row[0]), L::load(&row[1])];
    }
    let mut value = match source.kind {
        Kind::Vector => {
            let row = w.v.row(source.value + half);
            [L::load(&row[0]), L::load(&row[1])]
        }
        _ => [L::splat(source.scalar(w)); 2],
    };
    if format == Format::F32 && (source.abs | source.neg) {
        if source.abs {
            let magnitude = L::splat(0x7fff_ffff);
            value = [L::and(value[0], magnitude), L::and(value[1], magnitude)];
        }
        if source.neg {
            let sign = L::splat(0x8000_0000);
            value = [L::xor(value[0], sign), L::xor(value[1], sign)];
        }
    }
    value
}

/// EXEC of a 32-lane half.
#[inline(always)]
pub(crate) fn exec_half(w: &Wave, half: u32) -> u32 {
    w.s[(slot::EXEC + half as usize) & 255]
}

/// Stores 32 lanes where `exec` says.
#[inline(always)]
pub(crate) fn write<L: Lanes>(w: &mut Wave, row: u32, exec: u32, value: [L::V; 2]) {
    let row = w.v.row_mut(row);
    if exec == u32::MAX {
        L::store(&mut row[0], value[0]);
        L::store(&mut row[1], value[1]);
    } else {
        let [low, high] = split(exec);
        L::store_mask(&mut row[0], value[0], low);
        L::store_mask(&mut row[1], value[1], high);
    }
}

/// The masks of both chunks.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "split into halves")]
pub(crate) fn split(exec: u32) -> [u16; 2] {
    [exec as u16, (exec >> 16) as u16]
}
