//! Differences between chips: the constants of a chip live nowhere else.
//!
//! A configuration names a [`Model`]. A [`Chip`] is a model with its number of compute units: identity, IP
//! blocks and the places of their registers. The common parts of one generation's chips are in a
//! [`Generation`], a static of plain tables and codecs. Code that needs a part of it is given that part once,
//! and looks nothing up per instruction or per access.

mod bar;
mod card;
mod firmware;
pub mod gfx1100;
pub mod gfx1151;
pub mod gfx1201;
pub mod gfx942;
pub mod gfx950;
mod instinct;
mod interrupts;
mod kernel;
mod model;
mod mqd;
mod navi;
mod pm4;
mod pte;
mod sdma;
mod shader;
mod xcc;

use std::fmt::Debug;

use belfry_abi::regs::layout::Layout;
use belfry_abi::regs::{Ip, Offset};
use belfry_isa::inst::Arch;

pub use bar::RegisterBar;
pub use belfry_pci::Identity;
pub use card::Card;
pub use firmware::{Firmware, Firmwares, HwsFirmware, MesFirmware, MesFrames, SmuFirmware};
pub use instinct::Instinct;
pub use interrupts::{InterruptFormat, Origin, PageFault, SqInterrupt};
pub use kernel::{DescriptorError, KernelRules};
pub use model::{DEFAULT, MODELS, Model, Shape, UnknownChip};
pub use mqd::{MqdLayout, XccFields};
pub use navi::Navi;
pub use pm4::Pm4Packets;
pub use pte::{Entry, Page, PteFormat, Table};
pub use sdma::{SdmaMqdForm, SdmaPackets, SdmaRules};
pub use shader::{CuMask, MAX_ENGINES, QueuePlace, ShaderRules, StackForm, TmpRing, WavePlace};
pub(crate) use shader::{MAX_CUS, MAX_SIMDS};
pub use xcc::XccShares;

/// Layout of the compute units: graphics cores (XCCs) that are alike, each with the same number of
/// processors. A processor is a work group processor, or a compute unit on chips without work group
/// processors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Topology {
    /// Graphics cores.
    pub xccs: u32,
    /// Shader engines of a core.
    pub shader_engines: u32,
    /// Shader arrays per engine.
    pub arrays_per_engine: u32,
    /// Processors per array the chip is built with; some may be fused off.
    pub wgps_per_array: u32,
    /// Processors of a core that work.
    pub wgps: u32,
}

impl Topology {
    /// Processors that work in one array, counted over all engines of a core.
    #[must_use]
    pub fn active_wgps(&self, array: u32) -> u32 {
        let arrays = self.shader_engines * self.arrays_per_engine;
        if array >= arrays {
            return 0;
        }
        self.wgps / arrays + u32::from(array < self.wgps % arrays)
    }
}

/// One instance of an IP block, as the IP discovery table declares it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IpBlock {
    /// Kind.
    pub ip: Ip,
    /// Number of the block among those of its kind.
    pub instance: u8,
    /// IP version: major, minor, revision.
    pub version: [u8; 3],
    /// First dwords of the segments of its registers.
    pub bases: &'static [u32],
    /// True if it is fused off: declared, and named in the harvest table.
    pub harvested: bool,
}

impl IpBlock {
    /// The first of its kind, which works.
    const fn new(ip: Ip, version: [u8; 3], bases: &'static [u32]) -> Self {
        Self { ip, instance: 0, version, bases, harvested: false }
    }

    /// Another one of the kind.
    const fn instance(self, instance: u8, bases: &'static [u32]) -> Self {
        Self { instance, bases, ..self }
    }
}

/// Registers that packets of user queues reach beside those of their own dispatches, as absolute dword indices.
#[derive(Clone, Debug)]
pub struct UserRegisters {
    /// `GPU_HDP_FLUSH_REQ`.
    pub hdp_flush_req: u32,
    /// `GPU_HDP_FLUSH_DONE`.
    pub hdp_flush_done: u32,
    /// `SQ_THREAD_TRACE_USERDATA_0` and those that follow.
    pub thread_trace_userdata: std::ops::RangeInclusive<u32>,
}

/// The common parts of all chips of one generation, except for the places of their registers.
#[derive(Debug)]
pub struct Generation {
    /// Instruction set of the compute units.
    pub arch: Arch,
    /// Firmware, in the order in which it is served.
    pub firmware: Firmwares,
    /// Firmware of the system management unit; `None` if its messages have no model.
    pub smu: Option<SmuFirmware>,
    /// Sizes of a compute unit, and how its waves start.
    pub shader: ShaderRules,
    /// Limits of kernel descriptors.
    pub kernel: KernelRules,
    /// Speed of a card of it.
    pub card: Card,
    /// Places of a queue's state in its MQD.
    pub mqd: MqdLayout,
    /// Packets that the command processor takes.
    pub pm4: Pm4Packets,
    /// Packets and MQDs that SDMA engines take.
    pub sdma: SdmaRules,
    /// Registers that packets of user queues reach.
    pub user_registers: UserRegisters,
    /// Entries of page tables.
    pub pte: PteFormat,
    /// Entries of the interrupt ring.
    pub interrupts: InterruptFormat,
    /// The BAR of the registers.
    pub register_bar: RegisterBar,
    /// Returns the index of a register of packets on a graphics core: packets name all registers as those of
    /// the first core.
    pub local_register: fn(index: u32, xcc: u8) -> u32,
    /// Values after reset, of registers of the graphics core that differ from Navi 31.
    pub resets: &'static [(Offset, u32)],
}

/// One chip: identity, static tables, and the constants its registers read as.
pub trait Chip: Debug + Send + Sync {
    /// PCI identity.
    fn identity(&self) -> Identity;

    /// Layout of the compute units.
    fn topology(&self) -> Topology;

    /// Every IP block.
    fn ips(&self) -> &[IpBlock];

    /// SDMA engines.
    fn sdma_engines(&self) -> u8 {
        2
    }

    /// Places of registers in the blocks.
    fn registers(&self) -> Layout;

    /// Absolute dword index of a register in the register BAR; `None` if the chip has no such block or segment.
    fn dword(&self, ip: Ip, instance: u8, at: Offset) -> Option<u32> {
        let at = self.registers().place(ip, at);
        let block = self.ips().iter().find(|block| block.ip == ip && block.instance == instance)?;
        block.bases.get(usize::from(at.segment))?.checked_add(at.dword)
    }

    /// Published name of the register at an absolute dword index.
    fn register_name(&self, dword: u32) -> Option<&'static str>;

    /// The IP discovery table, to be placed at the top of VRAM.
    fn discovery(&self) -> Vec<u8>;

    /// The VBIOS, as the ROM of a card holds it; `None` if there is none for the chip.
    fn vbios(&self) -> Option<Vec<u8>> {
        None
    }

    /// Bytes from the end of VRAM to the start of the discovery table.
    fn discovery_offset(&self) -> u64;

    /// First byte of the frame buffer in VMID 0, as the card's own firmware leaves it.
    fn fb_base(&self) -> u64;
}
