//! Settings of debuggers for the waves of processes.

use super::Slots;
use crate::vm::DebugSettings;

/// Most processes with settings of a debugger: more than there are PASIDs of drivers.
pub(super) const MAX_DEBUGGERS: usize = 1 << 16;

impl Slots {
    /// Sets the settings of a debugger for the waves of a process, or forgets them; `false` if there are too many
    /// processes.
    #[must_use]
    pub(in crate::firmware) fn set_debug(&mut self, process: u64, settings: Option<DebugSettings>) -> bool {
        match settings {
            Some(_) if self.debuggers.len() >= MAX_DEBUGGERS && !self.debuggers.contains_key(&process) => {
                return false;
            }
            Some(settings) => self.debuggers.insert(process, settings),
            None => self.debuggers.remove(&process),
        };
        if let Some(space) = self.processes.get(&process).and_then(|process| process.space.as_ref()) {
            space.set_debug(&settings.unwrap_or_default());
        }
        true
    }

    /// Forgets the settings of debuggers for the waves of these processes.
    pub(in crate::firmware) fn forget_debuggers(&mut self, whose: impl Fn(u64) -> bool) {
        let forgotten: Vec<u64> = self.debuggers.keys().copied().filter(|&key| whose(key)).collect();
        for key in forgotten {
            let forgotten = self.set_debug(key, None);
            debug_assert!(forgotten, "there is room for less");
        }
    }
}
