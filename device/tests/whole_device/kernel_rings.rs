//! Rings of the kernel that the stock driver has: graphics and compute by frames, SDMA by registers.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::gpuvm::{PTE_READABLE, PTE_SNOOPED, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE};
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode, QueueType, RemoveQueue, RemoveQueueFlags};
use belfry_abi::regs::{gc, nbio, sdma};
use belfry_device::chip::gfx1100::dword;
use zerocopy::FromZeros;

use crate::driver::{Driver, FB, GART, KernelRing, Process, UserQueue, eventually};

const DOORBELL: DoorbellIndex = belfry_abi::pci::doorbell::GFX_RING0;

fn packet(opcode: u32, body: &[u32]) -> Vec<u32> {
    [&[3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8], body].concat()
}

/// Maps a ring by a frame.
fn map(driver: &mut Driver, kind: QueueType, mqd: u64, place: (u32, u32)) -> bool {
    let mut frame = AddQueue::new_zeroed();
    frame.header = Header::new(Opcode::ADD_QUEUE);
    frame.queue_type = kind.0;
    (frame.pipe_id, frame.queue_id) = place;
    frame.doorbell_offset = DOORBELL;
    frame.mqd_addr = mqd.into();
    frame.flags = AddQueueFlags::MAP_LEGACY_KQ;
    driver.mes(&frame, Opcode::ADD_QUEUE)
}

fn unmap(driver: &mut Driver, flags: RemoveQueueFlags) -> bool {
    let mut frame = RemoveQueue::new_zeroed();
    frame.header = Header::new(Opcode::REMOVE_QUEUE);
    frame.doorbell_offset = DOORBELL;
    frame.flags = flags;
    driver.mes(&frame, Opcode::REMOVE_QUEUE)
}

/// Runs the tests of a ring that a driver does: a register, a fence with an interrupt, a buffer.
fn run_tests(driver: &mut Driver, ring: &mut KernelRing, ring_id: u8) {
    let register = dword::<gc::SCRATCH_REG0>();
    driver.write(register, 0xcafe_dead);
    driver.submit(ring, &packet(0x79, &[register - 0xc000, 0xdead_beef]));
    eventually("the ring test", || driver.read(register) == 0xdead_beef);

    let (buffer, buffer_at) = driver.gart_alloc(4096);
    let (memory, at) = driver.gart_alloc(4096);
    let body = packet(0x37, &[5 << 8 | 1 << 20, at as u32, (at >> 32) as u32, 0x1234_5678]);
    for (place, word) in (buffer..).step_by(4).zip(&body) {
        driver.put_ram(place, word);
    }
    driver.drain_interrupts();
    driver.submit(ring, &packet(0x3f, &[buffer_at as u32, (buffer_at >> 32) as u32, body.len() as u32]));
    let fence = at + 64;
    let release = [5 << 8 | 0x14, 1 << 29 | 2 << 24, fence as u32, (fence >> 32) as u32, 77, 0, 0];
    driver.submit(ring, &packet(0x49, &release));
    eventually("the fence", || driver.ram_u32(memory + 64) == 77);
    assert_eq!(driver.ram_u32(memory), 0x1234_5678);
    let mut entries = Vec::new();
    eventually("the interrupt", || {
        entries.extend(driver.drain_interrupts());
        !entries.is_empty()
    });
    assert_eq!(entries[0].ring(), ring_id);
    assert_eq!(entries[0].data[0], 0, "no queue of a process");
}

/// Writes the descriptor of a graphics ring like a compute ring's; returns its address.
fn graphics_mqd(driver: &mut Driver, ring: &belfry_abi::mqd::ComputeMqd) -> u64 {
    let at = driver.alloc_vram(4096);
    let mut words = [0u32; 512];
    words[136] = ring.cp_hqd_pq_base_lo;
    words[137] = ring.cp_hqd_pq_base_hi;
    let report = ring.pq_rptr_report_addr();
    (words[139], words[140]) = (report as u32, (report >> 32) as u32);
    let poll = ring.pq_wptr_poll_addr();
    (words[141], words[142]) = (poll as u32, (poll >> 32) as u32);
    words[145] = ring.cp_hqd_pq_control & 0x3f;
    driver.put_vram(at, zerocopy::IntoBytes::as_bytes(&words));
    FB + at
}

#[test]
fn graphics_ring_of_a_frame_passes_the_tests_of_a_driver() {
    let mut driver = Driver::up();
    let (mut ring, mqd) = driver.kernel_ring(4096, DOORBELL);
    let mqd = graphics_mqd(&mut driver, &mqd);
    assert!(map(&mut driver, QueueType::GFX, mqd, (0, 0)));
    run_tests(&mut driver, &mut ring, 0);
    // A flush of the host data path: a register is written, and another one waited for.
    let [request, done] = [dword::<nbio::GPU_HDP_FLUSH_REQ>(), dword::<nbio::GPU_HDP_FLUSH_DONE>()];
    driver.submit(&mut ring, &packet(0x3c, &[3 | 1 << 6 | 1 << 8, request, done, 1, 1, 0x20]));
    // State of drawing: CLEAR_STATE, CONTEXT_CONTROL, PREAMBLE_CNTL, SET_CONTEXT_REG.
    for (opcode, body) in
        [(0x12, &[0][..]), (0x28, &[1 << 31, 1 << 31]), (0x4a, &[2 << 28]), (0x69, &[0x80, 1])]
    {
        driver.submit(&mut ring, &packet(opcode, body));
    }
    run_tests(&mut driver, &mut ring, 0);
    assert!(unmap(&mut driver, RemoveQueueFlags::UNMAP_LEGACY_GFX_QUEUE));
    assert!(!unmap(&mut driver, RemoveQueueFlags::UNMAP_LEGACY_GFX_QUEUE));
    assert_eq!(driver.errors("REMOVE_QUEUE of a kernel queue that is not mapped"), 1);
}

#[test]
fn compute_ring_of_a_frame_passes_the_tests_of_a_driver() {
    let mut driver = Driver::up();
    let (mut ring, _) = driver.kernel_ring(4096, DOORBELL);
    let mqd = ring.mqd;
    assert!(map(&mut driver, QueueType::COMPUTE, mqd, (1, 0)));
    // Micro engine 1, pipe 1.
    run_tests(&mut driver, &mut ring, 1 << 2 | 1);
    assert!(unmap(&mut driver, RemoveQueueFlags::UNMAP_KIQ_UTILITY_QUEUE));
    assert!(map(&mut driver, QueueType::COMPUTE, mqd, (1, 0)), "and again");
}

#[test]
fn kernel_ring_waits_for_memory_and_goes_on_without_a_doorbell() {
    let mut driver = Driver::up();
    let (mut ring, _) = driver.kernel_ring(4096, DOORBELL);
    let mqd = ring.mqd;
    assert!(map(&mut driver, QueueType::COMPUTE, mqd, (0, 0)));
    let (memory, at) = driver.gart_alloc(4096);
    let register = dword::<gc::SCRATCH_REG0>();
    driver.write(register, 0);
    // Until the dword is 5.
    driver.submit(&mut ring, &packet(0x3c, &[3 | 1 << 4, at as u32, (at >> 32) as u32, 5, u32::MAX, 4]));
    driver.submit(&mut ring, &packet(0x79, &[register - 0xc000, 1]));
    driver.mes_query();
    assert_eq!(driver.read(register), 0);
    driver.put_ram(memory, &5u32);
    eventually("the packet after the wait", || driver.read(register) == 1);
}

#[test]
fn kernel_rings_that_cannot_be_are_refused_by_name() {
    let mut driver = Driver::up();
    let (mut ring, _) = driver.kernel_ring(4096, DOORBELL);
    let mqd = ring.mqd;
    // The scheduler has queues 2 and 3 of each pipe.
    driver.set_hw_resources(0xff00, 0xc);
    for place in [(4, 0), (0, 8), (u32::MAX, 0), (0, 2), (3, 3)] {
        assert!(!map(&mut driver, QueueType::COMPUTE, mqd, place));
    }
    let why = "ADD_QUEUE of a kernel queue on a hardware queue that does not exist, or that the scheduler gives to others";
    assert_eq!(driver.errors(why), 5);
    assert!(!map(&mut driver, QueueType::GFX, 0x1234_5000, (0, 0)));
    assert_eq!(driver.errors("MQD at an address that is not mapped"), 1);
    assert!(!map(&mut driver, QueueType::SDMA, mqd, (0, 0)));
    assert_eq!(driver.errors("ADD_QUEUE of a kernel queue, which is not modelled"), 1);
    assert!(map(&mut driver, QueueType::COMPUTE, mqd, (0, 0)));
    // A dispatch: the ring stops, and the scheduler goes on.
    driver.submit(&mut ring, &packet(0x15, &[1, 1, 1, 1]));
    eventually("the packet is refused", || driver.errors("PM4 opcode this queue does not know") > 0);
    driver.mes_query();
}

/// Starts the ring of an SDMA engine through its registers; returns the ring's memory and that of its pointers.
fn start_sdma(driver: &mut Driver) -> (u64, u64) {
    let (ring, pointers) = (driver.gart_alloc(4096), driver.gart_alloc(4096));
    start_sdma_at(driver, ring.1, pointers.1);
    (ring.0, pointers.0)
}

/// Starts the ring of an SDMA engine with a ring and pointers at these addresses.
fn start_sdma_at(driver: &mut Driver, at: u64, pointers_at: u64) {
    let bell = belfry_abi::pci::doorbell::SDMA_ENGINE0;
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 10 << 1);
    for register in [dword::<sdma::SDMA0_QUEUE0_RB_RPTR>(), dword::<sdma::SDMA0_QUEUE0_RB_WPTR>()] {
        driver.write(register, 0);
        driver.write(register + 1, 0);
    }
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO>(), pointers_at as u32 + 8);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI>(), (pointers_at >> 32) as u32);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_RPTR_ADDR_LO>(), pointers_at as u32);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_RPTR_ADDR_HI>(), (pointers_at >> 32) as u32);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_BASE>(), (at >> 8) as u32);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_BASE_HI>(), (at >> 40) as u32);
    driver.write(dword::<sdma::SDMA0_QUEUE0_DOORBELL>(), 1 << 28);
    driver.write(dword::<sdma::SDMA0_QUEUE0_DOORBELL_OFFSET>(), bell.dwords() << 2);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 10 << 1 | 1);
}

/// Linux's driver leaves the write pointer in memory as it was when it starts a ring again, after a sleep of the system.
#[test]
fn sdma_ring_that_starts_again_does_not_take_the_old_write_pointer() {
    let mut driver = Driver::up();
    let ((memory, at), (pointers, pointers_at)) = (driver.gart_alloc(4096), driver.gart_alloc(4096));
    let (target, target_at) = driver.gart_alloc(4096);
    let mut ring = SdmaRing { memory, pointers, written: 0 };
    start_sdma_at(&mut driver, at, pointers_at);
    ring.run(&mut driver, &[&write_dword(target_at, 1), &write_dword(target_at + 4, 2)]);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 10 << 1);
    driver.runner_passes();
    driver.set_ram_u64(target, 0);
    // The read pointer in memory is cleared by the driver, the write pointer is not.
    driver.set_ram_u64(pointers, 0);
    start_sdma_at(&mut driver, at, pointers_at);
    driver.runner_passes();
    assert_eq!((driver.ram_u64(target), driver.ram_u64(pointers)), (0, 0), "old packets were executed");
    ring.written = 0;
    ring.run(&mut driver, &[&write_dword(target_at, 7)]);
    assert_eq!(driver.ram_u64(target), 7, "the new packet alone");
    assert!(driver.gpu.stats().errors.is_empty(), "{:?}", driver.gpu.stats().errors);
}

#[test]
fn sdma_ring_of_registers_passes_the_test_of_a_driver() {
    let mut driver = Driver::up();
    let (memory, pointers) = start_sdma(&mut driver);
    let (target, at) = driver.gart_alloc(4096);
    let bell = belfry_abi::pci::doorbell::SDMA_ENGINE0.offset().bytes();
    let mut written = 0u64;
    for round in 1..=3u32 {
        // WRITE of a dword, then TRAP.
        let packets = [2, at as u32, (at >> 32) as u32, 0, 0xdead_0000 + round, 6, 0];
        for (place, word) in (memory + written..).step_by(4).zip(&packets) {
            driver.put_ram(place, word);
        }
        written += packets.len() as u64 * 4;
        driver.set_ram_u64(pointers + 8, written);
        driver.ring(bell, written);
        eventually("the write", || driver.ram_u32(target) == 0xdead_0000 + round);
        eventually("the read pointer", || driver.ram_u64(pointers) == written);
        let mut entries = Vec::new();
        eventually("the trap", || {
            entries.extend(driver.drain_interrupts());
            !entries.is_empty()
        });
    }
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 10 << 1);
    driver.runner_passes();
    assert!(driver.gpu.stats().errors.is_empty(), "{:?}", driver.gpu.stats().errors);
    // Started again, from its beginning.
    start_sdma(&mut driver);
    driver.runner_passes();
    assert!(driver.gpu.stats().errors.is_empty(), "{:?}", driver.gpu.stats().errors);
}

#[test]
fn sdma_rings_that_cannot_be_are_refused_by_name() {
    let mut driver = Driver::up();
    start_sdma(&mut driver);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 0);
    driver.runner_passes();
    for cntl in [1, 31 << 1 | 1] {
        driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), cntl);
        driver.runner_passes();
    }
    assert_eq!(driver.errors("ring of an SDMA engine with an impossible size, or without an address"), 2);
    driver.write(dword::<sdma::SDMA0_QUEUE0_DOORBELL>(), 0);
    driver.write(dword::<sdma::SDMA0_QUEUE0_RB_CNTL>(), 10 << 1 | 1);
    driver.runner_passes();
    assert_eq!(driver.errors("ring of an SDMA engine without a doorbell, which is not modelled"), 1);
}

/// A ring of an SDMA engine.
struct SdmaRing {
    memory: u64,
    pointers: u64,
    written: u64,
}

impl SdmaRing {
    fn start(driver: &mut Driver) -> Self {
        let (memory, pointers) = start_sdma(driver);
        Self { memory, pointers, written: 0 }
    }

    /// Puts packets into the ring, and waits until they are done.
    fn run(&mut self, driver: &mut Driver, packets: &[&[u32]]) {
        for word in packets.concat() {
            driver.put_ram(self.memory + self.written % 4096, &word);
            self.written += 4;
        }
        driver.set_ram_u64(self.pointers + 8, self.written);
        driver.ring(belfry_abi::pci::doorbell::SDMA_ENGINE0.offset().bytes(), self.written);
        eventually("the packets are done", || driver.ram_u64(self.pointers) == self.written);
    }
}

/// WRITE of a dword.
fn write_dword(at: u64, value: u32) -> [u32; 5] {
    [2, at as u32, (at >> 32) as u32, 0, value]
}

#[test]
fn sdma_ring_writes_registers_and_waits_for_them() {
    let mut driver = Driver::up();
    let mut ring = SdmaRing::start(&mut driver);
    let (target, at) = driver.gart_alloc(4096);
    let register = dword::<gc::SCRATCH_REG0>();
    let set = |value: u32| [0xf000_000e, register, value];
    let wait = |value: u32| [8 | 3 << 28, register << 2, 0, value, u32::MAX, 0xfff << 16 | 10];
    ring.run(&mut driver, &[&set(5), &wait(5), &write_dword(at, 1)]);
    assert_eq!((driver.read(register), driver.ram_u32(target)), (5, 1));
    // A flush of the HDP, as sdma_v6_0_ring_emit_hdp_flush asks for it.
    let flush = [8 | 1 << 26 | 3 << 28, 0x107 << 2, 0x106 << 2, 0x400, 0x400, 0xfff << 16 | 10];
    ring.run(&mut driver, &[&flush, &write_dword(at, 2)]);
    assert_eq!(driver.ram_u32(target), 2);
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_ring_sees_new_translations_after_its_invalidation() {
    let mut driver = Driver::up();
    let mut ring = SdmaRing::start(&mut driver);
    let (first, at) = driver.gart_alloc(4096);
    let second = driver.alloc_ram(4096);
    ring.run(&mut driver, &[&write_dword(at, 1)]);
    // Linux writes the tables' address, which is the same, and then has engine 6 of the GC hub invalidate.
    let base = dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>();
    let [low, high] = [base, base + 1].map(|register| [0xf000_000e, register, driver.read(register)]);
    let invalidate = [8 | 4 << 8 | 6 << 16 | 0x1f << 24, 1, u32::MAX, 1 | 0x1f << 16];
    // PTEPDE of two entries: the page, and the one after it.
    let entry = FB + (at - GART) / 4096 * 8;
    let flags = PTE_VALID | PTE_SYSTEM | PTE_SNOOPED | PTE_READABLE | PTE_WRITEABLE;
    let words = |value: u64| [value as u32, (value >> 32) as u32];
    let make = [&[12], &words(entry)[..], &words(flags), &words(second), &[4096, 0, 1]].concat();
    ring.run(&mut driver, &[&make, &low, &high, &invalidate, &write_dword(at, 2)]);
    assert_eq!((driver.ram_u32(first), driver.ram_u32(second)), (1, 2));
    let mut entries = [0u64; 2];
    for (number, entry) in entries.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        let place = (at - GART) / 4096 * 8 + number as u64 * 8;
        driver.gpu.bar_read(belfry_abi::pci::BAR_VRAM, place, &mut bytes).unwrap();
        *entry = u64::from_le_bytes(bytes);
    }
    assert_eq!(entries, [second | flags, (second + 4096) | flags]);
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_ring_executes_buffers_in_the_memory_of_their_vmid() {
    let mut driver = Driver::up();
    let mut ring = SdmaRing::start(&mut driver);
    let mut process = Process::new(&mut driver, 0x8001);
    let queue = UserQueue::new(&mut driver, &mut process, 0x800);
    assert!(queue.add(&mut driver, &process));
    let (memory, va) = process.alloc(&mut driver, 4096);
    for (place, word) in (memory..).step_by(4).zip(write_dword(va + 256, 7)) {
        driver.put_ram(place, &word);
    }
    let vmid = 8;
    let enter = |vmid: u32| [4 | vmid << 16, va as u32, (va >> 32) as u32, 5, 0, 0];
    let (target, at) = driver.gart_alloc(4096);
    ring.run(&mut driver, &[&enter(vmid), &write_dword(at, 3)]);
    assert_eq!((driver.ram_u32(memory + 256), driver.ram_u32(target)), (7, 3));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}
