//! The suite of unmodified programs: HIP, OpenCL, Python and the tools that come with ROCm, on a Belfry GPU.
//!
//! `belfry exec -- hip-suite` and the tests of this repository are made of it: the first prints the result of each case
//! (`console.rs`), the second makes a test of each.
//!
//! | part | file |
//! | --- | --- |
//! | which cases there are, by the sources in `tests/programs` | `sources.rs` |
//! | the tools and scripts, and their expected output | `tools.rs` |
//! | the programs, compiled inside a root tree and cached | `compile.rs` |
//! | what runs a program: `belfry exec`, or a guest | `runner.rs`, `guest.rs` |
//! | a child with a time limit, and its waits when it does not end | `process.rs`, `threads.rs` |
//! | cases that are known to fail, and how | `absent.rs` |
//! | what an outcome means | `verdict.rs` |
//! | the processor that programs are compiled for | `processor.rs` |
//! | all cases, and the parts that each of them needs | `plan.rs` |
//! | programs that are run by names of their own, without cases | `standalone.rs` |
//! | the suites as commands: their arguments and their output | `request.rs`, `console.rs` |

pub mod absent;
pub mod compile;
pub mod console;
pub mod guest;
pub mod plan;
pub mod process;
pub mod processor;
pub mod request;
pub mod runner;
pub mod sources;
mod standalone;
mod threads;
pub mod tools;
pub mod verdict;

pub use compile::has_program;
pub use console::{Counts, How, Results};
pub use plan::{Plan, Ready, Test};
pub use process::{Ended, Outcome};
pub use processor::Processor;
pub use request::{Action, Request};
pub use runner::{Exec, Runner};
pub use standalone::Standalone;
