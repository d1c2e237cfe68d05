//! Memory that a process shares by handles.

use std::collections::BTreeMap;

use belfry_lock::{Mutex, rank};

use crate::gems::HostedGem;
use crate::keeper::Kept;
use crate::sync::lock;

/// Memory that a process has exported or imported by IPC handles, keyed by its buffer objects' handles.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    table: Mutex<Table, rank::Handles>,
}

#[derive(Debug, Default)]
struct Table {
    /// The file that is kept open for others, and the handle that leads there.
    exported: BTreeMap<u64, (Kept, [u32; 4])>,
    /// Imported memory that can be mapped through the render node.
    imported: BTreeMap<u64, HostedGem>,
}

impl Handles {
    /// Returns true if there are no handles.
    pub(crate) fn is_empty(&self) -> bool {
        let table = lock(&self.table);
        table.exported.is_empty() && table.imported.is_empty()
    }

    /// The handle that was given of a buffer object before.
    pub(crate) fn exported(&self, bo: u64) -> Option<[u32; 4]> {
        lock(&self.table).exported.get(&bo).map(|(_, words)| *words)
    }

    pub(crate) fn insert_exported(&self, bo: u64, kept: Kept, words: [u32; 4]) {
        lock(&self.table).exported.insert(bo, (kept, words));
    }

    pub(crate) fn insert_imported(&self, bo: u64, gem: HostedGem) {
        lock(&self.table).imported.insert(bo, gem);
    }

    /// A buffer object was freed.
    pub(crate) fn forget(&self, bo: u64) {
        let gone = {
            let mut table = lock(&self.table);
            (table.exported.remove(&bo), table.imported.remove(&bo))
        };
        drop(gone);
    }
}
