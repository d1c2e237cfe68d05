//! Differences of GFX9: names of operations, parts of registers, permutations across rows, indexed registers, pairs.

use std::collections::HashMap;
use std::sync::OnceLock;

use belfry_isa::inst::{Format, Inst, Op, Operand, Sdwa};

use super::lane::{Lane, Out};
use super::number::{F32, add, fma, mul};
use super::state::{End, State};

/// `MODE.GPR_IDX_EN`.
pub(crate) const INDEXED: u32 = 1 << 27;

/// Names that say the same: as GFX9 has them, and as the rest of the reference does.
const NAMES: &[(&str, &str)] = &[
    ("s_ff1_", "s_ctz_"),
    ("s_flbit_i32_b", "s_clz_i32_u"),
    ("s_flbit_", "s_cls_"),
    ("s_andn2_b", "s_and_not1_b"),
    ("s_orn2_b", "s_or_not1_b"),
    ("s_andn1_", "s_and_not0_"),
    ("s_andn2_", "s_and_not1_"),
    ("s_orn1_", "s_or_not0_"),
    ("s_orn2_", "s_or_not1_"),
    ("v_addc_co_u32", "v_add_co_ci_u32"),
    ("v_subb_co_u32", "v_sub_co_ci_u32"),
    ("v_subbrev_co_u32", "v_subrev_co_ci_u32"),
    ("v_add_u32", "v_add_nc_u32"),
    ("v_sub_u32", "v_sub_nc_u32"),
    ("v_subrev_u32", "v_subrev_nc_u32"),
    ("v_add_i32", "v_add_nc_i32"),
    ("v_sub_i32", "v_sub_nc_i32"),
    ("v_add_i16", "v_add_nc_i16"),
    ("v_sub_i16", "v_sub_nc_i16"),
    ("v_add_u16", "v_add_nc_u16"),
    ("v_sub_u16", "v_sub_nc_u16"),
    ("v_cvt_pkrtz_", "v_cvt_pk_rtz_"),
    ("v_cvt_pknorm_", "v_cvt_pk_norm_"),
    ("v_mul_legacy_f32", "v_mul_dx9_zero_f32"),
    ("v_mad_legacy_i16", "v_mad_i16"),
    ("v_mad_legacy_u16", "v_mad_u16"),
    ("v_fma_legacy_f16", "v_fma_f16"),
    ("v_div_fixup_legacy_f16", "v_div_fixup_f16"),
    ("v_fmac_f64", "v_fma_f64"),
    ("v_ffbh_u32", "v_clz_i32_u32"),
    ("v_ffbl_b32", "v_ctz_i32_b32"),
    ("v_ffbh_i32", "v_cls_i32"),
    ("v_cvt_flr_", "v_cvt_floor_"),
    ("v_cvt_rpi_", "v_cvt_nearest_"),
    ("v_exp_legacy_", "v_exp_"),
    ("v_log_legacy_", "v_log_"),
    ("v_accvgpr_read_b32", "v_mov_b32"),
    ("v_accvgpr_write_b32", "v_mov_b32"),
    ("v_accvgpr_mov_b32", "v_mov_b32"),
    ("v_dot2c_f32_f16", "v_dot2acc_f32_f16"),
    ("v_dot2c_f32_bf16", "v_dot2acc_f32_bf16"),
    ("v_cmp_tru_", "v_cmp_t_"),
    ("v_cmpx_tru_", "v_cmpx_t_"),
    ("ds_cmpst_", "ds_cmpstore_"),
    ("ds_wrxchg2st64_", "ds_storexchg_2addr_stride64_"),
    ("ds_wrxchg2_", "ds_storexchg_2addr_"),
    ("ds_wrxchg_", "ds_storexchg_"),
    ("ds_read2st64_", "ds_load_2addr_stride64_"),
    ("ds_read2_", "ds_load_2addr_"),
    ("ds_read_", "ds_load_"),
    ("ds_write2st64_", "ds_store_2addr_stride64_"),
    ("ds_write2_", "ds_store_2addr_"),
    ("ds_write_", "ds_store_"),
];

/// Data that loads and stores move: its names on GFX9 and in the rest of the reference.
const MOVED: &[(&str, &str)] = &[
    ("dword", "b32"),
    ("dwordx2", "b64"),
    ("dwordx3", "b96"),
    ("dwordx4", "b128"),
    ("dwordx8", "b256"),
    ("dwordx16", "b512"),
    ("ubyte", "u8"),
    ("sbyte", "i8"),
    ("ushort", "u16"),
    ("sshort", "i16"),
    ("byte", "b8"),
    ("short", "b16"),
    ("ubyte_d16", "d16_u8"),
    ("ubyte_d16_hi", "d16_hi_u8"),
    ("sbyte_d16", "d16_i8"),
    ("sbyte_d16_hi", "d16_hi_i8"),
    ("short_d16", "d16_b16"),
    ("short_d16_hi", "d16_hi_b16"),
    ("byte_d16_hi", "d16_hi_b8"),
    ("format_d16_x", "d16_format_x"),
    ("format_d16_xy", "d16_format_xy"),
    ("format_d16_xyz", "d16_format_xyz"),
    ("format_d16_xyzw", "d16_format_xyzw"),
    ("format_d16_hi_x", "d16_hi_format_x"),
];

/// The name of an operation in the rest of the reference, of which later architectures may have none.
pub(crate) fn modern(name: &str) -> Option<String> {
    if let Some((old, new)) = NAMES.iter().find(|(old, _)| name.starts_with(old)) {
        return Some(name.replacen(old, new, 1));
    }
    for verb in ["_load_", "_store_"] {
        if let Some((space, moved)) = name.split_once(verb)
            && let Some((_, new)) = MOVED.iter().find(|(old, _)| *old == moved)
        {
            return Some(format!("{space}{verb}{new}"));
        }
    }
    let (space, function) = name.split_once("_atomic_")?;
    let (function, bits) = function.strip_suffix("_x2").map_or((function, 32), |function| (function, 64));
    let (function, kind) = match function {
        "and" | "or" | "xor" | "swap" | "cmpswap" => (function, 'b'),
        "smin" | "smax" => (&function[1..], 'i'),
        "umin" | "umax" => (&function[1..], 'u'),
        "add" | "sub" | "inc" | "dec" => (function, 'u'),
        _ => return None,
    };
    Some(format!("{space}_atomic_{function}_{kind}{bits}"))
}

fn operation(name: &str) -> Option<Op> {
    static BY_NAME: OnceLock<HashMap<&str, Op>> = OnceLock::new();
    BY_NAME.get_or_init(|| Op::ALL.iter().map(|op| (op.mnemonic(), *op)).collect()).get(name).copied()
}

/// The operation by its name in the rest of the reference.
pub(crate) fn known_as(op: Op) -> Op {
    modern(op.mnemonic()).and_then(|name| operation(&name)).unwrap_or(op)
}

/// Returns the word that a conversion puts a byte into: its third source, or for `v_cvt_pkaccum_*` the old value of
/// its destination.
pub(crate) fn packed_into(l: &Lane<'_>) -> Option<u32> {
    if l.vector.op != Op::V_CVT_PKACCUM_U8_F32 {
        return Some(l.integer(2));
    }
    let register = l.state.vector_register(l.vector.dst)?;
    Some(l.state.vpair(register, l.lane) as u32)
}

/// Returns true if a result of 16 bits leaves zeros above it, as results of the operations that GFX8 had do.
pub(crate) fn zeroes(inst: &Inst) -> bool {
    let name = inst.op.mnemonic();
    let selects_half =
        ["v_mad_u16", "v_mad_i16", "v_fma_f16", "v_mad_f16", "v_div_fixup_f16", "v_add_i16", "v_sub_i16"];
    let accumulates = ["v_mac_f16", "v_madak_f16", "v_madmk_f16"];
    let of_three =
        ["v_min3_", "v_max3_", "v_med3_", "v_bitop3_b16", "v_ashr_pk_", "v_cvt_sr_bf16_", "v_cvt_sr_f16_"];
    !selects_half.contains(&name)
        && !accumulates.contains(&name)
        && !of_three.iter().any(|start| name.starts_with(start))
}

/// Moves the vector registers of an instruction by `M0`, where `MODE` says so.
pub(crate) fn indexed(state: &State, inst: &Inst) -> Result<Inst, End> {
    let vector = matches!(
        inst.format,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd | Format::Vop3P
    );
    if state.mode & INDEXED == 0 || !vector {
        return Ok(*inst);
    }
    let swaps = [Op::V_PERMLANE16_SWAP_B32, Op::V_PERMLANE32_SWAP_B32].contains(&inst.op);
    if inst.sdwa.is_some() || swaps || matches!(inst.op, Op::V_SWAP_B32 | Op::V_WRITELANE_B32) {
        return Err(End::Unknown);
    }
    let m0 = state.m0();
    let types = belfry_isa::tables::operand_types(state.arch, inst);
    if types.iter().any(|operand| operand.words > 4) {
        return Err(End::Unknown);
    }
    let words =
        |place| types.iter().find(|operand| operand.place == place).map(|operand| operand.words.max(1));
    let limit = state.v.len() - state.facts().accumulators;
    let moved = |operand: Operand, bit: u32, words: u8| match operand {
        Operand::Vgpr(register) => {
            let shift = if m0 >> (12 + bit) & 1 != 0 { m0 & 0xff } else { 0 };
            let register = u32::from(register) + shift;
            if register as usize + usize::from(words) > limit {
                Err(End::Register)
            } else {
                Ok(Operand::Vgpr(register as u8))
            }
        }
        other => Ok(other),
    };
    use belfry_isa::tables::Place;
    let mut inst = *inst;
    let dst_words = words(Place::Dst).unwrap_or(1);
    let old_dst = inst.dst;
    for n in 0..3 {
        // What is added to is the destination.
        let (bit, count) = match words(Place::Src(n)) {
            None if n == 2 && inst.src[n] == old_dst => (3, dst_words),
            count => (n as u32, count.unwrap_or(1)),
        };
        inst.src[n] = moved(inst.src[n], bit, count)?;
    }
    inst.dst = moved(inst.dst, 3, dst_words)?;
    Ok(inst)
}

/// Executes `s_set_gpr_idx_*`. Returns true if the instruction is one.
pub(crate) fn set_index(state: &mut State, inst: &Inst) -> bool {
    let (index, operands, enabled) = match inst.op {
        Op::S_SET_GPR_IDX_ON => (true, true, Some(true)),
        Op::S_SET_GPR_IDX_OFF => (false, false, Some(false)),
        Op::S_SET_GPR_IDX_MODE => (false, true, None),
        Op::S_SET_GPR_IDX_IDX => (true, false, None),
        _ => return false,
    };
    let mut m0 = state.m0();
    if index {
        m0 = m0 & 0xffff_ff00 | state.scalar(inst.src[0]) & 0xff;
    }
    if operands {
        m0 = m0 & 0xffff_0fff | (inst.imm & 15) << 12;
    }
    state.set_sgpr(state.facts().m0, m0);
    match enabled {
        Some(true) => state.mode |= INDEXED,
        Some(false) => state.mode &= !INDEXED,
        None => {}
    }
    true
}

/// Lane that a permutation of GFX9 alone reads from; the outer `None` for the others.
pub(crate) fn permuted(ctrl: u16, lane: u32) -> Option<Option<u32>> {
    let row = lane / 16;
    Some(match ctrl {
        // By one lane across the whole wave, to the left or to the right, around its ends or not.
        0x130 => {
            if lane == 63 {
                None
            } else {
                Some(lane + 1)
            }
        }
        0x134 => Some((lane + 1) % 64),
        0x138 => {
            if lane == 0 {
                None
            } else {
                Some(lane - 1)
            }
        }
        0x13c => Some((lane + 63) % 64),
        // The last lane of the row before, and lane 31 for the upper half.
        0x142 => {
            if row == 0 {
                None
            } else {
                Some(row * 16 - 1)
            }
        }
        0x143 => {
            if row < 2 {
                None
            } else {
                Some(31)
            }
        }
        0x160..=0x16f => None,
        _ => return None,
    })
}

/// Width and first bit of a part of a register.
fn part(select: u8) -> (u32, u32) {
    match select {
        0 => (8, 0),
        1 => (8, 8),
        2 => (8, 16),
        3 => (8, 24),
        4 => (16, 0),
        5 => (16, 16),
        _ => (32, 0),
    }
}

fn extend(value: u32, width: u32, signed: bool) -> u32 {
    let value = u64::from(value) & ((1 << width) - 1);
    if signed && value >> (width - 1) & 1 != 0 { (value | u64::MAX << width) as u32 } else { value as u32 }
}

/// The part of source `n` that an instruction reads.
pub(crate) fn source_part(sdwa: Sdwa, n: usize, value: u32) -> u32 {
    let Some(select) = sdwa.src_sel.get(n) else { return value };
    let (width, at) = part(*select);
    extend(value >> at, width, sdwa.sext >> n & 1 != 0)
}

/// The destination with a result in its part.
pub(crate) fn with_part(sdwa: Sdwa, old: u32, result: u32) -> u32 {
    let (width, at) = part(sdwa.dst_sel);
    let mask = (((1u64 << width) - 1) << at) as u32;
    match sdwa.dst_unused {
        0 => extend(result, width, false) << at,
        1 => extend(result, width, true) << at,
        _ => old & !mask | extend(result, width, false) << at,
    }
}

/// One of the two words of a source. Constants are the same for both.
fn word_of(l: &Lane<'_>, n: usize, select: u8) -> u32 {
    let registers = matches!(l.vector.src[n], Operand::Vgpr(_) | Operand::Agpr(_) | Operand::Sgpr(_));
    match registers {
        true if select >> n & 1 != 0 => (l.u64(n) >> 32) as u32,
        true => l.u64(n) as u32,
        false => l.u32(n),
    }
}

/// A source of `v_pk_*_f32` for one of its two results.
pub(crate) fn single_of(l: &Lane<'_>, n: usize, high: bool) -> u64 {
    let mods = &l.vector.mods;
    let (select, neg) = if high { (mods.op_sel_hi, mods.neg_hi) } else { (mods.op_sel, mods.neg) };
    u64::from(word_of(l, n, select) ^ if neg >> n & 1 != 0 { 0x8000_0000 } else { 0 })
}

/// `v_pk_*_f32` and `v_pk_mov_b32`.
pub(crate) fn pair(l: &Lane<'_>) -> Option<Out> {
    if l.vector.op == Op::V_PK_MOV_B32 {
        let word = |n| u64::from(word_of(l, n, l.vector.mods.op_sel));
        return Some(Out::B64(word(0) | word(1) << 32));
    }
    let rules = l.single();
    let half = |high: bool| {
        let f = |n: usize| single_of(l, n, high);
        let value = match l.vector.op {
            Op::V_PK_FMA_F32 => fma::<F32>(f(0), f(1), f(2), rules),
            Op::V_PK_MUL_F32 => mul::<F32>(f(0), f(1), rules),
            Op::V_PK_ADD_F32 => add::<F32>(f(0), f(1), rules),
            _ => return None,
        };
        match l.out32(value) {
            Out::B32(value) => Some(value),
            _ => None,
        }
    };
    Some(Out::B64(half(false)? & 0xffff_ffff | half(true)? << 32))
}

/// Number among the formats of later descriptors for a data format and a number format.
pub(crate) fn buffer_format(data: u32, number: u32) -> u32 {
    const KINDS: [&str; 8] = ["unorm", "snorm", "uscaled", "sscaled", "uint", "sint", "", "float"];
    // The data formats, in the order of both, with the kinds that later ones have of each.
    const DATA: [&str; 14] = [
        "unorm snorm uscaled sscaled uint sint",
        "unorm snorm uscaled sscaled uint sint float",
        "unorm snorm uscaled sscaled uint sint",
        "uint sint float",
        "unorm snorm uscaled sscaled uint sint float",
        "float",
        "float",
        "unorm snorm uint sint",
        "unorm snorm uscaled sscaled uint sint",
        "unorm snorm uscaled sscaled uint sint",
        "uint sint float",
        "unorm snorm uscaled sscaled uint sint float",
        "uint sint float",
        "uint sint float",
    ];
    let mut next = 1;
    for (n, kinds) in (1..).zip(DATA) {
        for kind in kinds.split(' ') {
            if n == data && kind == KINDS[number as usize & 7] {
                return next;
            }
            next += 1;
        }
    }
    0
}
