//! Pages of the device's own BARs, which it reaches over the bus like memory.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Place of a bus address in a page of the device's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPlace {
    /// The address on the host.
    pub(crate) host: *mut u8,
    /// Bytes of the device's own before that address, and from it on.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// The BARs whose pages take stores.
///
/// # Safety
///
/// Memory that [`find`](Self::find) returns is mapped, readable and writable, as long as the object lives,
/// and is only ever accessed through atomics.
pub(crate) unsafe trait OwnPages: Send + Sync {
    /// The place of an address on the bus, if the device answers there.
    fn find(&self, address: u64) -> Option<OwnPlace>;

    /// Returns true if the device has flushed the host data path by a store since the last call.
    fn have_flushed(&self) -> bool;
}

/// The device's own pages, once their places are known.
#[derive(Default)]
pub(super) struct Own(OnceLock<Arc<dyn OwnPages>>);

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.0.get().is_some()).finish()
    }
}

impl Own {
    /// Sets the device's own pages; only the first call counts.
    pub(super) fn set(&self, pages: Arc<dyn OwnPages>) {
        let _ = self.0.set(pages);
    }

    pub(super) fn find(&self, address: u64) -> Option<OwnPlace> {
        self.0.get()?.find(address)
    }

    pub(super) fn have_flushed(&self) -> bool {
        self.0.get().is_some_and(|pages| pages.have_flushed())
    }
}
