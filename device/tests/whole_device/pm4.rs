//! PM4 queues, from ADD_QUEUE to the interrupt, off their slots and through snapshots.

use std::sync::atomic::Ordering;

use belfry_abi::ih::Source;
use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::mes::{AddQueueFlags, Opcode as MesOpcode};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pm4::{ComputeRegister, Opcode, Pm4Header};
use belfry_abi::regs::{Register as _, gc};
use belfry_device::SavedGpu;
use belfry_tools::inspect::Inspect as _;
use object::{Object, ObjectSegment, ObjectSymbol};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::FromBytes;

use crate::driver::kernels::load;
use crate::driver::{Driver, Process, UserQueue, eventually};
use crate::save::guest::{KERNELS, config};

/// Dwords of a ring.
const RING: u64 = 1024;

/// A queue of the driver in miniature whose packets are PM4.
pub struct Pm4 {
    pub queue: UserQueue,
    pub written: u64,
}

pub fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    [&[Pm4Header::type3(opcode, body.len() as u32).bits()], body].concat()
}

pub fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub fn write(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WRITE_DATA, &[&[5 << 8][..], &halves(at), &[value]].concat())
}

fn wait(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WAIT_REG_MEM, &[&[3 | 1 << 4][..], &halves(at), &[value, u32::MAX, 4]].concat())
}

pub fn release(at: u64, value: u32) -> Vec<u32> {
    let body = [&[20 | 5 << 8, 2 << 29 | 2 << 24][..], &halves(at), &[value, 0, value]].concat();
    packet(Opcode::RELEASE_MEM, &body)
}

pub fn set(register: ComputeRegister, values: &[u32]) -> Vec<u32> {
    packet(Opcode::SET_SH_REG, &[&[register.0][..], values].concat())
}

/// Sets the registers for a kernel with workgroups of `workgroup` work-items.
fn program((descriptor, va): (KernelDescriptor, u64), workgroup: u32, args: u64) -> Vec<u32> {
    let entry = va.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let (rsrc1, rsrc2) = (descriptor.compute_pgm_rsrc1.bits(), descriptor.compute_pgm_rsrc2.bits());
    [
        set(ComputeRegister::PGM_LO, &halves(entry >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[rsrc1, rsrc2 | 2 << 15]),
        set(ComputeRegister::PGM_RSRC3, &[descriptor.compute_pgm_rsrc3.bits()]),
        set(ComputeRegister::NUM_THREAD_X, &[workgroup, 1, 1]),
        set(ComputeRegister::USER_DATA_0, &halves(args)),
    ]
    .concat()
}

/// A kernel of the fixture: its descriptor, and the address of it.
fn kernel(driver: &mut Driver, process: &mut Process, name: &str) -> (KernelDescriptor, u64) {
    let file = object::File::parse(KERNELS).unwrap();
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    let bytes = file.segments().find_map(|segment| segment.data_range(symbol.address(), 64).ok()?).unwrap();
    (KernelDescriptor::read_from_bytes(bytes).unwrap(), load(driver, process, KERNELS, name))
}

fn direct(size: u32) -> Vec<u32> {
    packet(Opcode::DISPATCH_DIRECT, &[size, 1, 1, 0x8021])
}

impl Pm4 {
    pub fn new(driver: &mut Driver, process: &mut Process, doorbell: u32) -> Self {
        let queue = UserQueue::new(driver, process, doorbell);
        let mut mqd = mqd(driver, &queue);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(RING.ilog2() - 1);
        control.set_rptr_block_size(5);
        (mqd.cp_hqd_pq_control, mqd.cp_hqd_aql_control) = (control.bits(), 0);
        driver.put_ram(queue.mqd_memory, &mqd);
        Self { queue, written: 0 }
    }

    fn add(&self, driver: &mut Driver, process: &Process) {
        let mut frame = self.queue.frame(driver, process);
        frame.flags &= !AddQueueFlags::IS_AQL_QUEUE;
        assert!(driver.mes(&frame, MesOpcode::ADD_QUEUE));
    }

    pub fn put(&mut self, driver: &Driver, packets: &[Vec<u32>]) {
        for dword in packets.concat() {
            driver.put_ram(self.queue.ring + self.written % RING * 4, &dword);
            self.written += 1;
        }
        driver.set_ram_u64(self.queue.queue + 0x38, self.written);
        driver.ring(u64::from(self.queue.doorbell) * 4, self.written);
    }

    pub fn read_pointer(&self, driver: &Driver) -> u64 {
        driver.ram_u32(self.queue.queue + 0x80).into()
    }
}

pub fn mqd(driver: &Driver, queue: &UserQueue) -> ComputeMqd {
    let mut bytes = [0; 2048];
    driver.ram.read_slice(&mut bytes, GuestAddress(queue.mqd_memory)).unwrap();
    ComputeMqd::read_from_bytes(&bytes).unwrap()
}

#[test]
fn pm4_queue_runs_a_kernel_from_doorbell_to_fence_and_interrupt() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Pm4::new(&mut driver, &mut process, 0x800);
    queue.add(&mut driver, &process);
    let reverse = kernel(&mut driver, &mut process, "reverse.kd");
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let (args, args_va) = process.alloc(&mut driver, 4096);
    (0..256u32).for_each(|at| driver.put_ram(data + u64::from(at) * 4, &at));
    driver.put_ram(args, &[data_va, data_va + 1024]);
    let (fence, fence_va) = process.alloc(&mut driver, 4096);
    let packets = program(reverse, 256, args_va);
    // More rounds than the ring holds at once.
    for round in 1..=60u32 {
        driver.put_ram(data + 1024, &[0u8; 1024]);
        queue.put(&driver, &[packets.clone(), direct(256), release(fence_va, round)]);
        eventually("the fence is written", || driver.ram_u32(fence) == round);
        eventually("its interrupt arrives", || driver.interrupts.0.load(Ordering::SeqCst) >= round);
        let entries = driver.drain_interrupts();
        let seen: Vec<_> = entries.iter().map(|entry| (entry.source(), entry.data[0])).collect();
        assert_eq!(seen, [(Source::CP_EOP_INTERRUPT, round)]);
        assert!((0..256).all(|at| driver.ram_u32(data + 1024 + u64::from(at) * 4) == 255 - at), "{round}");
    }
    assert!(queue.written > RING);
    eventually("the read pointer moves", || queue.read_pointer(&driver) == queue.written % RING);
    assert_eq!(driver.gpu.stats().errors, Default::default());
    assert!(driver.remove(0x800, queue.queue.gang));
    let mqd = mqd(&driver, &queue.queue);
    assert_eq!((u64::from(mqd.cp_hqd_pq_rptr), mqd.compute_num_thread_x), (queue.written, 256));
}

#[test]
fn pm4_queue_goes_on_where_it_was_taken_off_with_its_waves_and_registers() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Pm4::new(&mut driver, &mut process, 0x800);
    queue.add(&mut driver, &process);
    let hold = kernel(&mut driver, &mut process, "hold.kd");
    let (data, data_va) = process.alloc(&mut driver, 8192);
    let (args, args_va) = process.alloc(&mut driver, 4096);
    driver.put_ram(args, &[data_va, data_va + 1024, 0x100 | 0x200 << 32]);
    let packets = program(hold, 64, args_va);
    queue.put(&driver, &[packets, direct(64), release(data_va + 64, 1), wait(data_va + 128, 1)]);
    for _ in 0..3 {
        eventually("the waves run", || driver.ram_u32(data + 4) == 1);
        assert!(driver.remove(0x800, queue.queue.gang));
        queue.add(&mut driver, &process);
    }
    driver.put_ram(data, &1u32);
    eventually("the fence is written", || driver.ram_u32(data + 64) == 1);
    assert!((0..64).all(|at| driver.ram_u32(data + 1024 + u64::from(at) * 4) == 0x100 + at));
    // Without work in progress, only the registers are saved.
    driver.put_ram(data + 128, &1u32);
    eventually("the wait is over", || queue.read_pointer(&driver) == queue.written);
    assert!(driver.remove(0x800, queue.queue.gang));
    driver.put_ram(data + 1024, &[0u8; 1024]);
    queue.add(&mut driver, &process);
    queue.put(&driver, &[direct(64), release(data_va + 64, 2)]);
    eventually("the fence is written", || driver.ram_u32(data + 64) == 2);
    assert_eq!(driver.ram_u32(data + 1024 + 63 * 4), 0x13f);
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn bad_packet_stops_its_pm4_queue_and_no_other() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let [mut bad, mut good] = [0x800, 0x802].map(|doorbell| Pm4::new(&mut driver, &mut process, doorbell));
    bad.add(&mut driver, &process);
    good.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    bad.put(&driver, &[packet(Opcode::MEM_SEMAPHORE, &[0, 0]), write(data_va, 1)]);
    eventually("the queue stops", || {
        driver.errors("queue stopped") == 1 && driver.interrupts.0.load(Ordering::SeqCst) == 1
    });
    let entries = driver.drain_interrupts();
    assert_eq!(entries[0].source(), Source::CP_BAD_OPCODE_ERROR);
    good.put(&driver, &[write(data_va + 4, 2)]);
    eventually("the other one works", || driver.ram_u32(data + 4) == 2);
    assert_eq!(driver.ram_u32(data), 0);
    assert!(driver.remove(0x800, bad.queue.gang) && driver.remove(0x802, good.queue.gang));
}

#[test]
fn pm4_queue_is_saved_in_the_middle_of_its_work_and_goes_on_elsewhere() {
    let mut driver = Driver::with(config());
    driver.work_on_caller();
    driver.bring_up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Pm4::new(&mut driver, &mut process, 0x800);
    queue.add(&mut driver, &process);
    let hold = kernel(&mut driver, &mut process, "hold.kd");
    let (data, data_va) = process.alloc(&mut driver, 8192);
    let (args, args_va) = process.alloc(&mut driver, 4096);
    driver.put_ram(args, &[data_va, data_va + 1024, 0x100 | 0x200 << 32]);
    // Waves that run, a fence that waits for them, and a buffer that waits for memory.
    let inside = [wait(data_va + 128, 1), write(data_va + 132, 5)].concat();
    let (buffer, buffer_va) = process.alloc(&mut driver, 4096);
    inside.iter().zip((buffer..).step_by(4)).for_each(|(dword, at)| driver.put_ram(at, dword));
    let [lo, hi] = halves(buffer_va);
    let enter = packet(Opcode::INDIRECT_BUFFER, &[lo, hi, inside.len() as u32 | 1 << 23]);
    let packets = program(hold, 64, args_va);
    queue.put(&driver, &[packets, direct(64), release(data_va + 64, 1), enter, write(data_va + 136, 6)]);
    let steps = |driver: &Driver| {
        for _ in 0..400 {
            driver.gpu.turn();
            driver.gpu.pass();
        }
    };
    steps(&driver);
    assert_eq!(driver.ram_u32(data + 4), 1, "the waves run");
    let bytes = driver.gpu.save().unwrap().to_bytes().unwrap();
    let saved = SavedGpu::from_bytes(&bytes).unwrap();
    assert!(saved.waves() > 0);
    let shown = format!("{saved:?}");
    for name in ["COMPUTE_NUM_THREAD_X", "Release", "buffers"] {
        assert!(shown.contains(name), "the snapshot does not show {name}");
    }
    let other = driver.continued(&saved, belfry_device::GpuConfig { time: config().time, ..saved.config() });
    assert!(other.gpu.save().unwrap().to_bytes().unwrap() == bytes, "saved again, it is another one");
    for driver in [&other, &driver] {
        steps(driver);
        assert_eq!((driver.ram_u32(data + 64), driver.ram_u32(data + 132)), (0, 0));
        driver.put_ram(data + 128, &1u32);
        steps(driver);
        assert_eq!((driver.ram_u32(data + 132), driver.ram_u32(data + 136)), (5, 6));
        assert_eq!(driver.ram_u32(data + 64), 0, "the waves have not ended");
        driver.put_ram(data, &1u32);
        steps(driver);
        assert_eq!(driver.ram_u32(data + 64), 1);
        assert!((0..64).all(|at| driver.ram_u32(data + 1024 + u64::from(at) * 4) == 0x100 + at));
        assert_eq!(queue.read_pointer(driver), queue.written);
        assert_eq!(driver.gpu.stats().errors, Default::default());
    }
}

#[test]
fn pm4_packets_of_a_kind_are_stopped_at_one_after_the_other() {
    use belfry_tools::inspect::BreakOn;

    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Pm4::new(&mut driver, &mut process, 0x800);
    queue.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let (buffer, buffer_va) = process.alloc(&mut driver, 4096);
    let inner = write(data_va + 8, 3);
    inner.iter().zip(0..).for_each(|(dword, at)| driver.put_ram(buffer + at * 4, dword));
    let enter =
        packet(Opcode::INDIRECT_BUFFER, &[&halves(buffer_va)[..], &[inner.len() as u32 | 1 << 23]].concat());
    let number = driver.gpu.inspect().add_break(BreakOn::Packet("PM4:WRITE_DATA".into())).unwrap();
    let last = release(data_va + 64, 4);
    queue.put(&driver, &[write(data_va, 1), write(data_va + 4, 2), enter, last]);
    // Each write is still to come when the device halts in front of it; also the buffer's write.
    for done in 0..3u32 {
        let status = driver.gpu.inspect().wait(std::time::Duration::from_secs(60)).unwrap();
        assert_eq!((status.halted, status.breakpoint), (true, Some(number)), "{status:?}");
        for at in 0..3u32 {
            let expected = if at < done { at + 1 } else { 0 };
            assert_eq!(driver.ram_u32(data + u64::from(at) * 4), expected, "{at} of {done}");
        }
        driver.gpu.inspect().proceed();
    }
    eventually("the fence is written", || driver.ram_u32(data + 64) == 4);
    assert_eq!(driver.ram_u32(data + 8), 3);
}
