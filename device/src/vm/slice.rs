//! Accesses within one slice: accesses that belong together enter the address space once.

use std::sync::atomic::Ordering;

use belfry_isa::mem::Access;
use zerocopy::{FromBytes, IntoBytes};

use super::{Fault, FaultKind, Slice};
use crate::memory::Block;

impl Slice<'_> {
    /// Returns true if a thread waits for the end of this slice: for an invalidation, or to take guest memory away.
    pub(crate) fn is_awaited(&self) -> bool {
        self.memory.is_awaited()
    }

    /// Checks that an access to `va` is possible, by a walk of the page tables or by the result of a recent
    /// walk.
    pub(crate) fn translate(&self, va: u64, access: Access) -> Result<(), Fault> {
        self.space.reaches(self, va, access)
    }

    /// Runs `operation` on each contiguous block of `va..va + len`: block, offset in the range, bytes.
    fn blocks(
        &self,
        va: u64,
        len: usize,
        access: Access,
        mut operation: impl FnMut(Block<'_>, usize, usize),
    ) -> Result<(), Fault> {
        let mut done = 0usize;
        while done < len {
            let (block, there) = self.space.block_at(self, va.wrapping_add(done as u64), access)?;
            let now = ((len - done) as u64).min(there) as usize;
            operation(block, done, now);
            done += now;
        }
        Ok(())
    }

    /// As [`AddressSpace::read_bytes`](super::AddressSpace::read_bytes).
    pub(crate) fn read_bytes(&self, va: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.blocks(va, out.len(), Access::Read, |block, offset, len| {
            block.read(&mut out[offset..offset + len]);
        })
    }

    /// As [`AddressSpace::write_bytes`](super::AddressSpace::write_bytes).
    pub(crate) fn write_bytes(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        self.blocks(va, data.len(), Access::Write, |block, offset, len| {
            block.write(&data[offset..offset + len]);
        })
    }

    /// Reads a value.
    pub(crate) fn read<T: FromBytes + IntoBytes>(&self, va: u64) -> Result<T, Fault> {
        let mut value = T::new_zeroed();
        self.read_bytes(va, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Runs `operation` on the block at a naturally aligned `va`.
    pub(super) fn atomic<R>(
        &self,
        va: u64,
        access: Access,
        operation: impl FnOnce(Block<'_>) -> Option<R>,
    ) -> Result<R, Fault> {
        let (block, _) = self.space.block_at(self, va, access)?;
        operation(block).ok_or(Fault::new(va, access, FaultKind::Bus))
    }

    /// Reads 16 bits with one access (acquire); misaligned is a bus fault.
    pub(crate) fn load_u16(&self, va: u64) -> Result<u16, Fault> {
        self.atomic(va, Access::Read, |block| Some(block.atomic_u16()?.load(Ordering::Acquire)))
    }

    /// Writes 16 bits with one access (release); misaligned is a bus fault.
    pub(crate) fn store_u16(&self, va: u64, value: u16) -> Result<(), Fault> {
        self.atomic(va, Access::Write, |block| {
            block.atomic_u16()?.store(value, Ordering::Release);
            Some(())
        })
    }

    /// Reads 32 bits with one access (acquire); misaligned is a bus fault.
    pub(crate) fn load_u32(&self, va: u64) -> Result<u32, Fault> {
        self.atomic(va, Access::Read, |block| Some(block.atomic_u32()?.load(Ordering::Acquire)))
    }

    /// Writes 32 bits with one access (release); misaligned is a bus fault.
    pub(crate) fn store_u32(&self, va: u64, value: u32) -> Result<(), Fault> {
        self.atomic(va, Access::Write, |block| {
            block.atomic_u32()?.store(value, Ordering::Release);
            Some(())
        })
    }

    /// Reads 64 bits with one access (acquire); misaligned is a bus fault.
    pub(crate) fn load_u64(&self, va: u64) -> Result<u64, Fault> {
        self.atomic(va, Access::Read, |block| Some(block.atomic_u64()?.load(Ordering::Acquire)))
    }

    /// Writes 64 bits with one access (release); misaligned is a bus fault.
    pub(crate) fn store_u64(&self, va: u64, value: u64) -> Result<(), Fault> {
        self.atomic(va, Access::Write, |block| {
            block.atomic_u64()?.store(value, Ordering::Release);
            Some(())
        })
    }

    /// Adds to 64 bits atomically, wrapping; returns the value before.
    pub(crate) fn fetch_add_u64(&self, va: u64, value: u64) -> Result<u64, Fault> {
        if let Some(old) = self.space.update_mirrored(va, 8, &|old| old.wrapping_add(value))? {
            return Ok(old);
        }
        self.atomic(va, Access::Atomic, |block| Some(block.atomic_u64()?.fetch_add(value, Ordering::SeqCst)))
    }
}
