//! The runtime's memory by address, as a GPU and a driver see it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU64};

use zerocopy::{FromBytes, IntoBytes};

pub(crate) fn args<'a, T: FromBytes + IntoBytes>(arg: *mut c_void) -> &'a mut T {
    // SAFETY: the caller's argument struct, whose size and type follow from the request.
    unsafe { &mut *arg.cast() }
}

pub(crate) fn load<T: FromBytes>(address: u64) -> T {
    let pointer = std::ptr::with_exposed_provenance::<T>(address as usize);
    // SAFETY: addresses come from the runtime, whose buffer objects are mapped in this process.
    unsafe { pointer.read_unaligned() }
}

pub(crate) fn store<T>(address: u64, value: &T) {
    let pointer = std::ptr::with_exposed_provenance_mut::<T>(address as usize);
    // SAFETY: as for `load`.
    unsafe { pointer.copy_from_nonoverlapping(value, 1) };
}

pub(crate) fn atomic_u64<'a>(address: u64) -> &'a AtomicU64 {
    // SAFETY: as for `load`; such words are aligned.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

pub(crate) fn atomic_i64<'a>(address: u64) -> &'a AtomicI64 {
    // SAFETY: as for `atomic_u64`.
    unsafe { AtomicI64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}

pub(crate) fn atomic_u16<'a>(address: u64) -> &'a AtomicU16 {
    // SAFETY: as for `atomic_u64`.
    unsafe { AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
}
