//! Global wave sync resources of a queue: barriers and semaphores for waves of all its workgroups.
//!
//! Source of the operations: the manuals of GCN and Vega, "GWS instructions" (`DS_GWS_*`).

mod save;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_isa::exec::{GWS_RESOURCES, GwsOp, GwsRequest};
use belfry_lock::{Mutex, MutexGuard, rank};

pub(crate) use save::SavedGws;

/// Number of resources.
const COUNT: usize = GWS_RESOURCES as usize;

/// One resource.
#[derive(Clone, Copy, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
struct Resource {
    /// Waves that a barrier still waits for, or waves that a semaphore still lets pass.
    counter: u32,
    /// Times that the barrier has opened.
    opened: u64,
    /// Waves that have come to wait at the semaphore, and the number of them that may go on.
    came: u64,
    admitted: u64,
}

/// Event that a wave waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(super) enum Ticket {
    /// The resource's barrier has opened more than this many times.
    Barrier(u8, u64),
    /// The resource's semaphore has admitted more than this many waves.
    Semaphore(u8, u64),
}

/// Event that a saved wave waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum GwsWait {
    /// The barrier of a resource.
    Barrier(u8),
    /// The semaphore of a resource.
    Semaphore(u8),
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The wave goes on.
    GoOn,
    /// The wave waits.
    Wait(Ticket),
    /// The queue has no resources.
    Refused,
}

/// The resources of one queue, if it was given any. They outlive its waves: the next dispatch uses what one has set up,
/// even if the queue has been off its slot in between.
#[derive(Default)]
pub struct Gws {
    /// Resources that have been used, by number.
    resources: Mutex<Option<BTreeMap<u8, Resource>>, rank::Gws>,
    /// True if the queue has resources. Every workgroup that begins reads it. It changes under the lock.
    granted: AtomicBool,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("counter", &format_args!("{}", self.counter))
            .field("barriers_opened", &format_args!("{}", self.opened))
            .field("waiting_at_semaphore", &format_args!("{}", self.came - self.admitted))
            .finish()
    }
}

/// The resources that were used, by number.
impl fmt::Debug for Gws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            Some(resources) => f.debug_map().entries(resources).finish(),
            None => f.write_str("not granted"),
        }
    }
}

impl Gws {
    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<u8, Resource>>, rank::Gws> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the queue all resources, or takes them away; resources that it has keep their state.
    pub fn grant(&self, granted: bool) {
        let mut resources = self.lock();
        *resources = granted.then(|| resources.take().unwrap_or_default());
        self.granted.store(granted, Ordering::Release);
    }

    /// Returns true if the queue has resources.
    pub(super) fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire)
    }

    /// Executes the operation of a wave.
    pub(super) fn request(&self, request: GwsRequest) -> Answer {
        let mut resources = self.lock();
        let Some(resources) = &mut *resources else { return Answer::Refused };
        let index = request.resource;
        let resource = resources.entry(index).or_default();
        match request.op {
            GwsOp::Init => {
                resource.opened += 1;
                resource.admitted = resource.came;
                resource.counter = request.value;
            }
            GwsOp::Barrier if resource.counter == 0 => {
                resource.opened += 1;
                resource.counter = request.value;
            }
            GwsOp::Barrier => {
                resource.counter -= 1;
                return Answer::Wait(Ticket::Barrier(index, resource.opened));
            }
            GwsOp::SemaV => resource.give(1),
            GwsOp::SemaBr => resource.give(request.value),
            GwsOp::SemaP if resource.counter != 0 => resource.counter -= 1,
            GwsOp::SemaP => {
                resource.came += 1;
                return Answer::Wait(Ticket::Semaphore(index, resource.came - 1));
            }
            GwsOp::SemaReleaseAll => resource.admitted = resource.came,
        }
        Answer::GoOn
    }

    /// Returns the event that a wave still waits for, if it does. If the resources are gone the wave counts as waiting,
    /// and its restore finds the error.
    pub(super) fn still_waits(&self, ticket: Ticket) -> Option<GwsWait> {
        match (self.look(ticket), ticket) {
            (Answer::GoOn, _) => None,
            (_, Ticket::Barrier(index, _)) => Some(GwsWait::Barrier(index)),
            (_, Ticket::Semaphore(index, _)) => Some(GwsWait::Semaphore(index)),
        }
    }

    /// Lets a restored wave wait as it did before it was saved.
    pub(super) fn wait_again(&self, wait: GwsWait) -> Ticket {
        let mut resources = self.lock();
        let mut none = BTreeMap::new();
        let resources = resources.as_mut().unwrap_or(&mut none);
        match wait {
            GwsWait::Barrier(index) => Ticket::Barrier(index, resources.entry(index).or_default().opened),
            GwsWait::Semaphore(index) => {
                let resource = resources.entry(index).or_default();
                resource.came += 1;
                Ticket::Semaphore(index, resource.came - 1)
            }
        }
    }

    /// Returns the counters of all resources, if the queue has them.
    pub(crate) fn counters(&self) -> Option<[u32; COUNT]> {
        let resources = self.lock();
        let counter = |index: usize| {
            resources
                .as_ref()
                .and_then(|resources| resources.get(&(index as u8)))
                .map_or(0, |one| one.counter)
        };
        resources.is_some().then(|| std::array::from_fn(counter))
    }

    /// Sets the counters of all resources, if the queue has them, for waves that [`wait_again`](Self::wait_again).
    pub(crate) fn set_counters(&self, counters: &[u32; COUNT]) {
        if let Some(resources) = &mut *self.lock() {
            let used = (0..).zip(counters).filter(|(_, counter)| **counter != 0);
            *resources =
                used.map(|(index, &counter)| (index, Resource { counter, ..Resource::default() })).collect();
        }
    }

    /// Forgets waves that were given to [`wait_again`](Self::wait_again) and have not gone on; the counters stay.
    pub(super) fn forget_waves(&self) {
        if let Some(counters) = self.counters() {
            self.set_counters(&counters);
        }
    }

    /// Tells if a waiting wave goes on; refuses it if the resources are gone.
    pub(super) fn look(&self, ticket: Ticket) -> Answer {
        let resources = self.lock();
        let Some(resources) = &*resources else { return Answer::Refused };
        let resource = |index| resources.get(&index).copied().unwrap_or_default();
        let goes_on = match ticket {
            Ticket::Barrier(index, opened) => resource(index).opened > opened,
            Ticket::Semaphore(index, number) => resource(index).admitted > number,
        };
        if goes_on { Answer::GoOn } else { Answer::Wait(ticket) }
    }
}

impl Resource {
    /// Admits at most `count` of the waiting waves, in the order in which they came, and adds the rest to the counter.
    fn give(&mut self, count: u32) {
        let waiting = self.came - self.admitted;
        let admitted = waiting.min(u64::from(count));
        self.admitted += admitted;
        self.counter = self.counter.saturating_add(count - admitted as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gws() -> Gws {
        let gws = Gws::default();
        gws.grant(true);
        gws
    }

    fn ask(gws: &Gws, op: GwsOp, value: u32) -> Answer {
        gws.request(GwsRequest { op, resource: 5, value })
    }

    fn waits(gws: &Gws, op: GwsOp, value: u32) -> Ticket {
        match ask(gws, op, value) {
            Answer::Wait(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_to_come_opens_a_barrier_and_sets_the_next() {
        let gws = gws();
        assert_eq!(ask(&gws, GwsOp::Init, 2), Answer::GoOn);
        let first = [waits(&gws, GwsOp::Barrier, 2), waits(&gws, GwsOp::Barrier, 2)];
        assert!(first.iter().all(|&ticket| gws.look(ticket) == Answer::Wait(ticket)));
        // The next one is for two waves.
        assert_eq!(ask(&gws, GwsOp::Barrier, 1), Answer::GoOn);
        assert!(first.iter().all(|&ticket| gws.look(ticket) == Answer::GoOn));
        let second = waits(&gws, GwsOp::Barrier, 1);
        assert_eq!(gws.look(second), Answer::Wait(second));
        // Resources are apart from each other.
        assert_eq!(gws.request(GwsRequest { op: GwsOp::Barrier, resource: 6, value: 0 }), Answer::GoOn);
        assert_eq!(gws.look(second), Answer::Wait(second));
        assert_eq!(ask(&gws, GwsOp::Barrier, 1), Answer::GoOn);
        assert_eq!(gws.look(second), Answer::GoOn);
    }

    #[test]
    fn semaphores_admit_in_order_and_keep_what_nobody_takes() {
        let gws = gws();
        assert_eq!(ask(&gws, GwsOp::Init, 1), Answer::GoOn);
        assert_eq!(ask(&gws, GwsOp::SemaP, 0), Answer::GoOn);
        let waiting = [0; 4].map(|_| waits(&gws, GwsOp::SemaP, 0));
        let free = |gws: &Gws| waiting.map(|ticket| gws.look(ticket) == Answer::GoOn);
        assert_eq!(free(&gws), [false; 4]);
        assert_eq!(ask(&gws, GwsOp::SemaV, 0), Answer::GoOn);
        assert_eq!(free(&gws), [true, false, false, false]);
        assert_eq!(ask(&gws, GwsOp::SemaReleaseAll, 0), Answer::GoOn);
        assert_eq!(free(&gws), [true; 4]);
        let next = waits(&gws, GwsOp::SemaP, 0);
        assert_eq!(ask(&gws, GwsOp::SemaBr, 2), Answer::GoOn);
        assert_eq!(gws.look(next), Answer::GoOn);
        assert_eq!(ask(&gws, GwsOp::SemaP, 0), Answer::GoOn);
        waits(&gws, GwsOp::SemaP, 0);
    }

    #[test]
    fn without_resources_everything_is_refused() {
        let gws = gws();
        assert_eq!(ask(&gws, GwsOp::Init, 1), Answer::GoOn);
        let ticket = waits(&gws, GwsOp::Barrier, 1);
        gws.grant(true);
        assert_eq!(gws.look(ticket), Answer::Wait(ticket), "granted again, they are as they were");
        gws.grant(false);
        assert_eq!(gws.look(ticket), Answer::Refused);
        assert_eq!(ask(&gws, GwsOp::SemaV, 0), Answer::Refused);
    }
}
