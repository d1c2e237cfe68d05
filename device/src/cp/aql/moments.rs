//! The moments of an AQL queue that tools look at, or change.

use belfry_abi::aql::{AmdFormat, KernelDispatchPacket, PacketHeader, PacketType};

use super::AqlQueue;
use crate::cp::kernel_name::{KernelNames, kernel_of, name_for_probes};
use crate::moments::{self, Met, Moment, Stream, Verdict};
use crate::shader::Launch;
use crate::trace::JobScope;

/// State that a queue keeps for tools; it is not part of a saved state.
#[derive(Default)]
pub(super) struct Watched {
    met: Met,
    kernels: KernelNames,
    /// Packets as the sanitizer remembers them.
    pub(super) rung: super::check::Rung,
}

/// Returns the name of an AQL packet.
pub fn aql_kind(header: PacketHeader, first: u32) -> &'static str {
    match (header.packet_type(), AmdFormat((first >> 16) as u8)) {
        (PacketType::INVALID, _) => "INVALID",
        (PacketType::KERNEL_DISPATCH, _) => "KERNEL_DISPATCH",
        (PacketType::BARRIER_AND, _) => "BARRIER_AND",
        (PacketType::BARRIER_OR, _) => "BARRIER_OR",
        (PacketType::AGENT_DISPATCH, _) => "AGENT_DISPATCH",
        (PacketType::VENDOR_SPECIFIC, AmdFormat::PM4_IB) => "PM4_IB",
        (PacketType::VENDOR_SPECIFIC, AmdFormat::BARRIER_VALUE) => "BARRIER_VALUE",
        _ => "unknown",
    }
}

impl AqlQueue {
    /// Tells the tools of the next packet; later moments belong to it.
    ///
    /// # Errors
    ///
    /// [`Verdict::Halt`] if the packet has to stay where it is, [`Verdict::Hang`] if the queue stays there for good.
    #[inline(always)]
    pub(super) fn meet(&mut self, header: PacketHeader, packet: &[u32; 16]) -> Result<JobScope, Verdict> {
        if self.state.tools.hear() { self.meet_packet(header, packet) } else { Ok(JobScope::nothing()) }
    }

    #[cold]
    fn meet_packet(&mut self, header: PacketHeader, packet: &[u32; 16]) -> Result<JobScope, Verdict> {
        let object = super::parse::<KernelDispatchPacket>(packet).map_or(0, |packet| packet.kernel_object);
        let space = self.state.space();
        let kernel = || kernel_of(space, object);
        let dispatches = header.packet_type() == PacketType::KERNEL_DISPATCH;
        let next = moments::Packet {
            stream: Stream::Aql,
            owner: self.state.owner(),
            kind: aql_kind(header, packet[0]),
            index: self.fetch_index,
            inner: None,
            kernel: if dispatches { Some(&kernel) } else { None },
        };
        let scope = self.state.tools.packet(&mut self.watched.met, &next)?;
        self.check_packet(packet);
        Ok(scope)
    }

    /// Tells the tools of a dispatch before it is handed to the compute units. Returns true if its first wave hangs.
    pub(super) fn wave_hangs(&self, kernel_object: u64) -> bool {
        let kernel = || kernel_of(self.state.space(), kernel_object);
        self.state.at(Moment::Dispatch { kernel: &kernel }) == Verdict::Hang
    }

    /// Tells the tools of a dispatch with its kernel's name.
    pub(super) fn tell_of_dispatch(&mut self, kernel_object: u64, launch: &Launch) {
        let (grid, workgroup) = (launch.grid, launch.workgroup);
        name_for_probes(&self.state.tools, self.shader.chip(), self.state.space(), launch.entry);
        if self.state.tools.is_traced() {
            let name = self.watched.kernels.get(self.state.space(), kernel_object);
            self.state.tell(Moment::Launch { kernel_object, grid, workgroup, name });
        }
    }

    /// Completes dispatches whose signals were held back: those that are due, or all of them.
    pub(super) fn complete_late(&self, all: bool) {
        for dispatch in self.started.iter().flatten() {
            dispatch.complete_late(all);
        }
    }
}
