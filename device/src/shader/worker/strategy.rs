//! The ways in which a workgroup runs in a worker's shift.

use std::ops::Range;

use super::shift::START_COST;
use crate::explore::Explorer;
use crate::shader::dispatch::Dispatch;
use crate::shader::launch::Series;
use crate::shader::workgroup::{ByHand, Claimed, Exploration, Outcome, Turn, Workgroup};
use crate::vm::AddressSpace;

/// Result of a turn of a workgroup, and of the workgroups that followed it.
pub(super) struct Ran {
    /// Outcome of the last workgroup.
    pub(super) outcome: Outcome,
    /// Number of workgroups that have ended.
    pub(super) ended: u64,
    /// Instructions of the budget that the last ended workgroup used; absent if none did, or if it began before.
    pub(super) used: Option<u64>,
}

impl Ran {
    /// The result of one workgroup, which has run alone since the budget was `begun_with`.
    #[inline(always)]
    fn alone(outcome: Outcome, begun_with: u64, turn: &Turn<'_>) -> Self {
        let is_done = matches!(outcome, Outcome::Done);
        let used = is_done.then(|| begun_with.saturating_sub(*turn.budget));
        Self { outcome, ended: u64::from(is_done), used }
    }
}

/// A way in which a workgroup runs.
pub(super) trait Strategy {
    /// Runs the workgroup until it ends, fails, waits, has to stop, or has used up the budget.
    fn run(self, workgroup: &mut Workgroup, turn: &mut Turn<'_>) -> Ran;
}

/// Waves run through, one after the other in one place, and so do the workgroups that the worker has claimed.
pub(super) struct Through<'a> {
    pub(super) dispatch: &'a Dispatch,
    /// Identifier of the workgroup, none of whose waves has begun.
    pub(super) id: [u32; 3],
    pub(super) series: &'a mut Series,
    /// Claimed workgroups after it.
    pub(super) rest: &'a mut Range<u64>,
    /// Instructions of the budget that the last workgroup used.
    pub(super) usual: u64,
}

impl Strategy for Through<'_> {
    #[inline(always)]
    fn run(self, workgroup: &mut Workgroup, turn: &mut Turn<'_>) -> Ran {
        let Self { dispatch, id, series, rest, usual } = self;
        let (launch, lanes) = (dispatch.launch(), dispatch.lanes());
        let mut claimed = Claimed { launch, lanes, series, rest, ended: 0, cost: START_COST, usual };
        let outcome = workgroup.run_through(id, &mut claimed, turn);
        Ran { outcome, ended: claimed.ended, used: Some(claimed.usual) }
    }
}

/// Waves take turns.
pub(super) struct InTurns {
    /// Budget before the workgroup.
    pub(super) begun_with: u64,
}

impl Strategy for InTurns {
    #[inline(always)]
    fn run(self, workgroup: &mut Workgroup, turn: &mut Turn<'_>) -> Ran {
        let outcome = workgroup.run(turn);
        Ran::alone(outcome, self.begun_with, turn)
    }
}

/// A schedule that is explored chooses the waves.
pub(super) struct Explored<'a> {
    pub(super) explorer: &'a Explorer,
    pub(super) memory: &'a AddressSpace,
    /// Budget before the workgroup.
    pub(super) begun_with: u64,
}

impl Strategy for Explored<'_> {
    fn run(self, workgroup: &mut Workgroup, turn: &mut Turn<'_>) -> Ran {
        let Self { explorer, memory, begun_with } = self;
        let outcome = workgroup.run_explored(turn, Exploration { explorer, memory });
        Ran::alone(outcome, begun_with, turn)
    }
}

/// Waves run step by step on request.
pub(super) struct Stepped {
    /// Part of the workgroup that runs.
    pub(super) part: ByHand,
    /// Budget before the workgroup.
    pub(super) begun_with: u64,
}

impl Strategy for Stepped {
    fn run(self, workgroup: &mut Workgroup, turn: &mut Turn<'_>) -> Ran {
        let outcome = workgroup.run_by_hand(self.part, turn);
        Ran::alone(outcome, self.begun_with, turn)
    }
}

/// Waves hang where they are.
pub(super) struct Hanging;

impl Strategy for Hanging {
    fn run(self, _workgroup: &mut Workgroup, _turn: &mut Turn<'_>) -> Ran {
        Ran { outcome: Outcome::Paused { asleep: true }, ended: 0, used: None }
    }
}
