//! Differences between GPUs: constants of a generation live nowhere else.
//!
//! An [`Asic`] is a table of constants and functions, chosen once by the version of the graphics core that the discovery
//! table names, as amdkfd chooses its `mqd_manager` and amdgpu its `gmc` functions. The device's `Hw` refers to it.

mod gfx11;
mod gfx11_5;
mod gfx12;
mod gfx9;
mod gfx9_5;
mod readable;

use alloc::vec::Vec;
use core::fmt;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::IhEntry;
use belfry_abi::kfd::queue::{ContextSaveAreaHeader, CreateQueueArgs};
use belfry_abi::mes::FRAME_SIZE;
use belfry_abi::regs::layout::Layout;

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::os::PAGE_SIZE;
use crate::request::{
    Frame, HardwareResources, Image, QueueRequest, RunList, RunProcess, SchedulerRing, SdmaPlace,
    ShaderDebugger,
};
use readable::Readable;

/// Distance of the second half of a slice (`KFD_QUEUE_DOORBELL_MIRROR_OFFSET`).
const MIRROR_OFFSET: u32 = 512;

/// IP version of a graphics core: major, minor, revision.
pub(crate) type GcVersion = (u8, u8, u8);

/// VMIDs of a graphics core.
pub(crate) const VMIDS: u32 = 16;

/// One kind of GPU.
pub(crate) struct Asic {
    /// The instruction set's name.
    pub(crate) name: &'static str,
    /// Its graphics core.
    pub(crate) gc: GcVersion,
    /// The same as user space is told: major * 10000 + minor * 100 + stepping.
    pub(crate) gfx_target_version: u32,
    /// Places of registers in its blocks.
    pub(crate) registers: Layout,
    /// Bytes of the BAR that has them.
    pub(crate) register_bytes: u64,
    /// Bits of a register's number that count in packets of a graphics core, which is the only one it can reach.
    pub(crate) packet_registers: u32,
    /// Fuses that tell which compute units are there.
    pub(crate) fuses: Fuses,
    /// Its graphics cores can be shared out (`CP_HYP_XCP_CTL`).
    pub(crate) partitions: bool,
    /// Memory that programs ask of the GPU is the machine's: an APU, which has a small part of that as VRAM.
    pub(crate) integrated: bool,
    /// Several of them can be a hive (`MC_VM_XGMI_LFB_CNTL`).
    pub(crate) has_xgmi: bool,
    /// Contents of MQDs.
    pub(crate) mqd: MqdManager,
    /// Micro engine of the kernel's own queues: the kernel interface queue, on pipe 1, and the scheduler's ring, on pipe 0.
    pub(crate) kernel_me: u32,
    /// Firmware that schedules.
    pub(crate) firmware: Firmware,
    /// Entries of page tables.
    pub(crate) pte: PteFormat,
    /// Meaning of the entries of the interrupt ring.
    pub(crate) interrupt: fn(&IhEntry) -> Interrupt,
    /// Doorbells that the kernel has, and those that no compute queue may have.
    pub(crate) doorbells: DoorbellLayout,
    /// Offset in the registers' BAR at which the page is put that flushes the host data path.
    pub(crate) hdp_remap: u64,
    /// Registers in which firmware says which process has a VMID.
    pub(crate) pasids: PasidTable,
    /// `VM_CONTEXTn_CNTL` of VMIDs of processes, where firmware sets nothing of them but the root of the page tables.
    pub(crate) vm_context: Option<u32>,
    /// First VMID of processes; they have all from there on.
    pub(crate) first_kfd_vmid: u32,
    /// Hardware queues of each compute pipe that the scheduler may use.
    pub(crate) compute_hqd_mask: u32,
    /// Queues of the SDMA engines that processes can have.
    pub(crate) sdma: SdmaLayout,
    /// Apertures of local and of scratch memory in a process's addresses.
    pub(crate) apertures: Apertures,
    /// `SH_MEM_CONFIG` of every VMID.
    pub(crate) sh_mem_config: u32,
    /// Retries of faults (XNACK), on chips whose waves wait for pages.
    pub(crate) retry: Option<Retry>,
    /// Registers that user space may read, by their places on Navi 31: of the first instance of their blocks.
    pub(crate) readable: &'static [Readable],
    /// SIMDs of a compute unit.
    pub(crate) simds_per_cu: u32,
    /// Compute queues of the hardware that user space is told of (`num_cp_queues`).
    pub(crate) cp_queues: u32,
    /// Sizes of a queue's context save area.
    pub(crate) save_area: fn(&Config) -> SaveArea,
    /// Caches that user space is told of.
    pub(crate) caches: fn(&Config, &Asic) -> Vec<Cache>,
    /// Body of ACQUIRE_MEM that makes all of memory be seen, code too.
    pub(crate) acquire_memory: &'static [u32],
    /// `TCP_WATCHn_CNTL` of a watch that is valid, by its mode and the bits of the address that count.
    pub(crate) watch_control: fn(mode: u32, mask: u32) -> u32,
    /// Capabilities that user space is told of beside those of all kinds (`HSA_CAP_*`).
    pub(crate) capability: u32,
    /// The driver's trap handler: at most a page of code.
    pub(crate) trap_handler: &'static [u8],
    /// Product that user space is told of.
    pub(crate) product: Product,
}

/// Form in which the fuses tell of compute units.
pub(crate) struct Fuses {
    /// Compute units of a bit of `CC_GC_SHADER_ARRAY_CONFIG`.
    pub(crate) cus: u32,
    /// Whole shader arrays may be off, which `CC_GC_SA_UNIT_DISABLE` tells.
    pub(crate) arrays: bool,
}

/// Registers that say which process has a VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasidTable {
    /// `IH_VMID_n_LUT`.
    InterruptHandler,
    /// `ATC_VMIDn_PASID_MAPPING`.
    AddressTranslation,
}

/// Firmware that schedules queues.
pub(crate) enum Firmware {
    /// The micro engine scheduler.
    Mes(MesFirmware),
    /// The hardware scheduler, which takes packets from the HIQ.
    Hiq(HiqPackets),
}

/// Packets of the hardware scheduler (`struct packet_manager_funcs`): each is added to those before.
pub(crate) struct HiqPackets {
    pub(crate) set_resources: fn(&mut Vec<u32>, vmids: u32, queues: u64),
    pub(crate) map_process: fn(&mut Vec<u32>, &RunProcess),
    pub(crate) map_queue: fn(&mut Vec<u32>, &QueueRequest),
    pub(crate) run_list: fn(&mut Vec<u32>, &RunList),
    /// Takes off all queues that are not static.
    pub(crate) unmap_all: fn(&mut Vec<u32>),
    /// Writes a value when all before is done.
    pub(crate) query_status: fn(&mut Vec<u32>, address: u64, value: u64),
}

/// The micro engine scheduler.
pub(crate) struct MesFirmware {
    pub(crate) frames: MesFrames,
    /// Set for firmware on both pipes of its micro engine: the second one maps the first one's ring. Otherwise the kernel interface queue
    /// does.
    pub(crate) on_both_pipes: bool,
}

/// Fills MQDs (`struct mqd_manager`): where several graphics cores run a queue, the one of each.
pub(crate) struct MqdManager {
    /// Bytes from the MQD of a graphics core to that of the next, of a compute queue.
    pub(crate) stride: fn(&Config) -> u32,
    /// Fills the MQD of a new queue, without what `update` writes (`init_mqd`).
    pub(crate) init: fn(&mut Image, &UserQueue<'_>) -> Result<()>,
    /// Fills what UPDATE_QUEUE may change (`update_mqd`).
    pub(crate) update: fn(&mut Image, &UserRing) -> Result<()>,
    /// Fills the MQD of a new SDMA queue, without what `update_sdma` writes.
    pub(crate) init_sdma: fn(&mut Image, &UserQueue<'_>, SdmaPlace) -> Result<()>,
    /// Fills what UPDATE_QUEUE may change of an SDMA queue.
    pub(crate) update_sdma: fn(&mut Image, &UserRing) -> Result<()>,
    /// Sets the compute units of each shader engine the queue may use.
    pub(crate) set_cus: fn(&mut Image, &[u32; 8]) -> Result<()>,
    /// Deals the bits of a CU mask out to the shader engines of a graphics core; `EINVAL` for a mask the chip cannot follow.
    pub(crate) spread_cu_mask: fn(&Config, &CuMask<'_>, xcc: u32) -> Result<[u32; 8]>,
    /// Sets whether waves enter the trap handler for traps and exceptions; for context saves they always do.
    pub(crate) set_takes_traps: fn(&mut Image, bool) -> Result<()>,
    /// Reads which part of the context save area is in use (`get_wave_state`).
    pub(crate) wave_state: fn(&mut Image) -> Result<ContextSaveAreaHeader>,
    /// Fills the MQD of a ring of the kernel's own.
    pub(crate) init_kernel: fn(&mut Image, &KernelRing) -> Result<()>,
}

/// A mask of compute units, of which this many bits count.
pub(crate) struct CuMask<'a> {
    pub(crate) bits: u32,
    pub(crate) words: &'a [u32],
}

/// Share of a queue that a graphics core with an MQD of its own runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Its number among them.
    pub(crate) number: u32,
    /// Number of all of them.
    pub(crate) count: u32,
    /// Number of the one that begins with the first workgroups.
    pub(crate) first: u32,
    /// Bytes from one's MQD to the next one's.
    pub(crate) stride: u32,
}

/// A new queue of a process.
pub(crate) struct UserQueue<'a> {
    /// GPU address of the MQD.
    pub(crate) mqd: u64,
    pub(crate) args: &'a CreateQueueArgs,
    pub(crate) doorbell: DoorbellIndex,
    pub(crate) share: Share,
}

/// The ring of a queue of a process.
pub(crate) struct UserRing {
    pub(crate) base: u64,
    /// Bytes, a power of two of at least 8.
    pub(crate) size: u32,
    pub(crate) priority: u32,
    /// Set for AQL packets, otherwise PM4 (`KFD_QUEUE_FORMAT_*`).
    pub(crate) aql: bool,
    /// The graphics core with this MQD reports the read pointer; there is one for each ring.
    pub(crate) leads: bool,
}

/// A ring of the kernel's own: GPU addresses in VMID 0, sizes in bytes.
pub(crate) struct KernelRing {
    pub(crate) mqd: u64,
    /// Bytes to the MQD of the next graphics core that runs the ring.
    pub(crate) mqd_stride: u32,
    /// The graphics core with this MQD reports the read pointer; there is one for each ring.
    pub(crate) leads: bool,
    pub(crate) base: u64,
    pub(crate) size: u32,
    pub(crate) rptr: u64,
    pub(crate) wptr: u64,
    pub(crate) eop: u64,
    pub(crate) eop_size: u32,
    pub(crate) doorbell: DoorbellIndex,
}

/// Fills frames of the micro engine scheduler, in the layout of version 11.
pub(crate) struct MesFrames {
    /// Brings a frame into the layout of the firmware.
    pub(crate) encode: fn(&[u8; FRAME_SIZE]) -> [u8; FRAME_SIZE],
    pub(crate) set_hw_resources: fn(&mut Frame, &HardwareResources),
    pub(crate) query_status: fn(&mut Frame),
    pub(crate) set_hw_resources_1: fn(&mut Frame),
    pub(crate) add_queue: fn(&mut Frame, &QueueRequest),
    /// Has firmware on both pipes map the scheduler's own ring.
    pub(crate) map_scheduler: fn(&mut Frame, &SchedulerRing),
    /// By the doorbell and the gang's context.
    pub(crate) remove_queue: fn(&mut Frame, doorbell: DoorbellIndex, gang: u64),
    pub(crate) set_shader_debugger: fn(&mut Frame, &ShaderDebugger),
    pub(crate) flush_shader_debugger: fn(&mut Frame, process_context: u64),
}

/// Form of page-table entries.
pub(crate) struct PteFormat {
    /// Bits of a page's entry, without its address.
    pub(crate) page: fn(PageRights) -> u64,
    /// Bits of the entry of a page that is not resident, without its address (`AMDGPU_VM_PAGE_PRT`).
    pub(crate) not_resident: u64,
    /// Added to those for a huge page above the last level.
    pub(crate) huge: u64,
    /// Bits of what leads to a table in VRAM, by the table's level: entries lead to those of levels 0 to 2, and to the one of
    /// level 3, the root, a register does.
    pub(crate) tables: [u64; LEVELS],
}

/// Levels of page tables.
pub(crate) const LEVELS: usize = 4;

impl PteFormat {
    /// Bits of a root.
    pub(crate) const fn root(&self) -> u64 {
        self.tables[LEVELS - 1]
    }
}

/// Rights of a page, and the memory that it is in.
#[derive(Clone, Copy)]
pub(crate) struct PageRights {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    /// Set for system memory.
    pub(crate) system: bool,
    /// Caches of the GPU do not keep it.
    pub(crate) uncached: bool,
}

/// Meaning of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// A signal's event, by the bits of its number that the entry has.
    Signal(u32),
    /// A message of a wave in its trap handler: exceptions of the queue with a doorbell, or a signal's event; the context word.
    HandlerMessage(u32),
    /// A wave stopped because of an error; the context word says which.
    ShaderError(u32),
    /// A wave or an SDMA engine has read memory with an error that cannot be corrected.
    Poison,
    /// A packet was refused; the context word has doorbell and code.
    BadPacket(u32),
    /// An access of the GPU did not translate.
    PageFault { page: u64, not_present: bool, write: bool },
    /// A wave waits for a page, of which the filter has told by the entry with this number.
    PageRetry { page: u64, told: u32 },
    /// There is something in interrupt ring 1.
    RingOne,
    /// Something there is nothing to do about.
    Quiet,
    /// Nothing the driver knows.
    Unknown,
}

/// Faults that are retried until the page is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// Bits of `SH_MEM_CONFIG` of a process that is told of faults at once.
    pub(crate) disable: u32,
    /// Entry of a page at which waves are not to wait (`AMDGPU_VM_NORETRY_FLAGS_TF`).
    pub(crate) refused: u64,
}

/// Doorbells, in 64-bit ones from the start of their slice.
pub(crate) struct DoorbellLayout {
    /// The kernel interface queue, in the kernel's slice.
    pub(crate) kiq: DoorbellIndex,
    /// Distance of that of the next graphics core.
    pub(crate) kiq_stride: u32,
    /// The scheduler's ring, in the kernel's slice.
    pub(crate) scheduler: DoorbellIndex,
    /// First and last that are not for compute queues, in every half of every slice.
    pub(crate) not_compute: (u32, u32),
}

/// Queues of the SDMA engines, and where their doorbells are in the slice of a process.
pub(crate) struct SdmaLayout {
    /// Major and minor IP version.
    pub(crate) version: (u32, u32),
    /// Most engines.
    pub(crate) engines: u32,
    /// Engines for transfers over PCIe, the first ones; the others are for links between GPUs (XGMI).
    pub(crate) pcie_engines: u32,
    /// Hardware queues of each engine that the scheduler may use.
    pub(crate) hqd_mask: u32,
    /// First doorbell of the first engine, in 64-bit ones from the start of a slice, and those of an engine.
    pub(crate) first_doorbell: u32,
    pub(crate) doorbells: u32,
}

impl SdmaLayout {
    /// Queues of an engine that processes can have.
    pub(crate) const fn queues_per_engine(&self) -> u32 {
        self.hqd_mask.count_ones()
    }

    /// Number of a queue's doorbell in the slice of its process (`allocate_doorbell`).
    pub(crate) fn doorbell(&self, place: SdmaPlace) -> Result<u32> {
        if place.engine >= self.engines {
            return Err(Errno::EINVAL);
        }
        let first = self.first_doorbell + place.engine * self.doorbells;
        Ok(first + (place.queue & 1) * MIRROR_OFFSET + (place.queue >> 1))
    }
}

/// Bases of the apertures of a process.
pub(crate) struct Apertures {
    /// Local data share.
    pub(crate) lds: u64,
    /// Scratch memory.
    pub(crate) scratch: u64,
}

impl Apertures {
    /// `SH_MEM_BASES`: shared (LDS) aperture in the upper half, private (scratch) in the lower.
    pub(crate) const fn sh_mem_bases(&self) -> u32 {
        ((self.lds >> 48) << 16 | self.scratch >> 48) as u32
    }
}

/// Sizes of a queue's context save area (`kfd_queue_ctx_save_restore_size`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    pub(crate) ctl_stack_size: u32,
    pub(crate) cwsr_size: u32,
    pub(crate) debug_memory_size: u32,
    /// Graphics cores, each of which has as much.
    pub(crate) copies: u32,
}

impl SaveArea {
    /// Bytes of the whole area, of which the state of each graphics core takes `cwsr_size`.
    pub(crate) fn total(&self, cwsr_size: u32) -> u64 {
        let each = u64::from(cwsr_size) + u64::from(self.debug_memory_size);
        (each * u64::from(self.copies)).next_multiple_of(PAGE_SIZE)
    }
}

/// One cache of the GPU.
pub(crate) struct Cache {
    pub(crate) level: u32,
    pub(crate) kib: u32,
    pub(crate) kind: u32,
    /// SIMDs that use it, and the first of them.
    pub(crate) simds: u32,
    pub(crate) first_simd: u32,
}

/// Properties of a card beside those in its tables.
pub(crate) struct Product {
    /// Family of chips (`AMDGPU_FAMILY_*`).
    pub(crate) family: u32,
    /// Number that tells it from others of its family (`external_rev_id`): its place among them and its revision, which is 0.
    pub(crate) external_rev: u32,
    /// Versions of the compute firmware and of the SDMA firmware.
    pub(crate) fw_version: u32,
    pub(crate) sdma_fw_version: u32,
    /// MHz of the shader clock and of the memory.
    pub(crate) max_engine_clock: u32,
    pub(crate) max_memory_clock: u32,
    /// Kind of the memory (`AMDGPU_VRAM_TYPE_*`), and bits of its bus.
    pub(crate) memory_type: u32,
    pub(crate) memory_width: u32,
    /// Bits of the debugger's properties (`debug_prop`).
    pub(crate) debug_prop: u32,
}

/// Every kind the driver knows.
const ASICS: &[&Asic] =
    &[&gfx11::GFX1100, &gfx9::GFX942, &gfx12::GFX1201, &gfx11_5::GFX1151, &gfx9_5::GFX950];

/// Finds the kind with a graphics core of this version, if the driver knows it.
pub(crate) fn find(gc: GcVersion) -> Option<&'static Asic> {
    ASICS.iter().find(|asic| asic.gc == gc).copied()
}

/// The versions the driver knows, for a log line.
pub(crate) struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Asic { gc: (major, minor, revision), name, .. }) in ASICS.iter().enumerate() {
            write!(f, "{}{major}.{minor}.{revision} ({name})", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The kind that tests take which are about no GPU in particular.
#[cfg(test)]
pub(crate) const ANY: &Asic = &gfx11::GFX1100;
