//! Global wave sync as plain values.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use belfry_lock::Mutex;
use serde::{Deserialize, Serialize};

use super::{Gws, Resource};
use crate::save::{Broken, check, counter};

/// The resources of a queue, if it was given any.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedGws(Option<BTreeMap<u8, Resource>>);

impl Gws {
    pub(crate) fn save(&self) -> SavedGws {
        SavedGws(self.lock().clone())
    }

    /// Makes resources in this state.
    pub(crate) fn restored(saved: &SavedGws) -> Result<Self, Broken> {
        for resource in saved.0.iter().flat_map(BTreeMap::values) {
            counter("openings of a global barrier", resource.opened)?;
            let came = counter("waves at a global semaphore", resource.came)?;
            check("waves that passed a global semaphore", resource.admitted, resource.admitted <= came)?;
        }
        let granted = AtomicBool::new(saved.0.is_some());
        Ok(Self { resources: Mutex::new(saved.0.clone()), granted })
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::exec::{GwsOp, GwsRequest};

    use super::*;

    #[test]
    fn barrier_that_waves_wait_at_opens_on_the_other_side() {
        let ask = |gws: &Gws, op, value| gws.request(GwsRequest { op, resource: 5, value });
        let original = Gws::default();
        original.grant(true);
        ask(&original, GwsOp::Init, 1);
        let super::super::Answer::Wait(ticket) = ask(&original, GwsOp::Barrier, 1) else {
            panic!("the barrier is for two")
        };
        let saved = original.save();
        let restored = Gws::restored(&saved).expect("resources");
        assert_eq!(restored.save(), saved);
        assert_eq!(restored.look(ticket), super::super::Answer::Wait(ticket));
        ask(&restored, GwsOp::Barrier, 1);
        assert_eq!(restored.look(ticket), super::super::Answer::GoOn);
        let absurd = Resource { admitted: 1, ..Resource::default() };
        assert!(Gws::restored(&SavedGws(Some([(0, absurd)].into()))).is_err());
        let absurd = Resource { opened: u64::MAX, ..Resource::default() };
        assert!(Gws::restored(&SavedGws(Some([(0, absurd)].into()))).is_err());
    }
}
