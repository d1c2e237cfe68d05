//! Injected faults of an AQL queue.

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType};

use super::AqlQueue;
use super::trace::aql_kind;
use crate::cp::kernel_name::KernelNames;
use crate::faults::{Hook, Place, Rule};

impl AqlQueue {
    pub(super) fn kernel_name(&self, kernel_object: u64) -> String {
        KernelNames::default().get(self.state.space(), kernel_object).to_owned()
    }

    /// Decides if the queue hangs at the next packet. It decides once for each packet.
    pub(super) fn strikes(&mut self, header: PacketHeader, packet: &[u32; 16]) -> bool {
        if self.decided > self.fetch_index {
            return false;
        }
        self.decided = self.fetch_index.wrapping_add(1);
        let is_dispatch = header.packet_type() == PacketType::KERNEL_DISPATCH;
        let object = super::parse::<KernelDispatchPacket>(packet).map_or(0, |packet| packet.kernel_object);
        let kernel = || self.kernel_name(object);
        let kind = aql_kind(header, packet[0]);
        let kernel: Option<&dyn Fn() -> String> = if is_dispatch { Some(&kernel) } else { None };
        self.hangs = self.faults.meets(Hook::Packet, || self.place(kind, kernel)).is_some();
        self.hangs
    }

    /// Decides if the first wave of a dispatch hangs.
    pub(super) fn wave_hangs(&self, kernel_object: u64) -> bool {
        let kernel = || self.kernel_name(kernel_object);
        let struck = self.faults.meets(Hook::Dispatch, || self.place("dispatch", Some(&kernel)));
        struck.is_some_and(|struck| struck.rule == Rule::WaveHang)
    }

    fn place<'a>(&self, what: &'a str, kernel: Option<&'a dyn Fn() -> String>) -> Place<'a> {
        let identity = &self.config.identity;
        Place {
            what,
            doorbell: Some(identity.doorbell.dwords()),
            pasid: Some(identity.pasid),
            address: None,
            kernel,
        }
    }

    /// Completes dispatches whose signals were held back: those that are due, or all of them.
    pub(super) fn complete_late(&self, all: bool) {
        for dispatch in self.started.iter().flatten() {
            dispatch.complete_late(all);
        }
    }
}
