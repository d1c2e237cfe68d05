//! Moments at which the sanitizer's rules for drivers and runtimes are checked.

use crate::moments::{At, Moment};
use crate::sanitize::{Misuse, Rule, Sanitizer};

/// Checks a moment against the rules.
pub(super) fn at(sanitizer: &Sanitizer, at: &At<'_>) {
    let owner = &at.owner;
    match at.moment {
        Moment::Refused { error, details } | Moment::Handled { error, details } => {
            sanitizer.refused(error, details);
        }
        Moment::SignalWritten { address, before: Some(before), .. } if before <= 0 => {
            let misuse = Misuse::new(Rule::SignalBelowZero, format!("the signal was {before}"));
            sanitizer.misused(misuse.of(owner.pasid, owner.doorbell.unwrap_or(0)).at(address));
        }
        Moment::QueueAdded { doorbell, mqd, read_index: Some(read_index) } => {
            sanitizer.added(mqd, doorbell.dwords(), read_index);
        }
        Moment::QueueRemoved(removed) => sanitizer.removed(removed.clone(), owner.pasid),
        _ => {}
    }
}
