//! A device that is saved in the middle of its work goes on elsewhere as if nothing had happened.
//!
//! The device works on the test's thread here: a step is one turn of the shader engine and one pass of the scheduler, so
//! that a point between two steps is the same one in every run.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use belfry_abi::aql::{AmdQueue, BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType, TmpringSize};
use belfry_abi::mes::AddQueueFlags;
use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, SavedGpu, SnapshotError, Stats};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::{Driver, Process, RAM, UserQueue, eventually};
use crate::exclusive::GRIDSYNC;
use crate::kernels::{dispatch, load, ready_to_spin_with, signal, spinning};

static KERNELS: &[u8] = include_bytes!("../fixtures/cp.gfx1100.hsaco");
static HIST: &[u8] = include_bytes!("../../../guest-runtime/kernels/hist.gfx1100.hsaco");

/// Steps between two looks of the guest at its interrupts.
const LOOK: u64 = 64;
/// More steps than the work takes.
const MANY: u64 = 100_000;
/// Where a test that runs itself again finds what to continue.
const FOLDER: &str = "BELFRY_TEST_SNAPSHOT";

/// A stream of numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// A guest with two queues, whose work it has submitted.
struct Guest {
    driver: Driver,
    /// Steps so far.
    steps: u64,
    /// The last signal of each queue.
    last: [u64; 2],
    /// Interrupts that earlier devices raised, and the entries taken from the ring.
    raised: u32,
    taken: Vec<(u32, [u32; 4])>,
}

fn config() -> GpuConfig {
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

    /// Puts a dispatch that waits for those before it or not.
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
    // Two waves of scratch memory at once, for kernels of many more: 320 bytes of each of 32 lanes.
    let wave = 320u64 * 32;
    amd.compute_tmpring_size = TmpringSize::from_bits(2 | (wave / 256) as u32 + 1 << 12).bits();
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
    fn new() -> Self {
        Self::with(config(), true)
    }

    /// Two queues of two processes: LDS, barriers, atomics across workgroups, scratch memory, packets that wait for
    /// signals, and an interrupt at the end of both.
    fn with(config: GpuConfig, on_caller: bool) -> Self {
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
            // These two overlap.
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

    fn step(&mut self) {
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

    fn is_done(&self) -> bool {
        self.last.iter().all(|&signal| self.driver.ram_u64(signal) == 0)
    }

    /// Goes on to the end, and says everything that there is to be seen then.
    fn finish(mut self) -> Outcome {
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

    /// The same guest with a device that goes on from a snapshot.
    fn continued(&self, saved: &SavedGpu) -> Self {
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

/// Everything that is to be seen at the end.
#[derive(Debug, Eq, PartialEq)]
struct Outcome {
    steps: u64,
    /// Of the whole device, registers and VRAM included, and of guest memory.
    hash: u64,
    raised: u32,
    taken: Vec<(u32, [u32; 4])>,
    stats: Stats,
}

/// The counters but for those that a snapshot does not have: they depend on what is cached, and on the host.
fn comparable(stats: Stats) -> Stats {
    let mut stats = stats;
    (stats.page_walks, stats.runner_passes) = (0, 0);
    stats
}

#[test]
fn device_restores_at_a_hundred_random_points() {
    let whole = Guest::new().finish();
    assert_eq!(Guest::new().finish(), whole, "the workload is the same each time");
    assert_eq!((whole.taken.len(), whole.stats.dispatches), (6, 10), "{whole:?}");
    let mut numbers = Numbers(1);
    let mut points: Vec<u64> = (0..100).map(|_| numbers.next() % (whole.steps - 2 * LOOK)).collect();
    points.sort_unstable();
    let mut guest = Guest::new();
    let mut inside = 0;
    for point in points {
        while guest.steps < point {
            guest.step();
        }
        let bytes = guest.driver.gpu.save().unwrap().to_bytes().unwrap();
        let saved = SavedGpu::from_bytes(&bytes).unwrap();
        inside += usize::from(saved.waves() > 0);
        let continued = guest.continued(&saved);
        let again = continued.driver.gpu.save().unwrap().to_bytes().unwrap();
        assert!(again == bytes, "a device that was restored at step {point} and saved again is another one");
        assert_eq!(continued.finish(), whole, "restored at step {point}");
    }
    assert!(inside >= 90, "only {inside} points had waves in progress");
    assert_eq!(guest.finish(), whole, "saving changes nothing");
}

/// What of a test runs in another process: it continues the snapshot in the folder, and prints what comes of it.
#[test]
fn snapshot_continues_in_a_fresh_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return in_a_fresh_process() };
    let folder = Path::new(&folder);
    let saved = SavedGpu::from_bytes(&std::fs::read(folder.join("device")).unwrap()).unwrap();
    let mut guest = Guest::new();
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
    ram.write_slice(&std::fs::read(folder.join("memory")).unwrap(), GuestAddress(0)).unwrap();
    // Of this process's guest, the continued one has what the test knows, and nothing of the device.
    let config = GpuConfig { time: TimeSource::manual(), ..saved.config() };
    guest.driver = guest.driver.in_memory(ram, &saved, config).unwrap();
    guest.steps = std::fs::read_to_string(folder.join("steps")).unwrap().parse().unwrap();
    let outcome = guest.finish();
    std::fs::write(folder.join("outcome"), format!("{:x} {}", outcome.hash, outcome.steps)).unwrap();
}

fn in_a_fresh_process() {
    let whole = Guest::new().finish();
    let folder = std::env::temp_dir().join(format!("belfry-save-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut guest = Guest::new();
    // Before the guest's first look at its interrupts, which the other process's guest has not had.
    while guest.steps < LOOK - 1 {
        guest.step();
    }
    let saved = guest.driver.gpu.save().unwrap();
    assert!(saved.waves() > 0);
    std::fs::write(folder.join("device"), saved.to_bytes().unwrap()).unwrap();
    std::fs::write(folder.join("memory"), guest.driver.used_ram()).unwrap();
    std::fs::write(folder.join("steps"), guest.steps.to_string()).unwrap();
    let test = "save::snapshot_continues_in_a_fresh_process";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let ended = child.args(["--exact", test]).env(FOLDER, &folder).output().unwrap();
    let outcome = std::fs::read_to_string(folder.join("outcome"));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert_eq!(outcome.unwrap(), format!("{:x} {}", whole.hash, whole.steps));
}

#[test]
fn device_with_threads_goes_on_after_it_was_saved_and_restored() {
    for workers in [1, 3] {
        let mut guest = Guest::with(GpuConfig { workers, cus: 4, ..GpuConfig::default() }, false);
        // Saved at any time, with whatever the threads are at.
        for _ in 0..20 {
            guest.driver.gpu.save().unwrap();
            // Memory is copied afterwards: the device that was saved stands still.
            guest.driver.gpu.pause();
            let saved = guest.driver.gpu.save().unwrap();
            guest = guest.continued(&saved);
        }
        eventually("the work ends", || guest.is_done());
        eventually("everything is retired", || guest.driver.gpu.save().unwrap().waves() == 0);
        let stats = guest.driver.gpu.stats();
        assert_eq!((stats.dispatches, stats.workgroups, stats.ih_entries), (10, 60, 6), "{workers} workers");
        assert_eq!(stats.errors, Default::default());
    }
}

#[test]
fn every_wave_that_has_begun_is_in_a_snapshot_of_a_device_at_work() {
    const WAVES: u32 = 48;
    for workers in [1, 3] {
        let mut driver = Driver::up_with(GpuConfig { workers, ..GpuConfig::default() });
        let mut spin = ready_to_spin_with(&mut driver, 0x8001, 0x800, AddQueueFlags::empty());
        spin.packet.grid_size_x = WAVES * 32;
        spin.start(&driver);
        // These never sleep, so that a worker nearly always has them in hand.
        let mut busy = ready_to_spin_with(&mut driver, 0x8002, 0x1000, AddQueueFlags::empty());
        let words = [(); 2].map(|()| busy.words(&mut driver));
        busy.run(&mut driver, (KERNELS, "wait_for.kd"), &words);
        let waves = |driver: &Driver| driver.gpu.save().unwrap().waves();
        let all = WAVES as usize + 2;
        eventually("all have begun", || waves(&driver) == all);
        for _ in 0..50 {
            assert_eq!(waves(&driver), all);
        }
        // These waves only look for a word to change, which it does not meanwhile.
        let saved = driver.gpu.save().unwrap();
        let driver = driver.continued(&saved, saved.config());
        driver.set_ram_u64(spin.stop, 1);
        eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
        assert_eq!(driver.gpu.stats().waves, u64::from(WAVES));
    }
}

/// The guest goes on with a device that was saved now.
fn replace(driver: &mut Driver) {
    // Memory is copied afterwards: the device that was saved stands still.
    driver.gpu.pause();
    let saved = driver.gpu.save().unwrap();
    *driver = driver.continued(&saved, saved.config());
}

#[test]
fn waves_of_removed_queues_and_global_wave_sync_are_restored() {
    let mut driver = Driver::up();
    let exclusive = AddQueueFlags::EXCLUSIVELY_SCHEDULED;
    let mut alone = ready_to_spin_with(&mut driver, 0x8010, 0x8000, exclusive);
    let set = alone.run(&mut driver, (GRIDSYNC, "gws_admit.kd"), &[1]);
    eventually("the semaphore is set up", || driver.ram_u64(set) == 0);
    let spin = spinning(&mut driver, 0x8001, 0x800);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    replace(&mut driver);
    // By the rings that are restored.
    assert!(spin.add_again(&mut driver));
    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    let words = [(); 3].map(|()| alone.words(&mut driver));
    let admitted = alone.run(&mut driver, (GRIDSYNC, "admitted.kd"), &words);
    eventually("the semaphore admits", || driver.ram_u64(admitted) == 0);
    assert_eq!(driver.gpu.stats().errors, Default::default());
    assert_eq!(driver.gpu.stats().dispatches, 3);
}

#[test]
fn queues_that_wait_for_slots_are_restored() {
    let quantum = Duration::from_micros(100);
    let mut driver = Driver::up_with(GpuConfig { quantum, ..GpuConfig::default() });
    // Eight slots.
    let spins: Vec<_> =
        (0..12).map(|n| spinning(&mut driver, 0x8001 + n, 0x800 * (u32::from(n) + 1))).collect();
    for _ in 0..5 {
        replace(&mut driver);
    }
    for spin in &spins {
        driver.set_ram_u64(spin.stop, 1);
        eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
    assert_eq!(driver.gpu.stats().workgroups, 12);
}

#[test]
fn failure_that_the_queue_has_not_stopped_for_is_restored() {
    let mut driver = Driver::with(config());
    driver.work_on_caller();
    driver.bring_up();
    let mut spin = ready_to_spin_with(&mut driver, 0x8001, 0x800, AddQueueFlags::empty());
    let out = spin.words(&mut driver);
    let done = spin.run(&mut driver, (KERNELS, "illegal.kd"), &[out]);
    while driver.gpu.stats().ih_entries == 0 {
        driver.gpu.pass();
        while driver.gpu.turn() {}
    }
    let stopped = |driver: &Driver| driver.errors("queue stopped");
    assert_eq!(stopped(&driver), 0, "the failure is not looked at yet");
    let saved = driver.gpu.save().unwrap();
    let mut continued = driver.continued(&saved, GpuConfig { time: TimeSource::manual(), ..saved.config() });
    let ends = [&mut driver, &mut continued].map(|driver| {
        driver.gpu.pass();
        assert_eq!((stopped(driver), driver.ram_u64(done)), (1, 1));
        (driver.gpu.save().unwrap().to_bytes().unwrap(), driver.used_ram())
    });
    assert!(ends[0] == ends[1], "both stop alike");
}

thread_local! {
    /// Panics of this thread, caught or not: the shader engine survives its own.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Makes devices of snapshots that are damaged: each is refused, or is a device that works without a panic.
#[test]
fn damaged_snapshots_are_refused_or_run_without_panic() {
    let mut guest = Guest::new();
    while guest.steps < 200 {
        guest.step();
    }
    let saved = guest.driver.gpu.save().unwrap();
    assert!(saved.waves() > 0);
    let good = saved.to_bytes().unwrap();
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
    ram.write_slice(&guest.driver.used_ram(), GuestAddress(0)).unwrap();
    let mut numbers = Numbers(2);
    let mut damaged = |round: u64| {
        let mut bytes = good.clone();
        let at = numbers.next();
        // What is not memory lies at the end: most of the damage is done there.
        let range = if round % 4 == 0 { good.len() } else { 120_000.min(good.len()) } as u64;
        let at = good.len() - 1 - (at % range) as usize;
        match round % 5 {
            0 => bytes.truncate(at),
            1 => bytes[at] = 0xff,
            2 => bytes[at] = 0,
            3 => drop(bytes.splice(at..at, [0xff; 9])),
            _ => bytes[at] ^= 1 << (numbers.next() % 8),
        }
        bytes
    };
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        before(info);
    }));
    let (mut refused, mut taken) = (0, 0);
    for round in 0..300 {
        let restored = SavedGpu::from_bytes(&damaged(round)).and_then(|saved| {
            let config = GpuConfig { time: TimeSource::manual(), ..saved.config() };
            guest.driver.in_memory(ram.clone(), &saved, config)
        });
        match restored {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(driver) => {
                for _ in 0..20 {
                    driver.gpu.turn();
                    driver.gpu.pass();
                }
                taken += 1;
            }
        }
        assert_eq!(PANICS.get(), 0, "round {round}");
    }
    assert!(refused > 50 && taken > 50, "{refused} were refused, {taken} taken");
}

#[test]
fn snapshots_of_other_versions_chips_and_configurations_are_refused_by_name() {
    let driver = Driver::with(config());
    let saved = driver.gpu.save().unwrap();
    let good = saved.to_bytes().unwrap();
    let error = |bytes: &[u8]| SavedGpu::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(&[]), SnapshotError::Magic));
    assert!(matches!(error(&good[1..]), SnapshotError::Magic));
    assert!(matches!(error(&good[..good.len() - 1]), SnapshotError::Encoding(_)));
    assert!(matches!(error(&[&good[..], &[0]].concat()), SnapshotError::Trailing(1)));
    let mut other = good.clone();
    other[8] += 1;
    assert!(matches!(error(&other), SnapshotError::Version { found: 2 }));
    let chip = good.windows(7).position(|name| name == b"gfx1100").unwrap();
    other.clone_from(&good);
    other[chip + 6] = b'1';
    assert!(matches!(error(&other), SnapshotError::Chip(_)));
    let refused = |config| {
        let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
        driver.in_memory(ram, &saved, config).err().map(|error| error.to_string()).unwrap()
    };
    let config = || GpuConfig { time: TimeSource::manual(), ..saved.config() };
    assert!(refused(GpuConfig { cus: 2, ..config() }).starts_with("cus is 2, but was 4 when"));
    let seed = refused(GpuConfig { deterministic: None, ..config() });
    assert!(seed.starts_with("deterministic is none, but was 7 when"), "{seed}");
    driver.gpu.stop();
    assert!(matches!(driver.gpu.save(), Err(SnapshotError::Stopped)));
}
