//! What a process starts and leaves behind: children that never outlive it, scratch folders that a later run removes; and how it
//! reads and writes files that may not be as it wants them.

pub mod child;
pub mod file_limit;
pub mod files;
pub mod scratch;
