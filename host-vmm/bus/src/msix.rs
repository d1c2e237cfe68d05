//! The MSI-X vectors of Belfry's own functions, and the routes of their messages.

use std::sync::Arc;

use belfry_pci::{InterruptControl, Message};

use crate::message::Interrupts;

/// Table and pending bits of a function, and its routes.
#[derive(Debug)]
pub struct Msix {
    table: belfry_pci::Msix,
    control: InterruptControl,
    /// Routed messages of the vectors; a masked vector keeps the route that it last had.
    routed: Vec<Option<Message>>,
    interrupts: Arc<dyn Interrupts>,
}

impl Msix {
    /// Makes a table of `count` vectors (at most [`belfry_pci::MSIX_VECTORS`]), all masked.
    #[must_use]
    pub fn new(count: u16, interrupts: Arc<dyn Interrupts>) -> Self {
        let table = belfry_pci::Msix::new(count);
        let routed = vec![None; table.vectors().into()];
        Self { table, control: InterruptControl::default(), routed, interrupts }
    }

    /// Returns true if messages, and not the pin, carry the interrupts.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.control.msix_enabled
    }

    /// Number of vectors.
    #[must_use]
    pub fn vectors(&self) -> u16 {
        self.table.vectors()
    }

    /// Takes the state of the capability after a write to it.
    pub fn set_control(&mut self, control: InterruptControl) {
        if control != self.control {
            self.control = control;
            self.update();
        }
    }

    /// Reads the table; bytes after its end read 0.
    pub fn read_table(&self, offset: u64, data: &mut [u8]) {
        self.table.read_table(offset, data);
    }

    /// Reads the pending bits; bytes after their end read 0.
    pub fn read_pending(&self, offset: u64, data: &mut [u8]) {
        self.table.read_pending(offset, data);
    }

    /// Writes the table; writes after its end, and writes of pending bits, have no effect.
    pub fn write_table(&mut self, offset: u64, data: &[u8]) {
        self.table.write_table(offset, data);
        self.update();
    }

    /// Raises a vector, or marks it as pending while it is masked.
    pub fn raise(&mut self, vector: u16) {
        if vector >= self.vectors() || !self.control.msix_enabled {
            return;
        }
        if self.live(vector) {
            self.interrupts.raise(vector);
        } else {
            self.table.set_pending(vector);
        }
    }

    /// Marks vectors as pending, a bit for each.
    pub fn set_pending(&mut self, pending: u64) {
        let vectors = self.vectors().min(64);
        (0..vectors)
            .filter(|vector| pending >> vector & 1 == 1)
            .for_each(|vector| self.table.set_pending(vector));
    }

    /// Clears the pending bits.
    pub fn clear_pending(&mut self) {
        self.table.clear_pending();
    }

    /// Returns true if the function's messages are switched on, and no mask holds them back.
    fn open(&self) -> bool {
        self.control.msix_enabled && !self.control.msix_masked
    }

    fn live(&self, vector: u16) -> bool {
        self.open() && !self.table.is_masked(vector)
    }

    /// Routes the vectors that are not masked, and sends their pending interrupts.
    fn update(&mut self) {
        if !self.open() {
            return;
        }
        let before = self.routed.clone();
        for vector in (0..self.vectors()).filter(|&vector| !self.table.is_masked(vector)) {
            self.routed[usize::from(vector)] = self.table.message(vector);
        }
        if self.routed != before {
            self.interrupts.route(&self.routed);
        }
        for vector in self.table.take_pending() {
            self.interrupts.raise(vector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use belfry_pci::MSIX_ENTRY as ENTRY;

    const ENABLED: InterruptControl =
        InterruptControl { msix_enabled: true, msix_masked: false, msi_enabled: false, intx_disabled: false };

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
        // The function is masked, the vector is not: still pending.
        msix.set_control(InterruptControl { msix_masked: true, ..ENABLED });
        message(&mut msix, 0, to, 0);
        assert!(recorder.raised().is_empty());
        msix.set_control(ENABLED);
        assert_eq!((recorder.raised(), recorder.routes()), (vec![0], vec![Some(to), None]));
        msix.read_pending(0, &mut pending);
        assert_eq!(pending, [0; 16]);
    }
}
