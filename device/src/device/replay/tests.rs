use std::io::Cursor;

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci;
use belfry_isa::lanes::Matrices;

use super::*;
use crate::chip::gfx942;
use crate::device::ResetKind;
use crate::device::save::SavedConfig;
use crate::error::Error;
use crate::memory::{Hive, Memory, Physical};
use crate::record::testing::{File, entries, record_of};
use crate::record::{Call, OF_PEER, Recording, Run, SYSTEM};

const VRAM: u64 = 16 << 20;

/// The record of a device that did a few things.
fn recorded() -> Vec<u8> {
    let file = File::default();
    let recording = Recording::new(file.clone());
    let config = GpuConfig { vram_size: VRAM, record: Some(recording.clone()), ..GpuConfig::default() };
    let region = |size: u64| MmapRegion::new(size as usize).expect("anonymous memory");
    let resources = || Resources {
        vram: region(VRAM),
        doorbells: region(pci::DOORBELL_BAR_SIZE),
        system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        interrupts: Arc::new(DropsInterrupts),
    };
    let gpu = Gpu::new(config.clone(), resources()).expect("a device");
    let mut word = [0; 4];
    gpu.config_read(0, &mut word);
    assert_eq!(&word[..2], &[0x02, 0x10]);
    gpu.bar_read(pci::BAR_REGISTERS, 0, &mut word).expect("a register");
    gpu.bar_read(pci::BAR_REGISTERS, 1, &mut [0; 7]).expect_err("no register is as wide");
    gpu.bar_write(pci::BAR_VRAM, 64, &word).expect("VRAM");
    gpu.reset(ResetKind::Flr);
    gpu.stop();
    assert!(recording.recorded().expect("memory").complete);
    let late = Gpu::new(config, resources()).map(|_| ());
    assert!(matches!(late, Err(Error::Recorded)), "{late:?}");
    file.bytes()
}

fn replay(record: Vec<u8>) -> Result<Replayed, RecordError> {
    Replay::open(Cursor::new(record), Box::new(|_| None))?.run(None)
}

#[track_caller]
fn differs(record: Vec<u8>) -> crate::record::Divergence {
    match replay(record) {
        Err(RecordError::Diverged(divergence)) => *divergence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_difference_is_named() {
    let record = recorded();
    assert!(replay(record.clone()).expect("the same").at_end);
    let (head, all) = entries(&record);
    let find = |wanted: &dyn Fn(&Entry) -> bool| all.iter().position(wanted).expect("an entry");

    let mut other = all.clone();
    let read = find(&|entry| matches!(entry, Entry::Call { call: Call::ConfigRead { .. }, .. }));
    other[read + 1] = Entry::Answer(Some(vec![1, 2, 3, 4]));
    let found = differs(record_of(&head, &other));
    assert_eq!(found.expected, "the answer 01020304");
    assert!(found.got.starts_with("the answer 0210"), "{found}");
    assert!(found.during.contains("a read of 4 bytes at 0x0 of the configuration space"), "{found}");

    let reset = find(&|entry| matches!(entry, Entry::Event(_)));
    let mut other = all.clone();
    other.remove(reset);
    let found = differs(record_of(&head, &other));
    assert!(
        found.got.contains("the event reset") && found.during.contains("reset of the function"),
        "{found}"
    );

    let mut other = all.clone();
    let runs = vec![Run { at: 8, bytes: vec![7] }];
    other.insert(read + 1, Entry::Memory { page: 3 | SYSTEM, runs });
    let found = differs(record_of(&head, &other));
    assert_eq!(found.expected, "a read of guest memory 0x3008 that finds 07");

    let mut other = all.clone();
    let state = find(&|entry| matches!(entry, Entry::State { .. }));
    other[state] = Entry::State { device: 0, memory: 1, rest: 2 };
    assert!(differs(record_of(&head, &other)).expected.contains("0000000000000002"));
}

#[test]
fn records_of_devices_that_cannot_be_are_refused() {
    let (_, all) = entries(&recorded());
    let config = SavedConfig::of(&GpuConfig::default());
    let head = |program: &str, config| {
        postcard::to_allocvec(&Head { program: program.to_owned(), config, faults: String::new() })
            .expect("memory")
    };
    let old = replay(record_of(&head("0.0.0", config.clone()), &all)).expect_err("another release");
    assert!(matches!(&old, RecordError::Program { found, .. } if found == "0.0.0"), "{old}");
    let odd = GpuConfig { vram_size: 3, ..GpuConfig::default() };
    let odd = SavedConfig::of(&odd);
    let odd = replay(record_of(&head(PROGRAM, odd), &all)).expect_err("no such VRAM");
    assert!(matches!(odd, RecordError::Config(_)), "{odd}");
    let none = replay(record_of(&[1, 2, 3], &all)).expect_err("no configuration");
    assert!(matches!(none, RecordError::Damaged { .. }), "{none}");
}

#[test]
fn records_have_the_sums_of_matrices() {
    for matrices in [Matrices::Fast, Matrices::Exact] {
        let saved = SavedConfig::of(&GpuConfig { matrices, ..GpuConfig::default() });
        let bytes = postcard::to_allocvec(&saved).expect("memory");
        let read: SavedConfig = postcard::from_bytes(&bytes).expect("the same version");
        assert_eq!(read.checked().expect("a device that can be").matrices, matrices);
    }
}

#[test]
fn entries_that_no_device_has_written_do_no_harm() {
    let (head, all) = entries(&recorded());
    let start = vec![(u64::MAX, u64::MAX), (0, u64::MAX), (5, 3), (0x1000, 0x1000), (u64::MAX - 1, 1)];
    for call in [
        Call::Start(start.clone()),
        Call::Memory(start),
        Call::BarRead { bar: 0, offset: 0, len: VRAM as u32 },
        Call::BarRead { bar: 5, offset: 0, len: u32::MAX },
        Call::BarRead { bar: 2, offset: 0, len: 4097 },
        Call::BarRead { bar: 77, offset: u64::MAX, len: 4 },
        Call::BarWrite { bar: 0, offset: u64::MAX, data: vec![1; 9] },
        Call::ConfigRead { offset: u64::MAX, len: u32::MAX },
        Call::ConfigWrite { offset: u64::MAX, data: vec![1; 5000] },
        Call::DoorbellWoken { offset: u64::MAX, writes: u64::MAX },
        Call::Place { vram: u64::MAX, doorbells: u64::MAX - 1 },
        Call::Peer { number: 1, peer: Some(PeerOf { device: 0, bars: true }) },
        Call::Peer { number: u8::MAX, peer: Some(PeerOf { device: u8::MAX, bars: false }) },
        Call::Resume,
        Call::Pause,
        Call::Stop,
        Call::Stop,
    ] {
        let call = Entry::Call { device: 0, ns: u64::MAX, call };
        let doorbell = Entry::Doorbell { at: u64::MAX, value: 1 };
        let with = [&all[..2], &[call.clone(), doorbell, Entry::Turn { device: 0, ns: u64::MAX }]].concat();
        replay(record_of(&head, &with)).expect_err(&call.to_string());
    }
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let record = recorded();
    for at in 0..record.len() {
        replay(record[..at].to_vec()).expect_err("it was cut off");
        let mut other = record.clone();
        other[at] ^= 0x41;
        replay(other).expect_err("a byte is another one");
    }
}

/// A hive of two devices that have one record.
struct Pair {
    gpus: [Arc<Gpu>; 2],
    file: File,
}

/// Addresses of the second device's BARs on the bus.
const SECOND_VRAM: u64 = 0x40_0000_0000;
const SECOND_DOORBELLS: u64 = 0x50_0000_0000;

fn pair() -> Pair {
    let file = File::default();
    let recording = Recording::new(file.clone());
    let places = Hive::places(0, &[(0, VRAM), (1, VRAM)]).expect("two devices");
    let region = |size: u64| MmapRegion::new(size as usize).expect("anonymous memory");
    let gpus = [0u8, 1].map(|number| {
        let config = GpuConfig {
            chip: &gfx942::MODEL,
            vram_size: VRAM,
            number,
            hive: Some(places[usize::from(number)]),
            record: Some(recording.clone()),
            ..GpuConfig::default()
        };
        let resources = Resources {
            vram: region(VRAM),
            doorbells: region(pci::DOORBELL_BAR_SIZE),
            system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            interrupts: Arc::new(DropsInterrupts),
        };
        Gpu::new(config, resources).expect("a device")
    });
    gpus[1].place_bars(SECOND_VRAM, SECOND_DOORBELLS);
    Gpu::connect(&gpus.each_ref().map(|gpu| &**gpu)).expect("two devices");
    Pair { gpus, file }
}

/// Has a device access memory in an operation of its own, as its waves do.
fn in_operation<R>(gpu: &Gpu, access: impl FnOnce(&Memory) -> R) -> R {
    let _on = gpu.on_device();
    let session = gpu.session.as_ref().expect("it is recorded");
    let begin = |ns| Entry::Turn { device: session.in_record().1, ns };
    session.operate(gpu, begin, || access(&gpu.memory))
}

#[test]
fn stores_of_the_others_are_inputs_of_each_device_of_a_record() {
    let Pair { gpus, file } = pair();
    let [first, second] = &gpus;
    let there = Physical::peer(1, 0x3008);
    in_operation(first, |memory| memory.store_u64(there, 7)).expect("the second one's VRAM");
    assert_eq!(in_operation(second, |memory| memory.load_u64(Physical::local(0x3008))), Ok(7));
    in_operation(second, |memory| memory.fetch_add_u64(Physical::local(0x3008), 2)).expect("its own");
    assert_eq!(in_operation(first, |memory| memory.load_u64(there)), Ok(9));
    let on_bus = Physical::system(SECOND_VRAM + 0x3008);
    assert_eq!(in_operation(first, |memory| memory.fetch_add_u64(on_bus, 1)), Ok(9), "on the bus as well");
    assert_eq!(in_operation(second, |memory| memory.load_u64(Physical::local(0x3008))), Ok(10));
    in_operation(first, |memory| memory.load_u64(Physical::peer(2, 0))).expect_err("there is no third one");
    // Doorbells of the other are the host's.
    let doorbell = Physical::system(SECOND_DOORBELLS + 16);
    in_operation(first, |memory| memory.store_u64(doorbell, 5)).expect("a doorbell of the second one");
    assert_eq!(in_operation(second, |memory| memory.load_u64(doorbell)), Ok(5));
    assert_eq!(second.doorbells.load(DoorbellOffset::from_bytes(16)), 0, "no queue listens there");
    gpus.iter().for_each(|gpu| gpu.stop());
    let (_, all) = entries(&file.bytes());
    let written = |page: u64, at: u16, byte: u8| {
        let runs = vec![Run { at, bytes: vec![byte] }];
        all.contains(&Entry::Memory { page, runs })
    };
    assert!(written(3, 8, 7), "the first one's store, as the second one finds it");
    assert!(written(OF_PEER * 2 + 3, 8, 9), "the second one's, as the first one finds it");
    assert!(written(3, 8, 10) && written(SYSTEM | (SECOND_DOORBELLS >> 12), 16, 5));
    assert_eq!(all.iter().filter(|entry| matches!(entry, Entry::Device(_))).count(), 1);
}

#[test]
fn devices_of_a_record_replay_as_one() {
    let Pair { gpus, file } = pair();
    for (number, gpu) in gpus.iter().enumerate() {
        let mut word = [0; 4];
        gpu.config_read(0, &mut word);
        gpu.bar_read(pci::BAR_REGISTERS, 0, &mut word).expect("a register");
        gpu.reset(ResetKind::Flr);
        gpu.set_peer(1 - number as u8, None).expect("a number of the fabric");
        gpu.set_peer(8, None).expect_err("no number of the fabric");
    }
    gpus[1].config_write(4, &[6, 0]);
    gpus[0].end_record();
    gpus[1].stop();
    drop(gpus);
    let record = file.bytes();
    let first = replay(record.clone()).expect("the same");
    assert!(first.at_end && first.events >= 2, "{first:?}");
    assert_eq!(replay(record.clone()).expect("the same"), first);
    let mut replayed = Replay::open(Cursor::new(record.clone()), Box::new(|_| None)).expect("a record");
    replayed.keep_checkpoints(1 << 30);
    replayed.run(None).expect("the same");
    let devices =
        |replayed: &Replay| replayed.gpus().iter().map(|gpu| gpu.config().number).collect::<Vec<_>>();
    assert_eq!((devices(&replayed), replayed.checkpoints()), (vec![0, 1], 0));
    assert!(!replayed.back_to(1).expect("from the beginning").at_end);
    assert_eq!(replayed.run(None).expect("the same"), first);
    assert_eq!(devices(&replayed), [0, 1]);
    // Which device does an operation is compared, too.
    let (head, all) = entries(&record);
    let of_second =
        |entry: &Entry| matches!(entry, Entry::Call { device: 1, call: Call::ConfigWrite { .. }, .. });
    let write = all.iter().position(of_second).expect("a write");
    for (device, error) in [(0, "differs"), (2, "GPU 2, which has not begun")] {
        let mut other = all.clone();
        other[write] = Entry::Call { device, ns: 0, call: Call::ConfigWrite { offset: 4, data: vec![6, 0] } };
        let said = replay(record_of(&head, &other)).expect_err("another device").to_string();
        assert!(said.contains(error), "{said}");
    }
    let another = Entry::Device(head.clone());
    let many = [vec![another; 8], all.clone()].concat();
    let said = replay(record_of(&head, &many)).expect_err("nine").to_string();
    assert!(said.contains("more than a machine has"), "{said}");
    let said = replay(record_of(&head, &[vec![Entry::Device(vec![1])], all].concat())).expect_err("damage");
    assert!(matches!(said, RecordError::Damaged { .. }), "{said}");
}
