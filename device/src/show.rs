//! Display of live state: lists of any length end after a few entries.

use std::fmt;

/// A list of which the first entries are shown, and the number of the others.
pub(crate) struct Few<I> {
    entries: I,
    most: usize,
}

impl<I> Few<I> {
    /// The first `most` of some entries.
    pub(crate) fn new<C: IntoIterator<IntoIter = I>>(most: usize, entries: C) -> Self {
        Self { entries: entries.into_iter(), most }
    }
}

impl<I: Iterator<Item: fmt::Debug> + Clone> fmt::Debug for Few<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = self.entries.clone();
        let mut list = f.debug_list();
        list.entries(entries.by_ref().take(self.most));
        match entries.count() {
            0 => {}
            more => {
                list.entry(&format_args!("{more} more"));
            }
        }
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_longer_than_wanted_ends_with_the_number_of_the_others() {
        assert_eq!(format!("{:?}", Few::new(3, 0..3)), "[0, 1, 2]");
        assert_eq!(format!("{:?}", Few::new(3, 0..1000)), "[0, 1, 2, 997 more]");
        assert_eq!(format!("{:?}", Few::new(3, 0..0)), "[]");
    }
}
