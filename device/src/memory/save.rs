//! VRAM as bytes: only pages that are not all zero.

use serde::{Deserialize, Serialize};

use super::{Memory, Physical};
use crate::save::{Broken, check};

const PAGE: usize = 4096;
const BLANK: [u8; PAGE] = [0; PAGE];

/// Pages that follow each other.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Run {
    /// Byte offset in VRAM.
    at: u64,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

/// The contents of VRAM.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedVram(Vec<Run>);

impl Memory {
    fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.vram_size()).step_by(PAGE)
    }

    /// The contents of VRAM.
    pub(crate) fn save(&self) -> SavedVram {
        if let Some(mirror) = &self.mirror {
            return SavedVram(mirror.vram_pages().into_iter().map(|(at, bytes)| Run { at, bytes }).collect());
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut page = BLANK;
        for at in self.pages() {
            if self.read_bytes(Physical::local(at), &mut page).is_err() || page == BLANK {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.at + run.bytes.len() as u64 == at => run.bytes.extend_from_slice(&page),
                _ => runs.push(Run { at, bytes: page.to_vec() }),
            }
        }
        SavedVram(runs)
    }

    /// Replaces the contents of VRAM with those of another device's VRAM.
    pub(crate) fn restore(&self, saved: &SavedVram) -> Result<(), Broken> {
        let mut end = 0;
        for run in &saved.0 {
            let whole = run.at.is_multiple_of(PAGE as u64) && run.bytes.len().is_multiple_of(PAGE);
            check("place of pages in VRAM", run.at, whole && run.at >= end)?;
            let last = run.at.checked_add(run.bytes.len() as u64);
            end = last.filter(|&last| last <= self.vram_size()).unwrap_or(u64::MAX);
            check("end of pages in VRAM", end, end != u64::MAX)?;
        }
        let mut runs = saved.0.iter().peekable();
        let mut page = BLANK;
        for at in self.pages() {
            while runs.next_if(|run| run.at + run.bytes.len() as u64 <= at).is_some() {}
            if runs.peek().is_some_and(|run| run.at <= at) {
                continue;
            }
            // Reading first keeps a fresh region sparse.
            let blank = self.read_bytes(Physical::local(at), &mut page).is_ok() && page == BLANK;
            if !blank && self.write_bytes(Physical::local(at), &BLANK).is_err() {
                return Err(Broken { field: "page of VRAM", value: at });
            }
        }
        for Run { at, bytes } in &saved.0 {
            let written = self.write_bytes(Physical::local(*at), bytes);
            written.map_err(|_| Broken { field: "page of VRAM", value: *at })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;

    fn memory() -> Memory {
        let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
        Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new()))
    }

    #[test]
    fn vram_is_saved_sparsely_and_replaces_what_was_there() {
        let (original, restored) = (memory(), memory());
        for (at, value) in [(0u64, 1u32), (4096, 2), (0x5ffc, 3), ((1 << 20) - 4, 4)] {
            original.store_u32(Physical::local(at), value).expect("in VRAM");
        }
        restored.store_u32(Physical::local(0x8000), 9).expect("in VRAM");
        let saved = original.save();
        let runs: Vec<_> = saved.0.iter().map(|run| (run.at, run.bytes.len())).collect();
        assert_eq!(runs, [(0, 0x2000), (0x5000, 0x1000), ((1 << 20) - 0x1000, 0x1000)]);
        restored.restore(&saved).expect("pages");
        assert_eq!(restored.save(), saved);
        assert_eq!(restored.load_u32(Physical::local(0x5ffc)), Ok(3));
    }

    #[test]
    fn pages_that_overlap_or_lie_outside_are_refused() {
        let run = |at, len| Run { at, bytes: vec![1; len] };
        for bad in [
            vec![run(1, PAGE)],
            vec![run(0, 1)],
            vec![run(0, 2 * PAGE), run(PAGE as u64, PAGE)],
            vec![run(1 << 20, PAGE)],
            vec![run(u64::MAX - 4095, PAGE)],
        ] {
            assert!(memory().restore(&SavedVram(bad.clone())).is_err(), "{bad:x?}");
        }
    }
}
