//! Distribution of a dispatch's workgroups over graphics cores.

/// Most graphics cores.
const MOST: usize = 8;

/// Shares of the graphics cores in a dispatch's workgroups.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct XccShares {
    /// Workgroups in a row that one core takes; 0 if one core takes all.
    chunk: u32,
    /// The core of each share.
    cores: [u8; MOST],
    /// Shares.
    count: u8,
}

impl XccShares {
    /// Chunks of `chunk` workgroups, one core after the other: core n has the share `ids[n]`. `None` unless
    /// each share has one core.
    #[must_use]
    pub fn dealt(chunk: u32, ids: &[u32]) -> Option<Self> {
        if chunk == 0 || ids.is_empty() || ids.len() > MOST {
            return None;
        }
        let mut cores = [u8::MAX; MOST];
        for (core, &id) in (0..).zip(ids) {
            let place = cores.get_mut(id as usize).filter(|place| **place == u8::MAX)?;
            *place = core;
        }
        let shares = cores.get(..ids.len())?;
        shares.iter().all(|&core| core != u8::MAX).then_some(Self { chunk, cores, count: ids.len() as u8 })
    }

    /// All workgroups on the core with number `core`; `None` unless it is one of `count` cores.
    #[must_use]
    pub fn only(core: u32, count: u32) -> Option<Self> {
        let fits = core < count && count as usize <= MOST;
        fits.then_some(Self { chunk: 0, cores: [core as u8; MOST], count: count as u8 })
    }

    /// Number of cores.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.count
    }

    /// The core that executes the packets of a queue that only one core executes.
    #[must_use]
    pub fn first(&self) -> u8 {
        self.cores[0]
    }

    /// The core of a workgroup, counted through the grid, x fastest.
    #[must_use]
    pub fn core(&self, workgroup: u64) -> u8 {
        let share =
            workgroup.checked_div(self.chunk.into()).map_or(0, |at| at % u64::from(self.count.max(1)));
        self.cores[share as usize % MOST]
    }

    /// Returns true if this is a possible distribution: there are 1 to 8 cores, and every share's core is one
    /// of them.
    pub(crate) fn is_possible(&self) -> bool {
        let count = usize::from(self.count);
        (1..=MOST).contains(&count) && self.cores[..count].iter().all(|&core| core < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_are_dealt_in_chunks_by_turns() {
        // As KFD numbers the cores of its second queue.
        let shares = XccShares::dealt(1, &[1, 2, 3, 0]).expect("each share has a core");
        assert_eq!([0, 1, 2, 3, 4].map(|at| shares.core(at)), [3, 0, 1, 2, 3]);
        let pairs = XccShares::dealt(2, &[0, 1]).expect("each share has a core");
        assert_eq!([0, 1, 2, 3, 4].map(|at| pairs.core(at)), [0, 0, 1, 1, 0]);
        let one = XccShares::only(2, 4).expect("there is a third one");
        assert_eq!([0, 1, 9].map(|at| one.core(at)), [2; 3]);
        assert!(shares.is_possible() && one.is_possible());
    }

    #[test]
    fn shares_without_a_core_are_none() {
        for ids in [&[0, 0][..], &[0, 2], &[], &[0; 9]] {
            assert_eq!(XccShares::dealt(1, ids), None, "{ids:?}");
        }
        assert_eq!((XccShares::only(4, 4), XccShares::dealt(0, &[0])), (None, None));
    }
}
