//! Buffer objects: VRAM, system memory, the caller's own memory, doorbells, the flush page (`amdgpu_amdkfd_gpuvm.c`).

pub(crate) mod dmabuf;
mod map;
pub(crate) mod object;
mod part;
mod show;
mod user;

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::kfd::aperture::GPUVM_LIMIT;
use belfry_abi::kfd::memory::AllocMemoryOfGpuArgs;
use belfry_abi::kfd::mmap::{
    KFD_DOORBELL_PROCESS_SLICE, KFD_MMAP_TYPE_DOORBELL, KFD_MMAP_TYPE_MMIO, kfd_mmap_offset,
};

use crate::asic::PageRights;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::memory::dmabuf::Imported;
use crate::memory::object::{Memory, Object};
pub(crate) use crate::memory::user::UserArgs;
use crate::node::{Node, Nodes};
use crate::os::{
    AllocFlags, Backing, BoPage, Change, Invalidate, LogLevel, Os, OwnPlace, PAGE_SIZE, Room, SystemPages,
    UserPin, check_user_range,
};
use crate::process::{Phase, Process, State};
use crate::queue::Queue;
use crate::space::{Space, SpaceState};
use crate::vram::VramMemory;

/// Buffer objects of one process.
const MAX_BOS: usize = 1 << 18;

/// System memory of the driver's own behind a buffer object.
pub(crate) struct SystemMemory<O: Os> {
    device: Arc<Device<O>>,
    pages: O::Pages,
}

impl<O: Os> SystemMemory<O> {
    pub(crate) fn allocate(device: &Arc<Device<O>>, size: u64) -> Result<Self> {
        device.charge_gtt(size)?;
        match device.hw.os().pages_alloc((size / PAGE_SIZE) as usize) {
            Ok(pages) => Ok(Self { device: device.clone(), pages }),
            Err(error) => {
                device.uncharge_gtt(size);
                Err(error)
            }
        }
    }

    pub(crate) fn pages(&self) -> &O::Pages {
        &self.pages
    }
}

impl<O: Os> Backing for SystemMemory<O> {
    fn size(&self) -> u64 {
        self.pages.count() as u64 * PAGE_SIZE
    }

    fn flags(&self) -> AllocFlags {
        AllocFlags::GTT
    }

    fn page(&self, index: u64) -> Option<BoPage> {
        let index = usize::try_from(index).ok().filter(|&index| index < self.pages.count())?;
        let cpu = self.pages.cpu().as_ptr() as usize + index * PAGE_SIZE as usize;
        Some(BoPage::System { cpu, bus: self.pages.bus(index) })
    }
}

impl<O: Os> Drop for SystemMemory<O> {
    fn drop(&mut self) {
        self.device.uncharge_gtt(self.pages.count() as u64 * PAGE_SIZE);
    }
}

/// The caller's own memory, pinned, and charged like system memory.
pub(crate) struct UserMemory<O: Os> {
    device: Arc<Device<O>>,
    pin: O::Pin,
}

impl<O: Os> Drop for UserMemory<O> {
    fn drop(&mut self) {
        self.device.uncharge_gtt(self.pin.count() as u64 * PAGE_SIZE);
    }
}

/// Tells the process that the user range of a buffer object changed.
struct Notifier<O: Os> {
    process: Weak<Process<O>>,
    /// 0 until the buffer object is in the table.
    bo: AtomicU32,
}

impl<O: Os> Invalidate for Notifier<O> {
    fn invalidated(&self, _: &Change) {
        if let Some(process) = self.process.upgrade() {
            process.user_memory_changed(self.bo.load(Ordering::Acquire));
        }
    }
}

/// What a buffer object is made of.
pub(crate) enum BoKind<O: Os> {
    Vram(Arc<VramMemory<O>>),
    System(Arc<SystemMemory<O>>),
    User(Arc<UserMemory<O>>),
    /// Memory of a DMA-buf.
    Imported(Arc<Imported<O>>),
    /// The process's doorbells, at this address on the bus.
    Doorbell(u64),
    /// The flush page, at this address on the bus.
    MmioRemap(u64),
}

/// A buffer object.
pub(crate) struct Bo<O: Os> {
    /// Number of the node it was made for, which its handle names.
    pub(crate) node: u32,
    pub(crate) kind: BoKind<O>,
    pub(crate) va: u64,
    /// Bytes, a multiple of the page size.
    pub(crate) size: u64,
    flags: AllocFlags,
    /// Nodes it is mapped for, one bit each. It is in the page tables of each of them.
    pub(crate) mapped_on: u32,
    /// Queues that use it; it stays mapped meanwhile.
    pub(crate) queues: u32,
    /// Last, so that what can be mapped goes after what was mapped.
    gem: Option<O::Gem>,
}

impl<O: Os> Bo<O> {
    /// A buffer object that is not mapped: its address, and its bytes.
    fn new(node: &Node, kind: BoKind<O>, (va, size): (u64, u64), flags: AllocFlags) -> Self {
        Self { node: node.number, kind, va, size, flags, mapped_on: 0, queues: 0, gem: None }
    }

    /// Whether it is in the page tables.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped_on != 0
    }

    fn rights(&self) -> PageRights {
        let coherent = AllocFlags::COHERENT | AllocFlags::UNCACHED | AllocFlags::EXT_COHERENT;
        PageRights {
            readable: true,
            writable: self.flags.contains(AllocFlags::WRITABLE),
            executable: self.flags.contains(AllocFlags::EXECUTABLE),
            system: !matches!(self.kind, BoKind::Vram(_) | BoKind::Imported(_)),
            uncached: self.flags.intersects(coherent),
        }
    }

    /// The bus address of page `page`, if it is in system memory.
    pub(crate) fn bus(&self, page: usize) -> Option<u64> {
        match &self.kind {
            BoKind::System(memory) if page < memory.pages.count() => Some(memory.pages.bus(page)),
            BoKind::User(memory) if page < memory.pin.count() => Some(memory.pin.bus(page)),
            BoKind::Imported(memory) => memory.bus(page),
            _ => None,
        }
    }

    /// Clears the page tables of a mapped buffer object; the caller flushes.
    pub(crate) fn unmap_from(&self, tables: &mut SpaceState<O>) {
        tables.vm.unmap(self.va, self.size);
    }

    /// What keeps the memory in place while a queue uses it.
    pub(crate) fn hold(&self) -> Option<Hold<O>> {
        match &self.kind {
            BoKind::Vram(memory) => Some(Hold::Vram { _memory: memory.clone() }),
            BoKind::System(memory) => Some(Hold::System { _memory: memory.clone() }),
            BoKind::User(memory) => Some(Hold::User { _memory: memory.clone() }),
            BoKind::Imported(memory) => Some(Hold::Imported { _memory: memory.clone() }),
            _ => None,
        }
    }
}

/// A reference to memory that is only there to keep it.
pub(crate) enum Hold<O: Os> {
    Vram { _memory: Arc<VramMemory<O>> },
    System { _memory: Arc<SystemMemory<O>> },
    User { _memory: Arc<UserMemory<O>> },
    Imported { _memory: Arc<Imported<O>> },
}

impl<O: Os> State<O> {
    /// The buffer object behind a handle, which names the node too.
    pub(crate) fn bo_id(&self, nodes: &Nodes, handle: u64) -> Option<u32> {
        let (id, node) = (handle as u32, nodes.named((handle >> 32) as u32).ok()?);
        self.bos.get(&id).filter(|bo| bo.node == node.number).map(|_| id)
    }

    /// Whether a queue of a node uses a buffer object.
    fn is_used_on(&self, node: &Node, id: u32) -> bool {
        let uses = |queue: &Queue<O>| queue.bos.contains(&id) || queue.ring_bo == Some(id);
        self.queues.values().any(|queue| queue.node == node.number && uses(queue))
    }

    fn free_bo_id(&self) -> Option<u32> {
        if self.bos.len() >= MAX_BOS {
            return None;
        }
        match self.bos.last_key_value() {
            None => Some(1),
            Some((&last, _)) if (last as usize) < MAX_BOS => Some(last + 1),
            Some(_) => (1..).find(|id| !self.bos.contains_key(id)),
        }
    }
}

impl<O: Os> Process<O> {
    /// ALLOC_MEMORY_OF_GPU.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODEV` without an acquired VM, `EFAULT` for user memory that is not there, `ENOMEM`.
    pub(crate) fn alloc_memory(self: &Arc<Self>, args: &mut AllocMemoryOfGpuArgs) -> Result<()> {
        let device = &self.device;
        let flags = AllocFlags::from_bits_retain(args.flags);
        if args.size == 0 {
            return Err(Errno::EINVAL);
        }
        let size = args.size.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
        let user = flags.contains(AllocFlags::USERPTR).then_some(args.mmap_offset);
        let shared = self.state.lock().svm.touches(args.va_addr, size, user);
        if shared {
            return Err(Errno::EADDRINUSE);
        }
        let node = self.nodes.named(args.gpu_id)?;
        if size > GPUVM_LIMIT {
            return Err(Errno::ENOMEM);
        }
        if !self.state.lock().spaces.has(node) {
            return Err(Errno::ENODEV);
        }
        let mut notifier = None;
        let (kind, offset) = if flags.contains(AllocFlags::VRAM) {
            let contiguous = flags.contains(AllocFlags::CONTIGUOUS);
            self.check_room(Room::Vram)?;
            let charge = device.charge_vram(&self.nodes, node, size)?;
            let memory = device.vram_alloc(size, contiguous)?.charged(charge);
            let mut va = args.va_addr;
            for extent in memory.extents() {
                device.hw.os().vram_unwritten(va, extent.offset, extent.len);
                va = va.saturating_add(extent.len);
            }
            (BoKind::Vram(Arc::new(memory.with_public(flags.contains(AllocFlags::PUBLIC)))), None)
        } else if flags.contains(AllocFlags::GTT) {
            self.check_room(Room::System)?;
            (BoKind::System(Arc::new(SystemMemory::allocate(device, size)?)), None)
        } else if flags.contains(AllocFlags::USERPTR) {
            let va = args.mmap_offset;
            if va == 0 || !va.is_multiple_of(PAGE_SIZE) {
                return Err(Errno::EINVAL);
            }
            check_user_range(device.hw.os(), va, size)?;
            let news = Arc::new(Notifier { process: Arc::downgrade(self), bo: AtomicU32::new(0) });
            notifier = Some(news.clone());
            device.charge_gtt(size)?;
            let writable = flags.contains(AllocFlags::WRITABLE);
            match device.hw.os().pin_user(self.key(), va, (size / PAGE_SIZE) as usize, writable, news) {
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
            let at = OwnPlace::Doorbells(self.doorbell_offset(node));
            (
                BoKind::Doorbell(device.hw.os().own_bus_address(at)),
                Some(kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, node.gpu_id)),
            )
        } else if flags.contains(AllocFlags::MMIO_REMAP) {
            if args.size != PAGE_SIZE {
                return Err(Errno::EINVAL);
            }
            let at = OwnPlace::Flushes(device.hw.asic().hdp_remap);
            (
                BoKind::MmioRemap(device.hw.os().own_bus_address(at)),
                Some(kfd_mmap_offset(KFD_MMAP_TYPE_MMIO, node.gpu_id)),
            )
        } else {
            return Err(Errno::EINVAL);
        };

        let mut bo = Bo::new(node, kind, (args.va_addr, size), flags);
        let mut state = self.state.lock();
        let result = state.insert_bo(device, &mut bo);
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
    fn check_room(&self, room: Room) -> Result<()> {
        if self.device.hw.os().has_room(room, self.pasid) { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// FREE_MEMORY_OF_GPU.
    ///
    /// # Errors
    ///
    /// `EPERM` for the signal page, `EINVAL` for a bad handle, `EBUSY` while it is mapped.
    pub(crate) fn free_memory(&self, handle: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.signal_handle == Some(handle) {
            return Err(Errno::EPERM);
        }
        let id = state.bo_id(&self.nodes, handle).ok_or(Errno::EINVAL)?;
        if state.bos.get(&id).is_some_and(Bo::is_mapped) {
            return Err(Errno::EBUSY);
        }
        let bo = state.bos.remove(&id);
        drop(state);
        if let Some(bo) = &bo {
            self.device.hw.os().memory_freed(bo.va);
        }
        drop(bo);
        Ok(())
    }

    /// The user range behind a buffer object changed: pins it again, or takes it away from the GPU.
    ///
    /// Pinning waits for the thread that brings the pages in, so the state is free meanwhile.
    fn user_memory_changed(&self, id: u32) {
        let memory = match self.state.lock().bos.get(&id).map(|bo| &bo.kind) {
            Some(BoKind::User(memory)) => memory.clone(),
            _ => return,
        };
        let renewed = match memory.pin.renew() {
            // The process is about to be torn down. Until then its pages stay pinned, and its queues may use them.
            Err(Errno::ESRCH) => return,
            renewed => renewed.map(|pin| {
                // The charge moves from the old pin to the new one.
                self.device.gtt_used.fetch_add(pin.count() as u64 * PAGE_SIZE, Ordering::Relaxed);
                Arc::new(UserMemory { device: self.device.clone(), pin })
            }),
        };
        let unused = self.replace_user_memory(id, &memory, renewed);
        drop((memory, unused));
    }

    /// Puts a new pin in the place of `old`, or nothing; returns the new one if there is no such place any more.
    ///
    /// The caller keeps `old`, so that no pin is dropped here, under the lock.
    fn replace_user_memory(
        &self,
        id: u32,
        old: &Arc<UserMemory<O>>,
        renewed: Result<Arc<UserMemory<O>>>,
    ) -> Option<Arc<UserMemory<O>>> {
        let same = renewed.as_ref().is_ok_and(|new| {
            new.pin.count() == old.pin.count()
                && (0..new.pin.count()).all(|page| new.pin.bus(page) == old.pin.bus(page))
        });
        let mut state = self.state.lock();
        let State { spaces, bos, mapped, .. } = &mut *state;
        let Some(bo) = bos.get_mut(&id) else { return renewed.ok() };
        if !matches!(&bo.kind, BoKind::User(memory) if Arc::ptr_eq(memory, old)) {
            // It was freed, and the id may be another one's.
            return renewed.ok();
        }
        if !same && bo.unmap_everywhere(spaces).is_err() {
            // The device may still use the old pages: they are left to it.
            core::mem::forget(old.clone());
        }
        match renewed {
            Ok(new) => {
                bo.kind = BoKind::User(new);
                if !same && bo.map_everywhere(spaces).is_err() {
                    let _ = bo.unmap_everywhere(spaces);
                }
            }
            Err(error) => {
                for (space, _) in spaces.each().filter(|(_, nodes)| bo.mapped_on & nodes != 0) {
                    Space::release(&mut space.lock(), bo.va);
                }
                bo.mapped_on = 0;
                mapped.retain(|_, other| *other != id);
                let line = format_args!(
                    "pasid {}: user memory at {:#x} is gone ({error}), unmapped from the GPU",
                    self.pasid, bo.va
                );
                self.device.limits.user_memory.log(&self.device.hw, LogLevel::Warn, line);
            }
        }
        None
    }
}

impl<O: Os> State<O> {
    /// Makes the GEM object of `bo` and finds it an id; returns the id and the offset to map it at.
    fn insert_bo(&self, device: &Device<O>, bo: &mut Bo<O>) -> Result<(u32, u64)> {
        if self.phase == Phase::Dead {
            return Err(Errno::ENODEV);
        }
        let id = self.free_bo_id().ok_or(Errno::ENOMEM)?;
        let memory = match &bo.kind {
            BoKind::Vram(memory) => Memory::Vram(memory.clone()),
            BoKind::System(memory) => Memory::System(memory.clone()),
            _ => return Ok((id, 0)),
        };
        let acquired = self.spaces.get(bo.node).ok_or(Errno::ENODEV)?;
        let gem = device.hw.os().gem_create(&acquired.file, Object::of_kfd(device, memory)?)?;
        let offset = crate::os::Gem::mmap_offset(&gem);
        bo.gem = Some(gem);
        Ok((id, offset))
    }
}
