//! Configuration of the device by its host.

use std::sync::Arc;
use std::time::Duration;

use belfry_lock::MAX_DEVICES;

use belfry_abi::partition::ComputePartition;
use belfry_isa::code_store::KeptCode;
use belfry_isa::lanes::{Matrices, Tier};
use belfry_pci::Rom;

use crate::activity::Activity;
use crate::chip::{self, Model, Shape};
use crate::explore::Explorer;
use crate::faults::Plan;
use crate::memory::{Hive, Links};
use crate::profile::Profiler;
use crate::record::Recording;
use crate::sanitize::{Rule, Sanitizer};
use crate::threads::processors::{Processors, processors};
use crate::time::TimeSource;
use crate::trace::TraceSink;

/// The side that answers accesses to the MSI-X table.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MsixTable {
    /// The host emulates the table, its masks and its pending bits (vfio-user, hosted): every interrupt is raised.
    #[default]
    Host,
    /// The device answers the table in BAR5, honours its masks and keeps pending bits.
    Device,
}

/// Configuration of one device; [`Default`] is what `belfry run` uses.
#[derive(Clone, Debug)]
pub struct GpuConfig {
    /// Number of the device among those of its process: locks of a device are taken before those of a device with a
    /// higher number.
    pub number: u8,
    /// Model of the chip.
    pub chip: &'static Model,
    /// Compute units, in all: a multiple of [`Model::cu_step`] for each graphics core, at most as many as the chip has.
    pub cus: u32,
    /// Graphics cores (XCCs), at most as many as the chip has.
    pub xccs: u32,
    /// Partition mode of the graphics cores after a reset.
    pub partition: ComputePartition,
    /// Bytes of VRAM: a power of two in the range of the chip, [`Model::vram`].
    pub vram_size: u64,
    /// Place among devices whose VRAM is one range of addresses, on chips with XGMI; `None`: the device is alone.
    pub hive: Option<Hive>,
    /// Shader worker threads, 1 to 256.
    pub workers: usize,
    /// Processors of the host, if the devices of a machine share them: their configurations have clones of one value.
    pub processors: Option<Processors>,
    /// The side that answers accesses to the MSI-X table.
    pub msix_table: MsixTable,
    /// True if the function has an interrupt pin, for drivers that use no messages:
    /// [`InterruptSink::set_pin`].
    ///
    /// [`InterruptSink::set_pin`]: crate::InterruptSink::set_pin
    pub interrupt_pin: bool,
    /// True if the guest can write doorbells without notice to the device.
    ///
    /// The device's thread then looks at the doorbell page by itself while queues are mapped, more and more
    /// rarely while nothing happens. A host that calls [`Gpu::doorbell_hint`](crate::Gpu::doorbell_hint)
    /// after such writes does not need this.
    pub poll_doorbells: bool,
    /// Time for which a busy queue keeps its hardware slot while others wait for one, unless its gang asks
    /// for more.
    pub quantum: Duration,
    /// Expansion ROM with a VBIOS, if the card shall have one.
    pub rom: Option<Rom>,
    /// Receiver of trace events.
    pub trace: Option<Arc<dyn TraceSink>>,
    /// Seed of a deterministic schedule. There is one worker, for any value of [`workers`](GpuConfig::workers);
    /// dispatches run one after the other; the seed decides how the waves of each are interleaved at
    /// single instructions; and time is counted in instructions.
    ///
    /// A program then executes the same instructions in the same order in each run. Events from outside are
    /// not part of that: writes of processors to shared memory, and queues that are taken off their slots
    /// while they are busy.
    pub deterministic: Option<u64>,
    /// Tier of kernels' code: selects the code that is compiled to machine code of the host, if the host has
    /// AVX2 or AVX-512.
    pub tier: Tier,
    /// Way in which matrix instructions form their sums.
    pub matrices: Matrices,
    /// Store that keeps compiled code from one process to the next, if there is one. Several devices may
    /// share one.
    pub kept_code: Option<Arc<KeptCode>>,
    /// True if compiled code counts its work, for [`Gpu::take_code_times`](crate::Gpu::take_code_times); such
    /// code is slower.
    pub counts_code: bool,
    /// Checks the behaviour of kernels against rules; kernels run many times slower then.
    pub sanitizer: Option<Arc<Sanitizer>>,
    /// Counts the work of kernels; they run many times slower then.
    pub profiler: Option<Arc<Profiler>>,
    /// Source of the device's time.
    pub time: TimeSource,
    /// Counter of the threads that execute waves.
    pub activity: Activity,
    /// Plan of deliberate faults.
    pub faults: Plan,
    /// Record of every input of the device that is not determined, for a [`Replay`](crate::Replay). The
    /// device is then a [deterministic](GpuConfig::deterministic) one, with the seed 0 unless it has another.
    /// It has a time of its own, which passes as the host's does.
    pub record: Option<Recording>,
    /// Explorer that decides who goes on next, for a device and a driver that work on the thread that calls
    /// them. The device is then a [deterministic](GpuConfig::deterministic) one, and
    /// [`time`](GpuConfig::time) is moved by hand.
    pub explorer: Option<Explorer>,
}

impl Default for GpuConfig {
    fn default() -> Self {
        Self {
            number: 0,
            chip: chip::DEFAULT,
            cus: chip::DEFAULT.default.cus,
            xccs: chip::DEFAULT.default.xccs,
            partition: ComputePartition::Spx,
            vram_size: 256 << 20,
            hive: None,
            workers: processors().min(8),
            processors: None,
            msix_table: MsixTable::Host,
            interrupt_pin: false,
            poll_doorbells: false,
            quantum: Duration::from_millis(1),
            rom: None,
            trace: None,
            deterministic: None,
            tier: Tier::default(),
            matrices: Matrices::default(),
            kept_code: None,
            counts_code: false,
            sanitizer: None,
            profiler: None,
            time: TimeSource::default(),
            activity: Activity::default(),
            faults: Plan::default(),
            record: None,
            explorer: None,
        }
    }
}

/// Reasons for refusing a configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// [`GpuConfig::number`] is out of range.
    #[error("device number {0}: must be below {MAX_DEVICES}")]
    Number(u8),
    /// [`GpuConfig::cus`] is out of range, or no multiple of the step for each graphics core.
    #[error("{cus} compute units: must be a multiple of {step}, {step} to {most}")]
    Cus {
        /// Configured compute units.
        cus: u32,
        /// The least, of which others are multiples.
        step: u32,
        /// The most, for as many graphics cores.
        most: u32,
    },
    /// [`GpuConfig::xccs`] is out of range.
    #[error("{xccs} XCCs: must be 1 to {most}")]
    Xccs {
        /// Configured graphics cores.
        xccs: u32,
        /// Graphics cores of the chip.
        most: u32,
    },
    /// [`GpuConfig::partition`] does not go with the number of graphics cores.
    #[error("{xccs} XCCs cannot be partitioned as {partition}")]
    Partition {
        /// Configured mode.
        partition: ComputePartition,
        /// Graphics cores.
        xccs: u32,
    },
    /// [`GpuConfig::vram_size`] is out of range.
    #[error("{size} bytes of VRAM: must be a power of two from {least} to {most} bytes")]
    VramSize {
        /// Configured size in bytes.
        size: u64,
        /// The least that the chip can have.
        least: u64,
        /// The most that it can have.
        most: u64,
    },
    /// [`GpuConfig::hive`] is no place of this device, or the chip has no XGMI.
    #[error("{hive:?}: is no place in a hive for {chip} with {vram} bytes of VRAM")]
    Hive {
        /// The place.
        hive: Hive,
        /// Name of the chip.
        chip: &'static str,
        /// Bytes of VRAM.
        vram: u64,
    },
    /// [`GpuConfig::workers`] is out of range.
    #[error("{0} shader workers: must be 1 to 256")]
    Workers(usize),
    /// A setting that does not go with [`GpuConfig::record`].
    #[error("a device that is recorded has no {0}")]
    Record(&'static str),
}

impl GpuConfig {
    /// Shape of the chip.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { xccs: self.xccs, cus: self.cus }
    }

    /// Returns the expansion ROM that a card of the chip has; `None` if there is no VBIOS for the chip.
    #[must_use]
    pub fn card_rom(&self) -> Option<Rom> {
        self.chip.chip(self.shape()).vbios().and_then(|image| Rom::new(image).ok())
    }

    /// Returns true if the device does one thing after the other, on a copy of memory: because it is
    /// recorded, or because a rule of the sanitizer checks flushes to VRAM. Such a device needs doorbells
    /// that stop their writers.
    #[must_use]
    pub fn works_on_copy(&self) -> bool {
        self.record.is_some() || self.checks_host_path()
    }

    /// Returns true if the sanitizer checks flushes to VRAM; a device that is explored has no copy for that.
    pub(crate) fn checks_host_path(&self) -> bool {
        let checks = |sanitizer: &Arc<Sanitizer>| sanitizer.checks(Rule::HdpNotFlushed);
        self.explorer.is_none() && self.sanitizer.as_ref().is_some_and(checks)
    }

    /// Numbers the devices of one machine, and joins them to hives: those that their configurations name, or, if none does and `links` are
    /// [`Links::Xgmi`], all devices of the first chip with XGMI, where it has several. All share the processors of the first one's
    /// configuration, or those of the host.
    #[must_use]
    pub fn of_machine(links: Links, devices: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut shared = None;
        let numbered = devices.into_iter().enumerate().map(|(number, device)| {
            let processors = shared.get_or_insert_with(|| device.processors.clone().unwrap_or_default());
            let processors = Some(processors.clone());
            // More than there can be are refused when they are made.
            Self { number: u8::try_from(number).unwrap_or(u8::MAX), processors, ..device }
        });
        let mut devices: Vec<Self> = numbered.collect();
        let first = devices.iter().map(|device| device.chip).find(|chip| chip.has_xgmi);
        if links != Links::Xgmi || devices.iter().any(|device| device.hive.is_some()) {
            return devices;
        }
        let is_member = |device: &Self| Some(device.chip) == first;
        let members: Vec<_> = devices.iter().filter(|device| is_member(device)).map(Self::member).collect();
        let places = Hive::places(0, &members).unwrap_or_default();
        for (device, place) in devices.iter_mut().filter(|device| is_member(device)).zip(places) {
            device.hive = Some(place);
        }
        devices
    }

    /// Returns its number, and the bytes of its VRAM, for [`Hive::places`].
    fn member(&self) -> (u8, u64) {
        (self.number, self.vram_size)
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    ///
    /// The first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.number >= MAX_DEVICES {
            return Err(ConfigError::Number(self.number));
        }
        let (chip, Shape { xccs, cus }) = (self.chip, self.shape());
        if !(1..=chip.max_xccs).contains(&xccs) {
            return Err(ConfigError::Xccs { xccs, most: chip.max_xccs });
        }
        if !chip.can_be(self.shape()) {
            let most = chip.max_cus / chip.max_xccs * xccs;
            return Err(ConfigError::Cus { cus, step: chip.cu_step * xccs, most });
        }
        if self.partition.partitions(xccs).is_none() {
            return Err(ConfigError::Partition { partition: self.partition, xccs });
        }
        let (size, vram) = (self.vram_size, &self.chip.vram);
        if !size.is_power_of_two() || !vram.contains(&size) {
            return Err(ConfigError::VramSize { size, least: *vram.start(), most: *vram.end() });
        }
        if let Some(hive) = self.hive.filter(|hive| !self.chip.has_xgmi || !hive.fits(size)) {
            return Err(ConfigError::Hive { hive, chip: self.chip.name, vram: size });
        }
        if self.workers == 0 || self.workers > 256 {
            return Err(ConfigError::Workers(self.workers));
        }
        if self.record.is_some() {
            if self.faults.rules().iter().any(|planned| planned.rule.hook().is_of_driver()) {
                return Err(ConfigError::Record("faults of its driver"));
            }
            if self.sanitizer.is_some() {
                return Err(ConfigError::Record("sanitizer"));
            }
            if self.explorer.is_some() {
                return Err(ConfigError::Record("schedule that is explored"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_one_that_locks_are_ordered_by() {
        let check = |number| GpuConfig { number, ..GpuConfig::default() }.validate();
        assert_eq!((check(0), check(MAX_DEVICES - 1)), (Ok(()), Ok(())));
        assert_eq!(check(MAX_DEVICES), Err(ConfigError::Number(MAX_DEVICES)));
    }

    #[test]
    fn vram_is_a_power_of_two_in_the_range_of_the_chip() {
        let check = |vram_size| GpuConfig { vram_size, ..GpuConfig::default() }.validate();
        let vram = &chip::DEFAULT.vram;
        for size in [*vram.start(), 1 << 30, *vram.end()] {
            assert_eq!(check(size), Ok(()), "{size}");
        }
        for size in [0, *vram.start() / 2, *vram.start() + 4096, *vram.end() * 2] {
            let error = check(size).expect_err("out of range");
            let (least, most) = (*vram.start(), *vram.end());
            assert_eq!(error, ConfigError::VramSize { size, least, most });
        }
    }
}
