//! The root bus of Belfry's own machine: its host bridge, the functions behind it, and the way of their interrupts to KVM.
//!
//! | part | file |
//! | --- | --- |
//! | the bus, configured by mechanism 1 and by ECAM | `root.rs`, `decode.rs` |
//! | a function, and its BARs that decode | `function.rs`, `bar.rs` |
//! | interrupts of a function | `message.rs`, their MSI-X table `msix.rs` |
//! | lines and messages of all functions, through irqfds | `routes.rs` |
//! | the messages of the GPU | `gpu_messages.rs` |
//! | recorded interrupts, for tests | `recorder.rs` |
//!
//! The VM comes from its user: the crate opens no `/dev/kvm`, and fuzzers drive it without one.

mod bar;
mod decode;
mod function;
mod gpu_messages;
mod message;
mod msix;
#[cfg(any(test, feature = "recorder"))]
mod recorder;
mod root;
mod routes;

pub use bar::Bar;
pub use belfry_pci::Message;
pub use decode::Apertures;
pub use function::Function;
pub use gpu_messages::GpuMessages;
pub use message::Interrupts;
pub use msix::Msix;
#[cfg(any(test, feature = "recorder"))]
pub use recorder::Recorder;
pub use root::{ECAM, ECAM_SIZE, RootBus};
pub use routes::{Chips, Route, Routes, Vectors, line_of};
