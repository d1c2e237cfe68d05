//! A process of the hosted driver: the file descriptors a program would have, as methods.
#![expect(unsafe_code, reason = "maps memory at addresses and passes pointers")]

mod handles;
mod ipc;
mod opening;
mod quarantine;
mod render;
mod sync_file;
mod syncobj;
mod sysfs;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::kfd::debug::DbgTrapArgs;
use belfry_abi::kfd::ioctl::{DBG_TRAP, WAIT_EVENTS, ioc_nr};
use belfry_kfd_core::os::{Backing, BoPage, Change, PAGE_SIZE, ProcessKey};
use belfry_kfd_core::{Errno, Kfd, MmapTarget, Process, Result};
use belfry_lock::{Mutex, rank};

use crate::debug::{Notices, telling};
use crate::gems::Mappable;
use crate::gpu::HostedGpu;
use crate::mapping;
use crate::node::{self, Node, RenderFiles};
use crate::os::{HostedOs, calling};
use crate::sync::lock;
use handles::Handles;
use quarantine::Quarantine;
use render::File;
use syncobj::Syncobjs;

/// One contiguous piece of a map.
#[derive(Clone, Copy)]
enum Piece {
    /// In VRAM, at this offset.
    Vram(u64),
    /// In the driver's memory, at this offset.
    System(u64),
}

/// A mapping.
struct Map {
    len: usize,
    /// Memory it keeps.
    backing: Option<Arc<dyn Backing>>,
    /// GPU whose doorbells it maps, and offset in its doorbell BAR.
    doorbells: Option<(Arc<HostedGpu>, u64)>,
}

impl Map {
    /// The part that is left when `len` bytes from `skip` on are kept.
    fn part(&self, skip: usize, len: usize) -> Self {
        Self {
            len,
            backing: self.backing.clone(),
            doorbells: self.doorbells.as_ref().map(|(gpu, offset)| (gpu.clone(), offset + skip as u64)),
        }
    }
}

/// A process that has the driver open. Dropping it is the process's death: queues are removed, memory is freed and maps
/// made through [`HostedProcess::mmap`] are gone.
pub struct HostedProcess {
    /// The first of its GPUs.
    hosted: Arc<HostedGpu>,
    kfd: Arc<Kfd<HostedOs>>,
    process: Arc<Process<HostedOs>>,
    key: ProcessKey,
    render: RenderFiles,
    /// Maps by address.
    maps: Mutex<BTreeMap<usize, Map>, rank::HostedMaps>,
    /// Addresses that are kept, where a sanitizer looks at memory.
    quarantine: Option<Mutex<Quarantine, rank::HostedQuarantine>>,
    /// Handles of shared memory.
    handles: Handles,
    /// State of each render node, of all partitions of all GPUs; all descriptors of one node share one open file.
    files: Vec<File>,
    syncobjs: Syncobjs,
}

impl std::fmt::Debug for HostedProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedProcess").field("key", &self.key).finish_non_exhaustive()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

impl HostedProcess {
    /// Returns the number by which another process of the same driver debugs it (`DBG_TRAP`).
    #[must_use]
    pub fn pid(&self) -> u32 {
        crate::debug::pid(self.key)
    }

    /// Returns the first GPU that it has open.
    pub fn gpu(&self) -> &Arc<HostedGpu> {
        &self.hosted
    }

    /// Returns the descriptor number of its first render node, for `ACQUIRE_VM`, where it has no descriptors of its own.
    pub fn render_fd(&self) -> i32 {
        node::invented(self.key.0)
    }

    /// Returns the same of the render node with a number among those of all GPUs.
    pub fn render_fd_of(&self, partition: u32) -> i32 {
        node::invented_of(self.key.0, partition)
    }

    /// Returns the number of the render node of what the topology names like this, if there is one: a GPU or one of its partitions.
    pub fn partition_of(&self, gpu_id: u32) -> Option<u32> {
        self.files.iter().position(|file| file.gpu_id == gpu_id).map(|number| number as u32)
    }

    /// GPUs that it has open.
    fn gpus(&self) -> impl Iterator<Item = &Arc<HostedGpu>> {
        self.files.chunk_by(|one, other| Arc::ptr_eq(&one.gpu, &other.gpu)).map(|files| &files[0].gpu)
    }

    /// Operating system, for what concerns no device.
    fn os(&self) -> &HostedOs {
        self.files[0].device.os()
    }

    /// The GPU that the driver knows by a number.
    fn gpu_of(&self, device: u32) -> Result<&Arc<HostedGpu>> {
        let file = self.files.iter().find(|file| file.device.number() == device);
        file.map(|file| &file.gpu).ok_or(Errno::EINVAL)
    }

    /// State of a render node.
    fn file(&self, node: Node) -> Result<&File> {
        let number = node.partition().ok_or(Errno::EINVAL)?;
        self.files.get(number as usize).ok_or(Errno::ENOENT)
    }

    /// Issues one ioctl. `arg` may be any pointer: a bad one yields `EFAULT`.
    ///
    /// # Errors
    ///
    /// The errno of the ioctl.
    pub fn ioctl(&self, node: Node, request: u32, arg: *mut c_void) -> Result<i32> {
        let arg = arg as u64;
        if node != Node::Kfd || ioc_nr(request) != ioc_nr(WAIT_EVENTS) {
            // A kernel notices closed descriptors at once. Here they are looked for before a program can ask.
            self.gpus().for_each(|gpu| gpu.exports().reap());
        }
        self.hosted.point();
        self.gpus().for_each(|gpu| gpu.strike_call(self.process.pasid()));
        let result = calling(self.render, self.key.0, || match node {
            Node::Kfd => match self.ipc_ioctl(request, arg) {
                Some(result) => result.map(|()| 0),
                None => self.kfd.ioctl(&self.process, self.key, request, arg).map(|value| value as i32),
            },
            _ => self.render_ioctl(self.file(node)?, request, arg).map(|()| 0),
        });
        self.hosted.point();
        result
    }

    /// Makes a call of a debugger (`DBG_TRAP`) that is another process of the system, for which this one stands; its notices
    /// go to `notices`. The pointers in `args` are this process's.
    ///
    /// # Errors
    ///
    /// The errno of the ioctl.
    pub fn debug(&self, args: &mut DbgTrapArgs, notices: &Arc<dyn Notices>) -> Result<i32> {
        let args = std::ptr::from_mut(args).cast();
        telling(notices, || self.ioctl(Node::Kfd, DBG_TRAP, args))
    }

    /// Maps `len` bytes of the node at `offset`, shared; at exactly `addr` (replacing the map there) if one is given.
    ///
    /// `prot` takes `libc::PROT_*` bits.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset, length or address that names nothing, `EACCES` for another process's buffer object.
    ///
    /// # Safety
    ///
    /// With an address, `addr..addr + len` must be a range the caller reserved: the map there is replaced.
    pub unsafe fn mmap(
        &self,
        node: Node,
        addr: Option<usize>,
        len: usize,
        prot: i32,
        offset: u64,
    ) -> Result<*mut u8> {
        let page = PAGE_SIZE as usize;
        let aligned = addr.is_none_or(|addr| addr != 0 && addr.is_multiple_of(page));
        let size = len.checked_next_multiple_of(page).filter(|&size| size > 0).ok_or(Errno::EINVAL)?;
        if !aligned || !offset.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's contract is that of the functions called.
        unsafe {
            match node {
                Node::Render | Node::Partition(_) => {
                    let file = self.file(node)?;
                    match file.gpu.gems().find(file.client.id(), offset, size as u64)? {
                        (Mappable::Backing(backing), inside) => {
                            self.map_backing(&file.gpu, addr, size, prot, (backing, inside))
                        }
                        (Mappable::File(file), inside) => {
                            let mapped = file.map(addr, size, prot, inside)?;
                            self.note(mapped as usize, Map { len: size, backing: None, doorbells: None });
                            Ok(mapped)
                        }
                    }
                }
                Node::Kfd => match self.kfd.mmap(&self.process, self.key, offset, size as u64)? {
                    MmapTarget::Doorbells { device, offset, .. } => {
                        let gpu = self.gpu_of(device)?;
                        let doorbells = &gpu.bars.doorbells;
                        let page =
                            doorbells.duplicate((offset, size), addr, prot).map_err(|error| errno(&error))?;
                        let doorbells = Some((gpu.clone(), offset));
                        self.note(page as usize, Map { len: size, backing: None, doorbells });
                        Ok(page)
                    }
                    MmapTarget::MmioRemap { device, .. } => {
                        let page = &self.gpu_of(device)?.bars.flushes.0;
                        let mapped = page.duplicate((0, size), addr, prot).map_err(|error| errno(&error))?;
                        self.note(mapped as usize, Map { len: size, backing: None, doorbells: None });
                        Ok(mapped)
                    }
                },
            }
        }
    }

    /// Maps a buffer object of a GPU piece by piece, as its pages lie.
    unsafe fn map_backing(
        &self,
        gpu: &HostedGpu,
        addr: Option<usize>,
        size: usize,
        prot: i32,
        (backing, inside): (Arc<dyn Backing>, u64),
    ) -> Result<*mut u8> {
        let base = match addr {
            Some(addr) => addr,
            None => {
                // SAFETY: a new mapping at a place the kernel chooses.
                unsafe { mapping::zeroed(None, size, libc::PROT_NONE) }.map_err(|error| errno(&error))?
            }
        };
        let system = gpu.arena().memory();
        let locate = |page: u64| match backing.page(page).ok_or(Errno::EINVAL)? {
            BoPage::Vram(offset) => Ok(Piece::Vram(offset)),
            BoPage::System { cpu, .. } => Ok(Piece::System(cpu as u64 - system.address())),
            BoPage::User(_) => Err(Errno::EPERM),
        };
        let first = inside / PAGE_SIZE;
        let count = size as u64 / PAGE_SIZE;
        let mut page = 0;
        while page < count {
            let start = locate(first + page)?;
            let mut pages = 1;
            while page + pages < count {
                let ahead = pages * PAGE_SIZE;
                match (start, locate(first + page + pages)?) {
                    (Piece::Vram(a), Piece::Vram(b)) | (Piece::System(a), Piece::System(b))
                        if a + ahead == b =>
                    {
                        pages += 1;
                    }
                    _ => break,
                }
            }
            let (memory, offset) = match start {
                Piece::Vram(offset) => (&gpu.bars.vram, offset),
                Piece::System(offset) => (system, offset),
            };
            let at = base + (page * PAGE_SIZE) as usize;
            let range = (offset, (pages * PAGE_SIZE) as usize);
            // SAFETY: inside the range that is reserved, by the caller or above.
            unsafe { memory.duplicate(range, Some(at), prot) }.map_err(|error| errno(&error))?;
            page += pages;
        }
        self.note(base, Map { len: size, backing: Some(backing), doorbells: None });
        Ok(base as *mut u8)
    }

    /// Remembers a map, and forgets the maps that it covers.
    fn note(&self, address: usize, map: Map) {
        let covered = self.forget(address, map.len);
        if let Some(quarantine) = &self.quarantine {
            lock(quarantine).forget(address, map.len);
        }
        lock(&self.maps).insert(address, map);
        drop(covered);
    }

    /// Forgets the maps in a range; a map that reaches out of it keeps the rest.
    fn forget(&self, address: usize, size: usize) -> Vec<Map> {
        let end = address.saturating_add(size);
        let mut maps = lock(&self.maps);
        let touched: Vec<usize> = maps
            .range(..end)
            .filter(|(start, map)| **start + map.len > address)
            .map(|(start, _)| *start)
            .collect();
        let mut gone = Vec::new();
        for start in touched {
            let Some(map) = maps.remove(&start) else { continue };
            let rest = start + map.len;
            if start < address {
                maps.insert(start, map.part(0, address - start));
            }
            if rest > end {
                maps.insert(end, map.part(end - start, rest - end));
            }
            gone.push(map);
        }
        gone
    }

    /// Removes all maps in a range, the driver's and others; the GPU loses its mappings of that memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is not aligned.
    ///
    /// # Safety
    ///
    /// Nothing may use `addr..addr + len` afterwards.
    pub unsafe fn munmap(&self, addr: *mut u8, len: usize) -> Result<()> {
        let mut emptied = false;
        let result = self.replacing(addr as usize, len, || {
            // SAFETY: the caller's contract.
            emptied = self.quarantine.is_some() && unsafe { quarantine::empty(addr as usize, len) };
            if emptied {
                return Ok(());
            }
            // SAFETY: the caller's contract.
            unsafe { mapping::unmap(addr as usize, len) }.map_err(|error| errno(&error))
        })?;
        if let Some(quarantine) = self.quarantine.as_ref().filter(|_| emptied) {
            lock(quarantine).keep(addr as usize, len);
        }
        result
    }

    /// Runs `change`, which unmaps or replaces a range of this process's memory, after the driver was told and the GPU uses
    /// it no more.
    ///
    /// For a change that has happened already, `change` does nothing.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that wraps around; `change` has not run then.
    pub fn replacing<R>(&self, address: usize, len: usize, change: impl FnOnce() -> R) -> Result<R> {
        let end = address.checked_add(len).ok_or(Errno::EINVAL)?;
        let kept = self.forget(address, len);
        let told = Change { start: address as u64, end: end as u64, unmapped: true, held: false };
        let result = self.hosted.pins().change(&told, change);
        drop(kept);
        Ok(result)
    }

    /// Runs `change`, which changes the access to a range of this process's memory, after the driver was told. What of
    /// the range is there afterwards comes back to the GPU with the new access.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that wraps around; `change` has not run then.
    pub fn protecting<R>(&self, address: usize, len: usize, change: impl FnOnce() -> R) -> Result<R> {
        let end = address.checked_add(len).ok_or(Errno::EINVAL)?;
        let told = Change { start: address as u64, end: end as u64, unmapped: false, held: false };
        Ok(self.hosted.pins().change(&told, change))
    }

    /// Tells the driver that the program may do more with a range of its memory than before.
    pub fn permitted(&self, address: usize, len: usize) {
        let end = address.saturating_add(len);
        self.hosted.pins().tell(&Change {
            start: address as u64,
            end: end as u64,
            unmapped: false,
            held: false,
        });
    }

    /// Tells the driver that a range of this process's memory was changed a while ago: by now, it may be anything.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that wraps around.
    pub fn changed(&self, address: usize, len: usize) -> Result<()> {
        let end = address.checked_add(len).ok_or(Errno::EINVAL)?;
        let kept = self.forget(address, len);
        let (start, end) = (address as u64, end as u64);
        self.hosted.pins().changed(&Change { start, end, unmapped: false, held: false });
        drop(kept);
        Ok(())
    }

    /// Returns true if the driver or the device uses memory in a range: a map of a node, or a pin.
    pub fn uses(&self, address: usize, len: usize) -> bool {
        let end = address.saturating_add(len);
        let maps = lock(&self.maps);
        let mapped = maps.range(..end).next_back().is_some_and(|(start, map)| start + map.len > address);
        mapped || self.hosted.pins().any_in(address as u64, end as u64)
    }

    /// The map of doorbells that an address lies in, if it is one: its range, its GPU, and where in the doorbell BAR of that one it begins.
    pub fn doorbells_at(&self, address: usize) -> Option<(Range<usize>, Arc<HostedGpu>, u64)> {
        let maps = lock(&self.maps);
        let (&start, map) = maps.range(..=address).next_back()?;
        let end = start + map.len;
        let doorbells = map.doorbells.as_ref().filter(|_| address < end);
        doorbells.map(|(gpu, offset)| (start..end, gpu.clone(), *offset))
    }

    /// Tells the device that a mapped doorbell was written, and lets it execute short work on this thread.
    pub fn doorbell_written(&self, addr: *mut u64) {
        let offset = {
            let maps = lock(&self.maps);
            let map = maps.range(..=addr as usize).next_back();
            map.and_then(|(start, map)| {
                let inside = addr as usize - start;
                let (gpu, offset) = map.doorbells.as_ref().filter(|_| inside < map.len)?;
                Some((gpu.clone(), DoorbellOffset::from_bytes(offset + inside as u64)))
            })
        };
        match offset {
            Some((gpu, offset)) => gpu.device().doorbell_written(offset),
            None => self.gpus().for_each(|gpu| gpu.device().doorbell_hint()),
        }
        self.hosted.point();
    }
}

impl Drop for HostedProcess {
    fn drop(&mut self) {
        self.kfd.exit(self.key);
        self.files.iter().for_each(|file| self.kfd.drm_close(&file.client));
        for (address, map) in std::mem::take(&mut *lock(&self.maps)) {
            // SAFETY: the map is the process's own, and the process is gone.
            let _ = unsafe { mapping::unmap(address, map.len) };
        }
    }
}
