//! Operations that look across lanes or at lane masks: selects, lane reads and writes, permutations.

use super::op::{Format, exec_half, per_backend, read, split, write};
use crate::exec::di::{Di, Flow, Kind, Machine, Source, flag};
use crate::lanes::Lanes;
use crate::registers::slot;
use crate::wave::Wave;

#[inline(always)]
fn select<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    for half in 0..w.halves {
        let a = read::<L, false>(w, &d.src[0], half, Format::F32);
        let b = read::<L, false>(w, &d.src[1], half, Format::F32);
        let mask = match d.src[2].kind {
            Kind::Scalar => w.s[(d.src[2].value + half) as usize & 255],
            _ => d.src[2].value,
        };
        let [low, high] = split(mask);
        let r = [L::select(low, b[0], a[0]), L::select(high, b[1], a[1])];
        let exec = exec_half(w, half);
        write::<L>(w, d.dst + half, exec, r);
    }
    Flow::NEXT
}

per_backend! {
    /// `v_cndmask_b32`: `src[1]` where the mask in `src[2]` is set, else `src[0]`.
    cndmask [] [] |w, _m, d, L| select::<L>(w, d)
}

#[inline(always)]
fn shift_left_pairs<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    if d.src[0].kind != Kind::Vector && d.src[1].kind == Kind::Vector {
        return shift_left_pairs_equally::<L>(w, d);
    }
    for half in 0..w.halves {
        let count = read::<L, false>(w, &d.src[0], half, Format::Bits);
        let (low, high) = match d.src[1].kind {
            Kind::Vector => {
                let (low, high) = (w.v.row(d.src[1].value + half), w.v.row(d.src[1].value + half + w.halves));
                ([L::load(&low[0]), L::load(&low[1])], [L::load(&high[0]), L::load(&high[1])])
            }
            _ => {
                let value = d.src[1].scalar64(w);
                ([L::splat(value as u32); 2], [L::splat((value >> 32) as u32); 2])
            }
        };
        let first = shift_left_pair::<L>(low[0], high[0], count[0]);
        let second = shift_left_pair::<L>(low[1], high[1], count[1]);
        let (exec, halves) = (exec_half(w, half), w.halves);
        write::<L>(w, d.dst + half, exec, [first[0], second[0]]);
        write::<L>(w, d.dst + half + halves, exec, [first[1], second[1]]);
    }
    Flow::NEXT
}

/// All lanes by the same count.
#[inline(always)]
fn shift_left_pairs_equally<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let count = d.src[0].scalar(w) & 63;
    let by = L::splat(count & 31);
    // Bits that cross over move right by `32 - count`, in two steps so that a count of 0 moves none.
    let back = L::splat(31 - (count & 31));
    for half in 0..w.halves {
        let low = w.v.row(d.src[1].value + half);
        let high = w.v.row(d.src[1].value + half + w.halves);
        let mut out = [[L::splat(0); 2]; 2];
        for n in 0..2 {
            let words = L::load(&low[n]);
            let shifted = L::shl(words, by);
            if count < 32 {
                let crossing = L::shr(L::shr(words, L::splat(1)), back);
                out[0][n] = shifted;
                out[1][n] = L::or(L::shl(L::load(&high[n]), by), crossing);
            } else {
                out[1][n] = shifted;
            }
        }
        let (exec, halves) = (exec_half(w, half), w.halves);
        write::<L>(w, d.dst + half, exec, out[0]);
        write::<L>(w, d.dst + half + halves, exec, out[1]);
    }
    Flow::NEXT
}

#[inline(always)]
fn shift_left_pair<L: Lanes>(low: L::V, high: L::V, count: L::V) -> [L::V; 2] {
    let far = L::and(count, L::splat(32));
    let is_near = L::eq(far, L::splat(0));
    let shifted = L::shl(low, count);
    // The bits that cross over: `low >> (32 - count)`, in two steps so that a count of 0 moves none.
    let crossing = L::shr(L::shr(low, L::splat(1)), L::not(count));
    let near_high = L::or(L::shl(high, count), crossing);
    [L::select(is_near, shifted, L::splat(0)), L::select(is_near, near_high, shifted)]
}

per_backend! {
    /// `v_lshlrev_b64`, which every address computation has.
    lshlrev_b64 [] [] |w, _m, d, L| shift_left_pairs::<L>(w, d)
}

/// Both words of a source of 64 bits.
#[inline(always)]
fn words<L: Lanes>(w: &Wave, source: &Source, half: u32, chunk: usize) -> [L::V; 2] {
    if source.kind == Kind::Vector {
        return [source.value + half, source.value + half + w.halves]
            .map(|row| L::load(&w.v.row(row)[chunk]));
    }
    let value = source.scalar64(w);
    [L::splat(value as u32), L::splat((value >> 32) as u32)]
}

/// The sum of the first source, shifted by the second one, and the third.
#[inline(always)]
fn shift_add_pairs<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            let [low, high] = words::<L>(w, &d.src[0], half, chunk);
            let count = match d.src[1].kind {
                Kind::Vector => L::load(&w.v.row(d.src[1].value + half)[chunk]),
                _ => L::splat(d.src[1].scalar(w)),
            };
            let [low, high] = shift_left_pair::<L>(low, high, L::and(count, L::splat(7)));
            let [more, more_high] = words::<L>(w, &d.src[2], half, chunk);
            let sum = L::add(low, more);
            let carry = L::select(L::lt_u(sum, low), L::splat(1), L::splat(0));
            let sum_high = L::add(L::add(high, more_high), carry);
            let [to, to_high] = [d.dst + half, d.dst + half + w.halves];
            L::store_mask(&mut w.v.row_mut(to)[chunk], sum, mask);
            L::store_mask(&mut w.v.row_mut(to_high)[chunk], sum_high, mask);
        }
    }
    Flow::NEXT
}

per_backend! {
    /// `v_lshl_add_u64`, which every address computation of gfx942 has.
    lshl_add_u64 [] [] |w, _m, d, L| shift_add_pairs::<L>(w, d)
}

/// `v_cndmask_b16`.
pub(crate) fn cndmask_b16(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    use super::op::Reg;
    for_each_active(w, |w, lane| {
        let mask = w.s[(d.src[2].value + lane / 32) as usize & 255];
        let source = &d.src[(mask >> (lane & 31) & 1) as usize];
        let word = source.lane(w, lane);
        let value = ((if source.high { word >> 16 } else { word }) as u16).modify(Format::F16, source);
        let row = d.dst + lane / 32;
        let old = w.v.lane(row, lane & 31);
        let new = if d.flags & flag::DST_HIGH != 0 {
            old & 0xffff | u32::from(value) << 16
        } else {
            old & 0xffff_0000 | u32::from(value)
        };
        w.v.set_lane(row, lane & 31, new);
    });
    Flow::NEXT
}

/// Calls `f` for every lane in EXEC, lowest first.
#[inline(always)]
pub(crate) fn for_each_active(w: &mut Wave, mut f: impl FnMut(&mut Wave, u32)) {
    let mut exec = w.pair(slot::EXEC);
    if w.halves == 1 {
        exec &= 0xffff_ffff;
    }
    while exec != 0 {
        let lane = exec.trailing_zeros();
        exec &= exec - 1;
        f(w, lane);
    }
}

/// The lanes in EXEC that the wave has.
pub(crate) fn active(w: &Wave) -> u64 {
    let exec = w.pair(slot::EXEC);
    if w.halves == 1 { exec & 0xffff_ffff } else { exec }
}

/// The lowest active lane, lane 0 when none is.
pub(crate) fn first_active(w: &Wave) -> u32 {
    let exec = active(w);
    if exec == 0 { 0 } else { exec.trailing_zeros() }
}

/// `v_readfirstlane_b32`.
pub(crate) fn readfirstlane(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    w.s[d.dst as usize & 255] = d.src[0].lane(w, first_active(w));
    Flow::NEXT
}

/// `v_readlane_b32`.
pub(crate) fn readlane(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let lane = d.src[1].scalar(w) & (w.halves * 32 - 1);
    w.s[d.dst as usize & 255] = d.src[0].lane(w, lane);
    Flow::NEXT
}

/// `v_writelane_b32`: writes the lane even if it is off in EXEC.
pub(crate) fn writelane(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let lane = d.src[1].scalar(w) & (w.halves * 32 - 1);
    let value = d.src[0].scalar(w);
    w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    Flow::NEXT
}

/// Returns the lanes below `lane`: of lanes 0 to 31, or of the high ones.
pub(crate) fn lanes_below(high: bool, lane: u32) -> u32 {
    match (high, lane) {
        (false, 32..) => u32::MAX,
        (true, 0..32) => 0,
        _ => (1 << (lane & 31)) - 1,
    }
}

/// `v_mbcnt_lo_u32_b32`: bits of the mask below the lane, of lanes 0 to 31.
pub(crate) fn mbcnt_lo(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let value = (d.src[0].lane(w, lane) & lanes_below(false, lane))
            .count_ones()
            .wrapping_add(d.src[1].lane(w, lane));
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}

/// `v_mbcnt_hi_u32_b32`: the same for lanes 32 to 63.
pub(crate) fn mbcnt_hi(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let value = (d.src[0].lane(w, lane) & lanes_below(true, lane))
            .count_ones()
            .wrapping_add(d.src[1].lane(w, lane));
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}

/// `v_swap_b32`.
pub(crate) fn swap(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let (a, b) = (d.dst + lane / 32, d.src[0].value + lane / 32);
        let (x, y) = (w.v.lane(a, lane & 31), w.v.lane(b, lane & 31));
        w.v.set_lane(a, lane & 31, y);
        w.v.set_lane(b, lane & 31, x);
    });
    Flow::NEXT
}

/// One bit of each of `a`, `b` and `c` is the number of a bit in `table`, from the highest down.
#[inline(always)]
fn by_table<L: Lanes>(table: u32, [a, b, c]: [L::V; 3]) -> L::V {
    let mut result = L::splat(0);
    for number in (0..8).filter(|number| table >> number & 1 != 0) {
        let [x, y, z] =
            [(a, 4), (b, 2), (c, 1)].map(|(word, bit)| if number & bit != 0 { word } else { L::not(word) });
        result = L::or(result, L::and(x, L::and(y, z)));
    }
    result
}

#[inline(always)]
fn truth_tables<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    for half in 0..w.halves {
        let [a, b, c] = [0, 1, 2].map(|n: usize| read::<L, false>(w, &d.src[n], half, Format::Bits));
        let results = [0, 1].map(|n: usize| by_table::<L>(d.imm, [a[n], b[n], c[n]]));
        let exec = exec_half(w, half);
        write::<L>(w, d.dst + half, exec, results);
    }
    Flow::NEXT
}

per_backend! {
    /// `v_bitop3_b32`: the table is `imm`.
    truth_table [] [] |w, _m, d, L| truth_tables::<L>(w, d)
}

/// `v_bitop3_b16`.
pub(crate) fn truth_table_halves(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let [a, b, c] = [0, 1, 2].map(|n: usize| {
            let word = d.src[n].lane(w, lane);
            if d.src[n].high { word >> 16 } else { word }
        });
        let value = (0..8u32).filter(|number| d.imm >> number & 1 != 0).fold(0, |value, number| {
            let of = |word: u32, bit: u32| if number & bit != 0 { word } else { !word };
            value | of(a, 4) & of(b, 2) & of(c, 1)
        });
        let row = d.dst + lane / 32;
        let old = w.v.lane(row, lane & 31);
        let new = match d.flags & flag::DST_HIGH {
            0 => old & 0xffff_0000 | value & 0xffff,
            _ => old & 0xffff | value << 16,
        };
        w.v.set_lane(row, lane & 31, new);
    });
    Flow::NEXT
}

/// `v_permlane16_swap_b32` and `v_permlane32_swap_b32`: every second row of `SIZE` lanes of the destination changes places with
/// the row before it of the source. Of a lane that is off nothing is taken unless `aux` says so, as for other permutations.
pub(crate) fn swap_rows<const SIZE: u32>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let exec = active(w);
    let (fetch_inactive, bound_ctrl) = (d.aux & 1 != 0, d.aux & 2 != 0);
    for lane in (0..w.halves * 32).filter(|lane| lane & SIZE == 0) {
        let other = lane + SIZE;
        let (upper, lower) = (d.dst + other / 32, d.src[0].value + lane / 32);
        let (x, y) = (w.v.lane(upper, other & 31), w.v.lane(lower, lane & 31));
        let taken = |from: u32, value: u32| match fetch_inactive || exec >> from & 1 != 0 {
            true => Some(value),
            false => bound_ctrl.then_some(0),
        };
        if let (true, Some(value)) = (exec >> other & 1 != 0, taken(lane, y)) {
            w.v.set_lane(upper, other & 31, value);
        }
        if let (true, Some(value)) = (exec >> lane & 1 != 0, taken(other, x)) {
            w.v.set_lane(lower, lane & 31, value);
        }
    }
    Flow::NEXT
}

/// All lanes of a source before anything is written.
fn snapshot(w: &Wave, d: &Di) -> [u32; 64] {
    core::array::from_fn(|lane| if (lane as u32) < w.halves * 32 { d.src[0].lane(w, lane as u32) } else { 0 })
}

/// Lanes chosen by a function of the lane; a source lane that is off keeps the old value unless `fetch_inactive`
/// (`Di::aux` bit 0), or is 0 with `bound_ctrl` (bit 1).
fn permute(w: &mut Wave, d: &Di, from: impl Fn(u32) -> u32) -> Flow {
    let values = snapshot(w, d);
    let exec = active(w);
    let (fetch_inactive, bound_ctrl) = (d.aux & 1 != 0, d.aux & 2 != 0);
    for_each_active(w, |w, lane| {
        let source = from(lane) & 63;
        let value = if fetch_inactive || exec >> source & 1 != 0 {
            values[source as usize]
        } else if bound_ctrl {
            0
        } else {
            return;
        };
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}

/// The lane of its row, or of the other row of the pair, that a lane reads by `v_permlane16_b32`.
pub(crate) fn lane_of_row(select: u64, other: bool, lane: u32) -> u32 {
    let row = if other { lane ^ 16 } else { lane } & !15;
    row | (select >> ((lane & 15) * 4) & 15) as u32
}

fn permlane_select(w: &Wave, d: &Di) -> u64 {
    u64::from(d.src[1].scalar(w)) | u64::from(d.src[2].scalar(w)) << 32
}

/// `v_permlane16_b32`: any lane of the same row of 16.
pub(crate) fn permlane16(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let select = permlane_select(w, d);
    permute(w, d, |lane| lane_of_row(select, false, lane))
}

/// `v_permlanex16_b32`: any lane of the other row of the pair.
pub(crate) fn permlanex16(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let select = permlane_select(w, d);
    permute(w, d, |lane| lane_of_row(select, true, lane))
}

/// `v_permlane16_var_b32`: the lane of the same row that the lane's second source says.
pub(crate) fn permlane16_var(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    permute_by_lane(w, d, 0)
}

/// `v_permlanex16_var_b32`: the same of the other row of the pair.
pub(crate) fn permlanex16_var(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    permute_by_lane(w, d, 16)
}

fn permute_by_lane(w: &mut Wave, d: &Di, other: u32) -> Flow {
    let lanes = w.halves * 32;
    let select: [u32; 64] =
        core::array::from_fn(|lane| if (lane as u32) < lanes { d.src[1].lane(w, lane as u32) } else { 0 });
    permute(w, d, |lane| (lane ^ other) & !15 | select[lane as usize & 63] & 15)
}

/// `v_permlane64_b32`: swaps the halves of a wave64, does nothing in a wave32.
pub(crate) fn permlane64(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves == 1 {
        return Flow::NEXT;
    }
    let values = snapshot(w, d);
    for_each_active(w, |w, lane| {
        w.v.set_lane(d.dst + lane / 32, lane & 31, values[(lane ^ 32) as usize & 63]);
    });
    Flow::NEXT
}
