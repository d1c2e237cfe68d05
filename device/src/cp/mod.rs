//! The command processor's queues: packets in, dispatches out.
//!
//! The firmware that maps queues calls [`AqlQueue::service`] or [`Pm4Queue::service`] for every mapped queue that may
//! have work. It consumes packets from the ring until none is ready or the next one must wait, hands dispatches to the
//! [`ShaderEngine`](crate::shader::ShaderEngine) and returns. Dispatches complete on the engine's threads: they write
//! the completion signal, raise the interrupt and wake the device thread.

mod aql;
mod barrier;
mod complete;
mod context;
mod control_stack;
mod dispatch;
pub mod env;
mod error;
mod indirect;
mod kernel_name;
mod pm4;
mod preempted;
mod state;

pub use crate::pm4::Error as Pm4Error;
pub(crate) use aql::SavedAql;
pub use aql::moments::aql_kind;
pub use aql::{AqlQueue, MAX_IN_FLIGHT};
pub use env::{CpEnv, CpInterrupts, KernelReach};
pub use error::{Cause, KernelError, QueueError};
pub(crate) use indirect::{Execution, Packet};
use kernel_name::name_for_probes;
pub use kernel_name::{KernelNames, kernel_at, kernels_beside};
pub(crate) use pm4::SavedPm4;
pub use pm4::{Pm4Config, Pm4Queue};

use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;

use crate::chip::{CuMask, XccShares};
use crate::queue::QueueIdentity;

/// Most scratch slots of a queue; more waves than this are never resident.
const MAX_SCRATCH_SLOTS: u64 = 1 << 16;

/// Registers of the HQD that an AQL queue runs from.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct AqlConfig {
    /// Identity of the queue in interrupts.
    pub identity: QueueIdentity,
    /// Address of the ring, `CP_HQD_PQ_BASE << 8`.
    pub ring_base: u64,
    /// 64-byte packets in the ring, a power of two.
    pub ring_packets: u64,
    /// `CP_HQD_PQ_RPTR_REPORT_ADDR`: address to which the read index is written; the `amd_queue_t` is found from it.
    pub rptr_report: u64,
    /// `CP_HQD_PQ_WPTR_POLL_ADDR`: address of the 64-bit count of packets that producers have reserved.
    pub wptr_poll: u64,
    /// First packet to read, `CP_HQD_PQ_RPTR`; 0 for a new queue.
    pub read_index: u64,
    /// `SH_MEM_BASES` of the VMID.
    pub apertures: Apertures,
    /// `SQ_SHADER_TBA` and `SQ_SHADER_TMA` of the process; `None` without a trap handler.
    pub trap: Option<TrapHandler>,
    /// `COMPUTE_STATIC_THREAD_MGMT_SE0` and the registers after it, from the MQD.
    pub cus: CuMask,
    /// Rule by which workgroups are dealt to graphics cores; `None` on a chip with one core.
    pub shares: Option<XccShares>,
}

impl AqlConfig {
    /// Returns the place of a packet in the ring, in packets.
    fn place(&self, index: u64) -> u64 {
        let packets = self.ring_packets.max(1);
        // A division takes long, and only a snapshot may have a number that is no power of two.
        if packets.is_power_of_two() { index & (packets - 1) } else { index % packets }
    }
}
