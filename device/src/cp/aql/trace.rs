//! What an AQL queue records of its packets.

use belfry_abi::aql::{AmdFormat, PacketHeader, PacketType};

use super::AqlQueue;
use crate::cp::kernel_name::KernelNames;
use crate::trace::{Job, JobScope, TraceEvent};

/// What a queue remembers for the trace; nothing of it is part of a saved state.
#[derive(Default)]
pub(super) struct Traced {
    /// Behind the last packet that was recorded.
    next: u64,
    kernels: KernelNames,
}

impl AqlQueue {
    /// Records a dispatch, and what its kernel is called.
    pub(super) fn trace_dispatch(&mut self, kernel_object: u64, grid: [u32; 3], workgroup: [u32; 3]) {
        if self.state.tracer().is_on() {
            let name = self.traced.kernels.get(self.state.space(), kernel_object);
            self.state.trace(TraceEvent::DispatchStart { kernel_object, grid, workgroup, name });
        }
    }

    /// Records a packet when it is looked at first; what follows belongs to it.
    pub(super) fn trace_packet(&mut self, header: PacketHeader, first: u32) -> JobScope {
        let tracer = self.state.tracer();
        if !tracer.is_on() {
            return tracer.scope(Job::NONE);
        }
        let scope = tracer.scope(tracer.job(self.config.identity.doorbell, self.fetch_index));
        if self.traced.next <= self.fetch_index {
            self.traced.next = self.fetch_index.wrapping_add(1);
            let kind = match (header.packet_type(), AmdFormat((first >> 16) as u8)) {
                (PacketType::KERNEL_DISPATCH, _) => "KERNEL_DISPATCH",
                (PacketType::BARRIER_AND, _) => "BARRIER_AND",
                (PacketType::BARRIER_OR, _) => "BARRIER_OR",
                (PacketType::VENDOR_SPECIFIC, AmdFormat::PM4_IB) => "PM4_IB",
                (PacketType::VENDOR_SPECIFIC, AmdFormat::BARRIER_VALUE) => "BARRIER_VALUE",
                _ => "unknown",
            };
            self.state.trace(TraceEvent::Packet { kind, index: self.fetch_index });
        }
        scope
    }
}
