//! Interrupts of a function: messages, and the pin.

use std::fmt::Debug;

/// A message: where it is written and what.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::kvm) struct Message {
    pub(in crate::kvm) address: u64,
    pub(in crate::kvm) data: u32,
}

/// How a function interrupts.
pub(in crate::kvm) trait Interrupts: Debug + Send + Sync {
    /// Points the vectors at new messages; those without one are dropped.
    fn route(&self, messages: &[Option<Message>]);
    /// Sends the message of a vector.
    fn raise(&self, vector: u16);
    /// Asserts or releases the interrupt pin, if there is one.
    fn set_pin(&self, asserted: bool);
}
