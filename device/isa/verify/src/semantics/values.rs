//! Values that operations are most often wrong for, and the state of a wave made of them.

use belfry_isa::inst::{Arch, WaveSize};

use crate::engine::{CODE, DATA_SIZE, LDS_SIZE, VGPRS};
use crate::random::Random;
use crate::reference::State;
use crate::reference::state::BASE;
use crate::target::{Facts, Target};

/// Words: integers, single precision, high halves of doubles.
const WORDS: [u32; 58] = [
    0,
    1,
    2,
    3,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7f_ffff,
    0x80_0000,
    0xff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0xffff_fffe,
    0xffff_8000,
    // Single precision: denormals, 1, -1.5, 0.5, 2.5, 2^31, 2^32, largest, infinities, NaNs quiet and signalling.
    0x0080_0001,
    0x8000_0fff,
    0x8080_0000,
    0x3f80_0000,
    0xbfc0_0000,
    0x3f00_0000,
    0x3f7f_ffff,
    0x4020_0000,
    0x4f00_0000,
    0xcf00_0000,
    0xcf00_0001,
    0x4f80_0000,
    0x477f_e000,
    0x477f_f000,
    0x3300_0000,
    0x3380_0001,
    0x4b00_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_1234,
    0xffc5_4321,
    0x7f80_0001,
    0xffa0_0000,
    // High halves of doubles.
    0x3ff0_0000,
    0xbff8_0000,
    0x000f_ffff,
    0x7ff0_0000,
    0x7ff8_0000,
];

/// Halves: integers, half precision, `bfloat16`.
const HALVES: [u16; 32] = [
    0, 1, 2, 15, 16, 0x7f, 0x80, 0xff, 0x8000, 0x8001, 0x3ff, 0x400, 0x401, 0x83ff, 0x3c00, 0xbc00, 0x3c01,
    0x3800, 0x4100, 0x77ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e12, 0xfe34, 0x7c01, 0xfd00, 0x7fff, 0xffff,
    0x3f80, 0xbf80,
];

/// Doubles and 64-bit integers.
const LONGS: [u64; 36] = [
    0,
    1,
    63,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x0010_0000_0000_0001,
    0x3ff0_0000_0000_0000,
    0xbff8_0000_0000_0001,
    0x3fe0_0000_0000_0000,
    0x3fef_ffff_ffff_ffff,
    0x4004_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0020_0000,
    0x41ef_ffff_ffe0_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_1234,
    0x7ff0_0000_0000_0001,
    0xfff4_0000_0000_0000,
    0x3690_0000_0000_0000,
    0x3810_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x4340_0000_0000_0001,
    0x3ca0_0000_0000_0001,
    0xc08f_f000_0000_0000,
];

/// Zeros, infinities, NaNs and one: of singles, of two halves, and in the high words of doubles.
const SPECIAL: [u32; 16] = [
    0,
    0x8000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0xffc5_4321,
    0x7f80_0001,
    0xffc0_0000,
    0x3f80_0000,
    0x7c00_0000,
    0x0000_fc00,
    0x7c00_7e01,
    0xfd00_8000,
    0x7ff0_0000,
    0xfff0_0000,
    0x7ff8_0001,
];

/// The same of doubles.
const SPECIAL_LONGS: [u64; 8] = [
    0,
    1 << 63,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    0xfff8_0000_0000_4321,
    0x7ff0_0000_0000_0001,
    0x3ff0_0000_0000_0000,
];

/// Two words that are special to doubles.
pub(crate) fn special_long(random: &mut Random) -> u64 {
    random.pick(&SPECIAL_LONGS)
}

/// A word.
pub(crate) fn word(random: &mut Random) -> u32 {
    match random.below(16) {
        0..=5 => random.pick(&WORDS),
        6..=8 => u32::from(random.pick(&HALVES)) | u32::from(random.pick(&HALVES)) << 16,
        9 => random.word() % 40,
        // A float of moderate size.
        10..=12 => random.word() & 0x83ff_ffff | 0x3c00_0000,
        // An operand near another one.
        13 => random.pick(&WORDS).wrapping_add(random.word() % 3).wrapping_sub(1),
        _ => random.word(),
    }
}

/// Two words.
pub(crate) fn long(random: &mut Random) -> u64 {
    match random.below(8) {
        0..=3 => random.pick(&LONGS),
        4 => random.long() & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
        5 => u64::from(word(random)) | u64::from(word(random)) << 32,
        6 => random.pick(&LONGS).wrapping_add(random.long() % 3).wrapping_sub(1),
        _ => random.long(),
    }
}

/// Active lanes: all, none, one, a half, or any.
pub(crate) fn exec(random: &mut Random) -> u64 {
    match random.below(10) {
        0..=4 => u64::MAX,
        5 => 0,
        6 => 1 << random.below(64),
        7 => 0xffff_ffff_0000_0000,
        8 => 0x0fff_00f7_0000_ffff,
        _ => random.long(),
    }
}

/// `MODE`: mostly what compilers ask for, else any rounding, denormals, `DX10_CLAMP` and `IEEE`; now and then with
/// `FP16_OVFL` and exceptions enabled.
pub(crate) fn mode(random: &mut Random, arch: Arch) -> u32 {
    let usual = if random.one_in(3) { random.word() & 0x3ff } else { 0x3f0 };
    let limit = if random.one_in(4) { 1 << 23 } else { 0 };
    let exceptions = if random.one_in(4) { random.word() & 0x7f << 12 } else { 0 };
    let (set, clear) = Facts::of(arch).fixed_mode;
    (usual | limit | exceptions) & !clear | set
}

/// A wave full of edge values.
pub(crate) fn state(random: &mut Random, target: Target) -> State {
    let facts = Facts::of(target.arch);
    let lanes = if target.wave == WaveSize::Wave32 { 32 } else { 64 };
    let mut state = State {
        arch: target.arch,
        lanes,
        v: vec![[0; 64]; VGPRS + facts.accumulators],
        s: [0; 128],
        scc: random.one_in(2),
        pc: CODE,
        mode: mode(random, target.arch),
        trapsts: Some(0),
        lds: (0..LDS_SIZE / 4).flat_map(|_| word(random).to_le_bytes()).collect(),
        memory: (0..DATA_SIZE / 4).flat_map(|_| word(random).to_le_bytes()).collect(),
        scratch: BASE + DATA_SIZE as u64 - 8192,
        scratch_size: 128,
    };
    // So that several operands are special to one operation.
    let special = random.one_in(6);
    for lanes_of in &mut state.v {
        for lane in &mut lanes_of[..lanes as usize] {
            *lane = if special { random.pick(&SPECIAL) } else { word(random) };
        }
    }
    for (number, register) in state.s.iter_mut().enumerate() {
        // Trap temporaries belong to the trap handler, and there is no register behind NULL.
        if number < 108 || number == usize::from(facts.m0) {
            *register = word(random);
        }
    }
    if random.one_in(2) {
        state.s[usize::from(facts.m0)] %= 8;
    }
    let exec = exec(random);
    state.s[126] = exec as u32;
    // A register like any other in waves of 32.
    state.s[127] = (exec >> 32) as u32;
    state
}
