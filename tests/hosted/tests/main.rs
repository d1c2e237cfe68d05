//! The whole path in one process: one program, so that it is linked once.
//!
//! `fairness.rs` compares how far queues have come, which other tests beside it would change: it is a program of its own.

mod contention;
#[path = "debugger/main.rs"]
mod debugger;
#[path = "docs/main.rs"]
mod docs;
#[path = "faults/main.rs"]
mod faults;
mod grid_sync;
mod hosted;
mod hostile;
mod monitors;
mod partitions;
mod profile;
mod programs;
mod several;
mod shared_vgprs;
mod suspend;
mod traps;
mod xnack;
