//! A KFD without a kernel: it keeps the books, checks the rules of CREATE_QUEUE, and retires packets on doorbells.
//!
//! The mock runs no shader. The test decides the effects of a dispatch (`Mock::on_dispatch`).

mod memory;
mod rules;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use belfry_abi::aql::{AmdQueue, BarrierPacket, KernelDispatchPacket};
use belfry_abi::kfd::aperture::{GetProcessAperturesNewArgs, ProcessDeviceApertures};
use belfry_abi::kfd::event::{CreateEventArgs, EventData, EventIdArgs, MemoryExceptionData, WaitEventsArgs};
use belfry_abi::kfd::ioctl;
use belfry_abi::kfd::memory::{AllocFlags, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs};
use belfry_abi::kfd::misc::GetVersionArgs;
use belfry_abi::kfd::queue::{CreateQueueArgs, DestroyQueueArgs};
use belfry_abi::signal::AmdSignal;
use belfry_runtime::transport::{Errno, Node, Protection, Transport};
use zerocopy::{FromBytes, IntoBytes};

use memory::{args, atomic_i64, atomic_u16, atomic_u64};
pub(crate) use memory::{load, store};
use rules::{FILES, check_queue};

pub(crate) const GPU_ID: u32 = 0x1234;
const FD: i32 = 77;
/// Events of other types than SIGNAL have ids from here on.
const NON_SIGNAL: u32 = 0x4000_0000;

#[derive(Debug, Clone)]
pub(crate) struct Bo {
    pub(crate) va: u64,
    pub(crate) size: u64,
    pub(crate) flags: AllocFlags,
    pub(crate) mapped: bool,
}

struct Queue {
    args: CreateQueueArgs,
    doorbell: u64,
    read: u64,
}

#[derive(Default)]
struct Event {
    set: bool,
    auto_reset: bool,
}

#[derive(Default)]
struct State {
    bos: BTreeMap<u64, Bo>,
    queues: BTreeMap<u32, Queue>,
    events: HashMap<u32, Event>,
    event_page: Option<u64>,
    next: u32,
    log: Vec<String>,
    doorbell_page: u64,
    held: bool,
    /// Ioctl names that fail once, with their errno.
    fail: HashMap<&'static str, i32>,
    fault: Option<(u64, bool)>,
    packets: Vec<(u32, [u32; 16])>,
    on_dispatch: Option<fn(&KernelDispatchPacket)>,
    stop_next: Option<u64>,
    acquired: HashSet<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Mock {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Mock {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    /// Every request so far, by name, and clears the list.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().log)
    }

    pub(crate) fn bos(&self) -> Vec<Bo> {
        self.lock().bos.values().cloned().collect()
    }

    pub(crate) fn queue_args(&self) -> Vec<CreateQueueArgs> {
        self.lock().queues.values().map(|queue| queue.args).collect()
    }

    /// Number of packets that producers have taken an index for, of the only queue.
    pub(crate) fn write_index(&self) -> u64 {
        atomic_u64(self.queue_args()[0].write_pointer_address).load(Ordering::SeqCst)
    }

    pub(crate) fn queues(&self) -> usize {
        self.lock().queues.len()
    }

    /// Packets retired so far.
    pub(crate) fn packets(&self) -> Vec<[u32; 16]> {
        self.lock().packets.iter().map(|(_, packet)| *packet).collect()
    }

    /// Makes the next request of that name fail.
    pub(crate) fn fail(&self, name: &'static str, errno: i32) {
        self.lock().fail.insert(name, errno);
    }

    pub(crate) fn on_dispatch(&self, run: fn(&KernelDispatchPacket)) {
        self.lock().on_dispatch = Some(run);
    }

    /// Stops retiring packets until `release`.
    pub(crate) fn hold(&self) {
        self.lock().held = true;
    }

    pub(crate) fn release(&self) {
        let mut state = self.lock();
        state.held = false;
        self.service_all(&mut state);
    }

    /// The next dispatch stops its queue with this code.
    pub(crate) fn stop_next(&self, code: u64) {
        self.lock().stop_next = Some(code);
    }

    /// Reports a memory fault to the process.
    pub(crate) fn raise_fault(&self, address: u64, read_only: bool) {
        let mut state = self.lock();
        state.fault = Some((address, read_only));
        let ids: Vec<u32> = state.events.keys().copied().filter(|id| *id >= NON_SIGNAL).collect();
        for id in ids {
            self.set_event(&mut state, id);
        }
    }

    fn set_event(&self, state: &mut State, id: u32) {
        if let Some(event) = state.events.get_mut(&id) {
            event.set = true;
        }
        self.state.1.notify_all();
    }

    fn service_all(&self, state: &mut State) {
        let ids: Vec<u32> = state.queues.keys().copied().collect();
        // A packet of one queue may free another: go round until nothing moves.
        loop {
            let mut moved = false;
            for id in &ids {
                moved |= self.service(state, *id);
            }
            if !moved {
                return;
            }
        }
    }

    /// Retires all packets that can be retired on one queue.
    fn service(&self, state: &mut State, id: u32) -> bool {
        let mut moved = false;
        while !state.held {
            let queue = &state.queues[&id];
            let (args, read) = (queue.args, queue.read);
            let written = atomic_u64(args.write_pointer_address).load(Ordering::Acquire);
            if read >= written {
                break;
            }
            let address = args.ring_base_address + read * 64 % u64::from(args.ring_size);
            let header = atomic_u16(address);
            let kind = header.load(Ordering::Acquire) & 0xff;
            if kind == 1 {
                break;
            }
            let packet: [u32; 16] = load(address);
            let signal = match kind {
                2 => {
                    let dispatch = KernelDispatchPacket::read_from_bytes(packet.as_bytes()).unwrap();
                    if let Some(code) = state.stop_next.take() {
                        let control: AmdQueue = load(args.read_pointer_address - 0x80);
                        self.change_signal(state, control.queue_inactive_signal, |value| {
                            value.store(code.cast_signed(), Ordering::SeqCst);
                        });
                        break;
                    }
                    if let Some(run) = state.on_dispatch {
                        run(&dispatch);
                    }
                    dispatch.completion_signal
                }
                3 | 5 => {
                    let barrier = BarrierPacket::read_from_bytes(packet.as_bytes()).unwrap();
                    let open = |signal: &u64| atomic_i64(signal + 8).load(Ordering::SeqCst) == 0;
                    let mut used = barrier.dep_signal.iter().filter(|signal| **signal != 0).peekable();
                    let none = used.peek().is_none();
                    if !(none || if kind == 3 { used.all(open) } else { used.any(open) }) {
                        break;
                    }
                    barrier.completion_signal
                }
                0 => u64::from(packet[14]) | u64::from(packet[15]) << 32,
                other => panic!("packet type {other}"),
            };
            state.packets.push((id, packet));
            header.store(1, Ordering::Release);
            let queue = state.queues.get_mut(&id).unwrap();
            queue.read += 1;
            atomic_u64(args.read_pointer_address).store(queue.read, Ordering::Release);
            if signal != 0 {
                self.change_signal(state, signal, |value| {
                    value.fetch_sub(1, Ordering::SeqCst);
                });
            }
            moved = true;
        }
        moved
    }

    fn change_signal(&self, state: &mut State, signal: u64, change: impl FnOnce(&AtomicI64)) {
        let memory: AmdSignal = load(signal);
        change(atomic_i64(signal + 8));
        if memory.event_mailbox_ptr != 0 {
            let page = state.event_page.expect("an event page");
            let page = state.bos[&page].va;
            assert_eq!(
                memory.event_mailbox_ptr,
                page + u64::from(memory.event_id) * 8,
                "mailbox of the event"
            );
            atomic_u64(memory.event_mailbox_ptr).store(memory.event_id.into(), Ordering::SeqCst);
            self.set_event(state, memory.event_id);
        }
    }

    fn call(&self, request: u32, arg: *mut c_void) -> Result<i32, Errno> {
        let name = ioctl::COMMANDS
            .iter()
            .find(|(_, command)| *command == request)
            .map(|(name, _)| *name)
            .ok_or(Errno(libc::ENOTTY))?;
        let mut state = self.lock();
        state.log.push(name.to_owned());
        if let Some(errno) = state.fail.remove(name) {
            return Err(Errno(errno));
        }
        state.next += 1;
        let next = state.next;
        // The argument structs are those of the command, which carries their size.
        match request {
            ioctl::GET_VERSION => {
                let args = args::<GetVersionArgs>(arg);
                (args.major_version, args.minor_version) = (1, 12);
            }
            ioctl::GET_PROCESS_APERTURES_NEW => {
                let args = args::<GetProcessAperturesNewArgs>(arg);
                assert_eq!(args.num_of_nodes, 2);
                let entry = ProcessDeviceApertures {
                    lds_base: 1 << 48,
                    lds_limit: 1 << 48 | 0xffff_ffff,
                    scratch_base: 2 << 48,
                    scratch_limit: 2 << 48 | 0xffff_ffff,
                    gpuvm_base: 0x10000,
                    gpuvm_limit: (1 << 47) - 1,
                    gpu_id: GPU_ID,
                    pad: 0,
                };
                store(args.kfd_process_device_apertures_ptr, &entry);
                args.num_of_nodes = 1;
            }
            ioctl::ACQUIRE_VM => {
                let args = args::<belfry_abi::kfd::memory::AcquireVmArgs>(arg);
                if args.drm_fd != FD as u32 || args.gpu_id != GPU_ID {
                    return Err(Errno(libc::EINVAL));
                }
                state.acquired.insert(args.gpu_id);
            }
            ioctl::ALLOC_MEMORY_OF_GPU => {
                let args = args::<AllocMemoryOfGpuArgs>(arg);
                assert!(state.acquired.contains(&args.gpu_id), "allocation before ACQUIRE_VM");
                let flags = AllocFlags::from_bits(args.flags).expect("known flags");
                assert!(args.va_addr.is_multiple_of(4096) && args.size > 0);
                // The driver gives whole pages for any size.
                args.size = args.size.next_multiple_of(4096);
                args.handle = u64::from(GPU_ID) << 32 | u64::from(next);
                args.mmap_offset = if flags.contains(AllocFlags::MMIO_REMAP) {
                    u64::from(GPU_ID) << 46
                } else {
                    args.handle << 12
                };
                state.bos.insert(args.handle, Bo { va: args.va_addr, size: args.size, flags, mapped: false });
            }
            ioctl::FREE_MEMORY_OF_GPU => {
                let args = args::<FreeMemoryOfGpuArgs>(arg);
                if state.event_page == Some(args.handle) {
                    return Err(Errno(libc::EPERM));
                }
                let bo = state.bos.remove(&args.handle).ok_or(Errno(libc::EINVAL))?;
                assert!(!bo.mapped, "freed while mapped");
                let used = state.queues.values().any(|queue| {
                    let args = queue.args;
                    [args.ring_base_address, args.eop_buffer_address, args.ctx_save_restore_address]
                        .contains(&bo.va)
                });
                assert!(!used, "freed while a queue uses it");
            }
            ioctl::MAP_MEMORY_TO_GPU | ioctl::UNMAP_MEMORY_FROM_GPU => {
                let args = args::<MapMemoryToGpuArgs>(arg);
                assert_eq!(args.n_devices, 1);
                assert_eq!(load::<u32>(args.device_ids_array_ptr), GPU_ID);
                let bo = state.bos.get_mut(&args.handle).ok_or(Errno(libc::EINVAL))?;
                bo.mapped = request == ioctl::MAP_MEMORY_TO_GPU;
                args.n_success = 1;
            }
            ioctl::CREATE_EVENT => {
                let args = args::<CreateEventArgs>(arg);
                if args.event_page_offset != 0 {
                    assert!(state.event_page.is_none(), "a second event page");
                    let bo = &state.bos[&args.event_page_offset];
                    assert!(bo.size == 32 << 10 && bo.flags.contains(AllocFlags::GTT), "{bo:?}");
                    state.event_page = Some(args.event_page_offset);
                }
                assert!(state.event_page.is_some(), "an event without page");
                let signals = state.events.keys().filter(|id| **id < NON_SIGNAL).count() as u32;
                args.event_id = if args.event_type == 0 { signals + 1 } else { NON_SIGNAL + next };
                args.event_slot_index = args.event_id;
                let event = Event { set: false, auto_reset: args.auto_reset != 0 };
                state.events.insert(args.event_id, event);
            }
            ioctl::SET_EVENT | ioctl::RESET_EVENT | ioctl::DESTROY_EVENT => {
                let id = args::<EventIdArgs>(arg).event_id;
                if !state.events.contains_key(&id) {
                    return Err(Errno(libc::EINVAL));
                }
                match request {
                    ioctl::SET_EVENT => self.set_event(&mut state, id),
                    ioctl::RESET_EVENT => state.events.get_mut(&id).unwrap().set = false,
                    _ => drop(state.events.remove(&id)),
                }
            }
            ioctl::WAIT_EVENTS => {
                let args = args::<WaitEventsArgs>(arg);
                return self.wait(state, args);
            }
            ioctl::CREATE_QUEUE => {
                let args = args::<CreateQueueArgs>(arg);
                check_queue(&state, args);
                args.queue_id = next;
                let slot = 0x800 + u64::from(next) * 8;
                args.doorbell_offset = 3 << 62 | u64::from(GPU_ID) << 46 | slot;
                state.queues.insert(next, Queue { args: *args, doorbell: slot, read: 0 });
            }
            ioctl::DESTROY_QUEUE => {
                let args = args::<DestroyQueueArgs>(arg);
                state.queues.remove(&args.queue_id).ok_or(Errno(libc::EINVAL))?;
            }
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        }
        Ok(0)
    }

    fn wait(&self, mut state: MutexGuard<'_, State>, args: &mut WaitEventsArgs) -> Result<i32, Errno> {
        let deadline = Instant::now() + Duration::from_millis(args.timeout.into());
        loop {
            let mut any = false;
            for index in 0..u64::from(args.num_events) {
                let address = args.events_ptr + index * size_of::<EventData>() as u64;
                let mut data: EventData = load(address);
                let event = state.events.get_mut(&data.event_id).ok_or(Errno(libc::EINVAL))?;
                if event.set {
                    any = true;
                    event.set = !event.auto_reset;
                    if let Some((va, read_only)) = state.fault.filter(|_| data.event_id >= NON_SIGNAL) {
                        let exception = MemoryExceptionData {
                            failure: belfry_abi::kfd::event::MemoryExceptionFailure {
                                not_present: (!read_only).into(),
                                read_only: read_only.into(),
                                ..Default::default()
                            },
                            va,
                            gpu_id: GPU_ID,
                            error_type: 0,
                        };
                        data.data = exception.as_bytes().try_into().unwrap();
                        store(address, &data);
                    }
                }
            }
            let now = Instant::now();
            if any || now >= deadline {
                args.wait_result = u32::from(!any);
                return Ok(0);
            }
            state = self.state.1.wait_timeout(state, deadline - now).unwrap().0;
        }
    }
}

// SAFETY: maps are made at the given addresses and stay until munmap; ioctls touch only their arguments and the memory
// that those name.
unsafe impl Transport for Mock {
    unsafe fn ioctl(&self, node: Node, request: u32, arg: *mut c_void) -> Result<i32, Errno> {
        assert_eq!(node, Node::Kfd);
        self.call(request, arg)
    }

    unsafe fn mmap(
        &self,
        node: Node,
        addr: Option<usize>,
        len: usize,
        prot: Protection,
        offset: u64,
    ) -> Result<*mut u8, Errno> {
        let mut state = self.lock();
        if let Some(errno) = state.fail.remove("mmap") {
            return Err(Errno(errno));
        }
        match node {
            Node::Render(_) => {
                let bo = state.bos.get(&(offset >> 12)).ok_or(Errno(libc::EINVAL))?;
                assert_eq!((bo.va, bo.size), (addr.unwrap() as u64, len as u64));
            }
            // The page of flushes.
            Node::Kfd if offset >> 62 == 0 => assert_eq!((len, offset), (4096, u64::from(GPU_ID) << 46)),
            Node::Kfd => assert_eq!((len, offset), (8192, 3 << 62 | u64::from(GPU_ID) << 46)),
        }
        let fixed = if addr.is_some() { libc::MAP_FIXED } else { 0 };
        // SAFETY: the caller reserved the range.
        let map = unsafe {
            libc::mmap(
                std::ptr::without_provenance_mut(addr.unwrap_or(0)),
                len,
                prot.bits(),
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | fixed,
                -1,
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED);
        if node == Node::Kfd && offset >> 62 != 0 {
            state.doorbell_page = map.addr() as u64;
        }
        Ok(map.cast())
    }

    unsafe fn munmap(&self, addr: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller is done with the range.
        if unsafe { libc::munmap(addr.cast(), len) } < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    fn render_fd(&self, _: u32) -> i32 {
        FD
    }

    fn sysfs_read(&self, path: &str) -> io::Result<String> {
        let found = FILES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sysfs_list(&self, path: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{path}/");
        let below = FILES.iter().filter_map(|(name, _)| name.strip_prefix(&prefix));
        let mut names: Vec<String> =
            below.filter_map(|rest| rest.split('/').next()).map(ToOwned::to_owned).collect();
        names.dedup();
        if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names) }
    }

    fn doorbell_written(&self, addr: *mut u64) {
        let mut state = self.lock();
        let slot = addr.addr() as u64 - state.doorbell_page;
        let known = state.queues.values().any(|queue| queue.doorbell == slot);
        assert!(known, "a doorbell at {slot:#x} belongs to no queue");
        self.service_all(&mut state);
    }
}
