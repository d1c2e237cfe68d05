//! The sanitizer's checks of a queue: of its MQD while it is mapped, and of the memory that it leaves when it is
//! removed.

use super::{Life, Queue};
use crate::firmware::Ports;
use crate::moments::Moment;
use crate::sanitize::{Misuse, Removed, Rule};
use crate::trace::{Engine, Owner};
use crate::vm::AddressSpace;

/// Bytes of an MQD that are compared: all of a compute queue's, the registers of an SDMA queue's.
const COMPUTE_BYTES: usize = 2048;
const SDMA_BYTES: usize = 512;

/// A queue's MQD as it was when the queue was mapped.
#[derive(Debug)]
pub(super) struct Noted {
    pasid: u32,
    mqd: Vec<u8>,
}

impl Queue {
    fn mqd_bytes(&self, kernel: &AddressSpace) -> Option<Vec<u8>> {
        let mut bytes = vec![0; if self.pool.is_compute() { COMPUTE_BYTES } else { SDMA_BYTES }];
        kernel.read_bytes(self.mqd, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Notes that the queue is mapped now, for this process.
    pub(super) fn note_mapped(&mut self, ports: &Ports, kernel: &AddressSpace, pasid: u16) {
        self.noted = None;
        if ports.tools.checks(Rule::MqdChanged) {
            let noted = |mqd| Box::new(Noted { pasid: pasid.into(), mqd });
            self.noted = self.mqd_bytes(kernel).map(noted);
        }
    }

    /// Checks the MQD before the queue is written to it.
    pub(super) fn check_unmapped(&mut self, ports: &Ports, kernel: Option<&AddressSpace>) {
        let Some(noted) = self.noted.take() else { return };
        let Some(now) = kernel.and_then(|kernel| self.mqd_bytes(kernel)) else { return };
        let Some(at) = noted.mqd.chunks(4).zip(now.chunks(4)).position(|(before, now)| before != now) else {
            return;
        };
        let dword = |bytes: &[u8]| {
            bytes[at * 4..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes))
        };
        let found = format!("dword {at} is {:#x}, and was {:#x}", dword(&now), dword(&noted.mqd));
        let misuse = Misuse::new(Rule::MqdChanged, found).of(noted.pasid, self.doorbell.dwords());
        ports.tools.misused(misuse.at(self.mqd.wrapping_add(at as u64 * 4)));
    }

    /// Tells the tools that the queue is added.
    pub(in crate::firmware::slots) fn tell_added(&self, ports: &Ports) {
        let read_index = match &self.life {
            Life::Unmapped { rest, .. } => Some(rest.read_index),
            _ => None,
        };
        ports.tell(Moment::QueueAdded { doorbell: self.doorbell, mqd: self.mqd, read_index });
    }

    /// Notes that the queue has been taken off its slot and is removed; `pointer` is the space that its write pointer
    /// is in.
    pub(in crate::firmware::slots) fn check_removed(
        &self,
        ports: &Ports,
        pasid: u16,
        pointer: Option<&AddressSpace>,
    ) {
        let Life::Unmapped { rest, .. } = &self.life else { return };
        let at = self.wptr.address;
        let written = pointer.filter(|_| at != 0).and_then(|space| space.load_u64(at).ok());
        let left = written.map_or(0, |written| written.saturating_sub(rest.read_index));
        let found = match (left, rest.saved) {
            (0, false) => return,
            (0, true) => "waves are in its context save area".to_owned(),
            (left, saved) => {
                let unit = if self.pool.is_compute() { "of its ring" } else { "bytes of its ring" };
                let waves = if saved { ", and waves are in its context save area" } else { "" };
                format!("{left} {unit} are left{waves}")
            }
        };
        let (mqd, doorbell, read_index) = (self.mqd, self.doorbell.dwords(), rest.read_index);
        let owner = Owner { pasid: pasid.into(), ..Owner::queue(Engine::Firmware, doorbell) };
        let removed = Removed { mqd, doorbell, read_index, found };
        ports.tools.tell(|| Moment::QueueRemoved(&removed).of(owner));
    }
}
