//! Buffer descriptors: where an element is, and whether it is inside.
//!
//! The four words are laid out as `SQ_BUF_RSRC_WORD0..3` of gfx11: base address, stride and swizzle, number of records,
//! and component selects, format, index stride and the kind of bounds check.

use super::buffer_format::unified;
use crate::exec::di::{Di, flag};
use crate::wave::Wave;

/// Bits of [`Di::imm`] of a buffer instruction.
pub(crate) mod field {
    /// Bits 22:0: byte offset of the instruction.
    pub(crate) const OFFSET: u32 = 0x7f_ffff;
    /// First bit of the format number of MTBUF, which has seven.
    pub(crate) const FORMAT: u32 = 23;
    /// VADDR holds an offset.
    pub(crate) const OFFEN: u32 = 1 << 30;
    /// VADDR holds an index.
    pub(crate) const IDXEN: u32 = 1 << 31;
}

/// `OOB_SELECT`: what a bounds check compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The index with the records, the offset with the stride.
    Structured,
    /// The index with the records.
    Index,
    /// Nothing, unless there are no records at all.
    Empty,
    /// The offset with the records, which are bytes; swizzled buffers as [`Check::Structured`].
    Raw,
}

/// A descriptor, and the wave's part of every lane's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    base: u64,
    stride: u64,
    records: u64,
    /// Bytes that stay together when the buffer is swizzled.
    element: Option<u64>,
    /// Records whose elements are interleaved.
    index_stride: u64,
    add_thread: bool,
    check: Check,
    /// Number of the format, for instructions that have none themselves.
    pub(crate) format: u32,
    /// `DST_SEL_X..W`.
    pub(crate) select: [u32; 4],
}

/// Place of a lane's element in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    index: u64,
    offset: u64,
}

impl Buffer {
    /// The descriptor in the scalar registers an instruction names, with SOFFSET added to its base.
    pub(crate) fn of(w: &Wave, d: &Di) -> Buffer {
        let at = d.src[1].value as usize;
        let word = |n: usize| w.s[(at + n) & 255];
        let (high, last) = (word(1), word(3));
        if d.flags & flag::OLD_DESCRIPTOR != 0 {
            return Buffer::old([word(0), high, word(2), last], u64::from(d.src[2].scalar(w)));
        }
        Buffer {
            base: (u64::from(word(0)) | u64::from(high & 0xffff) << 32)
                .wrapping_add(u64::from(d.src[2].scalar(w))),
            stride: u64::from(high >> 16 & 0x3fff),
            records: u64::from(word(2)),
            element: match high >> 30 {
                0 => None,
                size => Some(2 << size),
            },
            index_stride: 8 << (last >> 21 & 3),
            add_thread: last >> 23 & 1 != 0,
            check: match last >> 28 & 3 {
                0 => Check::Structured,
                1 => Check::Index,
                2 => Check::Empty,
                _ => Check::Raw,
            },
            format: last >> 12 & 63,
            select: [0, 3, 6, 9].map(|shift| last >> shift & 7),
        }
    }

    /// A descriptor of gfx9 (`SQ_BUF_RSRC_WORD0..3` of gfx9: a data format, a number format and no kind of bounds check): without
    /// stride or swizzle the offset is compared with the bytes there are, else the index with the records.
    #[cold]
    fn old([low, high, records, last]: [u32; 4], soffset: u64) -> Buffer {
        let swizzles = high >> 31 != 0;
        let add_thread = last >> 23 & 1 != 0;
        let (data, number) = (last >> 15 & 15, last >> 12 & 7);
        // With thread numbers the data format is the upper part of the stride.
        let stride = u64::from(high >> 16 & 0x3fff) | if add_thread { u64::from(data) << 14 } else { 0 };
        let structured = stride != 0 && swizzles;
        Buffer {
            base: (u64::from(low) | u64::from(high & 0xffff) << 32).wrapping_add(soffset),
            stride,
            records: u64::from(records).saturating_sub(if structured { 0 } else { soffset }),
            element: swizzles.then_some(4),
            index_stride: 8 << (last >> 21 & 3),
            add_thread,
            check: if structured { Check::Structured } else { Check::Raw },
            format: if add_thread { 0 } else { unified(data, number) },
            select: [0, 3, 6, 9].map(|shift| last >> shift & 7),
        }
    }

    /// Index and offset of a lane.
    pub(crate) fn place(&self, w: &Wave, d: &Di, lane: u32) -> Place {
        let vector = |n: u32| u64::from(w.v.lane(d.src[0].value + n * w.halves + lane / 32, lane & 31));
        let (indexed, offsets) = (d.imm & field::IDXEN != 0, d.imm & field::OFFEN != 0);
        let index = if indexed { vector(0) } else { 0 };
        let offset = if offsets { vector(u32::from(indexed)) } else { 0 };
        Place {
            index: index + if self.add_thread { u64::from(lane) } else { 0 },
            offset: offset + u64::from(d.imm & field::OFFSET),
        }
    }

    /// Address of a place `further` bytes on, `None` when those `bytes` are outside.
    pub(crate) fn address(&self, place: Place, further: u64, bytes: u64) -> Option<u64> {
        let (index, offset) = (place.index, place.offset + further);
        let linear = index * self.stride + offset;
        let structured = index >= self.records || offset + bytes > self.stride;
        let outside = match self.check {
            Check::Structured => structured,
            Check::Index => index >= self.records,
            Check::Empty => self.records == 0,
            Check::Raw if self.element.is_some() && self.stride != 0 => structured,
            Check::Raw => linear + bytes > self.records,
        };
        if outside {
            return None;
        }
        let at = match self.element {
            None => linear,
            Some(element) => {
                let row = index / self.index_stride * self.stride + offset / element * element;
                row * self.index_stride + index % self.index_stride * element + offset % element
            }
        };
        Some(self.base.wrapping_add(at))
    }
}
