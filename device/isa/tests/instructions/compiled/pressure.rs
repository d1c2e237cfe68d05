//! Runs of many rows with loads of LDS in between: what is written may be overwritten before anything reads it, or be read after it
//! had to make room.

use belfry_isa::inst::WaveSize;

use super::{Access, Case, LDS_BYTES, Runner, difference, lanes, tiers};
use crate::common::Random;

/// v_lshlrev_b32 v1, 4, v0; v_lshrrev_b32 v2, 6, v0, which is zero for numbers of lanes; v_lshlrev_b32 v3, 2, v0; s_branch of no
/// distance: what follows is a block of its own.
const BEFORE: [u32; 4] = [0x3002_0084, 0x3204_0086, 0x3006_0082, 0xbfa0_0000];
/// ds_load_b64 v[4:5], v1.
const ACCESS: Access = ("ds_load_b64 v[4:5], v1", [0xd9d8_0000, 0x0400_0001]);
/// Rows that elements read and write, from the fourth on.
const FIRST: u32 = 4;
const ROWS: u32 = 24;

/// Any instruction of some that read and write these rows, and of loads by addresses in `v1` to `v3`.
fn instruction(random: &mut Random) -> Vec<u32> {
    let mut below = |limit: u32| (random.next() >> 33) as u32 % limit;
    let [d, a, b, c] = [(); 4].map(|()| FIRST + below(ROWS - 3));
    let two = |op: u32| vec![op | d << 17 | b << 9 | (0x100 + a)];
    let load = |high: u32, address: u32| vec![high, d << 24 | address];
    let offset = below(4) * 8;
    // v_dual_fmac_f32 of two rows, whose sources are in four banks.
    let [x, y, e, f] = [(); 4].map(|()| 1 + below(5));
    let banks = [4 * x, 4 * y + 2, 4 * e + 1, 4 * f + 3];
    let dual = vec![
        0xc800_0100 | banks[0] | banks[1] << 9,
        0x100 | banks[2] | banks[3] << 9 | (FIRST / 2 + e) << 17 | (FIRST + 2 * f) << 24,
    ];
    match below(14) {
        // v_mov_b32, v_xor_b32, v_add_nc_u32, v_fmac_f32, v_cndmask_b32.
        0 => vec![0x7e00_0200 | d << 17 | (0x100 + a)],
        1 => two(0x3a00_0000),
        2 => two(0x4a00_0000),
        3 | 4 => two(0x5600_0000),
        5 => two(0x0200_0000),
        // v_mad_u64_u32.
        6 => vec![0xd6fe_7c00 | d, (0x100 + a) | ((0x100 + b) << 9) | ((0x100 + c) << 18)],
        // ds_load_b64 and ds_load_b128, ds_load_b32 of one element or of neighbours.
        7 => load(0xd9d8_0000 | offset, 1 + below(2)),
        8 => load(0xdbfc_0000 | offset, 1 + below(2)),
        9 => load(0xd8d8_0000 | offset, 2 + below(2)),
        // ds_load_2addr_b64 of four dwords side by side.
        10 => load(0xd9dc_0100, 1 + below(2)),
        // v_add_nc_u32 of 88 and an address, and ds_load_b64 from there.
        11 => [vec![0x4a00_00ff | a << 17 | (1 + below(2)) << 9, 88], load(0xd9d8_0000, a)].concat(),
        // ds_load_b32 from where no LDS is.
        12 if below(40) == 0 => load(0xd8d8_ffe8, 3),
        _ => dual,
    }
}

#[test]
fn rows_that_make_room_for_others_are_as_the_interpreter_leaves_them() {
    let room = LDS_BYTES / 16;
    for tiers in tiers() {
        let mut random = Random(0x51ed_270b_0f1e_55aa);
        for program in 0..150 {
            let all: Vec<u32> = (0..20 + program % 50).flat_map(|_| instruction(&mut random)).collect();
            for (size, count) in [(WaveSize::Wave32, 32), (WaveSize::Wave64, 64)] {
                // s_mov_b32 exec_lo, 0x0ffffff7: addresses of lanes that are off may be as guessed, too.
                let off: &[u32] = if program % 4 == 0 { &[0xbefe_00ff, 0x0fff_fff7] } else { &[] };
                let before = [&BEFORE[..3], off, &BEFORE[3..], &all[..]].concat();
                // v_xor_b32 v5, v5, v4; s_endpgm.
                let mut runners =
                    tiers.map(|tier| Runner::new(tier, ACCESS, size, (&before, &[0x3a0a_0905, 0xbfb0_0000])));
                for (n, addresses) in [
                    lanes(|lane| lane),
                    lanes(|lane| lane % 16),
                    lanes(|lane| 63 - lane),
                    lanes(|lane| room - count - 5 + lane),
                    lanes(|lane| room - count + lane),
                ]
                .into_iter()
                .enumerate()
                {
                    for exec in [u64::MAX, 0xffff_0fff_ffff_fff7] {
                        let case = Case { addresses, exec, hides: false };
                        let [expected, found] = runners.each_mut().map(|runner| runner.run(&case));
                        assert!(
                            expected == found,
                            "{:?} program {program} {size:?}, numbers {n}: {all:x?}\n{}",
                            tiers[1],
                            difference(&expected, &found)
                        );
                    }
                }
            }
        }
    }
}
