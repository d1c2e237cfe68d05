//! Interrupts of a function: messages, and the pin.

use std::fmt::Debug;

use belfry_pci::Message;

/// Interrupts of a function.
pub trait Interrupts: Debug + Send + Sync {
    /// Points the vectors at new messages; those without one are dropped.
    fn route(&self, messages: &[Option<Message>]);
    /// Sends the message of a vector.
    fn raise(&self, vector: u16);
    /// Asserts or releases the interrupt pin, if there is one.
    fn set_pin(&self, asserted: bool);
}
