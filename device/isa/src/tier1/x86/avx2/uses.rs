//! Registers that elements of a run use, and the distance to their next use.

use crate::exec::di::{Di, Kind};
use crate::exec::form::Form;
use crate::tier1::analysis::runs::scalars_of;
use crate::tier1::analysis::template;
use crate::tier1::x86::body::EXEC;

use super::cache::Key;

/// Elements that are looked at for the next use of something.
const AHEAD: usize = 64;

/// Distance to the next use of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    /// So many elements later.
    In(u32),
    /// No more in the run, as far as that is known; the code after the run may need it.
    Never,
    /// Never: it is written anew before anything reads it.
    Dead,
}

/// Contents that an element has in registers.
pub(super) struct Uses {
    pub(super) keys: Vec<Key>,
    /// Rows that it writes in all lanes and does not read.
    overwritten: Vec<Key>,
}

impl Uses {
    pub(super) fn new(form: Form, d: &Di, halves: u32, masked: bool) -> Uses {
        let written = template::written(form, d, halves);
        // Addresses of loads stay in memory.
        let rows = if form.is_memory() { written.clone() } else { template::rows(form, d, halves) };
        let rows = rows.into_iter().filter(|row| row.is_multiple_of(halves));
        let mut keys: Vec<Key> = rows.map(Key::Row).collect();
        let (splats, masks) = scalars_of(form, d);
        keys.extend(splats.into_iter().map(Key::Splat));
        keys.extend(masks.into_iter().map(Key::Mask));
        if masked {
            keys.push(Key::Mask(EXEC));
        }
        let overwrites = !masked && !template::keeps(form, d);
        let reads = |row: &u32| {
            !form.is_memory()
                && d.src.iter().any(|source| {
                    source.kind == Kind::Vector && (source.value..source.value + 2 * halves).contains(row)
                })
        };
        let overwritten = if overwrites { written } else { Vec::new() };
        Uses { keys, overwritten: overwritten.into_iter().filter(|row| !reads(row)).map(Key::Row).collect() }
    }

    /// The uses of a scalar element: none.
    pub(super) fn nothing() -> Uses {
        Uses { keys: Vec::new(), overwritten: Vec::new() }
    }
}

/// Returns the distance to the next use by these elements or those after them.
pub(super) fn next_use(uses: &[Uses], key: Key) -> Next {
    let later = uses.iter().take(AHEAD).zip(0..);
    let mut later = later.filter(|(uses, _)| uses.keys.contains(&key));
    match later.next() {
        Some((uses, _)) if uses.overwritten.contains(&key) => Next::Dead,
        Some((_, distance)) => Next::In(distance),
        None => Next::Never,
    }
}
