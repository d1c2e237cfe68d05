//! Questions about a GPU that runs, and the answers: those of the device, and those that need symbols.
//!
//! | part | file |
//! | --- | --- |
//! | questions, and the device's answers | `query.rs`, reasons why there is none in `question.rs` |
//! | questions about source lines and variables | `sources.rs` |
//! | breakpoints for lines whose code has not come yet | `lines.rs` |

mod lines;
mod query;
mod question;
mod sources;

pub(crate) use lines::Lines;
pub use query::{HELP, answer};
pub use question::{NotSaved, QuestionError};
pub(crate) use sources::faulting;
pub use sources::{answer_with, look_for_code};
