//! GEM_VA: buffer objects in the address space of the file (`amdgpu_gem_va_ioctl`, `amdgpu_vm.c`).

use alloc::sync::Arc;

use belfry_abi::kfd::drm::{
    AMDGPU_VA_OP_CLEAR, AMDGPU_VA_OP_MAP, AMDGPU_VA_OP_REPLACE, AMDGPU_VA_OP_UNMAP, AMDGPU_VM_MTYPE_UC,
    GemVaArgs, GemVaFlags,
};

use super::Call;
use crate::asic::PageRights;
use crate::errno::{Errno, Result};
use crate::object::Object;
use crate::os::{Backing, Os, PAGE_SIZE};
use crate::space::{END_VA, FIRST_VA, Mapping, VA_BITS};

/// Flags of pages of memory, and of those that are not resident (`valid_flags`, `prt_flags`).
const FLAGS: GemVaFlags = GemVaFlags::all().difference(GemVaFlags::PRT);
const NOT_RESIDENT: GemVaFlags = GemVaFlags::PRT.union(GemVaFlags::DELAY_UPDATE);

/// GEM_VA.
///
/// # Errors
///
/// `EINVAL` for an address, a length, an offset, flags or an operation that is not taken and for a range that is mapped
/// already, `ENOENT` for a bad handle and for a mapping that is not there, `ENOMEM`, `ETIME`, `ERESTARTSYS`.
pub(super) fn change<O: Os>(call: &Call<'_, O>, args: &GemVaArgs) -> Result<()> {
    let flags = GemVaFlags::from_bits(args.flags).ok_or(Errno::EINVAL)?;
    let va = fold(args.va_address).ok_or(Errno::EINVAL)?;
    let fits = va.checked_add(args.map_size).is_some_and(|end| end <= END_VA);
    if va < FIRST_VA || !fits || !(FLAGS.contains(flags) || NOT_RESIDENT.contains(flags)) {
        return Err(Errno::EINVAL);
    }
    let space = call.client.space();
    if args.operation != AMDGPU_VA_OP_MAP {
        // What is unmapped goes after the work that was submitted before.
        call.client.wait_idle(None)?;
    }
    match args.operation {
        AMDGPU_VA_OP_MAP | AMDGPU_VA_OP_REPLACE => {
            let backing = named(call, args, flags)?;
            check_range(args, va, backing.as_ref())?;
            // Memory of a program that is not there yet is looked for again when work names it.
            if let Some(range) = backing.as_deref().and_then(Object::<O>::of).and_then(Object::user)
                && range.key() == call.file.caller()
            {
                let _ = range.populate();
            }
            let mapping =
                Mapping { len: args.map_size, backing, offset: args.offset_in_bo, rights: rights(flags) };
            let (result, unmapped) = space.map(va, mapping, args.operation == AMDGPU_VA_OP_REPLACE);
            drop(unmapped);
            result
        }
        AMDGPU_VA_OP_UNMAP => {
            let backing = named(call, args, flags)?;
            // The length does not count: what one MAP has mapped goes.
            space.unmap(va, backing.as_ref()).map(drop)
        }
        AMDGPU_VA_OP_CLEAR => {
            if args.map_size == 0 || !(va | args.map_size).is_multiple_of(PAGE_SIZE) {
                return Err(Errno::EINVAL);
            }
            space.clear(va, args.map_size).map(drop)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The buffer object of a mapping; `None` for one of pages that are not resident, which names none.
fn named<O: Os>(call: &Call<'_, O>, args: &GemVaArgs, flags: GemVaFlags) -> Result<Option<Arc<dyn Backing>>> {
    if flags.contains(GemVaFlags::PRT) { Ok(None) } else { call.file.lookup(args.handle).map(Some) }
}

/// An address without the bits that repeat its highest one; `None` for one in the hole.
fn fold(va: u64) -> Option<u64> {
    let folded = va & ((1 << VA_BITS) - 1);
    let canonical = (va << (64 - VA_BITS)).cast_signed() >> (64 - VA_BITS);
    (canonical.cast_unsigned() == va).then_some(folded)
}

fn check_range(args: &GemVaArgs, va: u64, backing: Option<&Arc<dyn Backing>>) -> Result<()> {
    let aligned = (va | args.offset_in_bo | args.map_size).is_multiple_of(PAGE_SIZE);
    let size = backing.map_or(u64::MAX, |backing| backing.size());
    let inside = args.offset_in_bo.checked_add(args.map_size).is_some_and(|end| end <= size);
    if aligned && inside && args.map_size > 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

fn rights(flags: GemVaFlags) -> PageRights {
    PageRights {
        readable: flags.contains(GemVaFlags::READABLE),
        writable: flags.contains(GemVaFlags::WRITEABLE),
        executable: flags.contains(GemVaFlags::EXECUTABLE),
        system: false,
        uncached: flags.intersection(GemVaFlags::MTYPE).bits() == AMDGPU_VM_MTYPE_UC,
    }
}
