//! The user side: agents, memory, signals, queues, code objects and launches over KFD.

pub mod code_object;
pub mod transport;
