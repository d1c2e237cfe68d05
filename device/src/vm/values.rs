//! Bytes and values of an address space, by virtual address.

use belfry_isa::mem::Access;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{AddressSpace, Fault, FaultKind};
use crate::memory::Physical;

impl AddressSpace {
    /// Copies bytes out; stops at the first fault, when the rest of `out` is unchanged.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, or a location without memory: the fault names
    /// the first address concerned.
    pub fn read_bytes(&self, va: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.enter().read_bytes(va, out)
    }

    /// Copies bytes in; stops at the first fault, when earlier pages have been written.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, or a location without memory: the fault names
    /// the first address concerned.
    pub fn write_bytes(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        self.enter().write_bytes(va, data)
    }

    /// Copies `len` bytes from one range to another that it does not overlap; stops at the first fault, when earlier
    /// bytes have been written.
    pub(crate) fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), Fault> {
        let slice = self.enter();
        let mut done = 0;
        while done < len {
            let (source, readable) = self.block_at(&slice, from.wrapping_add(done), Access::Read)?;
            let (target, writable) = self.block_at(&slice, to.wrapping_add(done), Access::Write)?;
            let now = readable.min(writable).min(len - done);
            source.copy_to(target, now);
            done += now;
        }
        Ok(())
    }

    /// Writes these eight bytes again and again over a range, the last time only as far as it goes; stops at
    /// the first fault, when earlier bytes have been written.
    pub(crate) fn fill(&self, to: u64, pattern: [u8; 8], len: u64) -> Result<(), Fault> {
        let slice = self.enter();
        let mut done = 0;
        while done < len {
            let (block, writable) = self.block_at(&slice, to.wrapping_add(done), Access::Write)?;
            let mut rotated = pattern;
            rotated.rotate_left((done % 8) as usize);
            let now = writable.min(len - done);
            block.fill(rotated, now);
            done += now;
        }
        Ok(())
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, or a location without memory: the fault names
    /// the first address concerned.
    pub fn read<T: FromBytes + IntoBytes>(&self, va: u64) -> Result<T, Fault> {
        self.enter().read(va)
    }

    /// Writes a value.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, or a location without memory: the fault names
    /// the first address concerned.
    pub fn write<T: IntoBytes + Immutable>(&self, va: u64, value: &T) -> Result<(), Fault> {
        self.write_bytes(va, value.as_bytes())
    }

    /// Physical location of `va`.
    ///
    /// # Errors
    ///
    /// A page that is not mapped or does not allow the access, and [`FaultKind::Bus`] for a page whose
    /// location has no address.
    pub fn locate(&self, va: u64, access: Access) -> Result<Physical, Fault> {
        let bus = Fault::new(va, access, FaultKind::Bus);
        self.translate(va, access)?.locate(va).ok_or(bus)
    }
}
