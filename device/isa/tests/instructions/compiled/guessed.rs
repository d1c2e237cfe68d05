//! Loads of LDS whose addresses the compiler guesses from the numbers of lanes: with guesses that hold, and with
//! others that do not.

use belfry_isa::inst::WaveSize;

use super::{Access, Case, LDS_BYTES, MANY, Runner, difference, lanes, tiers, xor};
use crate::common::Random;

/// v_lshrrev_b32 v2, 6, v0, which is zero for numbers of lanes; v_mov_b32 v3, v2; s_branch of no distance: what follows is a block of its own.
const NEXT: [u32; 3] = [0x3204_0086, 0x7e06_0302, 0xbfa0_0000];

/// v_lshlrev_b32 v1, count, v0.
const fn shift(count: u32) -> u32 {
    0x3002_0080 | count
}

/// Loads by addresses in `v1`, which are as many bytes from each other as one of these shifts makes of it.
const LOADS: [Access; 8] = [
    ("ds_load_b32 v8, v1 offset:4", [0xd8d8_0004, 0x0800_0001]),
    ("ds_load_b64 v[8:9], v1", [0xd9d8_0000, 0x0800_0001]),
    ("ds_load_b64 v[8:9], v1 offset:8", [0xd9d8_0008, 0x0800_0001]),
    ("ds_load_b128 v[8:11], v1", [0xdbfc_0000, 0x0800_0001]),
    ("ds_load_b64 v[0:1], v1", [0xd9d8_0000, 0x0000_0001]),
    ("ds_load_2addr_b32 v[8:9], v1 offset1:1", [0xd8dc_0100, 0x0800_0001]),
    ("ds_load_2addr_b64 v[8:11], v1 offset1:1", [0xd9dc_0100, 0x0800_0001]),
    ("ds_load_2addr_b64 v[8:11], v1 offset1:2", [0xd9dc_0200, 0x0800_0001]),
];

/// Behind it: ds_load_b64 v[4:5], v2; ds_load_b32 v6, v3 offset:20; v_add_nc_u32 v3, 64, v3; ds_load_2addr_b32 v[2:3], v3 offset1:1;
/// ds_load_b32 v7, v1 offset:12; v_xor_b32 of v8 to v11 with v4; s_endpgm.
const BEHIND: [u32; 14] = [
    0xd9d8_0000,
    0x0400_0002,
    0xd8d8_0014,
    0x0600_0003,
    0x4a06_06c0,
    0xd8dc_0100,
    0x0200_0003,
    0xd8d8_000c,
    0x0700_0001,
    xor(8),
    xor(9),
    xor(10),
    xor(11),
    0xbfb0_0000,
];

/// Returns numbers of lanes to use in place of the usual ones: these themselves, others that follow each other, the
/// last ones whose elements are in LDS and some further ones, and random ones.
fn numbers(shift: u32, size: u32) -> Vec<[u32; 64]> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 + u64::from(shift));
    let room = LDS_BYTES >> shift;
    let mut all = vec![
        lanes(|lane| lane),
        lanes(|lane| lane % 16),
        lanes(|lane| lane % 16 + lane / 16 * 3),
        lanes(|lane| 63 - lane),
        lanes(|lane| lane / 2),
        lanes(|lane| lane * 2),
        lanes(|_| 5),
        lanes(|lane| if lane == size - 1 { 0 } else { lane }),
        lanes(|lane| if lane == 16 { 0 } else { lane }),
        core::array::from_fn(|_| (random.next() >> 33) as u32 % room),
    ];
    all.extend((0..6).map(|beyond| lanes(|lane| (room - size + beyond).wrapping_sub(3) + lane)));
    // Addresses that wrap to numbers of lanes.
    all.push(lanes(|lane| lane | 1 << 31));
    all
}

#[test]
fn loads_are_the_same_whether_addresses_are_as_guessed_or_not() {
    for tiers in tiers() {
        for access in LOADS {
            for (size, lanes) in [(WaveSize::Wave32, 32), (WaveSize::Wave64, 64)] {
                // A run that is short, and one whose code is gone through for each sixteen.
                for (count, times) in [(2, 1), (2, 2), (3, 2), (4, 1), (4, 2)] {
                    let before = [&[shift(count)][..], &NEXT, &MANY.repeat(times)].concat();
                    let mut runners = tiers.map(|tier| Runner::new(tier, access, size, (&before, &BEHIND)));
                    for (n, addresses) in numbers(count, lanes).into_iter().enumerate() {
                        for exec in [u64::MAX, 0xffff_0fff_ffff_fff7] {
                            let case = Case { addresses, exec, hides: false };
                            let [expected, found] = runners.each_mut().map(|runner| runner.run(&case));
                            assert!(
                                expected == found,
                                "{:?} {} {size:?} shifted by {count}, {times} times, numbers {n}\n{}",
                                tiers[1],
                                access.0,
                                difference(&expected, &found)
                            );
                        }
                    }
                }
            }
        }
    }
}
