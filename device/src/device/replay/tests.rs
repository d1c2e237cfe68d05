use std::io::Cursor;

use belfry_abi::pci;
use belfry_isa::lanes::Matrices;

use super::*;
use crate::device::ResetKind;
use crate::device::save::SavedConfig;
use crate::error::Error;
use crate::record::testing::{File, entries, record_of};
use crate::record::{Call, Recording, Run, SYSTEM};

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
    let second = Gpu::new(config, resources()).map(|_| ());
    assert!(matches!(second, Err(Error::Recorded)), "{second:?}");
    let mut word = [0; 4];
    gpu.config_read(0, &mut word);
    assert_eq!(&word[..2], &[0x02, 0x10]);
    gpu.bar_read(pci::BAR_REGISTERS, 0, &mut word).expect("a register");
    gpu.bar_read(pci::BAR_REGISTERS, 1, &mut [0; 7]).expect_err("no register is as wide");
    gpu.bar_write(pci::BAR_VRAM, 64, &word).expect("VRAM");
    gpu.reset(ResetKind::Flr);
    gpu.stop();
    assert!(recording.recorded().expect("memory").complete);
    file.bytes()
}

fn replay(record: Vec<u8>) -> Result<Replayed, RecordError> {
    Replay::open(Cursor::new(record), None)?.run(None)
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
    other[state] = Entry::State { memory: 1, rest: 2 };
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
        Call::Resume,
        Call::Pause,
        Call::Stop,
        Call::Stop,
    ] {
        let call = Entry::Call { ns: u64::MAX, call };
        let doorbell = Entry::Doorbell { at: u64::MAX, value: 1 };
        let with = [&all[..2], &[call.clone(), doorbell, Entry::Turn { ns: u64::MAX }]].concat();
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
