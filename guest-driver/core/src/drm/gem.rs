//! GEM_CREATE, GEM_MMAP, GEM_METADATA, GEM_OP (`amdgpu_gem.c`).

use alloc::sync::Arc;

use belfry_abi::kfd::drm::{
    AMDGPU_GEM_DOMAIN_CPU, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_METADATA_BYTES,
    AMDGPU_GEM_METADATA_OP_GET_METADATA, AMDGPU_GEM_METADATA_OP_SET_METADATA,
    AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, AMDGPU_GEM_OP_SET_PLACEMENT, GemCreateFlags, GemCreateIn,
    GemCreateOut, GemMetadataArgs, GemMmapArgs, GemOpArgs, GemUserptrArgs, GemUserptrFlags,
};
use zerocopy::IntoBytes;

use super::Call;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::object::{Memory, Object};
use crate::object::{SystemMemory, UserArgs};
use crate::os::{AllocFlags, Backing, Metadata, Os, PAGE_SIZE};

/// Kinds of memory that are built.
const DOMAINS: u64 = AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
/// Flags that programs may give; what is not built is refused.
const FLAGS: GemCreateFlags = GemCreateFlags::CPU_ACCESS_REQUIRED
    .union(GemCreateFlags::NO_CPU_ACCESS)
    .union(GemCreateFlags::CPU_GTT_USWC)
    .union(GemCreateFlags::VRAM_CLEARED)
    .union(GemCreateFlags::VM_ALWAYS_VALID)
    .union(GemCreateFlags::EXPLICIT_SYNC)
    .union(GemCreateFlags::DISCARDABLE)
    // Pages may be compressed then. They are not: without the bit in their entries, images' metadata has no effect.
    .union(GemCreateFlags::GFX12_DCC);

/// GEM_CREATE.
///
/// # Errors
///
/// `EINVAL` for flags and domains that are not taken and for no bytes, `ENOMEM`.
pub(super) fn create<O: Os>(call: &Call<'_, O>, args: GemCreateIn) -> Result<GemCreateOut> {
    let device = call.client.device();
    if args.domain_flags & !FLAGS.bits() != 0 || args.domains & !DOMAINS != 0 || args.bo_size == 0 {
        return Err(Errno::EINVAL);
    }
    let size = args.bo_size.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let alignment = args.alignment.max(PAGE_SIZE);
    let made = GemCreateIn { bo_size: size, alignment, ..args };
    let memory = allocate(device, &made)?;
    let object = Object::new(device, memory, made)?;
    Ok(GemCreateOut { handle: call.file.handle_create(object)?, pad: 0 })
}

fn allocate<O: Os>(device: &Arc<Device<O>>, args: &GemCreateIn) -> Result<Memory<O>> {
    let system = |size| SystemMemory::allocate(device, size).map(|memory| Memory::System(Arc::new(memory)));
    if args.domains & AMDGPU_GEM_DOMAIN_VRAM == 0 {
        return system(args.bo_size);
    }
    let public = args.domain_flags & GemCreateFlags::NO_CPU_ACCESS.bits() == 0;
    // What is aligned to more than a page is one block, which the allocator aligns to its size.
    let contiguous = args.alignment > PAGE_SIZE && args.bo_size >= args.alignment;
    match device.vram_alloc(args.bo_size, contiguous) {
        Ok(memory) => Ok(Memory::Vram(Arc::new(memory.with_public(public)))),
        // Also where the program has asked for VRAM alone, as amdgpu_gem_create_ioctl does.
        Err(_) => system(args.bo_size),
    }
}

/// GEM_USERPTR.
///
/// # Errors
///
/// `EINVAL` for what is not whole pages and for unknown flags, `EACCES` for memory that is written to and that the driver is not
/// to hear of, `EOVERFLOW` for no bytes and for a range that wraps. With VALIDATE as [`UserRange::populate`].
///
/// [`UserRange::populate`]: crate::object::Object::user
pub(super) fn userptr<O: Os>(call: &Call<'_, O>, args: GemUserptrArgs) -> Result<GemUserptrArgs> {
    if !(args.addr | args.size).is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let flags = GemUserptrFlags::from_bits(args.flags).ok_or(Errno::EINVAL)?;
    let writable = !flags.contains(GemUserptrFlags::READONLY);
    if writable && !flags.contains(GemUserptrFlags::REGISTER) {
        return Err(Errno::EACCES);
    }
    let end = args.addr.checked_add(args.size).filter(|_| args.size > 0).ok_or(Errno::EOVERFLOW)?;
    let count = usize::try_from(args.size / PAGE_SIZE).map_err(|_| Errno::EOVERFLOW)?;
    let inside = call.client.device().hw.os().user_range_ok(args.addr, end - args.addr);
    let anonymous = flags.contains(GemUserptrFlags::ANONONLY);
    let range = UserArgs { key: call.file.caller(), va: args.addr, count, writable, anonymous };
    let object = Object::of_user(call.client, range)?;
    call.client.lock().add_program(&object);
    if flags.contains(GemUserptrFlags::VALIDATE) {
        let range = object.user().filter(|_| inside).ok_or(Errno::EFAULT)?;
        range.populate()?;
    }
    Ok(GemUserptrArgs { handle: call.file.handle_create(object)?, ..args })
}

/// GEM_MMAP.
///
/// # Errors
///
/// `ENOENT` for a bad handle, `EPERM` for memory that the processor does not map.
pub(super) fn mmap<O: Os>(call: &Call<'_, O>, args: GemMmapArgs) -> Result<GemMmapArgs> {
    let handle = args.value as u32;
    let backing = call.file.lookup(handle)?;
    if backing.is_user() || Object::<O>::of(&*backing).is_some_and(Object::is_private) {
        return Err(Errno::EPERM);
    }
    Ok(GemMmapArgs { value: call.file.mmap_offset(handle)? })
}

/// GEM_METADATA.
///
/// # Errors
///
/// `ENOENT` for a bad handle, `EINVAL` for an unknown operation, and for more bytes than there is room for.
pub(super) fn metadata<O: Os>(call: &Call<'_, O>, mut args: GemMetadataArgs) -> Result<GemMetadataArgs> {
    let backing = call.file.lookup(args.handle)?;
    match args.op {
        AMDGPU_GEM_METADATA_OP_GET_METADATA => {
            let Metadata { tiling, flags, data } = backing.metadata()?;
            (args.tiling_info, args.flags, args.data_size_bytes) = (tiling, flags, data.len() as u32);
            let room = args.data.as_mut_bytes();
            room.fill(0);
            room.get_mut(..data.len()).ok_or(Errno::EINVAL)?.copy_from_slice(&data);
        }
        AMDGPU_GEM_METADATA_OP_SET_METADATA => {
            let len = args.data_size_bytes as usize;
            if len > AMDGPU_GEM_METADATA_BYTES {
                return Err(Errno::EINVAL);
            }
            let data = args.data.as_bytes()[..len].to_vec();
            // Flags belong to the data.
            let flags = if data.is_empty() { 0 } else { args.flags };
            backing.set_metadata(Metadata { tiling: args.tiling_info, flags, data })?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(args)
}

/// GEM_OP.
///
/// # Errors
///
/// `ENOENT` for a bad handle, `EINVAL` for an unknown operation, `EPERM` for moving memory of a program, `EFAULT`.
pub(super) fn op<O: Os>(call: &Call<'_, O>, args: &GemOpArgs) -> Result<()> {
    let backing = call.file.lookup(args.handle)?;
    let object = Object::<O>::of(&*backing);
    match args.op {
        AMDGPU_GEM_OP_GET_GEM_CREATE_INFO => {
            let created = object.map_or_else(|| imported(&*backing), Object::created);
            call.client.device().hw.os().copy_to_user(args.value, created.as_bytes())
        }
        AMDGPU_GEM_OP_SET_PLACEMENT if backing.is_user() => Err(Errno::EPERM),
        AMDGPU_GEM_OP_SET_PLACEMENT => {
            if let Some(object) = object {
                object.set_placement(args.value & DOMAINS);
            }
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Guesses from its kind how another process has made memory.
fn imported(backing: &dyn Backing) -> GemCreateIn {
    let vram = backing.flags().contains(AllocFlags::VRAM);
    let domains = if vram { AMDGPU_GEM_DOMAIN_VRAM } else { AMDGPU_GEM_DOMAIN_GTT };
    GemCreateIn { bo_size: backing.size(), alignment: PAGE_SIZE, domains, domain_flags: 0 }
}
