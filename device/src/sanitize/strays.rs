//! Accesses of global memory beyond allocations, and in freed allocations.

use belfry_isa::exec::{About, Place};

use super::finding::Rule;
use super::group::{Group, doing};
use super::memory::Stray;

impl Group {
    /// Compares an instruction's accesses of global memory with the allocations; reports the first stray
    /// access.
    pub(super) fn strays(&mut self, index: usize, about: &About<'_>) {
        let grid = &self.grid;
        if about.touches.is_empty() || !grid.sanitizer.checks_memory() {
            return;
        }
        let mut within = self.within;
        let found = about.touches.iter().find_map(|touch| {
            let Place::Global(va) = touch.place else { return None };
            let end = va.saturating_add(u64::from(touch.bytes));
            let (stray, is_sure) = grid.sanitizer.stray((va, end), &mut within)?;
            (is_sure || !(grid.sight.is_mapped)(va)).then_some((touch, stray))
        });
        self.within = within;
        let Some((touch, stray)) = found else { return };
        let (rule, what) = match stray {
            Stray::Beside { va, bytes } => (Rule::GlobalOutOfBounds, format!("{va:#x} has {bytes} bytes")),
            Stray::Freed { va, bytes } => (Rule::UseAfterFree, format!("{va:#x} had {bytes} bytes")),
        };
        if !self.grid.sanitizer.checks(rule) {
            return;
        }
        let known = self.grid.lock();
        self.grid.found(rule, (about.pc, 0), || {
            let does = format!("{}; the allocation at {what}", doing(touch));
            let number = self.first + index as u32;
            (known.here(number, about.pc, Some(touch.lane), self.text(about.inst), does), None)
        });
    }
}
