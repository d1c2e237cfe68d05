//! The sanitizer's rules for drivers and runtimes: each is broken once and reported as exactly that, and nothing is
//! reported of a driver that keeps them.

use std::sync::Arc;

use belfry_abi::aql::{BarrierPacket, PacketHeader, PacketType};
use belfry_abi::mes::{Header, Opcode, QueryStatus};
use belfry_device::faults::{Hook, Plan};
use belfry_device::sanitize::{Misuse, Rule, SanitizeOptions, SanitizeReport, Sanitizer};
use belfry_device::{GpuConfig, ResetKind};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::kernels::{Spinning, ready_to_spin, signal, spinning};
use crate::driver::{Driver, IH_ENTRIES, Process, UserQueue, eventually};

/// The doorbell of the queue, in dwords.
const DOORBELL: u32 = 0x800;

/// A device that is checked, with a process and its queue.
struct Checked {
    sanitizer: Arc<Sanitizer>,
    driver: Driver,
    process: Process,
    queue: UserQueue,
}

fn checked_driver() -> (Arc<Sanitizer>, Driver) {
    checked_with(Plan::default())
}

/// A driver with a plan of faults, and the sanitizer that checks it.
fn checked_with(faults: Plan) -> (Arc<Sanitizer>, Driver) {
    // The last one has another device, which works on a copy of memory; it has tests of its own.
    let is_wanted = |rule: &Rule| !rule.is_for_kernels() && *rule != Rule::HdpNotFlushed;
    let rules = Rule::ALL.into_iter().filter(is_wanted).collect();
    let sanitizer = Arc::new(Sanitizer::new(SanitizeOptions { rules, ..SanitizeOptions::default() }));
    let config = GpuConfig { sanitizer: Some(Arc::clone(&sanitizer)), faults, ..GpuConfig::default() };
    (sanitizer, Driver::up_with(config))
}

impl Checked {
    fn new() -> Self {
        let (sanitizer, driver) = checked_driver();
        Self::on(driver, sanitizer)
    }

    fn on(mut driver: Driver, sanitizer: Arc<Sanitizer>) -> Self {
        let mut process = Process::new(&mut driver, 0x8001);
        let queue = UserQueue::new(&mut driver, &mut process, DOORBELL);
        assert!(queue.add(&mut driver, &process));
        Self { sanitizer, driver, process, queue }
    }

    /// A signal of this value, without a mailbox: memory, address.
    fn signal(&mut self, value: u64) -> (u64, u64) {
        let (memory, va) = self.process.alloc(&mut self.driver, 4096);
        self.driver.set_ram_u64(memory, 1);
        self.driver.set_ram_u64(memory + 8, value);
        (memory, va)
    }

    /// Puts a packet that waits for one signal and decrements another.
    fn put(&mut self, depends: u64, completion: u64) {
        let packet = barrier(depends, completion);
        self.queue.put(&self.driver, &packet);
    }

    fn ring(&self, value: u64) {
        self.driver.ring(u64::from(DOORBELL) * 4, value);
    }

    /// Sets the write index without writing packets.
    fn reserve(&self, index: u64) {
        self.driver.set_ram_u64(self.queue.queue + 0x38, index);
    }

    fn processed(&self, packets: u64) {
        eventually("packets are retired", || self.queue.read_index(&self.driver) == packets);
    }

    fn remove(&mut self) {
        assert!(self.driver.remove(DOORBELL, self.queue.gang));
    }

    /// The only misuse, which is of this rule.
    #[track_caller]
    fn only(&self, rule: Rule) -> Misuse {
        let mut report = SanitizeReport::default();
        eventually("a misuse is told of", || {
            report = self.sanitizer.report();
            !report.misuses.is_empty()
        });
        let told: Vec<String> = report.misuses.iter().map(ToString::to_string).collect();
        let [misuse] = <[Misuse; 1]>::try_from(report.misuses).unwrap_or_else(|_| panic!("{told:#?}"));
        assert_eq!((misuse.rule, misuse.count), (rule, 1), "{told:#?}");
        assert!(report.findings.is_empty());
        misuse
    }

    /// The only misuse, which is of this rule and of the queue.
    #[track_caller]
    fn only_of_queue(&self, rule: Rule, packet: u64, found: &str) {
        let misuse = self.only(rule);
        assert_eq!((misuse.process, misuse.doorbell), (Some(0x8001), Some(DOORBELL)), "{misuse}");
        assert_eq!((misuse.packet, &*misuse.found), (Some(packet), found), "{misuse}");
        assert!(misuse.time > 0, "{misuse}");
    }
}

fn barrier(depends: u64, completion: u64) -> BarrierPacket {
    let mut packet = BarrierPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::BARRIER_AND, true, 2, 2).bits();
    packet.dep_signal[0] = depends;
    packet.completion_signal = completion;
    packet
}

#[test]
fn nothing_is_told_of_a_driver_that_keeps_the_rules() {
    let mut checked = Checked::new();
    for round in 1..=100 {
        let (done, done_va) = checked.signal(1);
        checked.put(0, done_va);
        checked.processed(round);
        assert_eq!(checked.driver.ram_u64(done + 8), 0);
    }
    checked.remove();
    assert!(checked.queue.add(&mut checked.driver, &checked.process));
    checked.remove();
    let (sanitizer, mut driver) = checked_driver();
    let spin = spinning(&mut driver, 0x8001, DOORBELL);
    finish(&driver, &spin);
    for checked in [&checked.sanitizer, &sanitizer] {
        let report = checked.report();
        assert!(report.is_clean(), "{report:#?}");
    }
}

#[test]
fn a_packet_waits_for_a_signal_that_nothing_has_written() {
    let rules = [Rule::MemoryUninitialized].into_iter().collect();
    let sanitizer = Arc::new(Sanitizer::new(SanitizeOptions { rules, ..SanitizeOptions::default() }));
    let config = GpuConfig { sanitizer: Some(Arc::clone(&sanitizer)), ..GpuConfig::default() };
    let mut checked = Checked::on(Driver::up_with(config), sanitizer);
    let ((done, done_va), (unwritten, unwritten_va)) = (checked.signal(1), checked.signal(0));
    let mut marks = [0; 64];
    Sanitizer::mark(unwritten_va, &mut marks);
    for (at, word) in (unwritten..).step_by(8).zip(marks.as_chunks().0) {
        checked.driver.set_ram_u64(at, u64::from_le_bytes(*word));
    }
    checked.put(unwritten_va, done_va);
    checked.only_of_queue(
        Rule::MemoryUninitialized,
        0,
        "nothing has written a signal that a barrier waits for",
    );
    // The packet is reported once, however long it waits.
    checked.ring(0);
    checked.driver.set_ram_u64(unwritten + 8, 0);
    checked.processed(1);
    assert_eq!(checked.driver.ram_u64(done + 8), 0);
    assert_eq!(checked.only(Rule::MemoryUninitialized).address, Some(unwritten_va));
}

#[test]
fn a_doorbell_is_rung_before_the_packet_is_there() {
    let checked = Checked::new();
    checked.reserve(1);
    checked.ring(0);
    checked.only_of_queue(Rule::DoorbellBeforePacket, 0, "the packet's header is INVALID");
}

#[test]
fn a_doorbell_is_rung_for_a_packet_that_nobody_has_reserved() {
    let checked = Checked::new();
    checked.ring(5);
    checked.only_of_queue(Rule::DoorbellBeyondWriteIndex, 5, "the write index is 0");
}

#[test]
fn a_doorbell_is_rung_for_a_packet_over_another() {
    let checked = Checked::new();
    checked.reserve(100);
    checked.ring(99);
    checked.only_of_queue(Rule::RingOverrun, 99, "the read index is 0, and the ring has 64 packets");
}

#[test]
fn a_packet_is_changed_behind_its_doorbell() {
    let mut checked = Checked::new();
    let (gate, gate_va) = checked.signal(1);
    let (_, done_va) = checked.signal(3);
    checked.put(gate_va, done_va);
    checked.put(0, done_va);
    // Both rings have been heard before the packet changes.
    checked.driver.runner_passes();
    let second = checked.queue.ring + 64;
    checked.driver.put_ram(second + 8, &gate_va);
    checked.driver.set_ram_u64(gate + 8, 0);
    checked.processed(2);
    checked.only_of_queue(
        Rule::PacketChanged,
        1,
        &format!("dword 2 is {:#x}, and was 0x0 at the doorbell", gate_va as u32),
    );
}

/// Has a kernel end that spins.
fn finish(driver: &Driver, spin: &Spinning) {
    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
}

/// A kernel spins, `change` is called, and the kernel is told to stop.
fn while_a_kernel_runs(rule: Rule, change: impl FnOnce(&Driver, &Spinning), found: &str) {
    let (sanitizer, mut driver) = checked_driver();
    let mut spin = ready_to_spin(&mut driver, 0x8001, DOORBELL);
    // There is one wave, so that none begins after the change.
    (spin.packet.workgroup_size_x, spin.packet.grid_size_x) = (32, 32);
    spin.start(&driver);
    change(&driver, &spin);
    finish(&driver, &spin);
    let report = sanitizer.report();
    let told: Vec<String> = report.misuses.iter().map(ToString::to_string).collect();
    assert!(told.len() == 1 && report.misuses[0].rule == rule, "{told:#?}");
    assert!(report.misuses[0].found.starts_with(found), "{told:#?}");
    assert_eq!(report.misuses[0].packet, Some(0), "{told:#?}");
}

#[test]
fn arguments_are_changed_under_a_kernel() {
    let change = |driver: &Driver, spin: &Spinning| {
        // The kernel reads its arguments once, before it says that it runs.
        let at = spin.kernarg + 4;
        let byte: u8 = driver.ram.read_obj(GuestAddress(at)).unwrap();
        driver.put_ram(at, &(byte ^ 0xff));
    };
    while_a_kernel_runs(Rule::KernargChanged, change, "argument byte 0x4 is ");
}

#[test]
fn a_descriptor_is_changed_under_a_kernel() {
    let change = |driver: &Driver, spin: &Spinning| {
        // `group_segment_fixed_size`, which nothing reads any more.
        driver.put_ram(spin.descriptor, &77u8);
    };
    while_a_kernel_runs(Rule::CodeChanged, change, "descriptor byte 0x0 is 0x4d, and was ");
}

#[test]
fn a_signal_is_decremented_below_zero() {
    let mut checked = Checked::new();
    let (_, done_va) = checked.signal(0);
    checked.put(0, done_va);
    let misuse = checked.only(Rule::SignalBelowZero);
    assert_eq!((misuse.address, &*misuse.found), (Some(done_va), "the signal was 0"), "{misuse}");
}

#[test]
fn an_mqd_is_changed_while_its_queue_is_mapped() {
    let mut checked = Checked::new();
    checked.driver.put_ram(checked.queue.mqd_memory + 300 * 4, &0x1234u32);
    checked.remove();
    let misuse = checked.only(Rule::MqdChanged);
    assert_eq!(misuse.found, "dword 300 is 0x1234, and was 0x0");
    assert_eq!((misuse.doorbell, misuse.address), (Some(DOORBELL), Some(checked.queue.mqd + 1200)));
}

#[test]
fn a_queue_is_removed_with_packets_left() {
    let mut checked = Checked::new();
    let (gate, gate_va) = checked.signal(1);
    checked.put(gate_va, 0);
    checked.put(0, 0);
    checked.remove();
    checked.only_of_queue(Rule::QueueRemovedBusy, 0, "2 of its ring are left");
    // It comes back: it was not removed for good.
    assert!(checked.queue.add(&mut checked.driver, &checked.process));
    checked.driver.set_ram_u64(gate + 8, 0);
    checked.processed(2);
    checked.remove();
    assert!(checked.sanitizer.report().is_clean());
}

#[test]
fn a_page_is_mapped_to_something_else_without_an_invalidation() {
    let mut checked = Checked::new();
    let (first, va) = checked.signal(2);
    checked.put(0, va);
    checked.processed(1);
    let other = checked.driver.alloc_ram(4096);
    checked.driver.set_ram_u64(other, 1);
    checked.driver.set_ram_u64(other + 8, 2);
    checked.process.map_page(&mut checked.driver, va, other);
    checked.put(0, va);
    checked.processed(2);
    let misuse = checked.only(Rule::StaleTranslation);
    let found =
        format!("the page was at system memory {first:#x} (rwx), and is at system memory {other:#x} (rwx)");
    assert_eq!(misuse.found, found);
    // With an invalidation it is right.
    checked.process.map_page(&mut checked.driver, va, first);
    checked.driver.flush_by_register(1 << 8);
    checked.put(0, va);
    checked.processed(3);
    checked.only(Rule::StaleTranslation);
}

#[test]
fn interrupts_do_not_fit_into_the_ring() {
    let mut checked = Checked::new();
    for round in 1..=u64::from(IH_ENTRIES) {
        let (_, done_va) = signal(&mut checked.driver, &mut checked.process, 42);
        checked.put(0, done_va);
        checked.processed(round);
    }
    let misuse = checked.only(Rule::InterruptLost);
    assert!(misuse.found.contains("the interrupt ring is full"), "{misuse}");
}

#[test]
fn a_doorbell_is_rung_that_no_queue_has() {
    let checked = Checked::new();
    checked.driver.ring(u64::from(DOORBELL + 2) * 4, 0);
    checked.only(Rule::DoorbellOfNobody);
}

#[test]
fn the_scheduler_refuses_something() {
    let mut checked = Checked::new();
    assert!(!checked.driver.remove(DOORBELL + 2, checked.queue.gang));
    let misuse = checked.only(Rule::Refused);
    assert_eq!(misuse.subject, "REMOVE_QUEUE of a queue that does not exist");
    // A suppression leaves it out.
    let mut report = checked.sanitizer.report();
    report.suppress(&["refused:REMOVE_QUEUE*".parse().unwrap()]);
    assert!(report.is_clean());
}

#[test]
fn a_frame_is_written_again_before_it_is_taken() {
    let (_, driver) = checked_with(Plan::counting());
    let frames = driver.gpu.faults().report().met[&Hook::Frame];
    // It is held back, so that it lies there for a while.
    let plan = format!("frame-late@{},for:100ms", frames + 1);
    let (sanitizer, mut driver) = checked_with(plan.parse().unwrap());
    let mut query = QueryStatus::new_zeroed();
    query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
    driver.mes_bytes(query.as_bytes().try_into().unwrap());
    eventually("the frame is held back", || !driver.gpu.faults().report().strikes.is_empty());
    driver.change_last_frame(40, 0x17);
    eventually("the frame is taken", || !sanitizer.report().is_clean());
    let report = sanitizer.report();
    let told: Vec<String> = report.misuses.iter().map(ToString::to_string).collect();
    assert!(told.len() == 1 && report.misuses[0].rule == Rule::MesFrameReused, "{told:#?}");
    assert_eq!(report.misuses[0].found, "dword 40 is 0x17, and was 0x0");
}

#[test]
fn a_device_is_reset_while_a_kernel_runs() {
    let (sanitizer, mut driver) = checked_driver();
    let mut spin = ready_to_spin(&mut driver, 0x8001, DOORBELL);
    (spin.packet.workgroup_size_x, spin.packet.grid_size_x) = (32, 32);
    spin.start(&driver);
    driver.gpu.reset(ResetKind::Flr);
    let report = sanitizer.report();
    let told: Vec<String> = report.misuses.iter().map(ToString::to_string).collect();
    assert!(told.len() == 1 && report.misuses[0].rule == Rule::ResetBusy, "{told:#?}");
    assert_eq!(report.misuses[0].found, "1 waves run, and 0 workgroups have not begun");
    // Nothing runs any more.
    driver.gpu.reset(ResetKind::Flr);
    assert_eq!(sanitizer.report().misuses[0].count, 1);
}
