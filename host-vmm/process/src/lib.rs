//! Children that never outlive a process, scratch folders that a later run removes, and reads and writes of files that
//! may not be as expected.

pub mod child;
pub mod file_limit;
pub mod files;
pub mod scratch;
pub mod usage;
