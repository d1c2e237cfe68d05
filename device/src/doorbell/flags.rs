//! One bit for each doorbell.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{COUNT, PAGE, WORDS};

/// One flag for each 64-bit doorbell.
#[derive(Debug)]
pub(super) struct Flags(Box<[AtomicU64]>);

impl Flags {
    pub(super) fn new() -> Self {
        Self((0..COUNT / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, at: u64) -> (&AtomicU64, u64) {
        (&self.0[(at % COUNT / 64) as usize], 1 << (at % 64))
    }

    pub(super) fn get(&self, at: u64) -> bool {
        let (word, bit) = self.place(at);
        word.load(Ordering::Acquire) & bit != 0
    }

    /// Sets a flag. Returns true if it was set before.
    pub(super) fn set(&self, at: u64, on: bool) -> bool {
        let (word, bit) = self.place(at);
        let before =
            if on { word.fetch_or(bit, Ordering::AcqRel) } else { word.fetch_and(!bit, Ordering::AcqRel) };
        before & bit != 0
    }

    /// Returns true if a flag of the page at a byte offset is set.
    pub(super) fn any(&self, page: u64) -> bool {
        self.of_page(page).next().is_some()
    }

    /// Returns the doorbells of a page whose flags are set, lowest first.
    pub(super) fn of_page(&self, page: u64) -> impl Iterator<Item = u64> {
        let first = page / PAGE * (WORDS / 64);
        (first..first + WORDS / 64).flat_map(move |at| {
            let mut word = self.0[(at % (COUNT / 64)) as usize].load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at * 64 + u64::from(bit))
            })
        })
    }
}
