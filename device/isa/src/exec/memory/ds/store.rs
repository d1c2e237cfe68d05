//! Stores of dwords.

use super::in_range;
use super::pattern::{Pattern, pattern};
use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::vector::op::{exec_half, per_backend, split};
use crate::lanes::Lanes;
use crate::wave::Wave;

/// Stores `N` dwords per lane from rows at `data`, of the lanes whose dwords are all inside.
#[inline(always)]
pub(super) fn store_words<L: Lanes, const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    offset: u32,
    data: u32,
) {
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            if mask == 0 {
                continue;
            }
            let addresses = w.v.row(d.src[0].value + half)[chunk].0;
            let at = L::add(L::from_array(addresses), L::splat(offset));
            let mask = in_range::<L>(m, at, N as u32 * 4) & mask;
            let row = |n: usize| &w.v.row(data + n as u32 * w.halves + half)[chunk];
            // No lane operations inside closures: those are compiled without the backend's instructions.
            if mask == u16::MAX
                && let Pattern::Contiguous(base) = pattern::<L, N>(at, addresses[0].wrapping_add(offset))
            {
                let stored = match N {
                    1 => m.lds.set_words(base, &row(0).0),
                    2 => m.lds.set_words(base, &L::interleave2([L::load(row(0)), L::load(row(1))])),
                    4 => m.lds.set_words(
                        base,
                        &L::interleave4([L::load(row(0)), L::load(row(1)), L::load(row(2)), L::load(row(3))]),
                    ),
                    _ => None,
                };
                if stored.is_some() {
                    continue;
                }
            }
            if N == 1 {
                L::scatter(m.lds.storage_mut(), at, L::load(row(0)), mask);
                continue;
            }
            // One lane after the other: where elements overlap, the highest lane's is left.
            for i in (0..16).filter(|i| mask >> i & 1 != 0) {
                let at = addresses[i].wrapping_add(offset);
                for n in 0..N {
                    m.lds.put(at.wrapping_add(n as u32 * 4), row(n).0[i].to_le_bytes());
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn store<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.lets_others_load() {
        return m.stop_before(Stop::Turn);
    }
    store_words::<L, N>(w, m, d, d.imm, d.src[1].value);
    Flow::NEXT
}

#[inline(always)]
pub(super) fn store_two<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.lets_others_load() {
        return m.stop_before(Stop::Turn);
    }
    store_words::<L, N>(w, m, d, d.imm, d.src[1].value);
    store_words::<L, N>(w, m, d, d.dst2, d.src[2].value);
    Flow::NEXT
}

per_backend! {
    store_n [const N: usize] [N] |w, m, d, L| store::<L, N>(w, m, d)
}
per_backend! {
    store_2addr [const N: usize] [N] |w, m, d, L| store_two::<L, N>(w, m, d)
}
