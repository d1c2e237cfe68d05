//! Interrupts: entries in the interrupt handler's ring, and the vector raised at the host.

/// Receiver of the device's interrupts: an irqfd, a vfio-user eventfd, a driver in the same process, a counter in a test.
pub trait InterruptSink: Send + Sync {
    /// Raises a vector, edge-triggered; called from any thread of the device, and must not call back into it.
    fn raise(&self, vector: u16);
}
