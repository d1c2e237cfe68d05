//! Saving a machine that runs: its processors stand still, then its GPU, then everything is written, then all of it
//! goes on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use belfry_bus::Vectors;
use belfry_device::{Gpu, SavedGpu};
use belfry_lock::{Mutex, rank};
use belfry_snapshot::file::{self, Head, Kind, PAGE, Section};
use belfry_snapshot::{Piece, SavedBoard, SavedMachine, memory};
use belfry_virtio::saved::SavedVirtio;
use belfry_virtio::{Unsaved, VirtioFunction};
use kvm_bindings::kvm_irqchip;
use kvm_ioctls::VmFd;
use tempfile::NamedTempFile;
use vm_memory::{GuestMemoryBackend as _, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use super::{SnapshotError, read};
use crate::board::{Board, COM1_IRQ};
use crate::config::DoorbellMode;
use crate::device_numbers::CHANNEL_DEVICE;
use crate::doorbells::Doorbells;
use crate::memory::Vram;
use crate::vcpu::gate::{Closed, Gate};

/// Time for which devices may be in the middle of a request, and pause between attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(2);

/// Everything of a machine that is saved.
pub(in super::super) struct Whole {
    pub(in super::super) vm: Arc<VmFd>,
    pub(in super::super) gate: Arc<Gate>,
    pub(in super::super) board: Arc<Board>,
    pub(in super::super) memory: GuestMemoryMmap,
    /// The serial port's interrupt.
    pub(in super::super) line: EventFd,
    /// The only GPU; a machine with several is refused.
    pub(in super::super) gpu: Option<SavedPart>,
    pub(in super::super) mode: DoorbellMode,
    /// Paravirtual devices, by growing numbers.
    pub(in super::super) virtio: Vec<SavedFunction>,
    /// Name of a part that cannot be saved, if there is one.
    pub(in super::super) refused: Option<&'static str>,
}

/// A paravirtual device.
pub(in super::super) struct SavedFunction {
    pub(in super::super) number: u8,
    /// The machine's own function.
    pub(in super::super) function: Weak<VirtioFunction>,
    pub(in super::super) vectors: Arc<Vectors>,
}

/// Devices that do nothing until this is dropped.
struct Held(Vec<(u8, Arc<VirtioFunction>)>);

impl Held {
    /// Returns `None` if the machine has ended.
    fn new(devices: &[SavedFunction]) -> Option<Self> {
        let live = devices.iter().map(|device| Some((device.number, device.function.upgrade()?)));
        let held = Self(live.collect::<Option<_>>()?);
        held.0.iter().for_each(|(_, function)| function.hold(true));
        Some(held)
    }

    fn save(&self) -> Result<Vec<SavedVirtio>, Unsaved> {
        self.0.iter().map(|(number, function)| function.save(*number)).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, function)| function.hold(false));
    }
}

/// The GPU, and the parts of its connection that the machine has.
pub(in super::super) struct SavedPart {
    pub(in super::super) gpu: Arc<Gpu>,
    pub(in super::super) doorbells: Option<Doorbells>,
    pub(in super::super) vectors: Arc<Vectors>,
    pub(in super::super) vram: Vram,
}

/// State of the machine that this program's own parts have, not KVM.
struct HostState {
    board: SavedBoard,
    virtio: Vec<SavedVirtio>,
    note: Vec<u8>,
}

/// Result of saving.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Saved {
    /// Head of the snapshot.
    pub head: Head,
    /// Time for which the machine stood still.
    pub stood_still: Duration,
    /// Bytes that the file takes, holes left out.
    pub bytes: u64,
}

/// Saves a machine while it runs. The threads of the machine itself must not call it: its output has to be taken
/// meanwhile.
pub struct Saver {
    whole: Whole,
    /// Held while a caller saves: one at a time.
    one: Mutex<(), rank::Saver>,
    /// Note for the caller that goes on with the machine.
    note: std::sync::Mutex<Option<Vec<u8>>>,
}

impl std::fmt::Debug for Saver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saver").field("refused", &self.whole.refused).finish_non_exhaustive()
    }
}

fn kvm(what: &'static str) -> impl Fn(kvm_ioctls::Error) -> SnapshotError {
    move |error| SnapshotError::Kvm { what, source: error.into() }
}

impl Saver {
    pub(in super::super) fn new(whole: Whole) -> Self {
        Self { whole, one: Mutex::new(()), note: std::sync::Mutex::default() }
    }

    /// Keeps a note with the machine for the caller that goes on with it: [`Snapshot::note`](super::Snapshot::note).
    /// A machine whose guest has a channel is not saved without a note: the later run would not know the state of its
    /// talk with the guest.
    pub fn keep(&self, note: Vec<u8>) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(note);
    }

    /// Writes the machine as it is now to a file, and lets it go on. When the file is complete, it replaces a file of
    /// its name.
    ///
    /// # Errors
    ///
    /// A machine that cannot be saved or ends, and a file that cannot be written. The machine goes on in any case,
    /// and a file that was there stays as it was.
    pub fn save(&self, path: &Path) -> Result<Saved, SnapshotError> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(what) = self.whole.refused {
            return Err(SnapshotError::Refused(what));
        }
        let failed = |source| SnapshotError::Write { path: path.to_owned(), source };
        let out = beside(path).map_err(failed)?;

        let begun = Instant::now();
        let (head, stood_still) = loop {
            if let Some(saved) = self.attempt(out.as_file(), path)? {
                break saved;
            }
            if begun.elapsed() > PATIENCE {
                return Err(SnapshotError::Busy(PATIENCE));
            }
            std::thread::sleep(AGAIN);
        };
        let bytes = blocks(out.as_file()).map_err(failed)?;
        out.persist(path).map_err(|error| failed(error.error))?;
        Ok(Saved { head, stood_still, bytes })
    }

    /// Writes the machine as it is now, and returns the time for which it stood still; `None` if a device is in the
    /// middle of a request.
    fn attempt(&self, out: &File, path: &Path) -> Result<Option<(Head, Duration)>, SnapshotError> {
        let Whole { gate, gpu, board, virtio, .. } = &self.whole;
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if note.is_none() && virtio.iter().any(|device| device.number == CHANNEL_DEVICE) {
            return Ok(None);
        }
        let started = Instant::now();
        let closed = gate.close().ok_or(SnapshotError::Ended)?;
        let held = Held::new(virtio).ok_or(SnapshotError::Ended)?;
        let devices = match held.save() {
            Ok(devices) => devices,
            Err(Unsaved::Busy) => return Ok(None),
            Err(Unsaved::Refused(what)) => return Err(SnapshotError::Refused(what)),
        };
        let mut state =
            HostState { board: SavedBoard::default(), virtio: devices, note: note.unwrap_or_default() };
        let head = match gpu {
            None => {
                state.board = board.save();
                self.write(out, path, (&closed, state), None)?
            }
            Some(part) => {
                if let Some(doorbells) = &part.doorbells {
                    doorbells.settle();
                }
                state.board = board.save();
                let keep = |saved| self.write(out, path, (&closed, state), Some((part, &saved)));
                part.gpu.save_beside(keep).map_err(SnapshotError::Device)??
            }
        };
        drop((held, closed));
        Ok(Some((head, started.elapsed())))
    }

    /// Writes everything while nothing moves.
    fn write(
        &self,
        out: &File,
        path: &Path,
        (closed, host): (&Closed<'_>, HostState),
        gpu: Option<(&SavedPart, &SavedGpu)>,
    ) -> Result<Head, SnapshotError> {
        let Whole { vm, memory, mode, .. } = &self.whole;
        self.settle(gpu.as_ref().map(|(part, _)| *part))?;
        let vcpus = closed.states().ok_or(SnapshotError::Ended)?.map_err(kvm("a processor"))?;
        let chips = (0..3).map(|chip_id| {
            let mut chip = kvm_irqchip { chip_id, ..Default::default() };
            vm.get_irqchip(&mut chip).map(|()| chip)
        });
        let state = SavedMachine {
            vcpus,
            chips: chips.collect::<Result<_, _>>().map_err(kvm("the interrupt controllers"))?,
            pit: vm.get_pit2().map_err(kvm("the timer"))?,
            clock: vm.get_clock().map_err(kvm("the guest's clock"))?,
            board: host.board,
            virtio: host.virtio,
            note: host.note,
            doorbells: read::number_of(*mode),
            gpu: gpu
                .as_ref()
                .map(|(_, saved)| saved.to_bytes())
                .transpose()
                .map_err(SnapshotError::Device)?,
        };
        let encoded = state.to_bytes().map_err(|error| SnapshotError::Write {
            path: path.to_owned(),
            source: io::Error::other(error),
        })?;

        let page = PAGE as u64;
        let mut head = Head {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            kind: Kind::Machine,
            chip: gpu.as_ref().map(|(part, _)| part.gpu.config().chip.name.to_owned()).unwrap_or_default(),
            cpus: state.vcpus.len() as u8,
            waves: gpu.as_ref().map_or(0, |(_, saved)| saved.waves() as u64),
            state: Section {
                at: page,
                length: encoded.len() as u64,
                pages: 0,
                digest: belfry_device::record::digest(&encoded),
            },
            ram: Section::default(),
            vram: Section::default(),
        };
        let write = || -> io::Result<Head> {
            let behind = (page + encoded.len() as u64).next_multiple_of(page);
            let ram: Vec<Piece<'_>> = memory.iter().map(crate::memory::piece).collect::<io::Result<_>>()?;
            head.ram = memory::write(out, behind, &ram)?;
            let behind = behind + head.ram.length;
            let vram = gpu.as_ref().map(|(part, _)| part.vram.piece()).transpose()?;
            head.vram = memory::write(out, behind, vram.as_slice())?;
            write_beginning(out, &head, &encoded)?;
            Ok(head)
        };
        write().map_err(|source| SnapshotError::Write { path: path.to_owned(), source })
    }

    /// Returns once interrupts that were sent through eventfds have reached the controllers. KVM carries them there
    /// in deferred work, and waits for that work when an eventfd is disconnected.
    fn settle(&self, gpu: Option<&SavedPart>) -> Result<(), SnapshotError> {
        let failed = kvm("the interrupts that are on their way");
        let messages = gpu.into_iter().flat_map(|part| part.vectors.connected());
        let others = self.whole.virtio.iter().flat_map(|device| device.vectors.connected());
        for (eventfd, gsi) in messages.chain(others).chain([(&self.whole.line, COM1_IRQ)]) {
            self.whole.vm.unregister_irqfd(eventfd, gsi).map_err(&failed)?;
            self.whole.vm.register_irqfd(eventfd, gsi).map_err(&failed)?;
        }
        Ok(())
    }
}

/// Makes a new file that will replace another one.
pub(super) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".belfry-snapshot-").tempfile_in(folder)
}

/// Writes the parts before memory, and sets the end of the file after memory.
pub(super) fn write_beginning(out: &File, head: &Head, state: &[u8]) -> io::Result<()> {
    out.write_all_at(state, head.state.at)?;
    // Holes at the end belong to the file.
    out.set_len(head.end())?;
    let first = file::first_bytes(head)?;
    if first.len() > PAGE {
        return Err(io::Error::other("the head has no room"));
    }
    out.write_all_at(&first, 0)
}

/// Returns the bytes that a file takes on the disk.
pub(super) fn blocks(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(file.metadata()?.blocks() * 512)
}
