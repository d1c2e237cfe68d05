//! Queues that are taken off while pages of their waves' save area are missing (XNACK): they leave when the
//! pages are there.

use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pm4::Opcode;
use belfry_abi::regs::gc;
use belfry_device::ResetKind;
use belfry_tools::inspect::Inspect as _;

use super::driver::{ALL_NOT_STATIC, Hws, doorbell, list_of, map, map_process, packet};
use super::returns::{REFUSED, area, begin_pm4, pm4_queue, saved};
use super::xnack::{COUNT, Rig, page_of};
use super::{SMALL, barrier, completes, is_done};
use crate::driver::kernels::{dispatch, signal};
use crate::driver::{Process, UserQueue, eventually};

/// A page of an area: its name, and its address by the MQD.
type Place = (&'static str, fn(&ComputeMqd) -> u64);

/// Pages of an area: the control stack's last one, the first ones of waves, and one in the middle of them.
const PLACES: [Place; 4] = [
    ("control stack", |mqd| area(mqd) + u64::from(mqd.cp_hqd_cntl_stack_size) - 4096),
    ("first wave", |mqd| area(mqd) + u64::from(mqd.cp_hqd_cntl_stack_size)),
    ("second page", |mqd| area(mqd) + u64::from(mqd.cp_hqd_cntl_stack_size) + 4096),
    ("in the middle", |mqd| area(mqd) + u64::from(mqd.cp_hqd_cntl_stack_size) + 0x1_0000),
];

/// A queue of a process without retries that stays on its slot.
struct Other {
    process: Process,
    queue: UserQueue,
    list: Vec<u32>,
}

impl Other {
    fn new(hws: &mut Hws) -> Self {
        let mut process = hws.process(0x8002);
        let queue = hws.queue(&mut process, doorbell(2, 0));
        let wptr = hws.mqd(&queue).pq_wptr_poll_addr();
        let fixed = map(1 << 4 | 2 << 21 | 1 << 29, queue.doorbell, queue.mqd, wptr);
        let list = [map_process(&process), fixed].concat();
        Self { process, queue, list }
    }

    fn completes(&mut self, hws: &mut Hws) {
        completes(hws, &mut self.process, &mut self.queue);
    }
}

impl Hws {
    /// Asks for a fence, and does not wait; returns its place and its value.
    fn ask(&mut self) -> (u64, u64) {
        let (memory, address) = self.driver.gart_alloc(8);
        let query = [2 << 30, 0, address as u32, (address >> 32) as u32, 7, 0];
        self.hiq(&packet(Opcode::QUERY_STATUS, &query));
        (memory, 7)
    }

    /// Invalidates the translations of all VMIDs, by the graphics hub's engine 17.
    pub(super) fn flush(&self) {
        let request = self.dword::<gc::GCVM_INVALIDATE_ENG0_REQ>(0) + 17;
        self.driver.write(request, 0xfff8 | 1 << 19);
    }

    fn begin_unmap(&mut self, control: u32) -> (u64, u64) {
        self.hiq(&packet(Opcode::UNMAP_QUEUES, &[control, 0, 0, 0, 0]));
        self.ask()
    }

    fn answered(&self, (memory, value): (u64, u64)) -> bool {
        self.driver.ram_u64(memory) == value
    }
}

impl Rig {
    /// Adds another queue, which is static, beside the rig's.
    fn with_other(&mut self) -> Other {
        let other = Other::new(&mut self.hws);
        let both = [self.list.clone(), other.list.clone()].concat();
        self.hws.run(&both);
        other
    }

    /// Sends a packet that takes the queue off while a page is missing: the queue stays, others go on, and
    /// the page is reported.
    fn stays_without(&mut self, memory: u64, va: u64, fence: (u64, u64), other: &mut Other) {
        let before = saved(&self.hws.mqd_at(memory));
        self.told_of(va);
        other.completes(&mut self.hws);
        self.hws.driver.runner_passes();
        assert!(!self.hws.answered(fence), "nothing is answered before the page is there");
        assert_eq!(saved(&self.hws.mqd_at(memory)), before, "it is on its slot");
        let listed = self.hws.driver.gpu.inspect().queues().unwrap();
        let states: Vec<_> = listed.iter().filter(|queue| !queue.kernel).map(|queue| queue.state).collect();
        assert!(states.contains(&"waits for pages to leave"), "{states:?}");
    }

    /// Maps the missing page: then the queue leaves.
    fn leaves_with(&mut self, memory: u64, (va, entry): (u64, u64), fence: (u64, u64)) {
        self.process.set_page(&mut self.hws.driver, va, entry);
        let hws = &self.hws;
        eventually("the queue leaves", || hws.answered(fence));
        let mqd = self.hws.mqd_at(memory);
        assert!(mqd.cp_hqd_cntl_stack_offset < mqd.cp_hqd_cntl_stack_size, "its waves are in the area");
        assert!(mqd.cp_hqd_wg_state_offset > mqd.cp_hqd_cntl_stack_size, "all of them");
    }
}

#[test]
fn queue_leaves_when_each_page_is_there_that_its_waves_are_saved_to() {
    for (name, place) in PLACES {
        println!("{name}");
        let mut rig = Rig::new(SMALL, true);
        let mut other = rig.with_other();
        let (target, done) = rig.begin();
        rig.told(4);
        let memory = rig.queue.mqd_memory;
        let va = place(&rig.hws.mqd_at(memory));
        let entry = rig.take_page(va);
        let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
        rig.stays_without(memory, va, fence, &mut other);
        rig.leaves_with(memory, (va, entry), fence);
        assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default(), "{name}");
        assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
        let both = [rig.list.clone(), other.list.clone()].concat();
        rig.hws.run(&both);
        rig.map_until(target, done);
        let Rig { hws, process, queue, .. } = &mut rig;
        completes(hws, process, queue);
        assert_eq!(hws.driver.gpu.stats().errors, Default::default(), "{name}");
    }
}

#[test]
fn run_list_waits_for_the_queues_of_the_list_before() {
    let mut rig = Rig::new(SMALL, true);
    let mut other = rig.with_other();
    let (target, done) = rig.begin();
    rig.told(4);
    let memory = rig.queue.mqd_memory;
    let va = PLACES[1].1(&rig.hws.mqd_at(memory));
    let entry = rig.take_page(va);
    let both = [rig.list.clone(), other.list.clone()].concat();
    let mapped = rig.hws.driver.gpu.stats().queues_mapped;
    rig.hws.run_list(&both);
    let fence = rig.hws.ask();
    rig.stays_without(memory, va, fence, &mut other);
    assert_eq!(rig.hws.driver.gpu.stats().queues_mapped, mapped);
    rig.process.set_page(&mut rig.hws.driver, va, entry);
    eventually("the list runs", || rig.hws.answered(fence));
    rig.map_until(target, done);
    assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn pm4_queue_leaves_when_each_page_is_there_that_its_waves_are_saved_to() {
    for (name, place) in PLACES {
        println!("{name}");
        let mut rig = Rig::new(SMALL, true);
        let queue = pm4_queue(&mut rig);
        let mut other = rig.with_other();
        let (target, done) = begin_pm4(&mut rig, &queue);
        rig.told(4);
        let memory = queue.mqd_memory;
        let va = place(&rig.hws.mqd_at(memory));
        let entry = rig.take_page(va);
        let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
        rig.stays_without(memory, va, fence, &mut other);
        rig.leaves_with(memory, (va, entry), fence);
        let both = [rig.list.clone(), other.list.clone()].concat();
        rig.hws.run(&both);
        rig.map_until(target, done);
        assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default(), "{name}");
    }
}

/// A page that goes and comes while waves are saved: waves that were saved without it begin anew.
#[test]
fn queue_leaves_over_a_page_that_comes_and_goes() {
    let mut rig = Rig::new(SMALL, true);
    let (target, done) = rig.begin();
    rig.told(4);
    let memory = rig.queue.mqd_memory;
    for round in 0..20 {
        for (_, place) in PLACES {
            let va = place(&rig.hws.mqd_at(memory));
            let entry = rig.take_page(va);
            let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
            rig.told_of(va);
            let Rig { hws, process, .. } = &mut rig;
            for _ in 0..8 {
                process.set_page(&mut hws.driver, va, entry);
                std::thread::sleep(std::time::Duration::from_micros(round * 20));
                process.set_page(&mut hws.driver, va, 0);
                hws.flush();
            }
            process.set_page(&mut hws.driver, va, entry);
            eventually("the queue leaves", || hws.answered(fence));
            let told = hws.driver.drain_interrupts();
            rig.wanted.extend(told.iter().map(page_of).filter(|page| *page != va));
            let list = rig.list.clone();
            rig.hws.run(&list);
        }
    }
    rig.map_until(target, done);
    assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn refused_page_of_an_area_loses_the_waves_and_lets_the_queue_leave() {
    let mut rig = Rig::new(SMALL, true);
    let mut other = rig.with_other();
    let (_, done) = rig.begin();
    rig.told(4);
    let memory = rig.queue.mqd_memory;
    let va = PLACES[2].1(&rig.hws.mqd_at(memory));
    rig.take_page(va);
    let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
    rig.stays_without(memory, va, fence, &mut other);
    rig.process.set_page(&mut rig.hws.driver, va, REFUSED);
    eventually("the queue leaves", || rig.hws.answered(fence));
    assert_eq!(rig.hws.errors("context of a preempted queue not saved"), 1);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    other.completes(&mut rig.hws);
    rig.others_complete();
}

#[test]
fn device_is_reset_under_a_queue_that_waits_to_leave() {
    let mut rig = Rig::new(SMALL, true);
    rig.begin();
    rig.told(4);
    let va = PLACES[1].1(&rig.hws.mqd_at(rig.queue.mqd_memory));
    rig.take_page(va);
    let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
    rig.told_of(va);
    rig.hws.driver.gpu.reset(ResetKind::Flr);
    assert!(!rig.hws.answered(fence));
    rig.hws.kiqs.clear();
    rig.hws.bring_up();
    rig.others_complete();
}

#[test]
fn snapshot_of_a_queue_that_waits_to_leave_goes_on() {
    // Before the area has contents, and when waves are in it.
    for (name, place) in PLACES {
        println!("{name}");
        let mut rig = Rig::new(SMALL, true);
        let (target, done) = rig.begin();
        rig.told(4);
        let memory = rig.queue.mqd_memory;
        let va = place(&rig.hws.mqd_at(memory));
        let entry = rig.take_page(va);
        let fence = rig.hws.begin_unmap(ALL_NOT_STATIC);
        rig.told_of(va);
        rig.hws.driver.runner_passes();
        let saved = rig.hws.driver.gpu.save().unwrap();
        rig.hws.driver = rig.hws.driver.continued(&saved, saved.config());
        // The device that was restored from the snapshot reports to its driver anew.
        rig.told_of(va);
        assert!(!rig.hws.answered(fence));
        rig.leaves_with(memory, (va, entry), fence);
        let list = rig.list.clone();
        rig.hws.run(&list);
        rig.map_until(target, done);
        assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default(), "{name}");
    }
}

/// One hardware queue for two queues: the other one's turn comes when the pages are there.
#[test]
fn queue_whose_time_is_over_gives_its_place_up_when_its_pages_are_there() {
    let mut rig = Rig::new(SMALL, true);
    rig.hws.unmap(ALL_NOT_STATIC, &[]);
    rig.hws.resources(0b11 << 5, 1);
    let mut process = rig.hws.process(0x8002);
    let mut queue = rig.hws.queue(&mut process, doorbell(2, 0));
    let both = [rig.list.clone(), list_of(&rig.hws, &process, &[&queue])].concat();
    rig.hws.run(&both);
    completes(&mut rig.hws, &mut process, &mut queue);
    // The interrupt comes after the signal.
    eventually("the interrupt of that arrives", || !rig.hws.driver.drain_interrupts().is_empty());
    let (target, done) = rig.begin();
    rig.told(4);
    let va = PLACES[1].1(&rig.hws.mqd_at(rig.queue.mqd_memory));
    let entry = rig.take_page(va);
    let waits = barrier(&mut rig.hws, &mut process, &mut queue);
    rig.told_of(va);
    rig.hws.driver.runner_passes();
    assert!(!is_done(&rig.hws, waits), "there is no place");
    rig.process.set_page(&mut rig.hws.driver, va, entry);
    eventually("the other has its turn", || is_done(&rig.hws, waits));
    rig.map_until(target, done);
    assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default());
}

/// A store that waits for a page in some lanes, and is done in the others, does not keep the queue: its rest
/// goes along.
#[test]
fn store_that_is_partly_done_goes_along() {
    let mut rig = Rig::new(SMALL, true);
    let ((_, kernel), arguments, target) = rig.kernel_at(128);
    let Rig { hws, process, queue, .. } = &mut rig;
    let (done, done_va) = signal(&mut hws.driver, process, 0);
    let first = target & !0xfff;
    let memory = hws.driver.alloc_ram(u64::from(COUNT) * 4 + 4096);
    // Half of a wave's lanes store to each of these pages and to the next.
    for page in [0, 2, 4] {
        process.map_page(&mut hws.driver, first + page * 4096, memory + page * 4096);
    }
    queue.put(&hws.driver, &dispatch(kernel, arguments, COUNT, 256, done_va));
    rig.told(4);
    let Rig { hws, process, list, .. } = &mut rig;
    for _ in 0..3 {
        hws.driver.runner_passes();
        hws.unmap(ALL_NOT_STATIC, &[]);
        assert_eq!(hws.driver.gpu.stats().errors, Default::default());
        hws.run(list);
    }
    for page in [1, 3] {
        process.map_page(&mut hws.driver, first + page * 4096, memory + page * 4096);
    }
    eventually("the kernel is done", || hws.driver.ram_u64(done + 8) == 0);
    for i in 0..COUNT {
        let sum = f32::from_bits(hws.driver.ram_u32(memory + 128 + u64::from(i) * 4));
        assert!((sum - i as f32 * 3.0).abs() < f32::EPSILON, "element {i} is {sum}");
    }
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}
