//! Changed pages of the copy, and the copy put together again from them: for the checkpoints of a replay.

use std::collections::HashMap;

use super::{BYTES, Mirror, PAGE, Page, mark};

/// Bytes of pages by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Changes(HashMap<u64, Box<[u8; BYTES]>>);

impl Changes {
    /// Bytes of memory that they take, roughly.
    pub(crate) fn size(&self) -> u64 {
        /// Bytes of an entry beside its page.
        const ENTRY: u64 = 32;
        self.0.len() as u64 * (PAGE + ENTRY)
    }

    /// Adds the pages of earlier changes that these changes do not have.
    pub(crate) fn add_earlier(&mut self, earlier: Self) {
        for (page, bytes) in earlier.0 {
            self.0.entry(page).or_insert(bytes);
        }
    }
}

impl Mirror {
    /// Takes the pages that have changed since the last call, or all pages at the first call. Changes are noted from the first call on.
    /// The device must not be used while this runs.
    pub(crate) fn take_changes(&self) -> Changes {
        let mut state = self.lock();
        let state = &mut *state;
        let all = || state.pages.keys().copied().collect();
        let changed = state.marked.changed.replace(Vec::new()).unwrap_or_else(all);
        let bytes = changed.into_iter().filter_map(|number| {
            let page = state.pages.get_mut(&number)?;
            page.changed = false;
            let mut bytes = Box::new([0; BYTES]);
            page.block().read(&mut bytes[..]);
            Some((number, bytes))
        });
        Changes(bytes.collect())
    }

    /// Ranges of guest memory.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        self.lock().ranges.clone()
    }

    /// Builds the copy on a mirror that has no pages: from these changes in order, and from the ranges of
    /// guest memory.
    pub(crate) fn put<'a>(&self, all: impl Iterator<Item = &'a Changes>, ranges: &[(u64, u64)]) {
        {
            let mut state = self.lock();
            let state = &mut *state;
            for (&number, bytes) in all.flat_map(|changes| &changes.0) {
                let page = state.pages.entry(number).or_insert_with(Page::new);
                page.block().write(&bytes[..]);
                mark(page, number, &mut state.marked);
            }
            // Changes are noted from here on.
            state.pages.values_mut().for_each(|page| page.changed = false);
            state.marked.changed = Some(Vec::new());
        }
        self.set_ranges(ranges.to_vec());
    }
}
