//! Rings without end: bursts and pauses of many lengths, while the doorbells' BAR moves.
//!
//! Every burst waits for its last packet, which the device does not find if it misses the doorbell. Ring 3 rings the
//! doorbells, at the processor's speed on every host; the host gives the number of rings at [`RINGS_AT`].

use belfry_abi::pci::{BAR_DOORBELLS, BAR_REGISTERS, BAR_VRAM, DEVICE_ID, VENDOR_ID};

use crate::cpu::{self, say};
use crate::gpu::Gpu;
use crate::memory::{self, peek};
use crate::pci;
use crate::process::Process;
use crate::queue::{PACKETS, Queue};
use crate::rings::Rings;
use crate::user::{self, ticks};

/// Address at which the host puts the number of doorbell rings that it wants.
const RINGS_AT: u64 = 0x3f_f008;
const PASID: u16 = 0x8001;
/// Bursts between two pauses that are long enough for a host to change its mind, and between two moves.
const PAUSE: u64 = 32;
const MOVE: u64 = 500;
/// Ticks of the longest pause: some milliseconds.
const LONG: u64 = 8_000_000;
const PLACES: [u64; 2] = [0xc800_0000, 0xd000_0000];

/// Doorbells the host asks for; 0: it wants something else.
pub fn rings() -> u64 {
    peek(RINGS_AT)
}

/// Rings.
pub fn main(wanted: u64) {
    cpu::take_interrupts();
    let function = pci::find(VENDOR_ID, DEVICE_ID).expect("no GPU on the bus");
    let base = |bar| function.bar(bar).0;
    let mut gpu = Gpu { registers: base(BAR_REGISTERS), doorbells: PLACES[0], vram: base(BAR_VRAM) };
    function.move_bar(BAR_DOORBELLS, PLACES[0]);
    function.enable();
    memory::map(gpu.vram);
    let mut rings = Rings::bring_up(&gpu);
    let mut process = Process::new(PASID);
    let mut queue = Queue::new(&gpu, &mut process, &mut rings);
    rings.add_queue(&gpu, &queue.frame(&process));
    user::prepare();

    let (mut rung, mut bursts, mut moves) = (0, 0u64, 0);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    user::run(|| {
        while rung < wanted {
            // Marsaglia's xorshift.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let burst = (1 + (random >> 32) % PACKETS).min(wanted - rung);
            queue.burst(&gpu, burst);
            rung += burst;
            bursts += 1;
            if bursts.is_multiple_of(PAUSE) {
                let (start, pause) = (ticks(), (random >> 16) % LONG);
                while ticks().wrapping_sub(start) < pause {}
            }
            if bursts.is_multiple_of(MOVE) {
                moves += 1;
                gpu.doorbells = PLACES[moves % PLACES.len()];
                function.disable();
                function.move_bar(BAR_DOORBELLS, gpu.doorbells);
                function.enable();
            }
        }
    });
    rings.remove_queue(&gpu, queue.doorbell(), queue.gang());
    say!("verified: {rung} doorbells in {bursts} bursts, {moves} moves");
}
