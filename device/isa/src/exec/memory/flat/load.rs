//! Loads.

#![expect(unsafe_code, reason = "calls a handler of the same backend as the one it is called from")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::address::{Block, are_repeated, block, block32, global_addresses, segment};
use super::failure::{Failure, fail, lanes};
use super::lane::{load_lane, load_words};
use crate::exec::di::{Di, Flow, Machine, leave_to};
use crate::exec::memory::ds::narrow::Narrow;
use crate::exec::vector::op::{exec_half, per_backend, split};
use crate::lanes::Lanes;
use crate::lanes::words::highest_first;
use crate::mem::{Fault, Word};
use crate::wave::Wave;

/// Sixteens of lanes of a wave.
const SIXTEENS: usize = 4;

/// Everything is loaded before any register changes, from the highest lanes down: no lane of a load that faults is done.
#[inline(always)]
pub(super) fn load<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let mut loaded = [[L::splat(0); N]; SIXTEENS];
    for half in (0..w.halves).rev() {
        let masks = split(exec_half(w, half));
        for chunk in [1, 0] {
            if masks[chunk] == 0 {
                continue;
            }
            match load_chunk::<L, N>(w, m, d, half, chunk, masks[chunk]) {
                Ok(rows) => loaded[half as usize * 2 + chunk] = rows,
                Err(failure) => return fail(w, m, d, (N as u32 * 4, 0), failure),
            }
        }
    }
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            let rows = &loaded[half as usize * 2 + chunk];
            for n in 0..N {
                let target = &mut w.v.row_mut(d.dst + n as u32 * w.halves + half)[chunk];
                if mask == u16::MAX {
                    L::store(target, rows[n]);
                } else if mask != 0 {
                    L::store_mask(target, rows[n], mask);
                }
            }
        }
    }
    Flow::NEXT
}

#[inline(always)]
pub(super) fn load_chunk<L: Lanes, const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    half: u32,
    chunk: usize,
    mask: u16,
) -> Result<[L::V; N], (Failure, u64)> {
    let first_lane = half * 32 + chunk as u32 * 16;
    if mask == u16::MAX {
        let chunk_fault = |fault| (Failure::Memory(fault), u64::from(mask) << first_lane);
        let mut rows = [L::splat(0); N];
        match block::<L, N>(w, m, d, half, chunk) {
            Block::Contiguous(va) => {
                if load_run::<L, N>(m, va, &mut rows).map_err(chunk_fault)? {
                    return Ok(rows);
                }
            }
            Block::Uniform(va) => {
                if let Some(words) = m.global.load_block::<N>(va).map_err(chunk_fault)? {
                    for n in 0..N {
                        rows[n] = L::splat(words[n]);
                    }
                    return Ok(rows);
                }
            }
            Block::Private(va) => {
                let mut whole = true;
                for n in 0..N {
                    let at = va.wrapping_add(n as u64 * 4 * u64::from(w.halves * 32));
                    match m.global.load_rows::<L, 1>(at).map_err(chunk_fault)? {
                        Some([row]) => rows[n] = row,
                        None => whole = false,
                    }
                }
                if whole {
                    return Ok(rows);
                }
            }
            Block::None => {}
        }
    }
    let mut values = [[0; 16]; N];
    load_lanes(w, m, d, first_lane, mask, &mut values)?;
    let mut rows = [L::splat(0); N];
    for n in 0..N {
        rows[n] = L::from_array(values[n]);
    }
    Ok(rows)
}

/// Loads one lane after the other, for any addresses.
#[inline(never)]
pub(super) fn load_lanes<const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    first_lane: u32,
    mask: u16,
    values: &mut [[u32; 16]; N],
) -> Result<(), (Failure, u64)> {
    if let Some(addresses) = global_addresses(w, m, d, first_lane) {
        let give = |at: usize, words: [u32; N]| {
            for n in 0..N {
                values[n][at] = words[n];
            }
        };
        let loaded = m.global.load_each_words(&addresses, mask, give);
        return loaded.map_err(|(fault, at)| (Failure::Memory(fault), 1 << (first_lane + at as u32)));
    }
    for i in highest_first(mask.into()) {
        let (lane, at) = (first_lane + i, i as usize & 15);
        let words = load_words::<N>(w, m, segment(w, m, d, lane), lane);
        for (row, word) in values.iter_mut().zip(words.map_err(|failure| (failure, 1 << lane))?) {
            row[at] = word;
        }
    }
    Ok(())
}

/// Loads sixteen elements of `N` dwords that lie one after the other; `false` when they are not in one page.
#[inline(always)]
pub(super) fn load_run<L: Lanes, const N: usize>(
    m: &mut Machine<'_>,
    va: u64,
    rows: &mut [L::V; N],
) -> Result<bool, Fault> {
    match N {
        1 => {
            let Some([row]) = m.global.load_rows::<L, 1>(va)? else { return Ok(false) };
            rows[0] = row;
        }
        2 => {
            let Some(loaded) = m.global.load_rows::<L, 2>(va)? else { return Ok(false) };
            let pair = L::deinterleave2(&words::<L, 2, 32>(loaded));
            rows[0] = pair[0];
            rows[1] = pair[1];
        }
        4 => {
            let Some(loaded) = m.global.load_rows::<L, 4>(va)? else { return Ok(false) };
            let quad = L::deinterleave4(&words::<L, 4, 64>(loaded));
            rows[..4].copy_from_slice(&quad);
        }
        3 => {
            let Some(loaded) = m.global.load_rows::<L, 3>(va)? else { return Ok(false) };
            let words = words::<L, 3, 48>(loaded);
            for n in 0..N {
                let mut row = [0; 16];
                for i in 0..16 {
                    row[i] = words[i * N + n];
                }
                rows[n] = L::from_array(row);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The words of rows, one row after the other.
#[inline(always)]
fn words<L: Lanes, const ROWS: usize, const WORDS: usize>(rows: [L::V; ROWS]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for n in 0..ROWS {
        words[n * 16..n * 16 + 16].copy_from_slice(&L::to_array(rows[n]));
    }
    words
}

per_backend! {
    load_n [const N: usize] [N] |w, m, d, L| load::<L, N>(w, m, d)
}

/// The dwords of 32 active lanes that lie together.
#[inline(always)]
fn load_half<L: Lanes>(w: &Wave, m: &mut Machine<'_>, d: &Di, half: u32) -> Option<[L::V; 2]> {
    match block32::<L>(w, d, half) {
        Block::Contiguous(va) => m.global.load_vectors::<L>(va),
        Block::Uniform(va) => match m.global.load_block::<1>(va) {
            Ok(Some([word])) => Some([L::splat(word); 2]),
            _ => None,
        },
        _ => None,
    }
}

/// A dword for each lane, all active, that lie together in each half; everything else takes the general way.
#[inline(always)]
pub(super) fn load_dword<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if exec_half(w, 0) == u32::MAX && (w.halves == 1 || exec_half(w, 1) == u32::MAX) {
        // Both are loaded before any register changes: the address may be in the one that is loaded.
        let high = if w.halves == 1 { None } else { load_half::<L>(w, m, d, 1) };
        if (w.halves == 1 || high.is_some())
            && let Some(low) = load_half::<L>(w, m, d, 0)
        {
            let row = w.v.row_mut(d.dst);
            L::store(&mut row[0], low[0]);
            L::store(&mut row[1], low[1]);
            if let Some(high) = high {
                let row = w.v.row_mut(d.dst + 1);
                L::store(&mut row[0], high[0]);
                L::store(&mut row[1], high[1]);
            }
            return Flow::NEXT;
        }
    }
    // SAFETY: the caller runs on a host with this backend, and the callee needs the same one.
    unsafe { leave_to(load_n::<1>(L::KIND), w, m, d) }
}

per_backend! {
    load_b32 [] [] |w, m, d, L| load_dword::<L>(w, m, d)
}

/// Loads parts of registers: all of them before any register changes, from the highest lanes down.
#[inline(always)]
fn load_part<L: Lanes, T: Word + Into<u16>>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let Some(rows) = load_found::<L, T>(w, m, d) else { return load_narrow_slowly(w, m, d) };
    let merger = Narrow::unpack(d.aux).merger();
    for half in 0..w.halves {
        let masks = split(exec_half(w, half));
        for chunk in 0..2 {
            let target = &mut w.v.row_mut(d.dst + half)[chunk];
            let merged = merger.merge_lanes::<L>(L::load(target), rows[half as usize * 2 + chunk]);
            if masks[chunk] == u16::MAX {
                L::store(target, merged);
            } else if masks[chunk] != 0 {
                L::store_mask(target, merged, masks[chunk]);
            }
        }
    }
    Flow::NEXT
}

per_backend! {
    load_narrow [] [] |w, m, d, L| match Narrow::unpack(d.aux).bytes {
        1 => load_part::<L, u8>(w, m, d),
        _ => load_part::<L, u16>(w, m, d),
    }
}

/// Loads the parts of a wave's lanes where no element is in two pages, all pages can be read, and no access is watched.
#[inline(always)]
fn load_found<L: Lanes, T: Word + Into<u16>>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
) -> Option<[L::V; SIXTEENS]> {
    if m.global.tlb.is_watched() {
        return None;
    }
    let mut rows = [L::splat(0); SIXTEENS];
    for half in (0..w.halves).rev() {
        let masks = split(exec_half(w, half));
        // For matrix instructions both sixteens of a half load the same.
        let repeats = masks[0] == masks[1] && are_repeated::<L>(w, d, half);
        for chunk in [1, 0] {
            let at = half as usize * 2 + chunk;
            if chunk == 0 && repeats {
                rows[at] = rows[at + 1];
            } else if masks[chunk] != 0 {
                let addresses = global_addresses(w, m, d, at as u32 * 16)?;
                let mut values = [0; 16];
                if !m.global.load_found::<T>(&addresses, masks[chunk], &mut values) {
                    return None;
                }
                rows[at] = L::from_array(values);
            }
        }
    }
    Some(rows)
}

/// Loads parts of registers lane by lane, wherever they are, and says which lane fails.
#[cold]
#[inline(never)]
fn load_narrow_slowly(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    let loaded = if narrow.bytes == 1 { load_parts::<u8>(w, m, d) } else { load_parts::<u16>(w, m, d) };
    match loaded {
        Ok(loaded) => {
            for half in 0..w.halves {
                for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
                    let row = &mut w.v.row_mut(d.dst + half)[chunk].0;
                    for at in lanes(mask.into()) {
                        let word = &mut row[at as usize & 15];
                        *word = narrow.merge(*word, loaded[half as usize * 2 + chunk][at as usize & 15]);
                    }
                }
            }
            Flow::NEXT
        }
        Err((failure, lane)) => fail(w, m, d, (narrow.bytes, 0), (failure, 1 << lane)),
    }
}

/// Loads parts of registers, as [`load`]; an error is the lane that fails.
#[inline(always)]
fn load_parts<T: Word + Into<u16>>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
) -> Result<[[u16; 16]; SIXTEENS], (Failure, u32)> {
    let mut loaded = [[0; 16]; SIXTEENS];
    for half in (0..w.halves).rev() {
        let masks = split(exec_half(w, half));
        for chunk in [1, 0] {
            let (mask, at) = (masks[chunk], half as usize * 2 + chunk);
            let first_lane = half * 32 + chunk as u32 * 16;
            if let Some(addresses) = global_addresses(w, m, d, first_lane) {
                let values = &mut loaded[at];
                let done = m.global.load_each(&addresses, mask, |lane, value: T| values[lane] = value.into());
                done.map_err(|(fault, lane)| (Failure::Memory(fault), first_lane + lane as u32))?;
                continue;
            }
            for i in highest_first(mask.into()) {
                let lane = first_lane + i;
                let value: Result<T, Failure> = load_lane(w, m, segment(w, m, d, lane), lane);
                loaded[at][i as usize & 15] = value.map_err(|failure| (failure, lane))?.into();
            }
        }
    }
    Ok(loaded)
}
