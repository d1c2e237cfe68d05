//! The measuring guest: the cost of a doorbell for a program, and the time until the device answers it.
//!
//! Everything that is timed runs in ring 3. Samples are time stamps, or differences of them, in RAM; a line on the serial
//! port says where each series is: `series NAME ADDRESS SAMPLES WORDS`. The host leaves the number of samples at
//! [`SAMPLES_AT`], and its vCPU counts the same time as the host.

use core::arch::asm;
use core::sync::atomic::Ordering;

use belfry_abi::pci::{BAR_DOORBELLS, BAR_REGISTERS, BAR_VRAM, DEVICE_ID, VENDOR_ID};
use belfry_abi::regs::nbio::RCC_DOORBELL_APER_EN;

use crate::cpu::{self, say};
use crate::gpu::Gpu;
use crate::memory::{self, PAGE, pages, peek, poke, read32, write32};
use crate::pci;
use crate::process::Process;
use crate::queue::Queue;
use crate::registers;
use crate::rings::Rings;
use crate::shader::{self, Kernel, Vectors};
use crate::user::{self, ticks};

/// Address at which the host puts the number of samples that it wants.
const SAMPLES_AT: u64 = 0x3f_f000;
const MAX_SAMPLES: u64 = 20_000;
/// Stores that are timed together: one alone is shorter than it takes to read the time.
const BATCH: u64 = 16;
/// Rows of stores while a queue is kept busy.
const HELD: u64 = 50;
/// Ticks between two dispatches: some tens of microseconds.
const SETTLING: u64 = 100_000;
/// Rounds of two instructions, and samples of them, that tell whether ring 0 is emulated.
const ROUNDS: u64 = 200;
const ROUNDS_SAMPLES: u64 = 9;
/// Work-items of a dispatch: one wave.
const COUNT: u32 = 32;
const PASID: u16 = 0x8001;
const EVENT: u32 = 42;
/// A port that does nothing.
const POST: u16 = 0x80;

/// Samples of some words each.
struct Series {
    name: &'static str,
    at: u64,
    words: u64,
    samples: u64,
}

impl Series {
    fn new(name: &'static str, samples: u64, words: u64) -> Self {
        let bytes = samples * words * 8;
        let at = pages(bytes);
        // The first access to a page takes long.
        (at..at + bytes).step_by(PAGE as usize).for_each(|page| poke(page, 0));
        Self { name, at, words, samples: 0 }
    }

    fn push<const N: usize>(&mut self, values: [u64; N]) {
        let at = self.at + self.samples * self.words * 8;
        for (word, value) in values.into_iter().enumerate() {
            poke(at + word as u64 * 8, value);
        }
        self.samples += 1;
    }

    fn tell(&self) {
        say!("series {} {:#x} {} {}", self.name, self.at, self.samples, self.words);
    }
}

/// Times one operation.
#[inline(always)]
fn time(operation: impl FnOnce()) -> u64 {
    let before = ticks();
    operation();
    ticks() - before
}

/// Times a batch of stores of successive values.
#[inline(always)]
fn stores(address: u64, first: u64) -> u64 {
    time(|| {
        for value in first..first + BATCH {
            poke(address, value);
        }
    })
}

/// Samples of each series the host asks for; 0: it does not want to measure.
pub fn samples() -> u64 {
    peek(SAMPLES_AT).min(MAX_SAMPLES)
}

/// Measures.
pub fn main(samples: u64) {
    cpu::take_interrupts();
    let function = pci::find(VENDOR_ID, DEVICE_ID).expect("no GPU on the bus");
    let base = |bar| function.bar(bar).0;
    let gpu = Gpu { registers: base(BAR_REGISTERS), doorbells: base(BAR_DOORBELLS), vram: base(BAR_VRAM) };
    function.enable();
    memory::map(gpu.doorbells);
    memory::map(gpu.vram);
    function.route_interrupts(&gpu, cpu::VECTOR);
    let mut rings = Rings::bring_up(&gpu);
    say!("phase driver");

    let mut process = Process::new(PASID);
    let kernel = shader::load(&gpu, &mut process, &mut rings);
    let mut queue = Queue::new(&gpu, &mut process, &mut rings);
    rings.add_queue(&gpu, &queue.frame(&process));
    let vectors = Vectors::new(&gpu, &mut process, &mut rings, COUNT);
    user::prepare();
    let signal = queue.dispatch(&kernel, &vectors, 0);
    queue.ring(&gpu);
    while signal.load(Ordering::Acquire) != 0 {}
    vectors.verify();
    say!("phase dispatch");

    let plain = pages(PAGE);
    let mut bench = Bench { gpu, queue, kernel, vectors, plain };
    speed();
    bench.exits(samples);
    bench.rings(samples);
    bench.signals(samples);
    bench.interrupts(samples, &mut rings);
    bench.vectors.verify();
    say!("done");
}

/// The same loop in both rings.
fn speed() {
    let (mut kernel, mut program) =
        (Series::new("ring0_loop", ROUNDS_SAMPLES, 1), Series::new("ring3_loop", ROUNDS_SAMPLES, 1));
    (0..ROUNDS_SAMPLES).for_each(|_| kernel.push([time(spin)]));
    user::run(|| (0..ROUNDS_SAMPLES).for_each(|_| program.push([time(spin)])));
    kernel.tell();
    program.tell();
}

fn spin() {
    // SAFETY: counts down.
    unsafe { asm!("2:", "dec {0}", "jnz 2b", inout(reg) ROUNDS => _, options(nomem, nostack)) };
}

struct Bench {
    gpu: Gpu,
    queue: Queue,
    kernel: Kernel,
    vectors: Vectors,
    plain: u64,
}

impl Bench {
    /// Round trips to the host's process.
    fn exits(&self, samples: u64) {
        let register = self.gpu.registers + registers::offset::<RCC_DOORBELL_APER_EN>();
        let mut series =
            ["timer", "port_write", "mmio_write", "mmio_read"].map(|name| Series::new(name, samples, 1));
        let [timer, port_write, mmio_write, mmio_read] = &mut series;
        user::run(|| {
            for _ in 0..samples {
                timer.push([time(|| ())]);
                port_write.push([time(|| cpu::out(POST, 0))]);
                mmio_write.push([time(|| write32(register, 1))]);
                mmio_read.push([time(|| {
                    read32(register);
                })]);
            }
        });
        series.iter().for_each(Series::tell);
    }

    /// Rings for packets of a queue that has work, and as many stores to memory.
    fn rings(&mut self, samples: u64) {
        let bell = self.gpu.doorbells + self.queue.doorbell().offset().bytes();
        let (mut ring, mut plain) = (Series::new("ring", samples, 1), Series::new("plain_store", samples, 1));
        user::run(|| {
            let mut left = samples;
            while left > 0 {
                let first = self.queue.hold(BATCH);
                for _ in 0..left.min(HELD) {
                    ring.push([stores(bell, first)]);
                    plain.push([stores(self.plain, first)]);
                }
                self.queue.release();
                self.queue.drain();
                left = left.saturating_sub(HELD);
            }
        });
        ring.tell();
        plain.tell();
    }

    /// Lets the command processor finish earlier work, so that only the doorbell tells it of new work.
    fn settle(&self) {
        self.queue.drain();
        let from = ticks();
        while ticks() - from < SETTLING {}
    }

    /// Dispatches, one after the other: when the doorbell was rung, and when the program saw the signal.
    fn signals(&mut self, samples: u64) {
        let mut series = Series::new("signal", samples, 2);
        user::run(|| {
            for _ in 0..samples {
                self.settle();
                let signal = self.queue.dispatch(&self.kernel, &self.vectors, 0);
                let rung = ticks();
                self.queue.ring(&self.gpu);
                while signal.load(Ordering::Acquire) != 0 {}
                series.push([rung, ticks()]);
            }
        });
        series.tell();
    }

    /// Dispatches that interrupt: when the doorbell was rung, and when the handler began.
    fn interrupts(&mut self, samples: u64, rings: &mut Rings) {
        let mut series = Series::new("interrupt", samples, 2);
        user::run(|| {
            for _ in 0..samples {
                self.settle();
                let before = user::interrupts();
                self.queue.dispatch(&self.kernel, &self.vectors, EVENT);
                let rung = ticks();
                self.queue.ring(&self.gpu);
                while user::interrupts() == before {}
                series.push([rung, user::interrupted_at()]);
                while rings.interrupt(&self.gpu).is_some() {}
            }
        });
        series.tell();
    }
}
