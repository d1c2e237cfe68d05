//! A snapshot that was read: everything but memory, which is mapped.

use std::fs::File;
use std::path::{Path, PathBuf};

use belfry_device::{GpuConfig, SavedGpu};
use belfry_snapshot::file::{self, FileError, Head, Kind};
use belfry_snapshot::{DOORBELLS as DOORBELL_MODES, SavedMachine};
use belfry_virtio::DiskConfig;
use belfry_virtio::saved::{SavedDevice, SavedVirtio, StateError};

use super::SnapshotError;
use crate::config::{Config, DoorbellMode};
use crate::device_numbers::CHANNEL_DEVICE;

/// Doorbell modes, by their numbers in files.
const DOORBELLS: [DoorbellMode; DOORBELL_MODES as usize] =
    [DoorbellMode::Trapped, DoorbellMode::Ioeventfd, DoorbellMode::Adaptive];

/// Returns the number of a doorbell mode.
pub(super) fn number_of(mode: DoorbellMode) -> u8 {
    DOORBELLS.iter().position(|&other| other == mode).unwrap_or_default() as u8
}

/// Returns the configuration of the disk that a device was.
fn disk_of(saved: &SavedVirtio) -> Option<DiskConfig> {
    match &saved.device {
        SavedDevice::Block(block) => Some(DiskConfig::from(block)),
        SavedDevice::Console(_) => None,
    }
}

/// A machine that was saved. Any number of machines can go on from it, each with memory of its own.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    pub(crate) file: File,
    pub(crate) head: Head,
    pub(crate) state: SavedMachine,
    pub(crate) gpu: Option<SavedGpu>,
}

impl Snapshot {
    /// Reads a file, which is not trusted, except the contents of memory.
    ///
    /// The file must not be changed while machines run from it; [`Saver`](super::Saver) replaces files as a whole.
    ///
    /// # Errors
    ///
    /// A file that is none, of another version or release, cut off or damaged, or with values that no machine has.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let wrong = |source: FileError| SnapshotError::File { path: path.to_owned(), source };
        let (file, head) = file::open(path).map_err(wrong)?;
        head.expect(Kind::Machine).map_err(wrong)?;
        let bytes = file::read_state(&file, &head).map_err(wrong)?;
        let state = SavedMachine::from_bytes(&bytes, head.cpus)
            .map_err(|source| SnapshotError::State { path: path.to_owned(), source })?;
        let gpu = state.gpu.as_deref().map(SavedGpu::from_bytes).transpose();
        let gpu = gpu.map_err(|source| SnapshotError::Gpu { path: path.to_owned(), source })?;
        let vram = gpu.as_ref().map_or(0, |gpu| gpu.config().vram_size);
        let what = "size of VRAM";
        if gpu.as_ref().is_some_and(SavedGpu::has_vram) || head.vram.length != vram {
            let source = StateError::Value { what, value: head.vram.length };
            return Err(SnapshotError::State { path: path.to_owned(), source });
        }
        Ok(Self { path: path.to_owned(), file, head, state, gpu })
    }

    /// Reads the head of the snapshot in a file.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::open`] about the file and its head.
    pub fn head_of(path: &Path) -> Result<Head, SnapshotError> {
        let wrong = |source: FileError| SnapshotError::File { path: path.to_owned(), source };
        Ok(file::open(path).map_err(wrong)?.1)
    }

    /// Returns the head of the file.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Checks the contents of memory against their digests, and reads all of it for that.
    ///
    /// # Errors
    ///
    /// Memory that is not as it was written.
    pub fn check_memory(&self) -> Result<(), SnapshotError> {
        let wrong = |source| SnapshotError::File { path: self.path.clone(), source };
        file::check_memory(&self.file, &self.head).map_err(wrong)
    }

    /// Returns the note that the machine's user has kept with it.
    #[must_use]
    pub fn note(&self) -> &[u8] {
        &self.state.note
    }

    /// Returns true if its guest has a channel; the caller that goes on with it has to take the channel.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        self.state.virtio.iter().any(|saved| saved.number == CHANNEL_DEVICE)
    }

    /// Returns the GPU's configuration, with defaults for the host's choices.
    #[must_use]
    pub fn gpu(&self) -> Option<GpuConfig> {
        self.gpu.as_ref().map(SavedGpu::config)
    }

    /// Returns the machine's configuration, in which the host may choose the input, signals, and its part of the
    /// GPU's.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            memory: self.head.ram.length,
            cpus: self.head.cpus,
            gpus: self.gpu().into_iter().collect(),
            disks: self.state.virtio.iter().filter_map(disk_of).collect(),
            doorbells: DOORBELLS.get(usize::from(self.state.doorbells)).copied().unwrap_or_default(),
            ..Config::new(&self.path)
        }
    }
}
