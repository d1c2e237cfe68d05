//! Queues whose descriptors in memory hold anything: refused as the header says, or run without harm to the next queue.

#![no_main]

use arbitrary::Arbitrary;
use belfry_abi::mes::Opcode;
use belfry_abi::mqd::{ComputeMqd, HEADER};
use belfry_fuzz::change::Change;
use belfry_fuzz::chips::On;
use belfry_fuzz::driver::{Driver, QUEUES};
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;
use zerocopy::IntoBytes as _;

/// Dwords of an MQD that a queue is saved to: its registers, and where its waves are.
const REGISTERS: std::ops::Range<usize> = 128..184;
/// Turns at waves.
const TURNS: usize = 64;

#[derive(Arbitrary, Debug)]
struct Input {
    queues: Vec<Queue>,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Queue {
    mqd: Vec<Change>,
    registers: Vec<Change>,
    amd_queue: Vec<Change>,
    frame: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Barrier(u8),
    Vecadd(u8),
    /// The MQD changes under a queue that is there already.
    Mqd(u8, Change),
    AmdQueue(u8, Change),
    Ring(u8, u64),
    Remove(u8),
    Add(u8),
    Settle(u8),
}

fuzz_target!(|on: On<Input>| {
    let On { chip, input } = on;
    RIG.choose(chip);
    let mut driver = Driver::new(&RIG);
    let count = input.queues.len().min(QUEUES - 1);
    // What the frames say of the process must agree: once one says otherwise, others are refused for that.
    let mut agreed = true;
    for (nth, queue) in input.queues.iter().enumerate().take(count) {
        agreed &= queue.frame.is_empty();
        add(&mut driver, nth, queue, agreed);
    }
    for step in input.steps.iter().take(32).filter(|_| count > 0) {
        run(&mut driver, step, count);
    }
    for nth in 0..count {
        remove(&mut driver, nth);
    }
    // Those that were added under another doorbell.
    for doorbell in driver.listening() {
        assert!(driver.remove_doorbell(doorbell), "doorbell {doorbell:#x} can be removed");
    }
    RIG.check();
    // Nothing any of them has done is in the way of another queue of the process.
    assert!(driver.mes_works() && driver.kiq_works(), "the kernel's rings go on");
    assert!(driver.add_queue(QUEUES - 1), "a queue can be added");
    driver.verify(QUEUES - 1);
    assert!(driver.remove_queue(QUEUES - 1), "and removed");
});

fn add(driver: &mut Driver<'_>, nth: usize, queue: &Queue, same: bool) {
    driver.prepare_queue(nth);
    let [_, amd_queue, at] = driver.queue(nth);
    let mut mqd = driver.mqd(nth);
    queue.mqd.iter().take(8).for_each(|change| _ = change.apply(mqd.as_mut_bytes()));
    let registers = &mut mqd.as_mut_bytes()[REGISTERS.start * 4..REGISTERS.end * 4];
    queue.registers.iter().take(8).for_each(|change| _ = change.apply(registers));
    driver.rig.put(at, &mqd);
    let mut bytes: [u8; 256] = driver.rig.take(amd_queue);
    queue.amd_queue.iter().take(8).for_each(|change| _ = change.apply(&mut bytes));
    driver.rig.put(amd_queue, &bytes);
    let added = ask(driver, nth, &queue.frame);
    if RIG.choice.has_run_lists() {
        // The others are refused one by one; with several XCCs, where their MQDs are is a field of the first.
        let one = RIG.choice.shape.xccs == 1;
        assert!(!added || !same || possible(&mqd), "a queue with an impossible MQD");
        assert!(added || !same || !one || !possible(&mqd), "a queue with a possible MQD is added");
        return;
    }
    assert!(!added || !same || possible(&mqd), "a queue with an impossible MQD");
    assert!(added || !same || !possible(&mqd), "a queue with a possible MQD is added");
}

/// Asks for a queue, by a frame or a packet with changes. Returns true if there is one.
fn ask(driver: &mut Driver<'_>, nth: usize, changes: &[Change]) -> bool {
    // Not its first dword, which is the kind of frame or packet.
    if RIG.choice.has_run_lists() {
        let mut packet = driver.map_queue(nth);
        changes.iter().take(4).for_each(|change| _ = change.apply(packet[1..].as_mut_bytes()));
        return driver.add_listed(nth, &packet);
    }
    let mut frame = driver.add_frame(nth);
    changes.iter().take(4).for_each(|change| _ = change.apply(&mut frame.as_mut_bytes()[4..]));
    driver.mes(&frame, Opcode::ADD_QUEUE)
}

/// Conditions that a scheduler checks before it takes a queue.
fn possible(mqd: &ComputeMqd) -> bool {
    let control = mqd.cp_hqd_pq_control;
    let (size, slot_based) = (control & 0x3f, control >> 18 & 3);
    let base = u64::from(mqd.cp_hqd_pq_base_hi) << 32 | u64::from(mqd.cp_hqd_pq_base_lo);
    let aql = mqd.cp_hqd_aql_control & 0x7fff != 0 || slot_based != 0;
    mqd.header == HEADER && base << 8 != 0 && (3..31).contains(&size) && aql
}

fn run(driver: &mut Driver<'_>, step: &Step, count: usize) {
    let queue = |nth: u8| usize::from(nth) % count;
    match *step {
        Step::Barrier(nth) => driver.packet(queue(nth), &Driver::barrier(0)),
        Step::Vecadd(nth) => {
            let packet = driver.vecadd(40, 0);
            driver.packet(queue(nth), packet.as_bytes().first_chunk().expect("64 bytes"));
        }
        Step::Mqd(nth, change) => {
            let [_, _, at] = driver.queue(queue(nth));
            let mut mqd: ComputeMqd = driver.rig.take(at);
            change.apply(mqd.as_mut_bytes());
            driver.rig.put(at, &mqd);
        }
        Step::AmdQueue(nth, change) => {
            let [_, at, _] = driver.queue(queue(nth));
            let mut bytes: [u8; 256] = driver.rig.take(at);
            change.apply(&mut bytes);
            driver.rig.put(at, &bytes);
        }
        Step::Ring(nth, value) => driver.rig.ring(Driver::doorbell(queue(nth)).offset().bytes(), value),
        Step::Remove(nth) => remove(driver, queue(nth)),
        Step::Add(nth) => _ = driver.add_prepared(queue(nth)),
        Step::Settle(turns) => _ = driver.rig.settle(usize::from(turns) % TURNS),
    }
}

/// Removes a queue: the state that this saves stays within the area that an MQD has for it.
fn remove(driver: &mut Driver<'_>, nth: usize) {
    let [_, _, at] = driver.queue(nth);
    let before: [u32; 512] = driver.rig.take(at);
    driver.remove_queue(nth);
    let after: [u32; 512] = driver.rig.take(at);
    // Counters of the global wave sync.
    let gws = RIG.choice.model.generation.mqd.gws;
    for dword in 0..512 {
        let saved = REGISTERS.contains(&dword) || (gws..gws + 64).contains(&dword);
        assert!(saved || before[dword] == after[dword], "dword {dword} of the MQD was written");
    }
}
