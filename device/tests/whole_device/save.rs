//! A device that is saved in the middle of its work goes on elsewhere as if nothing had happened.
//!
//! The device works on the test's thread here: a step is one turn of the shader engine and one pass of the
//! scheduler, so that a point between two steps is equal in every run.

mod damaged;
pub mod guest;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use belfry_abi::mes::AddQueueFlags;
use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, SavedGpu};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::driver::kernels::{ready_to_spin_with, spinning};
use crate::driver::{Driver, RAM, eventually};
use crate::exclusive::GRIDSYNC;
use guest::{Guest, KERNELS, LOOK, config};

/// Environment variable with the folder of the snapshot, for a test that runs itself again.
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

#[test]
fn vram_that_the_host_keeps_is_taken_as_it_is() {
    let whole = Guest::new().finish();
    let mut guest = Guest::new();
    while guest.steps < LOOK - 1 {
        guest.step();
    }
    let bytes = guest.driver.gpu.save_beside(|saved| saved.to_bytes().unwrap()).unwrap();
    let saved = SavedGpu::from_bytes(&bytes).unwrap();
    assert!(saved.waves() > 0 && !saved.has_vram());
    assert!(bytes.len() < guest.driver.gpu.save().unwrap().to_bytes().unwrap().len());
    assert_eq!(guest.continued(&saved).finish(), whole, "restored with its VRAM beside it");
    assert_eq!(guest.finish(), whole, "saving changes nothing");
}

/// The part of a test that runs in another process: it continues the snapshot in the folder, and writes the
/// outcome there.
#[test]
fn snapshot_continues_in_a_fresh_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return in_a_fresh_process() };
    let folder = Path::new(&folder);
    let saved = SavedGpu::from_bytes(&std::fs::read(folder.join("device")).unwrap()).unwrap();
    let mut guest = Guest::new();
    let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
    ram.write_slice(&std::fs::read(folder.join("memory")).unwrap(), GuestAddress(0)).unwrap();
    // The continued guest has this process's knowledge of the test, and nothing of its device.
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
    // Before the guest's first look at its interrupts, which the other process's guest has not done.
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
        // Saved at any time, in any state of the threads.
        for _ in 0..20 {
            guest.driver.gpu.save().unwrap();
            // Memory is copied afterwards: the saved device stands still.
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
        // These waves only wait for a word to change; the word stays.
        let saved = driver.gpu.save().unwrap();
        let driver = driver.continued(&saved, saved.config());
        driver.set_ram_u64(spin.stop, 1);
        eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
        assert_eq!(driver.gpu.stats().waves, u64::from(WAVES));
    }
}

/// The guest goes on with a restored copy of its device.
fn replace(driver: &mut Driver) {
    // Memory is copied afterwards: the saved device stands still.
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
    // Uses the rings that are restored.
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
