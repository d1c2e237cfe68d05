//! Queues that are scheduled exclusively, as KFD asks for queues with the global wave sync: each is alone on
//! the hardware in its turn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use belfry_abi::mes::AddQueueFlags;
use belfry_device::GpuConfig;
use belfry_device::trace::{Kind, Record, TraceSink};

use crate::driver::kernels::{Spinning, ready_to_spin_with};
use crate::driver::{Driver, eventually};

pub static GRIDSYNC: &[u8] = include_bytes!("../../../guest-runtime/kernels/gridsync.gfx1100.hsaco");

/// The first doorbell of exclusive queues; others have lower ones.
const EXCLUSIVE: u32 = 0x1_0000;

/// Queues on slots, and true if an exclusive one ever was beside another.
#[derive(Debug, Default)]
struct Slots {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    on: BTreeSet<u32>,
    /// Number of times that an exclusive queue, and that another one, was put on a slot.
    turns: [u64; 2],
    beside: Vec<BTreeSet<u32>>,
}

impl TraceSink for Slots {
    fn record(&self, record: &Record) {
        let Some(doorbell) = record.owner.doorbell else { return };
        let mut state = self.state.lock().unwrap();
        match record.kind {
            Kind::QueueMapped => {
                assert!(state.on.insert(doorbell));
                state.turns[usize::from(doorbell < EXCLUSIVE)] += 1;
                if state.on.len() > 1 && state.on.iter().any(|&on| on >= EXCLUSIVE) {
                    let on = state.on.clone();
                    state.beside.push(on);
                }
            }
            Kind::QueueUnmapped => assert!(state.on.remove(&doorbell)),
            _ => {}
        }
    }
}

impl Slots {
    fn turns(&self) -> [u64; 2] {
        self.state.lock().unwrap().turns
    }

    #[track_caller]
    fn check(&self) {
        let state = self.state.lock().unwrap();
        assert!(state.beside.is_empty(), "on slots at the same time: {:x?}", state.beside);
    }
}

fn up() -> (Driver, Arc<Slots>) {
    let slots = Arc::new(Slots::default());
    let trace = Some(Arc::clone(&slots) as Arc<dyn TraceSink>);
    (Driver::up_with(GpuConfig { trace, ..GpuConfig::default() }), slots)
}

/// A kernel that spins when it is started, on a queue of its own.
fn ready(driver: &mut Driver, pasid: u16, is_exclusive: bool) -> Spinning {
    let doorbell = 0x800 * u32::from(pasid & 0xff) + if is_exclusive { EXCLUSIVE } else { 0 };
    let mut flags = AddQueueFlags::empty();
    flags.set(AddQueueFlags::EXCLUSIVELY_SCHEDULED, is_exclusive);
    ready_to_spin_with(driver, pasid, doorbell, flags)
}

fn ends(driver: &Driver, spin: &Spinning) {
    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
}

#[test]
fn exclusive_queue_is_alone_and_takes_turns_with_others() {
    let (mut driver, slots) = up();
    let mut others: Vec<_> = (1..4).map(|pasid| ready(&mut driver, 0x8000 + pasid, false)).collect();
    others.iter_mut().for_each(|other| other.start(&driver));
    let mut alone = ready(&mut driver, 0x8010, true);
    // None of the others ends: the exclusive queue has its turn all the same, and they have theirs.
    alone.start(&driver);
    let [before, _] = slots.turns();
    eventually("turns", || slots.turns()[0] > before + 3);
    for other in &others {
        ends(&driver, other);
    }
    ends(&driver, &alone);
    slots.check();
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn exclusive_queue_without_work_keeps_nobody_off() {
    let (mut driver, slots) = up();
    let mut alone = ready(&mut driver, 0x8010, true);
    alone.start(&driver);
    ends(&driver, &alone);
    let mut other = ready(&mut driver, 0x8001, false);
    other.start(&driver);
    // From here on the slot is the other queue's: the scheduler does not take it off for a queue without
    // work.
    let turns = slots.turns();
    driver.runner_passes();
    assert_eq!(slots.turns(), turns);
    ends(&driver, &other);
    slots.check();
}

#[test]
fn global_wave_sync_stays_as_it_is_while_its_queue_is_off() {
    let (mut driver, slots) = up();
    let mut alone = ready(&mut driver, 0x8010, true);
    let set = alone.run(&mut driver, (GRIDSYNC, "gws_admit.kd"), &[1]);
    eventually("the semaphore is set up", || driver.ram_u64(set) == 0);
    let mut other = ready(&mut driver, 0x8001, false);
    other.start(&driver);
    ends(&driver, &other);
    assert_eq!(slots.turns(), [1, 1], "another queue has been on the hardware since");
    let words = [(); 3].map(|()| alone.words(&mut driver));
    let admitted = alone.run(&mut driver, (GRIDSYNC, "admitted.kd"), &words);
    eventually("the semaphore admits", || driver.ram_u64(admitted) == 0);
    slots.check();
}

#[test]
fn exclusive_queues_of_several_processes_are_alone_in_turn() {
    let (mut driver, slots) = up();
    let mut spins: Vec<_> = (1..4).map(|pasid| ready(&mut driver, 0x8000 + pasid, true)).collect();
    spins.push(ready(&mut driver, 0x8010, false));
    spins.iter_mut().for_each(|spin| spin.start(&driver));
    for spin in &spins {
        ends(&driver, spin);
    }
    slots.check();
}

#[test]
fn exclusive_queue_is_not_overtaken_by_queues_that_come_later() {
    let (mut driver, slots) = up();
    let mut first = ready(&mut driver, 0x8001, false);
    first.start(&driver);
    let mut alone = ready(&mut driver, 0x8010, true);
    alone.start(&driver);
    let mut spins = vec![first];
    for pasid in 2..10 {
        let [before, _] = slots.turns();
        let mut spin = ready(&mut driver, 0x8000 + pasid, false);
        spin.start(&driver);
        spins.push(spin);
        eventually("the exclusive queue's next turn", || slots.turns()[0] > before);
    }
    ends(&driver, &alone);
    // An exclusive queue that is removed while it waits or runs does not hold up other queues either.
    assert!(driver.remove(alone.queue.doorbell, alone.queue.gang));
    for spin in &spins {
        ends(&driver, spin);
    }
    slots.check();
}
