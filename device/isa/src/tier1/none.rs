//! Hosts that regions are not compiled for.

use super::form::Form;
use crate::exec::di::{Di, Flow, Machine};
use crate::wave::Wave;

/// There is none.
#[derive(Debug)]
pub(crate) enum Compiled {}
