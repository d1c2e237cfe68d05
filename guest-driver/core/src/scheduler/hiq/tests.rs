#![expect(unsafe_code, reason = "the driver's buffers are reached by the addresses it gives the device")]

extern crate std;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use belfry_abi::gpuvm::PTE_ADDRESS_MASK;
use belfry_abi::partition::ComputePartition;
use belfry_abi::pm4::{Opcode, Pm4Header};
use belfry_abi::regs::{Ip, Register, gc as regs};

use super::*;
use crate::asic;
use crate::config::Config;
use crate::gart::GART_START;
use crate::os::{DeviceInfo, PAGE_SIZE};
use crate::registers::RegisterMap;
use crate::request::{LaunchControl, NodeWatch, SdmaPlace};
use crate::testing::{FakeOs, lock};

const VRAM: usize = 8 << 20;
const XCCS: usize = 2;

/// A map of two graphics cores and one memory hub.
fn registers() -> RegisterMap {
    let asic = asic::find((9, 4, 3)).unwrap();
    let mut map = RegisterMap::new(asic.registers, asic.register_bytes);
    for (ip, tables) in RegisterMap::BLOCKS {
        let bases: &[&[u32]] = match ip {
            Ip::GC => &[&[0x2000, 0xa000], &[0x1_2000, 0x1_a000]],
            Ip::MMHUB => &[&[0x1_8000]],
            Ip::OSSSYS => &[&[0x10a0]],
            Ip::NBIF => &[&[0, 0x14, 0xd20]],
            Ip::SMUIO => &[&[0, 0x1_6800, 0x1_6a00]],
            _ => &[&[0xc20]],
        };
        for bases in bases {
            map.add(ip, tables, bases).unwrap();
        }
    }
    map
}

/// The firmware: it does what packets ask for as far as the driver can see it.
#[derive(Default)]
struct Firmware {
    /// Dwords taken of each ring: the KIQs, and the HIQs of partitions by their first graphics core.
    taken: [u64; 2 * XCCS],
    /// Packets of each HIQ, without fences.
    packets: [Vec<Vec<u32>>; XCCS],
    /// MQDs that KIQs have mapped.
    mapped: Vec<(usize, u64)>,
    list: [Vec<u32>; XCCS],
}

/// The dword at `address` of VMID 0.
fn at(os: &FakeOs, address: u64) -> usize {
    let base = registers().dword::<regs::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>();
    let base = u64::from(os.reg_read(base * 4) & !1);
    let mut entry = [0; 8];
    os.vram_read(base + (address - GART_START) / PAGE_SIZE * 8, &mut entry);
    let entry = u64::from_le_bytes(entry);
    assert_ne!(entry, 0, "{address:#x} is not mapped");
    ((entry & PTE_ADDRESS_MASK) + address % PAGE_SIZE) as usize
}

fn dwords(os: &FakeOs, address: u64, count: u64) -> Vec<u32> {
    let one = |index: u64| {
        // SAFETY: the driver mapped the page for the device, and only touches it atomically.
        unsafe { AtomicU32::from_ptr(at(os, address + index * 4) as *mut u32) }.load(Ordering::Relaxed)
    };
    (0..count).map(one).collect()
}

/// The packets of a ring or list.
fn split(mut dwords: &[u32]) -> Vec<Vec<u32>> {
    let mut packets = vec![];
    while let Some(&header) = dwords.first() {
        let (packet, rest) = dwords.split_at(1 + Pm4Header::from_bits(header).body_dwords() as usize);
        packets.push(packet.to_vec());
        dwords = rest;
    }
    packets
}

fn opcode(packet: &[u32]) -> Opcode {
    Pm4Header::from_bits(packet[0]).opcode()
}

fn address(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

impl Firmware {
    fn ring(&mut self, number: usize, ring: (u64, u64), os: &FakeOs, wptr: u64) -> Vec<Vec<u32>> {
        let new = core::mem::replace(&mut self.taken[number], wptr)..wptr;
        split(&new.map(|index| dwords(os, ring.0 + index * 4 % ring.1, 1)[0]).collect::<Vec<_>>())
    }

    /// A KIQ writes registers of its graphics core, and maps queues.
    fn kiq(&mut self, xcc: usize, packets: Vec<Vec<u32>>, os: &FakeOs) {
        for packet in packets {
            match opcode(&packet) {
                Opcode::WRITE_DATA => {
                    assert!(packet[2] < 0x1_0000, "registers count from the core's own");
                    os.reg_write((packet[2] + xcc as u32 * 0x1_0000) * 4, packet[4]);
                }
                Opcode::MAP_QUEUES => self.mapped.push((xcc, address(&packet[3..]))),
                other => panic!("{other:?}"),
            }
        }
    }

    fn hiq(&mut self, first: usize, packets: Vec<Vec<u32>>, os: &FakeOs) {
        for packet in packets {
            match opcode(&packet) {
                Opcode::QUERY_STATUS => {
                    let fence = at(os, address(&packet[3..])) as *mut u64;
                    // SAFETY: as above.
                    unsafe { AtomicU64::from_ptr(fence) }.store(address(&packet[5..]), Ordering::Release);
                    continue;
                }
                Opcode::RUN_LIST => {
                    self.list[first] = dwords(os, address(&packet[1..]), u64::from(packet[3] & 0xf_ffff));
                }
                _ => {}
            }
            self.packets[first].push(packet);
        }
    }
}

struct Rig {
    hw: Arc<Hw<FakeOs>>,
    scheduler: Hiq<FakeOs>,
    firmware: Arc<Mutex<Firmware>>,
    deaf: Arc<AtomicBool>,
}

fn rig() -> Rig {
    rig_as(ComputePartition::Spx)
}

fn rig_as(mode: ComputePartition) -> Rig {
    let hw = Arc::new(Hw::new(FakeOs::new(VRAM).pair(), registers(), asic::find((9, 4, 3)).unwrap()));
    let vram = crate::vram::Vram::new(hw.clone(), VRAM as u64 - (2 << 20)).unwrap();
    let gart = Gart::new(hw.clone(), &vram).unwrap();
    gart.enable();
    let asic::Firmware::Hiq(packets) = &hw.asic().firmware else { panic!("no HIQ") };
    let config = Config { xccs: XCCS as u32, sdma_engines: 4, ..Config::default() };
    let nodes = Nodes::new(hw.asic(), &DeviceInfo::default(), &config, mode, &[]).unwrap();
    let mut scheduler = Hiq::new(hw.clone(), &gart, packets, &nodes).unwrap();
    let firmware = Arc::new(Mutex::new(Firmware::default()));
    let deaf = Arc::new(AtomicBool::new(false));
    let (told, silent) = (firmware.clone(), deaf.clone());
    let rings: Vec<u64> = scheduler.partitions.iter().map(|one| one.ring.ring_address()).collect();
    let in_each = XCCS / rings.len();
    *lock(&hw.os().on_doorbell) = Some(Box::new(move |os, doorbell, wptr| {
        let mut told = lock(&told);
        match doorbell.number().unwrap() {
            1 if silent.load(Ordering::Relaxed) => {}
            number if number % 0x20 == 1 => {
                let first = (number / 0x20) as usize;
                let ring = (rings[first / in_each], partition::RING_SIZE as u64);
                let packets = told.ring(XCCS + first, ring, os, wptr);
                told.hiq(first, packets, os);
            }
            number => {
                let xcc = (number / 0x20) as usize;
                assert_eq!(number % 0x20, 0, "the KIQ of a graphics core");
                let base = |low, high| {
                    os.reg_read((low + xcc as u32 * 0x1_0000) * 4) as u64
                        | (os.reg_read((high + xcc as u32 * 0x1_0000) * 4) as u64) << 32
                };
                let map = registers();
                let ring =
                    base(map.dword::<regs::CP_HQD_PQ_BASE>(), map.dword::<regs::CP_HQD_PQ_BASE_HI>()) << 8;
                let packets = told.ring(xcc, (ring, 4096), os, wptr);
                told.kiq(xcc, packets, os);
            }
        }
    }));
    scheduler.start().unwrap();
    Rig { hw, scheduler, firmware, deaf }
}

fn queue(process: u16, doorbell: u32) -> QueueRequest {
    QueueRequest {
        node: 0,
        pasid: process,
        root: u64::from(process) << 12 | 1,
        process_context: u64::from(process),
        gang_context: 0,
        priority: 7,
        doorbell: DoorbellIndex::of_number(doorbell),
        mqd: u64::from(doorbell) << 12,
        wptr: 0x38,
        process_wptr: 0x8038,
        ring_dwords: 1024,
        trap_handler: 0xe000,
        trap_memory: 0xf800,
        sdma: None,
        aql: true,
        gws: false,
        xnack: false,
    }
}

impl Rig {
    fn opcodes(&self) -> Vec<Opcode> {
        self.opcodes_of(0)
    }

    fn opcodes_of(&self, first: usize) -> Vec<Opcode> {
        let packets = core::mem::take(&mut lock(&self.firmware).packets[first]);
        packets.iter().map(|packet| opcode(packet)).collect()
    }

    fn list(&self) -> Vec<Vec<u32>> {
        self.list_of(0)
    }

    fn list_of(&self, first: usize) -> Vec<Vec<u32>> {
        split(&lock(&self.firmware).list[first])
    }
}

#[test]
fn hiq_is_mapped_on_every_graphics_core_from_an_mqd_of_its_own() {
    let rig = rig();
    let mapped = lock(&rig.firmware).mapped.clone();
    assert_eq!(mapped.iter().map(|(xcc, _)| *xcc).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(mapped[1].1 - mapped[0].1, 4096);
    assert_eq!(rig.opcodes(), [Opcode::SET_RESOURCES]);
    for (number, xcc) in rig.hw.xccs().enumerate() {
        let place = xcc.read::<gfx9::CP_HYP_XCP_CTL>();
        assert_eq!((place.num_xcc_in_xcp(), place.virtual_xcc_id()), (2, number as u32));
        assert_eq!(xcc.read::<gfx9::CP_MEC_CNTL>().bits(), 0, "it runs");
    }
}

#[test]
fn every_change_takes_all_queues_off_and_hands_a_new_list_over() {
    let mut rig = rig();
    rig.opcodes();
    rig.scheduler.add_queue(&queue(3, 0x800)).unwrap();
    assert_eq!(rig.opcodes(), [Opcode::RUN_LIST], "nothing ran before");
    rig.scheduler.add_queue(&queue(9, 0x1000)).unwrap();
    rig.scheduler
        .add_queue(&QueueRequest { sdma: Some(SdmaPlace { engine: 2, queue: 0 }), ..queue(3, 0x900) })
        .unwrap();
    assert_eq!(rig.opcodes(), [Opcode::UNMAP_QUEUES, Opcode::RUN_LIST].repeat(2));
    let list = rig.list();
    let opcodes: Vec<_> = list.iter().map(|packet| opcode(packet)).collect();
    let expected = [
        Opcode::MAP_PROCESS,
        Opcode::MAP_QUEUES,
        Opcode::MAP_QUEUES,
        Opcode::MAP_PROCESS,
        Opcode::MAP_QUEUES,
    ];
    assert_eq!(opcodes, expected, "processes one after the other, no chain");
    assert_eq!((list[0][1] & 0xffff, list[0][2], list[3][1] & 0xffff), (3, 0x3001, 9));
    rig.scheduler.remove_queue(DoorbellIndex::of_number(0x800), 0).unwrap();
    rig.scheduler.remove_queue(DoorbellIndex::of_number(0x1000), 0).unwrap();
    assert_eq!(rig.list().len(), 2);
    rig.opcodes();
    rig.scheduler.remove_queue(DoorbellIndex::of_number(0x900), 0).unwrap();
    assert_eq!(rig.opcodes(), [Opcode::UNMAP_QUEUES], "there is nothing to run");
}

#[test]
fn more_queues_than_hardware_queues_make_the_list_begin_anew() {
    let mut rig = rig();
    for number in 0..24 {
        rig.scheduler.add_queue(&queue(3, 0x800 + number)).unwrap();
    }
    assert_eq!(rig.list().len(), 25);
    rig.scheduler.add_queue(&queue(3, 0x900)).unwrap();
    let list = rig.list();
    let (last, dwords) = (list.last().unwrap(), list.iter().map(Vec::len).sum::<usize>());
    assert_eq!((list.len(), opcode(last)), (27, Opcode::RUN_LIST));
    // VALID, CHAIN, one process, and the size of the whole list.
    assert_eq!(last[3], 1 << 24 | 1 << 23 | 1 << 20 | dwords as u32);
}

#[test]
fn two_queues_with_global_wave_sync_take_turns() {
    let mut rig = rig();
    rig.scheduler.add_queue(&QueueRequest { gws: true, ..queue(3, 0x800) }).unwrap();
    assert_eq!(rig.list().len(), 2);
    rig.scheduler.add_queue(&QueueRequest { gws: true, ..queue(4, 0x1000) }).unwrap();
    assert_eq!(opcode(rig.list().last().unwrap()), Opcode::RUN_LIST);
}

/// The first watch, of a node.
fn on_node(node: u32, control: u32) -> [NodeWatch; 4] {
    let mut watches = [NodeWatch::default(); 4];
    watches[0] = NodeWatch { node, control };
    watches
}

#[test]
fn settings_of_a_debugger_are_in_the_list_until_they_are_flushed() {
    let mut rig = rig();
    rig.scheduler.add_queue(&queue(3, 0x800)).unwrap();
    let launch = LaunchControl { trap_en: true, ..LaunchControl::default() };
    let debugger = ShaderDebugger { process_context: 3, launch, watches: on_node(0, 5), flags: 0 };
    rig.scheduler.set_shader_debugger(&debugger).unwrap();
    assert_eq!(rig.list()[0][14..16], [1 << 3, 5]);
    rig.scheduler.flush_shader_debugger(3).unwrap();
    assert_eq!(rig.list()[0][14..16], [0, 0]);
}

#[test]
fn queues_that_do_not_stop_are_a_time_out_and_gone_after_the_reset() {
    let mut rig = rig();
    rig.scheduler.add_queue(&queue(3, 0x800)).unwrap();
    rig.deaf.store(true, Ordering::Relaxed);
    assert_eq!(rig.scheduler.add_queue(&queue(3, 0x801)), Err(Errno::ETIME));
    let log = lock(&rig.hw.os().log).clone();
    assert!(log.iter().any(|line| line.contains("queues do not stop")), "{log:?}");
    rig.deaf.store(false, Ordering::Relaxed);
    // What a reset does.
    *lock(&rig.firmware) = Firmware::default();
    rig.hw.xccs().for_each(|xcc| xcc.write(regs::CP_HQD_ACTIVE(0)));
    rig.scheduler.start().unwrap();
    rig.opcodes();
    rig.scheduler.add_queue(&queue(4, 0x1000)).unwrap();
    assert_eq!(rig.opcodes(), [Opcode::RUN_LIST]);
    assert_eq!(rig.list().len(), 2, "the queues of before are forgotten");
}

#[test]
fn list_that_gets_too_long_refuses_the_queue_and_runs_on_without_it() {
    let mut rig = rig();
    // A process and two queues.
    rig.scheduler.partitions[0].room = 21 + 2 * 7;
    rig.scheduler.add_queue(&queue(3, 0x800)).unwrap();
    rig.scheduler.add_queue(&queue(3, 0x801)).unwrap();
    rig.opcodes();
    assert_eq!(rig.scheduler.add_queue(&queue(3, 0x802)), Err(Errno::ENOSPC));
    assert_eq!(rig.opcodes(), [Opcode::UNMAP_QUEUES, Opcode::RUN_LIST]);
    assert_eq!(rig.list().len(), 3);
}

#[test]
fn partitions_have_a_ring_and_a_list_each() {
    let mut rig = rig_as(ComputePartition::Cpx);
    let places: Vec<_> = rig.hw.xccs().map(|xcc| xcc.read::<gfx9::CP_HYP_XCP_CTL>()).collect();
    assert!(places.iter().all(|place| (place.num_xcc_in_xcp(), place.virtual_xcc_id()) == (1, 0)));
    let mapped = lock(&rig.firmware).mapped.clone();
    assert_eq!(mapped.iter().map(|(xcc, _)| *xcc).collect::<Vec<_>>(), [0, 1]);
    // VMIDs 4 to 9 for the one, 10 to 15 for the other.
    let resources: Vec<_> = lock(&rig.firmware).packets.iter().map(|all| all[0][1] & 0xffff).collect();
    assert_eq!(resources, [0x3f0, 0xfc00]);
    assert_eq!(
        (rig.opcodes_of(0), rig.opcodes_of(1)),
        (vec![Opcode::SET_RESOURCES], vec![Opcode::SET_RESOURCES])
    );
    rig.scheduler.add_queue(&queue(3, 0x800)).unwrap();
    // The same process, by the doorbells that it has for the other node.
    rig.scheduler.add_queue(&QueueRequest { node: 1, ..queue(3, 0xc00) }).unwrap();
    assert_eq!((rig.opcodes_of(0), rig.opcodes_of(1)), (vec![Opcode::RUN_LIST], vec![Opcode::RUN_LIST]));
    assert_eq!((rig.list_of(0).len(), rig.list_of(1).len()), (2, 2));
    assert_eq!((rig.list_of(0)[1][2], rig.list_of(1)[1][2]), (0x800 << 3, 0xc00 << 3));
    rig.scheduler.remove_queue(DoorbellIndex::of_number(0xc00), 0).unwrap();
    assert_eq!((rig.opcodes_of(0), rig.opcodes_of(1)), (vec![], vec![Opcode::UNMAP_QUEUES]));
    assert_eq!(rig.scheduler.remove_queue(DoorbellIndex::of_number(0xc00), 0), Err(Errno::EINVAL));
    assert_eq!(rig.scheduler.add_queue(&QueueRequest { node: 2, ..queue(3, 0x801) }), Err(Errno::EINVAL));
    let launch = LaunchControl { trap_en: true, ..LaunchControl::default() };
    let debugger = ShaderDebugger { process_context: 3, launch, watches: on_node(1, 5), flags: 0 };
    rig.scheduler.set_shader_debugger(&debugger).unwrap();
    rig.scheduler.add_queue(&QueueRequest { node: 1, ..queue(3, 0xc00) }).unwrap();
    // A watch is its node's alone, how waves begin is the process's.
    assert_eq!(
        (rig.list_of(0)[0][14..16].to_vec(), rig.list_of(1)[0][14..16].to_vec()),
        (vec![8, 0], vec![8, 5])
    );
}
