//! Printed forms of the driver's objects: lists of any length end after a few entries, and what memory holds is not shown.

use core::fmt;

/// Entries of a list that are shown.
const SHOWN: usize = 16;

/// A list of which the first entries are shown by their ids, and the number of the others.
pub(crate) struct Few<I>(pub(crate) I);

impl<K: fmt::Debug, V: fmt::Debug, I: Iterator<Item = (K, V)> + Clone> fmt::Debug for Few<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = self.0.clone();
        let mut map = f.debug_map();
        map.entries(entries.by_ref().take(SHOWN));
        match entries.count() {
            0 => {}
            more => {
                map.entry(&format_args!("and"), &format_args!("{more} more"));
            }
        }
        map.finish()
    }
}
