//! A driver that does everything at once and in any order, well-formed: the device does not give way, and can be used again.
//!
//! Nothing is written outside of the memory that the device was given, nothing grows without bound, and after a reset a
//! kernel runs as on the first day.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_abi::mes::Opcode;
use belfry_abi::regs::{gc, nbio, osssys};
use belfry_device::ResetKind;
use belfry_fuzz::allocation::{Counting, now};
use belfry_fuzz::change::{Change, Word};
use belfry_fuzz::chips::On;
use belfry_fuzz::device::{COMMAND, FLR, FLR_BIT};
use belfry_fuzz::driver::{BASE, CODE, DATA, Driver, QUEUES, SIZE};
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;
use vm_memory::{GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};
use zerocopy::IntoBytes as _;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STEPS: usize = 48;
/// Bytes that an input may leave allocated: caches that fill up once, and libFuzzer's own.
const GROWTH: usize = 256 << 20;

#[derive(Arbitrary, Debug)]
enum Step {
    Config {
        at: u8,
        data: [u8; 4],
        bytes: u8,
    },
    Register {
        at: u32,
        value: Word,
    },
    /// A register that something hangs on.
    Known {
        block: u8,
        at: u8,
        value: Word,
    },
    Read {
        bar: u8,
        at: u32,
        bytes: u8,
    },
    Doorbell {
        at: u16,
        value: u8,
    },
    Vram {
        at: u32,
        data: [u8; 8],
    },
    Ram {
        at: u32,
        value: Word,
    },
    Kernel {
        dwords: Vec<Word>,
        opcode: u8,
    },
    Add {
        queue: u8,
        changes: Vec<Change>,
    },
    Remove(u8),
    Frame {
        opcode: u8,
        changes: Vec<Change>,
    },
    Vecadd {
        queue: u8,
        changes: Vec<Change>,
    },
    Code(Change),
    Barrier(u8),
    Memory(u8),
    Reset(u8),
    BusMaster(bool),
    Pause(bool),
    Written(u16),
    Woken(u16, u8),
    Work(u8),
}

static BEFORE: LazyLock<usize> = LazyLock::new(now);

fuzz_target!(|on: On<Vec<Step>>| {
    let On { chip, input: steps } = on;
    RIG.make_all();
    LazyLock::force(&BEFORE);
    RIG.choose(chip);
    let mut driver = Driver::new(&RIG);
    for nth in 0..2 {
        assert!(driver.add_queue(nth), "a queue can be added");
    }
    for step in steps.iter().take(STEPS) {
        run(&mut driver, step);
    }
    RIG.settle(64);
    RIG.check();
    assert!(now() < *BEFORE + GROWTH, "{} bytes are allocated", now());
    RIG.gpu.resume();
    Driver::verify_anew(&RIG);
    RIG.check();
});

fn memory(which: u8) -> GuestMemoryMmap {
    let regions = RIG.ram.iter().map(|region| region.start_addr()).collect::<Vec<_>>();
    let without = |nth: usize| {
        let region = RIG.ram.find_region(regions[nth]).expect("it is there");
        RIG.ram.remove_region(regions[nth], region.len()).expect("it is there").0
    };
    match which % 4 {
        0 => GuestMemoryMmap::new(),
        1 => without(0),
        2 => without(1),
        _ => RIG.ram.clone(),
    }
}

fn run(driver: &mut Driver<'_>, step: &Step) {
    let queue = |nth: u8| usize::from(nth) % QUEUES;
    let gpu = &RIG.gpu;
    match step {
        Step::Config { at, data, bytes } => gpu.config_write((*at).into(), &data[..usize::from(bytes % 5)]),
        Step::Register { at, value } => RIG.write(at % RIG.registers(), value.value(0)),
        Step::Known { block, at, value } => {
            // HQD, contexts, invalidation, interrupts, doorbells.
            let first = match block % 6 {
                0 => RIG.dword::<gc::CP_MQD_BASE_ADDR>(),
                1 => RIG.dword::<gc::GCVM_CONTEXT0_CNTL>(),
                2 => RIG.dword::<gc::GCVM_INVALIDATE_ENG0_SEM>(),
                3 => RIG.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>(),
                4 => RIG.dword::<osssys::IH_RB_CNTL>(),
                _ => RIG.dword::<nbio::RCC_DOORBELL_APER_EN>(),
            };
            RIG.write(first + u32::from(*at), value.value(RIG.read(first + u32::from(*at))));
        }
        Step::Read { bar, at, bytes } => {
            let mut data = vec![0; usize::from(bytes % 16)];
            // What it refuses is another target's concern.
            let _refused = gpu.bar_read(bar % 6, (*at).into(), &mut data);
        }
        Step::Doorbell { at, value } => RIG.ring(u64::from(*at) % 0x1000 * 8, (*value).into()),
        Step::Vram { at, data } => RIG.put_vram((u64::from(*at) % 0x20_0000) & !7, data),
        Step::Ram { at, value } => {
            let at = BASE + u64::from(*at) * 4 % SIZE;
            RIG.put(at, &value.value(RIG.take(at)));
        }
        Step::Kernel { dwords, opcode } => {
            let mut packet =
                vec![3 << 30 | (dwords.len().clamp(1, 16) as u32 - 1) << 16 | u32::from(*opcode) << 8];
            packet.extend(dwords.iter().take(16).map(|word| word.value(0)));
            driver.kiq(&packet);
        }
        Step::Add { queue: nth, changes } => {
            if RIG.choice.has_run_lists() {
                let mut packet = driver.map_queue(queue(*nth));
                changes.iter().take(4).for_each(|change| _ = change.apply(packet.as_mut_bytes()));
                if changes.is_empty() {
                    driver.prepare_queue(queue(*nth));
                }
                driver.add_listed(queue(*nth), &packet);
                return;
            }
            let mut frame = driver.add_frame(queue(*nth));
            changes.iter().take(4).for_each(|change| _ = change.apply(frame.as_mut_bytes()));
            if changes.is_empty() {
                driver.prepare_queue(queue(*nth));
            }
            driver.mes(&frame, Opcode::ADD_QUEUE);
        }
        Step::Remove(nth) => _ = driver.remove_queue(queue(*nth)),
        Step::Frame { opcode, changes } => {
            let mut frame = [0; 256];
            frame[..4].copy_from_slice(&(1 | u32::from(opcode % 20) << 4 | 64 << 12).to_le_bytes());
            changes.iter().take(16).for_each(|change| _ = change.apply(&mut frame[4..]));
            driver.frame(&frame);
        }
        Step::Vecadd { queue: nth, changes } => {
            let mut packet = driver.vecadd(64, 0);
            changes.iter().take(4).for_each(|change| _ = change.apply(packet.as_mut_bytes()));
            driver.packet(queue(*nth) % 2, packet.as_bytes().first_chunk().expect("64 bytes"));
        }
        Step::Code(change) => {
            let mut code: [u8; 0x2000] = RIG.take(CODE);
            change.apply(&mut code);
            RIG.put(CODE, &code);
        }
        Step::Barrier(nth) => {
            let signal = driver.signal(2, i64::from(nth >> 7));
            let mut packet = Driver::barrier(0);
            packet[8..16].copy_from_slice(&signal.to_le_bytes());
            driver.packet(queue(*nth) % 2, &packet);
        }
        Step::Memory(which) => RIG.set_memory(&memory(*which)),
        Step::Reset(kind) => reset(driver, *kind),
        Step::BusMaster(on) => gpu.config_write(COMMAND, &[2 | u8::from(*on) << 2, 0]),
        Step::Pause(on) => {
            if *on {
                gpu.pause()
            } else {
                gpu.resume()
            }
        }
        Step::Written(at) => gpu.doorbell_written(bell(*at)),
        Step::Woken(at, times) => gpu.doorbell_woken(bell(*at), (*times).into()),
        Step::Work(turns) => _ = RIG.settle((*turns).into()),
    }
}

/// Resets the function, and half of the time has it used again at once.
/// One of the first few doorbells, by a number.
fn bell(number: u16) -> DoorbellOffset {
    DoorbellIndex::of_number(u32::from(number) % 0x1000).offset()
}

fn reset(driver: &mut Driver<'_>, kind: u8) {
    match kind & 3 {
        0 => RIG.gpu.reset(ResetKind::System),
        1 => RIG.gpu.reset(ResetKind::Flr),
        _ => RIG.gpu.config_write(FLR, &[FLR_BIT]),
    }
    if kind & 4 != 0 {
        RIG.set_memory(&RIG.ram);
        RIG.gpu.resume();
        // Memory keeps its contents, of any kind.
        *driver = Driver::new(&RIG);
        if kind & 8 != 0 {
            assert!(driver.add_queue(0), "a queue can be added after a reset");
            RIG.put(DATA, &0u32);
            driver.verify(0);
        }
    }
}
