//! Loads of dwords.

#![expect(unsafe_code, reason = "calls a handler of the same backend as the one it is called from")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::in_range;
use super::pattern::{Pattern, Steps, pattern};
use crate::exec::di::{Di, Flow, Machine, leave_to};
use crate::exec::vector::op::{exec_half, per_backend, split};
use crate::lanes::Lanes;
use crate::wave::{Row, Wave};

/// Zeros in `registers` registers from `dst` of the lanes in a mask, whose accesses were outside.
#[cold]
#[inline(never)]
pub(crate) fn clear(w: &mut Wave, dst: u32, registers: u32, lanes: u64) {
    for lane in (0..w.lanes()).filter(|lane| lanes >> lane & 1 != 0) {
        for n in 0..registers {
            w.v.set_lane(dst + n * w.halves + lane / 32, lane & 31, 0);
        }
    }
}

/// Loads `N` dwords per lane from address + `offset` into rows from `dst`; the active lanes whose dwords are not all
/// inside, in which nothing meaningful is left.
#[inline(always)]
pub(super) fn load_words<L: Lanes, const N: usize>(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    offset: u32,
    dst: u32,
) -> u64 {
    let mut missing = 0;
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            if mask == 0 {
                continue;
            }
            let addresses = w.v.row(d.src[0].value + half)[chunk].0;
            let at = L::add(L::from_array(addresses), L::splat(offset));
            let inside = in_range::<L>(m, at, N as u32 * 4) & mask;
            if inside != mask {
                missing |= u64::from(mask & !inside) << (half * 32 + chunk as u32 * 16);
            }
            let mut rows = [L::splat(0); N];
            let base = addresses[0].wrapping_add(offset);
            let shape = if inside == u16::MAX { pattern::<L, N>(at, base) } else { Pattern::Scattered };
            match shape {
                Pattern::Contiguous(base) => gather_contiguous::<L, N>(m, base, &mut rows),
                Pattern::Uniform(base) => {
                    for n in 0..N {
                        rows[n] = L::splat(u32::from_le_bytes(m.lds.get(base + n as u32 * 4)));
                    }
                }
                Pattern::Scattered => {
                    // Lanes that are off or outside read from wherever; those off are not written.
                    for n in 0..N {
                        rows[n] = L::gather(m.lds.storage(), L::add(at, L::splat(n as u32 * 4)));
                    }
                }
            }
            for n in 0..N {
                let row = rows[n];
                let target = &mut w.v.row_mut(dst + n as u32 * w.halves + half)[chunk];
                if mask == u16::MAX {
                    L::store(target, row);
                } else {
                    L::store_mask(target, row, mask);
                }
            }
        }
    }
    missing
}

#[inline(always)]
pub(super) fn gather_contiguous<L: Lanes, const N: usize>(m: &Machine<'_>, base: u32, rows: &mut [L::V; N]) {
    match N {
        1 => {
            if let Some(words) = m.lds.words::<16>(base) {
                rows[0] = L::from_array(words);
            }
        }
        2 => {
            if let Some(words) = m.lds.words::<32>(base) {
                let pair = L::deinterleave2(&words);
                rows[0] = pair[0];
                rows[1] = pair[1];
            }
        }
        4 => {
            if let Some(words) = m.lds.words::<64>(base) {
                let quad = L::deinterleave4(&words);
                rows[..4].copy_from_slice(&quad);
            }
        }
        _ => {
            let mut values = [[0; 16]; N];
            for i in 0..16 {
                for (n, row) in values.iter_mut().enumerate() {
                    row[i] = u32::from_le_bytes(m.lds.get(base + (i * N + n) as u32 * 4));
                }
            }
            for n in 0..N {
                rows[n] = L::from_array(values[n]);
            }
        }
    }
}

#[inline(always)]
pub(super) fn load<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.has_loaded_lds();
    let missing = load_words::<L, N>(w, m, d, d.imm, d.dst);
    if missing != 0 {
        clear(w, d.dst, N as u32, missing);
    }
    Flow::NEXT
}

#[inline(always)]
pub(super) fn load_two<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.has_loaded_lds();
    let second = d.dst + N as u32 * w.halves;
    let overwritten = d.src[0].value >= d.dst && d.src[0].value < second;
    if !overwritten {
        let mut missing = load_words::<L, N>(w, m, d, d.imm, d.dst);
        missing |= load_words::<L, N>(w, m, d, d.dst2, second);
        if missing != 0 {
            clear(w, d.dst, 2 * N as u32, missing);
        }
        return Flow::NEXT;
    }
    // The first result overwrites the address: keep it.
    let keep = (w.halves, [*w.v.row(d.src[0].value), *w.v.row(d.src[0].value + 1)]);
    let mut missing = load_words::<L, N>(w, m, d, d.imm, d.dst);
    // Restore the address for the second load, then put the first result back.
    let row = d.src[0].value;
    let loaded = [*w.v.row(row), *w.v.row(row + 1)];
    for n in 0..keep.0 {
        *w.v.row_mut(row + n) = keep.1[n as usize & 1];
    }
    missing |= load_words::<L, N>(w, m, d, d.dst2, second);
    for n in 0..keep.0 {
        *w.v.row_mut(row + n) = loaded[n as usize & 1];
    }
    if missing != 0 {
        clear(w, d.dst, 2 * N as u32, missing);
    }
    Flow::NEXT
}

per_backend! {
    load_n [const N: usize] [N] |w, m, d, L| load::<L, N>(w, m, d)
}

/// The first dwords of 32 lanes' pairs, and the second ones.
pub(super) type Pairs<V> = [[V; 2]; 2];

/// First and second dwords of pairs for 32 lanes as matrix kernels read them: each sixteen lanes the same pair, or both
/// the same pairs sixteen bytes apart.
#[inline(always)]
pub(super) fn pairs<L: Lanes>(m: &Machine<'_>, address: &Row, offset: u32) -> Option<Pairs<L::V>> {
    let at = [L::load(&address[0]), L::load(&address[1])];
    let bases = [address[0].0[0].wrapping_add(offset), address[1].0[0].wrapping_add(offset)];
    let relative = L::sub(at[0], L::splat(address[0].0[0]));
    if L::eq(relative, L::splat(0)) & L::eq(at[1], L::splat(address[1].0[0])) == u16::MAX {
        if !m.lds.contains(bases[0], 8) || !m.lds.contains(bases[1], 8) {
            return None;
        }
        let word = |at: u32| u32::from_le_bytes(m.lds.get(at));
        return Some([
            [L::splat(word(bases[0])), L::splat(word(bases[1]))],
            [L::splat(word(bases[0] + 4)), L::splat(word(bases[1] + 4))],
        ]);
    }
    let same = L::eq(relative, L::load(&Steps::<4>::CHUNK)) & L::eq(at[0], at[1]) == u16::MAX;
    // No address wraps within the pattern if all of it is inside.
    if same && m.lds.contains(bases[0], 15 * 16 + 8) {
        let [first, second] = L::first_two_of_four(m.lds.window(bases[0])?);
        return Some([[first; 2], [second; 2]]);
    }
    None
}

#[inline(always)]
fn store_row<L: Lanes>(w: &mut Wave, row: u32, value: [L::V; 2]) {
    let row = w.v.row_mut(row);
    L::store(&mut row[0], value[0]);
    L::store(&mut row[1], value[1]);
}

/// Loads of pairs of dwords that [`pairs`] knows; everything else takes the general way.
#[inline(always)]
pub(super) fn load_pairs<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.has_loaded_lds();
    let halves = w.halves;
    if exec_half(w, 0) == u32::MAX
        && (halves == 1 || exec_half(w, 1) == u32::MAX)
        && let Some(low) = pairs::<L>(m, w.v.row(d.src[0].value), d.imm)
        && let Some(high) =
            if halves == 1 { Some(low) } else { pairs::<L>(m, w.v.row(d.src[0].value + 1), d.imm) }
    {
        // All are read by now: the address may be among the registers that are written.
        for n in 0..2 {
            let row = d.dst + n as u32 * halves;
            store_row::<L>(w, row, low[n]);
            if halves != 1 {
                store_row::<L>(w, row + 1, high[n]);
            }
        }
        return Flow::NEXT;
    }
    // SAFETY: the caller runs on a host with this backend, and the callee needs the same one.
    unsafe { leave_to(load_n::<2>(L::KIND), w, m, d) }
}

per_backend! {
    /// Loads of two dwords.
    load_b64 [] [] |w, m, d, L| load_pairs::<L>(w, m, d)
}
per_backend! {
    load_2addr [const N: usize] [N] |w, m, d, L| load_two::<L, N>(w, m, d)
}
