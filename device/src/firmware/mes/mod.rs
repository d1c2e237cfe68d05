//! The micro engine scheduler: frames in, queues on and off the hardware.
//!
//! A driver sends 64-dword frames over the scheduler's ring. What the model cannot do, or what is malformed, is counted
//! and named, and its fence is not written: the driver sees what it sees when firmware does not answer.

mod frame;

pub(super) use frame::{execute, name, strike};
