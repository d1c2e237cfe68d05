//! The render node: the DRM core's answers, and handles, which are the DRM core's as well.
//!
//! All descriptors of a render node that a process has share one open file: opening the node again gives the same
//! handles, and closing one descriptor gives nothing back. Each partition of each GPU has a render node; all nodes share the
//! syncobjs.

use std::collections::BTreeMap;
use std::sync::Arc;

use belfry_abi::kfd::drm::{
    DRM_CAP_PRIME, DRM_CAP_SYNCOBJ, DRM_CAP_SYNCOBJ_TIMELINE, DRM_CAP_TIMESTAMP_MONOTONIC, DRM_COMMANDS,
    DRM_DRIVER_MAJOR, DRM_DRIVER_MINOR, DRM_DRIVER_NAME, DRM_IOCTL_GEM_CLOSE, DRM_IOCTL_GET_CAP,
    DRM_IOCTL_MODE_GETRESOURCES, DRM_IOCTL_PRIME_FD_TO_HANDLE, DRM_IOCTL_PRIME_HANDLE_TO_FD,
    DRM_IOCTL_VERSION, DRM_PRIME_CAPS, DrmGemClose, DrmGetCap, DrmModeCardRes, DrmPrimeHandle,
};
use belfry_abi::kfd::ioctl::{IOC_READ, IOC_WRITE, ioc_dir, ioc_nr, ioc_size};
use belfry_kfd_core::drm::{Client, Fence};
use belfry_kfd_core::os::{
    Awaited, Backing, DmaBuf as _, Gem as _, Os as _, ProcessKey, RenderFile, SyncExport, SyncPoint,
    SyncTarget, Work,
};
use belfry_kfd_core::{Errno, KfdDevice, Result};
use belfry_lock::{Mutex, rank};
use zerocopy::{FromBytes, IntoBytes};

use super::HostedProcess;
use crate::dmabuf::{Descriptor, HostedDmaBuf};
use crate::gems::{HostedGem, Mappable};
use crate::gpu::HostedGpu;
use crate::os::HostedOs;
use crate::sync::lock;

/// `DRM_CLOEXEC | DRM_RDWR`: the flags that PRIME_HANDLE_TO_FD takes.
const PRIME_FLAGS: u32 = (libc::O_CLOEXEC | libc::O_RDWR) as u32;

/// Memory that has a handle.
struct Object {
    memory: HostedDmaBuf,
    gem: HostedGem,
}

/// The handles of a render node's file.
#[derive(Default)]
struct Objects {
    table: Mutex<BTreeMap<u32, Object>, rank::Objects>,
}

impl Objects {
    /// Makes a handle, or returns the one that the memory has.
    fn insert(&self, client: &Client<HostedOs>, object: Object) -> Result<u32> {
        let mut table = lock(&self.table);
        let known = table.iter().find(|(_, other)| other.memory.is_same(&object.memory));
        if let Some((&handle, _)) = known {
            // Dropped without the lock.
            drop(table);
            drop(object);
            return Ok(handle);
        }
        let handle = (1..).find(|handle| !table.contains_key(handle)).ok_or(Errno::ENOMEM)?;
        client.handle_opened(&object.memory.backing());
        table.insert(handle, object);
        Ok(handle)
    }

    fn with<R>(&self, handle: u32, what: impl FnOnce(&Object) -> R) -> Result<R> {
        lock(&self.table).get(&handle).map(what).ok_or(Errno::ENOENT)
    }
}

/// A process's state of a render node.
pub(super) struct File {
    pub(super) client: Arc<Client<HostedOs>>,
    /// The GPU that it is of, and the driver's device.
    pub(super) gpu: Arc<HostedGpu>,
    pub(super) device: Arc<KfdDevice<HostedOs>>,
    /// Name that the topology has for the node.
    pub(super) gpu_id: u32,
    objects: Objects,
}

impl File {
    pub(super) fn new(
        client: Arc<Client<HostedOs>>,
        (gpu, device): (Arc<HostedGpu>, Arc<KfdDevice<HostedOs>>),
        gpu_id: u16,
    ) -> Self {
        Self { client, gpu, device, gpu_id: gpu_id.into(), objects: Objects::default() }
    }
}

/// A file, and whose it is.
struct FileOf<'a> {
    process: &'a HostedProcess,
    file: &'a File,
}

impl RenderFile for FileOf<'_> {
    fn handle_create(&self, backing: Arc<dyn Backing>) -> Result<u32> {
        let gems = self.file.gpu.gems();
        let gem = gems.insert(self.file.client.id(), Mappable::Backing(backing.clone()));
        self.file.objects.insert(&self.file.client, Object { memory: HostedDmaBuf::own(backing), gem })
    }

    fn lookup(&self, handle: u32) -> Result<Arc<dyn Backing>> {
        self.file.objects.with(handle, |object| object.memory.backing())
    }

    fn mmap_offset(&self, handle: u32) -> Result<u64> {
        self.file.objects.with(handle, |object| object.gem.mmap_offset())
    }

    fn caller(&self) -> ProcessKey {
        self.process.key
    }

    fn fence_new(&self) -> Result<Arc<Fence>> {
        Ok(self.process.new_fence())
    }

    /// Work of this process's GPU, whose end is heard of without being told.
    fn sync_await(&self, at: SyncPoint, _kick: Arc<dyn Work>) -> Result<Awaited> {
        self.process.awaited(at)
    }

    fn sync_target(&self, at: SyncPoint) -> Result<Box<dyn SyncTarget>> {
        self.process.target(at)
    }

    fn sync_export(&self, fence: Option<&Arc<Fence>>, to: SyncExport) -> Result<u32> {
        self.process.exported(fence, to)
    }
}

impl HostedProcess {
    /// Answers an ioctl of the DRM core or the render node.
    pub(super) fn render_ioctl(&self, file: &File, request: u32, arg: u64) -> Result<()> {
        const VERSION: u8 = ioc_nr(DRM_IOCTL_VERSION);
        const GEM_CLOSE: u8 = ioc_nr(DRM_IOCTL_GEM_CLOSE);
        const GET_CAP: u8 = ioc_nr(DRM_IOCTL_GET_CAP);
        const MODE_GETRESOURCES: u8 = ioc_nr(DRM_IOCTL_MODE_GETRESOURCES);
        const HANDLE_TO_FD: u8 = ioc_nr(DRM_IOCTL_PRIME_HANDLE_TO_FD);
        const FD_TO_HANDLE: u8 = ioc_nr(DRM_IOCTL_PRIME_FD_TO_HANDLE);
        match ioc_nr(request) {
            VERSION => self.version(arg),
            GEM_CLOSE => self.drm_call(DRM_IOCTL_GEM_CLOSE, request, arg, |data| {
                self.gem_close(file, read::<DrmGemClose>(data)?.handle)
            }),
            GET_CAP => self.drm_call(DRM_IOCTL_GET_CAP, request, arg, |data| {
                let mut args: DrmGetCap = read(data)?;
                args.value = match args.capability {
                    DRM_CAP_PRIME => DRM_PRIME_CAPS,
                    DRM_CAP_TIMESTAMP_MONOTONIC | DRM_CAP_SYNCOBJ | DRM_CAP_SYNCOBJ_TIMELINE => 1,
                    // What DRM answers for a driver without a display.
                    _ => return Err(Errno::EOPNOTSUPP),
                };
                args.write_to_prefix(data).map_err(|_| Errno::EINVAL)
            }),
            // There is no display. Programs take an error for a card that is broken, and a display of nothing for none.
            MODE_GETRESOURCES => self.drm_call(DRM_IOCTL_MODE_GETRESOURCES, request, arg, |data| {
                let args: DrmModeCardRes = read(data)?;
                let none = DrmModeCardRes { counts: [0; 4], sizes: [0; 4], ..args };
                none.write_to_prefix(data).map_err(|_| Errno::EINVAL)
            }),
            HANDLE_TO_FD => self.drm_call(DRM_IOCTL_PRIME_HANDLE_TO_FD, request, arg, |data| {
                let mut args: DrmPrimeHandle = read(data)?;
                args.fd = self.handle_to_fd(file, &args)?;
                args.write_to_prefix(data).map_err(|_| Errno::EINVAL)
            }),
            FD_TO_HANDLE => self.drm_call(DRM_IOCTL_PRIME_FD_TO_HANDLE, request, arg, |data| {
                let mut args: DrmPrimeHandle = read(data)?;
                args.handle = self.fd_to_handle(file, args.fd)?;
                args.write_to_prefix(data).map_err(|_| Errno::EINVAL)
            }),
            nr => {
                if let Some(result) = self.syncobj_ioctl(request, arg) {
                    return result;
                }
                let known = DRM_COMMANDS.iter().find(|&&(_, known)| ioc_nr(known) == nr);
                let known = known.ok_or(Errno::EINVAL)?.1;
                let of = FileOf { process: self, file };
                self.drm_call(known, request, arg, |data| self.kfd.drm_ioctl(&file.client, &of, known, data))
            }
        }
    }

    /// Copies arguments in and the answer out, as `drm_ioctl` of the DRM core does: after an error, too.
    pub(super) fn drm_call(
        &self,
        known: u32,
        request: u32,
        arg: u64,
        run: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let os = self.os();
        let user_size = ioc_size(request);
        let copied =
            |direction| if ioc_dir(known) & ioc_dir(request) & direction != 0 { user_size } else { 0 };
        let mut data = vec![0; user_size.max(ioc_size(known))];
        os.copy_from_user(&mut data[..copied(IOC_WRITE)], arg)?;
        let result = run(&mut data);
        os.copy_to_user(arg, &data[..copied(IOC_READ)])?;
        result
    }

    fn version(&self, arg: u64) -> Result<()> {
        let os = self.os();
        // struct drm_version: three 32-bit versions, then {length, pointer} of name, date and description.
        let mut version = [0u8; 64];
        os.copy_from_user(&mut version, arg)?;
        let quad = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        version[..4].copy_from_slice(&DRM_DRIVER_MAJOR.to_le_bytes());
        version[4..8].copy_from_slice(&DRM_DRIVER_MINOR.to_le_bytes());
        version[8..12].copy_from_slice(&0u32.to_le_bytes());
        for (at, text) in [(16, DRM_DRIVER_NAME), (32, "20150101"), (48, "AMD GPU")] {
            let (room, pointer) = (quad(&version, at), quad(&version, at + 8));
            let len = (room as usize).min(text.len());
            if pointer != 0 && len > 0 {
                os.copy_to_user(pointer, &text.as_bytes()[..len])?;
            }
            version[at..at + 8].copy_from_slice(&(text.len() as u64).to_le_bytes());
        }
        os.copy_to_user(arg, &version)
    }

    /// GEM_CLOSE; `EINVAL` for a bad handle.
    fn gem_close(&self, file: &File, handle: u32) -> Result<()> {
        let object = lock(&file.objects.table).remove(&handle).ok_or(Errno::EINVAL)?;
        file.client.handle_closed(&object.memory.backing());
        Ok(())
    }

    /// PRIME_HANDLE_TO_FD.
    fn handle_to_fd(&self, file: &File, args: &DrmPrimeHandle) -> Result<i32> {
        if args.flags & !PRIME_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let memory = file.objects.with(args.handle, |object| object.memory.clone())?;
        if memory.backing().is_exclusive() {
            return Err(Errno::EPERM);
        }
        file.device.os().dmabuf_fd(&memory, args.flags)
    }

    /// PRIME_FD_TO_HANDLE: memory of this GPU that has a handle keeps it.
    fn fd_to_handle(&self, file: &File, fd: i32) -> Result<u32> {
        let memory = file.device.os().dmabuf_get(fd)?;
        let mappable = if memory.is_foreign() {
            Mappable::File(Arc::new(file.gpu.exports().shared_file(&Descriptor::of(fd)?)?))
        } else {
            Mappable::Backing(memory.backing())
        };
        let gem = file.gpu.gems().insert(file.client.id(), mappable);
        file.objects.insert(&file.client, Object { memory, gem })
    }
}

/// The structure at the front of `data`.
pub(super) fn read<T: FromBytes>(data: &[u8]) -> Result<T> {
    T::read_from_prefix(data).map(|(args, _)| args).map_err(|_| Errno::EINVAL)
}
