//! Faults that strike on purpose: a [`Plan`] says which part of the hardware fails, and when.
//!
//! | noun | what it is |
//! | --- | --- |
//! | [`Hook`] | a kind of moment at which something can fail; the device counts each |
//! | [`Rule`] | what fails at a hook, and how |
//! | [`When`] | at which of the hook's moments |
//! | [`Plan`] | rules with their moments, and [`Chaos`], as one text |
//! | [`Faults`] | the plan of a running device |
//! | [`Strike`] | a fault that has struck, with its place |
//!
//! A device without a plan has one branch on an `Option` at each hook, and none of the hooks is met per instruction. A strike fails
//! on the path that the device has for that error anyway; `docs/faults.md` tells for each rule what a driver sees.

mod chaos;
mod duration;
mod hook;
mod live;
mod place;
mod plan;
mod rule;
mod strike;
mod when;

pub use chaos::Chaos;
pub use hook::Hook;
pub use live::{Exhausted, Faults};
pub(crate) use place::Place;
pub use plan::{Plan, PlanError, Planned};
pub use rule::Rule;
pub use strike::{FaultReport, Strike};
pub use when::{Often, When};
