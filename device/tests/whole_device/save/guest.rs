//! A guest whose work is saved and continued.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

use belfry_abi::aql::{AmdQueue, BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType, TmpringSize};
use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, SavedGpu, Stats};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::kernels::{dispatch, load, signal};
use crate::driver::{Driver, Process, UserQueue, eventually};

pub static KERNELS: &[u8] = include_bytes!("../../fixtures/cp.gfx1100.hsaco");
static HIST: &[u8] = include_bytes!("../../../../guest-runtime/kernels/hist.gfx1100.hsaco");

/// Steps between two looks of the guest at its interrupts.
pub const LOOK: u64 = 64;
/// More steps than the work takes.
const MANY: u64 = 100_000;

/// A guest with two queues, whose work it has submitted.
pub struct Guest {
    pub driver: Driver,
    /// Steps so far.
    pub steps: u64,
    /// The last signal of each queue.
    last: [u64; 2],
    /// Interrupts that earlier devices raised, and the entries taken from the ring.
    raised: u32,
    taken: Vec<(u32, [u32; 4])>,
}

pub fn config() -> GpuConfig {
    GpuConfig { deterministic: Some(7), time: TimeSource::manual(), cus: 4, ..GpuConfig::default() }
}

/// One queue's packets as they are made.
struct Producer {
    queue: UserQueue,
    kernel: [u64; 5],
}

impl Producer {
    fn kernarg(driver: &mut Driver, process: &mut Process, args: &[u64]) -> u64 {
        let (kernarg, va) = process.alloc(driver, 4096);
        driver.put_ram(kernarg, &[0u64; 64]);
        args.iter().zip((kernarg..).step_by(8)).for_each(|(&arg, at)| driver.set_ram_u64(at, arg));
        va
    }

    /// Puts a dispatch, which waits for earlier ones or not.
    fn put(
        &mut self,
        driver: &Driver,
        mut packet: KernelDispatchPacket,
        waits: bool,
        (lds, private): (u32, u32),
    ) {
        packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, waits, 2, 2).bits();
        packet.group_segment_size = lds;
        packet.private_segment_size = private;
        self.queue.put(driver, &packet);
    }

    fn wait_for(&mut self, driver: &Driver, kind: PacketType, signals: [u64; 2]) {
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketHeader::new(kind, false, 2, 2).bits();
        packet.dep_signal[..2].copy_from_slice(&signals);
        self.queue.put(driver, &packet);
    }
}

/// Positions in [`Producer::kernel`].
const VECADD: usize = 0;
const REVERSE: usize = 1;
const SCRATCH: usize = 2;
const GRID_BARRIER: usize = 3;
const HISTOGRAM: usize = 4;

fn producer(driver: &mut Driver, process: &mut Process, doorbell: u32) -> Producer {
    let queue = UserQueue::new(driver, process, doorbell);
    let mut amd = AmdQueue::new_zeroed();
    driver.ram.read_slice(amd.as_mut_bytes(), GuestAddress(queue.queue)).unwrap();
    // Scratch memory for two waves at once, for kernels of many more: 320 bytes for each of 32 lanes.
    let wave = 320u64 * 32;
    let mut size = TmpringSize::from_bits(0);
    size.set_waves(2);
    size.set_wavesize((wave / 256) as u32 + 1);
    amd.compute_tmpring_size = size.bits();
    amd.scratch_backing_memory_byte_size = 4 * (wave + 256);
    (_, amd.scratch_backing_memory_location) = process.alloc(driver, 4 * (wave + 256));
    driver.put_ram(queue.queue, &amd);
    assert!(queue.add(driver, process));
    let mut find = |elf, name| load(driver, process, elf, name);
    let kernel = [
        find(KERNELS, "vecadd.kd"),
        find(KERNELS, "reverse.kd"),
        find(KERNELS, "scratch.kd"),
        find(KERNELS, "grid_barrier.kd"),
        find(HIST, "hist.kd"),
    ];
    Producer { queue, kernel }
}

impl Guest {
    pub fn new() -> Self {
        Self::with(config(), true)
    }

    /// Two queues of two processes: LDS, barriers, atomics across workgroups, scratch memory, packets that wait for
    /// signals, and an interrupt at the end of both.
    pub fn with(config: GpuConfig, on_caller: bool) -> Self {
        let mut all = Driver::with(config);
        if on_caller {
            all.work_on_caller();
        }
        all.bring_up();
        let driver = &mut all;
        let mut last = [0; 2];
        for (number, last) in (0u32..).zip(&mut last) {
            let mut process = Process::new(driver, 0x8001 + number as u16);
            let process = &mut process;
            let mut producer = producer(driver, process, 0x800 * (number + 1));
            let (words, words_va) = process.alloc(driver, 0x8000);
            for word in 0..0x2000u32 {
                driver.put_ram(words + u64::from(word) * 4, &(word.wrapping_mul(0x9e37_79b1) >> number));
            }
            let (_, out) = process.alloc(driver, 0x8000);
            let (counter, counter_va) = process.alloc(driver, 4096);
            driver.put_ram(counter, &[0u32; 512]);
            let [first, second] = [0, 0].map(|_| signal(driver, process, 0));
            let (done, end) = signal(driver, process, 40 + number);
            let mut run =
                |driver: &mut Driver, kernel: usize, args: &[u64], (grid, size): (u32, u16), signal| {
                    let kernarg = Producer::kernarg(driver, process, args);
                    dispatch(producer.kernel[kernel], kernarg, grid, size, signal)
                };
            // These two kernels run at the same time.
            let histogram = run(driver, HISTOGRAM, &[words_va, counter_va, 0x7000], (4 * 256, 256), first.1);
            let barrier =
                run(driver, GRID_BARRIER, &[counter_va + 1024, out, 12 | 8 << 32], (12 * 64, 64), second.1);
            let reverse = run(driver, REVERSE, &[words_va, out + 0x1000], (1536, 256), 0);
            let index: Vec<u32> = (0..64).map(|k| (k * 37 + 11) & 63).collect();
            index.iter().zip((words + 0x7000..).step_by(4)).for_each(|(word, at)| driver.put_ram(at, word));
            let scratch = run(driver, SCRATCH, &[words_va + 0x7000, out + 0x4000], (256, 64), 0);
            let add = run(driver, VECADD, &[words_va, words_va + 0x1000, out + 0x5000], (1000, 256), end);
            producer.put(driver, histogram, false, (1024, 0));
            producer.put(driver, barrier, false, (0, 0));
            producer.wait_for(driver, PacketType::BARRIER_AND, [first.1, second.1]);
            producer.put(driver, reverse, true, (1024, 0));
            producer.put(driver, scratch, false, (0, 320));
            producer.wait_for(driver, PacketType::BARRIER_OR, [first.1, end]);
            producer.put(driver, add, true, (0, 0));
            *last = done + 8;
        }
        Self { driver: all, steps: 0, last, raised: 0, taken: Vec::new() }
    }

    pub fn step(&mut self) {
        self.driver.gpu.turn();
        self.driver.gpu.pass();
        self.steps += 1;
        assert!(self.steps < MANY, "the work never ends");
        if self.steps.is_multiple_of(LOOK) {
            self.look();
        }
    }

    /// Takes the interrupts' entries, and acknowledges them.
    fn look(&mut self) {
        let entries = self.driver.drain_interrupts();
        self.taken.extend(entries.iter().map(|entry| (entry.timestamp_lo, entry.data)));
    }

    /// Goes on to the end with a device that has threads, and stops it.
    pub fn run(mut self) {
        eventually("the work is done", || {
            self.look();
            self.is_done()
        });
        self.driver.gpu.stop();
    }

    pub fn is_done(&self) -> bool {
        self.last.iter().all(|&signal| self.driver.ram_u64(signal) == 0)
    }

    /// Goes on to the end, and returns the whole visible outcome.
    pub fn finish(mut self) -> Outcome {
        while !self.is_done() {
            self.step();
        }
        for _ in 0..2 * LOOK {
            self.step();
        }
        let gpu = &self.driver.gpu;
        let stats = gpu.stats();
        assert_eq!(stats.errors, Default::default());
        let saved = gpu.save().unwrap();
        assert_eq!(saved.waves(), 0);
        let mut hasher = DefaultHasher::new();
        saved.to_bytes().unwrap().hash(&mut hasher);
        self.driver.used_ram().hash(&mut hasher);
        Outcome {
            steps: self.steps,
            hash: hasher.finish(),
            raised: self.raised + self.driver.interrupts.0.load(Ordering::SeqCst),
            taken: self.taken.clone(),
            stats: comparable(stats),
        }
    }

    /// This guest with a device that goes on from a snapshot.
    pub fn continued(&self, saved: &SavedGpu) -> Self {
        let config = GpuConfig { time: TimeSource::manual(), ..saved.config() };
        Self {
            driver: self.driver.continued(saved, config),
            steps: self.steps,
            last: self.last,
            raised: self.raised + self.driver.interrupts.0.load(Ordering::SeqCst),
            taken: self.taken.clone(),
        }
    }
}

/// Visible outcome at the end.
#[derive(Debug, Eq, PartialEq)]
pub struct Outcome {
    pub steps: u64,
    /// Hash of the whole device, registers and VRAM included, and of guest memory.
    pub hash: u64,
    pub raised: u32,
    pub taken: Vec<(u32, [u32; 4])>,
    pub stats: Stats,
}

/// The counters, except those that a snapshot does not have: they depend on the contents of caches, and on
/// the host.
fn comparable(stats: Stats) -> Stats {
    let mut stats = stats;
    (stats.page_walks, stats.tlb_misses, stats.runner_passes) = (0, 0, 0);
    stats
}
