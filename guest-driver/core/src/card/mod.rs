//! The card: the files of its PCI device's directory, with what they say (`amdgpu_pm.c`, `amdgpu_vram_mgr.c`,
//! `amdgpu_gtt_mgr.c`, `amdgpu_device.c`, `amdgpu_ucode.c`).
//!
//! Every file is one row of [`FILES`]. What a row shows comes from a [`Card`], which does not change while the driver is
//! bound, and from [`Figures`], which are measured when the file is read; [`Sensors`] has what cannot be measured. An
//! operating system's side needs no device to show a file if it has both.

mod files;
mod metrics;

use alloc::vec::Vec;

use belfry_abi::sensors::{self, Peaks, Sensors};

use crate::errno::{Errno, Result};

pub use crate::config::HIVE_ID;
pub use belfry_abi::sensors::{Load, measure};
pub use files::FILES;

/// Properties that do not change while the driver is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Bytes of VRAM that may be allocated.
    pub vram: u64,
    /// Bytes of system memory that buffer objects may take.
    pub gtt: u64,
    /// Device ID of its PCI function.
    pub device_id: u16,
    /// The number that tells this card from others of its kind, as the topology has it.
    pub unique_id: u64,
    /// Highest engine clock in MHz.
    pub max_engine_clock: u32,
    /// Highest memory clock in MHz.
    pub max_memory_clock: u32,
    /// Version of the compute microcode.
    pub mec_version: u32,
    /// Version of the SDMA engines' microcode.
    pub sdma_version: u32,
    /// Graphics cores that can be shared out among partitions; 0 for a chip that is not.
    pub partitioned_xccs: u32,
    /// Partitions that there are; of this alone, another driver's write tells.
    pub partitions: u32,
    /// Number of the hive that it is in.
    pub hive: u32,
    /// Place among the cards of a hive.
    pub hive_node: u32,
    /// Cards of the hive; 0 for a card that is in none.
    pub hive_nodes: u32,
}

/// Figures that are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of VRAM in use.
    pub vram_used: u64,
    /// Bytes of system memory in use by buffer objects.
    pub gtt_used: u64,
    /// Hundredths of the time that the card has executed waves lately.
    pub busy_percent: u8,
    /// Nanoseconds during which it did, since it was made.
    pub busy_ns: u64,
    /// Time since boot in nanoseconds.
    pub boot_ns: u64,
    /// Errors of memory that could not be corrected since the driver was bound.
    pub uncorrectable: u64,
    /// Errors of memory that were corrected, since then.
    pub corrected: u64,
}

/// Source of a file's content, which says whether it changes and what reading it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The card alone.
    Card,
    /// The use of memory, too.
    Memory,
    /// The load of the card, too.
    Activity,
}

/// One figure of the card, as the render node gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sensor {
    EngineClock,
    MemoryClock,
    Temperature,
    Load,
    Power,
    Voltage,
    PeakEngineClock,
    PeakMemoryClock,
}

impl Sensor {
    /// MHz, thousandths of a degree Celsius, percent, watts, millivolts.
    pub(crate) fn value(self, card: &Card, figures: &Figures) -> u32 {
        let now = card.sensors(figures);
        match self {
            Self::EngineClock => now.engine_clock(),
            Self::MemoryClock => now.memory_clock(),
            Self::Temperature => now.temperature(&sensors::EDGE) * 1000,
            Self::Load => figures.busy_percent.into(),
            Self::Power => now.power(),
            Self::Voltage => now.voltage(),
            Self::PeakEngineClock => card.max_engine_clock,
            Self::PeakMemoryClock => card.max_memory_clock,
        }
    }
}

/// Shows a file.
type Show = fn(&Card, &Figures) -> Vec<u8>;
/// Takes what was written to a file.
#[derive(Clone, Copy, Debug)]
enum Store {
    /// A value that is one that the file has already, or an error.
    Setting(fn(&Card, &str) -> Result<()>),
    /// The way to share out the graphics cores, which takes a device.
    Partition,
}

/// One file below the PCI device's directory.
#[derive(Debug)]
pub struct File {
    /// Its path there; `hwmon/` stands for the directory of the hardware monitor.
    pub path: &'static str,
    /// Source of its content.
    pub source: Source,
    show: Show,
    store: Option<Store>,
    of: Cards,
}

/// Cards that have a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cards {
    All,
    /// Instinct cards, which have partitions and memory with ECC.
    Instinct,
    /// Cards of a hive.
    Hive,
}

impl Card {
    /// Figures that cannot be measured, of a card that is so busy.
    fn sensors(&self, figures: &Figures) -> Sensors {
        let peaks = Peaks { engine: self.max_engine_clock, memory: self.max_memory_clock };
        Sensors { peaks, busy_percent: figures.busy_percent }
    }

    /// Returns the name of the hive that it is in.
    #[must_use]
    pub fn hive_name(&self) -> u64 {
        HIVE_ID + u64::from(self.hive)
    }
}

impl File {
    /// The content.
    #[must_use]
    pub fn show(&self, card: &Card, figures: &Figures) -> Vec<u8> {
        (self.show)(card, figures)
    }

    /// Returns whether a card has it: some files are those of Instinct cards, or of cards of a hive.
    #[must_use]
    pub fn is_of(&self, card: &Card) -> bool {
        match self.of {
            Cards::All => true,
            Cards::Instinct => card.partitioned_xccs > 0,
            Cards::Hive => card.hive_nodes > 0,
        }
    }

    /// Returns whether its owner may write to it; all may read it.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.store.is_some()
    }

    /// The permissions it has on Linux.
    #[must_use]
    pub fn mode(&self) -> u32 {
        if self.writable() { 0o644 } else { 0o444 }
    }

    /// Returns whether a write to it shares the graphics cores out, which takes a device.
    pub(crate) fn shares_out(&self) -> bool {
        matches!(self.store, Some(Store::Partition))
    }

    /// Takes what a program has written, a line with or without its end.
    ///
    /// # Errors
    ///
    /// `EACCES` for a file that cannot be written to. `EINVAL` for a text that it does not take. `EBUSY` for the partitions, which
    /// only a device can change.
    pub fn store(&self, card: &Card, text: &[u8]) -> Result<()> {
        match self.store.ok_or(Errno::EACCES)? {
            Store::Setting(store) => store(card, written(text)?),
            Store::Partition => written(text).and(Err(Errno::EBUSY)),
        }
    }
}

/// Text that is written to a file, without the spaces around it.
pub(crate) fn written(text: &[u8]) -> Result<&str> {
    core::str::from_utf8(text).map(str::trim).map_err(|_| Errno::EINVAL)
}

/// The file of a path below the PCI device's directory.
///
/// # Errors
///
/// `ENOENT`.
pub fn file(path: &str) -> Result<&'static File> {
    FILES.iter().find(|file| file.path == path).ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests;
