//! Queues that come back from memory, or come for the first time, while pages that they need are missing
//! (XNACK).

use belfry_abi::ih::{Client, Source, node};
use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pm4::{ComputeRegister, Opcode};
use belfry_abi::regs::{Register as _, gc};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::driver::{ALL_NOT_STATIC, doorbell, list_of, map_queue};
use super::xnack::{COUNT, RETRY, Rig, page_of};
use super::{SMALL, completes};
use crate::driver::kernels::signal;
use crate::driver::{UserQueue, eventually};
use crate::pm4::{halves, packet, set};

/// Valid, of the system, and partly resident (`AMDGPU_VM_NORETRY_FLAGS_TF`).
pub(super) const REFUSED: u64 = 1 << 51 | 0b11;

/// Page that a queue needs to come back: its name, and its address by the rig and the MQD.
type Place = (&'static str, fn(&Rig, &ComputeMqd) -> u64);

const PLACES: [Place; 5] = [
    ("control stack", |_, mqd| area(mqd) + u64::from(mqd.cp_hqd_cntl_stack_offset)),
    ("waves", |_, mqd| area(mqd) + u64::from(mqd.cp_hqd_wg_state_offset) - 1),
    ("ring", |_, mqd| mqd.pq_base()),
    ("amd_queue_t", |_, mqd| mqd.pq_rptr_report_addr()),
    ("trap handler", |rig, _| (u64::from(rig.list[7]) << 32 | u64::from(rig.list[6])) << 8),
];

pub(super) fn area(mqd: &ComputeMqd) -> u64 {
    u64::from(mqd.cp_hqd_ctx_save_base_addr_hi) << 32 | u64::from(mqd.cp_hqd_ctx_save_base_addr_lo)
}

pub(super) fn saved(mqd: &ComputeMqd) -> (u32, u32) {
    (mqd.cp_hqd_cntl_stack_offset, mqd.cp_hqd_wg_state_offset)
}

impl Rig {
    /// Waits until the packet processor has reported a page. Reports by waves are kept: they may come when
    /// the waves are off already.
    pub(super) fn told_of(&mut self, va: u64) {
        let Self { hws, wanted, .. } = self;
        eventually("the page is told of", || {
            let (mine, others): (Vec<_>, Vec<_>) =
                hws.driver.drain_interrupts().into_iter().partition(|entry| page_of(entry) == va);
            wanted.extend(others.iter().map(page_of));
            for entry in &mine {
                assert_eq!((entry.client(), entry.source()), (Client::UTCL2, Source::UTCL2_FAULT));
                assert_eq!((entry.node(), entry.pasid()), (node::of_xcc(0), 0x8001));
                assert_ne!(entry.data[1] & RETRY, 0);
            }
            !mine.is_empty()
        });
    }

    /// Takes the queues off while waves wait, and removes the page of a place; returns its address and its
    /// entry.
    fn go_without(&mut self, queue: u64, place: Place) -> (u64, u64) {
        self.told(1);
        self.hws.unmap(ALL_NOT_STATIC, &[]);
        let mqd = self.hws.mqd_at(queue);
        assert!(mqd.cp_hqd_cntl_stack_offset < mqd.cp_hqd_cntl_stack_size, "waves are in the area");
        assert!(mqd.cp_hqd_wg_state_offset > mqd.cp_hqd_cntl_stack_size + 4096, "of more than a page");
        let va = place.1(self, &mqd) & !0xfff;
        (va, self.take_page(va))
    }

    /// Checks that a queue on the list that comes back without a page waits for it, on its slot and off it.
    fn waits_for(&mut self, queue: u64, (va, done): (u64, u64)) {
        let before = saved(&self.hws.mqd_at(queue));
        self.hws.run(&self.list.clone());
        self.told_of(va);
        self.hws.unmap(ALL_NOT_STATIC, &[]);
        assert_eq!(saved(&self.hws.mqd_at(queue)), before, "its waves are where they were");
        let mut other = self.hws.process(0x8002);
        let mut second = self.hws.queue(&mut other, doorbell(2, 0));
        let both = [self.list.clone(), list_of(&self.hws, &other, &[&second])].concat();
        self.hws.run(&both);
        self.told_of(va);
        completes(&mut self.hws, &mut other, &mut second);
        self.hws.driver.runner_passes();
        assert_ne!(self.hws.driver.ram_u64(done + 8), 0);
        assert_eq!(self.hws.driver.gpu.stats().errors, Default::default());
    }
}

#[test]
fn queue_waits_for_each_page_that_it_comes_back_from() {
    for place in PLACES {
        println!("{}", place.0);
        let mut rig = Rig::new(SMALL, true);
        let (target, done) = rig.begin();
        let mqd = rig.queue.mqd_memory;
        let (va, entry) = rig.go_without(mqd, place);
        rig.waits_for(mqd, (va, done));
        rig.process.set_page(&mut rig.hws.driver, va, entry);
        rig.map_until(target, done);
        let Rig { hws, process, queue, .. } = &mut rig;
        completes(hws, process, queue);
        assert_eq!(hws.driver.gpu.stats().errors, Default::default(), "{}", place.0);
    }
}

#[test]
fn snapshot_of_a_queue_that_waits_to_come_back_goes_on() {
    let mut rig = Rig::new(SMALL, true);
    let (target, done) = rig.begin();
    let (va, entry) = rig.go_without(rig.queue.mqd_memory, PLACES[1]);
    rig.hws.run(&rig.list.clone());
    rig.told_of(va);
    let saved = rig.hws.driver.gpu.save().unwrap();
    assert_eq!(saved.waves(), 0, "they are in memory");
    rig.hws.driver = rig.hws.driver.continued(&saved, saved.config());
    // The device that was restored from the snapshot reports to its driver anew.
    rig.told_of(va);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    rig.process.set_page(&mut rig.hws.driver, va, entry);
    rig.map_until(target, done);
}

#[test]
fn refused_page_of_a_context_stops_its_queue_alone() {
    let mut rig = Rig::new(SMALL, true);
    let (_, done) = rig.begin();
    let (va, _) = rig.go_without(rig.queue.mqd_memory, PLACES[1]);
    rig.hws.run(&rig.list.clone());
    rig.told_of(va);
    rig.process.set_page(&mut rig.hws.driver, va, REFUSED);
    eventually("its queue stops", || rig.hws.errors("queue stopped") == 1);
    assert_ne!(rig.hws.driver.ram_u64(done + 8), 0);
    rig.others_complete();
}

/// Makes packets of a queue PM4, and adds it to the list.
pub(super) fn pm4_queue(rig: &mut Rig) -> UserQueue {
    let queue = rig.hws.queue(&mut rig.process, doorbell(1, 1));
    let _area = rig.give_area(queue.mqd_memory);
    let mut mqd = rig.hws.mqd(&queue);
    let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
    control.set_queue_size(9);
    control.set_rptr_block_size(5);
    (mqd.cp_hqd_pq_control, mqd.cp_hqd_aql_control) = (control.bits(), 0);
    rig.hws.driver.put_ram(queue.mqd_memory, &mqd);
    rig.list.extend(map_queue(&queue, mqd.pq_wptr_poll_addr()));
    queue
}

/// Puts packets into the ring, which is empty, and rings.
fn put(rig: &Rig, queue: &UserQueue, dwords: &[u32]) {
    let driver = &rig.hws.driver;
    for (at, dword) in (queue.ring..).step_by(4).zip(dwords) {
        driver.put_ram(at, dword);
    }
    driver.set_ram_u64(queue.queue + 0x38, dwords.len() as u64);
    driver.ring(u64::from(queue.doorbell) * 4, dwords.len() as u64);
}

/// Makes a PM4 queue dispatch the kernel whose waves wait; returns the buffer whose pages they need, and the
/// signal of their end.
pub(super) fn begin_pm4(rig: &mut Rig, queue: &UserQueue) -> (u64, u64) {
    let ((memory, kernel), arguments, target) = rig.kernel();
    let mut descriptor = KernelDescriptor::new_zeroed();
    rig.hws.driver.ram.read_slice(descriptor.as_mut_bytes(), GuestAddress(memory)).unwrap();
    let (done, done_va) = signal(&mut rig.hws.driver, &mut rig.process, 0);
    let dispatch = packet(Opcode::DISPATCH_DIRECT, &[COUNT, 1, 1, 0x21]);
    put(rig, queue, &[program(&descriptor, kernel, arguments), dispatch, clear(done_va + 8)].concat());
    (target, done)
}

/// RELEASE_MEM that clears a dword.
fn clear(at: u64) -> Vec<u32> {
    let body = [&[20 | 5 << 8, 1 << 29][..], &halves(at), &[0; 3]].concat();
    packet(Opcode::RELEASE_MEM, &body)
}

/// Sets the registers for a kernel of workgroups of 256 work-items.
fn program(descriptor: &KernelDescriptor, va: u64, arguments: u64) -> Vec<u32> {
    let entry = va.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let [rsrc1, rsrc2] = [descriptor.compute_pgm_rsrc1.bits(), descriptor.compute_pgm_rsrc2.bits()];
    [
        set(ComputeRegister::PGM_LO, &halves(entry >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[rsrc1, rsrc2]),
        // COMPUTE_PGM_RSRC3 of GC 9.4.3.
        set(ComputeRegister(0x22d), &[descriptor.compute_pgm_rsrc3.bits()]),
        set(ComputeRegister::NUM_THREAD_X, &[256, 1, 1]),
        set(ComputeRegister::USER_DATA_0, &halves(arguments)),
    ]
    .concat()
}

#[test]
fn pm4_queue_waits_for_each_page_that_it_comes_back_from() {
    for place in [PLACES[0], PLACES[1], PLACES[4]] {
        println!("{}", place.0);
        let mut rig = Rig::new(SMALL, true);
        let queue = pm4_queue(&mut rig);
        rig.hws.run(&rig.list.clone());
        let (target, done) = begin_pm4(&mut rig, &queue);
        let (va, entry) = rig.go_without(queue.mqd_memory, place);
        rig.waits_for(queue.mqd_memory, (va, done));
        rig.process.set_page(&mut rig.hws.driver, va, entry);
        rig.map_until(target, done);
        assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default(), "{}", place.0);
    }
}

#[test]
fn queues_that_come_for_the_first_time_wait_for_their_rings() {
    let mut rig = Rig::new(SMALL, true);
    let pm4 = pm4_queue(&mut rig);
    rig.hws.unmap(ALL_NOT_STATIC, &[]);
    let rings = [&rig.queue, &pm4].map(|queue| rig.hws.mqd(queue).pq_base());
    let rings = rings.map(|va| (va, rig.take_page(va)));
    rig.hws.run(&rig.list.clone());
    let (done, done_va) = signal(&mut rig.hws.driver, &mut rig.process, 0);
    put(&rig, &pm4, &clear(done_va + 8));
    rig.told_of(rings[1].0);
    rig.process.set_page(&mut rig.hws.driver, rings[1].0, rings[1].1);
    eventually("the fence is written", || rig.hws.driver.ram_u64(done + 8) == 0);
    let done = super::barrier(&mut rig.hws, &mut rig.process, &mut rig.queue);
    rig.told_of(rings[0].0);
    rig.process.set_page(&mut rig.hws.driver, rings[0].0, rings[0].1);
    eventually("the barrier completes", || super::is_done(&rig.hws, done));
    assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default());
}
