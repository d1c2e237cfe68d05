//! Memory that waves share with threads of the host, in all back ends and tiers: the engine's own tests.

#[path = "../../device/isa/tests/torn.rs"]
mod torn;
