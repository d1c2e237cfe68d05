//! What a process starts and leaves behind: children that never outlive it, scratch folders that a later run removes.

pub mod child;
pub mod scratch;
