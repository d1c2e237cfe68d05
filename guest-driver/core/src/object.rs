//! Memory of buffer objects, and memory as a GEM object: with how it was made, and what programs have attached to it (`amdgpu_object.c`).

mod user;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::kfd::drm::{AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_DOMAIN_VRAM, GemCreateFlags, GemCreateIn};

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::fence::{Dependency, Fence};
use crate::gart::quad;
use crate::os::{
    AllocFlags, Backing, BoPage, LockRank, Metadata, Os, PAGE_SIZE, SharedMetadata, SystemPages, UserPin,
};
use crate::sync::Mutex;
use crate::vram::VramMemory;

pub(crate) use user::{Holder, UserArgs, UserRange};

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
    pub(crate) device: Arc<Device<O>>,
    pub(crate) pin: O::Pin,
}

impl<O: Os> Drop for UserMemory<O> {
    fn drop(&mut self) {
        self.device.uncharge_gtt(self.pin.count() as u64 * PAGE_SIZE);
    }
}

/// A place for what programs attach.
enum Attached {
    /// Here.
    Own(Metadata),
    /// In a place that other processes' drivers see.
    Shared(Arc<dyn SharedMetadata>),
}

impl Attached {
    fn load(&self) -> Result<Metadata> {
        match self {
            Self::Own(metadata) => Ok(metadata.clone()),
            Self::Shared(shared) => shared.load(),
        }
    }
}

/// Memory of the driver's own.
pub(crate) enum Memory<O: Os> {
    Vram(Arc<VramMemory<O>>),
    System(Arc<SystemMemory<O>>),
    User(UserRange<O>),
}

/// A GEM object.
pub(crate) struct Object<O: Os> {
    /// Number of the device that it is of.
    device: u32,
    memory: Memory<O>,
    created: GemCreateIn,
    /// Domains it should be in.
    placement: AtomicU64,
    metadata: Mutex<O, Attached>,
    /// Work that uses it, with the file it belongs to.
    users: Mutex<O, Vec<(u64, Arc<Fence>)>>,
}

impl<O: Os> Object<O> {
    /// Makes memory an object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device<O>, memory: Memory<O>, created: GemCreateIn) -> Result<Arc<Self>> {
        let metadata = Mutex::new(device.hw.os(), LockRank::Object, Attached::Own(Metadata::default()))?;
        let users = Mutex::new(device.hw.os(), LockRank::Object, Vec::new())?;
        let (device, placement) = (device.number, AtomicU64::new(created.domains));
        Ok(Arc::new(Self { device, memory, created, placement, metadata, users }))
    }

    /// Makes memory of a KFD buffer object one, which was made as amdkfd would have asked for it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn of_kfd(device: &Device<O>, memory: Memory<O>) -> Result<Arc<Self>> {
        let (size, domains, flags) = match &memory {
            Memory::Vram(memory) => {
                let public = memory.flags().contains(AllocFlags::PUBLIC);
                let access = GemCreateFlags::CPU_ACCESS_REQUIRED;
                let flags = if public { access } else { GemCreateFlags::NO_CPU_ACCESS };
                (memory.size(), AMDGPU_GEM_DOMAIN_VRAM, flags)
            }
            Memory::System(memory) => (memory.size(), AMDGPU_GEM_DOMAIN_GTT, GemCreateFlags::empty()),
            Memory::User(memory) => (memory.size(), AMDGPU_GEM_DOMAIN_GTT, GemCreateFlags::empty()),
        };
        let created =
            GemCreateIn { bo_size: size, alignment: PAGE_SIZE, domains, domain_flags: flags.bits() };
        Self::new(device, memory, created)
    }

    /// Makes memory of a program an object, which hears of its changes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn of_user(client: &Arc<impl Holder<O> + 'static>, args: UserArgs) -> Result<Arc<Self>> {
        let (os, device) = (client.device().hw.os(), client.device().number);
        let holder: Weak<dyn Holder<O>> = Arc::downgrade(client) as _;
        let (size, domains) = (args.count as u64 * PAGE_SIZE, AMDGPU_GEM_DOMAIN_GTT);
        let created = GemCreateIn { bo_size: size, alignment: PAGE_SIZE, domains, domain_flags: 0 };
        let metadata = Mutex::new(os, LockRank::Object, Attached::Own(Metadata::default()))?;
        let users = Mutex::new(os, LockRank::Object, Vec::new())?;
        let pinned = Mutex::new(os, LockRank::Object, None)?;
        Ok(Arc::new_cyclic(|object| Self {
            device,
            memory: Memory::User(UserRange::new(holder.clone(), args, pinned, object.clone())),
            created,
            placement: AtomicU64::new(domains),
            metadata,
            users,
        }))
    }

    /// The object behind memory, unless it is another process's.
    pub(crate) fn of(backing: &dyn Backing) -> Option<&Self> {
        let any: &dyn Any = backing;
        any.downcast_ref()
    }

    /// Returns the number of the device that it is of.
    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    fn memory(&self) -> &dyn Backing {
        match &self.memory {
            Memory::Vram(memory) => &**memory,
            Memory::System(memory) => &**memory,
            Memory::User(memory) => memory,
        }
    }

    /// The VRAM that it is, if it is that.
    pub(crate) fn vram(&self) -> Option<&VramMemory<O>> {
        match &self.memory {
            Memory::Vram(memory) => Some(memory),
            _ => None,
        }
    }

    /// The memory of a program that it is, if it is that.
    pub(crate) fn user(&self) -> Option<&UserRange<O>> {
        match &self.memory {
            Memory::User(memory) => Some(memory),
            _ => None,
        }
    }

    /// Returns the request that it was made by, with the domains that it should be in.
    pub(crate) fn created(&self) -> GemCreateIn {
        GemCreateIn { domains: self.placement.load(Ordering::Relaxed), ..self.created }
    }

    /// Notes where it should be; it stays where it is.
    pub(crate) fn set_placement(&self, domains: u64) {
        self.placement.store(domains, Ordering::Relaxed);
    }

    /// Returns whether it was asked for as memory that the processor will not map.
    pub(crate) fn is_private(&self) -> bool {
        self.created.domain_flags & GemCreateFlags::NO_CPU_ACCESS.bits() != 0
    }

    /// Work of a file uses it from now on; what has to be over first is added to `dependencies`: the work of other files,
    /// unless they see to that themselves (`amdgpu_sync_resv`).
    pub(crate) fn use_it(&self, file: u64, fence: &Arc<Fence>, dependencies: &mut Vec<Dependency>) {
        let explicit = self.created.domain_flags & GemCreateFlags::EXPLICIT_SYNC.bits() != 0;
        let mut users = self.users.lock();
        users.retain(|(_, fence)| !fence.is_over());
        if !explicit {
            let others = users.iter().filter(|(other, _)| *other != file);
            dependencies.extend(others.map(|(_, fence)| Dependency::Over(fence.clone())));
        }
        users.push((file, fence.clone()));
    }

    /// The work that uses it.
    pub(crate) fn users(&self) -> Vec<Arc<Fence>> {
        self.users.lock().iter().map(|(_, fence)| fence.clone()).collect()
    }

    /// Stores a quadword, after everything the caller has seen.
    ///
    /// # Errors
    ///
    /// `EINVAL` past the end or off alignment, `ENODEV` when the device is gone.
    pub(crate) fn store(&self, offset: u64, value: u64) -> Result<()> {
        let inside = offset.checked_add(8).is_some_and(|end| end <= self.size());
        if !inside || !offset.is_multiple_of(8) {
            return Err(Errno::EINVAL);
        }
        match &self.memory {
            Memory::Vram(memory) => match memory.page(offset / PAGE_SIZE) {
                Some(BoPage::Vram(page)) => {
                    memory.hw().vram_write(page + offset % PAGE_SIZE, &value.to_le_bytes());
                    memory.hw().flush_hdp();
                    Ok(())
                }
                _ => Err(Errno::ENODEV),
            },
            Memory::System(memory) => {
                quad(memory.pages(), offset as usize).store(value, Ordering::Release);
                Ok(())
            }
            Memory::User(_) => Err(Errno::EINVAL),
        }
    }
}

impl<O: Os> Backing for Object<O> {
    fn size(&self) -> u64 {
        self.memory().size()
    }

    fn page(&self, index: u64) -> Option<BoPage> {
        self.memory().page(index)
    }

    fn flags(&self) -> AllocFlags {
        self.memory().flags()
    }

    fn as_vram(&self) -> Option<&dyn Any> {
        self.memory().as_vram()
    }

    fn is_exclusive(&self) -> bool {
        self.is_user() || self.created.domain_flags & GemCreateFlags::VM_ALWAYS_VALID.bits() != 0
    }

    fn is_user(&self) -> bool {
        self.user().is_some()
    }

    fn metadata(&self) -> Result<Metadata> {
        self.metadata.lock().load()
    }

    fn set_metadata(&self, metadata: Metadata) -> Result<()> {
        let mut attached = self.metadata.lock();
        if let Attached::Shared(shared) = &*attached {
            return shared.store(&metadata);
        }
        let old = core::mem::replace(&mut *attached, Attached::Own(metadata));
        drop(attached);
        drop(old);
        Ok(())
    }

    fn share_metadata(&self, shared: &Arc<dyn SharedMetadata>) -> Result<()> {
        let mut attached = self.metadata.lock();
        if matches!(&*attached, Attached::Shared(own) if Arc::ptr_eq(own, shared)) {
            return Ok(());
        }
        shared.store(&attached.load()?)?;
        let old = core::mem::replace(&mut *attached, Attached::Shared(shared.clone()));
        drop(attached);
        drop(old);
        Ok(())
    }

    fn unshare_metadata(&self, shared: &Arc<dyn SharedMetadata>) {
        let mut attached = self.metadata.lock();
        if !matches!(&*attached, Attached::Shared(own) if Arc::ptr_eq(own, shared)) {
            return;
        }
        // What another process has broken is as good as nothing.
        let metadata = attached.load().unwrap_or_default();
        let old = core::mem::replace(&mut *attached, Attached::Own(metadata));
        drop(attached);
        drop(old);
    }
}
