//! Single accesses and atomic updates of an address space, as the packet processors do them.

use std::sync::atomic::Ordering;

use belfry_isa::mem::Access;

use super::{AddressSpace, Fault, FaultKind};

impl AddressSpace {
    /// Atomically updates `size` bytes (4 or 8) of mirrored memory; `None` if memory is not mirrored, and the
    /// update is done in place.
    pub(super) fn update_mirrored(
        &self,
        va: u64,
        size: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<Option<u64>, Fault> {
        if !self.memory.is_mirrored() {
            return Ok(None);
        }
        let slice = self.enter();
        let bus = Fault::new(va, Access::Atomic, FaultKind::Bus);
        let translation = self.translate_in(&slice, va, Access::Atomic)?;
        let location = translation.locate(va).ok_or(bus)?;
        let old = self.memory.update_mirrored(&slice.memory, location, size, update);
        old.map(Some).ok_or(bus)
    }

    /// Runs `operation` on the block at a naturally aligned `va`.
    fn atomic<R>(
        &self,
        va: u64,
        access: Access,
        operation: impl FnOnce(crate::memory::Block<'_>) -> Option<R>,
    ) -> Result<R, Fault> {
        self.enter().atomic(va, access, operation)
    }

    /// Reads 16 bits with one access (acquire); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn load_u16(&self, va: u64) -> Result<u16, Fault> {
        self.enter().load_u16(va)
    }

    /// Writes 16 bits with one access (release); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn store_u16(&self, va: u64, value: u16) -> Result<(), Fault> {
        self.enter().store_u16(va, value)
    }

    /// Reads 32 bits with one access (acquire); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn load_u32(&self, va: u64) -> Result<u32, Fault> {
        self.enter().load_u32(va)
    }

    /// Writes 32 bits with one access (release); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn store_u32(&self, va: u64, value: u32) -> Result<(), Fault> {
        self.enter().store_u32(va, value)
    }

    /// Reads 64 bits with one access (acquire); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn load_u64(&self, va: u64) -> Result<u64, Fault> {
        self.enter().load_u64(va)
    }

    /// Writes 64 bits with one access (release); misaligned is a bus fault.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn store_u64(&self, va: u64, value: u64) -> Result<(), Fault> {
        self.enter().store_u64(va, value)
    }

    /// Adds to 64 bits atomically, wrapping; returns the value before.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn fetch_add_u64(&self, va: u64, value: u64) -> Result<u64, Fault> {
        self.enter().fetch_add_u64(va, value)
    }

    /// Replaces 32 bits with `new` of their value, atomically; returns the value before.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn update_u32(&self, va: u64, new: impl Fn(u32) -> u32) -> Result<u32, Fault> {
        if let Some(old) = self.update_mirrored(va, 4, &|old| new(old as u32).into())? {
            return Ok(old as u32);
        }
        self.atomic(va, Access::Atomic, |block| {
            let updated =
                block.atomic_u32()?.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(new(old)));
            Some(updated.unwrap_or_else(|before| before))
        })
    }

    /// Replaces 64 bits with `new` of their value, atomically; returns the value before.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn update_u64(&self, va: u64, new: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        if let Some(old) = self.update_mirrored(va, 8, &new)? {
            return Ok(old);
        }
        self.atomic(va, Access::Atomic, |block| {
            let updated =
                block.atomic_u64()?.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(new(old)));
            Some(updated.unwrap_or_else(|before| before))
        })
    }

    /// Replaces 64 bits if they are `current`; returns the value before either way.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, a location without memory, a misaligned
    /// address: the fault names the address and its kind.
    pub fn compare_exchange_u64(&self, va: u64, current: u64, new: u64) -> Result<u64, Fault> {
        let exchange = |old| if old == current { new } else { old };
        if let Some(old) = self.update_mirrored(va, 8, &exchange)? {
            return Ok(old);
        }
        self.atomic(va, Access::Atomic, |block| {
            let result =
                block.atomic_u64()?.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
            Some(result.unwrap_or_else(|before| before))
        })
    }
}
