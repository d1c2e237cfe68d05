//! The smallest driver of the GPU: a kernel of its own, alone on its machine, that reads from top to bottom.
//!
//! The driver finds the function on the PCI bus, sizes and moves its BARs, takes its interrupt, brings up the
//! KIQ and the MES, gives a process page tables and a queue, and has a compiled kernel add vectors. The host
//! chooses the way its doorbells travel, and nothing here depends on that. Every layout is `belfry-abi`'s.
//!
//! Machine: 64-bit long mode, the first 4 GiB mapped one to one, COM1 at 0x3f8, a byte written to port 0xf4 ends it.
//! There is no SSE, and on some hosts ring 0 is emulated: no floating point, no large copies.
//!
//! A host that asks for samples gets `bench.rs` instead.

#![no_std]
#![no_main]

mod bench;
mod cpu;
mod gpu;
mod memory;
mod pci;
mod process;
mod queue;
mod registers;
mod rings;
mod shader;
mod stress;
mod user;

use core::sync::atomic::Ordering;

use belfry_abi::ih::Source;
use belfry_abi::pci::{BAR_DOORBELLS, BAR_REGISTERS, BAR_VRAM};

use crate::cpu::{Serial, exit, say};
use crate::gpu::Gpu;
use crate::process::Process;
use crate::queue::Queue;
use crate::rings::Rings;

/// Work-items, and elements of each vector.
const COUNT: u32 = 256;
/// Dispatches in all.
const ROUNDS: u32 = 16;
/// Bursts of doorbells, with pauses of many lengths in between: the host may change how they travel at any time.
const BURSTS: u32 = 48;
/// Packets of a burst, each rung for.
const BURST: u64 = 8;
/// Identifies the process in interrupts.
const PASID: u16 = 0x8001;
/// The event the signals of the process name.
const EVENT: u32 = 42;
/// Address to which VRAM is moved: aligned to the largest size it can have.
const VRAM_AT: u64 = 0x8_0000_0000;
const DOORBELLS_AT: u64 = 0xc800_0000;
const REGISTERS_AT: u64 = 0xc700_0000;

/// Runs once, with a stack and nothing else.
fn main() {
    cpu::take_interrupts();

    // The function: where it is, how large its BARs are, and that they go where they are told to.
    let function =
        pci::find(belfry_abi::pci::VENDOR_ID, belfry_abi::pci::DEVICE_ID).expect("no GPU on the bus");
    let (before, vram_size) = function.bar(BAR_VRAM);
    let (_, doorbells_size) = function.bar(BAR_DOORBELLS);
    let (_, registers_size) = function.bar(BAR_REGISTERS);
    say!("GPU {function}: VRAM {} MiB at {before:#x}", vram_size >> 20);
    assert_eq!((doorbells_size, registers_size), (2 << 20, 1 << 20), "sizes of BARs");
    function.enable();
    memory::map(before);
    memory::poke(before + 0x1000, 0x6265_6c66_7279);
    function.disable();
    function.move_bar(BAR_VRAM, VRAM_AT);
    function.move_bar(BAR_DOORBELLS, DOORBELLS_AT);
    function.move_bar(BAR_REGISTERS, REGISTERS_AT);
    function.enable();
    memory::map(VRAM_AT);
    assert_eq!(memory::peek(VRAM_AT + 0x1000), 0x6265_6c66_7279, "VRAM after its BAR was moved");

    // The device: interrupts, the kernel's address space, its two rings.
    let gpu = Gpu { registers: REGISTERS_AT, doorbells: DOORBELLS_AT, vram: VRAM_AT };
    function.route_interrupts(&gpu, cpu::VECTOR);
    let mut rings = Rings::bring_up(&gpu);
    say!("KIQ and MES answer");

    // A process: page tables, a kernel, a queue, vectors.
    let mut process = Process::new(PASID);
    let kernel = shader::load(&gpu, &mut process, &mut rings);
    let mut queue = Queue::new(&gpu, &mut process, &mut rings);
    rings.add_queue(&gpu, &queue.frame(&process));
    let vectors = shader::Vectors::new(&gpu, &mut process, &mut rings, COUNT);

    for round in 1..=ROUNDS {
        vectors.clear();
        // The last interrupt finds its vector masked: it stays pending until it is let through.
        let masked = round == ROUNDS;
        function.mask_interrupts(&gpu, masked);
        let signal = queue.dispatch(&kernel, &vectors, EVENT);
        queue.ring(&gpu);
        if masked {
            while !function.interrupt_is_pending(&gpu) {}
            assert!(!cpu::interrupt_waits(), "an interrupt of a masked vector");
            function.mask_interrupts(&gpu, false);
            assert!(!function.interrupt_is_pending(&gpu), "an interrupt that was let through and is pending");
        }
        cpu::wait_until(|| cpu::interrupts() == u64::from(round));
        let entry = rings.interrupt(&gpu).expect("an interrupt without an entry");
        assert!(
            entry.source() == Source::CP_EOP_INTERRUPT && entry.pasid() == PASID && entry.data[0] == EVENT,
            "unexpected interrupt {entry:?}"
        );
        assert_eq!(signal.load(Ordering::Acquire), 0, "the signal of a dispatch that has completed");
        vectors.verify();
    }
    for burst in 0..BURSTS {
        queue.burst(&gpu, BURST);
        cpu::pause(burst * 37 % 250);
    }
    rings.remove_queue(&gpu, queue.doorbell(), queue.gang());
    let doorbells = u64::from(ROUNDS) + u64::from(BURSTS) * BURST;
    let interrupts = cpu::interrupts();
    say!("verified: {COUNT} sums, {ROUNDS} times, {interrupts} interrupts, {doorbells} doorbells");
}

/// Entry from `start`.
extern "C" fn run() -> ! {
    match (bench::samples(), stress::rings()) {
        (0, 0) => main(),
        (0, rings) => stress::main(rings),
        (samples, _) => bench::main(samples),
    }
    exit(0)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use core::fmt::Write as _;
    let _ = writeln!(Serial, "bare-metal guest failed: {info}");
    exit(1)
}
