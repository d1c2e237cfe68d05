//! Snapshots of Belfry's own machine and of hosted devices, with the code that reads them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use belfry_device::record::digest;
pub use belfry_snapshot::{Head, Kind, Section};
use belfry_snapshot::{SavedBoard, SavedCmos, SavedHosted, SavedMachine, SavedVcpu, file};
use belfry_virtio::saved::{SavedBlock, SavedChain, SavedConsole, SavedDevice, SavedQueue, SavedVirtio};
use rustix::fs::MemfdFlags;

/// Guest memory of the machine in a sample.
const RAM: u64 = 4 << 20;
/// Longest file that is made of an input; larger ones only take time.
const LARGE: u64 = 64 << 20;
const PAGE: u64 = 4096;

/// A guest channel.
fn channel() -> SavedVirtio {
    let chain = SavedChain { head: 1, readable: vec![(0x1000, 64)], writable: Vec::new() };
    let console = SavedConsole { outgoing: Some(chain), piece: vec![1; 16], ..SavedConsole::default() };
    SavedVirtio {
        number: 2,
        config: vec![0; 256],
        accepted: 1 << 32,
        selects: (0, 1),
        status: 15,
        queue_select: 3,
        works: true,
        queues: vec![SavedQueue { size: 128, enabled: true, ..SavedQueue::default() }; 6],
        config_vector: 0,
        isr: 0,
        table: vec![0; 7 * 16],
        pending: 0,
        device: SavedDevice::Console(console),
    }
}

/// A disk.
fn disk() -> SavedVirtio {
    let block = SavedBlock { path: b"/disk".to_vec(), overlay: vec![7; 32], ..SavedBlock::default() };
    let queues = vec![SavedQueue { size: 256, enabled: true, ..SavedQueue::default() }];
    SavedVirtio { number: 3, queues, table: vec![0; 2 * 16], device: SavedDevice::Block(block), ..channel() }
}

/// The state of a machine with a device whose snapshot has these bytes.
#[must_use]
pub fn state(gpu: Vec<u8>) -> Vec<u8> {
    let vcpu = SavedVcpu {
        cpuid: vec![Default::default(); 3],
        mp: Default::default(),
        regs: Default::default(),
        sregs: Default::default(),
        xsave: Default::default(),
        xcrs: Default::default(),
        debug: Default::default(),
        lapic: Default::default(),
        msrs: vec![Default::default(); 3],
        events: Default::default(),
    };
    let chip = |chip_id| kvm_bindings::kvm_irqchip { chip_id, ..Default::default() };
    let machine = SavedMachine {
        vcpus: vec![vcpu],
        chips: vec![chip(0), chip(1), chip(2)],
        pit: Default::default(),
        clock: Default::default(),
        board: SavedBoard {
            clock: SavedCmos { memory: vec![0; 128], ..SavedCmos::default() },
            ..SavedBoard::default()
        },
        virtio: vec![channel(), disk()],
        note: b"{}".to_vec(),
        doorbells: 0,
        gpu: Some(gpu),
    };
    machine.to_bytes().expect("a machine as bytes")
}

/// The state of a hosted device whose snapshot has these bytes.
#[must_use]
pub fn hosted_state(gpu: Vec<u8>) -> Vec<u8> {
    let ranges = vec![(0x7000_0000_0000, RAM / 2), (0x7f00_0000_0000, RAM / 2)];
    SavedHosted { ranges, gpu }.to_bytes().expect("a device as bytes")
}

/// The head of a file with this state.
#[must_use]
pub fn head(kind: Kind, state: &[u8], vram: u64) -> Head {
    let at = (PAGE + state.len() as u64).next_multiple_of(PAGE);
    Head {
        release: env!("CARGO_PKG_VERSION").to_owned(),
        kind,
        chip: "gfx1100".to_owned(),
        cpus: 1,
        waves: 0,
        state: Section { at: PAGE, length: state.len() as u64, pages: 0, digest: digest(state) },
        ram: Section { at, length: RAM, ..Section::default() },
        vram: Section { at: at + RAM, length: vram, ..Section::default() },
    }
}

/// The bytes of a head, with its digest.
#[must_use]
pub fn first_bytes(head: &Head) -> Vec<u8> {
    file::first_bytes(head).expect("a head as bytes")
}

/// Makes the digest of a changed head right: it covers the bytes after the fixed part.
pub fn sign(first: &mut [u8]) {
    if first.len() >= 32 {
        let length = (first.len() - 32) as u64;
        first[16..24].copy_from_slice(&length.to_le_bytes());
        let sum = digest(&first[32..]);
        first[24..32].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A file with a beginning, a state, and a length.
///
/// # Errors
///
/// No memory for it.
pub fn file_of(first: &[u8], state: &[u8], length: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("snapshot", MemfdFlags::CLOEXEC)?);
    file.write_all_at(state, PAGE)?;
    file.write_all_at(first, 0)?;
    file.set_len(length.min(LARGE))?;
    Ok(file)
}

/// Reads a file as the machine or a hosted run that goes on does. Returns the head and the bytes of the device, if
/// everything before them is taken.
#[must_use]
pub fn read(file: &File) -> Option<(Head, Vec<u8>)> {
    let head = file::read_head(file).ok()?;
    let state = file::read_state(file, &head).ok()?;
    let gpu = match head.kind {
        Kind::Machine => SavedMachine::from_bytes(&state, head.cpus).ok()?.gpu?,
        Kind::Hosted => SavedHosted::from_bytes(&state, head.ram.length).ok()?.gpu,
    };
    // The memory is read to its end, with right and with wrong digests.
    let _ = file::check_memory(file, &head);
    Some((head, gpu))
}
