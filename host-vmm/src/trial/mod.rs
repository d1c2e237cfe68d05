//! Trials: a program run many times in children that a parent asks line by line, for `belfry torture` and `belfry explore`.
//!
//! | part | file |
//! | --- | --- |
//! | a child, which is killed when it does not answer | `child.rs` |
//! | the side of the child | `answers.rs` |
//! | findings, and the key of those of one cause | `finding.rs` |

mod answers;
mod child;
mod finding;

pub(crate) use answers::{answer, answer_lines};
pub(crate) use child::Child;
pub use child::ChildError;
pub use finding::Finding;
pub(crate) use finding::without_numbers;
