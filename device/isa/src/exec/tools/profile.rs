//! Counts of how often each operation is executed.

use std::collections::BTreeMap;

use crate::exec::code_cache::Region;
use crate::exec::di::Role;
use crate::inst::Op;

/// Work of compiled code, with times in ticks of [`ticks`](crate::exec::ticks).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeTimes {
    /// Times that it was entered.
    pub entries: u64,
    /// Time in it and in the handlers that it calls.
    pub ticks: u64,
    /// Instructions that it has executed.
    pub instructions: u64,
    /// Loads and stores of global memory among them, and of LDS, that have templates.
    pub global: u64,
    /// See [`CodeTimes::global`].
    pub lds: u64,
    /// Calls of handlers and their time, by operation.
    pub calls: BTreeMap<&'static str, (u64, u64)>,
}

/// Executions of every operation; those with any lane off count as one as well. Waits, hints and nops do not count.
#[derive(Clone, Debug)]
pub struct Profile {
    counts: Box<[u64]>,
    /// Executions among them that compiled code leaves to the operation's handler for all values of the operands.
    called: Box<[u64]>,
}

impl Default for Profile {
    fn default() -> Self {
        Self::new()
    }
}

impl Profile {
    /// Nothing executed yet.
    pub fn new() -> Self {
        let counts = vec![0; Op::COUNT].into_boxed_slice();
        Profile { called: counts.clone(), counts }
    }

    /// Executions of `op`. Each half of a VOPD counts for its own operation.
    pub fn executed(&self, op: Op) -> u64 {
        self.counts[op as usize]
    }

    /// Executions of `op` that code compiled for the same elements would call its handler for: it has no template for them.
    pub fn called(&self, op: Op) -> u64 {
        self.called[op as usize]
    }

    /// The operations that were executed, most frequent first.
    pub fn by_count(&self) -> Vec<(Op, u64)> {
        let mut all: Vec<(Op, u64)> =
            Op::ALL.iter().map(|&op| (op, self.executed(op))).filter(|(_, count)| *count > 0).collect();
        all.sort_by_key(|&(op, count)| (core::cmp::Reverse(count), op));
        all
    }

    /// Counts the element `index` of a region.
    pub(crate) fn count(&mut self, region: &Region, index: usize) {
        let ops = match region.roles.get(index) {
            Some(&Role::Operation(op)) => [Some(op), None],
            Some(&Role::Pair(x, y)) => [Some(x), Some(y)],
            Some(Role::Step) | None => return,
        };
        let called = u64::from(!region.has_template(index));
        for op in ops.into_iter().flatten() {
            self.counts[op as usize] += 1;
            self.called[op as usize] += called;
        }
    }
}
