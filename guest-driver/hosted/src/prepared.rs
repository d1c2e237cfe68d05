//! Settings of a program that gets this driver without knowing of it: the settings file of `belfry exec`.
//!
//! The same value makes the files of the topology and the device in each process, so that both agree.

use std::path::PathBuf;
use std::time::Duration;

use belfry_abi::partition::ComputePartition;
use belfry_device::chip::Model;
use belfry_device::memory::{Hive, Links};
use belfry_device::{GpuConfig, Matrices, Tier};
use belfry_kfd_core::card::Card;
use belfry_kfd_core::os::Numa;
use serde::{Deserialize, Serialize};

use crate::config::{HostedConfig, Place, Reach};

/// Environment variable that names the directory of prepared files.
pub const TREE_VARIABLE: &str = "BELFRY_EXEC";
/// Environment variable that names the file which gets a line for each process that used the GPU.
pub const SUMMARY_VARIABLE: &str = "BELFRY_EXEC_SUMMARY";
/// Environment variable with the level of the driver's log on standard error, `warn` unless set.
pub const LOG_VARIABLE: &str = "BELFRY_EXEC_LOG";
/// Environment variable that names the card: processes with different names see nothing of each other in its files.
pub const CARD_VARIABLE: &str = "BELFRY_EXEC_CARD";
/// Environment variable with the size of a trace's ring in bytes, a colon, and the directory that each process which uses the
/// GPU makes its ring in.
pub const TRACE_VARIABLE: &str = "BELFRY_EXEC_TRACE";
/// Environment variable with the options for checks of kernels, as JSON of the device's `SanitizeOptions`.
pub const SANITIZE_VARIABLE: &str = "BELFRY_EXEC_SANITIZE";
/// Environment variable with the options for profiles of kernels, as JSON of the device's `ProfileOptions`.
pub const PROFILE_VARIABLE: &str = "BELFRY_EXEC_PROFILE";
/// Environment variable with the text of a plan of faults, which strikes in each process that opens the GPU.
pub const FAULTS_VARIABLE: &str = "BELFRY_EXEC_FAULTS";
/// Environment variable with how the GPU may be looked at, as JSON of `belfry-inspect`'s `AskedOfProcess`; shorter than a path may be.
pub const INSPECT_VARIABLE: &str = "BELFRY_EXEC_INSPECT";
/// Environment variable that puts the driver of each process into a companion, so that a debugger may stop the program.
pub const DEBUGGABLE_VARIABLE: &str = "BELFRY_EXEC_DEBUGGABLE";
/// Environment variable with how threads wait for signals, as [`Wait::name`] has it; absent for [`Wait::Auto`].
pub const WAIT_VARIABLE: &str = "BELFRY_EXEC_WAIT";
/// Environment variable with the directory that each process which uses the GPU leaves a record in.
pub const RECORD_VARIABLE: &str = "BELFRY_EXEC_RECORD";
/// Ending of the names of rings, after a dot.
pub const RING_ENDING: &str = "ring";
/// Ending of the names of records, after a dot.
pub const RECORD_ENDING: &str = "record";
/// Name of the settings file in the directory.
pub const SETTINGS_FILE: &str = "settings";

/// Most GPUs of a machine.
pub const MAX_GPUS: usize = belfry_device::memory::MAX_PEERS;

/// Name of the file in the directory by which processes tell each other how much they use of each card.
pub const SHARED_FILE: &str = "shared";
/// Bytes of that file, zeros at first.
pub const SHARED_SIZE: usize = 256 << 10;

/// Name of the file in the directory with the properties that the files of the cards are made of: a list of [`PreparedCard`].
pub const CARD_FILE: &str = "card";

/// Way in which the threads of a program wait for signals of ROCr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// They sleep if there are few processors and all of them execute waves, and wait as they were asked to otherwise.
    #[default]
    Auto,
    /// They wait as they were asked to: HIP spins.
    Spin,
    /// They sleep.
    Block,
}

impl Wait {
    const ALL: [Self; 3] = [Self::Auto, Self::Spin, Self::Block];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Spin => "spin",
            Self::Block => "block",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wait| wait.name() == name)
    }
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A card of that list. Files whose content changes are empty in the directory: they are made when they
/// are opened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PreparedCard {
    /// Properties that do not change.
    #[serde(with = "CardFields")]
    pub card: Card,
    /// Directory of the PCI device, without a slash in front.
    pub device: String,
}

/// Directory of the hardware monitor of the card with this number below the PCI device's.
#[must_use]
pub fn hwmon(gpu: usize) -> String {
    format!("hwmon/hwmon{gpu}")
}

/// Path of a file of the card with this number below the PCI device's directory.
#[must_use]
pub fn card_path(gpu: usize, path: &str) -> String {
    path.strip_prefix("hwmon/").map_or_else(|| path.to_owned(), |name| format!("{}/{name}", hwmon(gpu)))
}

/// A GPU of the settings file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PreparedGpu {
    /// Chip.
    #[serde(with = "chip_name")]
    pub chip: &'static Model,
    /// Graphics cores.
    pub xccs: u32,
    /// Mode by which the graphics cores are divided into partitions.
    #[serde(with = "partition_name")]
    pub partition: ComputePartition,
    /// Compute units.
    pub cus: u32,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Bus number << 8 | device << 3 | function.
    pub location_id: u32,
    /// Minor number of the first render node.
    pub render_minor: u32,
    /// Place in a hive.
    pub hive: Option<Hive>,
    /// Memory node that it is at.
    pub numa_node: u32,
    /// Bridges above it from the root bus on, each as its location: a root port, and the upstream and a downstream port of a switch if it is
    /// below one.
    pub bridges: Vec<u32>,
}

impl PreparedGpu {
    /// Number of render nodes: one for each partition. It does not change.
    #[must_use]
    pub fn render_nodes(&self) -> u32 {
        self.partition.partitions(self.xccs).unwrap_or(1)
    }
}

/// The settings file, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Prepared {
    /// GPUs, in the order in which the driver binds to them: one to [`MAX_GPUS`].
    pub gpus: Vec<PreparedGpu>,
    /// Links between them.
    pub links: Links,
    /// Memory nodes of the machine, at least 1.
    pub numa_nodes: u32,
    /// Distance between any two of them.
    pub numa_distance: u32,
    /// Threads of each GPU that execute waves.
    pub workers: usize,
    /// Seed of a deterministic schedule.
    pub deterministic: Option<u64>,
    /// Tier that decides which code of kernels is compiled.
    pub tier: Tier,
    /// Way in which matrix instructions form their sums.
    pub matrices: Matrices,
    /// Compiled code counts its time.
    #[serde(default)]
    pub counts_code: bool,
    /// The folder that compiled code is kept in, if it is; the maker of the device opens it.
    pub code_folder: Option<PathBuf>,
    /// Bytes of system memory the driver may hand out.
    pub system_memory: u64,
    /// PCI domain.
    pub domain: u32,
    /// Number of the PCI bus that bridges to the GPUs' buses are on.
    pub root_bus: u8,
    /// Files, directories and links under `/sys` and `/dev` that are the GPU's: absolute paths, in the directory instead.
    pub paths: Vec<String>,
}

/// The fields of [`Card`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Card")]
struct CardFields {
    vram: u64,
    gtt: u64,
    device_id: u16,
    unique_id: u64,
    max_engine_clock: u32,
    max_memory_clock: u32,
    mec_version: u32,
    sdma_version: u32,
    partitioned_xccs: u32,
    partitions: u32,
    hive: u32,
    hive_node: u32,
    hive_nodes: u32,
}

/// A chip as its name.
mod chip_name {
    use belfry_device::chip::Model;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(chip: &Model, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(chip.name)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<&'static Model, D::Error> {
        Model::named(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Partition mode, by the name that sysfs has for it.
mod partition_name {
    use belfry_abi::partition::ComputePartition;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(
        mode: &ComputePartition,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(mode.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<ComputePartition, D::Error> {
        let name = String::deserialize(deserializer)?;
        ComputePartition::named(&name)
            .ok_or_else(|| D::Error::custom(format_args!("no partition mode {name:?}")))
    }
}

impl Prepared {
    /// Minor numbers of the render nodes of all partitions of all GPUs, by the numbers that the driver has for them.
    pub fn render_minors(&self) -> impl Iterator<Item = u32> {
        self.gpus.iter().flat_map(|gpu| (0..gpu.render_nodes()).map(|number| gpu.render_minor + number))
    }

    /// Memory nodes of the machine.
    #[must_use]
    pub fn numa(&self) -> Numa {
        Numa { nodes: self.numa_nodes, distance: self.numa_distance }
    }

    /// Configurations of the devices, in a program that reaches all of its own memory.
    #[must_use]
    pub fn configs(&self, poll_doorbells: bool) -> Vec<HostedConfig> {
        let one = |gpu: &PreparedGpu| {
            let config = GpuConfig {
                chip: gpu.chip,
                xccs: gpu.xccs,
                partition: gpu.partition,
                cus: gpu.cus,
                vram_size: gpu.vram,
                hive: gpu.hive,
                workers: self.workers,
                deterministic: self.deterministic,
                tier: self.tier,
                matrices: self.matrices,
                counts_code: self.counts_code,
                quantum: Duration::from_millis(1),
                poll_doorbells,
                ..GpuConfig::default()
            };
            HostedConfig {
                gpu: config,
                system_memory: usize::try_from(self.system_memory).unwrap_or(usize::MAX),
                place: Place {
                    domain: self.domain,
                    location_id: gpu.location_id,
                    render_minor: gpu.render_minor,
                    numa_node: gpu.numa_node,
                },
                links: self.links,
                numa: self.numa(),
                reach: Reach::Process,
                pins: None,
                pid: std::process::id(),
            }
        };
        self.gpus.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use belfry_device::chip::DEFAULT;

    use super::*;

    #[test]
    fn settings_name_their_chip_and_are_none_for_one_that_there_is_not() {
        let gpu = PreparedGpu {
            chip: DEFAULT,
            xccs: 1,
            partition: ComputePartition::Spx,
            cus: 4,
            vram: 1 << 28,
            location_id: 0x100,
            render_minor: 128,
            hive: None,
            numa_node: 0,
            bridges: vec![0x8],
        };
        let second = PreparedGpu { location_id: 0x200, render_minor: 129, ..gpu.clone() };
        let prepared = Prepared {
            gpus: vec![gpu, second],
            links: Links::Pcie,
            numa_nodes: 1,
            numa_distance: 10,
            workers: 1,
            deterministic: None,
            tier: Tier::Auto,
            matrices: Matrices::Fast,
            counts_code: false,
            code_folder: Some("/tmp/code".into()),
            system_memory: 1 << 30,
            domain: 0,
            root_bus: 0,
            paths: Vec::new(),
        };
        let text = serde_json::to_string(&prepared).unwrap();
        assert_eq!(serde_json::from_str::<Prepared>(&text).unwrap(), prepared);
        let places = prepared.configs(false).into_iter().map(|config| {
            assert_eq!(config.gpu.chip, DEFAULT);
            (config.place.location_id, config.place.render_minor)
        });
        assert_eq!(places.collect::<Vec<_>>(), [(0x100, 128), (0x200, 129)]);
        assert_eq!(prepared.render_minors().collect::<Vec<_>>(), [128, 129]);
        let other = text.replace(DEFAULT.name, "gfx9000");
        let error = serde_json::from_str::<Prepared>(&other).unwrap_err().to_string();
        assert!(error.contains("gfx9000") && error.contains(DEFAULT.name), "{error}");
    }
}
