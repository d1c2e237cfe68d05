//! Tests of grids, of the registers that waves begin with, and of the launches that other tests use.

use super::*;
use crate::chip::gfx1100::GENERATION;
use crate::chip::{gfx942, gfx1201};

const SEAT: WaveSeat = WaveSeat { chip: &GENERATION, scratch_slot: None, hw_ids: [0; 2] };

pub(in crate::shader) fn launch() -> Launch {
    Launch {
        entry: 0x1000,
        wave_size: WaveSize::Wave32,
        vgpr_count: 8,
        allocates_vgprs: false,
        shared_vgprs: 0,
        accum_offset: 0,
        mode: 0x3f0,
        user_sgprs: vec![0xa, 0xb],
        workgroup_id_sgprs: [true, false, true],
        workgroup_info_sgpr: true,
        workitem_id_dims: 2,
        grid: [10, 5, 3],
        start: [0; 3],
        workgroup: [4, 4, 2],
        lds_size: 0,
        scratch: None,
        scratch_bytes_per_lane: 0,
        trap: None,
        doorbell: 0,
        wgp_mode: false,
        cus: CuMask::ALL,
        shares: None,
        queue_ids: [0; 2],
        packet: 0,
        hangs: false,
    }
}

#[test]
fn grid_divides_into_partial_workgroups() {
    let launch = launch();
    assert_eq!(launch.workgroups(), [3, 2, 2]);
    assert_eq!(launch.workgroup_count(), Some(12));
    assert_eq!(launch.workgroup_id(0), [0, 0, 0]);
    assert_eq!(launch.workgroup_id(4), [1, 1, 0]);
    assert_eq!(launch.workgroup_id(11), [2, 1, 1]);
    assert_eq!(launch.extent([0, 0, 0]), [4, 4, 2]);
    assert_eq!(launch.extent([2, 1, 1]), [2, 1, 1]);
    let items: u64 = (0..12)
        .map(|index| launch.extent(launch.workgroup_id(index)).into_iter().map(u64::from).product::<u64>())
        .sum();
    assert_eq!(items, 10 * 5 * 3);
}

#[test]
fn workgroups_begin_at_the_start_and_end_with_the_grid() {
    let launch = Launch { start: [1, 1, 0], ..launch() };
    assert_eq!((launch.workgroups(), launch.workgroup_count()), ([2, 1, 2], Some(4)));
    let ids: Vec<_> = (0..4).map(|index| launch.workgroup_id(index)).collect();
    assert_eq!(ids, [[1, 1, 0], [2, 1, 0], [1, 1, 1], [2, 1, 1]]);
    assert!(ids.iter().all(|&id| launch.has_workgroup(id)));
    assert!(![[0, 1, 0], [1, 0, 0], [3, 1, 0], [1, 1, 2]].into_iter().any(|id| launch.has_workgroup(id)));
    assert_eq!((launch.extent([1, 1, 0]), launch.extent([2, 1, 1])), ([4, 1, 2], [2, 1, 1]));
    let beyond = Launch { start: [3, 0, 0], ..launch };
    assert_eq!(beyond.workgroup_count(), Some(0));
}

#[test]
fn waves_that_allocate_registers_have_room_for_all_that_they_can_have() {
    let rules = &gfx1201::GENERATION.shader;
    let launch = |items, wgp_mode| Launch {
        vgpr_count: VGPR_BLOCK,
        allocates_vgprs: true,
        workgroup: [items, 1, 1],
        wgp_mode,
        ..launch()
    };
    let need = launch(1024, true).need(rules);
    assert_eq!((need.vgprs, need.waves), (128, 32));
    // Twelve on each of two SIMDs, or of four.
    let fits = |items, wgp_mode| launch(items, wgp_mode).fits_at_all(rules);
    assert_eq!([fits(1024, true), fits(768, false), fits(800, false)], [true, true, false]);
    let fixed = Launch { allocates_vgprs: false, ..launch(1024, false) };
    assert!(fixed.fits_at_all(rules) && fixed.most_vgprs() == 16);
}

#[test]
fn counts_that_overflow_are_refused() {
    let launch = Launch { grid: [u32::MAX; 3], workgroup: [1; 3], ..launch() };
    assert_eq!(launch.workgroup_count(), None);
}

#[test]
fn work_item_ids_are_packed_and_lanes_masked() {
    let waves = launch().lane_ids([4, 4, 2]);
    assert_eq!(waves.len(), 1);
    assert_eq!(waves[0].0, 0xffff_ffff);
    assert_eq!(waves[0].1[31], 3 | 3 << 10 | 1 << 20);
    let waves = launch().lane_ids([33, 2, 1]);
    assert_eq!(waves.iter().map(|wave| wave.0).collect::<Vec<_>>(), [0xffff_ffff, 0xffff_ffff, 0b11]);
    assert_eq!(waves[1].1[0], 32);
    assert_eq!(waves[1].1[1], 1 << 10);
    for (dims, expected) in [(0, 3), (1, 3 | 3 << 10), (2, 3 | 3 << 10 | 1 << 20)] {
        let launch = Launch { workitem_id_dims: dims, ..launch() };
        assert_eq!(launch.lane_ids([4, 4, 2])[0].1[31], expected);
    }
    let wide = Launch { wave_size: WaveSize::Wave64, ..launch() };
    assert_eq!(wide.lane_ids([33, 2, 1])[1].0, 0b11);
    for extent in [[1, 1, 1], [1, 40, 2], [7, 3, 5], [64, 2, 1], [100, 1, 1], [3, 1, 30]] {
        let [width, height, _] = extent;
        let total: u32 = extent.iter().product();
        let lanes = wide.lane_ids(extent).into_iter().flat_map(|(exec, ids)| {
            ids.into_iter().enumerate().filter_map(move |(lane, id)| (exec >> lane & 1 == 1).then_some(id))
        });
        let packed = |item| {
            let (x, y, z) = (item % width, item / width % height, item / width / height);
            x | y << 10 | z << 20
        };
        assert!(lanes.eq((0..total).map(packed)), "{extent:?}");
    }
}

#[test]
fn waves_are_told_their_number_where_their_chip_has_it() {
    for (chip, places) in
        [(&GENERATION, &[20, 6][..]), (&gfx1201::GENERATION, &[20, 6]), (&gfx942::GENERATION, &[6])]
    {
        let told = chip.shader.workgroup_info;
        let number = |wave: u32| places.iter().fold(0, |bits, place| bits | wave << place);
        assert_eq!([told(0, 4), told(3, 4)], [1 << 31 | 4, number(3) | 4], "{:?}", chip.arch);
        assert_eq!(told(31, 32), number(31) | 32, "{:?}", chip.arch);
    }
}

#[test]
fn sgprs_follow_in_order() {
    let launch = launch();
    let ids = launch.lane_ids([4, 4, 2]);
    let mut waves = Vec::new();
    launch.start_wave(&mut waves, [7, 8, 9], (0, 1), &ids[0], SEAT);
    let wave = &waves[0];
    assert_eq!(
        (0..6).map(|register| wave.sgpr(register)).collect::<Vec<_>>(),
        [0xa, 0xb, 7, 9, 0x8000_0001, 0]
    );
    assert_eq!((wave.pc(), wave.exec()), (0x1000, 0xffff_ffff));
    assert_eq!(wave.vgpr(0, 31), 3 | 3 << 10 | 1 << 20);
    launch.start_wave(&mut waves, [1, 2, 3], (0, 2), &(1, [5; 64]), SEAT);
    let wave = &waves[0];
    assert_eq!((wave.sgpr(2), wave.sgpr(4), wave.exec(), wave.vgpr(0, 0)), (1, 0x8000_0002, 1, 5));
    launch.start_wave(&mut waves, [1, 2, 3], (1, 2), &(1, [6; 64]), SEAT);
    assert_eq!((waves.len(), waves[1].sgpr(4), waves[1].vgpr(0, 0)), (2, 1 << 20 | 1 << 6 | 2, 6));
}
