//! The device of a hosted program in a file, and devices that go on from it alone.
//!
//! The program's threads are not in the snapshot. Work in flight on the device comes to its end without them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belfry_device::record::digest;
use belfry_device::{Gpu, GpuConfig, SavedGpu};
use belfry_snapshot::file::{self, FileError, Head, Kind, PAGE, Section};
use belfry_snapshot::{Pages, Piece, SavedHosted, memory};
use tempfile::NamedTempFile;
use vm_memory::{GuestMemoryAtomic, GuestMemoryBackend as _, GuestMemoryMmap};

use super::saver::{beside, blocks, write_beginning};
use super::{Saved, SnapshotError, StateError};
use crate::memory::{Vram, VramSource, piece, restored_ranges};

/// Saves the device of a hosted program to a file. When the file is complete, it replaces a file of its name.
#[derive(Debug)]
pub struct HostedSaver {
    path: PathBuf,
    out: NamedTempFile,
    head: Head,
    state: Vec<u8>,
    pages: Option<HostedPages>,
}

impl HostedSaver {
    /// Makes the file.
    ///
    /// # Errors
    ///
    /// A file that cannot be made.
    pub fn new(path: &Path) -> Result<Self, SnapshotError> {
        let out = beside(path).map_err(|source| SnapshotError::Write { path: path.to_owned(), source })?;
        let empty = Section::default();
        let head = Head {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            kind: Kind::Hosted,
            chip: String::new(),
            cpus: 0,
            waves: 0,
            state: empty,
            ram: empty,
            vram: empty,
        };
        Ok(Self { path: path.to_owned(), out, head, state: Vec::new(), pages: None })
    }

    fn failed(&self, source: io::Error) -> SnapshotError {
        SnapshotError::Write { path: self.path.clone(), source }
    }

    /// Takes the device's state, and the ranges of system memory to write, lowest first.
    ///
    /// # Errors
    ///
    /// State that cannot be turned into bytes; none for a device that was saved without its VRAM.
    pub fn prepare(&mut self, saved: &SavedGpu, ranges: &[Range<u64>]) -> Result<(), SnapshotError> {
        let ranges: Vec<_> = ranges.iter().map(|range| (range.start, range.end - range.start)).collect();
        let (system, vram) = (ranges.iter().map(|range| range.1).sum(), saved.config().vram_size);
        let gpu = saved.to_bytes().map_err(SnapshotError::Device)?;
        self.state =
            SavedHosted { ranges, gpu }.to_bytes().map_err(|error| self.failed(io::Error::other(error)))?;
        self.head.chip = saved.config().chip.name.to_owned();
        self.head.waves = saved.waves() as u64;
        let length = self.state.len() as u64;
        self.head.state = Section { at: PAGE as u64, length, pages: 0, digest: digest(&self.state) };
        let at = (PAGE as u64 + length).next_multiple_of(PAGE as u64);
        let pages = |at| Pages::new(self.out.as_file(), at).map_err(|error| self.failed(error));
        let pages = HostedPages { system: pages(at)?, vram: pages(at + system)?, length: [system, vram] };
        self.pages = Some(pages);
        Ok(())
    }

    /// Returns the writer for the memory of the prepared device. All its buffers exist already: until
    /// [`finish`](Self::finish), it allocates nothing.
    ///
    /// # Errors
    ///
    /// No device was prepared.
    pub fn pages(&mut self) -> io::Result<&mut HostedPages> {
        self.pages.as_mut().ok_or(io::ErrorKind::InvalidInput.into())
    }

    /// Ends the file; `stood_still` is the time for which its process stood still.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn finish(mut self, stood_still: Duration) -> Result<Saved, SnapshotError> {
        let bytes = self.end().map_err(|error| self.failed(error))?;
        let Self { path, out, head, .. } = self;
        let failed = |source| SnapshotError::Write { path: path.clone(), source };
        out.persist(&path).map_err(|error| failed(error.error))?;
        Ok(Saved { head, stood_still, bytes })
    }
}

impl HostedSaver {
    /// Writes the rest; returns the bytes of the file.
    fn end(&mut self) -> io::Result<u64> {
        let HostedPages { system, vram, length } = self.pages()?;
        let (system, vram) = (system.finish(length[0])?, vram.finish(length[1])?);
        (self.head.ram, self.head.vram) = (system, vram);
        write_beginning(self.out.as_file(), &self.head, &self.state)?;
        blocks(self.out.as_file())
    }
}

/// Takes pages while a process stands still.
#[derive(Debug)]
pub struct HostedPages {
    system: Pages,
    vram: Pages,
    length: [u64; 2],
}

impl HostedPages {
    /// Takes a page of system memory, by its number in all ranges; numbers have to grow.
    ///
    /// # Errors
    ///
    /// The errors of `fill`, and a file that cannot be written.
    pub fn system(&mut self, number: u64, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
        self.system.page(number, fill)
    }

    /// Takes a page of VRAM.
    ///
    /// # Errors
    ///
    /// The errors of [`HostedPages::system`].
    pub fn vram(&mut self, number: u64, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
        self.vram.page(number, fill)
    }
}

/// A hosted device that was saved. Any number of devices can go on from it, each with memory of its own.
#[derive(Debug)]
pub struct HostedSnapshot {
    path: PathBuf,
    file: File,
    head: Head,
    ranges: Vec<(u64, u64)>,
    gpu: SavedGpu,
}

impl HostedSnapshot {
    /// Reads a file, which is not trusted, except the contents of memory. The file must not be changed while devices
    /// go on from it.
    ///
    /// # Errors
    ///
    /// A file that is none, of another version or release, cut off or damaged, or with values that no device has.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let wrong = |source: FileError| SnapshotError::File { path: path.to_owned(), source };
        let (file, head) = file::open(path).map_err(wrong)?;
        head.expect(Kind::Hosted).map_err(wrong)?;
        let bytes = file::read_state(&file, &head).map_err(wrong)?;
        let state = |source| SnapshotError::State { path: path.to_owned(), source };
        let saved = SavedHosted::from_bytes(&bytes, head.ram.length).map_err(state)?;
        let gpu = SavedGpu::from_bytes(&saved.gpu);
        let gpu = gpu.map_err(|source| SnapshotError::Gpu { path: path.to_owned(), source })?;
        if gpu.has_vram() || head.vram.length != gpu.config().vram_size {
            return Err(state(StateError::Value { what: "size of VRAM", value: head.vram.length }));
        }
        Ok(Self { path: path.to_owned(), file, head, ranges: saved.ranges, gpu })
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

    /// Returns the GPU's configuration, with defaults for the host's choices.
    #[must_use]
    pub fn config(&self) -> GpuConfig {
        self.gpu.config()
    }

    /// Makes a device that goes on from here when [`Gpu::run_to_rest`] is called. `config` is
    /// [`HostedSnapshot::config`] with the host's choices filled in.
    ///
    /// # Errors
    ///
    /// Memory that cannot be mapped, and values that no device has.
    pub fn resume(&self, config: GpuConfig) -> Result<Alone, SnapshotError> {
        let map = |source| SnapshotError::Map { path: self.path.clone(), source };
        let memory = restored_ranges(&self.file, self.head.ram.at, &self.ranges).map_err(map)?;
        let (vram, region) = VramSource::restored(&self.file, self.head.vram).map_err(map)?;
        let system = GuestMemoryAtomic::new(memory.clone());
        let gpu = Gpu::restore_alone(&self.gpu, config, region, system);
        let gpu = gpu.map_err(|source| SnapshotError::Gpu { path: self.path.clone(), source })?;
        let vram = vram.view(&gpu).map_err(map)?;
        Ok(Alone { gpu, memory, vram })
    }
}

/// A device that goes on without its program.
#[derive(Debug)]
pub struct Alone {
    gpu: Arc<Gpu>,
    memory: GuestMemoryMmap,
    vram: Vram,
}

impl Alone {
    /// Returns the device.
    #[must_use]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns the memory of the process that it was saved with, at its old addresses.
    #[must_use]
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Returns the digest of all of its memory, VRAM included.
    ///
    /// # Errors
    ///
    /// Memory that cannot be read.
    pub fn digest(&self) -> io::Result<u64> {
        let system: Vec<Piece<'_>> = self.memory.iter().map(piece).collect::<io::Result<_>>()?;
        let (system, vram) = (memory::sum(&system)?, memory::sum(&[self.vram.piece()?])?);
        Ok(digest(&[system.to_le_bytes(), vram.to_le_bytes()].concat()))
    }
}
