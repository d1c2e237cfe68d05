//! Atomics of each chip as words: addresses in `v0`, `v[0:1]` or `v0` and `s[4:5]`, operands from `v4` and `v6` on, results from `v8` on.

use belfry_isa::inst::Arch;

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Atomic {
    pub(super) name: String,
    pub(super) words: Vec<u32>,
    /// Bytes of its element.
    pub(super) bytes: u32,
    /// Offset that is added to its addresses.
    pub(super) offset: u32,
    pub(super) global: bool,
    /// Behind `s[4:5]`.
    pub(super) scalar: bool,
    /// One of few that are looked at closely.
    pub(super) is_typical: bool,
}

/// Operations of LDS that return nothing, by what they are called for 32 bits; for 64 bits they have numbers 64 above, and where they
/// return something 32 above. `llvm-mc-19` assembles all to the same words.
const LDS: [(&str, u32); 14] = [
    ("add_u32", 0),
    ("sub_u32", 1),
    ("rsub_u32", 2),
    ("inc_u32", 3),
    ("dec_u32", 4),
    ("min_i32", 5),
    ("max_i32", 6),
    ("min_u32", 7),
    ("max_u32", 8),
    ("and_b32", 9),
    ("or_b32", 10),
    ("xor_b32", 11),
    ("mskor_b32", 12),
    ("cmpstore_b32", 16),
];
/// `ds_storexchg_rtn_b32`, whose number of 64 bits is 64 above.
const EXCHANGE: u32 = 45;
/// `ds_add_f32`, and where it returns something on gfx9 and on others.
const ADD_FLOAT: [u32; 3] = [21, 53, 121];
/// `ds_add_f64` of gfx9, and where it returns something.
const ADD_DOUBLE: [u32; 2] = [92, 124];
/// `ds_cond_sub_u32` and `ds_sub_clamp_u32` of gfx12, 16 above where they return something.
const SUBTRACTIONS: [(&str, u32); 2] = [("cond_sub_u32", 152), ("sub_clamp_u32", 153)];

/// Operations of global memory: of 32 and of 64 bits, from gfx11 on; 0 if there is none.
const GLOBAL: [(&str, u32, u32); 16] = [
    ("swap", 51, 65),
    ("cmpswap", 52, 66),
    ("add_u", 53, 67),
    ("sub_u", 54, 68),
    ("sub_clamp_u", 55, 0),
    ("min_i", 56, 69),
    ("min_u", 57, 70),
    ("max_i", 58, 71),
    ("max_u", 59, 72),
    ("and", 60, 73),
    ("or", 61, 74),
    ("xor", 62, 75),
    ("inc", 63, 76),
    ("dec", 64, 77),
    ("add_f", 86, 0),
    // Of gfx12.
    ("cond_sub_u", 80, 0),
];
/// Operations of global memory on gfx9: of 32 and of 64 bits.
const GLOBAL_OF_GFX9: [(&str, u32, u32); 14] = [
    ("swap", 64, 96),
    ("cmpswap", 65, 97),
    ("add", 66, 98),
    ("sub", 67, 99),
    ("smin", 68, 100),
    ("umin", 69, 101),
    ("smax", 70, 102),
    ("umax", 71, 103),
    ("and", 72, 104),
    ("or", 73, 105),
    ("xor", 74, 106),
    ("inc", 75, 107),
    ("dec", 76, 108),
    ("add_f", 77, 79),
];

/// An atomic of LDS by its number, with a result in a register.
fn of_lds(arch: Arch, (name, op): (&str, u32), bytes: u32, (result, offset): (Option<u32>, u32)) -> Atomic {
    let shift = if arch.is_gfx9() { 17 } else { 18 };
    let second = if name.starts_with("mskor") || name.starts_with("cmpst") { 6 << 16 } else { 0 };
    let words = vec![0xd800_0000 | op << shift | offset, result.unwrap_or(0) << 24 | second | 4 << 8];
    Atomic {
        name: format!("ds_{name} of {bytes} bytes to {result:?} offset:{offset}"),
        words,
        bytes,
        offset,
        global: false,
        scalar: false,
        is_typical: name == "add_u32" || name.starts_with("cmpst") && result.is_some(),
    }
}

/// An atomic of global memory by its number, with a result in a register.
fn of_global(
    arch: Arch,
    (name, op): (&str, u32),
    bytes: u32,
    (result, scalar): (Option<u32>, bool),
) -> Atomic {
    let offset = if scalar { 8 } else { 0 };
    let returns = u32::from(result.is_some());
    let to = result.unwrap_or(0);
    let off = if arch.is_gfx9() { 0x7f } else { 0x7c };
    let base = if scalar { 4 } else { off };
    let words = match arch {
        Arch::Gfx1201 => {
            vec![0xee00_0000 | op << 14 | base, returns << 20 | 4 << 23 | to, offset << 8]
        }
        Arch::Gfx942 => {
            vec![0xdc00_8000 | op << 18 | returns << 16 | offset, to << 24 | base << 16 | 4 << 8]
        }
        _ => vec![0xdc02_0000 | op << 18 | returns << 14 | offset, to << 24 | base << 16 | 4 << 8],
    };
    let named = name.trim_end_matches("_u");
    Atomic {
        name: format!("global_atomic_{name} of {bytes} bytes to {result:?} behind a scalar: {scalar}"),
        words,
        bytes,
        offset,
        global: true,
        scalar,
        is_typical: named == "add" || named == "cmpswap" && result.is_some(),
    }
}

/// All that there is code for.
pub(super) fn atomics(arch: Arch) -> Vec<Atomic> {
    let gfx9 = arch.is_gfx9();
    let mut all = Vec::new();
    let mut lds = |name: &str, op: u32, bytes: u32, to: (Option<u32>, u32)| {
        all.push(of_lds(arch, (name, op), bytes, to));
    };
    for (name, op) in LDS {
        for (wide, bytes) in [(0, 4), (64, 8)] {
            lds(name, op + wide, bytes, (None, 0));
            lds(name, op + wide + 32, bytes, (Some(8), 8));
        }
    }
    // With a result where the address or an operand is, and an offset that is no multiple of the size.
    for (to, offset) in [(0, 4), (4, 2), (9, 3)] {
        lds("add_u32", 32, 4, (Some(to), offset));
        lds("add_u32", 96, 8, (Some(to), offset));
    }
    lds("storexchg_b32", EXCHANGE, 4, (Some(8), 0));
    lds("storexchg_b32", EXCHANGE + 64, 8, (Some(8), 0));
    lds("add_f32", ADD_FLOAT[0], 4, (None, 0));
    lds("add_f32", ADD_FLOAT[if gfx9 { 1 } else { 2 }], 4, (Some(8), 0));
    if gfx9 {
        lds("add_f64", ADD_DOUBLE[0], 8, (None, 0));
        lds("add_f64", ADD_DOUBLE[1], 8, (Some(8), 0));
    }
    if arch == Arch::Gfx1201 {
        for (name, op) in SUBTRACTIONS {
            lds(name, op, 4, (None, 0));
            lds(name, op + 16, 4, (Some(8), 0));
        }
    }
    let global = if gfx9 { &GLOBAL_OF_GFX9[..] } else { &GLOBAL[..] };
    for &(name, op, wide) in global.iter().filter(|(name, ..)| *name != "cond_sub_u" || arch == Arch::Gfx1201)
    {
        for (op, bytes) in [(op, 4), (wide, 8)].into_iter().filter(|(op, _)| *op > 0) {
            for scalar in [false, true] {
                all.push(of_global(arch, (name, op), bytes, (None, scalar)));
                all.push(of_global(arch, (name, op), bytes, (Some(8), scalar)));
            }
            for (to, scalar) in [(0, true), (1, false), (5, true)] {
                all.push(of_global(arch, (name, op), bytes, (Some(to), scalar)));
            }
        }
    }
    all
}
