//! Trace events of the packets of an AQL queue.

use belfry_abi::aql::{AmdFormat, KernelDispatchPacket, PacketHeader, PacketType};

use super::AqlQueue;
use crate::cp::kernel_name::{KernelNames, name_for_probes};
use crate::shader::Launch;
use crate::trace::{Job, JobScope, TraceEvent};

/// State that a queue keeps for the trace; it is not part of a saved state.
#[derive(Default)]
pub(super) struct Traced {
    /// Index after the last packet that was recorded.
    next: u64,
    kernels: KernelNames,
    /// Packet in front of which a tool has looked for code already, for breakpoints at source lines.
    looked: Option<u64>,
}

/// Returns the name of an AQL packet.
pub(crate) fn aql_kind(header: PacketHeader, first: u32) -> &'static str {
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
    /// Returns true if a packet has to stay where it is because the device is halted in front of it.
    pub(super) fn keeps(&mut self, header: PacketHeader, packet: &[u32; 16]) -> bool {
        let (doorbell, index) = (self.config.identity.doorbell.dwords(), self.fetch_index);
        let dispatches = header.packet_type() == PacketType::KERNEL_DISPATCH;
        if self.shader.stops().wants_looks() && dispatches && self.traced.looked != Some(index) {
            if !self.shader.stops().looked_before((doorbell, index)) {
                return true;
            }
            self.traced.looked = Some(index);
        }
        let place = (doorbell, index, 0);
        let kernel = || match super::parse::<KernelDispatchPacket>(packet) {
            Ok(packet) if dispatches => self.kernel_name(packet.kernel_object),
            _ => String::new(),
        };
        self.shader.stops().keeps_packet(place, || ("", aql_kind(header, packet[0])), kernel)
    }

    /// Records a dispatch and its kernel's name.
    pub(super) fn tell_of_dispatch(&mut self, kernel_object: u64, launch: &Launch) {
        let (grid, workgroup) = (launch.grid, launch.workgroup);
        name_for_probes(&self.shader, self.state.space(), launch.entry);
        if self.state.tracer().is_on() {
            let name = self.traced.kernels.get(self.state.space(), kernel_object);
            self.state.trace(TraceEvent::DispatchStart { kernel_object, grid, workgroup, name });
        }
    }

    /// Records a packet when it is first looked at; later events belong to it.
    pub(super) fn trace_packet(&mut self, header: PacketHeader, first: u32) -> JobScope {
        let tracer = self.state.tracer();
        if !tracer.is_on() {
            return tracer.scope(Job::NONE);
        }
        let scope = tracer.scope(tracer.job(self.config.identity.doorbell, self.fetch_index));
        if self.traced.next <= self.fetch_index {
            self.traced.next = self.fetch_index.wrapping_add(1);
            let kind = aql_kind(header, first);
            self.state.trace(TraceEvent::Packet { kind, index: self.fetch_index });
        }
        scope
    }
}
