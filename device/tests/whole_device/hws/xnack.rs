//! Waves, the packet processor and SDMA engines that wait for pages (XNACK): the pages are reported, and work
//! goes on when the driver has mapped them.

use belfry_abi::aql::{BarrierPacket, PacketHeader, PacketType};
use belfry_abi::ih::{Client, IhEntry, Source, node};
use belfry_device::chip::Shape;
use vm_memory::{Bytes, GuestAddress};
use zerocopy::FromZeros as _;

use super::driver::{ALL_NOT_STATIC, Hws, doorbell, list_of, map_process};
use super::kernels::{increment, submit_buffer};
use super::{SMALL, completes, sdma};
use crate::driver::kernels::{dispatch, hidden, load, load_symbol, signal};
use crate::driver::{Process, UserQueue, eventually};
use crate::sdma::{copy, fence};

static VECADD: &[u8] = include_bytes!("../../../../guest-runtime/kernels/vecadd.gfx942.hsaco");

static HANDLER: &[u8] = include_bytes!("../../../../guest-driver/core/src/asic/gfx9/trap_handler.bin");

pub(super) const COUNT: u32 = 4096;
/// Bytes of a context save area.
const AREA: u32 = 0x8_0000;
/// Bits of context word 1 (linux `gmc_v9_0.c`, `gmc_v9_0_process_interrupt`).
pub(super) const RETRY: u32 = 1 << 7;
const WRITE: u32 = 1 << 5;

/// Address of the page that an entry reports.
pub(super) fn page_of(entry: &IhEntry) -> u64 {
    u64::from(entry.data[0]) << 12 | u64::from(entry.data[1] & 0xf) << 44
}

/// Gives a process the driver's trap handler; returns the words of MAP_PROCESS for it.
fn trap_handler(hws: &mut Hws, process: &mut Process) -> [u32; 4] {
    let (memory, code) = process.alloc(&mut hws.driver, HANDLER.len() as u64);
    hws.driver.ram.write_slice(HANDLER, GuestAddress(memory)).unwrap();
    let (_, trap_memory) = process.alloc(&mut hws.driver, 4096);
    let [code, trap_memory] = [code, trap_memory].map(|at| at >> 8);
    [code as u32, (code >> 32) as u32, trap_memory as u32, (trap_memory >> 32) as u32]
}

/// A process whose waves wait, with a queue on it.
pub(super) struct Rig {
    pub(super) hws: Hws,
    pub(super) process: Process,
    pub(super) queue: UserQueue,
    pub(super) list: Vec<u32>,
    /// Pages that were reported, and are not mapped yet.
    pub(super) wanted: Vec<u64>,
}

impl Rig {
    /// Removes a page, and invalidates its translation; returns its entry.
    pub(super) fn take_page(&mut self, va: u64) -> u64 {
        let entry = self.process.set_page(&mut self.hws.driver, va, 0);
        self.hws.flush();
        entry
    }

    /// Checks that a queue of another process completes.
    pub(super) fn others_complete(&mut self) {
        let mut other = self.hws.process(0x8003);
        let mut third = self.hws.queue(&mut other, doorbell(3, 0));
        let list = list_of(&self.hws, &other, &[&third]);
        self.hws.run(&list);
        completes(&mut self.hws, &mut other, &mut third);
    }

    pub(super) fn new(shape: Shape, waits: bool) -> Self {
        let mut hws = Hws::up(shape);
        let mut process = hws.process(0x8001);
        let queue = hws.queue(&mut process, doorbell(1, 0));
        let handler = trap_handler(&mut hws, &mut process);
        let mut rig = Self { list: Vec::new(), hws, process, queue, wanted: Vec::new() };
        let _area = rig.give_area(rig.queue.mqd_memory);
        let mut list = list_of(&rig.hws, &rig.process, &[&rig.queue]);
        // SQ_SHADER_TBA and SQ_SHADER_TMA.
        list[6..10].copy_from_slice(&handler);
        if waits {
            // SH_MEM_CONFIG.RETRY_DISABLE.
            list[5] &= !(1 << 12);
        }
        rig.hws.run(&list);
        rig.list = list;
        rig
    }

    /// Gives the queue of an MQD an area for the waves of the kernel; returns its place in memory.
    pub(super) fn give_area(&mut self, memory: u64) -> u64 {
        let (area, va) = self.process.alloc(&mut self.hws.driver, AREA.into());
        let mut mqd = self.hws.mqd_at(memory);
        (mqd.cp_hqd_ctx_save_base_addr_lo, mqd.cp_hqd_ctx_save_base_addr_hi) = (va as u32, (va >> 32) as u32);
        mqd.cp_hqd_ctx_save_size = AREA;
        self.hws.driver.put_ram(memory, &mqd);
        area
    }

    /// Begins to add vectors, the last of which is not mapped; returns its address, and the signal.
    pub(super) fn begin(&mut self) -> (u64, u64) {
        let ((_, kernel), kernarg_va, c_va) = self.kernel();
        let Self { hws, process, queue, .. } = self;
        let (done, done_va) = signal(&mut hws.driver, process, 0);
        queue.put(&hws.driver, &dispatch(kernel, kernarg_va, COUNT, 256, done_va));
        (c_va, done)
    }

    /// The kernel that adds vectors, in memory and in the process, its arguments, and the vector that is not
    /// mapped.
    pub(super) fn kernel(&mut self) -> ((u64, u64), u64, u64) {
        self.kernel_at(0)
    }

    /// The kernel of [`kernel`](Self::kernel), with the vector `offset` bytes after the beginning of a page.
    pub(super) fn kernel_at(&mut self, offset: u64) -> ((u64, u64), u64, u64) {
        let Self { hws, process, .. } = self;
        let kernel = load_symbol(&mut hws.driver, process, VECADD, "vecadd.kd");
        let bytes = u64::from(COUNT) * 4;
        let [(a, a_va), (b, b_va)] = [(); 2].map(|()| process.alloc(&mut hws.driver, bytes));
        for i in 0..COUNT {
            hws.driver.put_ram(a + u64::from(i) * 4, &(i as f32).to_bits());
            hws.driver.put_ram(b + u64::from(i) * 4, &(i as f32 * 2.0).to_bits());
        }
        let c_va = process.reserve(bytes + offset) + offset;
        let (kernarg, kernarg_va) = process.alloc(&mut hws.driver, 4096);
        for (at, value) in [(0, a_va), (8, b_va), (16, c_va), (24, COUNT.into())] {
            hws.driver.set_ram_u64(kernarg + at, value);
        }
        hidden(&hws.driver, kernarg + 32, COUNT, 256);
        (kernel, kernarg_va, c_va)
    }

    /// Waits until `count` entries have reported pages.
    pub(super) fn told(&mut self, count: usize) {
        let mut seen = Vec::new();
        let driver = &mut self.hws.driver;
        eventually("faults are told of", || {
            seen.extend(driver.drain_interrupts());
            seen.len() >= count
        });
        for entry in &seen {
            assert_eq!((entry.client(), entry.source()), (Client::UTCL2, Source::UTCL2_FAULT));
            assert_eq!((entry.node(), entry.pasid()), (node::of_xcc(0), 0x8001));
            assert_eq!(entry.data[1] & (RETRY | WRITE), RETRY | WRITE, "a store that is tried again");
        }
        self.wanted.extend(seen.iter().map(page_of));
    }

    /// Maps reported pages, one by one, until the kernel is done; returns the number of pages.
    pub(super) fn map_until(&mut self, target: u64, done: u64) -> usize {
        let bytes = u64::from(COUNT) * 4;
        let memory = self.hws.driver.alloc_ram(bytes);
        let mut mapped = std::collections::BTreeSet::new();
        while self.hws.driver.ram_u64(done + 8) != 0 {
            let entries = self.hws.driver.drain_interrupts();
            let faults = entries.iter().filter(|entry| entry.source() == Source::UTCL2_FAULT);
            self.wanted.extend(faults.map(page_of));
            for va in std::mem::take(&mut self.wanted) {
                assert!((target..target + bytes).contains(&va), "{va:#x}");
                if mapped.insert(va) {
                    self.process.map_page(&mut self.hws.driver, va, memory + (va - target));
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        for i in 0..COUNT {
            let sum = f32::from_bits(self.hws.driver.ram_u32(memory + u64::from(i) * 4));
            assert!((sum - i as f32 * 3.0).abs() < f32::EPSILON, "element {i} is {sum}");
        }
        mapped.len()
    }
}

#[test]
fn wave_waits_for_a_page_and_goes_on_when_it_is_mapped() {
    for shape in [SMALL, Shape { xccs: 8, cus: 8 }] {
        let mut rig = Rig::new(shape, true);
        let (target, done) = rig.begin();
        let pages = rig.map_until(target, done);
        assert_eq!(pages, 4, "each page of the result, once");
        let stats = rig.hws.driver.gpu.stats();
        assert_eq!(stats.errors, Default::default());
        assert!(stats.retry_faults >= 4, "{}", stats.retry_faults);
    }
}

#[test]
fn queue_is_taken_off_and_comes_back_while_its_waves_wait() {
    let mut rig = Rig::new(SMALL, true);
    let (target, done) = rig.begin();
    rig.told(1);
    rig.hws.unmap(ALL_NOT_STATIC, &[]);
    let mut other = rig.hws.process(0x8002);
    let mut second = rig.hws.queue(&mut other, doorbell(2, 0));
    let list = [rig.list.clone(), list_of(&rig.hws, &other, &[&second])].concat();
    assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default(), "its waves are in its area");
    rig.hws.run(&list);
    // Another process is not held up by one that waits.
    completes(&mut rig.hws, &mut other, &mut second);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    rig.map_until(target, done);
}

#[test]
fn wave_of_a_process_without_retries_fails_at_once() {
    let mut rig = Rig::new(SMALL, false);
    let (_, done) = rig.begin();
    eventually("its queue stops", || rig.hws.errors("queue stopped") == 1);
    assert_eq!(rig.hws.errors("page fault"), 1, "{:?}", rig.hws.driver.gpu.stats().errors);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    assert_eq!(rig.hws.driver.gpu.stats().retry_faults, 0);
}

#[test]
fn page_that_the_driver_refuses_fails_the_wave_that_waits() {
    let mut rig = Rig::new(SMALL, true);
    let (target, done) = rig.begin();
    rig.told(1);
    // AMDGPU_VM_NORETRY_FLAGS_TF: valid, of the system, and partly resident.
    for page in 0..4 {
        rig.process.set_page(&mut rig.hws.driver, target + page * 4096, 1 << 51 | 0b11);
    }
    eventually("its queue stops", || rig.hws.errors("queue stopped") == 1);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    rig.others_complete();
}

/// Waits for the one page that is reported, by this client and part of the chip.
fn told_of_one(hws: &mut Hws, from: (Client, u8)) -> u64 {
    let entry = eventually_some(|| hws.driver.drain_interrupts().first().copied());
    assert_eq!((entry.client(), entry.source()), (from.0, Source::UTCL2_FAULT));
    assert_eq!((entry.node(), entry.pasid(), entry.data[1] & RETRY), (from.1, 0x8001, RETRY));
    page_of(&entry)
}

/// A barrier whose signal is at an address where nothing is mapped yet.
fn barrier_at(hws: &Hws, queue: &mut UserQueue, signal: u64) {
    let mut packet = BarrierPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::BARRIER_AND, true, 2, 2).bits();
    packet.completion_signal = signal;
    queue.put(&hws.driver, &packet);
}

#[test]
fn packet_processor_waits_for_the_page_of_a_signal() {
    let mut rig = Rig::new(SMALL, true);
    let Rig { hws, process, queue, list, .. } = &mut rig;
    let va = process.reserve(4096);
    let memory = hws.driver.alloc_ram(4096);
    hws.driver.set_ram_u64(memory + 8, 1);
    barrier_at(hws, queue, va);
    assert_eq!(told_of_one(hws, (Client::UTCL2, node::of_xcc(0))), va);
    // Taken off at its packet, the queue comes back to it. Others are not held up.
    hws.unmap(ALL_NOT_STATIC, &[]);
    assert_eq!(hws.mqd(queue).cp_hqd_pq_rptr, 0);
    let mut other = hws.process(0x8002);
    let mut second = hws.queue(&mut other, doorbell(2, 0));
    let both = [list.clone(), list_of(hws, &other, &[&second])].concat();
    hws.run(&both);
    completes(hws, &mut other, &mut second);
    assert_eq!((hws.driver.ram_u64(memory + 8), queue.read_index(&hws.driver)), (1, 0));
    process.map_page(&mut hws.driver, va, memory);
    eventually("the signal is decremented", || hws.driver.ram_u64(memory + 8) == 0);
    eventually("the read index is told", || queue.read_index(&hws.driver) == 1);
    hws.driver.runner_passes();
    assert_eq!(hws.driver.ram_u64(memory + 8), 0, "once");
    completes(hws, process, queue);
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn mailbox_without_a_page_is_waited_for_before_the_signal_changes() {
    let mut rig = Rig::new(SMALL, true);
    let Rig { hws, process, queue, .. } = &mut rig;
    let (memory, va) = process.alloc(&mut hws.driver, 4096);
    let mailbox = process.reserve(4096);
    for (at, value) in [(8, 1), (16, mailbox), (24, 5)] {
        hws.driver.set_ram_u64(memory + at, value);
    }
    barrier_at(hws, queue, va);
    assert_eq!(told_of_one(hws, (Client::UTCL2, node::of_xcc(0))), mailbox);
    hws.driver.runner_passes();
    assert_eq!(hws.driver.ram_u64(memory + 8), 1);
    let page = hws.driver.alloc_ram(4096);
    process.map_page(&mut hws.driver, mailbox, page);
    eventually("the event is told", || hws.driver.ram_u64(page) == 5);
    assert_eq!(hws.driver.ram_u64(memory + 8), 0);
}

/// The waves have ended, and the signal of their dispatch waits for its page, also over a stay in memory.
#[test]
fn signal_of_a_dispatch_waits_for_its_page() {
    for away in [false, true] {
        let mut rig = Rig::new(SMALL, true);
        let Rig { hws, process, queue, list, .. } = &mut rig;
        let kernel = load(&mut hws.driver, process, VECADD, "vecadd.kd");
        let [data, (kernarg, kernarg_va)] = [(); 2].map(|()| process.alloc(&mut hws.driver, 4096));
        for (at, value) in [(0, data.1), (8, data.1), (16, data.1), (24, 64)] {
            hws.driver.set_ram_u64(kernarg + at, value);
        }
        hidden(&hws.driver, kernarg + 32, 64, 64);
        let va = process.reserve(4096);
        let memory = hws.driver.alloc_ram(4096);
        hws.driver.set_ram_u64(memory + 8, 1);
        queue.put(&hws.driver, &dispatch(kernel, kernarg_va, 64, 64, va));
        assert_eq!(told_of_one(hws, (Client::UTCL2, node::of_xcc(0))), va);
        if away {
            hws.unmap(ALL_NOT_STATIC, &[]);
            hws.run(list);
        }
        process.map_page(&mut hws.driver, va, memory);
        eventually("the signal is decremented", || hws.driver.ram_u64(memory + 8) == 0);
        eventually("the read index is told", || queue.read_index(&hws.driver) == 1);
        assert_eq!(hws.driver.gpu.stats().errors, Default::default(), "away {away}");
    }
}

#[test]
fn buffer_goes_on_at_the_packet_that_has_waited() {
    let mut rig = Rig::new(SMALL, true);
    let Rig { hws, process, queue, .. } = &mut rig;
    let (counter, counter_va) = process.alloc(&mut hws.driver, 4096);
    let (va, memory) = (process.reserve(4096), hws.driver.alloc_ram(4096));
    let words = [increment(counter_va), increment(va), increment(counter_va + 4)].concat();
    let done = submit_buffer(hws, process, queue, &words);
    assert_eq!(told_of_one(hws, (Client::UTCL2, node::of_xcc(0))), va);
    hws.driver.runner_passes();
    assert_eq!((hws.driver.ram_u32(counter), hws.driver.ram_u32(counter + 4)), (1, 0));
    process.map_page(&mut hws.driver, va, memory);
    eventually("the buffer has been executed", || hws.driver.ram_u64(done + 8) == 0);
    let found = [counter, memory, counter + 4].map(|at| hws.driver.ram_u32(at));
    assert_eq!(found, [1; 3], "each packet once");
}

#[test]
fn refused_page_of_a_signal_stops_its_queue_alone() {
    let mut rig = Rig::new(SMALL, true);
    let Rig { hws, process, queue, .. } = &mut rig;
    let va = process.reserve(4096);
    barrier_at(hws, queue, va);
    assert_eq!(told_of_one(hws, (Client::UTCL2, node::of_xcc(0))), va);
    process.set_page(&mut hws.driver, va, 1 << 51 | 0b11);
    eventually("its queue stops", || hws.errors("queue stopped") == 1);
    let mut other = hws.process(0x8002);
    let mut second = hws.queue(&mut other, doorbell(2, 0));
    let list = list_of(hws, &other, &[&second]);
    hws.run(&list);
    completes(hws, &mut other, &mut second);
}

/// Moves `bytes` bytes on a queue of the first engine: the device's thread moves few bytes, the engine's
/// thread many.
fn sdma_waits(bytes: u32, away: bool) {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let (mut queue, map) = sdma::queue(&mut hws, &mut process, 0);
    let mut list = [map_process(&process), map].concat();
    list[5] &= !(1 << 12);
    hws.run(&list);
    let len = u64::from(bytes);
    let (from, from_va) = process.alloc(&mut hws.driver, len);
    for at in (0..len).step_by(4096) {
        hws.driver.put_ram(from + at, &(at as u32 + 1));
    }
    let (to_va, to) = (process.reserve(len), hws.driver.alloc_ram(len));
    let (done, done_va) = process.alloc(&mut hws.driver, 4096);
    queue.put(&hws.driver, &[copy(from_va, to_va, bytes), fence(done_va, 9)]);
    let client = Client(0x12);
    assert_eq!(told_of_one(&mut hws, (client, node::of_die(0))), to_va);
    if away {
        hws.unmap(ALL_NOT_STATIC, &[]);
        let mut other = hws.process(0x8002);
        let mut second = hws.queue(&mut other, doorbell(2, 0));
        let both = [list.clone(), list_of(&hws, &other, &[&second])].concat();
        hws.run(&both);
        completes(&mut hws, &mut other, &mut second);
    }
    let mut mapped = 0;
    let mut next = Some(to_va);
    while hws.driver.ram_u32(done) != 9 {
        if let Some(va) = next.take() {
            process.map_page(&mut hws.driver, va, to + (va - to_va));
            mapped += 1;
        }
        next = hws.driver.drain_interrupts().iter().map(page_of).next_back();
        next = next.filter(|va| *va == to_va + mapped * 4096);
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    assert_eq!(mapped, len / 4096, "each page, once");
    assert!((0..len).step_by(4096).all(|at| hws.driver.ram_u32(to + at) == at as u32 + 1));
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_engine_waits_for_pages_and_goes_on_where_it_was() {
    for (bytes, away) in [(16 << 10, false), (16 << 10, true), (512 << 10, false), (512 << 10, true)] {
        sdma_waits(bytes, away);
    }
}

pub(super) fn eventually_some<T>(mut f: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually("it is there", || {
        found = f();
        found.is_some()
    });
    found.unwrap()
}
