//! A minimal KFD client: it does a runtime's work without a runtime.
#![allow(dead_code, reason = "every test binary uses another part")]
#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use belfry_abi::kfd::event::{
    CreateEventArgs, EventData, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE, WaitEventsArgs,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    AcquireVmArgs, AllocFlags, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs,
};
use belfry_abi::kfd::queue::{CreateQueueArgs, DestroyQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL};
use belfry_device::GpuConfig;
use belfry_device::chip::MODELS;
use belfry_kfd_hosted::{Errno, HostedGpu, HostedProcess, Node};

pub(crate) const PAGE: u64 = 4096;
/// Flags of ordinary memory.
pub(crate) const RW: AllocFlags =
    AllocFlags::WRITABLE.union(AllocFlags::EXECUTABLE).union(AllocFlags::NO_SUBSTITUTE);

/// A small GPU: two compute units, 64 MiB.
pub(crate) fn config() -> GpuConfig {
    GpuConfig { cus: 2, vram_size: 64 << 20, workers: 1, ..GpuConfig::default() }
}

pub(crate) fn gpu() -> Arc<HostedGpu> {
    HostedGpu::new(config()).unwrap()
}

/// A GPU of each chip, one after the other.
pub(crate) fn gpus() -> impl Iterator<Item = Arc<HostedGpu>> {
    MODELS.iter().map(|chip| HostedGpu::new(GpuConfig { chip, ..config() }).unwrap())
}

/// A buffer object at an address of its own, mapped on the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) va: u64,
    pub(crate) size: u64,
    pub(crate) handle: u64,
}

impl Buffer {
    pub(crate) fn quad(&self, offset: u64) -> &'static AtomicU64 {
        assert!(offset + 8 <= self.size && offset.is_multiple_of(8));
        // SAFETY: inside memory that is mapped for as long as the test runs.
        unsafe { AtomicU64::from_ptr((self.va + offset) as *mut u64) }
    }

    pub(crate) fn word(&self, offset: u64) -> &'static AtomicU32 {
        assert!(offset + 4 <= self.size && offset.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr((self.va + offset) as *mut u32) }
    }
}

/// A process with its GPU address space acquired.
pub(crate) struct Client {
    pub(crate) process: HostedProcess,
    pub(crate) gpu_id: u32,
}

/// Reserves addresses that no other code uses.
pub(crate) fn reserve(size: u64) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place the kernel chooses.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), size as usize, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    place as u64
}

pub(crate) fn ioctl<T>(process: &HostedProcess, command: u32, args: &mut T) -> Result<i32, Errno> {
    process.ioctl(Node::Kfd, command, std::ptr::from_mut(args).cast())
}

impl Client {
    pub(crate) fn open(gpu: &Arc<HostedGpu>) -> Self {
        let client = Self::open_only(gpu);
        client.acquire().unwrap();
        client
    }

    pub(crate) fn open_only(gpu: &Arc<HostedGpu>) -> Self {
        let process = HostedProcess::open(gpu).unwrap();
        let gpu_id = process.sysfs_read("nodes/1/gpu_id").unwrap().trim().parse().unwrap();
        Self { process, gpu_id }
    }

    pub(crate) fn acquire(&self) -> Result<i32, Errno> {
        let number = self.process.partition_of(self.gpu_id).unwrap();
        let mut args =
            AcquireVmArgs { drm_fd: self.process.render_fd_of(number) as u32, gpu_id: self.gpu_id };
        self.ioctl(nr::ACQUIRE_VM, &mut args)
    }

    pub(crate) fn ioctl<T>(&self, command: u32, args: &mut T) -> Result<i32, Errno> {
        ioctl(&self.process, command, args)
    }

    /// Value that the node of the GPU which gets requests has for a property.
    pub(crate) fn property(&self, key: &str) -> u64 {
        let id = format!("{}\n", self.gpu_id);
        let is_own = |node: &u32| self.process.sysfs_read(&format!("nodes/{node}/gpu_id")).unwrap() == id;
        let node = (1..).find(is_own).unwrap();
        let text = self.process.sysfs_read(&format!("nodes/{node}/properties")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {key}")).parse().unwrap()
    }

    pub(crate) fn alloc_at(
        &self,
        va: u64,
        size: u64,
        flags: AllocFlags,
    ) -> Result<AllocMemoryOfGpuArgs, Errno> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size,
            mmap_offset: va,
            gpu_id: self.gpu_id,
            flags: flags.bits(),
            ..Default::default()
        };
        self.ioctl(nr::ALLOC_MEMORY_OF_GPU, &mut args)?;
        Ok(args)
    }

    /// Allocates, maps for the processor and maps for the GPU.
    pub(crate) fn alloc(&self, size: u64, flags: AllocFlags) -> Result<Buffer, Errno> {
        let va = reserve(size);
        let args = self.alloc_at(va, size, flags)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range was just reserved.
        let mapped = unsafe {
            let node = Node::Partition(self.process.partition_of(self.gpu_id).unwrap());
            self.process.mmap(node, Some(va as usize), size as usize, prot, args.mmap_offset)
        }
        .unwrap();
        assert_eq!(mapped as u64, va);
        let buffer = Buffer { va, size, handle: args.handle };
        self.map(buffer.handle).map(|()| buffer)
    }

    /// Makes ordinary memory of this process reachable.
    pub(crate) fn user(&self, size: u64) -> Result<Buffer, Errno> {
        let va = reserve(size);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range was just reserved.
        let result = unsafe { libc::mprotect(va as *mut _, size as usize, prot) };
        assert_eq!(result, 0);
        let args = self.alloc_at(va, size, AllocFlags::USERPTR | AllocFlags::COHERENT | RW)?;
        let buffer = Buffer { va, size, handle: args.handle };
        self.map(buffer.handle).map(|()| buffer)
    }

    fn map_args(&self, handle: u64, ids: &[u32]) -> MapMemoryToGpuArgs {
        MapMemoryToGpuArgs {
            handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        }
    }

    pub(crate) fn map(&self, handle: u64) -> Result<(), Errno> {
        let ids = [self.gpu_id];
        let mut args = self.map_args(handle, &ids);
        self.ioctl(nr::MAP_MEMORY_TO_GPU, &mut args)?;
        assert_eq!(args.n_success, 1);
        Ok(())
    }

    pub(crate) fn unmap(&self, handle: u64) -> Result<(), Errno> {
        let ids = [self.gpu_id];
        let mut args = self.map_args(handle, &ids);
        self.ioctl(nr::UNMAP_MEMORY_FROM_GPU, &mut args).map(|_| ())
    }

    pub(crate) fn free(&self, handle: u64) -> Result<(), Errno> {
        self.ioctl(nr::FREE_MEMORY_OF_GPU, &mut FreeMemoryOfGpuArgs { handle }).map(|_| ())
    }

    pub(crate) fn create_event(&self, kind: u32, page: u64) -> Result<CreateEventArgs, Errno> {
        let mut args = CreateEventArgs {
            event_page_offset: page,
            event_type: kind,
            auto_reset: 1,
            ..Default::default()
        };
        self.ioctl(nr::CREATE_EVENT, &mut args)?;
        Ok(args)
    }

    /// Waits for one event; returns the result word and the event's data.
    pub(crate) fn wait(&self, event_id: u32, timeout: u32) -> Result<(u32, EventData), Errno> {
        let mut event = EventData { event_id, ..Default::default() };
        let mut args = WaitEventsArgs {
            events_ptr: &raw mut event as u64,
            num_events: 1,
            wait_for_all: 1,
            timeout,
            wait_result: u32::MAX,
        };
        self.ioctl(nr::WAIT_EVENTS, &mut args)?;
        Ok((args.wait_result, event))
    }

    /// Bytes of a context save area (`kfd_queue_ctx_save_restore_size`).
    fn save_area(&self, cwsr_size: u64) -> u64 {
        let (xccs, per_cu) = (self.property("num_xcc").max(1), self.property("simd_per_cu"));
        let cus = self.property("simd_count") / per_cu / xccs;
        let engines = self.property("array_count") / self.property("simd_arrays_per_engine") / xccs;
        // Compute units have waves of their own before gfx10.
        let waves = if per_cu == 4 { (cus * 40).min(engines * 512) } else { cus * 32 };
        ((cwsr_size + (waves * 32).next_multiple_of(64)) * xccs).next_multiple_of(PAGE)
    }

    pub(crate) fn queue_args(&self) -> Result<CreateQueueArgs, Errno> {
        let control = self.alloc(PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW)?;
        // amd_queue_t: read_dispatch_id lies at 0x80, and 0x88 says so.
        control.word(0x88).store(0x80, Ordering::Relaxed);
        let ring = self.user(PAGE)?;
        let eop = self.alloc(PAGE, AllocFlags::VRAM | RW)?;
        let cwsr_size = self.property("cwsr_size");
        let save = self.user(self.save_area(cwsr_size))?;
        for packet in 0..PAGE / 64 {
            // INVALID
            ring.word(packet * 64).store(1, Ordering::Relaxed);
        }
        Ok(CreateQueueArgs {
            ring_base_address: ring.va,
            write_pointer_address: control.va + 0x38,
            read_pointer_address: control.va + 0x80,
            ring_size: PAGE as u32,
            gpu_id: self.gpu_id,
            queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
            queue_percentage: 100,
            queue_priority: 7,
            eop_buffer_address: eop.va,
            eop_buffer_size: PAGE,
            ctx_save_restore_address: save.va,
            ctx_save_restore_size: cwsr_size as u32,
            ctl_stack_size: self.property("ctl_stack_size") as u32,
            ..Default::default()
        })
    }

    pub(crate) fn create_queue(&self) -> Result<Queue, Errno> {
        let mut args = self.queue_args()?;
        self.ioctl(nr::CREATE_QUEUE, &mut args)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let slice = args.doorbell_offset & !0x1fff;
        // SAFETY: no address is asked for.
        let doorbells = unsafe { self.process.mmap(Node::Kfd, None, 8192, prot, slice) }?;
        Ok(Queue { args, doorbell: doorbells as u64 + (args.doorbell_offset & 0x1fff), next: 0 })
    }

    pub(crate) fn destroy_queue(&self, id: u32) -> Result<i32, Errno> {
        self.ioctl(nr::DESTROY_QUEUE, &mut DestroyQueueArgs { queue_id: id, pad: 0 })
    }

    /// Makes a signal page and an event, and a signal (`amd_signal_t`) that triggers it when it is decremented.
    pub(crate) fn create_signal(&self) -> Signal {
        let page =
            self.alloc(32 << 10, AllocFlags::GTT | AllocFlags::COHERENT | AllocFlags::UNCACHED | RW).unwrap();
        let event = self.create_event(KFD_IOC_EVENT_SIGNAL, page.handle).unwrap();
        let signal = self.alloc(PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW).unwrap();
        signal.quad(0).store(1, Ordering::Relaxed);
        signal.quad(8).store(1, Ordering::Relaxed);
        signal.quad(16).store(page.va + u64::from(event.event_slot_index) * 8, Ordering::Relaxed);
        signal.word(24).store(event.event_id, Ordering::Relaxed);
        Signal { memory: signal, event_id: event.event_id, page }
    }

    /// Runs one barrier packet and sees signal and event.
    pub(crate) fn check_queue_works(&self) {
        let signal = self.create_signal();
        let mut queue = self.create_queue().unwrap();
        for round in 0..3 {
            signal.memory.quad(8).store(1, Ordering::Release);
            queue.barrier(&self.process, signal.memory.va);
            let (result, _) = self.wait(signal.event_id, 10_000).unwrap();
            assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE, "round {round}");
            assert_eq!(signal.memory.quad(8).load(Ordering::Acquire), 0);
        }
        self.destroy_queue(queue.args.queue_id).unwrap();
    }
}

/// A signal with an event behind it.
pub(crate) struct Signal {
    pub(crate) memory: Buffer,
    pub(crate) event_id: u32,
    pub(crate) page: Buffer,
}

/// A queue and where its doorbell is.
pub(crate) struct Queue {
    pub(crate) args: CreateQueueArgs,
    pub(crate) doorbell: u64,
    pub(crate) next: u64,
}

impl Queue {
    /// Submits a barrier-AND without dependencies that decrements `signal`.
    pub(crate) fn barrier(&mut self, process: &HostedProcess, signal: u64) {
        let packet = self.args.ring_base_address + (self.next % (PAGE / 64)) * 64;
        // SAFETY: ring, write pointer and doorbell are mapped while the process lives.
        unsafe {
            ((packet + 8) as *mut [u64; 6]).write_volatile([0; 6]);
            ((packet + 56) as *mut u64).write_volatile(signal);
            // BARRIER_AND, barrier bit, system acquire and release.
            AtomicU16::from_ptr(packet as *mut u16).store(0x1503, Ordering::Release);
            AtomicU64::from_ptr(self.args.write_pointer_address as *mut u64)
                .store(self.next + 1, Ordering::Release);
            AtomicU64::from_ptr(self.doorbell as *mut u64).store(self.next, Ordering::Release);
        }
        self.next += 1;
        process.doorbell_written(self.doorbell as *mut u64);
    }

    /// The number of packets the device has taken.
    pub(crate) fn read_index(&self) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.args.read_pointer_address as *mut u64) }.load(Ordering::Acquire)
    }
}
