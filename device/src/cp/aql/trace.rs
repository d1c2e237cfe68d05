//! What an AQL queue records of its packets.

use belfry_abi::aql::{AmdFormat, PacketHeader, PacketType};

use super::AqlQueue;
use crate::trace::{Job, JobScope, TraceEvent};

impl AqlQueue {
    /// Records a packet when it is looked at first; what follows belongs to it.
    pub(super) fn trace_packet(&mut self, header: PacketHeader, first: u32) -> JobScope {
        let tracer = self.state.tracer();
        if !tracer.is_on() {
            return tracer.scope(Job::NONE);
        }
        let scope = tracer.scope(tracer.job(self.config.identity.doorbell, self.fetch_index));
        if self.traced <= self.fetch_index {
            self.traced = self.fetch_index.wrapping_add(1);
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
