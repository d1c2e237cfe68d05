//! A whole device as one value, and as bytes: a snapshot.

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::partition::ComputePartition;
use belfry_isa::lanes::Matrices;
use belfry_pci::{Rom, RomSize};
use serde::{Deserialize, Serialize};

use super::session::Session;
use super::{Gpu, Resources};
use crate::chip::{self, Model};
use crate::config::{ConfigError, GpuConfig, MsixTable};
use crate::doorbell::SavedDoorbells;
use crate::error::Error;
use crate::firmware::{FirmwareList, SavedFirmware};
use crate::interrupt::SavedInterrupts;
use crate::memory::{Hive, SavedVram};
use crate::pci::SavedFunction;
use crate::queue::SavedHqds;
use crate::record::digest;
use crate::regs::SavedRegisters;
use crate::save::{Broken, counter};
use crate::shader::{Restoring, SavedShader};
use crate::stats::SavedCounters;
use crate::time::Clock;
use crate::vm::{SavedContexts, SavedRoot, SpaceList, Spaces};

/// First bytes of every snapshot; the version comes after them.
const MAGIC: [u8; 8] = *b"belfryGP";
/// Version of the format: another one whenever a saved type changes. A device reads its own version alone.
const VERSION: u32 = 22;

/// Reasons why a device cannot be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A device that is [stopped](Gpu::stop) has nothing to save.
    #[error("the device is stopped: save it before that")]
    Stopped,
    /// A device that is recorded has no VRAM that a host could keep.
    #[error("the device is recorded or replayed, and cannot be saved with its memory beside it")]
    Recorded,
    /// The bytes do not begin like a snapshot.
    #[error("these bytes are no snapshot of a device")]
    Magic,
    /// The bytes are of another version of the format.
    #[error(
        "the snapshot has version {found}, this program reads {VERSION}: restore it with the program that wrote it"
    )]
    Version {
        /// Version of the snapshot.
        found: u32,
    },
    /// The bytes end too early, or are not in the format.
    #[error("the snapshot cannot be read: {0}")]
    Encoding(#[source] postcard::Error),
    /// There are bytes after the end.
    #[error("the snapshot ends {0} bytes before its bytes do")]
    Trailing(usize),
    /// A chip that this program does not have.
    #[error("{0}")]
    Chip(#[source] chip::UnknownChip),
    /// The configuration in the snapshot is out of range.
    #[error("the snapshot is of a device that cannot be: {0}")]
    Config(#[source] ConfigError),
    /// The configuration is of another device than the saved one.
    #[error("{field} is {given}, but was {saved} when the device was saved: configure it the same")]
    Differs {
        /// Field of [`GpuConfig`].
        field: &'static str,
        /// Its value in the snapshot.
        saved: String,
        /// Its value in the configuration.
        given: String,
    },
    /// A value that no device has.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// The device cannot be made.
    #[error("{0}")]
    Device(#[from] Error),
}

type Result<T, E = SnapshotError> = std::result::Result<T, E>;

/// Parts of a device's configuration that a guest can observe.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct SavedConfig {
    chip: String,
    xccs: u32,
    /// Number of the partition mode after a reset.
    partition: u8,
    cus: u32,
    vram_size: u64,
    hive: Option<Hive>,
    deterministic: Option<u64>,
    interrupt_pin: bool,
    /// True if the device answers accesses to the MSI-X table.
    msix_table: bool,
    poll_doorbells: bool,
    quantum: Duration,
    /// Way in which matrix instructions form their sums, which a kernel can observe.
    matrices: Matrices,
    /// Image of the expansion ROM; no bytes if there is none.
    rom: Vec<u8>,
}

/// A device between two turns: everything that it needs to go on elsewhere, except the guest's memory.
///
/// [`Gpu::save`] makes it and [`Gpu::restore`] takes it. Its bytes may come from anywhere: values that no
/// device can have are refused.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SavedGpu {
    config: SavedConfig,
    /// Age of the device.
    now: Duration,
    /// Ticks by which its counter is ahead of its age.
    ahead: u64,
    /// `None` if the host keeps VRAM, as it does the guest's memory.
    vram: Option<SavedVram>,
    roots: Vec<SavedRoot>,
    contexts: SavedContexts,
    hqds: SavedHqds,
    registers: SavedRegisters,
    doorbells: SavedDoorbells,
    function: SavedFunction,
    interrupts: SavedInterrupts,
    /// In the order of the chip's list.
    firmware: Vec<SavedFirmware>,
    shader: SavedShader,
    counters: SavedCounters,
}

impl SavedConfig {
    pub(super) fn of(config: &GpuConfig) -> Self {
        Self {
            chip: config.chip.name.to_owned(),
            xccs: config.xccs,
            partition: config.partition as u8,
            cus: config.cus,
            vram_size: config.vram_size,
            hive: config.hive,
            deterministic: config.deterministic,
            interrupt_pin: config.interrupt_pin,
            msix_table: config.msix_table == MsixTable::Device,
            poll_doorbells: config.poll_doorbells,
            quantum: config.quantum,
            matrices: config.matrices,
            rom: config.rom.as_ref().map_or_else(Vec::new, |rom| rom.image().to_vec()),
        }
    }

    /// The partition mode after a reset; `None` for a number that is no mode.
    fn partition(&self) -> Option<ComputePartition> {
        ComputePartition::ALL.into_iter().find(|&mode| mode as u8 == self.partition)
    }

    fn config(&self) -> GpuConfig {
        GpuConfig {
            // An unknown chip was refused when the bytes were read.
            chip: Model::named(&self.chip).unwrap_or(chip::DEFAULT),
            xccs: self.xccs,
            // An unknown mode was refused, too.
            partition: self.partition().unwrap_or_default(),
            cus: self.cus,
            vram_size: self.vram_size,
            hive: self.hive,
            deterministic: self.deterministic,
            interrupt_pin: self.interrupt_pin,
            msix_table: if self.msix_table { MsixTable::Device } else { MsixTable::Host },
            poll_doorbells: self.poll_doorbells,
            quantum: self.quantum,
            matrices: self.matrices,
            // An image that no ROM holds was refused when the bytes were read.
            rom: Rom::new(&*self.rom).ok(),
            ..GpuConfig::default()
        }
    }

    /// The configuration, if there can be such a device.
    pub(super) fn checked(&self) -> Result<GpuConfig> {
        Model::named(&self.chip).map_err(SnapshotError::Chip)?;
        let number = Broken { field: "number of a compute partition", value: self.partition.into() };
        self.partition().ok_or(number)?;
        let no_rom = Broken { field: "bytes of an expansion ROM", value: self.rom.len() as u64 };
        check_rom(&self.rom).map_err(|_| no_rom)?;
        let config = self.config();
        config.validate().map_err(SnapshotError::Config)?;
        Ok(config)
    }

    /// Compares the parts that a configuration must share; the first difference is the error, with its name
    /// and both values.
    fn differences(&self, other: &Self) -> Result<()> {
        let seed = |seed: Option<u64>| seed.map_or("none".to_owned(), |seed| seed.to_string());
        let hive = |hive: Option<Hive>| hive.map_or("none".to_owned(), |hive| format!("{hive:?}"));
        for (field, saved, given) in [
            ("chip", self.chip.clone(), other.chip.clone()),
            ("xccs", self.xccs.to_string(), other.xccs.to_string()),
            ("partition", self.partition.to_string(), other.partition.to_string()),
            ("cus", self.cus.to_string(), other.cus.to_string()),
            ("vram_size", self.vram_size.to_string(), other.vram_size.to_string()),
            ("hive", hive(self.hive), hive(other.hive)),
            ("deterministic", seed(self.deterministic), seed(other.deterministic)),
            ("interrupt_pin", self.interrupt_pin.to_string(), other.interrupt_pin.to_string()),
            ("matrices", self.matrices.to_string(), other.matrices.to_string()),
            ("rom", show_rom(&self.rom), show_rom(&other.rom)),
        ] {
            if saved != given {
                return Err(SnapshotError::Differs { field, saved, given });
            }
        }
        Ok(())
    }
}

/// Checks the image of an expansion ROM, which may be none.
fn check_rom(image: &[u8]) -> Result<(), RomSize> {
    if image.is_empty() { Ok(()) } else { Rom::new(image).map(drop) }
}

/// The image of an expansion ROM as a text that tells images apart.
fn show_rom(image: &[u8]) -> String {
    if image.is_empty() {
        "none".to_owned()
    } else {
        format!("{} bytes, {:016x}", image.len(), digest(image))
    }
}

impl SavedGpu {
    /// The configuration that the device had, with the host's part (workers, traces, time) as by default.
    #[must_use]
    pub fn config(&self) -> GpuConfig {
        self.config.config()
    }

    /// Returns true if the contents of VRAM are part of it; snapshots of [`Gpu::save_beside`] have none.
    #[must_use]
    pub fn has_vram(&self) -> bool {
        self.vram.is_some()
    }

    /// Age of the device.
    pub(super) fn age(&self) -> Duration {
        self.now
    }

    /// Waves that have begun and not ended.
    #[must_use]
    pub fn waves(&self) -> usize {
        self.firmware.iter().map(SavedFirmware::waves).sum()
    }

    /// The snapshot as bytes, for this version of the program.
    ///
    /// # Errors
    ///
    /// None for a snapshot of [`Gpu::save`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        postcard::to_extend(self, head).map_err(SnapshotError::Encoding)
    }

    /// Reads a snapshot from bytes that may come from anywhere. Takes memory in proportion to them.
    ///
    /// # Errors
    ///
    /// Bytes that are no snapshot, of another version, of an unknown chip or an impossible configuration, too
    /// few or too many bytes. [`Gpu::restore`] finds mistakes in single values.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(SnapshotError::Magic)?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(SnapshotError::Magic)?;
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(SnapshotError::Version { found });
        }
        let (saved, rest): (Self, _) = postcard::take_from_bytes(rest).map_err(SnapshotError::Encoding)?;
        if !rest.is_empty() {
            return Err(SnapshotError::Trailing(rest.len()));
        }
        saved.config.checked()?;
        Ok(saved)
    }
}

impl Gpu {
    /// Saves the device: stops it between two turns, copies everything, and lets it go on.
    ///
    /// The caller makes sure that nothing accesses the device in the meantime and that the guest's processors
    /// are stopped. The guest's memory belongs to the snapshot, and the host has to keep it. After a restore,
    /// programs go on as if the device had not been saved; with a [deterministic](GpuConfig::deterministic)
    /// schedule, bit for bit.
    ///
    /// # Errors
    ///
    /// The device is stopped.
    pub fn save(&self) -> Result<SavedGpu> {
        let _between = self.session.as_ref().map(Session::between);
        self.save_with(|| Some(self.memory.save()), |saved| saved)
    }

    /// Saves the device without VRAM, and holds it still while `keep` runs, in which the host keeps VRAM and
    /// the guest's memory. Otherwise as [`Gpu::save`]; `keep` must not access the device.
    ///
    /// # Errors
    ///
    /// The device is stopped, or it is recorded: then it does not work on VRAM itself.
    pub fn save_beside<R>(&self, keep: impl FnOnce(SavedGpu) -> R) -> Result<R> {
        if self.session.is_some() {
            return Err(SnapshotError::Recorded);
        }
        self.save_with(|| None, keep)
    }

    /// Saves the device with these contents of VRAM, if there are any; the device stands still until `keep`
    /// has returned.
    pub(super) fn save_with<R>(
        &self,
        vram: impl FnOnce() -> Option<SavedVram>,
        keep: impl FnOnce(SavedGpu) -> R,
    ) -> Result<R> {
        let _on = self.on_device();
        let save = |firmware: &mut FirmwareList| {
            let _held = (self.shader.hold(), self.movers.hold());
            let mut spaces = SpaceList::default();
            let (contexts, firmware) = (self.contexts.save(&mut spaces), firmware.save(&mut spaces));
            keep(SavedGpu {
                config: SavedConfig::of(&self.config),
                now: self.clock.now(),
                ahead: self.clock.ahead(),
                vram: vram(),
                roots: spaces.roots(),
                contexts,
                hqds: self.hqds.save(),
                registers: self.registers.save(),
                doorbells: self.doorbells.save(),
                function: self.pci.save(),
                interrupts: self.interrupts.save(),
                firmware,
                shader: self.shader.save(),
                counters: self.counters.save(),
            })
        };
        self.runner.between_passes(save).ok_or(SnapshotError::Stopped)
    }

    /// Makes a device that goes on at the point where another one was saved, when [`Gpu::resume`] is called.
    ///
    /// `config` is [`SavedGpu::config`] with the host's own choices. The guest's memory has to be as it was,
    /// and so has VRAM if the snapshot [has none](SavedGpu::has_vram). Otherwise VRAM is overwritten;
    /// doorbells always are. The clock goes on from the age of the saved device. An interrupt pin that was
    /// asserted is asserted at once. [`Gpu::set_doorbell_listener`] reports the doorbells of queues. Page
    /// walks, misses of TLBs and the passes of the device's thread are counted anew: they depend on the
    /// contents of caches, and on the host.
    ///
    /// # Errors
    ///
    /// A configuration of another device, resources of the wrong size, threads that cannot be started, or a value that no
    /// device has.
    pub fn restore(saved: &SavedGpu, config: GpuConfig, resources: Resources) -> Result<Arc<Self>> {
        saved.config.differences(&SavedConfig::of(&config))?;
        counter("age of the device", saved.now.as_secs())?;
        let clock = Clock::at(&config.time, saved.now, saved.ahead);
        let gpu = Self::assemble(config, resources, clock, None)?;
        gpu.runner.pause();
        gpu.take_over(saved)?;
        Ok(gpu.start()?)
    }

    /// Takes over the saved state, on a device that is paused and has done nothing.
    pub(super) fn take_over(&self, saved: &SavedGpu) -> Result<(), Broken> {
        let _on = self.on_device();
        if let Some(vram) = &saved.vram {
            self.memory.restore(vram)?;
        }
        let spaces = Spaces::restored(&self.contexts, &saved.roots)?;
        self.contexts.restore(&saved.contexts, &spaces)?;
        self.hqds.restore(&saved.hqds)?;
        self.registers.restore(&saved.registers)?;
        self.doorbells.restore(&saved.doorbells)?;
        self.pci.restore(&saved.function)?;
        self.own.follow(&self.pci);
        self.interrupts.restore(&saved.interrupts)?;
        let mut restoring = Restoring::default();
        let restore = |firmware: &mut FirmwareList| {
            firmware.restore(&saved.firmware, &spaces, &mut restoring)?;
            self.shader.restore(&saved.shader, restoring)
        };
        let served = self.runner.between_passes(restore);
        served.unwrap_or(Err(Broken { field: "state of the device", value: 0 }))?;
        self.counters.restore(&saved.counters)
    }
}
