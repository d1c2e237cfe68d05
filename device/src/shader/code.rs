//! Code of the address spaces that waves run in, which all workers share.

use std::sync::{Arc, PoisonError, Weak};

use belfry_isa::code_cache::SharedCode;
use belfry_isa::code_store::KeptCode;
use belfry_isa::exec::CodeTimes;
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_lock::{Mutex, rank};

/// The code of each address space that a worker has a cache of.
#[derive(Debug)]
pub(super) struct CodeSpaces {
    arch: Arch,
    backend: Backend,
    /// Store of machine code, if there is one.
    kept: Option<Arc<KeptCode>>,
    /// By [`Mmu::context`](belfry_isa::mem::Mmu::context). The workers' caches own the code.
    spaces: Mutex<Vec<(u64, Weak<SharedCode>)>, rank::CodeSpaces>,
}

impl CodeSpaces {
    /// Makes an empty one for code of `arch` that `backend` executes. The store `kept` keeps the machine code.
    pub(super) fn new(arch: Arch, backend: Backend, kept: Option<Arc<KeptCode>>) -> CodeSpaces {
        CodeSpaces { arch, backend, kept, spaces: Mutex::default() }
    }

    /// Returns the code of an address space, for a worker that begins to run waves in it.
    pub(super) fn of(&self, context: u64) -> Arc<SharedCode> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) =
            spaces.iter().find(|(known, _)| *known == context).and_then(|(_, code)| code.upgrade())
        {
            return code;
        }
        spaces.retain(|(_, code)| code.strong_count() > 0);
        let code = Arc::new(SharedCode::new(self.arch, self.backend).kept_in(self.kept.clone()));
        spaces.push((context, Arc::downgrade(&code)));
        code
    }
}

impl CodeSpaces {
    /// Takes the times that the code of all address spaces has counted since the last call; zeros if it does not count.
    pub(super) fn take_times(&self) -> CodeTimes {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = CodeTimes::default();
        spaces.iter().filter_map(|(_, code)| code.upgrade()).for_each(|code| code.take_times(&mut times));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_an_address_space_is_shared_while_a_worker_has_it() {
        let spaces = CodeSpaces::new(Arch::Gfx1100, Backend::detect(), None);
        let (first, again, other) = (spaces.of(1), spaces.of(1), spaces.of(2));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        drop((first, again));
        let _next = spaces.of(3);
        assert_eq!(
            spaces.spaces.lock().map(|spaces| spaces.len()).ok(),
            Some(2),
            "1 is gone, 2 and 3 are there"
        );
    }
}
