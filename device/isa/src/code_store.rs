//! Compiled code that outlives its process, in a store that the host gives.
//!
//! The engine opens no file: it asks a [`CodeStore`] for the code under a key, and gives it code to keep. A key is a
//! hash of everything that the code was made from, this build of the engine included, so code found under it is the
//! code that compiling would give. It is machine code and is executed: a program that may write to the store decides
//! what the process does. See docs/tiers.md.

use core::error::Error;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// Key of a piece of code: SHA-256 of everything that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeKey(pub [u8; 32]);

impl fmt::Display for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Answer of a store to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An entry that the store does not trust.
    Refused,
    /// The bytes that were given to [`CodeStore::keep`], possibly damaged since.
    Code(Vec<u8>),
}

/// A store that keeps code from one process to the next.
///
/// Several threads call it at once. A store reports its own failures, and not too often; a run does not fail because
/// of them.
pub trait CodeStore: fmt::Debug + Send + Sync {
    /// Looks up the code under a key.
    fn find(&self, key: &CodeKey) -> Found;

    /// Keeps code under a key; returns true if it is kept.
    fn keep(&self, key: &CodeKey, code: &[u8]) -> bool;

    /// Tells the store that the code found under a key is no code of this key, and need not be kept.
    fn discard(&self, key: &CodeKey, why: &dyn Error);
}

/// Numbers of regions that were to be compiled, by outcome, in a process that keeps code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct KeptCounts {
    /// Found, and not compiled.
    pub loaded: u64,
    /// Compiled and kept.
    pub stored: u64,
    /// Found and not used, as it was not whole or not to be trusted; compiled instead.
    pub refused: u64,
    /// Compiled and not kept: small ones, and code that counts, which is bound to its process.
    pub left_out: u64,
}

impl fmt::Display for KeptCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeptCounts { loaded, stored, refused, left_out } = self;
        write!(f, "{loaded} regions loaded, {stored} stored, {refused} refused, {left_out} left out")
    }
}

/// A store, and counts of its answers.
#[derive(Debug)]
pub struct KeptCode {
    store: Box<dyn CodeStore>,
    least: usize,
    loaded: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
    left_out: AtomicU64,
}

impl KeptCode {
    /// Code of regions with `least` elements and more is kept in `store`: making less may take no longer than finding it.
    pub fn new(store: impl CodeStore + 'static, least: usize) -> KeptCode {
        KeptCode {
            store: Box::new(store),
            least,
            loaded: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> KeptCounts {
        KeptCounts {
            loaded: self.loaded.load(Ordering::Relaxed),
            stored: self.stored.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl KeptCode {
    /// Returns true if code of a region with this many elements is kept.
    pub(crate) fn keeps(&self, elements: usize) -> bool {
        elements >= self.least
    }

    /// Opens the code that is kept under a key with `open`. Returns `None` if there is none, if the store does not
    /// trust it, or if `open` refuses it.
    pub(crate) fn load<T, E: Error>(
        &self,
        key: &CodeKey,
        open: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Option<T> {
        let found = match self.store.find(key) {
            Found::Nothing => return None,
            Found::Refused => None,
            Found::Code(bytes) => open(&bytes).inspect_err(|why| self.store.discard(key, why)).ok(),
        };
        let counter = if found.is_some() { &self.loaded } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps code under a key.
    pub(crate) fn store(&self, key: &CodeKey, code: &[u8]) {
        if self.store.keep(key, code) {
            self.stored.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a region that is not kept.
    pub(crate) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}
