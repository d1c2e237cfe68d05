//! The way in which waves go on: the loop over handlers, turns, rounds, barriers, and what they share.

pub(crate) mod barrier;
pub(super) mod dispatch;
pub(crate) mod dynamic;
pub(super) mod gws;
pub(super) mod many;
pub(crate) mod resume;
pub(crate) mod round;
pub(super) mod shared;
pub(crate) mod succession;
pub(super) mod turns;
