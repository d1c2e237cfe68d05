//! The MSI-X table and pending bits of a function made here (PCI Local Bus 3.0 section 6.8.2).

use std::sync::Arc;

use super::config::InterruptControl;
use super::message::{Interrupts, Message};

/// Bytes of an entry: address, data, control.
pub(in crate::kvm) const ENTRY: u64 = 16;
const CONTROL: usize = 12;
const MASKED: u8 = 1;
/// Vectors a function may have: bits of one quadword of pending bits.
pub(in crate::kvm) const VECTORS: u16 = 64;

/// Table, pending bits, and where messages go.
#[derive(Debug)]
pub(in crate::kvm) struct Msix {
    table: Vec<u8>,
    pending: u64,
    control: InterruptControl,
    /// What the interrupts are routed to: of a vector that is masked, what it was when it last was not.
    routed: Vec<Option<Message>>,
    interrupts: Arc<dyn Interrupts>,
}

impl Msix {
    /// A table of `count` vectors (at most [`VECTORS`]), all masked.
    pub(in crate::kvm) fn new(count: u16, interrupts: Arc<dyn Interrupts>) -> Self {
        let count = usize::from(count.min(VECTORS));
        let mut table = vec![0; count * ENTRY as usize];
        for entry in table.chunks_exact_mut(ENTRY as usize) {
            entry[CONTROL] = MASKED;
        }
        Self {
            table,
            pending: 0,
            control: InterruptControl::default(),
            routed: vec![None; count],
            interrupts,
        }
    }

    /// Whether messages, and not the pin, carry the interrupts.
    pub(in crate::kvm) fn enabled(&self) -> bool {
        self.control.msix_enabled
    }

    pub(in crate::kvm) fn vectors(&self) -> u16 {
        self.routed.len() as u16
    }

    /// Takes the state of the capability after a write to it.
    pub(in crate::kvm) fn set_control(&mut self, control: InterruptControl) {
        if control != self.control {
            self.control = control;
            self.update();
        }
    }

    /// Reads the table; what is behind it reads 0.
    pub(in crate::kvm) fn read_table(&self, offset: u64, data: &mut [u8]) {
        read(&self.table, offset, data);
    }

    /// Reads the pending bits; what is behind them reads 0.
    pub(in crate::kvm) fn read_pending(&self, offset: u64, data: &mut [u8]) {
        read(&self.pending.to_le_bytes(), offset, data);
    }

    /// Writes the table; what is behind it takes no writes, and neither do pending bits.
    pub(in crate::kvm) fn write_table(&mut self, offset: u64, data: &[u8]) {
        for (at, &byte) in (offset as usize..).zip(data) {
            let Some(target) = self.table.get_mut(at) else { break };
            // The control word has one bit.
            *target = match at % ENTRY as usize {
                CONTROL => byte & MASKED,
                0 => byte & !3,
                at if at > CONTROL => 0,
                _ => byte,
            };
        }
        self.update();
    }

    /// Raises a vector, or marks it as pending while it is masked.
    pub(in crate::kvm) fn raise(&mut self, vector: u16) {
        if vector >= self.vectors() || !self.control.msix_enabled {
            return;
        }
        if self.live(vector) {
            self.interrupts.raise(vector);
        } else {
            self.pending |= 1 << vector;
        }
    }

    /// Forgets what is pending.
    pub(in crate::kvm) fn clear_pending(&mut self) {
        self.pending = 0;
    }

    fn live(&self, vector: u16) -> bool {
        let entry = self.table.get(usize::from(vector) * ENTRY as usize..);
        self.control.msix_enabled
            && !self.control.msix_masked
            && entry.and_then(|entry| entry.get(CONTROL)).is_some_and(|control| control & MASKED == 0)
    }

    fn message(&self, vector: u16) -> Option<Message> {
        let entry = self.table.chunks_exact(ENTRY as usize).nth(usize::from(vector))?;
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        Some(Message { address: u64::from(word(4)) << 32 | u64::from(word(0)), data: word(8) })
    }

    /// Routes the vectors that are not masked, and lets their pending interrupts out.
    fn update(&mut self) {
        let live: Vec<u16> = (0..self.vectors()).filter(|&vector| self.live(vector)).collect();
        let before = self.routed.clone();
        for &vector in &live {
            self.routed[usize::from(vector)] = self.message(vector);
        }
        if self.routed != before {
            self.interrupts.route(&self.routed);
        }
        for vector in live {
            if self.pending >> vector & 1 == 1 {
                self.pending &= !(1 << vector);
                self.interrupts.raise(vector);
            }
        }
    }
}

fn read(bytes: &[u8], offset: u64, data: &mut [u8]) {
    for (at, byte) in (offset as usize..).zip(data) {
        *byte = bytes.get(at).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvm::interrupts::Recorder;

    const ENABLED: InterruptControl =
        InterruptControl { msix_enabled: true, msix_masked: false, intx_disabled: false };

    fn message(msix: &mut Msix, vector: u64, message: Message, control: u32) {
        msix.write_table(vector * ENTRY, &message.address.to_le_bytes());
        msix.write_table(vector * ENTRY + 8, &message.data.to_le_bytes());
        msix.write_table(vector * ENTRY + 12, &control.to_le_bytes());
    }

    #[test]
    fn vectors_go_where_their_entries_say_once_unmasked() {
        let recorder = Arc::new(Recorder::default());
        let mut msix = Msix::new(3, recorder.clone());
        let to = Message { address: 0xfee0_1000, data: 0x4041 };
        message(&mut msix, 1, to, 0);
        msix.raise(1);
        assert!(recorder.raised().is_empty(), "MSI-X is off");
        msix.set_control(ENABLED);
        assert_eq!(recorder.routes(), [None, Some(to), None]);
        for vector in [0, 1, 2, 3, 63, 64, u16::MAX] {
            msix.raise(vector);
        }
        assert_eq!(recorder.raised(), [1]);
    }

    #[test]
    fn masked_vectors_are_pending_until_unmasked() {
        let recorder = Arc::new(Recorder::default());
        let mut msix = Msix::new(2, recorder.clone());
        let to = Message { address: 0xfee0_0000, data: 0x30 };
        message(&mut msix, 0, to, 1);
        msix.set_control(ENABLED);
        msix.raise(0);
        msix.raise(0);
        let mut pending = [0xee; 16];
        msix.read_pending(0, &mut pending);
        assert_eq!(pending, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(recorder.raised().is_empty());
        // The whole function masked, the vector not: still pending.
        msix.set_control(InterruptControl { msix_masked: true, ..ENABLED });
        message(&mut msix, 0, to, 0);
        assert!(recorder.raised().is_empty());
        msix.set_control(ENABLED);
        assert_eq!((recorder.raised(), recorder.routes()), (vec![0], vec![Some(to), None]));
        msix.read_pending(0, &mut pending);
        assert_eq!(pending, [0; 16]);
    }

    #[test]
    fn tables_take_every_width_and_keep_their_constant_bits() {
        let mut msix = Msix::new(2, Arc::new(Recorder::default()));
        for width in [1, 2, 4, 8] {
            for offset in (0..48).chain([1 << 40]) {
                msix.write_table(offset, &vec![0xff; width]);
                let mut data = vec![0xee; width];
                msix.read_table(offset, &mut data);
                let end = offset.saturating_add(width as u64);
                assert!(end <= 32 || data.last() == Some(&0), "{width} bytes at {offset:#x}: {data:x?}");
            }
        }
        let mut table = [0; 32];
        msix.read_table(0, &mut table);
        for entry in table.chunks_exact(16) {
            assert_eq!(u32::from_le_bytes(entry[..4].try_into().unwrap()), !3);
            assert_eq!(entry[4..12], [0xff; 8]);
            assert_eq!(entry[12..], [1, 0, 0, 0]);
        }
    }
}
