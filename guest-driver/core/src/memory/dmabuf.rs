//! Buffer objects that processes share (`amdgpu_amdkfd_gpuvm.c`, `amdgpu_dma_buf.c`).
//!
//! Memory is shared, and no buffer object: it stays until the last of its buffer objects, descriptors and mappings is
//! gone, whichever process had it first.

use alloc::sync::Arc;

use belfry_abi::kfd::aperture::GPUVM_LIMIT;
use belfry_abi::kfd::memory::{ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs};

use crate::bo::{Bo, BoKind, Imported};
use crate::errno::{Errno, Result};
use crate::object::Object;
use crate::os::{AllocFlags, Backing, DmaBuf, Os};
use crate::process::Process;

/// EXPORT_DMABUF.
///
/// # Errors
///
/// `EINVAL` for a bad handle and for what is no memory, `EPERM` for the caller's own memory, `EMFILE`, `ENOMEM`.
pub(crate) fn export_dmabuf<O: Os>(process: &Process<O>, args: &mut ExportDmabufArgs) -> Result<()> {
    // Taken under the lock and used without it: making a descriptor may wait.
    let (os, dmabuf) = {
        let state = process.state.lock();
        let id = state.bo_id(&process.nodes, args.handle).ok_or(Errno::EINVAL)?;
        let bo = state.bos.get(&id);
        let os = process.nodes.get(bo.map_or(0, |bo| bo.node)).device.hw.os();
        let dmabuf = match bo {
            Some(Bo { kind: BoKind::User(_), .. }) => return Err(Errno::EPERM),
            Some(Bo { kind: BoKind::Imported(memory), .. }) => memory.dmabuf.clone(),
            Some(Bo { gem: Some(gem), .. }) => Arc::new(os.dmabuf_export(gem)?),
            _ => return Err(Errno::EINVAL),
        };
        (os, dmabuf)
    };
    args.dmabuf_fd = os.dmabuf_fd(&dmabuf, args.flags)? as u32;
    Ok(())
}

/// IMPORT_DMABUF: a buffer object of this process, which is mapped and freed like any other.
///
/// # Errors
///
/// `EINVAL` for a descriptor of anything else, and of memory of a device that the process does not have; `ENODEV` without an acquired VM, `EBADF`, `ENOMEM`.
pub(crate) fn import_dmabuf<O: Os>(process: &Process<O>, args: &mut ImportDmabufArgs) -> Result<()> {
    let node = process.nodes.named(args.gpu_id)?;
    if !process.state.lock().devices.has_space(node) {
        return Err(Errno::ENODEV);
    }
    let dmabuf = node.device.hw.os().dmabuf_get(args.dmabuf_fd as i32)?;
    let backing = dmabuf.backing();
    let size = backing.size();
    if size == 0 || size > GPUVM_LIMIT {
        return Err(Errno::EINVAL);
    }
    // Memory of another device is system memory to this one (`amdgpu_dma_buf_create_obj`). It stays as long as the process has that device.
    let owner = Object::<O>::of(&*backing).map(Object::device);
    if owner.is_some_and(|owner| process.nodes.devices().all(|node| node.device.number != owner)) {
        return Err(Errno::EINVAL);
    }
    let is_other = owner.is_some_and(|owner| owner != node.device.number);
    let kind = if is_other { AllocFlags::GTT } else { backing.flags() };
    // As amdkfd does, with all that the exporter may not do with it.
    let flags = kind | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
    let kind = BoKind::Imported(Arc::new(Imported { dmabuf: Arc::new(dmabuf), backing }));
    let mut bo = Bo::new(node, kind, (args.va_addr, size), flags);
    let mut state = process.state.lock();
    let result = state.insert_bo(node, &mut bo);
    let Ok((id, _)) = result else {
        drop(state);
        // The last reference may be this one: memory is given back without the lock.
        drop(bo);
        return result.map(|_| ());
    };
    state.bos.insert(id, bo);
    drop(state);
    args.handle = u64::from(node.gpu_id) << 32 | u64::from(id);
    Ok(())
}

/// GET_DMABUF_INFO, with what GEM_METADATA has attached (`amdgpu_amdkfd_get_dmabuf_info`).
///
/// # Errors
///
/// `EBADF`, `EFAULT`, and `EINVAL` for a descriptor of anything else and for less room than the metadata take.
pub(crate) fn info<O: Os>(process: &Process<O>, args: &mut GetDmabufInfoArgs) -> Result<()> {
    let backing = find(process, args.dmabuf_fd as i32)?;
    args.size = backing.size();
    // Memory is the whole GPU's; that of another process's driver is told to be the first one's.
    let owner = Object::<O>::of(&*backing).map(Object::device);
    let node = process.nodes.devices().find(|node| owner == Some(node.device.number));
    args.gpu_id = u32::from(node.unwrap_or(process.nodes.first()).gpu_id);
    args.flags = backing.flags().bits();
    if args.metadata_ptr != 0 {
        let data = backing.metadata()?.data;
        if data.len() > args.metadata_size as usize {
            return Err(Errno::EINVAL);
        }
        args.metadata_size = data.len() as u32;
        if !data.is_empty() {
            process.os().copy_to_user(args.metadata_ptr, &data)?;
        }
    }
    Ok(())
}

/// Memory of a descriptor, as the device has it that it is of; another device may know it, too.
fn find<O: Os>(process: &Process<O>, fd: i32) -> Result<Arc<dyn Backing>> {
    let mut found = Err(Errno::EINVAL);
    for node in process.nodes.devices() {
        let backing = node.device.hw.os().dmabuf_get(fd).map(|dmabuf| dmabuf.backing());
        if backing.as_ref().is_ok_and(|backing| Object::<O>::of(&**backing).is_some()) {
            return backing;
        }
        found = found.or(backing);
    }
    found
}

#[cfg(test)]
mod tests;
