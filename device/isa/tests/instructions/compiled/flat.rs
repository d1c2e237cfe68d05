//! Loads and stores by FLAT, as compiled code does them, against the interpreter: lanes in global memory, in LDS and in private memory.

use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::common::{APERTURES, Random};
use super::super::{Bench, lanes};
use super::{Access, EXECS, Outcome, PAGE, PAGES, byte, difference, element, pattern, tiers};

/// Addresses in `v[0:1]`, data from `v4` on, results from `v8` on; llvm-mc-19 -mcpu=gfx1100.
const FLAT: [Access; 13] = [
    ("flat_load_b32 v8, v[0:1]", [0xdc50_0000, 0x087c_0000]),
    ("flat_load_b32 v8, v[0:1] offset:4092", [0xdc50_0ffc, 0x087c_0000]),
    ("flat_load_b64 v[8:9], v[0:1]", [0xdc54_0000, 0x087c_0000]),
    ("flat_load_b96 v[8:10], v[0:1]", [0xdc58_0000, 0x087c_0000]),
    ("flat_load_b128 v[0:3], v[0:1]", [0xdc5c_0000, 0x007c_0000]),
    ("flat_load_u8 v8, v[0:1]", [0xdc40_0000, 0x087c_0000]),
    ("flat_load_d16_hi_b16 v8, v[0:1]", [0xdc8c_0000, 0x087c_0000]),
    ("flat_store_b32 v[0:1], v4", [0xdc68_0000, 0x007c_0400]),
    ("flat_store_b64 v[0:1], v[4:5]", [0xdc6c_0000, 0x007c_0400]),
    ("flat_store_b96 v[0:1], v[4:6]", [0xdc70_0000, 0x007c_0400]),
    ("flat_store_b128 v[0:1], v[4:7]", [0xdc74_0000, 0x007c_0400]),
    ("flat_store_b8 v[0:1], v4", [0xdc60_0000, 0x007c_0400]),
    ("flat_store_b16 v[0:1], v4", [0xdc64_0000, 0x007c_0400]),
];

/// The memory that a lane's address is in.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Global,
    Shared,
    Private,
}

/// Offsets in memories of all lanes.
type Places = [(Memory, u32); 64];

fn places(bytes: u32) -> Vec<Places> {
    use Memory::{Global, Private, Shared};
    let mut random = Random(0x9abc_def0 + u64::from(bytes));
    let mut next = |below: u32| (random.next() >> 33) as u32 % below;
    let of = |f: &dyn Fn(u32) -> (Memory, u32)| core::array::from_fn(|lane| f(lane as u32));
    vec![
        of(&|lane| (Global, lane * bytes)),
        of(&|lane| (Global, PAGE - 64 + lane * bytes)),
        of(&|_| (Global, 40)),
        of(&|lane| (Global, lane % 16 * 700 + 4)),
        of(&|lane| (Shared, lane * bytes % 1000)),
        of(&|_| (Shared, 36)),
        of(&|lane| (Private, lane % 4 * 4)),
        of(&|_| (Private, 8)),
        of(&|lane| (if lane == 0 { Shared } else { Global }, lane * bytes % 1000)),
        of(&|lane| (if lane == 17 { Shared } else { Global }, lane * bytes % 1000)),
        of(&|lane| (if lane == 31 { Private } else { Global }, if lane == 31 { 4 } else { lane * bytes })),
        of(&|lane| ([Global, Shared, Private][lane as usize % 3], lane % 8 * 4)),
        core::array::from_fn(|_| (Global, next(2 * PAGE))),
    ]
}

struct Runner {
    bench: Bench,
    memory: u64,
    size: WaveSize,
}

impl Runner {
    fn new(backend: Backend, size: WaveSize, access: Access) -> Runner {
        let mut bench = Bench::new(backend, &[access.1[0], access.1[1], 0xbfb0_0000]);
        let memory = bench.gpu.alloc((PAGES as usize + 2) * PAGE as usize).next_multiple_of(u64::from(PAGE));
        Runner { bench, memory: memory + u64::from(PAGE), size }
    }

    fn run(&mut self, places: &Places, exec: u64) -> Outcome {
        let bytes: Vec<u8> = (0..PAGES * PAGE).map(byte).collect();
        self.bench.gpu.memory.write(self.memory, &bytes);
        for (at, byte) in self.bench.gpu.lds.bytes_mut().iter_mut().enumerate() {
            *byte = (at * 5 + at / 253 + 3) as u8;
        }
        self.bench.gpu.memory.write(self.bench.scratch, &[0x5a; 8192]);
        let address = places.map(|(memory, offset)| {
            let base = match memory {
                Memory::Global => self.memory,
                Memory::Shared => APERTURES.shared_base,
                Memory::Private => APERTURES.private_base,
            };
            base + u64::from(offset)
        });
        let mut vgprs: Vec<[u32; 64]> =
            (0..32).map(|register| lanes(|lane| pattern(register, lane))).collect();
        (vgprs[0], vgprs[1]) = (address.map(|at| at as u32), address.map(|at| (at >> 32) as u32));
        let mut wave = Wave::new(&WaveInit {
            pc: self.bench.pc,
            exec,
            wave_size: self.size,
            vgprs: &vgprs,
            vgpr_count: 32,
            scratch_base: self.bench.scratch,
            scratch_size_per_lane: 64,
            ..WaveInit::default()
        });
        let stop = self.bench.run(&mut wave);
        let mut outcome = Outcome::of(stop, &wave, &self.bench, self.memory);
        outcome.memory.extend(self.bench.gpu.memory.read(self.bench.scratch, 8192));
        outcome
    }
}

fn compare(size: WaveSize) {
    for tiers in tiers() {
        for access in FLAT {
            let mut runners = tiers.map(|backend| Runner::new(backend, size, access));
            for places in places(element(access.0)) {
                for exec in EXECS {
                    for round in 0..2 {
                        let [expected, found] = runners.each_mut().map(|runner| runner.run(&places, exec));
                        assert!(
                            expected == found,
                            "{:?} {} {size:?} {exec:x} round {round} {places:x?}\n{}",
                            tiers[1],
                            access.0,
                            difference(&expected, &found)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn flat_memory_in_waves_of_32_lanes() {
    compare(WaveSize::Wave32);
}

#[test]
fn flat_memory_in_waves_of_64_lanes() {
    compare(WaveSize::Wave64);
}
