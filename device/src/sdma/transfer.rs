//! Packets that move or write many bytes, a part at a time.

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_abi::sdma::{
    ConstantFill, CopyBroadcastLinear, CopyHeader, CopyLinear, CopyLinearSubwin, CopyParameter, Subwin,
    SubwinDepth, SubwinDepthV7, SubwinOrigin, SubwinOriginV7,
};

use belfry_isa::mem::Access;

use super::error::{SdmaError, memory};
use crate::chip::SdmaPackets;
use crate::sanitize::carry_marks;
use crate::vm::AddressSpace;

/// Bytes moved at a time.
const CHUNK: u64 = 1 << 16;
/// Bytes copied at a time if no buffer is between.
const DIRECT: u64 = 1 << 18;
/// Least cost of a row, in bytes, so that many short rows take no longer than few long ones.
const SHORTEST_ROW: u64 = 512;
/// Bytes of the smallest page.
const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// Bits of the counts of linear copies and fills.
const COUNT: u32 = 0x3fff_ffff;

/// Bytes to move or to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transfer {
    /// Copy from one address to one or two others.
    Copy { from: u64, to: u64, second: Option<u64>, bytes: u64 },
    /// Fill with an element, which `pattern` holds as often as it fits.
    Fill { to: u64, pattern: [u8; 8], bytes: u64 },
    /// Copy of the rows of a box.
    Rows { from: Rows, to: Rows, width: u64, rows: u64, height: u64 },
}

/// Addresses of the rows of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rows {
    first: u64,
    /// Bytes from one row to the next.
    pitch: u64,
    /// Bytes from one slice to the next.
    slice: u64,
}

/// Returns column and row, or width and height less one.
fn origin(packets: SdmaPackets, bits: u32) -> (u32, u32) {
    match packets {
        SdmaPackets::V4 | SdmaPackets::V6 => {
            let origin = SubwinOrigin::from_bits(bits);
            (origin.x(), origin.y())
        }
        SdmaPackets::V7 => {
            let origin = SubwinOriginV7::from_bits(bits);
            (origin.x(), origin.y())
        }
    }
}

/// Returns the slice, and the elements from one row to the next and from one slice to the next, less one.
fn depth(packets: SdmaPackets, image: &Subwin) -> (u32, u32, u32) {
    match packets {
        SdmaPackets::V4 | SdmaPackets::V6 => {
            let depth = SubwinDepth::from_bits(image.depth);
            (depth.z(), depth.pitch(), image.slice_pitch & 0xfff_ffff)
        }
        SdmaPackets::V7 => {
            let depth = SubwinDepthV7::from_bits(image.depth);
            (depth.z(), depth.pitch(), image.slice_pitch)
        }
    }
}

impl Rows {
    fn of(packets: SdmaPackets, image: &Subwin, log2: u8) -> Self {
        let (x, y) = origin(packets, image.origin);
        let (z, pitch, slice) = depth(packets, image);
        let (pitch, slice) = (u64::from(pitch) + 1, u64::from(slice) + 1);
        let elements = u64::from(z) * slice + u64::from(y) * pitch + u64::from(x);
        let address = quad(image.addr_lo, image.addr_hi);
        Self { first: address.wrapping_add(elements << log2), pitch: pitch << log2, slice: slice << log2 }
    }

    fn row(&self, slice: u64, row: u64) -> u64 {
        self.first.wrapping_add(slice.wrapping_mul(self.slice)).wrapping_add(row.wrapping_mul(self.pitch))
    }
}

/// Joins two dwords to 64 bits.
pub(super) fn quad(lo: u32, hi: u32) -> u64 {
    u64::from(lo) | u64::from(hi) << 32
}

/// Returns true if two ranges of `bytes` have no address in common, also around the end of the addresses.
fn apart(a: u64, b: u64, bytes: u64) -> bool {
    a.wrapping_sub(b) >= bytes && b.wrapping_sub(a) >= bytes
}

/// Returns the bytes from an address on that are written all or not at all, if faults are tried again: a part must not
/// be read again after it was written. Otherwise there is no such bound.
fn whole(space: &AddressSpace, to: u64) -> u64 {
    if space.waits().is_some() { PAGE_SIZE - to % PAGE_SIZE } else { u64::MAX }
}

/// Refuses a field that asks for something.
pub(super) fn refuse(what: &'static str, value: impl Into<u32>) -> Result<(), SdmaError> {
    match value.into() {
        0 => Ok(()),
        value => Err(SdmaError::Field { what, value }),
    }
}

/// Refuses every option of a copy that is not plain. Cache policies have no effect on a coherent model.
fn check_copy(header: CopyHeader, parameter: CopyParameter) -> Result<(), SdmaError> {
    refuse("COPY encrypt", header.encrypt())?;
    refuse("COPY tmz", header.tmz())?;
    // No public source says if the addresses are then those of the first or of the last bytes.
    refuse("COPY backwards", header.backwards())?;
    refuse("COPY src_sw", parameter.src_sw())?;
    refuse("COPY dst_sw", parameter.dst_sw())
}

impl Transfer {
    pub(super) fn copy(packet: &CopyLinear) -> Result<Self, SdmaError> {
        check_copy(packet.header, packet.parameter)?;
        Ok(Self::Copy {
            from: quad(packet.src_lo, packet.src_hi),
            to: quad(packet.dst_lo, packet.dst_hi),
            second: None,
            bytes: u64::from(packet.count & COUNT) + 1,
        })
    }

    pub(super) fn broadcast(packet: &CopyBroadcastLinear) -> Result<Self, SdmaError> {
        check_copy(packet.first.header, packet.first.parameter)?;
        refuse("COPY dst2_sw", packet.first.parameter.dst2_sw())?;
        Ok(Self::Copy {
            from: quad(packet.first.src_lo, packet.first.src_hi),
            to: quad(packet.first.dst_lo, packet.first.dst_hi),
            second: Some(quad(packet.dst2_lo, packet.dst2_hi)),
            bytes: u64::from(packet.first.count & COUNT) + 1,
        })
    }

    pub(super) fn rows(packets: SdmaPackets, packet: &CopyLinearSubwin) -> Result<Self, SdmaError> {
        let log2 = packet.header.elementsize();
        refuse("COPY tmz", packet.header.tmz())?;
        refuse("COPY elementsize", if log2 > 4 { log2 } else { 0 })?;
        refuse("COPY src_sw", packet.rect_depth.src_sw())?;
        refuse("COPY dst_sw", packet.rect_depth.dst_sw())?;
        let (width, height) = origin(packets, packet.rect);
        let height = u64::from(height) + 1;
        let slices = match packets {
            SdmaPackets::V4 | SdmaPackets::V6 => packet.rect_depth.z(),
            SdmaPackets::V7 => packet.rect_depth.z_v7(),
        };
        Ok(Self::Rows {
            from: Rows::of(packets, &packet.src, log2),
            to: Rows::of(packets, &packet.dst, log2),
            width: (u64::from(width) + 1) << log2,
            rows: height * (u64::from(slices) + 1),
            height,
        })
    }

    pub(super) fn fill(packet: &ConstantFill) -> Result<Self, SdmaError> {
        refuse("CONST_FILL sw", packet.header.sw())?;
        let log2 = packet.header.fillsize();
        refuse("CONST_FILL fillsize", if log2 > 2 { log2 } else { 0 })?;
        let (size, data) = (1 << log2, packet.data.to_le_bytes());
        Ok(Self::Fill {
            to: quad(packet.dst_lo, packet.dst_hi),
            pattern: std::array::from_fn(|at| data[at % size]),
            bytes: (u64::from(packet.count & COUNT) + 1).next_multiple_of(size as u64),
        })
    }

    /// Returns the address of the first byte that is written.
    pub(super) fn to(&self) -> u64 {
        match *self {
            Self::Copy { to, .. } | Self::Fill { to, .. } => to,
            Self::Rows { to, .. } => to.first,
        }
    }

    /// Returns the first address that is read, if any is.
    pub(super) fn source(&self) -> Option<u64> {
        match *self {
            Self::Copy { from, .. } => Some(from),
            Self::Rows { from, .. } => Some(from.first),
            Self::Fill { .. } => None,
        }
    }

    /// Returns the number of all bytes.
    pub(super) fn bytes(&self) -> u64 {
        match *self {
            Self::Copy { bytes, .. } | Self::Fill { bytes, .. } => bytes,
            Self::Rows { width, rows, .. } => width * rows,
        }
    }

    /// Goes on after `done` bytes until the end or until the budget is spent.
    ///
    /// # Errors
    ///
    /// A fault, at which `done` bytes are done. Bytes after those may be written in part; they are written again when
    /// the transfer goes on.
    pub(super) fn run(
        &self,
        space: &AddressSpace,
        done: &mut u64,
        budget: &mut u64,
    ) -> Result<(), SdmaError> {
        let bytes = self.bytes();
        let mut chunk = Vec::new();
        while *done < bytes && *budget > 0 {
            let now = self.part(space, *done, &mut chunk)?;
            *done += now;
            let cost = if matches!(self, Self::Rows { .. }) { now.max(SHORTEST_ROW) } else { now };
            *budget = budget.saturating_sub(cost);
        }
        Ok(())
    }

    /// Returns the address from which the byte after `done` is read; `None` for a fill.
    fn from(&self, done: u64) -> Option<u64> {
        match *self {
            Self::Copy { from, .. } => Some(from.wrapping_add(done)),
            Self::Rows { from, width, height, .. } => {
                let (row, column) = (done / width, done % width);
                Some(from.row(row / height, row % height).wrapping_add(column))
            }
            Self::Fill { .. } => None,
        }
    }

    /// Moves some bytes after `done`, at least one. They go through `chunk` if they cannot go directly.
    fn part(&self, space: &AddressSpace, done: u64, chunk: &mut Vec<u8>) -> Result<u64, SdmaError> {
        let room = CHUNK.min(self.bytes());
        if let Some(from) = self.from(done) {
            space.strike_read(from).map_err(memory("COPY"))?;
        }
        match *self {
            Self::Copy { from, to, second: None, bytes } if apart(from, to, bytes) && !space.has_marks() => {
                let now = DIRECT.min(bytes - done);
                space.copy(from.wrapping_add(done), to.wrapping_add(done), now).map_err(memory("COPY"))?;
                Ok(now)
            }
            Self::Copy { from, to, second, bytes } => {
                let now = room.min(bytes - done).min(whole(space, to.wrapping_add(done)));
                let now = second.map_or(now, |to| now.min(whole(space, to.wrapping_add(done))));
                chunk.resize(now as usize, 0);
                let part = &mut chunk[..];
                space.read_bytes(from.wrapping_add(done), part).map_err(memory("COPY"))?;
                if let Some(second) = second.filter(|_| space.waits().is_some()) {
                    // Checked first: a write to the first address may change the bytes that are read again after a
                    // fault.
                    space.translate(second.wrapping_add(done), Access::Write).map_err(memory("COPY"))?;
                }
                for to in [Some(to), second].into_iter().flatten() {
                    write(space, from.wrapping_add(done), to.wrapping_add(done), part)?;
                }
                Ok(now)
            }
            Self::Fill { to, pattern, bytes } => {
                let now = DIRECT.min(bytes - done);
                let mut pattern = pattern;
                pattern.rotate_left((done % 8) as usize);
                space.fill(to.wrapping_add(done), pattern, now).map_err(memory("CONST_FILL"))?;
                Ok(now)
            }
            Self::Rows { from, to, width, height, .. } => {
                let (row, column) = (done / width, done % width);
                let (slice, row) = (row / height, row % height);
                let [from, to] = [from, to].map(|rows| rows.row(slice, row).wrapping_add(column));
                let now = room.min(width - column).min(whole(space, to));
                chunk.resize(now as usize, 0);
                let part = &mut chunk[..];
                space.read_bytes(from, part).map_err(memory("COPY"))?;
                write(space, from, to, part)?;
                Ok(now)
            }
        }
    }
}

/// Writes bytes that were read at `from`.
fn write(space: &AddressSpace, from: u64, to: u64, part: &[u8]) -> Result<(), SdmaError> {
    if !space.has_marks() {
        return space.write_bytes(to, part).map_err(memory("COPY"));
    }
    let mut part = part.to_vec();
    carry_marks(from, to, &mut part);
    space.write_bytes(to, &part).map_err(memory("COPY"))
}
