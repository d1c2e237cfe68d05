//! Compiled kernels on the queues of the driver in miniature.

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType};
use belfry_abi::mes::{AddQueueFlags, Opcode};
use object::{Object, ObjectSegment, ObjectSymbol};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::FromZeros;

use super::{Driver, Process, UserQueue, eventually};

pub static VECADD: &[u8] = include_bytes!("../../../../guest-runtime/kernels/vecadd.gfx1100.hsaco");

pub static PROBE: &[u8] = include_bytes!("../../../../tests/kernels/probe.gfx1100.hsaco");

/// Loads a code object into a process; returns the address of a symbol.
pub fn load(driver: &mut Driver, process: &mut Process, elf: &[u8], symbol: &str) -> u64 {
    load_symbol(driver, process, elf, symbol).1
}

/// Loads a code object into a process; returns the address of a symbol, and its offset in guest memory.
pub fn load_symbol(driver: &mut Driver, process: &mut Process, elf: &[u8], symbol: &str) -> (u64, u64) {
    let file = object::File::parse(elf).unwrap();
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap();
    let (memory, va) = process.alloc(driver, end);
    for segment in file.segments() {
        driver.ram.write_slice(segment.data().unwrap(), GuestAddress(memory + segment.address())).unwrap();
    }
    let found = file.dynamic_symbols().find(|found| found.name() == Ok(symbol)).unwrap();
    (memory + found.address(), va + found.address())
}

/// Fills the hidden arguments of a one-dimensional launch, which start at `hidden` (code object version 5).
pub fn hidden(driver: &Driver, hidden: u64, grid: u32, workgroup: u16) {
    driver.put_ram(hidden, &(grid / u32::from(workgroup)));
    driver.put_ram(hidden + 4, &1u32);
    driver.put_ram(hidden + 8, &1u32);
    for (i, size) in [workgroup, 1, 1, (grid % u32::from(workgroup)) as u16].into_iter().enumerate() {
        driver.put_ram(hidden + 12 + i as u64 * 2, &size);
    }
    driver.put_ram(hidden + 64, &1u16);
}

pub fn dispatch(
    kernel: u64,
    kernarg: u64,
    grid: u32,
    workgroup: u16,
    completion: u64,
) -> KernelDispatchPacket {
    let mut packet = KernelDispatchPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, true, 2, 2).bits();
    packet.setup = 1;
    packet.workgroup_size_x = workgroup;
    packet.workgroup_size_y = 1;
    packet.workgroup_size_z = 1;
    packet.grid_size_x = grid;
    packet.grid_size_y = 1;
    packet.grid_size_z = 1;
    packet.kernel_object = kernel;
    packet.kernarg_address = kernarg;
    packet.completion_signal = completion;
    packet
}

/// A signal with a mailbox: memory, address.
pub fn signal(driver: &mut Driver, process: &mut Process, event: u32) -> (u64, u64) {
    let (memory, va) = process.alloc(driver, 4096);
    driver.set_ram_u64(memory, 1);
    driver.set_ram_u64(memory + 8, 1);
    driver.set_ram_u64(memory + 16, va + 2048);
    driver.ram.write_obj(event, GuestAddress(memory + 24)).unwrap();
    (memory, va)
}

/// A process with a queue, and a kernel that reports its beginning and then spins until told to stop.
pub struct Spinning {
    pub process: Process,
    pub queue: UserQueue,
    pub packet: KernelDispatchPacket,
    pub stop: u64,
    /// Its arguments and its kernel's descriptor, in guest memory.
    pub kernarg: u64,
    pub descriptor: u64,
    pub started: u64,
    pub done: u64,
}

impl Spinning {
    /// Starts the kernel, and returns when it runs.
    pub fn start(&mut self, driver: &Driver) {
        self.queue.put(driver, &self.packet);
        eventually("the kernel runs", || driver.ram_u32(self.started) != 0);
    }

    /// Address of its kernel descriptor.
    pub fn kernel_object(&self) -> u64 {
        self.packet.kernel_object
    }
}

impl Spinning {
    /// Runs a kernel of one workgroup with `args` on its queue; returns the address of the value that its
    /// completion signal counts down.
    pub fn run(&mut self, driver: &mut Driver, (elf, symbol): (&[u8], &str), args: &[u64]) -> u64 {
        let kernel = load(driver, &mut self.process, elf, symbol);
        let (kernarg, kernarg_va) = self.process.alloc(driver, 4096);
        for (at, &arg) in (kernarg..).step_by(8).zip(args) {
            driver.set_ram_u64(at, arg);
        }
        hidden(driver, kernarg + 8 * args.len() as u64, 64, 64);
        let (done, done_va) = signal(driver, &mut self.process, 1);
        self.queue.put(driver, &dispatch(kernel, kernarg_va, 64, 64, done_va));
        done + 8
    }

    /// Adds its queue once more.
    pub fn add_again(&self, driver: &mut Driver) -> bool {
        self.queue.add(driver, &self.process)
    }

    /// Zeroed memory of its process, as the process sees it.
    pub fn words(&mut self, driver: &mut Driver) -> u64 {
        self.process.alloc(driver, 4096).1
    }
}

/// A spinning kernel that is not started yet.
pub fn ready_to_spin(driver: &mut Driver, pasid: u16, doorbell: u32) -> Spinning {
    ready_to_spin_with(driver, pasid, doorbell, AddQueueFlags::empty())
}

/// A spinning kernel whose queue was added with further flags.
pub fn ready_to_spin_with(driver: &mut Driver, pasid: u16, doorbell: u32, flags: AddQueueFlags) -> Spinning {
    let mut process = Process::new(driver, pasid);
    let queue = UserQueue::new(driver, &mut process, doorbell);
    let mut frame = queue.frame(driver, &process);
    frame.flags |= flags;
    assert!(driver.mes(&frame, Opcode::ADD_QUEUE));
    let (descriptor, kernel) = load_symbol(driver, &mut process, PROBE, "spin.kd");
    let (words, words_va) = process.alloc(driver, 4096);
    let (kernarg, kernarg_va) = process.alloc(driver, 4096);
    driver.set_ram_u64(kernarg, words_va);
    driver.set_ram_u64(kernarg + 8, words_va + 64);
    hidden(driver, kernarg + 16, 64, 64);
    let (done, done_va) = signal(driver, &mut process, 1);
    let packet = dispatch(kernel, kernarg_va, 64, 64, done_va);
    Spinning { process, queue, packet, stop: words, kernarg, descriptor, started: words + 64, done: done + 8 }
}

pub fn spinning(driver: &mut Driver, pasid: u16, doorbell: u32) -> Spinning {
    let mut spin = ready_to_spin(driver, pasid, doorbell);
    spin.start(driver);
    spin
}
