//! The entries of a record, as they lie in memory.

use crate::record;
use crate::text::same;

/// One entry of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: u8,
    pub(crate) value: *const u8,
    pub(crate) size: usize,
}

/// The entries of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    at: *const u8,
    left: usize,
}

impl Entries {
    /// Entries of a file's content; `None` if it is no record.
    ///
    /// # Safety
    ///
    /// `size` bytes can be read as long as the entries are used.
    pub(crate) unsafe fn of(content: *const u8, size: usize) -> Option<Self> {
        let magic = record::MAGIC.len();
        // SAFETY: both have that many bytes.
        (size >= magic && unsafe { same(content, record::MAGIC.as_ptr(), magic) }).then_some(())?;
        // SAFETY: as many bytes are there.
        Some(Self { at: unsafe { content.add(magic) }, left: size - magic })
    }

    /// The next one; nothing where the record is cut off.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        const HEAD: usize = 5;
        if self.left < HEAD {
            return None;
        }
        // SAFETY: the head is there.
        let (kind, size) = unsafe {
            let byte = |at: usize| *self.at.add(at) as usize;
            (*self.at, byte(1) | byte(2) << 8 | byte(3) << 16 | byte(4) << 24)
        };
        if self.left - HEAD <= size {
            return None;
        }
        // SAFETY: value and zero byte are there.
        let (value, zero) = unsafe { (self.at.add(HEAD), *self.at.add(HEAD + size)) };
        if zero != 0 {
            return None;
        }
        // SAFETY: likewise.
        self.at = unsafe { value.add(size + 1) };
        self.left -= HEAD + size + 1;
        Some(Entry { kind, value, size })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// An entry of a record.
    pub(crate) fn entry(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = [&[kind], &(value.len() as u32).to_le_bytes()[..], value].concat();
        bytes.push(0);
        bytes
    }

    fn entries(content: &[u8]) -> Option<Vec<(u8, Vec<u8>)>> {
        // SAFETY: the content is a slice.
        let mut list = unsafe { Entries::of(content.as_ptr(), content.len()) }?;
        let mut all = Vec::new();
        loop {
            let Entry { kind, value, size } = list.next()?;
            // SAFETY: an entry lies in the content.
            all.push((kind, unsafe { std::slice::from_raw_parts(value, size) }.to_vec()));
            if kind == record::END {
                return Some(all);
            }
        }
    }

    proptest! {
        /// A part of a record is no record, and a whole one is read as it was written.
        #[test]
        fn records_are_read_whole_or_not(values in proptest::collection::vec((97u8..123, proptest::collection::vec(any::<u8>(), 0..40)), 0..8), cut in any::<prop::sample::Index>()) {
            let mut content = record::MAGIC.to_vec();
            let mut wanted: Vec<(u8, Vec<u8>)> = values;
            wanted.push((record::END, Vec::new()));
            for (kind, value) in &wanted {
                content.extend(entry(*kind, value));
            }
            prop_assert_eq!(entries(&content), Some(wanted));
            let cut = cut.index(content.len());
            prop_assert_eq!(entries(&content[..cut]), None);
        }

        #[test]
        fn any_bytes_are_read_without_leaving_them(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut content = record::MAGIC.to_vec();
            content.extend(bytes);
            let _ = entries(&content);
        }
    }
}
