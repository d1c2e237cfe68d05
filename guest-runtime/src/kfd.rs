//! One safe method per KFD ioctl the runtime uses.
#![expect(unsafe_code, reason = "ioctls take pointers to their argument structs")]

mod host_path;

use std::fmt;

use belfry_abi::kfd::aperture::{GetProcessAperturesNewArgs, ProcessDeviceApertures};
use belfry_abi::kfd::event::{CreateEventArgs, EventData, EventIdArgs, WaitEventsArgs};
use belfry_abi::kfd::ioctl;
use belfry_abi::kfd::memory::{
    AcquireVmArgs, AllocFlags, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs,
    MapMemoryToGpuArgs,
};
use belfry_abi::kfd::misc::{GetClockCountersArgs, GetVersionArgs, SetTrapHandlerArgs};
use belfry_abi::kfd::queue::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs,
    UpdateQueueArgs,
};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::transport::{Errno, Node, Transport};

use host_path::HostPath;

/// First interface version whose events carry an age, so that a waiter can tell that it missed one.
const EVENT_AGE_VERSION: (u32, u32) = (1, 14);

/// A KFD request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{operation} failed: {errno}")]
pub struct KfdError {
    /// The request, `AMDKFD_IOC_*` without the prefix, or `mmap`.
    pub operation: &'static str,
    /// Errno that it returned.
    pub errno: Errno,
}

/// The transport and the facts learnt when it was opened.
pub(crate) struct Kfd {
    transport: Box<dyn Transport>,
    version: (u32, u32),
    host_path: HostPath,
}

impl Drop for Kfd {
    fn drop(&mut self) {
        self.host_path.close(self);
    }
}

impl fmt::Debug for Kfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kfd").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Kfd {
    /// Asks for the interface version.
    pub(crate) fn new(transport: Box<dyn Transport>) -> Result<Self, KfdError> {
        let mut kfd = Self { transport, version: (0, 0), host_path: HostPath::default() };
        let mut args = GetVersionArgs::new_zeroed();
        // SAFETY: the struct holds no pointer.
        unsafe { kfd.call("GET_VERSION", ioctl::GET_VERSION, &mut args) }?;
        kfd.version = (args.major_version, args.minor_version);
        Ok(kfd)
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// The way of the processor's stores to VRAM.
    pub(crate) fn host_path(&self) -> &HostPath {
        &self.host_path
    }

    /// Interface version, major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Events carry ages.
    pub(crate) fn has_event_age(&self) -> bool {
        self.version >= EVENT_AGE_VERSION
    }

    /// # Safety
    ///
    /// Pointers inside `args` must be valid for the request's accesses.
    unsafe fn call<T: FromBytes + IntoBytes + Immutable>(
        &self,
        operation: &'static str,
        request: u32,
        args: &mut T,
    ) -> Result<(), KfdError> {
        debug_assert_eq!(ioctl::ioc_size(request), size_of::<T>(), "{operation}");
        loop {
            // SAFETY: `args` is a struct of the size in the request; the caller vouches for its pointers.
            match unsafe { self.transport.ioctl(Node::Kfd, request, std::ptr::from_mut(args).cast()) } {
                Ok(_) => return Ok(()),
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(KfdError { operation, errno }),
            }
        }
    }

    /// Apertures of the GPUs, at most `nodes` (the number of topology nodes).
    pub(crate) fn apertures(&self, nodes: usize) -> Result<Vec<ProcessDeviceApertures>, KfdError> {
        let mut list = vec![ProcessDeviceApertures::new_zeroed(); nodes];
        let mut args = GetProcessAperturesNewArgs::new_zeroed();
        args.kfd_process_device_apertures_ptr = list.as_mut_ptr().expose_provenance() as u64;
        args.num_of_nodes = nodes as u32;
        // SAFETY: the pointer is to `num_of_nodes` entries.
        unsafe { self.call("GET_PROCESS_APERTURES_NEW", ioctl::GET_PROCESS_APERTURES_NEW, &mut args) }?;
        list.truncate(args.num_of_nodes as usize);
        Ok(list)
    }

    pub(crate) fn acquire_vm(&self, gpu_id: u32) -> Result<(), KfdError> {
        let mut args = AcquireVmArgs::new_zeroed();
        args.drm_fd = self.transport.render_fd(gpu_id).cast_unsigned();
        args.gpu_id = gpu_id;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("ACQUIRE_VM", ioctl::ACQUIRE_VM, &mut args) }
    }

    /// Allocates a buffer object at `va`; `user` is the CPU address of user memory. Returns handle and mmap offset.
    pub(crate) fn alloc(
        &self,
        gpu_id: u32,
        va: u64,
        size: u64,
        flags: AllocFlags,
    ) -> Result<(u64, u64), KfdError> {
        let mut args = AllocMemoryOfGpuArgs::new_zeroed();
        args.va_addr = va;
        args.size = size;
        args.gpu_id = gpu_id;
        args.flags = flags.bits();
        if flags.contains(AllocFlags::USERPTR) {
            args.mmap_offset = va;
        }
        // SAFETY: addresses are only recorded; user memory is owned by the caller until it frees the handle.
        unsafe { self.call("ALLOC_MEMORY_OF_GPU", ioctl::ALLOC_MEMORY_OF_GPU, &mut args) }?;
        Ok((args.handle, args.mmap_offset))
    }

    pub(crate) fn free(&self, handle: u64) -> Result<(), KfdError> {
        let mut args = FreeMemoryOfGpuArgs::new_zeroed();
        args.handle = handle;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("FREE_MEMORY_OF_GPU", ioctl::FREE_MEMORY_OF_GPU, &mut args) }
    }

    pub(crate) fn map(&self, handle: u64, gpus: &[u32]) -> Result<(), KfdError> {
        // SAFETY: `map_args` points at `gpus`.
        unsafe { self.call("MAP_MEMORY_TO_GPU", ioctl::MAP_MEMORY_TO_GPU, &mut map_args(handle, gpus)) }
    }

    pub(crate) fn unmap(&self, handle: u64, gpus: &[u32]) -> Result<(), KfdError> {
        // SAFETY: `map_args` points at `gpus`.
        unsafe {
            self.call("UNMAP_MEMORY_FROM_GPU", ioctl::UNMAP_MEMORY_FROM_GPU, &mut map_args(handle, gpus))
        }
    }

    /// Bytes of VRAM that are free.
    pub(crate) fn available_memory(&self, gpu_id: u32) -> Result<u64, KfdError> {
        let mut args = GetAvailableMemoryArgs::new_zeroed();
        args.gpu_id = gpu_id;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("AVAILABLE_MEMORY", ioctl::AVAILABLE_MEMORY, &mut args) }?;
        Ok(args.available)
    }

    pub(crate) fn clock_counters(&self, gpu_id: u32) -> Result<GetClockCountersArgs, KfdError> {
        let mut args = GetClockCountersArgs::new_zeroed();
        args.gpu_id = gpu_id;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("GET_CLOCK_COUNTERS", ioctl::GET_CLOCK_COUNTERS, &mut args) }?;
        Ok(args)
    }

    pub(crate) fn set_trap_handler(&self, gpu_id: u32, tba: u64, tma: u64) -> Result<(), KfdError> {
        let mut args = SetTrapHandlerArgs::new_zeroed();
        (args.gpu_id, args.tba_addr, args.tma_addr) = (gpu_id, tba, tma);
        // SAFETY: the struct holds addresses of the GPU's, none of this process's.
        unsafe { self.call("SET_TRAP_HANDLER", ioctl::SET_TRAP_HANDLER, &mut args) }
    }

    /// Creates an event; `page` is the handle of the event page, for the first event only. Returns id and slot.
    pub(crate) fn create_event(
        &self,
        event_type: u32,
        auto_reset: bool,
        page: Option<u64>,
    ) -> Result<(u32, u32), KfdError> {
        let mut args = CreateEventArgs::new_zeroed();
        args.event_page_offset = page.unwrap_or(0);
        args.event_type = event_type;
        args.auto_reset = auto_reset.into();
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("CREATE_EVENT", ioctl::CREATE_EVENT, &mut args) }?;
        Ok((args.event_id, args.event_slot_index))
    }

    pub(crate) fn destroy_event(&self, event_id: u32) -> Result<(), KfdError> {
        self.event("DESTROY_EVENT", ioctl::DESTROY_EVENT, event_id)
    }

    pub(crate) fn set_event(&self, event_id: u32) -> Result<(), KfdError> {
        self.event("SET_EVENT", ioctl::SET_EVENT, event_id)
    }

    pub(crate) fn reset_event(&self, event_id: u32) -> Result<(), KfdError> {
        self.event("RESET_EVENT", ioctl::RESET_EVENT, event_id)
    }

    fn event(&self, operation: &'static str, request: u32, event_id: u32) -> Result<(), KfdError> {
        let mut args = EventIdArgs::new_zeroed();
        args.event_id = event_id;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call(operation, request, &mut args) }
    }

    /// Waits until one of the events is set or `milliseconds` have passed. Returns the `KFD_IOC_WAIT_RESULT_*`.
    pub(crate) fn wait_events(&self, events: &mut [EventData], milliseconds: u32) -> Result<u32, KfdError> {
        let mut args = WaitEventsArgs::new_zeroed();
        args.events_ptr = events.as_mut_ptr().expose_provenance() as u64;
        args.num_events = events.len() as u32;
        args.timeout = milliseconds;
        // SAFETY: the pointer is to `num_events` entries.
        unsafe { self.call("WAIT_EVENTS", ioctl::WAIT_EVENTS, &mut args) }?;
        Ok(args.wait_result)
    }

    /// Creates a queue from filled-in arguments; `queue_id` and `doorbell_offset` come back in them.
    pub(crate) fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), KfdError> {
        // SAFETY: every address in the arguments is one of a buffer object, which the kernel checks.
        unsafe { self.call("CREATE_QUEUE", ioctl::CREATE_QUEUE, args) }
    }

    /// Gives a queue the global wave sync.
    pub(crate) fn alloc_queue_gws(&self, queue_id: u32, num_gws: u32) -> Result<(), KfdError> {
        let mut args = AllocQueueGwsArgs::new_zeroed();
        args.queue_id = queue_id;
        args.num_gws = num_gws;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("ALLOC_QUEUE_GWS", ioctl::ALLOC_QUEUE_GWS, &mut args) }
    }

    /// Limits a queue to some compute units, a bit for each.
    pub(crate) fn set_cu_mask(&self, queue_id: u32, mask: &[u32]) -> Result<(), KfdError> {
        let mut args = SetCuMaskArgs::new_zeroed();
        args.queue_id = queue_id;
        args.num_cu_mask = u32::try_from(mask.len() * 32).unwrap_or(u32::MAX);
        args.cu_mask_ptr = mask.as_ptr().expose_provenance() as u64;
        // SAFETY: the kernel reads as many words as the slice has.
        unsafe { self.call("SET_CU_MASK", ioctl::SET_CU_MASK, &mut args) }
    }

    /// Changes the share of a queue, which keeps its ring and its priority.
    pub(crate) fn update_queue(&self, args: &mut UpdateQueueArgs) -> Result<(), KfdError> {
        // SAFETY: the ring is a buffer object, which the kernel checks.
        unsafe { self.call("UPDATE_QUEUE", ioctl::UPDATE_QUEUE, args) }
    }

    /// Has the driver write headers to the context save area at `area` of a queue that does not run: they
    /// give the sizes of the parts that are in use.
    pub(crate) fn queue_wave_state(&self, queue_id: u32, area: u64) -> Result<(), KfdError> {
        let mut args = GetQueueWaveStateArgs::new_zeroed();
        args.queue_id = queue_id;
        args.ctl_stack_address = area;
        // SAFETY: the kernel writes headers in the area, which is memory that nothing else of this process looks at.
        unsafe { self.call("GET_QUEUE_WAVE_STATE", ioctl::GET_QUEUE_WAVE_STATE, &mut args) }
    }

    pub(crate) fn destroy_queue(&self, queue_id: u32) -> Result<(), KfdError> {
        let mut args = DestroyQueueArgs::new_zeroed();
        args.queue_id = queue_id;
        // SAFETY: the struct holds no pointer.
        unsafe { self.call("DESTROY_QUEUE", ioctl::DESTROY_QUEUE, &mut args) }
    }
}

fn map_args(handle: u64, gpus: &[u32]) -> MapMemoryToGpuArgs {
    let mut args = MapMemoryToGpuArgs::new_zeroed();
    args.handle = handle;
    args.device_ids_array_ptr = gpus.as_ptr().expose_provenance() as u64;
    args.n_devices = gpus.len() as u32;
    args
}
