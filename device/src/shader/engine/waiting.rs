//! Workers between two turns, and calls of those that have nothing to do.

use std::sync::PoisonError;

use belfry_lock::{MutexGuard, rank};

use super::{Shared, State, Task};
use crate::shader::queue::ShaderQueue;
use crate::threads::patience::Patience;

/// Sleepers that one caller wakes: enough for the number of workers to double with each round.
const WAKES: usize = 2;

impl Shared {
    /// Has all idle workers look for work. Called when there may be some.
    pub(in crate::shader) fn announce(&self, state: MutexGuard<'_, State, rank::Engine>) {
        self.count(&state);
        self.call_waking(state, usize::MAX, usize::MAX);
    }

    /// Has this many more idle workers look for work, or all of them if there are fewer.
    ///
    /// Few sleepers are woken, as that takes long. They wake the next ones, if there is still work then.
    pub(super) fn call(&self, state: MutexGuard<'_, State, rank::Engine>, more: usize) {
        self.call_waking(state, more, WAKES);
    }

    fn call_waking(&self, state: MutexGuard<'_, State, rank::Engine>, more: usize, wakes: usize) {
        let sleepers = self.calls.add(more, (state.idle, state.asleep), wakes);
        let all = sleepers >= state.asleep;
        drop(state);
        match sleepers {
            0 => {}
            _ if all => self.work.notify_all(),
            _ => (0..sleepers).for_each(|_| self.work.notify_one()),
        }
    }

    /// Has workers look for `workgroups` that were given back: those that looked before did not see them.
    pub(in crate::shader) fn announce_workgroups(&self, workgroups: u64) {
        self.call(self.lock(), usize::try_from(workgroups).unwrap_or(usize::MAX));
    }

    /// Waits for work; returns `None` at shutdown. The task's queue has begun a turn. A worker with `had` has ended its
    /// last task.
    ///
    /// No work is left lying. Who makes some [calls](Shared::call) as many workers as there is work for. A worker looks
    /// for work after each turn, so that it finds what its turn has left: a paused workgroup, or the room of one that has
    /// ended. If there is more than the worker can take, it calls others, who do the same.
    pub(in crate::shader) fn next_task(&self, had: bool, patience: &mut Patience) -> Option<Task> {
        let mut state = self.lock();
        state.in_hand -= usize::from(had);
        if state.held && state.in_hand == 0 {
            self.quiet.notify_all();
        }
        loop {
            if state.shutdown {
                return None;
            }
            let task = self.find(&mut state);
            self.count(&state);
            if let Some(task) = task {
                state.in_hand += 1;
                if state.idle > 0 && (!self.is_alone() || task.leaves_some()) {
                    self.call(state, WAKES);
                }
                return Some(task);
            }
            // The others would find nothing either.
            self.calls.withdraw();
            state.idle += 1;
            drop(state);
            // Look for a short time before sleeping: waking a thread takes longer than most small dispatches.
            let mut is_called = patience.look_out(|| self.calls.take());
            state = self.lock();
            while !is_called && !state.shutdown {
                is_called = self.calls.take();
                if !is_called {
                    state.asleep += 1;
                    let wait = || self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state = patience.sleep(wait);
                    state.asleep -= 1;
                }
            }
            state.idle -= 1;
            if is_called {
                self.calls.arrive();
            }
        }
    }

    /// Ends the turn of a task on a thread that does not look for work afterwards.
    pub(in crate::shader) fn end_task(&self, queue: &ShaderQueue) {
        queue.end_turn();
        self.announce(self.lock());
    }
}
