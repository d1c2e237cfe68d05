//! One process, as the GPU sees it.

use core::marker::PhantomData;

use crate::os::{Os, ProcessKey};

/// A process that opened the KFD node.
pub struct Process<O: Os> {
    key: ProcessKey,
    os: PhantomData<O>,
}

impl<O: Os> Process<O> {
    /// Returns the address space it belongs to.
    pub fn key(&self) -> ProcessKey {
        self.key
    }
}
