//! Deliberate faults: a [`Plan`] says which part of the hardware fails, and when.
//!
//! | noun | what it is |
//! | --- | --- |
//! | [`Hook`] | a kind of moment at which a part can fail; the device counts each |
//! | [`Rule`] | a failure at a hook |
//! | [`When`] | the moments of the hook at which it strikes |
//! | [`Plan`] | rules with their moments, and [`Chaos`], as one text |
//! | [`Faults`] | the plan of a running device |
//! | [`Strike`] | a fault that has struck, with its place |
//!
//! The device tells its [moments](crate::tools) to all tools at once, and no hook is met per instruction. A
//! strike takes the path that the device has for that error anyway; `docs/faults.md` says for each rule what
//! a driver sees.

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
pub(crate) use live::Struck;
pub use live::{Exhausted, Faults};
pub(crate) use place::Place;
pub use plan::{Plan, PlanError, Planned};
pub use rule::Rule;
pub use strike::{FaultReport, Strike};
pub use when::{Often, When};
