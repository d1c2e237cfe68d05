//! Vector ALU instructions over all lanes: EXEC, DPP, where results go.

use belfry_isa::inst::{Dpp, Format, Inst, Op, Operand};

use super::lane::{From, Lane, Out, Vector};
use super::state::{EXEC, End, State, VCC};
use super::{
    cdna4, compare, cross, flags, float, fnuz, gfx9, integer, matrix, mfma, packed, scaled, small, spread,
};

/// Runs a vector ALU instruction.
pub(crate) fn run(state: &mut State, inst: &Inst, zeroes: bool) -> Result<(), End> {
    if let Some(done) = mfma::run(state, inst) {
        return done;
    }
    if packed::is_matrix(inst.op) {
        let copies = crate::target::Facts::of(state.arch).matrices_have_copies;
        return if copies { matrix::run(state, inst) } else { spread::run(state, inst) };
    }
    if inst.op.mnemonic().starts_with("v_s_") {
        return to_scalar(state, inst);
    }
    if inst.format == Format::Vopd {
        return dual(state, inst);
    }
    if matches!(inst.op, Op::V_NOP | Op::V_PIPEFLUSH) {
        return Ok(());
    }
    if let Some(done) = scaled::run(state, inst) {
        return done;
    }
    if let Some(done) = cross::run(state, inst) {
        return done;
    }
    let vector = Vector {
        op: inst.op,
        format: inst.format,
        dst: inst.dst,
        dst2: inst.dst2,
        src: [inst.src[0], inst.src[1], inst.src[2]],
        mods: inst.mods,
        byte: inst.imm,
        sdwa: inst.sdwa,
        zeroes,
    };
    let lanes = lanes(state, inst);
    if let Some(comparison) = compare::parse(inst.op.mnemonic()) {
        let mut mask = 0;
        for &(lane, from) in &lanes {
            let l = Lane { state, vector: &vector, lane, from };
            mask |= u64::from(compare::run(&l, comparison)) << lane;
        }
        raise(state, &vector, &lanes);
        let register = match inst.dst {
            Operand::Sgpr(register) => register,
            _ => VCC,
        };
        if !comparison.to_exec || state.facts().is_gfx9 {
            state.set_mask(register, mask);
        }
        if comparison.to_exec {
            state.set_mask(EXEC, mask);
        }
        return Ok(());
    }
    let mut results = Vec::with_capacity(lanes.len());
    let mut carry = None;
    for &(lane, from) in &lanes {
        let l = Lane { state, vector: &vector, lane, from };
        let out = match with_mask(&l) {
            Some((out, bit)) => {
                carry = Some(carry.unwrap_or(0) | u64::from(bit) << lane);
                out
            }
            None => value(&l).ok_or(End::Unknown)?,
        };
        results.push((lane, out));
    }
    if lanes.is_empty() {
        let l = Lane { state, vector: &vector, lane: 0, from: From::Lane(0) };
        carry = with_mask(&l).map(|_| 0);
    }
    raise(state, &vector, &lanes);
    for (lane, out) in results {
        write(state, &vector, lane, out);
    }
    if let (Some(mask), Operand::Sgpr(register)) = (carry, vector.dst2) {
        state.set_mask(register, mask);
    }
    Ok(())
}

/// `v_s_*`: a function of scalars, done with any EXEC.
fn to_scalar(state: &mut State, inst: &Inst) -> Result<(), End> {
    let name = inst.op.mnemonic().trim_start_matches("v_s_");
    let op = Op::ALL.iter().find(|op| op.mnemonic().strip_prefix("v_") == Some(name)).ok_or(End::Unknown)?;
    let vector = Vector {
        op: *op,
        format: inst.format,
        dst: Operand::None,
        dst2: Operand::None,
        src: [inst.src[0], inst.src[1], inst.src[2]],
        mods: inst.mods,
        byte: inst.imm,
        sdwa: None,
        zeroes: false,
    };
    let l = Lane { state, vector: &vector, lane: 0, from: From::Lane(0) };
    let Some(Out::B16(value) | Out::B32(value)) = value(&l) else { return Err(End::Unknown) };
    raise(state, &vector, &[(0, From::Lane(0))]);
    if let Operand::Sgpr(dst) = inst.dst {
        state.set_sgpr(dst, value as u32);
    }
    Ok(())
}

/// Records the exceptions of an operation in these lanes.
fn raise(state: &mut State, vector: &Vector, lanes: &[(u32, From)]) {
    if !state.records() {
        return;
    }
    let bits = lanes
        .iter()
        .try_fold(0, |bits, &(lane, from)| Some(bits | flags::raised(&Lane { state, vector, lane, from })?));
    state.raise(bits);
}

/// The value of a lane.
pub(super) fn value(l: &Lane<'_>) -> Option<Out> {
    if let Some(out) = gfx9::pair(l).or_else(|| fnuz::dot(l)) {
        return Some(out);
    }
    if l.state.facts().old_bytes
        && let Some(out) = fnuz::run(l)
    {
        return Some(out);
    }
    if l.vector.format == Format::Vop3P && l.vector.op != Op::V_MOV_B32 || l.vector.op == Op::V_PK_FMAC_F16 {
        return packed::run(l);
    }
    integer::run(l).or_else(|| cdna4::run(l)).or_else(|| small::run(l)).or_else(|| float::run(l))
}

/// Operations that give a bit for a lane mask as well.
fn with_mask(l: &Lane<'_>) -> Option<(Out, bool)> {
    use Op::*;
    let (a, b) = (i128::from(l.u32(0)), i128::from(l.u32(1)));
    let carry = || i128::from(l.bit(2));
    let word = |value: i128| Some((l.int(value, 32, false), !(0..1 << 32).contains(&value)));
    match l.vector.op {
        V_ADD_CO_U32 => word(a + b),
        V_SUB_CO_U32 => word(a - b),
        V_SUBREV_CO_U32 => word(b - a),
        V_ADD_CO_CI_U32 => word(a + b + carry()),
        V_SUB_CO_CI_U32 => word(a - b - carry()),
        V_SUBREV_CO_CI_U32 => word(b - a - carry()),
        V_MAD_U64_U32 => {
            let sum = a * b + i128::from(l.u64(2));
            Some((l.int(sum, 64, false), sum >> 64 != 0))
        }
        V_MAD_I64_I32 => {
            let sum = i128::from(l.i32(0)) * i128::from(l.i32(1)) + i128::from(l.i64(2));
            Some((l.int(sum, 64, true), sum != i128::from(sum as i64)))
        }
        _ => float::with_mask(l),
    }
}

/// Writes a lane's result.
fn write(state: &mut State, vector: &Vector, lane: u32, out: Out) {
    let Some(register) = state.vector_register(vector.dst) else { return };
    if let Some(sdwa) = vector.sdwa
        && let Out::B16(value) | Out::B32(value) = out
    {
        let value = if let Out::B16(_) = out { value as u32 & 0xffff } else { value as u32 };
        let value = gfx9::with_part(sdwa, state.vgpr(register, lane), value);
        return state.set_vgpr(register, lane, value);
    }
    match out {
        Out::B16(value) if vector.zeroes => state.set_vgpr(register, lane, value as u32 & 0xffff),
        Out::B16(value) => {
            let old = state.vgpr(register, lane);
            let value = value as u32 & 0xffff;
            let high = vector.mods.op_sel & 8 != 0;
            state.set_vgpr(
                register,
                lane,
                if high { old & 0xffff | value << 16 } else { old & 0xffff_0000 | value },
            );
        }
        Out::B32(value) => state.set_vgpr(register, lane, value as u32),
        Out::B64(value) => state.set_vpair(register, lane, value),
        Out::B128(words) => {
            for (n, word) in (0..).zip(words) {
                state.set_vgpr(register + n, lane, word);
            }
        }
    }
}

/// VOPD: both halves read before either writes.
fn dual(state: &mut State, inst: &Inst) -> Result<(), End> {
    let Some(y) = inst.dual else { return Err(End::Unknown) };
    let half = |op: Op, dst: Operand, src: [Operand; 3]| Vector {
        op,
        format: Format::Vop2,
        dst,
        dst2: Operand::None,
        src,
        mods: belfry_isa::inst::Mods { op_sel_hi: 7, ..Default::default() },
        byte: 0,
        sdwa: None,
        zeroes: false,
    };
    let x = half(inst.op, inst.dst, [inst.src[0], inst.src[1], inst.src[2]]);
    let y = half(y.op, y.dst, y.src);
    let before = state.clone();
    for vector in [&x, &y] {
        let lanes: Vec<(u32, From)> = before.active().map(|lane| (lane, From::Lane(lane))).collect();
        let mut raised = before.clone();
        raise(&mut raised, vector, &lanes);
        state.trapsts = state.trapsts.zip(raised.trapsts).map(|(old, new)| old | new);
        for lane in before.active() {
            let l = Lane { state: &before, vector, lane, from: From::Lane(lane) };
            let out = value(&l).ok_or(End::Unknown)?;
            write(state, vector, lane, out);
        }
    }
    Ok(())
}

/// The lanes that run, and where each takes its first source from.
pub(super) fn lanes(state: &State, inst: &Inst) -> Vec<(u32, From)> {
    let exec = state.exec();
    let active = |lane: u32| exec >> lane & 1 != 0;
    state
        .active()
        .filter_map(|lane| match inst.dpp {
            None => Some((lane, From::Lane(lane))),
            Some(Dpp::Dpp8(dpp)) => {
                let from = lane & !7 | dpp.selectors >> ((lane & 7) * 3) & 7;
                let readable = dpp.fetch_inactive || active(from);
                Some((lane, if readable { From::Lane(from) } else { From::Zero }))
            }
            Some(Dpp::Dpp16(dpp)) => {
                let (row, at) = (lane & !15, lane & 15);
                if dpp.row_mask >> (lane / 16) & 1 == 0 || dpp.bank_mask >> (at / 4) & 1 == 0 {
                    return None;
                }
                let amount = u32::from(dpp.ctrl & 15);
                let own = state.facts().is_gfx9.then(|| gfx9::permuted(dpp.ctrl, lane)).flatten();
                let later = || match dpp.ctrl {
                    0..=0xff => Some(lane & !3 | u32::from(dpp.ctrl) >> ((lane & 3) * 2) & 3),
                    0x101..=0x10f => Some(at + amount).filter(|&at| at < 16).map(|at| row + at),
                    0x111..=0x11f => at.checked_sub(amount).map(|at| row + at),
                    0x121..=0x12f => Some(row + (at + 16 - amount) % 16),
                    0x140 => Some(row + 15 - at),
                    0x141 => Some(lane & !7 | (7 - (lane & 7))),
                    0x150..=0x15f => Some(row + amount),
                    0x160..=0x16f => Some(row + (at ^ amount)),
                    _ => None,
                };
                let from = own.unwrap_or_else(later);
                match from.filter(|&from| dpp.fetch_inactive || active(from)) {
                    Some(from) => Some((lane, From::Lane(from))),
                    None if dpp.bound_ctrl => Some((lane, From::Zero)),
                    None => None,
                }
            }
        })
        .collect()
}

/// `M0`, for relative moves.
pub(super) fn m0(state: &State) -> u32 {
    state.m0()
}
