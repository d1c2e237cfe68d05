//! Scalar memory loads.

use super::ds::narrow::Narrow;
use crate::exec::di::{Di, Flow, Handler, Machine};
use crate::exec::properties::Space;
use crate::wave::Wave;

/// The address that an SBASE pair in `src[0]`, an SOFFSET in `src[1]` and an offset make.
pub(crate) fn address(w: &Wave, d: &Di) -> u64 {
    // The low two bits of each part count as 0.
    let offset = i64::from(d.imm.cast_signed() & !3) + i64::from(d.src[1].scalar(w) & !3);
    (d.src[0].scalar64(w) & !3).wrapping_add_signed(offset)
}

/// As [`address`], with an SOFFSET that counts 64 bytes each.
pub(crate) fn scratch_address(w: &Wave, d: &Di) -> u64 {
    // A number of 64 bytes has no low bits to leave out. FLAT_SCRATCH is no part of the address: programs make the base.
    let offset = i64::from(d.imm.cast_signed() & !3) + i64::from(d.src[1].scalar(w)) * 64;
    (d.src[0].scalar64(w) & !3).wrapping_add_signed(offset)
}

/// `S_LOAD_*` of `N` dwords.
fn load<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let va = address(w, d);
    fetch::<N>(w, m, d, va)
}

/// `S_SCRATCH_LOAD_*` of `N` dwords.
fn scratch_load<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let va = scratch_address(w, d);
    fetch::<N>(w, m, d, va)
}

fn fetch<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di, va: u64) -> Flow {
    // All or nothing.
    match m.global.load_words::<N>(va) {
        Ok(words) => {
            for (n, word) in words.into_iter().enumerate() {
                w.s[(d.dst as usize + n) & 255] = word;
            }
            Flow::NEXT
        }
        Err(fault) => m.memory_fault(fault, 0),
    }
}

/// `S_BUFFER_LOAD_*`: a buffer descriptor in four registers from `src[0]`; dwords out of range read as 0.
fn buffer_load<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (base, size) = range(w, d);
    let offset = offset(w, d);
    if offset + N as u64 * 4 <= size {
        return fetch::<N>(w, m, d, base.wrapping_add(offset));
    }
    let mut words = [0; N];
    let inside = usize::try_from(size.saturating_sub(offset) / 4).unwrap_or(N).min(N);
    let va = base.wrapping_add(offset);
    // If two pages are missing, the fault is of the first one.
    if inside > 0
        && let Err(fault) = m.global.load::<u32>(va)
    {
        return m.memory_fault(fault, 0);
    }
    let mut n = inside;
    while n > 0 {
        // Pairs from the first dword on, as where all are inside.
        let two = n % 2 == 0;
        n -= if two { 2 } else { 1 };
        let at = va.wrapping_add(n as u64 * 4);
        let loaded = if two {
            m.global.load_words(at).map(|pair: [u32; 2]| words[n..n + 2].copy_from_slice(&pair))
        } else {
            m.global.load(at).map(|word| words[n] = word)
        };
        if let Err(fault) = loaded {
            return m.memory_fault(fault, 0);
        }
    }
    for (n, word) in words.into_iter().enumerate() {
        w.s[(d.dst as usize + n) & 255] = word;
    }
    Flow::NEXT
}

/// `S_LOAD_*` of 8 or 16 bits, packed as `aux`.
pub(crate) fn load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let offset = i64::from(d.imm.cast_signed()) + i64::from(d.src[1].scalar(w));
    let va = d.src[0].scalar64(w).wrapping_add_signed(offset);
    fetch_narrow(w, m, d, va)
}

/// `S_BUFFER_LOAD_*` of 8 or 16 bits, packed as `aux`; 0 out of range.
pub(crate) fn buffer_load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (base, size) = range(w, d);
    let offset = u64::from(d.imm.wrapping_add(d.src[1].scalar(w)));
    if offset + u64::from(Narrow::unpack(d.aux).bytes) > size {
        w.s[d.dst as usize & 255] = 0;
        return Flow::NEXT;
    }
    fetch_narrow(w, m, d, base.wrapping_add(offset))
}

fn fetch_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di, va: u64) -> Flow {
    let part = Narrow::unpack(d.aux);
    let value =
        if part.bytes == 1 { m.global.load::<u8>(va).map(u16::from) } else { m.global.load::<u16>(va) };
    match value {
        Ok(value) => {
            w.s[d.dst as usize & 255] = part.merge(0, value);
            Flow::NEXT
        }
        Err(fault) => m.memory_fault(fault, 0),
    }
}

/// The offset into a buffer of SOFFSET in `src[1]` and an offset.
pub(crate) fn offset(w: &Wave, d: &Di) -> u64 {
    u64::from((d.imm & !3).wrapping_add(d.src[1].scalar(w) & !3))
}

/// Base address and bytes of a buffer.
pub(crate) fn range(w: &Wave, d: &Di) -> (u64, u64) {
    let v = d.src[0].value as usize;
    let base = w.pair(v) & 0xffff_ffff_ffff;
    let stride = w.s[(v + 1) & 255] >> 16 & 0x3fff;
    let records = u64::from(w.s[(v + 2) & 255]);
    (base, if stride == 0 { records } else { records * u64::from(stride) })
}

/// Handler of a load of this many dwords from a space of scalar memory.
pub(crate) fn handler(space: Space, dwords: u32) -> Option<Handler> {
    Some(match (space, dwords) {
        (Space::Scalar, 1) => load::<1>,
        (Space::Scalar, 2) => load::<2>,
        (Space::Scalar, 3) => load::<3>,
        (Space::Scalar, 4) => load::<4>,
        (Space::Scalar, 8) => load::<8>,
        (Space::Scalar, 16) => load::<16>,
        (Space::ScalarBuffer, 1) => buffer_load::<1>,
        (Space::ScalarBuffer, 2) => buffer_load::<2>,
        (Space::ScalarBuffer, 3) => buffer_load::<3>,
        (Space::ScalarBuffer, 4) => buffer_load::<4>,
        (Space::ScalarBuffer, 8) => buffer_load::<8>,
        (Space::ScalarBuffer, 16) => buffer_load::<16>,
        (Space::ScalarScratch, 1) => scratch_load::<1>,
        (Space::ScalarScratch, 2) => scratch_load::<2>,
        (Space::ScalarScratch, 4) => scratch_load::<4>,
        _ => return None,
    })
}
