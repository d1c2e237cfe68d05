//! Whether waves are executed at this moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the threads that execute waves.
///
/// The count may be in memory that others see: what a host does with several devices as one card is its own matter.
#[derive(Clone, Debug)]
pub struct Activity(Place);

#[derive(Clone, Debug)]
enum Place {
    Own(Arc<AtomicU32>),
    Shared(&'static AtomicU32),
}

impl Default for Activity {
    fn default() -> Self {
        Self(Place::Own(Arc::default()))
    }
}

impl Activity {
    /// Counts in this word, which belongs to one device alone.
    #[must_use]
    pub fn shared(word: &'static AtomicU32) -> Self {
        Self(Place::Shared(word))
    }

    fn word(&self) -> &AtomicU32 {
        match &self.0 {
            Place::Own(word) => word,
            Place::Shared(word) => word,
        }
    }

    /// Whether a thread executes waves.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.word().load(Ordering::Relaxed) != 0
    }

    /// A thread begins to execute waves, until what this gives is dropped.
    pub(crate) fn begin(&self) -> Executing<'_> {
        self.word().fetch_add(1, Ordering::Relaxed);
        Executing(self)
    }
}

/// A thread that executes waves.
pub(crate) struct Executing<'a>(&'a Activity);

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.0.word().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_from_the_first_thread_to_the_last() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        for activity in [Activity::default(), Activity::shared(&WORD)] {
            assert!(!activity.is_busy());
            let first = activity.begin();
            let second = activity.begin();
            drop(first);
            assert!(activity.clone().is_busy());
            drop(second);
            assert!(!activity.is_busy());
        }
    }
}
