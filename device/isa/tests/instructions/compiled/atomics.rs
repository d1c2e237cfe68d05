//! Atomics as compiled code does them, against the interpreter: the same registers, memory, LDS and faults, for all
//! functions and all places of the lanes' elements.

mod functions;
mod threads;

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use self::functions::{Atomic, atomics};
use super::{Case, EXECS, LDS_BYTES, Outcome, PAGE, PAGES, cases, difference, tiers};
use crate::common::{Gpu, Random};
use crate::{Bench, lanes};

/// v_xor_b32_e32 v0, v0, v30; v_xor_b32_e32 v8, v8, v31; v_xor_b32_e32 v4, v4, v29: rows that memory does not have yet. Then the atomic, and
/// v_xor_b32_e32 v20, v8, v4; v_xor_b32_e32 v21, v0, v5; s_endpgm.
fn program(arch: Arch, atomic: &[u32]) -> Vec<u32> {
    let (xor, end) = if arch.is_gfx9() { (0x2a00_0100, 0xbf81_0000) } else { (0x3a00_0100, 0xbfb0_0000) };
    let xor = |to: u32, a: u32, b: u32| xor | to << 17 | b << 9 | a;
    let before = [xor(0, 0, 30), xor(8, 8, 31), xor(4, 4, 29)];
    [&before, atomic, &[xor(20, 8, 4), xor(21, 0, 5), end]].concat()
}

/// Values of memory and operands.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Anything.
    Any,
    /// Words that functions have their corners at; those of doubles with zeros below them.
    Corners,
    /// Zeros and ones, that often are the same.
    Few,
}

const CORNERS: [u32; 16] = [
    0,
    1,
    u32::MAX,
    0x8000_0000,
    0x7fff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_1234,
    0xffc0_4321,
    0x7f80_0001,
    0xff80_5678,
    0x0000_0123,
    0x7ff0_0000,
    0xfff0_0000,
];

impl Values {
    fn word(self, random: &mut Random) -> u32 {
        let word = (random.next() >> 32) as u32;
        match self {
            Values::Any => word,
            Values::Corners => CORNERS[word as usize % CORNERS.len()],
            Values::Few => word & 1,
        }
    }
}

/// One atomic, in a program.
struct Runner {
    bench: Bench,
    memory: u64,
    size: WaveSize,
    atomic: Atomic,
    vgprs: Vec<[u32; 64]>,
    bytes: Vec<u8>,
    /// A lane whose address is 4 GiB further on.
    far: Option<usize>,
}

impl Runner {
    fn new(backend: Backend, (arch, atomic): (Arch, Atomic), size: WaveSize, values: Values) -> Runner {
        let mut gpu = Gpu::of(arch, backend, 1 << 20);
        let pc = gpu.buffer(&program(arch, &atomic.words));
        gpu.lds.reset(LDS_BYTES);
        // With a page before it, which nothing else is in.
        let memory = gpu.alloc((PAGES as usize + 2) * PAGE as usize).next_multiple_of(u64::from(PAGE));
        let memory = memory + u64::from(PAGE);
        let mut random = Random(0x0a70_31c5 + u64::from(atomic.bytes));
        let words = (0..PAGES * PAGE / 4).map(|_| values.word(&mut random));
        let bytes = words.flat_map(u32::to_le_bytes).collect();
        let mut vgprs: Vec<[u32; 64]> =
            (0..32).map(|_| core::array::from_fn(|_| values.word(&mut random))).collect();
        // What addresses are xored with.
        vgprs[30] = [16; 64];
        Runner { bench: Bench { gpu, pc, scratch: 0 }, memory, size, atomic, vgprs, bytes, far: None }
    }

    fn run(&mut self, case: &Case) -> Outcome {
        let gpu = &mut self.bench.gpu;
        gpu.memory.write(self.memory, &self.bytes);
        gpu.lds.bytes_mut().copy_from_slice(&self.bytes[..LDS_BYTES as usize]);
        let base = if self.atomic.global && !self.atomic.scalar { self.memory } else { 0 };
        self.vgprs[0] = case.addresses.map(|address| address.wrapping_add(base as u32) ^ 16);
        if self.atomic.global && !self.atomic.scalar {
            self.vgprs[1] = [(base >> 32) as u32; 64];
            self.far.into_iter().for_each(|lane| self.vgprs[1][lane] += 1);
        }
        let mut sgprs = [0; 16];
        (sgprs[4], sgprs[5]) = (self.memory as u32, (self.memory >> 32) as u32);
        let mut wave = Wave::new(&WaveInit {
            arch: gpu.code.arch(),
            pc: self.bench.pc,
            exec: case.exec,
            wave_size: self.size,
            vgprs: &self.vgprs,
            sgprs: &sgprs,
            vgpr_count: 32,
            ..WaveInit::default()
        });
        let stop = self.bench.run(&mut wave);
        Outcome::of(stop, &wave, &self.bench, self.memory)
    }

    /// The third page is missing, or may only be read.
    fn hide(&mut self, hides: bool, readable: bool) {
        let memory = &mut self.bench.gpu.memory;
        match (hides, readable) {
            (false, _) => memory.unhide(),
            (true, false) => memory.hide(self.memory + 2 * u64::from(PAGE)),
            (true, true) => memory.protect(self.memory + 2 * u64::from(PAGE)),
        }
    }
}

/// Each case in both tiers, of each of the kinds of processors.
fn compare(
    (arch, atomic): (Arch, &Atomic),
    size: WaveSize,
    values: Values,
    (cases, readable): (&[Case], bool),
) -> Vec<Stop> {
    let mut stops = Vec::new();
    for tiers in tiers() {
        let mut runners = tiers.map(|backend| Runner::new(backend, (arch, atomic.clone()), size, values));
        let mut hidden = false;
        for case in cases {
            if hidden != case.hides {
                hidden = case.hides;
                runners.iter_mut().for_each(|runner| runner.hide(hidden, readable));
            }
            // Pages come into the TLB by handlers; the second run finds them there.
            for round in 0..2 {
                let [expected, found] = runners.each_mut().map(|runner| runner.run(case));
                assert!(
                    expected == found,
                    "{:?} {arch:?} {} {size:?} {values:?} round {round} {case:x?}\n{}",
                    tiers[1],
                    atomic.name,
                    difference(&expected, &found)
                );
                stops.push(expected.stop);
            }
        }
    }
    stops
}

fn sizes(arch: Arch) -> &'static [WaveSize] {
    if arch.is_gfx9() { &[WaveSize::Wave64] } else { &[WaveSize::Wave32, WaveSize::Wave64] }
}

const ARCHS: [Arch; 3] = [Arch::Gfx1100, Arch::Gfx942, Arch::Gfx1201];

/// Addresses that most atomics have: their own element for each lane, one for all, one for some, and any.
fn usual(atomic: &Atomic) -> Vec<Case> {
    let bytes = atomic.bytes;
    let mut random = Random(0x7573_7561_6c00 + u64::from(bytes));
    let mut any = |elements: u32| [0; 64].map(|_: u32| (random.next() >> 33) as u32 % elements * bytes);
    let places = [
        lanes(|lane| lane * bytes),
        lanes(|_| 5 * bytes),
        lanes(|lane| (lane & 3) * bytes + 32),
        any(64),
        any(LDS_BYTES / bytes - 4),
    ];
    // With the offset they are multiples of the size; without it, that of the first element may be negative.
    let offset = atomic.offset % bytes;
    let case = |addresses: [u32; 64], exec| {
        let addresses = addresses.map(|at| at.wrapping_sub(offset));
        Case { addresses, exec, hides: false }
    };
    places.iter().flat_map(|addresses| EXECS.map(|exec| case(*addresses, exec))).collect()
}

#[test]
fn every_function_does_what_its_handler_does() {
    for arch in ARCHS {
        for atomic in atomics(arch) {
            let cases = usual(&atomic);
            for &size in sizes(arch) {
                for values in [Values::Any, Values::Corners, Values::Few] {
                    let stops = compare((arch, &atomic), size, values, (&cases, false));
                    let ends = stops.iter().all(|stop| *stop == Stop::EndProgram);
                    assert!(ends, "{arch:?} {} {size:?}: {:?}", atomic.name, stops[0]);
                }
            }
        }
    }
}

/// All cases of loads and stores, and those with addresses that are multiples of the size.
fn everywhere(global: bool, bytes: u32, edges: &[u32]) -> Vec<Case> {
    let aligned = |case: &Case| Case { addresses: case.addresses.map(|at| at & !(bytes - 1)), ..*case };
    let all = cases(global, bytes, edges);
    let mut both: Vec<Case> =
        all.iter().map(aligned).chain(all.iter().map(|case| aligned_but_one(case, bytes))).collect();
    both.extend(all);
    both.sort_by_key(|case| case.hides);
    both
}

/// One lane is off.
fn aligned_but_one(case: &Case, bytes: u32) -> Case {
    let mut addresses = case.addresses.map(|at| at & !(bytes - 1));
    addresses[addresses[7] as usize / 4 % 64] += bytes / 2;
    Case { addresses, ..*case }
}

/// Some functions, with all that may be different about where elements are.
fn compare_everywhere(global: bool, readable: bool) {
    for arch in ARCHS {
        let some = atomics(arch).into_iter().filter(|atomic| atomic.global == global && atomic.is_typical);
        for atomic in some {
            for &size in sizes(arch) {
                // Other chips have other words for the same.
                let last = if size == WaveSize::Wave32 { 31 } else { 63 };
                let edges = if arch == Arch::Gfx1100 { &[0, 17, last][..] } else { &[17] };
                let mut cases = everywhere(global, atomic.bytes, edges);
                if readable {
                    cases.retain(|case| case.hides);
                }
                compare((arch, &atomic), size, Values::Any, (&cases, readable));
            }
        }
    }
}

#[test]
fn lds_is_accessed_where_it_is_aligned_and_in_range() {
    compare_everywhere(false, false);
}

#[test]
fn global_memory_is_accessed_where_it_is_aligned_and_there() {
    compare_everywhere(true, false);
}

#[test]
fn pages_that_may_only_be_read_are_not_written() {
    compare_everywhere(true, true);
}

#[test]
fn lanes_of_other_places_of_4_gib_are_left_to_the_handler() {
    // Each lane's high half is its own: the interpreter finds no page there.
    for atomic in atomics(Arch::Gfx1100).into_iter().filter(|atomic| atomic.global && !atomic.scalar) {
        for size in [WaveSize::Wave32, WaveSize::Wave64] {
            for tiers in tiers() {
                let [expected, found] = tiers.map(|backend| {
                    let mut runner = Runner::new(backend, (Arch::Gfx1100, atomic.clone()), size, Values::Any);
                    [u64::MAX, 0x0001_0203_8001_0203].map(|exec| {
                        let case = Case { addresses: lanes(|lane| lane * 8), exec, hides: false };
                        [None, Some(0), Some(9), Some(31)].map(|far| {
                            runner.far = far;
                            runner.run(&case)
                        })
                    })
                });
                assert!(expected == found, "{:?} {} {size:?}", tiers[1], atomic.name);
            }
        }
    }
}
