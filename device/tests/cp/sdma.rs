//! SDMA queues: packets in the ring, pointers, indirect buffers, preemption.

mod engines;
mod moves;
mod packets;
mod refused;
mod rings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_abi::sdma::{Header, Op};
use belfry_device::queue::{DmaContext, Progress};
use belfry_device::sdma::{SdmaConfig, SdmaQueue, SdmaStopped};

use crate::bench::{Bench, READ_WRITE};

/// Longer than any test takes unless it hangs.
const HANG: Duration = Duration::from_secs(120);

/// An SDMA queue on the bench.
struct Ring {
    engine: SdmaQueue,
    config: SdmaConfig,
    bytes: u64,
    written: u64,
}

/// A packet of an operation and a kind.
fn packet(op: Op, sub_op: u8, body: &[u32]) -> Vec<u32> {
    [&[Header::new(op, sub_op).bits()], body].concat()
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A linear copy.
fn copy(from: u64, to: u64, bytes: u32) -> Vec<u32> {
    packet(Op::COPY, 0, &[&[bytes - 1, 0][..], &halves(from), &halves(to)].concat())
}

/// A write of these dwords.
fn write(to: u64, data: &[u32]) -> Vec<u32> {
    packet(Op::WRITE, 0, &[&halves(to)[..], &[data.len() as u32 - 1], data].concat())
}

fn fence(at: u64, value: u32) -> Vec<u32> {
    packet(Op::FENCE, 0, &[&halves(at)[..], &[value]].concat())
}

fn trap(context: u32) -> Vec<u32> {
    packet(Op::TRAP, 0, &[context])
}

/// A wait of memory with a comparison.
fn poll(function: u32, at: u64, value: u32, mask: u32) -> Vec<u32> {
    let body = [&halves(at)[..], &[value, mask, 0x0fff_0004]].concat();
    let mut dwords = packet(Op::POLL_REGMEM, 0, &body);
    dwords[0] |= 1 << 31 | function << 28;
    dwords
}

/// A jump into a buffer.
fn enter(buffer: u64, dwords: usize) -> Vec<u32> {
    packet(Op::INDIRECT, 0, &[&halves(buffer)[..], &[dwords as u32, 0, 0]].concat())
}

impl Ring {
    fn new(bench: &Bench, bytes: u64) -> Ring {
        let pointers = bench.alloc(64, READ_WRITE);
        let config = SdmaConfig {
            identity: bench.queue(16).config.identity,
            ring_base: bench.alloc(bytes, READ_WRITE),
            ring_bytes: bytes,
            rptr_report: pointers,
            wptr_poll: pointers + 8,
            read_index: 0,
            kernel: false,
        };
        let engine =
            SdmaQueue::new(config, Arc::clone(&bench.space), &bench.sdma_env(), DmaContext::default());
        Ring { engine, config, bytes, written: 0 }
    }

    /// Writes dwords without telling the queue.
    fn put(&mut self, bench: &Bench, dwords: &[u32]) {
        for &dword in dwords {
            let at = self.config.ring_base + self.written % self.bytes;
            bench.space.store_u32(at, dword).expect("mapped");
            self.written += 4;
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
    fn read_pointer(&self, bench: &Bench) -> u64 {
        bench.space.load_u64(self.config.rptr_report).expect("mapped")
    }

    /// Serves the queue until it no longer advances.
    fn settle(&mut self) -> Progress<SdmaStopped> {
        let start = Instant::now();
        loop {
            match self.engine.service() {
                Progress::Advanced => {}
                other => return other,
            }
            assert!(start.elapsed() < HANG, "the queue hangs: {:?}", self.engine);
        }
    }

    fn drain(&mut self, bench: &Bench) {
        assert_eq!(self.settle(), Progress::Idle, "{:?}", self.engine);
        assert_eq!(self.read_pointer(bench), self.written);
    }

    fn error(&mut self) -> SdmaStopped {
        match self.settle() {
            Progress::Error(error) => error,
            other => panic!("{other:?}: {:?}", self.engine),
        }
    }
}

/// Shows that a queue still works.
fn assert_works(bench: &Bench, ring: &mut Ring) {
    let data = bench.buffer(&[1u32, 2, 3, 0, 0, 0]);
    ring.submit(bench, &[copy(data, data + 12, 12)]);
    ring.drain(bench);
    assert_eq!(bench.u32s(data, 6), [1, 2, 3, 1, 2, 3]);
}
