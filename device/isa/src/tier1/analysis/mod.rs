//! What can be known about a region before code is made for it.

pub(super) mod alike;
pub(super) mod covered;
pub(super) mod guess;
pub(super) mod known;
pub(super) mod picks;
pub(super) mod runs;
pub(super) mod source;
pub(super) mod template;
pub(super) mod touched;
pub(super) mod wanted;
