//! Several accesses of one block whose addresses differ by a number that all lanes share: compiled code looks once
//! whether their elements follow each other.

use belfry_isa::inst::WaveSize;

use super::{Access, compare};

/// v_add_co_u32 v10, vcc_lo, 64, v0; v_add_co_ci_u32_e32 v11, vcc_lo, 0, v1, vcc_lo.
const FURTHER: [u32; 3] = [0xd700_6a0a, 0x0002_00c0, 0x4016_0280];
/// v_add_co_u32 v12, vcc_lo, s6, v0; v_add_co_ci_u32_e32 v13, vcc_lo, s7, v1, vcc_lo.
const BY_SCALARS: [u32; 3] = [0xd700_6a0c, 0x0002_0006, 0x401a_0207];
/// v_add_co_u32 v0, vcc_lo, 8, v0, and v_add_co_ci_u32_e32 v1, vcc_lo, 0, v1, vcc_lo.
const IN_PLACE: ([u32; 2], u32) = ([0xd700_6a00, 0x0002_0088], 0x4002_0280);
/// v_add_co_u32 v14, vcc_lo, v10, v10.
const OTHER_CARRIES: [u32; 2] = [0xd700_6a0e, 0x0002_150a];
/// v_and_b32_e32 v10, -8, v10.
const ANOTHER_ROW: u32 = 0x3614_14c8;
/// global_load_b32 v9, v[10:11], off; global_load_b32 v8, v[12:13], off; global_load_b64 v[14:15], v[10:11], off.
const LOAD: [u32; 2] = [0xdc52_0000, 0x097c_000a];
const LOAD_BY_SCALARS: [u32; 2] = [0xdc52_0000, 0x087c_000c];
const LOAD_PAIRS: [u32; 2] = [0xdc56_0000, 0x0e7c_000a];
/// global_store_b32 v[10:11], v4, off; global_store_b32 v[0:1], v4, off offset:4.
const STORE: [u32; 2] = [0xdc6a_0000, 0x007c_040a];
const STORE_IN_PLACE: [u32; 2] = [0xdc6a_0004, 0x007c_0400];
/// global_load_b32 v9, v0, s[4:5] offset:60; global_store_b32 v0, v4, s[4:5] offset:64.
const LOAD_OFFSETS: [u32; 2] = [0xdc52_003c, 0x0904_0000];
const STORE_OFFSETS: [u32; 2] = [0xdc6a_0040, 0x0004_0400];
const END: [u32; 1] = [0xbfb0_0000];

const FIRST: Access = ("global_load_b32 v8, v[0:1], off", [0xdc52_0000, 0x087c_0000]);
const FIRST_BY_SCALARS: Access = ("global_load_b32 v8, v[12:13], off", LOAD_BY_SCALARS);
const FIRST_OFFSETS: Access = ("global_load_b32 v8, v0, s[4:5]", [0xdc52_0000, 0x0804_0000]);
const FIRST_STORE: Access = ("global_store_b32 v[0:1], v4, off", [0xdc6a_0000, 0x007c_0400]);

fn compare_all(access: Access, before: &[&[u32]], after: &[&[u32]]) {
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        compare(access, size, (&before.concat(), &[after, &[&END]].concat().concat()));
    }
}

#[test]
fn accesses_go_by_what_the_first_one_has_found() {
    compare_all(FIRST, &[&FURTHER], &[&LOAD, &STORE]);
    compare_all(FIRST_STORE, &[&FURTHER], &[&LOAD, &LOAD_PAIRS]);
}

#[test]
fn accesses_go_by_rows_of_offsets() {
    compare_all(FIRST_OFFSETS, &[], &[&LOAD_OFFSETS, &STORE_OFFSETS]);
}

#[test]
fn sums_go_on_behind_accesses() {
    compare_all(
        FIRST_BY_SCALARS,
        &[&BY_SCALARS, &FURTHER, &IN_PLACE.0],
        &[&LOAD, &[IN_PLACE.1], &STORE_IN_PLACE],
    );
}

#[test]
fn addresses_with_carries_of_others_are_looked_at() {
    compare_all(FIRST, &[&FURTHER[..2], &OTHER_CARRIES, &FURTHER[2..]], &[&LOAD, &STORE]);
}

#[test]
fn addresses_that_have_changed_are_looked_at() {
    compare_all(FIRST, &[&FURTHER], &[&LOAD_BY_SCALARS, &[ANOTHER_ROW], &LOAD, &STORE]);
}
