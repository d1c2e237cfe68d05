//! The suite of unmodified programs: HIP, OpenCL, Python and the tools that come with ROCm, on a Belfry GPU.
//!
//! | part | file |
//! | --- | --- |
//! | which cases there are, read from `tests/programs` | `sources.rs` |
//! | the tools and scripts, and what they have to say | `tools.rs` |
//! | the programs, compiled inside a root tree and cached | `compile.rs` |
//! | what runs a program: `belfry exec`, or a guest | `runner.rs`, `guest.rs` |
//! | a child with a time limit | `process.rs` |
//! | cases that are known to fail, and how | `absent.rs` |
//! | what an outcome means | `verdict.rs` |
//! | all of them put together, as a test program | `plan.rs`, `harness.rs` |

pub mod absent;
pub mod compile;
pub mod guest;
pub mod harness;
pub mod plan;
pub mod process;
pub mod runner;
pub mod sources;
pub mod tools;
pub mod verdict;

pub use plan::{Plan, Ready, Test};
pub use process::{Ended, Outcome};
pub use runner::{Exec, Runner};
