//! Buffer objects: VRAM, system memory, the caller's own memory, doorbells, the flush page (`amdgpu_amdkfd_gpuvm.c`).

pub(crate) mod dmabuf;
mod map;

pub(crate) use dmabuf::{export_dmabuf, import_dmabuf};
pub(crate) use map::{map_memory, unmap_memory};

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::kfd::aperture::GPUVM_LIMIT;
use belfry_abi::kfd::memory::AllocMemoryOfGpuArgs;
use belfry_abi::kfd::mmap::{
    KFD_DOORBELL_PROCESS_SLICE, KFD_MMAP_TYPE_DOORBELL, KFD_MMAP_TYPE_MMIO, kfd_mmap_offset,
};

use crate::bo::{Bo, BoKind};
use crate::errno::{Errno, Result};
use crate::object::{SystemMemory, UserMemory};
use crate::os::{
    AllocFlags, Change, Function as _, Invalidate, LogLevel, Os, OwnPlace, PAGE_SIZE, Room, UserPin,
    check_user_range,
};
use crate::process::{Process, State};
use crate::process_device::ProcessNode;

/// Tells the process that the user range of a buffer object changed.
struct Notifier<O: Os> {
    process: Weak<Process<O>>,
    /// 0 until the buffer object is in the table.
    bo: AtomicU32,
}

impl<O: Os> Invalidate for Notifier<O> {
    fn invalidated(&self, _: &Change) {
        if let Some(process) = self.process.upgrade() {
            user_memory_changed(&process, self.bo.load(Ordering::Acquire));
        }
    }
}

/// ALLOC_MEMORY_OF_GPU.
///
/// # Errors
///
/// `EINVAL`, `ENODEV` without an acquired VM, `EFAULT` for user memory that is not there, `ENOMEM`.
pub(crate) fn alloc_memory<O: Os>(process: &Arc<Process<O>>, args: &mut AllocMemoryOfGpuArgs) -> Result<()> {
    let flags = AllocFlags::from_bits_retain(args.flags);
    if args.size == 0 {
        return Err(Errno::EINVAL);
    }
    let size = args.size.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let user = flags.contains(AllocFlags::USERPTR).then_some(args.mmap_offset);
    let shared = process.state.lock().svm.touches(args.va_addr, size, user);
    if shared {
        return Err(Errno::EADDRINUSE);
    }
    let node = process.nodes.named(args.gpu_id)?;
    let device = &node.device;
    if size > GPUVM_LIMIT {
        return Err(Errno::ENOMEM);
    }
    if !process.state.lock().devices.has_space(node) {
        return Err(Errno::ENODEV);
    }
    let mut notifier = None;
    // Of an APU it is the machine's memory (`AMDGPU_GEM_DOMAIN_GTT`).
    let integrated = device.hw.asic().integrated;
    let (kind, offset) = if flags.contains(AllocFlags::VRAM) && !integrated {
        let contiguous = flags.contains(AllocFlags::CONTIGUOUS);
        check_room(process, node, Room::Vram)?;
        let charge = device.charge_vram(&node.siblings, node, size)?;
        let memory = device.vram_alloc(size, contiguous)?.charged(charge);
        let mut va = args.va_addr;
        for extent in memory.extents() {
            device.hw.function().vram_unwritten(va, extent.offset, extent.len);
            va = va.saturating_add(extent.len);
        }
        (BoKind::Vram(Arc::new(memory.with_public(flags.contains(AllocFlags::PUBLIC)))), None)
    } else if flags.intersects(AllocFlags::GTT.union(AllocFlags::VRAM)) {
        check_room(process, node, Room::System)?;
        (BoKind::System(Arc::new(SystemMemory::allocate(device, size)?)), None)
    } else if flags.contains(AllocFlags::USERPTR) {
        let va = args.mmap_offset;
        if va == 0 || !va.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        check_user_range(device.hw.os(), va, size)?;
        let news = Arc::new(Notifier { process: Arc::downgrade(process), bo: AtomicU32::new(0) });
        notifier = Some(news.clone());
        device.charge_gtt(size)?;
        let writable = flags.contains(AllocFlags::WRITABLE);
        match device.hw.os().pin_user(process.key(), va, (size / PAGE_SIZE) as usize, writable, news) {
            Ok(pin) => (BoKind::User(Arc::new(UserMemory { device: device.clone(), pin })), Some(va)),
            Err(error) => {
                device.uncharge_gtt(size);
                return Err(error);
            }
        }
    } else if flags.contains(AllocFlags::DOORBELL) {
        if args.size != KFD_DOORBELL_PROCESS_SLICE {
            return Err(Errno::EINVAL);
        }
        let at = OwnPlace::Doorbells(node.doorbell_offset());
        (
            BoKind::Doorbell(device.hw.function().own_bus_address(at)),
            Some(kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, node.gpu_id)),
        )
    } else if flags.contains(AllocFlags::MMIO_REMAP) {
        if args.size != PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        let at = OwnPlace::Flushes(device.hw.asic().hdp_remap);
        (
            BoKind::MmioRemap(device.hw.function().own_bus_address(at)),
            Some(kfd_mmap_offset(KFD_MMAP_TYPE_MMIO, node.gpu_id)),
        )
    } else {
        return Err(Errno::EINVAL);
    };

    let mut bo = Bo::new(node, kind, (args.va_addr, size), flags);
    let mut state = process.state.lock();
    let result = state.insert_bo(node, &mut bo);
    let Ok((id, gem_offset)) = result else {
        drop(state);
        // Dropped without the lock: a pin may wait for its notifier.
        drop(bo);
        return result.map(|_| ());
    };
    state.bos.insert(id, bo);
    if let Some(news) = notifier {
        // A change before this is not seen: the GPU then keeps the pages that were pinned, which stay the driver's.
        news.bo.store(id, Ordering::Release);
    }
    drop(state);
    device.hw.os().memory_allocated(args.va_addr, args.size);
    args.handle = u64::from(node.gpu_id) << 32 | u64::from(id);
    args.mmap_offset = offset.unwrap_or(gem_offset);
    Ok(())
}

/// Refuses memory where the operating system has none left on purpose.
fn check_room<O: Os>(process: &Process<O>, node: &ProcessNode<O>, room: Room) -> Result<()> {
    if node.device.hw.os().has_room(room, process.pasid) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// FREE_MEMORY_OF_GPU.
///
/// # Errors
///
/// `EPERM` for the signal page, `EINVAL` for a bad handle, `EBUSY` while it is mapped.
pub(crate) fn free_memory<O: Os>(process: &Process<O>, handle: u64) -> Result<()> {
    let mut state = process.state.lock();
    if state.signal_handle == Some(handle) {
        return Err(Errno::EPERM);
    }
    let id = state.bo_id(&process.nodes, handle).ok_or(Errno::EINVAL)?;
    if state.bos.get(&id).is_some_and(Bo::is_mapped) {
        return Err(Errno::EBUSY);
    }
    let bo = state.bos.remove(&id);
    drop(state);
    if let Some(bo) = &bo {
        process.nodes.get(bo.node).device.hw.os().memory_freed(bo.va);
    }
    drop(bo);
    Ok(())
}

/// The user range behind a buffer object changed: pins it again, or takes it away from the GPU.
///
/// Pinning waits for the thread that brings the pages in, so the state is free meanwhile.
fn user_memory_changed<O: Os>(process: &Process<O>, id: u32) {
    let memory = match process.state.lock().bos.get(&id).map(|bo| &bo.kind) {
        Some(BoKind::User(memory)) => memory.clone(),
        _ => return,
    };
    let renewed = match memory.pin.renew() {
        // The process is about to be torn down. Until then its pages stay pinned, and its queues may use them.
        Err(Errno::ESRCH) => return,
        renewed => renewed.map(|pin| {
            // The charge moves from the old pin to the new one.
            memory.device.charge_gtt_again(pin.count() as u64 * PAGE_SIZE);
            Arc::new(UserMemory { device: memory.device.clone(), pin })
        }),
    };
    let unused = replace_user_memory(process, id, &memory, renewed);
    drop((memory, unused));
}

/// Puts a new pin in the place of `old`, or nothing; returns the new one if there is no such place any more.
///
/// Memory that is gone stays mapped by name, and `old` goes on hearing of changes: once the program has memory there again, and may do with it
/// what the GPU may, it is in the page tables (`update_invalid_user_pages`). Until then the GPU faults there.
///
/// The caller keeps `old`, so that no pin is dropped here, under the lock.
fn replace_user_memory<O: Os>(
    process: &Process<O>,
    id: u32,
    old: &Arc<UserMemory<O>>,
    renewed: Result<Arc<UserMemory<O>>>,
) -> Option<Arc<UserMemory<O>>> {
    let same = renewed.as_ref().is_ok_and(|new| {
        new.pin.count() == old.pin.count()
            && (0..new.pin.count()).all(|page| new.pin.bus(page) == old.pin.bus(page))
    });
    let mut state = process.state.lock();
    let State { devices, bos, .. } = &mut *state;
    let Some(bo) = bos.get_mut(&id) else { return renewed.ok() };
    if !matches!(&bo.kind, BoKind::User(memory) if Arc::ptr_eq(memory, old)) {
        // It was freed, and the id may be another one's.
        return renewed.ok();
    }
    if !same && !bo.lost && bo.unmap_everywhere(devices).is_err() {
        // The device may still use the old pages: they are left to it.
        core::mem::forget(old.clone());
    }
    match renewed {
        Ok(new) => {
            bo.kind = BoKind::User(new);
            let is_back = core::mem::take(&mut bo.lost);
            if (is_back || !same) && bo.map_everywhere(devices).is_err() {
                let _ = bo.unmap_everywhere(devices);
                bo.lost = true;
            }
        }
        Err(error) => {
            if core::mem::replace(&mut bo.lost, true) {
                return None;
            }
            let line = format_args!(
                "pasid {}: user memory at {:#x} is gone ({error}), unmapped from the GPU",
                process.pasid, bo.va
            );
            old.device.limits.user_memory.log(&old.device.hw, LogLevel::Warn, line);
        }
    }
    None
}
