//! Stores.

#![expect(unsafe_code, reason = "calls a handler of the same backend as the one it is called from")]

use super::address::{Block, block, block32, global_addresses, segment};
use super::failure::{Failure, fail, lanes};
use super::lane::{store_lane, store_words};
use crate::exec::di::{Di, Flow, Machine, leave_to};
use crate::exec::memory::ds::narrow::{Half, Narrow};
use crate::exec::vector::op::{exec_half, per_backend, split};
use crate::lanes::Lanes;
use crate::mem::Word;
use crate::wave::Wave;

#[inline(always)]
pub(super) fn store<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            if mask == 0 {
                continue;
            }
            if let Err(failure) = store_chunk::<L, N>(w, m, d, half, chunk, mask) {
                return fail(w, m, d, (N as u32 * 4, failure.1.trailing_zeros()), failure);
            }
        }
    }
    Flow::NEXT
}

#[inline(always)]
pub(super) fn store_chunk<L: Lanes, const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    half: u32,
    chunk: usize,
    mask: u16,
) -> Result<(), (Failure, u64)> {
    let first_lane = half * 32 + chunk as u32 * 16;
    let row = |n: usize| &w.v.row(d.src[1].value + n as u32 * w.halves + half)[chunk];
    if mask == u16::MAX {
        let chunk_fault = |fault| (Failure::Memory(fault), u64::from(mask) << first_lane);
        match block::<L, N>(w, m, d, half, chunk) {
            Block::Contiguous(va) => {
                let stored = match N {
                    1 => m.global.store_rows::<L, 16>(va, &row(0).0),
                    2 => {
                        let words = L::interleave2([L::load(row(0)), L::load(row(1))]);
                        m.global.store_rows::<L, 32>(va, &words)
                    }
                    4 => m.global.store_rows::<L, 64>(
                        va,
                        &L::interleave4([L::load(row(0)), L::load(row(1)), L::load(row(2)), L::load(row(3))]),
                    ),
                    3 => {
                        let rows = [row(0), row(1), row(2)];
                        let words: [u32; 48] = core::array::from_fn(|i| rows[i % 3].0[i / 3]);
                        m.global.store_rows::<L, 48>(va, &words)
                    }
                    _ => Ok(false),
                };
                if stored.map_err(chunk_fault)? {
                    return Ok(());
                }
            }
            // Sixteen dwords that begin at a multiple of their size are in one page.
            Block::Private(va) if va.is_multiple_of(64) => {
                let stride = 4 * u64::from(w.halves * 32);
                m.global.reaches(va, (N as u64 - 1) * stride + 64).map_err(chunk_fault)?;
                for n in 0..N {
                    let at = va.wrapping_add(n as u64 * stride);
                    m.global.store_rows::<L, 16>(at, &row(n).0).map_err(chunk_fault)?;
                }
                return Ok(());
            }
            Block::Private(_) | Block::Uniform(_) | Block::None => {}
        }
    }
    store_lanes::<N>(w, m, d, first_lane, mask)
}

/// Stores one lane after the other, for any addresses.
#[inline(never)]
pub(super) fn store_lanes<const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    first_lane: u32,
    mask: u16,
) -> Result<(), (Failure, u64)> {
    let addresses = global_addresses(w, m, d, first_lane);
    for i in lanes(mask.into()) {
        let lane = first_lane + i;
        let words: [u32; N] =
            core::array::from_fn(|n| w.v.lane(d.src[1].value + n as u32 * w.halves + lane / 32, lane & 31));
        if let Some(addresses) = &addresses {
            let stored = m.global.store_words(addresses[i as usize & 15], words);
            stored.map_err(|fault| (Failure::Memory(fault), 1 << lane))?;
            continue;
        }
        let stored = store_words(w, m, segment(w, m, d, lane), lane, words);
        stored.map_err(|failure| (failure, 1 << lane))?;
    }
    Ok(())
}

per_backend! {
    store_n [const N: usize] [N] |w, m, d, L| store::<L, N>(w, m, d)
}

/// As [`load_dword`].
#[inline(always)]
pub(super) fn store_dword<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves == 2
        && exec_half(w, 0) & exec_half(w, 1) == u32::MAX
        && let [Block::Contiguous(low), Block::Contiguous(high)] =
            [block32::<L>(w, d, 0), block32::<L>(w, d, 1)]
        // What is stored is not stored once more.
        && m.global.stores_vectors(high)
    {
        let rows = [w.v.row(d.src[1].value), w.v.row(d.src[1].value + 1)];
        if m.global.store_vectors::<L>(low, [L::load(&rows[0][0]), L::load(&rows[0][1])])
            && m.global.store_vectors::<L>(high, [L::load(&rows[1][0]), L::load(&rows[1][1])])
        {
            return Flow::NEXT;
        }
    }
    if w.halves == 1
        && exec_half(w, 0) == u32::MAX
        && let Block::Contiguous(va) = block32::<L>(w, d, 0)
    {
        let row = w.v.row(d.src[1].value);
        if m.global.store_vectors::<L>(va, [L::load(&row[0]), L::load(&row[1])]) {
            return Flow::NEXT;
        }
    }
    // SAFETY: the caller runs on a host with this backend, and the callee needs the same one.
    unsafe { leave_to(store_n::<1>(L::KIND), w, m, d) }
}

per_backend! {
    store_b32 [] [] |w, m, d, L| store_dword::<L>(w, m, d)
}

pub(super) fn store_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    let stored = if narrow.bytes == 1 {
        store_parts(w, m, d, narrow, |word| word as u8)
    } else {
        store_parts(w, m, d, narrow, |word| word as u16)
    };
    match stored {
        Ok(()) => Flow::NEXT,
        Err((failure, lane)) => fail(w, m, d, (narrow.bytes, lane), (failure, 1 << lane)),
    }
}

/// Stores parts of registers; an error is the lane that fails. Lanes below it have stored theirs.
#[inline(always)]
fn store_parts<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    narrow: Narrow,
    part: impl Fn(u32) -> T,
) -> Result<(), (Failure, u32)> {
    let shift = if narrow.half == Some(Half::High) { 16 } else { 0 };
    for half in 0..w.halves {
        let data = w.v.row(d.src[1].value + half);
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            let first_lane = half * 32 + chunk as u32 * 16;
            let addresses = global_addresses(w, m, d, first_lane);
            for i in lanes(mask.into()) {
                let (lane, at) = (first_lane + i, i as usize & 15);
                let value = part(data[chunk].0[at] >> shift);
                let stored = match &addresses {
                    Some(addresses) => m.global.store(addresses[at], value).map_err(Failure::Memory),
                    None => store_lane(w, m, segment(w, m, d, lane), lane, value),
                };
                stored.map_err(|failure| (failure, lane))?;
            }
        }
    }
    Ok(())
}
