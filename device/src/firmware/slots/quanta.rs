//! The time that a queue may keep a slot that others wait for.

use std::time::Duration;

use belfry_abi::mes::AMD_PRIORITY_NUM_LEVELS;

/// Longest quantum, in units of 100 ns: one second.
const MAX: u64 = 10_000_000;

/// Quanta that a driver asked for, in units of 100 ns, 0 for none.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) struct Asked {
    /// Quantum of its gang.
    pub(in crate::firmware) gang: u64,
    /// Quantum of its process.
    pub(in crate::firmware) process: u64,
    /// Level of its priority, whose quantum counts if there is no other.
    pub(in crate::firmware) level: u32,
}

/// Quanta of the priority levels, for queues that ask for none.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) struct Quanta {
    levels: [u64; AMD_PRIORITY_NUM_LEVELS],
}

impl Quanta {
    /// Takes the quanta of SET_SCHEDULING_CONFIG, in units of 100 ns.
    pub(in crate::firmware) fn set_levels(&mut self, levels: [u64; AMD_PRIORITY_NUM_LEVELS]) {
        self.levels = levels;
    }

    /// Returns a queue's quantum: its gang's, else its process's, else its level's. It is at least `floor`, so that no
    /// driver can make slots thrash.
    pub(in crate::firmware) fn of(&self, asked: Asked, floor: Duration) -> Duration {
        let level = self.levels.get(asked.level as usize).copied().unwrap_or(0);
        let units = [asked.gang, asked.process, level].into_iter().find(|&units| units != 0);
        Duration::from_nanos(units.unwrap_or(0).min(MAX) * 100).max(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantum_is_the_gang_s_then_the_process_s_then_the_level_s() {
        let mut quanta = Quanta::default();
        let floor = Duration::from_micros(1);
        let of = |quanta: &Quanta, gang, process, level| {
            quanta.of(Asked { gang, process, level }, floor).as_nanos() as u64 / 100
        };
        assert_eq!(of(&quanta, 0, 0, 1), 10, "the floor");
        quanta.set_levels([100, 200, 300, 400, 500]);
        assert_eq!(of(&quanta, 70, 80, 1), 70);
        assert_eq!(of(&quanta, 0, 80, 1), 80);
        assert_eq!([0, 1, 2, 3, 4].map(|level| of(&quanta, 0, 0, level)), [100, 200, 300, 400, 500]);
        assert_eq!(of(&quanta, 0, 0, 5), 10, "a level that does not exist");
        assert_eq!(of(&quanta, u64::MAX, 0, 0), MAX);
    }
}
