//! Bytes and values of memory, by location.

use std::sync::atomic::{AtomicU64, Ordering};

use belfry_isa::mem::Access;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Error, Memory, Physical};

impl Memory {
    /// Copies bytes out of memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers. Bytes before that place have been read.
    pub fn read_bytes(&self, location: Physical, out: &mut [u8]) -> Result<(), Error> {
        let slice = self.enter();
        let mut done = 0usize;
        while done < out.len() {
            let len = (out.len() - done) as u64;
            let at = location.checked_add(done as u64).ok_or(Error::OutOfRange { location, len })?;
            let block =
                self.block(&slice, at, Access::Read).ok_or(Error::OutOfRange { location: at, len })?;
            let now = len.min(block.len()) as usize;
            block.read(&mut out[done..done + now]);
            done += now;
        }
        Ok(())
    }

    /// Copies bytes into memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers. Bytes before that place have been written.
    pub fn write_bytes(&self, location: Physical, data: &[u8]) -> Result<(), Error> {
        let slice = self.enter();
        let mut done = 0usize;
        while done < data.len() {
            let len = (data.len() - done) as u64;
            let at = location.checked_add(done as u64).ok_or(Error::OutOfRange { location, len })?;
            let block =
                self.block(&slice, at, Access::Write).ok_or(Error::OutOfRange { location: at, len })?;
            let now = len.min(block.len()) as usize;
            block.write(&data[done..done + now]);
            done += now;
        }
        Ok(())
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers.
    pub fn read<T: FromBytes + IntoBytes>(&self, location: Physical) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        self.read_bytes(location, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers. Bytes before that place have been written.
    pub fn write<T: IntoBytes + Immutable>(&self, location: Physical, value: &T) -> Result<(), Error> {
        self.write_bytes(location, value.as_bytes())
    }

    /// Reads 32 bits with one access (acquire).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers, [`Error::Misaligned`] for an address that is no
    /// multiple of 4 bytes.
    pub fn load_u32(&self, location: Physical) -> Result<u32, Error> {
        let slice = self.enter();
        let block =
            self.block(&slice, location, Access::Read).ok_or(Error::OutOfRange { location, len: 4 })?;
        Ok(block.atomic_u32().ok_or(Error::Misaligned { location, len: 4 })?.load(Ordering::Acquire))
    }

    /// Reads 64 bits with one access (acquire).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers, [`Error::Misaligned`] for an address that is no
    /// multiple of 8 bytes.
    pub fn load_u64(&self, location: Physical) -> Result<u64, Error> {
        self.with_u64(location, Access::Read, |atomic| atomic.load(Ordering::Acquire))
    }

    /// Writes 32 bits with one access (release).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers, [`Error::Misaligned`] for an address that is no
    /// multiple of 4 bytes.
    pub fn store_u32(&self, location: Physical, value: u32) -> Result<(), Error> {
        let slice = self.enter();
        let block =
            self.block(&slice, location, Access::Write).ok_or(Error::OutOfRange { location, len: 4 })?;
        block.atomic_u32().ok_or(Error::Misaligned { location, len: 4 })?.store(value, Ordering::Release);
        Ok(())
    }

    /// Writes 64 bits with one access (release).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers, [`Error::Misaligned`] for an address that is no
    /// multiple of 8 bytes.
    pub fn store_u64(&self, location: Physical, value: u64) -> Result<(), Error> {
        self.with_u64(location, Access::Write, |atomic| atomic.store(value, Ordering::Release))
    }

    /// Adds to 64 bits atomically, wrapping; returns the value before.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] where no memory answers, [`Error::Misaligned`] for an address that is no
    /// multiple of 8 bytes.
    pub fn fetch_add_u64(&self, location: Physical, value: u64) -> Result<u64, Error> {
        if self.is_mirrored() {
            if !location.offset.is_multiple_of(8) {
                return Err(Error::Misaligned { location, len: 8 });
            }
            let old = self.update_mirrored(&self.enter(), location, 8, &|old| old.wrapping_add(value));
            return old.ok_or(Error::OutOfRange { location, len: 8 });
        }
        self.with_u64(location, Access::Atomic, |atomic| atomic.fetch_add(value, Ordering::SeqCst))
    }

    fn with_u64<R>(
        &self,
        location: Physical,
        access: Access,
        operation: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, Error> {
        let slice = self.enter();
        let block = self.block(&slice, location, access).ok_or(Error::OutOfRange { location, len: 8 })?;
        Ok(operation(block.atomic_u64().ok_or(Error::Misaligned { location, len: 8 })?))
    }
}
