//! Queues of the kernel in the memory of a process, which the stock driver has in its test of the scheduler
//! (linux `amdgpu_mes_self_test`): of the graphics and of the compute pipes.

use belfry_abi::ih::Source;
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode as MesOpcode, QueueType, SetHwResources};
use belfry_abi::pm4::Opcode;
use belfry_abi::regs::{Register as _, gc};
use belfry_device::chip::gfx1100::dword;
use zerocopy::FromZeros;

use crate::driver::{Driver, Process, eventually};
use crate::pm4::{Pm4, halves, mqd, packet, release, write};

/// Gives the scheduler queues as Linux does: all but the first of the graphics pipe.
fn give_queues(driver: &mut Driver) {
    let mut frame = SetHwResources::new_zeroed();
    frame.header = Header::new(MesOpcode::SET_HW_RSRC);
    frame.vmid_mask_gfxhub = 0xffff_ff00;
    frame.compute_hqd_mask[..4].fill(0xc);
    frame.gfx_hqd_mask[0] = 0xffff_fffe;
    assert!(driver.mes(&frame, MesOpcode::SET_HW_RSRC));
}

/// Returns a frame with the fields of Linux's own queues: the process's range is in bytes.
fn frame(driver: &mut Driver, process: &Process, queue: &Pm4, kind: QueueType) -> AddQueue {
    let mut frame = queue.queue.frame(driver, process);
    frame.flags &= !(AddQueueFlags::IS_AQL_QUEUE | AddQueueFlags::IS_KFD_PROCESS);
    frame.process_va_end = (((1u64 << 36) - 1) << 12).into();
    frame.trap_handler_addr = 0.into();
    frame.queue_type = kind.0;
    frame
}

/// Makes the descriptor that of a graphics queue.
fn make_graphics(driver: &Driver, queue: &Pm4) {
    let compute = mqd(driver, &queue.queue);
    let mut words = [0u32; 512];
    (words[136], words[137]) = (compute.cp_hqd_pq_base_lo, compute.cp_hqd_pq_base_hi);
    [words[139], words[140]] = halves(compute.pq_rptr_report_addr());
    [words[141], words[142]] = halves(compute.pq_wptr_poll_addr());
    words[145] = compute.cp_hqd_pq_control & 0x3f;
    driver.put_ram(queue.queue.mqd_memory, &words);
}

/// Lets the packets of a compute queue do what the kernel's may.
fn make_privileged(driver: &Driver, queue: &Pm4) {
    let mut mqd = mqd(driver, &queue.queue);
    let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(mqd.cp_hqd_pq_control);
    control.set_priv_state(true);
    control.set_kmd_queue(true);
    mqd.cp_hqd_pq_control = control.bits();
    driver.put_ram(queue.queue.mqd_memory, &mqd);
}

fn set_scratch(value: u32) -> Vec<u32> {
    packet(Opcode::SET_UCONFIG_REG, &[dword::<gc::SCRATCH_REG0>() - 0xc000, value])
}

/// Runs the tests of a driver on a queue: a register, then a buffer and a fence with an interrupt.
fn run_tests(driver: &mut Driver, process: &mut Process, queue: &mut Pm4, valid: u32) {
    let register = dword::<gc::SCRATCH_REG0>();
    driver.write(register, 0xcafe_dead);
    queue.put(driver, &[set_scratch(0xdead_beef)]);
    eventually("the ring test", || driver.read(register) == 0xdead_beef);
    let (memory, va) = process.alloc(driver, 4096);
    let inside = write(va, 0xdead_beef);
    inside.iter().zip((memory + 1024..).step_by(4)).for_each(|(word, at)| driver.put_ram(at, word));
    let [low, high] = halves(va + 1024);
    let enter = packet(Opcode::INDIRECT_BUFFER, &[low, high, inside.len() as u32 | valid]);
    // The context of a queue of the scheduler: its number, and a mark.
    let context = 1 << 24 | 5;
    driver.drain_interrupts();
    queue.put(driver, &[enter, release(va + 64, context)]);
    eventually("the fence", || driver.ram_u32(memory + 64) == context);
    assert_eq!(driver.ram_u32(memory), 0xdead_beef);
    let mut entries = Vec::new();
    eventually("the interrupt", || {
        entries.extend(driver.drain_interrupts());
        !entries.is_empty()
    });
    assert_eq!((entries[0].source(), entries[0].data[0]), (Source::CP_EOP_INTERRUPT, context));
}

#[test]
fn graphics_queue_of_a_process_passes_the_tests_of_a_driver() {
    let mut driver = Driver::up();
    give_queues(&mut driver);
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Pm4::new(&mut driver, &mut process, 0x800);
    make_graphics(&driver, &queue);
    let frame = frame(&mut driver, &process, &queue, QueueType::GFX);
    assert!(driver.mes(&frame, MesOpcode::ADD_QUEUE));
    // The buffer has the VMID of the queue, and is not marked as valid.
    run_tests(&mut driver, &mut process, &mut queue, 1 << 22);
    let clear = packet(Opcode::CLEAR_STATE, &[0]);
    queue.put(&driver, &[packet(Opcode::PREAMBLE_CNTL, &[2 << 28]), clear]);
    run_tests(&mut driver, &mut process, &mut queue, 1 << 22);
    // Off, and on again where it was.
    eventually("the queue rests", || queue.read_pointer(&driver) == queue.written);
    assert!(driver.remove(0x800, queue.queue.gang));
    assert_eq!(u64::from(driver.ram_u32(queue.queue.mqd_memory + 138 * 4)), queue.written);
    assert!(driver.mes(&frame, MesOpcode::ADD_QUEUE));
    run_tests(&mut driver, &mut process, &mut queue, 1 << 22);
    assert!(driver.remove(0x800, queue.queue.gang));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn compute_queue_reaches_all_registers_only_if_it_is_the_kernels() {
    let mut driver = Driver::up();
    give_queues(&mut driver);
    let mut process = Process::new(&mut driver, 0x8001);
    let [mut kernel, mut program] =
        [0x800, 0x802].map(|doorbell| Pm4::new(&mut driver, &mut process, doorbell));
    make_privileged(&driver, &kernel);
    for queue in [&kernel, &program] {
        let frame = frame(&mut driver, &process, queue, QueueType::COMPUTE);
        assert!(driver.mes(&frame, MesOpcode::ADD_QUEUE));
    }
    run_tests(&mut driver, &mut process, &mut kernel, 1 << 23 | 1 << 30);
    assert_eq!(driver.gpu.stats().errors, Default::default());
    program.put(&driver, &[set_scratch(1)]);
    eventually("the packet is refused", || driver.errors("queue stopped") == 1);
    assert_eq!(driver.read(dword::<gc::SCRATCH_REG0>()), 0xdead_beef);
}
