//! The micro engine scheduler: frames in, queues on and off the hardware.
//!
//! A driver sends 64-dword frames over the scheduler's ring. A frame that is malformed, or that the model cannot
//! execute, is counted and named, and its fence is not written: to the driver this looks like firmware that does not
//! answer.

mod frame;
mod scheduler;

pub(super) use frame::name;
pub(super) use scheduler::MesScheduler;
