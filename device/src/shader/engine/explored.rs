//! The choice of the dispatch that has the next turn in a schedule that is explored.

use std::sync::atomic::Ordering;

use super::{Shared, State};
use crate::explore::{Actor, Explorer};

impl Shared {
    /// Puts the dispatch that is to have the next turn in front of the others, and its queue in front of the other queues.
    pub(super) fn order(&self, explorer: &Explorer, state: &mut State) {
        if self.left.swap(false, Ordering::Relaxed) {
            behind_others(state);
        }
        let mut places = Vec::new();
        for (queue, active) in state.queues.iter().enumerate() {
            for (at, dispatch) in active.dispatches.iter().enumerate() {
                if !dispatch.is_settled() && dispatch.can_go_on() {
                    places.push((queue, at, Actor::dispatch(dispatch.number())));
                }
            }
        }
        let actors: Vec<Actor> = places.iter().map(|(.., actor)| *actor).collect();
        let Some(&(queue, at, _)) = places.get(explorer.choose(&actors)) else { return };
        state.queues.rotate_left(queue);
        if let Some(active) = state.queues.front_mut() {
            active.dispatches.rotate_left(at);
        }
    }
}

/// Moves the dispatch whose workgroup was left in the middle after the others.
fn behind_others(state: &mut State) {
    if state.queues.len() > 1 {
        state.queues.rotate_left(1);
    } else if let Some(active) = state.queues.front_mut()
        && active.dispatches.len() > 1
    {
        active.dispatches.rotate_left(1);
    }
}
