//! A device on the bench: the driver's own structures, over [`FakeOs`], with interrupts a test puts into the ring.
#![expect(unsafe_code, reason = "writes the interrupt ring by address, as a device does")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::ih::{Client, ENTRY_SIZE, FAULT_RING_VALID, IhEntry, Source};
use belfry_abi::kfd::event::{
    CreateEventArgs, EventData, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_SIGNAL_EVENT_LIMIT,
};
use belfry_abi::kfd::memory::{AllocFlags, AllocMemoryOfGpuArgs};

use super::scheduler::FakeScheduler;
use super::{FakeOs, lock, registers};
use crate::acquire;
use crate::asic;
use crate::bo::BoKind;
use crate::config::Config;
use crate::device::Device;
use crate::gart::quad;
use crate::hw::Hw;
use crate::kfd::{Kfd, KfdDevice};
use crate::memory;
use crate::os::ProcessKey;
use crate::process::Process;
use crate::process_device::ProcessNode;
use crate::processes::Processes;

const VRAM: usize = 8 << 20;

/// A device of a machine, which has no other device unless a test says so.
pub(crate) struct Bench {
    pub(crate) device: Arc<Device<FakeOs>>,
    pub(crate) kfd: Arc<Kfd<FakeOs>>,
    pub(crate) gpu: Arc<KfdDevice<FakeOs>>,
    pub(crate) processes: Arc<Processes<FakeOs>>,
    /// Addresses of the interrupt ring and of its write pointer.
    ring: usize,
    wptr: usize,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let hw = Arc::new(Hw::new(FakeOs::new(VRAM).pair(), registers(), asic::ANY));
        let config = Config { vram_size: VRAM as u64, cus: 2, ..Config::default() };
        let kfd = Kfd::new(hw.os()).unwrap();
        Self::of(&kfd, hw, config)
    }

    /// Another device in the machine of this one. It has an operating system of its own.
    pub(crate) fn another(&self) -> Self {
        let hw = Arc::new(Hw::new(FakeOs::new(VRAM).pair(), registers(), asic::ANY));
        let config = Config { vram_size: VRAM as u64, cus: 2, ..Config::default() };
        Self::of(&self.kfd, hw, config)
    }

    /// A device of a machine that may have others.
    fn of(kfd: &Arc<Kfd<FakeOs>>, hw: Arc<Hw<FakeOs>>, config: Config) -> Self {
        let processes = kfd.processes().clone();
        let number = processes.devices().len() as u32;
        let device = Device::with_config(hw, config, number, processes.clone()).unwrap();
        device.gart.enable();
        *lock(&device.hw.os().users.vram) = Some(Arc::downgrade(&device.vram));
        let (ring, wptr) = {
            let mut guard = device.ih.lock();
            let ih = guard.as_mut().unwrap();
            ih.start();
            ih.addresses()
        };
        let (ring_address, size) = device.scheduler_ring();
        *lock(&device.hw.os().scheduler) = Some(FakeScheduler { ring: ring_address, size, taken: 0 });
        let gpu = kfd.add(device.clone()).unwrap();
        Self { processes, kfd: kfd.clone(), gpu, device, ring, wptr }
    }

    pub(crate) fn os(&self) -> &FakeOs {
        self.device.hw.os()
    }

    /// A process with its GPU address space acquired.
    pub(crate) fn process(&self, key: u64) -> Arc<Process<FakeOs>> {
        let process = self.kfd.open(ProcessKey(key)).unwrap();
        // The file's identity is its descriptor.
        self.acquire(&process, key);
        process
    }

    /// Has a process acquire an address space on this device, of a file that is opened for that.
    pub(crate) fn acquire(&self, process: &Arc<Process<FakeOs>>, file: u64) {
        if self.processes.client(file).is_none() {
            self.gpu.drm_open(file, 0).unwrap();
        }
        acquire::acquire_vm(&self.processes, process, self.node(process), file as i32).unwrap();
    }

    /// The node that a process has of this device.
    pub(crate) fn node<'a>(&self, process: &'a Process<FakeOs>) -> &'a ProcessNode<FakeOs> {
        process.nodes.named(self.device.gpu_id().into()).unwrap()
    }

    /// Ends a process and closes its file.
    pub(crate) fn end(&self, key: u64) {
        self.kfd.exit(ProcessKey(key));
        self.kfd.drm_close(&self.processes.client(key).unwrap());
    }

    /// Allocates and maps memory; returns its handle.
    pub(crate) fn memory(
        &self,
        process: &Arc<Process<FakeOs>>,
        va: u64,
        size: u64,
        flags: AllocFlags,
    ) -> u64 {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size,
            mmap_offset: va,
            gpu_id: u32::from(self.device.gpu_id()),
            flags: (flags | AllocFlags::WRITABLE).bits(),
            ..Default::default()
        };
        memory::alloc_memory(process, &mut args).unwrap();
        memory::map_memory(process, self.node(process), args.handle).unwrap();
        args.handle
    }

    /// Makes a signal page and one event in it.
    pub(crate) fn signal(&self, process: &Arc<Process<FakeOs>>) -> u32 {
        let size = u64::from(KFD_SIGNAL_EVENT_LIMIT) * 8;
        let handle = self.memory(process, 0x5000_0000, size, AllocFlags::GTT);
        process.set_signal_page(handle).unwrap();
        self.event(process, KFD_IOC_EVENT_SIGNAL)
    }

    pub(crate) fn event(&self, process: &Process<FakeOs>, kind: u32) -> u32 {
        let mut args = CreateEventArgs { event_type: kind, ..Default::default() };
        process.events.create(&mut args).unwrap();
        args.event_id
    }

    /// Returns whether an event is set, now.
    pub(crate) fn is_set(&self, process: &Process<FakeOs>, event_id: u32) -> bool {
        let mut events = [EventData { event_id, ..Default::default() }];
        process.events.wait(self.os(), &mut events, true, 0).result == KFD_IOC_WAIT_RESULT_COMPLETE
    }

    /// Writes an entry into the ring at `index`, counted from its start.
    pub(crate) fn write(&self, index: u32, entry: &IhEntry) {
        let words: [u32; 8] = zerocopy::transmute!(*entry);
        for (word, value) in words.into_iter().enumerate() {
            let address = self.ring + index as usize * ENTRY_SIZE as usize + word * 4;
            // SAFETY: inside the ring, which lives as long as the device and is only touched atomically.
            unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value, Ordering::Relaxed);
        }
    }

    /// The write pointer, in memory.
    pub(crate) fn wptr(&self) -> &'static AtomicU32 {
        // SAFETY: as above; no test uses it when its bench is gone.
        unsafe { AtomicU32::from_ptr(self.wptr as *mut u32) }
    }

    /// Puts an entry behind the last one.
    pub(crate) fn raise(&self, entry: &IhEntry) {
        let wptr = self.wptr().load(Ordering::Relaxed);
        self.write(wptr / ENTRY_SIZE, entry);
        self.wptr().store((wptr + ENTRY_SIZE) % super::IH_RING_SIZE, Ordering::Release);
    }

    /// Does what the device does when a kernel's signal is decremented.
    pub(crate) fn raise_signal(&self, process: &Process<FakeOs>, event_id: u32) {
        {
            let state = process.state.lock();
            let handle = state.signal_handle.unwrap();
            let BoKind::System(page) = &state.bos[&(handle as u32)].kind else { unreachable!() };
            quad(page.pages(), event_id as usize * 8).store(u64::from(event_id), Ordering::Release);
        }
        let mut entry = IhEntry::new(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, 0, 8, process.pasid);
        entry.data[0] = event_id;
        self.raise(&entry);
    }

    pub(crate) fn raise_fault(&self, process: &Process<FakeOs>) {
        let entry = IhEntry::new(Client::GFX, Source::UTCL2_FAULT, FAULT_RING_VALID, 8, process.pasid);
        self.raise(&entry);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The machine and its devices have each other.
        self.processes.remove_device(&self.device);
    }
}
