//! Snapshots of a machine or a hosted device that are damaged in the places that matter: each is refused, or is one of a device that goes on.
//!
//! An input changes bytes of the file, or of its head, state or device with the digests made right again, and cuts the file off.

#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use belfry_abi::pci;
use belfry_device::{Gpu, GpuConfig, Resources, SavedGpu};
use belfry_fuzz::device::{Device, Raised, VRAM};
use belfry_fuzz::snapshot::{Kind, file_of, first_bytes, head, hosted_state, read, sign, state};
use libfuzzer_sys::fuzz_target;
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

/// Turns that a device is given.
const TURNS: u32 = 4;

/// A device as at power on.
static GPU: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let saved = Device::new().gpu.save_beside(|saved| saved.to_bytes()).expect("a device");
    saved.expect("its bytes")
});

#[derive(Arbitrary, Debug)]
enum Part {
    File,
    Head,
    State,
    Gpu,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Set(u16, u8),
    Flip(u16, u8),
    Remove(u16),
    Insert(u16, u8),
}

#[derive(Arbitrary, Debug)]
struct Input {
    part: Part,
    changes: Vec<Change>,
    length: Option<u32>,
    hosted: bool,
}

fn change(bytes: &mut Vec<u8>, changes: &[Change], keeps_length: bool) {
    for change in changes {
        let (Change::Set(at, _) | Change::Flip(at, _) | Change::Remove(at) | Change::Insert(at, _)) = change;
        let Some(at) = usize::from(*at).checked_rem(bytes.len()) else { return };
        match *change {
            Change::Set(_, value) => bytes[at] = value,
            Change::Flip(_, bit) => bytes[at] ^= 1 << (bit & 7),
            Change::Remove(_) if !keeps_length => drop(bytes.remove(at)),
            Change::Insert(_, value) if !keeps_length => bytes.insert(at, value),
            Change::Remove(_) | Change::Insert(..) => {}
        }
    }
}

fuzz_target!(|input: Input| {
    let Input { part, changes, length, hosted } = &input;
    let mut gpu = GPU.clone();
    if let Part::Gpu = part {
        change(&mut gpu, changes, false);
    }
    let (kind, mut state) = match hosted {
        false => (Kind::Machine, state(gpu)),
        true => (Kind::Hosted, hosted_state(gpu)),
    };
    if let Part::State = part {
        change(&mut state, changes, false);
    }
    let head = head(kind, &state, VRAM);
    let mut first = first_bytes(&head);
    match part {
        Part::Head => {
            let mut encoded = first.split_off(32);
            change(&mut encoded, changes, false);
            first.extend(encoded);
            sign(&mut first);
        }
        Part::File => change(&mut first, changes, true),
        Part::State | Part::Gpu => {}
    }
    let length = length.map_or(head.end(), u64::from);
    let file = file_of(&first, &state, length).expect("memory for a file");
    let taken = read(&file);
    if changes.is_empty() && length == head.end() {
        assert!(taken.is_some(), "what was not changed is taken");
    }
    let Some((_, bytes)) = taken else { return };
    let Ok(saved) = SavedGpu::from_bytes(&bytes) else { return };
    if saved.config().vram_size == VRAM && !saved.has_vram() {
        go_on(&saved);
    }
});

/// Lets a device go on that was accepted.
fn go_on(saved: &SavedGpu) {
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)]).expect("memory for the guest");
    let resources = Resources {
        vram: MmapRegion::new(VRAM as usize).expect("memory for the device"),
        doorbells: MmapRegion::new(pci::DOORBELL_BAR_SIZE as usize).expect("memory for doorbells"),
        system: GuestMemoryAtomic::new(ram),
        interrupts: Arc::new(Raised::default()),
    };
    let config = GpuConfig { workers: 1, ..saved.config() };
    let Ok(gpu) = Gpu::restore(saved, config, resources) else { return };
    gpu.work_on_caller();
    gpu.resume();
    for _ in 0..TURNS {
        gpu.pass();
        gpu.turn();
    }
}
