//! Phases of a boot.

use std::time::Duration;

/// Times at which a guest reached its phases, from the start of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phases {
    /// The first instruction of its kernel, if that is known.
    pub entry: Option<Duration>,
    /// The first word of its init.
    pub init: Duration,
    /// The part of `init` that the guest's kernel counted.
    pub guest_init: Duration,
    /// The driver loaded for the first time.
    pub driver: Option<Duration>,
    /// The first dispatch completed.
    pub dispatch: Option<Duration>,
}
