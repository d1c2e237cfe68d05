//! The format of snapshots: a file with a machine or a hosted device, its state as plain values, and memory on its way into it.
//!
//! | part | file |
//! | --- | --- |
//! | the format of the file, and the checks of it | `file.rs` |
//! | a machine's state as plain values | `state.rs`; its paravirtual devices are `belfry_virtio`'s |
//! | the state of a hosted device | `hosted_state.rs` |
//! | memory on its way into the file | `memory.rs` |
//!
//! Files are not trusted: nothing here allocates more than a file has bytes, and every value is checked before it is used.

pub mod file;
mod hosted_state;
pub mod memory;
mod state;

pub use file::{FileError, Head, Kind, PAGE, Section};
pub use hosted_state::SavedHosted;
pub use memory::{Pages, Piece};
pub use state::{DOORBELLS, SavedBoard, SavedCmos, SavedMachine, SavedSerial, SavedVcpu};
