//! Scalar stores and atomics. Addresses are those of scalar loads, and the data is in scalar registers from `dst2` on.

use super::atomic::Function;
use super::smem::{address, offset, range, scratch_address};
use crate::exec::di::{Di, Flow, Handler, Machine, flag};
use crate::exec::properties::Space;
use crate::wave::Wave;

/// A scalar register of the data.
fn data(w: &Wave, d: &Di, n: usize) -> u32 {
    w.s[(d.dst2 as usize + n) & 255]
}

fn data64(w: &Wave, d: &Di, n: usize) -> u64 {
    u64::from(data(w, d, n)) | u64::from(data(w, d, n + 1)) << 32
}

/// `S_STORE_*` of `N` dwords: all of them or none.
fn store<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let va = address(w, d);
    put::<N>(w, m, d, (va, N))
}

/// `S_SCRATCH_STORE_*` of `N` dwords: all of them or none.
fn scratch_store<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let va = scratch_address(w, d);
    put::<N>(w, m, d, (va, N))
}

/// `S_BUFFER_STORE_*`: a buffer descriptor in four registers from `src[0]`; dwords out of range are dropped.
fn buffer_store<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (base, size) = range(w, d);
    let offset = offset(w, d);
    let inside = (size.saturating_sub(offset) / 4).min(N as u64);
    put::<N>(w, m, d, (base.wrapping_add(offset), inside as usize))
}

/// Stores the first `count` of `N` dwords.
fn put<const N: usize>(w: &Wave, m: &mut Machine<'_>, d: &Di, (va, count): (u64, usize)) -> Flow {
    let words: [u32; N] = core::array::from_fn(|n| data(w, d, n));
    let stored = match count {
        0 => Ok(()),
        _ if count == N => m.global.store_words(va, words),
        1 => m.global.store_words(va, [words[0]]),
        2 => m.global.store_words(va, [words[0], words[1 % N]]),
        _ => m.global.store_words(va, [words[0], words[1 % N], words[2 % N]]),
    };
    match stored {
        Ok(()) => Flow::NEXT,
        Err(fault) => m.memory_fault(fault, 0),
    }
}

/// Returns the address of an atomic of `bytes` bytes; `None` if its buffer ends before it does.
fn place<const BUFFER: bool>(w: &Wave, d: &Di, bytes: u64) -> Option<u64> {
    if !BUFFER {
        return Some(address(w, d));
    }
    let (base, size) = range(w, d);
    let offset = offset(w, d);
    (offset + bytes <= size).then(|| base.wrapping_add(offset))
}

/// `S_ATOMIC_*` and `S_BUFFER_ATOMIC_*` of 32 bits, by the function numbered `aux`. What is out of range reads as 0.
fn atomic32<const BUFFER: bool>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    let (new, other) = (data(w, d, 0), data(w, d, 1));
    let old = match place::<BUFFER>(w, d, 4) {
        Some(va) => m.global.update_u32(va, |old| function.apply32(old, new, other)),
        None => Ok(0),
    };
    match old {
        Ok(old) if d.flags & flag::RETURN != 0 => w.s[d.dst as usize & 255] = old,
        Ok(_) => {}
        Err(fault) => return m.memory_fault(fault, 0),
    }
    Flow::NEXT
}

/// As [`atomic32`], of 64 bits.
fn atomic64<const BUFFER: bool>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    let (new, other) = (data64(w, d, 0), data64(w, d, 2));
    let old = match place::<BUFFER>(w, d, 8) {
        Some(va) => m.global.update_u64(va, |old| function.apply64(old, new, other)),
        None => Ok(0),
    };
    match old {
        Ok(old) if d.flags & flag::RETURN != 0 => {
            w.s[d.dst as usize & 255] = old as u32;
            w.s[(d.dst as usize + 1) & 255] = (old >> 32) as u32;
        }
        Ok(_) => {}
        Err(fault) => return m.memory_fault(fault, 0),
    }
    Flow::NEXT
}

/// Handler of a store of this many dwords to a space of scalar memory.
pub(crate) fn store_handler(space: Space, dwords: u32) -> Option<Handler> {
    Some(match (space, dwords) {
        (Space::Scalar, 1) => store::<1>,
        (Space::Scalar, 2) => store::<2>,
        (Space::Scalar, 4) => store::<4>,
        (Space::ScalarBuffer, 1) => buffer_store::<1>,
        (Space::ScalarBuffer, 2) => buffer_store::<2>,
        (Space::ScalarBuffer, 4) => buffer_store::<4>,
        (Space::ScalarScratch, 1) => scratch_store::<1>,
        (Space::ScalarScratch, 2) => scratch_store::<2>,
        (Space::ScalarScratch, 4) => scratch_store::<4>,
        _ => return None,
    })
}

/// Handler of an atomic of this many bits.
pub(crate) fn atomic_handler(is_buffer: bool, bits: u32) -> Handler {
    match (is_buffer, bits) {
        (false, 64) => atomic64::<false>,
        (true, 64) => atomic64::<true>,
        (false, _) => atomic32::<false>,
        (true, _) => atomic32::<true>,
    }
}
