//! Views of the GPU for the people and programs that look at it: what the device gives as plain data, in words and as
//! values that formats like JSON can have.
//!
//! [`inspect`] has the live device and control of it by hand, [`profile`] reads the counts of the profiler.

pub mod inspect;
pub mod profile;
