//! The suite of unmodified programs as tests: `belfry-suite` has the cases, and the code that runs and judges them.
//!
//! | part | file |
//! | --- | --- |
//! | a guest for the whole suite, on a thread of its own | `guest.rs` |
//! | the suite as a test program | `harness.rs` |

pub mod guest;
pub mod harness;

pub use crate::built::belfry;
pub use belfry_suite::{Ended, Exec, Outcome, Plan, Ready, Runner, Test, process, verdict};
