//! LDS instructions.
//!
//! `src[0]` is the address row, `src[1]` and `src[2]` the data rows, `imm` the byte offset (two-address operations: the
//! second in `dst2`).
//!
//! What lies outside of the workgroup's allocation reads 0, is not written and does not fault ("RDNA3 Instruction Set
//! Architecture", 3.3.4.1, with `LDS_CONFIG.ADDR_OUT_OF_RANGE_REPORTING` 0). Each lane's access counts as a whole: with
//! one byte outside, all of it is. Atomics at an address that is no multiple of their size fault (3.3.3).

#![expect(unsafe_code, reason = "calls a handler of the same backend as the one it is called from")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::atomic::Function;
use super::di::{Di, Flow, Handler, Machine, flag};
use super::lane::for_each_active;
use super::op::{exec_half, per_backend, split};
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Row, Wave};

/// How the addresses of sixteen lanes lie.
#[derive(Clone, Copy)]
pub(crate) enum Pattern {
    /// One element after the other from here.
    Contiguous(u32),
    /// All the same.
    Uniform(u32),
    Scattered,
}

/// Byte offsets of sixteen elements of `N` dwords that lie one after the other.
pub(crate) struct Steps<const N: usize>;

impl<const N: usize> Steps<N> {
    pub(crate) const CHUNK: Chunk = {
        let mut steps = [0; 16];
        let mut i = 0;
        while i < 16 {
            steps[i] = (i * N * 4) as u32;
            i += 1;
        }
        Chunk(steps)
    };
}

/// The pattern of addresses for elements of `N` dwords.
#[inline(always)]
pub(crate) fn pattern<L: Lanes, const N: usize>(address: L::V, first: u32) -> Pattern {
    let relative = L::sub(address, L::splat(first));
    if L::eq(relative, L::load(&Steps::<N>::CHUNK)) == u16::MAX {
        Pattern::Contiguous(first)
    } else if L::eq(relative, L::splat(0)) == u16::MAX {
        Pattern::Uniform(first)
    } else {
        Pattern::Scattered
    }
}

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

/// Lanes whose `bytes` at `at`, the sum of address and offset, are all inside. The sum wraps at 32 bits: compilers give
/// negative addresses an offset that makes up for it.
#[inline(always)]
fn in_range<L: Lanes>(m: &Machine<'_>, at: L::V, bytes: u32) -> u16 {
    let Some(last) = m.lds.size().checked_sub(bytes) else { return 0 };
    !L::lt_u(L::splat(last), at)
}

/// Loads `N` dwords per lane from address + `offset` into rows from `dst`; the active lanes whose dwords are not all
/// inside, in which nothing meaningful is left.
#[inline(always)]
fn load_words<L: Lanes, const N: usize>(
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
fn gather_contiguous<L: Lanes, const N: usize>(m: &Machine<'_>, base: u32, rows: &mut [L::V; N]) {
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
fn load<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let missing = load_words::<L, N>(w, m, d, d.imm, d.dst);
    if missing != 0 {
        clear(w, d.dst, N as u32, missing);
    }
    Flow::NEXT
}

#[inline(always)]
fn load_two<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
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

/// Stores `N` dwords per lane from rows at `data`, of the lanes whose dwords are all inside.
#[inline(always)]
fn store_words<L: Lanes, const N: usize>(w: &Wave, m: &mut Machine<'_>, d: &Di, offset: u32, data: u32) {
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
fn store<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    store_words::<L, N>(w, m, d, d.imm, d.src[1].value);
    Flow::NEXT
}

#[inline(always)]
fn store_two<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    store_words::<L, N>(w, m, d, d.imm, d.src[1].value);
    store_words::<L, N>(w, m, d, d.dst2, d.src[2].value);
    Flow::NEXT
}

per_backend! {
    load_n [const N: usize] [N] |w, m, d, L| load::<L, N>(w, m, d)
}
/// The first dwords of 32 lanes' pairs, and the second ones.
type Pairs<V> = [[V; 2]; 2];

/// First and second dwords of pairs for 32 lanes as matrix kernels read them: each sixteen lanes the same pair, or both
/// the same pairs sixteen bytes apart.
#[inline(always)]
fn pairs<L: Lanes>(m: &Machine<'_>, address: &Row, offset: u32) -> Option<Pairs<L::V>> {
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

/// Loads of pairs of dwords that [`pairs`] knows; everything else takes the general way.
#[inline(always)]
fn load_pairs<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves == 1
        && exec_half(w, 0) == u32::MAX
        && let Some([first, second]) = pairs::<L>(m, w.v.row(d.src[0].value), d.imm)
    {
        for (row, value) in [(d.dst, first), (d.dst + 1, second)] {
            let row = w.v.row_mut(row);
            L::store(&mut row[0], value[0]);
            L::store(&mut row[1], value[1]);
        }
        return Flow::NEXT;
    }
    // SAFETY: the same backend, which whoever called this one had.
    unsafe { load_n::<2>(L::KIND)(w, m, d) }
}

per_backend! {
    /// Loads of two dwords.
    load_b64 [] [] |w, m, d, L| load_pairs::<L>(w, m, d)
}
per_backend! {
    load_2addr [const N: usize] [N] |w, m, d, L| load_two::<L, N>(w, m, d)
}
per_backend! {
    store_n [const N: usize] [N] |w, m, d, L| store::<L, N>(w, m, d)
}
per_backend! {
    store_2addr [const N: usize] [N] |w, m, d, L| store_two::<L, N>(w, m, d)
}

/// A load of 8 or 16 bits: what becomes of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrow {
    /// 1 or 2.
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    /// Writes 16 bits of the destination: the low or the high ones.
    pub(crate) half: Option<Half>,
}

/// Half of a register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Low,
    High,
}

impl Narrow {
    /// Packed for [`Di::aux`].
    pub(crate) fn pack(self) -> u8 {
        let half = match self.half {
            None => 0,
            Some(Half::Low) => 1,
            Some(Half::High) => 2,
        };
        self.bytes as u8 | u8::from(self.signed) << 2 | half << 3
    }

    /// The inverse of [`Narrow::pack`].
    #[inline(always)]
    pub(crate) fn unpack(aux: u8) -> Narrow {
        let half = match aux >> 3 & 3 {
            0 => None,
            1 => Some(Half::Low),
            _ => Some(Half::High),
        };
        Narrow { bytes: u32::from(aux & 3), signed: aux & 4 != 0, half }
    }

    /// The register after loading `value` over `old`.
    #[inline(always)]
    pub(crate) fn merge(self, old: u32, value: u16) -> u32 {
        let wide = match (self.bytes, self.signed) {
            (1, true) => i32::from(value as i8).cast_unsigned(),
            (1, false) => u32::from(value & 255),
            (_, true) => i32::from(value.cast_signed()).cast_unsigned(),
            (_, false) => u32::from(value),
        };
        match self.half {
            None => wide,
            Some(Half::Low) => old & 0xffff_0000 | wide & 0xffff,
            Some(Half::High) => old & 0xffff | wide << 16,
        }
    }
}

/// Calls `f` with each active lane's address.
#[inline(always)]
fn each_address(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, u32),
) {
    for_each_active(w, |w, lane| {
        let base = w.v.lane(d.src[0].value + lane / 32, lane & 31);
        f(w, m, lane, base.wrapping_add(d.imm));
    });
}

/// An atomic of `bytes` bytes by each active lane, which writes `registers` registers if it returns anything: calls `f`
/// with the addresses that are inside. The lanes before the first misaligned address are done.
#[inline(always)]
fn each_atomic(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (bytes, registers): (u32, u32),
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, u32),
) -> Flow {
    let (mut failed, mut missing) = (None, 0_u64);
    each_address(w, m, d, |w, m, lane, at| {
        if !at.is_multiple_of(bytes) {
            let (_, lanes) = failed.get_or_insert((at, 0_u64));
            *lanes |= 1 << lane;
        } else if failed.is_none() {
            if m.lds.contains(at, bytes) {
                f(w, m, lane, at);
            } else {
                missing |= 1 << lane;
            }
        }
    });
    if missing != 0 && d.flags & flag::RETURN != 0 {
        clear(w, d.dst, registers, missing);
    }
    match failed {
        Some((address, lanes)) => {
            w.did_lanes_below(lanes.trailing_zeros());
            m.lds_misaligned(address, bytes, lanes)
        }
        None => Flow::NEXT,
    }
}

fn load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    each_address(w, m, d, |w, m, lane, at| {
        let value = if !m.lds.contains(at, narrow.bytes) {
            0
        } else if narrow.bytes == 1 {
            u16::from(m.lds.get::<1>(at)[0])
        } else {
            u16::from_le_bytes(m.lds.get(at))
        };
        let row = d.dst + lane / 32;
        let new = narrow.merge(w.v.lane(row, lane & 31), value);
        w.v.set_lane(row, lane & 31, new);
    });
    Flow::NEXT
}

fn store_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    each_address(w, m, d, |w, m, lane, at| {
        let word = w.v.lane(d.src[1].value + lane / 32, lane & 31);
        let value = if narrow.half == Some(Half::High) { word >> 16 } else { word };
        if !m.lds.contains(at, narrow.bytes) {
            return;
        }
        if narrow.bytes == 1 {
            m.lds.put(at, [value as u8]);
        } else {
            m.lds.put(at, (value as u16).to_le_bytes());
        }
    });
    Flow::NEXT
}

fn atomic32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    each_atomic(w, m, d, (4, 1), |w, m, lane, at| {
        let (half, lane) = (lane / 32, lane & 31);
        let old = u32::from_le_bytes(m.lds.get(at));
        let new = function.apply32(
            old,
            w.v.lane(d.src[1].value + half, lane),
            w.v.lane(d.src[2].value + half, lane),
        );
        m.lds.put(at, new.to_le_bytes());
        if d.flags & flag::RETURN != 0 {
            w.v.set_lane(d.dst + half, lane, old);
        }
    })
}

/// One lane of a register pair.
pub(crate) fn lane64(w: &Wave, row: u32, lane: u32) -> u64 {
    let row = row + lane / 32;
    u64::from(w.v.lane(row, lane & 31)) | u64::from(w.v.lane(row + w.halves, lane & 31)) << 32
}

/// Sets one lane of a register pair.
pub(crate) fn set_lane64(w: &mut Wave, row: u32, lane: u32, value: u64) {
    let row = row + lane / 32;
    w.v.set_lane(row, lane & 31, value as u32);
    w.v.set_lane(row + w.halves, lane & 31, (value >> 32) as u32);
}

fn atomic64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    each_atomic(w, m, d, (8, 2), |w, m, lane, at| {
        let old = u64::from_le_bytes(m.lds.get(at));
        let new = function.apply64(old, lane64(w, d.src[1].value, lane), lane64(w, d.src[2].value, lane));
        m.lds.put(at, new.to_le_bytes());
        if d.flags & flag::RETURN != 0 {
            set_lane64(w, d.dst, lane, old);
        }
    })
}

/// `ds_bpermute_b32`: each lane reads the data of the lane its address names; lanes that are off give 0.
fn bpermute(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let values: [u32; 64] = data(w, d);
    // A wave64's halves permute among themselves.
    for_each_active(w, |w, lane| {
        let address = w.v.lane(d.src[0].value + lane / 32, lane & 31).wrapping_add(d.imm);
        let source = lane & 32 | address >> 2 & 31;
        w.v.set_lane(d.dst + lane / 32, lane & 31, values[source as usize & 63]);
    });
    Flow::NEXT
}

/// Data of all lanes, 0 where they are off.
fn data(w: &Wave, d: &Di) -> [u32; 64] {
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    core::array::from_fn(|lane| if exec >> lane & 1 != 0 { d.src[1].lane(w, lane as u32) } else { 0 })
}

/// `ds_permute_b32`: each lane sends its data to the lane its address names; lanes nobody sends to get 0.
fn permute(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let values: [u32; 64] = data(w, d);
    let mut received = [0; 64];
    for_each_active(w, |w, lane| {
        let address = w.v.lane(d.src[0].value + lane / 32, lane & 31).wrapping_add(d.imm);
        received[(lane & 32 | address >> 2 & 31) as usize & 63] = values[lane as usize & 63];
    });
    for_each_active(w, |w, lane| w.v.set_lane(d.dst + lane / 32, lane & 31, received[lane as usize & 63]));
    Flow::NEXT
}

/// `ds_swizzle_b32`: a fixed permutation in the offset; the source is the address operand.
fn swizzle(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let offset = d.imm;
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    let values: [u32; 64] =
        core::array::from_fn(|lane| if exec >> lane & 1 != 0 { d.src[0].lane(w, lane as u32) } else { 0 });
    for_each_active(w, |w, lane| {
        let source = if offset >= 0xe000 {
            // FFT mode: the lane's five bits reversed, shifted past the lanes in mask `offset[4:0]`, which stay; a full
            // mask moves nothing.
            let fixed = offset & 31;
            let reversed = (lane & 31).reverse_bits() >> 27;
            lane & 32 | reversed >> fixed.count_ones() | lane & fixed
        } else if offset >= 0xc000 {
            // Rotate mode: by `offset[9:5]`, left or right by bit 10, lanes in mask `offset[4:0]` fixed.
            let (amount, fixed) = (offset >> 5 & 31, offset & 31);
            let at = lane & 31;
            let moved = if offset >> 10 & 1 != 0 { at.wrapping_sub(amount) } else { at + amount } & 31;
            lane & 32 | at & fixed | moved & !fixed
        } else if offset & 0x8000 != 0 {
            lane & !3 | offset >> ((lane & 3) * 2) & 3
        } else {
            let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
            lane & 32 | ((lane & 31 & and | or) ^ xor)
        };
        w.v.set_lane(d.dst + lane / 32, lane & 31, values[source as usize & 63]);
    });
    Flow::NEXT
}

/// `ds_append` (`aux` 0) and `ds_consume` (1): the counter at `M0[31:16] + offset` moves by the number of active lanes.
fn append_consume(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    let at = (w.m0() & 0xffff).wrapping_add(d.imm);
    if !at.is_multiple_of(4) && exec != 0 {
        return m.lds_misaligned(at, 4, exec);
    }
    let inside = m.lds.contains(at, 4);
    let old = if inside { u32::from_le_bytes(m.lds.get(at)) } else { 0 };
    let count = exec.count_ones();
    let new = if d.aux == 0 { old.wrapping_add(count) } else { old.wrapping_sub(count) };
    if inside {
        m.lds.put(at, new.to_le_bytes());
    }
    for_each_active(w, |w, lane| w.v.set_lane(d.dst + lane / 32, lane & 31, old));
    Flow::NEXT
}

/// How a DS operation is lowered.
pub(crate) struct DsEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Registers of the destination, 0 for none.
    pub(crate) dst: u32,
    /// Registers of each data operand.
    pub(crate) data: u32,
    /// Bytes one unit of `offset0`/`offset1` stands for; 0: one 16-bit byte offset.
    pub(crate) unit: u32,
}

/// The lowering of a mnemonic such as `ds_add_rtn_u32`.
pub(crate) fn parse(mnemonic: &str, backend: BackendKind) -> Option<DsEntry> {
    let name = mnemonic.strip_prefix("ds_")?;
    let simple = |handler: Handler, dst: u32, data: u32| DsEntry { handler, aux: 0, dst, data, unit: 0 };
    let two = |handler: Handler, dst: u32, data: u32, unit: u32| DsEntry { handler, aux: 0, dst, data, unit };
    let narrow = |bytes: u32, signed: bool, half: Option<Half>, load: bool| DsEntry {
        handler: if load { load_narrow } else { store_narrow },
        aux: Narrow { bytes, signed, half }.pack(),
        dst: u32::from(load),
        data: u32::from(!load),
        unit: 0,
    };
    Some(match name {
        "load_b32" => simple(load_n::<1>(backend), 1, 0),
        "load_b64" => simple(load_n::<2>(backend), 2, 0),
        "load_b96" => simple(load_n::<3>(backend), 3, 0),
        "load_b128" => simple(load_n::<4>(backend), 4, 0),
        "store_b32" => simple(store_n::<1>(backend), 0, 1),
        "store_b64" => simple(store_n::<2>(backend), 0, 2),
        "store_b96" => simple(store_n::<3>(backend), 0, 3),
        "store_b128" => simple(store_n::<4>(backend), 0, 4),
        "load_2addr_b32" => two(load_2addr::<1>(backend), 2, 0, 4),
        "load_2addr_b64" => two(load_2addr::<2>(backend), 4, 0, 8),
        "load_2addr_stride64_b32" => two(load_2addr::<1>(backend), 2, 0, 256),
        "load_2addr_stride64_b64" => two(load_2addr::<2>(backend), 4, 0, 512),
        "store_2addr_b32" => two(store_2addr::<1>(backend), 0, 1, 4),
        "store_2addr_b64" => two(store_2addr::<2>(backend), 0, 2, 8),
        "store_2addr_stride64_b32" => two(store_2addr::<1>(backend), 0, 1, 256),
        "store_2addr_stride64_b64" => two(store_2addr::<2>(backend), 0, 2, 512),
        "load_u8" => narrow(1, false, None, true),
        "load_i8" => narrow(1, true, None, true),
        "load_u16" => narrow(2, false, None, true),
        "load_i16" => narrow(2, true, None, true),
        "load_u8_d16" => narrow(1, false, Some(Half::Low), true),
        "load_i8_d16" => narrow(1, true, Some(Half::Low), true),
        "load_u16_d16" => narrow(2, false, Some(Half::Low), true),
        "load_u8_d16_hi" => narrow(1, false, Some(Half::High), true),
        "load_i8_d16_hi" => narrow(1, true, Some(Half::High), true),
        "load_u16_d16_hi" => narrow(2, false, Some(Half::High), true),
        "store_b8" => narrow(1, false, None, false),
        "store_b16" => narrow(2, false, None, false),
        "store_b8_d16_hi" => narrow(1, false, Some(Half::High), false),
        "store_b16_d16_hi" => narrow(2, false, Some(Half::High), false),
        "bpermute_b32" => simple(bpermute, 1, 1),
        "permute_b32" => simple(permute, 1, 1),
        "swizzle_b32" => simple(swizzle, 1, 0),
        "append" => simple(append_consume, 1, 0),
        "consume" => DsEntry { aux: 1, ..simple(append_consume, 1, 0) },
        _ => {
            let returning = name.contains("_rtn");
            let (function, bits, _) = Function::parse(&name.replace("_rtn", ""))?;
            let registers = bits / 32;
            DsEntry {
                handler: if bits == 64 { atomic64 } else { atomic32 },
                aux: function as u8,
                dst: if returning { registers } else { 0 },
                data: registers,
                unit: 0,
            }
        }
    })
}
