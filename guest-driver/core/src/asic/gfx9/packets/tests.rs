use crate::request::{LaunchControl, SdmaPlace};
use belfry_abi::doorbell::DoorbellIndex;

use super::*;

fn packets(fill: impl FnOnce(&mut Vec<u32>)) -> Vec<u32> {
    let mut packets = Vec::new();
    fill(&mut packets);
    packets
}

fn queue(engine: Option<u32>, gws: bool) -> QueueRequest {
    QueueRequest {
        node: 0,
        pasid: 0x8001,
        root: 0x20_0000_0001,
        process_context: 0,
        gang_context: 0,
        priority: 7,
        doorbell: DoorbellIndex::of_number(0x803),
        mqd: 0x7fff_0001_2000,
        wptr: 0x7fff_0005_6038,
        process_wptr: 0x7f00_0003_4038,
        ring_dwords: 0x400,
        trap_handler: 0xe000,
        trap_memory: 0xf800,
        sdma: engine.map(|engine| SdmaPlace { engine, queue: 0 }),
        aql: true,
        gws,
        xnack: false,
    }
}

#[test]
fn queues_are_mapped_by_address_and_engine() {
    let compute = packets(|out| map_queue(out, &queue(None, true)));
    assert_eq!(
        compute,
        [0xc005_a200, 1 << 29 | 1 << 12 | 1 << 4, 0x1006 << 2, 0x0001_2000, 0x7fff, 0x0003_4038, 0x7f00]
    );
    let engine = |number| packets(|out| map_queue(out, &queue(Some(number), false)))[1] & (7 << 26 | 3 << 2);
    let expected = [(0, 2 << 26), (1, 3 << 26), (2, 2 << 26 | 1 << 2), (7, 7 << 26 | 1 << 2)];
    for (number, bits) in expected.into_iter().chain([(8, 2 << 2), (15, 7 << 26 | 2 << 2)]) {
        assert_eq!(engine(number), bits, "engine {number}");
    }
}

#[test]
fn process_is_mapped_with_all_that_its_waves_need() {
    let process = RunProcess {
        pasid: 0x8001,
        root: 0x20_0000_0001,
        sh_mem_bases: 0x1_0002,
        sh_mem_config: 0x1118,
        trap_handler: 0x80_0000_e000,
        trap_memory: 0xf800,
        gws: true,
        queues: 3,
        launch: LaunchControl { trap_en: true, exceptions: 1, replace: false, mode: 1 },
        watches: [1, 2, 3, 4],
        flags: KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP,
    };
    let packet = packets(|out| map_process(out, &process));
    assert_eq!((packet.len(), packet[0]), (21, 0xc013_a100));
    assert_eq!(packet[1..6], [10 << 25 | 1 << 16 | 0x8001, 1, 0x20, 0x1_0002, 0x1118]);
    assert_eq!(packet[6..10], [0x8000_00e0, 1 << 31, 0xf8, 0]);
    assert_eq!(packet[13..19], [3 << 22 | 1 << 7 | 64, 1 << 4 | 1 << 3 | 1 << 1, 1, 2, 3, 4]);
}

#[test]
fn watches_compare_bits_7_to_30() {
    assert_eq!(watch_control(1, 0xffff_ff80), 1 << 31 | 1 << 29 | 0xff_ffff);
    assert_eq!(watch_control(3, 0x8000_0000), 1 << 31 | 3 << 29);
}

#[test]
fn run_lists_and_what_ends_them_have_the_scheduler_s_form() {
    let list = request::RunList { address: 0x7fff_0001_0000, dwords: 28, chain: false, processes: 2 };
    let run = |list: &request::RunList| packets(|out| run_list(out, list));
    assert_eq!(run(&list), [0xc002_a500, 0x0001_0000, 0x7fff, 2 << 24 | 1 << 23 | 28]);
    assert_eq!(run(&request::RunList { chain: true, ..list })[3], 2 << 24 | 1 << 23 | 1 << 20 | 28);
    assert_eq!(packets(unmap_all), [0xc004_a300, 3 << 4, 0, 0, 0, 0]);
    let query = packets(|out| query_status(out, 0x7fff_0001_0000, 0x1_0000_0002));
    assert_eq!(query, [0xc005_a400, 2 << 30, 0, 0x0001_0000, 0x7fff, 2, 1]);
    let resources = packets(|out| set_resources(out, 0xfff8, 0xfc_fcfc_fcfc));
    assert_eq!(resources[..4], [0xc006_a000, 1 << 29 | 0x28 << 16 | 0xfff8, 0xfcfc_fcfc, 0xfc]);
}
