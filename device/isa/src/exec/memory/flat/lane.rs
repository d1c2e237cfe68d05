//! Accesses of one lane, wherever its element is.

use super::address::{advance, scratch_address};
use super::failure::{Failure, check_scratch};
use crate::exec::di::Machine;
use crate::mem::{Access, Segment, Word};
use crate::wave::Wave;

/// Loads one value of at most 32 bits for a lane.
#[inline(always)]
pub(super) fn load_lane<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
) -> Result<T, Failure> {
    let bytes = T::SIZE as u32;
    match at {
        Segment::Global(va) => m.global.load(va).map_err(Failure::Memory),
        Segment::Shared(address) => {
            if !m.lds.contains(address, bytes) {
                return Err(Failure::Lds(address));
            }
            let word = u64::from_le_bytes(m.lds.get(address));
            Ok(T::from_u64(word))
        }
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Read)?;
            if offset % 4 + bytes <= 4 {
                return m.global.load(scratch_address(w, lane, offset)).map_err(Failure::Memory);
            }
            let mut bits = 0;
            for n in 0..bytes {
                let byte: u8 =
                    m.global.load(scratch_address(w, lane, offset + n)).map_err(Failure::Memory)?;
                bits |= u64::from(byte) << (n * 8);
            }
            Ok(T::from_u64(bits))
        }
    }
}

/// Loads `N` dwords for a lane, the highest first.
#[inline(always)]
pub(super) fn load_words<const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
) -> Result<[u32; N], Failure> {
    if let Segment::Global(va) = at {
        return m.global.load_words(va).map_err(Failure::Memory);
    }
    let mut words = [0; N];
    for n in (0..N).rev() {
        words[n] = load_lane(w, m, advance(at, n), lane)?;
    }
    Ok(words)
}

/// Stores `N` dwords for a lane, all of them or none.
#[inline(always)]
pub(super) fn store_words<const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    words: [u32; N],
) -> Result<(), Failure> {
    if let Segment::Global(va) = at {
        return m.global.store_words(va, words).map_err(Failure::Memory);
    }
    if N > 1 {
        reach(w, m, at, lane, N as u32 * 4)?;
    }
    for (n, word) in words.into_iter().enumerate() {
        store_lane(w, m, advance(at, n), lane, word)?;
    }
    Ok(())
}

/// Stores one value of at most 32 bits for a lane.
#[inline(always)]
pub(super) fn store_lane<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    value: T,
) -> Result<(), Failure> {
    let bytes = T::SIZE as u32;
    match at {
        Segment::Global(va) => m.global.store(va, value).map_err(Failure::Memory),
        Segment::Shared(address) => {
            if !m.lds.contains(address, bytes) {
                return Err(Failure::Lds(address));
            }
            for n in 0..bytes {
                m.lds.put(address + n, [(value.to_u64() >> (n * 8)) as u8]);
            }
            Ok(())
        }
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Write)?;
            if offset % 4 + bytes <= 4 {
                return m.global.store(scratch_address(w, lane, offset), value).map_err(Failure::Memory);
            }
            reach(w, m, at, lane, bytes)?;
            for n in 0..bytes {
                let byte = (value.to_u64() >> (n * 8)) as u8;
                m.global.store(scratch_address(w, lane, offset + n), byte).map_err(Failure::Memory)?;
            }
            Ok(())
        }
    }
}

/// Makes sure that a lane's store of `bytes` bytes, which takes several accesses, can be done as a whole.
#[inline(always)]
pub(super) fn reach(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    bytes: u32,
) -> Result<(), Failure> {
    match at {
        Segment::Global(va) => m.global.reaches(va, bytes.into()).map_err(Failure::Memory),
        Segment::Shared(address) if m.lds.contains(address, bytes) => Ok(()),
        Segment::Shared(address) => Err(Failure::Lds(address)),
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Write)?;
            let first = scratch_address(w, lane, offset);
            let last = scratch_address(w, lane, offset + bytes - 1);
            m.global.reaches(first, last.wrapping_sub(first).wrapping_add(1)).map_err(Failure::Memory)
        }
    }
}

/// Refuses an atomic of LDS at an address that is no multiple of its size, as the atomics of DS do.
fn aligned(at: Segment, bytes: u32) -> Result<(), Failure> {
    match at {
        Segment::Shared(address) if !address.is_multiple_of(bytes) => Err(Failure::LdsMisaligned(address)),
        _ => Ok(()),
    }
}

/// An atomic on memory only this workgroup or lane sees.
pub(super) fn modify_lane<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    update: impl Fn(T) -> T,
) -> Result<T, Failure> {
    aligned(at, T::SIZE as u32)?;
    let old = load_lane::<T>(w, m, at, lane)?;
    store_lane(w, m, at, lane, update(old))?;
    Ok(old)
}

pub(super) fn modify64(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    update: impl Fn(u64) -> u64,
) -> Result<u64, Failure> {
    aligned(at, 8)?;
    let low: u32 = load_lane(w, m, at, lane)?;
    let high: u32 = load_lane(w, m, advance(at, 1), lane)?;
    reach(w, m, at, lane, 8)?;
    let old = u64::from(low) | u64::from(high) << 32;
    let new = update(old);
    store_lane(w, m, at, lane, new as u32)?;
    store_lane(w, m, advance(at, 1), lane, (new >> 32) as u32)?;
    Ok(old)
}
