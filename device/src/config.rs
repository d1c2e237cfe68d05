//! What a host chooses about the device.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use once_cell::race::OnceNonZeroUsize;

use belfry_abi::partition::ComputePartition;
use belfry_isa::code_store::KeptCode;
use belfry_isa::lanes::{Matrices, Tier};

use crate::activity::Activity;
use crate::chip::{self, Model, Shape};
use crate::explore::Explorer;
use crate::faults::Plan;
use crate::profile::Profiler;
use crate::record::Recording;
use crate::sanitize::{Rule, Sanitizer};
use crate::time::TimeSource;
use crate::trace::TraceSink;

/// Who answers accesses to the MSI-X table.
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
    /// Which chip it is.
    pub chip: &'static Model,
    /// Compute units, in all: a multiple of [`Model::cu_step`] for each graphics core, at most as many as the chip has.
    pub cus: u32,
    /// Graphics cores (XCCs), at most as many as the chip has.
    pub xccs: u32,
    /// How the graphics cores are shared out after a reset.
    pub partition: ComputePartition,
    /// Bytes of VRAM: a power of two in the range of the chip, [`Model::vram`].
    pub vram_size: u64,
    /// Shader worker threads, 1 to 256.
    pub workers: usize,
    /// Who answers accesses to the MSI-X table.
    pub msix_table: MsixTable,
    /// Whether the function has an interrupt pin, for drivers that use no messages: [`InterruptSink::set_pin`].
    ///
    /// [`InterruptSink::set_pin`]: crate::InterruptSink::set_pin
    pub interrupt_pin: bool,
    /// Whether the guest can write doorbells without the device being told.
    ///
    /// The device's thread then looks at the doorbell page by itself while queues are mapped, ever more rarely while nothing
    /// happens. A host that calls [`Gpu::doorbell_hint`](crate::Gpu::doorbell_hint) after such writes does not need it.
    pub poll_doorbells: bool,
    /// How long a busy queue keeps its hardware slot while others wait for one, unless its gang asks for more.
    pub quantum: Duration,
    /// Receiver of trace events.
    pub trace: Option<Arc<dyn TraceSink>>,
    /// Seed of a deterministic schedule: one worker whatever [`workers`](GpuConfig::workers) says, one dispatch after the
    /// other, the waves of each interleaved at single instructions as the seed decides, and time counted in instructions.
    ///
    /// The same program then executes the same instructions in the same order. What comes from outside is not part of that:
    /// processors writing to the same memory meanwhile, and queues taken off their slots while they are busy.
    pub deterministic: Option<u64>,
    /// Which code of kernels is compiled to machine code of the host, where that has AVX2 or AVX-512.
    pub tier: Tier,
    /// How matrix instructions form their sums.
    pub matrices: Matrices,
    /// Where compiled code is kept from one process to the next, if it is. Others may have the same one.
    pub kept_code: Option<Arc<KeptCode>>,
    /// Whether compiled code counts what it does, for [`Gpu::take_code_times`](crate::Gpu::take_code_times); such code is slower.
    pub counts_code: bool,
    /// Holds what kernels do against rules; they run many times slower then.
    pub sanitizer: Option<Arc<Sanitizer>>,
    /// Counts what kernels do; they run many times slower then.
    pub profiler: Option<Arc<Profiler>>,
    /// The time that it goes by.
    pub time: TimeSource,
    /// Where it counts the threads that execute waves.
    pub activity: Activity,
    /// What fails on purpose.
    pub faults: Plan,
    /// Where every input of the device goes that is not determined, for a [`Replay`](crate::Replay). The device is a
    /// [deterministic](GpuConfig::deterministic) one then, with the seed 0 unless it has another, and has a time of its own,
    /// which passes as the host's does.
    pub record: Option<Recording>,
    /// What decides who goes on next, for a device and a driver that work on the thread that calls them. The device is a
    /// [deterministic](GpuConfig::deterministic) one then, and [`time`](GpuConfig::time) is one that is moved by hand.
    pub explorer: Option<Explorer>,
}

/// Processors this process may use. The answer is kept: finding it takes a dozen system calls.
#[must_use]
pub fn processors() -> usize {
    // Threads that ask at once all find it, and none waits for another: a process that is forked meanwhile has one thread alone.
    static PROCESSORS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    PROCESSORS.get_or_init(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)).get()
}

impl Default for GpuConfig {
    fn default() -> Self {
        Self {
            chip: chip::DEFAULT,
            cus: chip::DEFAULT.default.cus,
            xccs: chip::DEFAULT.default.xccs,
            partition: ComputePartition::Spx,
            vram_size: 256 << 20,
            workers: processors().min(8),
            msix_table: MsixTable::Host,
            interrupt_pin: false,
            poll_doorbells: false,
            quantum: Duration::from_millis(1),
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

/// Why a configuration was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// [`GpuConfig::cus`] is out of range, or no multiple of what each graphics core can have.
    #[error("{cus} compute units: must be a multiple of {step}, {step} to {most}")]
    Cus {
        /// What was asked for.
        cus: u32,
        /// The least, of which others are multiples.
        step: u32,
        /// The most, for as many graphics cores.
        most: u32,
    },
    /// [`GpuConfig::xccs`] is out of range.
    #[error("{xccs} XCCs: must be 1 to {most}")]
    Xccs {
        /// What was asked for.
        xccs: u32,
        /// What the chip has.
        most: u32,
    },
    /// [`GpuConfig::partition`] does not go with the number of graphics cores.
    #[error("{xccs} XCCs cannot be partitioned as {partition}")]
    Partition {
        /// What was asked for.
        partition: ComputePartition,
        /// Graphics cores.
        xccs: u32,
    },
    /// [`GpuConfig::vram_size`] is out of range.
    #[error("{size} bytes of VRAM: must be a power of two from {least} to {most} bytes")]
    VramSize {
        /// What was asked for.
        size: u64,
        /// The least that the chip can have.
        least: u64,
        /// The most that it can have.
        most: u64,
    },
    /// [`GpuConfig::workers`] is out of range.
    #[error("{0} shader workers: must be 1 to 256")]
    Workers(usize),
    /// Something that does not go with [`GpuConfig::record`].
    #[error("a device that is recorded has no {0}")]
    Record(&'static str),
}

impl GpuConfig {
    /// How much there is of the chip.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { xccs: self.xccs, cus: self.cus }
    }

    /// Whether the device does one thing after the other, on a copy of memory: as it is recorded, or as a rule of the sanitizer goes by
    /// what is flushed to VRAM. Ways of doorbells that do not stop their writers are not for it.
    #[must_use]
    pub fn works_on_copy(&self) -> bool {
        self.record.is_some() || self.checks_host_path()
    }

    /// Whether the sanitizer goes by what is flushed to VRAM, for which a device that is explored has no copy.
    pub(crate) fn checks_host_path(&self) -> bool {
        let checks = |sanitizer: &Arc<Sanitizer>| sanitizer.checks(Rule::HdpNotFlushed);
        self.explorer.is_none() && self.sanitizer.as_ref().is_some_and(checks)
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    ///
    /// The first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
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
