//! Operations that CDNA4 has and no other architecture here.

use belfry_isa::inst::{Inst, Op};

use super::lane::{Lane, Out};
use super::number::{F16, F32, Rules, convert, flushed};
use super::state::{End, State};

/// The bits of the table that each place of three words asks for.
fn by_table(table: u32, words: [u32; 3], bits: u32) -> u32 {
    (0..bits).fold(0, |result, at| {
        let number = words.iter().fold(0, |number, word| number << 1 | word >> at & 1);
        result | (table >> number & 1) << at
    })
}

/// The high half of a single, to nearest even.
pub(super) fn brain(value: u64) -> u64 {
    let value = value as u32;
    if f32::from_bits(value).is_nan() {
        return u64::from(value >> 16 | 0x40);
    }
    let (kept, rest) = (value >> 16, value & 0xffff);
    u64::from(kept + u32::from(rest > 0x8000 || rest == 0x8000 && kept & 1 != 0))
}

/// The larger in magnitude of the two numbers around, if the digits between and the random ones make one.
fn by_chance(value: u64, random: u32, narrow: impl Fn(f64) -> u64, step: f64) -> u64 {
    let single = f32::from_bits(value as u32);
    let magnitude = f64::from(single.abs());
    let steps = (magnitude / step + f64::from(random) / 2f64.powi(32)).floor();
    u64::from(single.is_sign_negative()) << 15 | narrow(steps * step)
}

/// The result of a lane; `None` when the operation is none of these.
pub(super) fn run(l: &Lane<'_>) -> Option<Out> {
    use Op::*;
    let (u, i) = (|n| l.u32(n), |n| l.i32(n));
    let source = |n: usize| flushed::<F32>(l.f32(n), l.single().flush_in);
    let bytes = |least: i32, most: i32| {
        let byte = |n: usize| u64::from((i(n) >> (u(2) & 31)).clamp(least, most) as u8);
        Some(Out::B16(byte(0) | byte(1) << 8))
    };
    match l.vector.op {
        V_BITOP3_B32 => Some(Out::B32(by_table(l.vector.byte, [u(0), u(1), u(2)], 32).into())),
        V_BITOP3_B16 => {
            let words = [0, 1, 2].map(|n| u32::from(l.u16(n)));
            Some(Out::B16(by_table(l.vector.byte, words, 16).into()))
        }
        // A register that is fed back by four of its places.
        V_PRNG_B32 => {
            let word = u64::from(u(0)) << 1;
            Some(Out::B32((word ^ if word >> 32 != 0 { 0xc5 } else { 0 }) & 0xffff_ffff))
        }
        V_ASHR_PK_I8_I32 => bytes(-128, 127),
        V_ASHR_PK_U8_I32 => bytes(0, 255),
        V_CVT_F32_BF16 => {
            let mods = &l.vector.mods;
            let magnitude = if mods.abs & 1 != 0 { l.u16(0) & 0x7fff } else { l.u16(0) };
            let value = magnitude ^ u16::from(mods.neg & 1) << 15;
            Some(l.out32(flushed::<F32>(u64::from(value) << 16, l.single().flush_out)))
        }
        V_CVT_PK_BF16_F32 => Some(Out::B32(brain(source(0)) | brain(source(1)) << 16)),
        V_CVT_PK_F16_F32 => {
            let half = |n: usize| convert::<F32, F16>(source(n), Rules::IEEE, Rules::IEEE);
            Some(Out::B32(half(0) | half(1) << 16))
        }
        V_CVT_SR_BF16_F32 => {
            let value = source(0);
            if value >> 23 & 0xff == 0xff {
                return Some(Out::B16(brain(value)));
            }
            Some(Out::B16((value + u64::from(u(1) >> 16)) >> 16 & 0xffff))
        }
        V_CVT_SR_F16_F32 => {
            let value = source(0);
            let narrow = |magnitude: f64| {
                convert::<F32, F16>((magnitude as f32).to_bits().into(), Rules::IEEE, Rules::IEEE)
            };
            if value >> 23 & 0xff == 0xff {
                return Some(Out::B16(convert::<F32, F16>(value, Rules::IEEE, Rules::IEEE)));
            }
            let exponent = ((value >> 23 & 0xff) as i32 - 127).max(-14);
            Some(Out::B16(by_chance(value, u(1), narrow, 2f64.powi(exponent - 10))))
        }
        _ => None,
    }
}

/// `v_permlane16_swap_b32` and `v_permlane32_swap_b32`. A source that is no vector register cannot be written.
pub(super) fn swap_rows(state: &mut State, inst: &Inst) -> Result<(), End> {
    let size = if inst.op == Op::V_PERMLANE16_SWAP_B32 { 16 } else { 32 };
    let (Some(upper), Some(lower)) = (state.vector_register(inst.dst), state.vector_register(inst.src[0]))
    else {
        return Err(End::Unknown);
    };
    let dpp = match inst.dpp {
        Some(belfry_isa::inst::Dpp::Dpp16(dpp)) => [dpp.fetch_inactive, dpp.bound_ctrl],
        _ => [0, 1].map(|bit| inst.mods.op_sel >> bit & 1 != 0),
    };
    let [fetches, bounds] = dpp;
    let before = state.clone();
    let is_on = |lane: u32| before.exec() >> lane & 1 != 0;
    for lane in 0..before.lanes {
        let odd = lane / size % 2 == 1;
        let (own, other, from) = if odd { (upper, lower, lane - size) } else { (lower, upper, lane + size) };
        if !is_on(lane) {
            continue;
        }
        if fetches || is_on(from) {
            state.set_vgpr(own, lane, before.vgpr(other, from));
        } else if bounds {
            state.set_vgpr(own, lane, 0);
        }
    }
    Ok(())
}
