//! A command processor on a bench: memory, page tables, queues and signals made by hand, without a driver.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belfry_abi::aql::{
    AmdQueue, BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType,
    QUEUE_PROPERTIES_ENABLE_PROFILING, QUEUE_READ_DISPATCH_ID_OFFSET, QUEUE_WRITE_DISPATCH_ID_OFFSET,
    TmpringSize,
};
use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::gpuvm::{PAGE_SIZE, PTE_EXECUTABLE, PTE_READABLE, PTE_VALID, PTE_WRITEABLE};
use belfry_abi::signal::{AMD_SIGNAL_KIND_USER, AmdSignal};
use belfry_device::chip::{CuMask, PteFormat, SqInterrupt, gfx1100};
use belfry_device::cp::{AqlConfig, AqlQueue, CpEnv, CpInterrupts, QueueError};
use belfry_device::memory::{Memory, Physical};
use belfry_device::queue::{BlockedOn, Progress, QueueEngine as _, QueueIdentity};
use belfry_device::sdma::{Movers, SdmaEnv};
use belfry_device::shader::{ShaderConfig, ShaderEngine, WaveFailure};
use belfry_device::time::{Clock, TimeSource};
use belfry_device::tools::Tools;
use belfry_device::vm::{AddressSpace, Fault, Root, RootKind};
use belfry_device::{Activity, Processors};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;
use object::{Object, ObjectSegment, ObjectSymbol};
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::gpus::{GFX1100, Gpu};

const VRAM: u64 = 64 << 20;
/// Page tables are taken from here on, allocations from the second page on.
const TABLES: u64 = 48 << 20;
/// Virtual address of VRAM offset 0.
pub(crate) const VA: u64 = 0x7f00_0000_0000;
/// Longer than any test takes unless it hangs.
const HANG: Duration = Duration::from_secs(120);

pub(crate) const READ: u64 = PTE_VALID | PTE_READABLE;
pub(crate) const READ_WRITE: u64 = READ | PTE_WRITEABLE;
pub(crate) const CODE: u64 = READ | PTE_EXECUTABLE;

/// Interrupts, in the order of their arrival.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Interrupt {
    Eop(DoorbellIndex, u32),
    Sq(DoorbellIndex, SqInterrupt),
    BadOpcode(DoorbellIndex, u32),
    VmFault(DoorbellIndex, Fault),
    SdmaTrap(DoorbellIndex, u32),
    SdmaStopped(DoorbellIndex),
    SdmaPoison(DoorbellIndex),
    /// Not an interrupt: the report of an instruction that cannot be executed.
    Illegal(DoorbellIndex, String),
}

#[derive(Default)]
pub(crate) struct Recorder {
    all: Mutex<Vec<Interrupt>>,
    /// True if reports of packets' ends are slow.
    pub(crate) is_slow: AtomicBool,
}

impl Recorder {
    fn push(&self, interrupt: Interrupt) {
        self.all.lock().expect("no test panics here").push(interrupt);
    }

    pub(crate) fn all(&self) -> Vec<Interrupt> {
        self.all.lock().expect("no test panics here").clone()
    }
}

impl CpInterrupts for Recorder {
    fn cp_eop(&self, queue: &QueueIdentity, event_id: u32) {
        if self.is_slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.push(Interrupt::Eop(queue.doorbell, event_id));
    }
    fn sq_interrupt(&self, queue: &QueueIdentity, interrupt: SqInterrupt) {
        self.push(Interrupt::Sq(queue.doorbell, interrupt));
    }
    fn bad_opcode(&self, queue: &QueueIdentity, code: u32) {
        self.push(Interrupt::BadOpcode(queue.doorbell, code));
    }
    fn sdma_trap(&self, queue: &QueueIdentity, context: u32) {
        self.push(Interrupt::SdmaTrap(queue.doorbell, context));
    }
    fn sdma_stopped(&self, queue: &QueueIdentity) {
        self.push(Interrupt::SdmaStopped(queue.doorbell));
    }
    fn sdma_poison(&self, queue: &QueueIdentity) {
        self.push(Interrupt::SdmaPoison(queue.doorbell));
    }
    fn illegal_instruction(
        &self,
        queue: &QueueIdentity,
        failure: &WaveFailure,
        kernel: &dyn std::fmt::Display,
    ) {
        self.push(Interrupt::Illegal(queue.doorbell, format!("{failure} in {kernel}")));
    }
    fn vm_fault(&self, queue: &QueueIdentity, fault: &Fault) {
        self.push(Interrupt::VmFault(queue.doorbell, *fault));
    }
}

pub(crate) struct Bench {
    pub(crate) memory: Arc<Memory>,
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) env: CpEnv,
    pub(crate) movers: Arc<Movers>,
    pub(crate) interrupts: Arc<Recorder>,
    pub(crate) wakes: Arc<AtomicUsize>,
    next_page: AtomicU64,
    next_table: AtomicU64,
    next_doorbell: AtomicU64,
    kernels: Vec<(String, u64)>,
    /// The driver's handler, which takes no traps.
    trap: TrapHandler,
}

pub(crate) struct Queue {
    pub(crate) cp: AqlQueue,
    pub(crate) ring: u64,
    pub(crate) amd_queue: u64,
    pub(crate) packets: u64,
    pub(crate) doorbell: DoorbellIndex,
    pub(crate) write_index: u64,
    pub(crate) config: AqlConfig,
    space: Arc<AddressSpace>,
}

impl Bench {
    pub(crate) fn new(workers: usize) -> Bench {
        Bench::of(&GFX1100, workers)
    }

    pub(crate) fn of(gpu: &'static Gpu, workers: usize) -> Bench {
        let vram = MmapRegion::new(VRAM as usize).expect("anonymous memory");
        let map = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).expect("anonymous memory");
        let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(map)));
        let root = Root {
            base: TABLES,
            depth: 3,
            block_size: 9,
            start: 0,
            end: (1 << 48) - 1,
            kind: RootKind::Process,
            format: PteFormat::Gfx11,
        };
        let space =
            Arc::new(AddressSpace::new(Arc::clone(&memory), root, Arc::default()).expect("a valid root"));
        let clock = Clock::new(&TimeSource::default());
        let config = ShaderConfig {
            workers,
            processors: Processors::default(),
            topology: (gpu.topology)(),
            chip: gpu.generation,
            backend: Backend::detect(),
            kept_code: None,
            deterministic: None,
            tools: Tools::default(),
            walks: Arc::default(),
            activity: Activity::default(),
        };
        let shader = Arc::new(ShaderEngine::new(config, clock.clone()).expect("threads start"));
        let interrupts = Arc::new(Recorder::default());
        let wakes = Arc::new(AtomicUsize::new(0));
        let wake = {
            let wakes = Arc::clone(&wakes);
            Arc::new(move || {
                wakes.fetch_add(1, Ordering::SeqCst);
            })
        };
        let mut bench = Bench {
            memory,
            space,
            env: CpEnv {
                clock,
                interrupts: interrupts.clone(),
                tools: Tools::default(),
                kernel: None,
                shader,
                wake,
            },
            movers: Arc::default(),
            interrupts,
            wakes,
            next_page: AtomicU64::new(PAGE_SIZE),
            next_table: AtomicU64::new(TABLES + PAGE_SIZE),
            next_doorbell: AtomicU64::new(0x400),
            kernels: Vec::new(),
            trap: TrapHandler::default(),
        };
        bench.load(gpu.code_object);
        bench.trap.tba = bench.alloc(PAGE_SIZE, CODE | PTE_WRITEABLE);
        bench.space.write_bytes(bench.trap.tba, gpu.trap_handler).expect("mapped");
        bench
    }

    /// Environment of SDMA queues.
    pub(crate) fn sdma_env(&self) -> SdmaEnv {
        SdmaEnv {
            cp: self.env.clone(),
            movers: Arc::clone(&self.movers),
            packets: gfx1100::GENERATION.sdma.packets,
        }
    }

    /// Maps fresh zeroed memory; the page after it has no mapping.
    pub(crate) fn alloc(&self, size: u64, flags: u64) -> u64 {
        let pages = size.div_ceil(PAGE_SIZE);
        let offset = self.next_page.fetch_add((pages + 1) * PAGE_SIZE, Ordering::Relaxed);
        assert!(offset + size < TABLES, "the bench is out of memory");
        for page in 0..pages {
            let at = offset + page * PAGE_SIZE;
            self.map(VA + at, at, flags);
        }
        VA + offset
    }

    /// Maps one page.
    pub(crate) fn map(&self, va: u64, offset: u64, flags: u64) {
        let mut table = TABLES;
        for shift in [39, 30, 21] {
            let entry = Physical::local(table + ((va >> shift) & 511) * 8);
            let mut next: u64 = self.memory.read(entry).expect("in VRAM");
            if next == 0 {
                next = self.next_table.fetch_add(PAGE_SIZE, Ordering::Relaxed) | PTE_VALID;
                self.memory.write(entry, &next).expect("in VRAM");
            }
            table = next & !0xfff;
        }
        self.memory
            .write(Physical::local(table + ((va >> 12) & 511) * 8), &(offset | flags))
            .expect("in VRAM");
    }

    /// Fresh memory with these contents.
    pub(crate) fn buffer<T: IntoBytes + Immutable>(&self, contents: &[T]) -> u64 {
        let va = self.alloc(size_of_val(contents) as u64, READ_WRITE);
        self.space.write_bytes(va, contents.as_bytes()).expect("mapped");
        va
    }

    pub(crate) fn u32s(&self, va: u64, count: usize) -> Vec<u32> {
        let mut out = vec![0u32; count];
        self.space.read_bytes(va, out.as_mut_bytes()).expect("mapped");
        out
    }

    /// A signal with an initial value; with an event there is a mailbox, too, whose address comes second.
    pub(crate) fn signal(&self, value: i64, event: Option<u32>) -> (u64, u64) {
        let va = self.alloc(128, READ_WRITE);
        let mut signal = AmdSignal::new_zeroed();
        signal.kind = AMD_SIGNAL_KIND_USER;
        signal.value = value;
        if let Some(event) = event {
            signal.event_id = event;
            signal.event_mailbox_ptr = va + 64;
        }
        self.space.write(va, &signal).expect("mapped");
        (va, va + 64)
    }

    pub(crate) fn value(&self, signal: u64) -> i64 {
        self.space.load_u64(signal + 8).expect("mapped").cast_signed()
    }

    pub(crate) fn queue(&self, packets: u64) -> Queue {
        let ring = self.alloc(packets * 64, READ_WRITE);
        let amd_queue = self.alloc(256, READ_WRITE);
        for index in 0..packets {
            self.space.store_u16(ring + index * 64, PacketType::INVALID.0.into()).expect("mapped");
        }
        let mut queue = AmdQueue::new_zeroed();
        queue.base_address = ring;
        queue.size = packets as u32;
        queue.read_dispatch_id_field_base_byte_offset = QUEUE_READ_DISPATCH_ID_OFFSET as u32;
        queue.queue_properties = QUEUE_PROPERTIES_ENABLE_PROFILING;
        queue.queue_inactive_signal = self.signal(0, Some(0x1ac)).0;
        self.space.write(amd_queue, &queue).expect("mapped");
        let doorbell = DoorbellIndex::from_dwords(self.next_doorbell.fetch_add(2, Ordering::Relaxed) as u32);
        let config = AqlConfig {
            trap: Some(self.trap),
            identity: QueueIdentity { xcc: 0, me: 1, pipe: 0, queue: 0, vmid: 8, pasid: 0x8001, doorbell },
            ring_base: ring,
            ring_packets: packets,
            rptr_report: amd_queue + QUEUE_READ_DISPATCH_ID_OFFSET,
            wptr_poll: amd_queue + QUEUE_WRITE_DISPATCH_ID_OFFSET,
            read_index: 0,
            cus: CuMask::ALL,
            shares: None,
            apertures: Apertures { shared_base: 1 << 48, private_base: 2 << 48 },
        };
        self.queue_of(config)
    }

    /// A queue at its first packet.
    pub(crate) fn queue_of(&self, config: AqlConfig) -> Queue {
        let cp = AqlQueue::new(config, Arc::clone(&self.space), Arc::default(), &self.env);
        let space = Arc::clone(&self.space);
        let AqlConfig { ring_base: ring, ring_packets: packets, .. } = config;
        let amd_queue = config.rptr_report - QUEUE_READ_DISPATCH_ID_OFFSET;
        let doorbell = config.identity.doorbell;
        let write_index = space.load_u64(config.wptr_poll).expect("mapped");
        Queue { cp, ring, amd_queue, packets, doorbell, write_index, config, space }
    }

    pub(crate) fn kernel(&self, name: &str) -> u64 {
        self.kernels.iter().find(|(kernel, _)| kernel == name).expect("the fixture has it").1
    }

    /// A dispatch packet: one dimension unless sizes say more.
    pub(crate) fn dispatch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        workgroup: [u16; 3],
        args: u64,
    ) -> KernelDispatchPacket {
        KernelDispatchPacket {
            header: PacketHeader::new(PacketType::KERNEL_DISPATCH, false, 2, 2).bits(),
            setup: 3,
            workgroup_size_x: workgroup[0],
            workgroup_size_y: workgroup[1],
            workgroup_size_z: workgroup[2],
            reserved0: 0,
            grid_size_x: grid[0],
            grid_size_y: grid[1],
            grid_size_z: grid[2],
            private_segment_size: 0,
            group_segment_size: 0,
            kernel_object: self.kernel(kernel),
            kernarg_address: args,
            reserved2: 0,
            completion_signal: 0,
        }
    }

    fn load(&mut self, code_object: &[u8]) {
        let file = object::File::parse(code_object).expect("the fixture is an ELF file");
        let end =
            file.segments().map(|segment| segment.address() + segment.size()).max().expect("it has segments");
        let base = self.alloc(end, CODE | PTE_WRITEABLE);
        for segment in file.segments() {
            let data = segment.data().expect("the fixture is complete");
            self.space.write_bytes(base + segment.address(), data).expect("mapped");
        }
        self.kernels = file
            .dynamic_symbols()
            .filter_map(|symbol| {
                Some((symbol.name().ok()?.strip_suffix(".kd")?.to_owned(), base + symbol.address()))
            })
            .collect();
        for page in 0..end.div_ceil(PAGE_SIZE) {
            let va = base + page * PAGE_SIZE;
            self.map(va, va - VA, CODE);
        }
    }

    /// Serves queues until `done`, or panics if that takes for ever.
    pub(crate) fn run_until(&self, queues: &mut [&mut Queue], mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            for queue in &mut *queues {
                if let Progress::Error(error) = queue.cp.service() {
                    panic!("queue {:#x}: {error}", queue.doorbell);
                }
            }
            assert!(start.elapsed() < HANG, "queues hang: {:?}", queues.first().map(|queue| &queue.cp));
            std::thread::yield_now();
        }
    }

    /// Serves a queue until its packets are consumed.
    pub(crate) fn drain(&self, queue: &mut Queue) {
        let start = Instant::now();
        loop {
            match queue.cp.service() {
                Progress::Idle if queue.cp.read_index() == queue.write_index => return,
                Progress::Error(error) => panic!("{error}"),
                _ => std::thread::yield_now(),
            }
            assert!(start.elapsed() < HANG, "the queue hangs: {:?}", queue.cp);
        }
    }

    /// Serves a queue until it stops with an error.
    pub(crate) fn run_to_error(&self, queue: &mut Queue) -> QueueError {
        let start = Instant::now();
        loop {
            match queue.cp.service() {
                Progress::Error(error) => return error,
                Progress::Idle => panic!("the queue became idle"),
                _ => std::thread::yield_now(),
            }
            assert!(start.elapsed() < HANG, "the queue hangs: {:?}", queue.cp);
        }
    }

    /// Serves a queue until it waits for memory.
    pub(crate) fn run_until_blocked(&self, queue: &mut Queue) {
        let start = Instant::now();
        while queue.cp.service() != Progress::Blocked(BlockedOn::Memory) {
            assert!(start.elapsed() < HANG, "the queue does not block: {:?}", queue.cp);
            std::thread::yield_now();
        }
    }

    /// Shows that a queue still works: adds vectors on it.
    pub(crate) fn assert_works(&self, queue: &mut Queue) {
        let a: Vec<f32> = (0..512u16).map(f32::from).collect();
        let b: Vec<f32> = a.iter().map(|value| value * 0.5).collect();
        let out = self.alloc(512 * 4, READ_WRITE);
        let args = self.buffer(&[self.buffer(&a), self.buffer(&b), out]);
        let (signal, _) = self.signal(1, None);
        let mut packet = self.dispatch("vecadd", [512, 1, 1], [256, 1, 1], args);
        packet.completion_signal = signal;
        queue.submit(&packet);
        self.run_until(&mut [queue], || self.value(signal) == 0);
        let expected: Vec<u32> = a.iter().zip(&b).map(|(a, b)| (a + b).to_bits()).collect();
        assert_eq!(self.u32s(out, 512), expected);
    }
}

impl Queue {
    /// Puts a 64-byte packet into the ring as a producer does: body first, header last. The ring must have room.
    pub(crate) fn submit<T: IntoBytes + Immutable>(&mut self, packet: &T) {
        let bytes = packet.as_bytes();
        assert_eq!(bytes.len(), 64);
        let index = self.write_index;
        self.write_index += 1;
        self.space
            .store_u64(self.amd_queue + QUEUE_WRITE_DISPATCH_ID_OFFSET, self.write_index)
            .expect("mapped");
        let slot = self.ring + index % self.packets * 64;
        self.space.write_bytes(slot + 2, &bytes[2..]).expect("mapped");
        self.space.store_u16(slot, u16::from_le_bytes([bytes[0], bytes[1]])).expect("mapped");
    }

    pub(crate) fn barrier(&mut self, packet_type: PacketType, dependencies: &[u64], completion: u64) {
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketHeader::new(packet_type, true, 2, 2).bits();
        packet.dep_signal[..dependencies.len()].copy_from_slice(dependencies);
        packet.completion_signal = completion;
        self.submit(&packet);
    }

    pub(crate) fn header(&self, index: u64) -> PacketHeader {
        PacketHeader::from_bits(self.space.load_u16(self.ring + index % self.packets * 64).expect("mapped"))
    }

    pub(crate) fn read_index(&self) -> u64 {
        self.space.load_u64(self.amd_queue + QUEUE_READ_DISPATCH_ID_OFFSET).expect("mapped")
    }

    pub(crate) fn amd(&self) -> AmdQueue {
        self.space.read(self.amd_queue).expect("mapped")
    }

    pub(crate) fn set_amd(&self, change: impl FnOnce(&mut AmdQueue)) {
        let mut queue = self.amd();
        change(&mut queue);
        self.space.write(self.amd_queue, &queue).expect("mapped");
    }

    /// Gives the queue scratch memory for `waves` waves.
    pub(crate) fn give_scratch(&self, bench: &Bench, waves: u32, wave_bytes: u64) {
        let size = wave_bytes * u64::from(waves);
        let backing = bench.alloc(size, READ_WRITE);
        self.set_amd(|queue| {
            let units = (wave_bytes / 256) as u32;
            queue.compute_tmpring_size = TmpringSize::from_bits(waves | units << 12).bits();
            queue.scratch_backing_memory_location = backing;
            queue.scratch_backing_memory_byte_size = size;
        });
    }

    pub(crate) fn inactive_code(&self) -> u64 {
        self.space.load_u64(self.amd().queue_inactive_signal + 8).expect("mapped")
    }

    pub(crate) fn answer_inactive(&self) {
        self.space.store_u64(self.amd().queue_inactive_signal + 8, 0).expect("mapped");
    }
}
