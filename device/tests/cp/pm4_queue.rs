//! PM4 queues: packets in the ring, pointers, indirect buffers, dispatches, preemption.

mod context;
mod dispatches;
mod packets;
mod refused;

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pm4::{COMPUTE_REGISTERS, COMPUTE_REGISTERS_FIRST, ComputeRegister, Opcode, Pm4Header};
use belfry_device::cp::{AqlConfig, Pm4Config, Pm4Queue, QueueError};
use belfry_device::queue::{BlockedOn, Progress};

use crate::bench::{Bench, READ_WRITE};

/// Longer than any test takes unless it hangs.
const HANG: Duration = Duration::from_secs(120);
/// `COMPUTE_SHADER_EN`, `USE_THREAD_DIMENSIONS` and `CS_W32_EN`.
const THREADS: u32 = 0x8021;

/// A PM4 queue on the bench.
struct Ring {
    cp: Pm4Queue,
    config: Pm4Config,
    dwords: u64,
    written: u64,
}

fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    let mut dwords = vec![Pm4Header::type3(opcode, body.len() as u32).bits()];
    dwords.extend_from_slice(body);
    dwords
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// WRITE_DATA to memory.
fn write(at: u64, data: &[u32]) -> Vec<u32> {
    packet(Opcode::WRITE_DATA, &[&[5 << 8 | 1 << 20][..], &halves(at), data].concat())
}

/// WAIT_REG_MEM until memory is a value.
fn wait(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WAIT_REG_MEM, &[&[3 | 1 << 4][..], &halves(at), &[value, u32::MAX, 4]].concat())
}

/// RELEASE_MEM of 64 bits with an interrupt.
fn release(at: u64, value: u64, context: u32) -> Vec<u32> {
    let body = [&[20 | 5 << 8, 2 << 29 | 2 << 24][..], &halves(at), &halves(value), &[context]].concat();
    packet(Opcode::RELEASE_MEM, &body)
}

fn enter(buffer: u64, dwords: usize, flags: u32) -> Vec<u32> {
    let [lo, hi] = halves(buffer);
    packet(Opcode::INDIRECT_BUFFER, &[lo, hi, dwords as u32 | 1 << 23 | flags])
}

fn set(register: ComputeRegister, values: &[u32]) -> Vec<u32> {
    let start = register.0;
    packet(Opcode::SET_SH_REG, &[&[start][..], values].concat())
}

fn direct(dim: [u32; 3], initiator: u32) -> Vec<u32> {
    packet(Opcode::DISPATCH_DIRECT, &[&dim[..], &[initiator]].concat())
}

/// Sets the registers for a kernel of the fixture, like a driver that uses PM4: `lds` bytes, arguments.
fn program(bench: &Bench, kernel: &str, workgroup: [u32; 3], lds: u32, args: u64) -> Vec<u32> {
    let address = bench.kernel(kernel);
    let descriptor: KernelDescriptor = bench.space.read(address).expect("mapped");
    let entry = address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let properties = descriptor.kernel_code_properties;
    assert!(properties.enable_wavefront_size32() && !properties.enable_sgpr_dispatch_ptr());
    let rsrc2 = descriptor.compute_pgm_rsrc2.bits() | lds.div_ceil(512) << 15;
    [
        set(ComputeRegister::PGM_LO, &halves(entry >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[descriptor.compute_pgm_rsrc1.bits(), rsrc2]),
        set(ComputeRegister::PGM_RSRC3, &[descriptor.compute_pgm_rsrc3.bits()]),
        set(ComputeRegister::START_X, &[0, 0, 0, workgroup[0], workgroup[1], workgroup[2]]),
        set(ComputeRegister::RESOURCE_LIMITS, &[0]),
        set(ComputeRegister::TMPRING_SIZE, &[0]),
        set(ComputeRegister::USER_DATA_0, &halves(args)),
    ]
    .concat()
}

/// Compute registers of a queue that may use all compute units, and has set nothing else.
fn all_cus() -> Vec<u32> {
    let mut mqd = ComputeMqd::new();
    mqd.set_static_thread_mgmt(&[u32::MAX; 8]);
    let first = std::mem::offset_of!(ComputeMqd, compute_dispatch_initiator) / 4;
    let dwords: [u32; 512] = zerocopy::transmute!(mqd);
    dwords[first..].to_vec()
}

impl Ring {
    fn new(bench: &Bench, dwords: u64) -> Ring {
        let pointers = bench.alloc(64, READ_WRITE);
        let AqlConfig { identity, apertures, trap, .. } = bench.queue(16).config;
        let config = Pm4Config {
            identity,
            ring_base: bench.alloc(dwords * 4, READ_WRITE),
            ring_dwords: dwords,
            rptr_report: pointers,
            wptr_poll: pointers + 8,
            read_index: 0,
            apertures,
            trap,
            shares: None,
            kernel: false,
        };
        let cp = Pm4Queue::new(config, Arc::clone(&bench.space), Arc::default(), &bench.env, &all_cus());
        Ring { cp, config, dwords, written: 0 }
    }

    /// The queue as it is mapped with other compute registers, after all submitted packets.
    fn with_registers(&self, bench: &Bench, registers: &[u32]) -> Pm4Queue {
        let config = Pm4Config { read_index: self.written, ..self.config };
        Pm4Queue::new(config, Arc::clone(&bench.space), Arc::default(), &bench.env, registers)
    }

    /// Writes dwords without telling the queue.
    fn put(&mut self, bench: &Bench, dwords: &[u32]) {
        for &dword in dwords {
            let at = self.config.ring_base + self.written % self.dwords * 4;
            bench.space.store_u32(at, dword).expect("mapped");
            self.written += 1;
        }
    }

    fn ring_doorbell(&self, bench: &Bench) {
        bench.space.store_u64(self.config.wptr_poll, self.written).expect("mapped");
    }

    fn submit(&mut self, bench: &Bench, packets: &[Vec<u32>]) {
        self.put(bench, &packets.concat());
        self.ring_doorbell(bench);
    }

    /// The read pointer as producers see it.
    fn read_pointer(&self, bench: &Bench) -> u32 {
        bench.space.load_u32(self.config.rptr_report).expect("mapped")
    }

    /// Serves the queue until `done`.
    fn run_until(&mut self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            if let Progress::Error(error) = self.cp.service() {
                panic!("{error}");
            }
            assert!(start.elapsed() < HANG, "the queue hangs: {:?}", self.cp);
            std::thread::yield_now();
        }
    }

    /// Serves the queue until it neither advances nor waits for dispatches.
    fn settle(&mut self) -> Progress<QueueError> {
        let start = Instant::now();
        loop {
            match self.cp.service() {
                Progress::Advanced | Progress::Blocked(BlockedOn::Dispatches) => std::thread::yield_now(),
                other => return other,
            }
            assert!(start.elapsed() < HANG, "the queue hangs: {:?}", self.cp);
        }
    }

    fn drain(&mut self, bench: &Bench) {
        assert_eq!(self.settle(), Progress::Idle, "{:?}", self.cp);
        assert_eq!(u64::from(self.read_pointer(bench)), self.written % self.dwords);
    }

    fn error(&mut self) -> QueueError {
        match self.settle() {
            Progress::Error(error) => error,
            other => panic!("{other:?}: {:?}", self.cp),
        }
    }
}

#[test]
fn names_of_compute_registers_are_those_of_the_bank() {
    let named = |at: usize| ComputeRegister(COMPUTE_REGISTERS_FIRST + at as u32).name();
    assert_eq!(named(0), Some("COMPUTE_DISPATCH_INITIATOR"));
    assert_eq!(named(COMPUTE_REGISTERS - 1), Some("COMPUTE_USER_DATA_15"));
}
