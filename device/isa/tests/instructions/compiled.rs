//! Loads and stores as compiled code does them, against the interpreter: registers, memory and faults must be equal
//! for all places of the lanes' elements.

mod alike;
mod atomics;
mod buffers;
mod flat;
mod guessed;
mod known;
mod masks;
mod narrow;
mod pressure;
mod rounds;
mod stretches;
mod turns;
mod wrapped;

use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::{Backend, BackendKind, Tier};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Random;
use super::{Bench, lanes};

/// The interpreter and the compiler for each kind of instructions that this host has and that is compiled for.
pub(super) fn tiers() -> impl Iterator<Item = [Backend; 2]> {
    let kinds = [BackendKind::Avx2, BackendKind::Avx512].into_iter().filter_map(Backend::force);
    kinds.map(|interpreter| [interpreter, interpreter.with_tier(Tier::One)])
}

/// v_xor_b32_e32 v0, v0, v30; v_xor_b32_e32 v8, v8, v31; v_add_nc_u32_e32 v4, v4, v31: rows that memory does not have yet.
const BEFORE: [u32; 3] = [0x3a00_3d00, 0x3a10_3f08, 0x4a08_3f04];
/// v_add_nc_u32_e32 v20, v8, v4; s_endpgm.
const AFTER: [u32; 2] = [0x4a28_0908, 0xbfb0_0000];

/// A row that is xored with another one: v_xor_b32_e32 vD, vD, v4.
const fn xor(row: u32) -> u32 {
    0x3a00_0800 | row << 17 | (0x100 + row)
}

/// More rows than there are registers for, whole: such code is gone through for some lanes after the others, loads of LDS included.
const MANY: [u32; 16] = {
    let mut words = [0; 16];
    let mut n = 0;
    while n < 16 {
        words[n] = xor(n as u32 + 12);
        n += 1;
    }
    words
};
/// v_add_nc_u32_e32 v29, 64, v0; ds_load_2addr_b32 v[10:11], v29 offset1:1; v_add_nc_u32_e32 v29, v10, v0; ds_load_b32 v28, v29;
/// v_xor_b32_e32 v28, v28, v4; v_mov_b32_e32 v0, v11; s_endpgm.
const MANY_MORE: [u32; 9] = [
    0x4a3a_00c0,
    0xd8dc_0100,
    0x0a00_001d,
    0x4a3a_010a,
    0xd8d8_0000,
    0x1c00_001d,
    xor(28),
    0x7e00_030b,
    0xbfb0_0000,
];

/// An instruction's text, and its words; llvm-mc-19 -mcpu=gfx1100.
type Access = (&'static str, [u32; 2]);

/// Addresses in `v[0:1]`, or `v0` and `s[4:5]`, data from `v4` on, results from `v8` on, in some instead of the address.
const GLOBAL: [Access; 23] = [
    ("global_load_b32 v8, v[0:1], off offset:4", [0xdc52_0004, 0x087c_0000]),
    ("global_load_b32 v8, v0, s[4:5] offset:-4", [0xdc52_1ffc, 0x0804_0000]),
    ("global_load_b64 v[8:9], v[0:1], off", [0xdc56_0000, 0x087c_0000]),
    ("global_load_b96 v[8:10], v[0:1], off", [0xdc5a_0000, 0x087c_0000]),
    ("global_load_b128 v[8:11], v[0:1], off", [0xdc5e_0000, 0x087c_0000]),
    ("global_load_b128 v[0:3], v[0:1], off", [0xdc5e_0000, 0x007c_0000]),
    ("global_load_u8 v8, v[0:1], off", [0xdc42_0000, 0x087c_0000]),
    ("global_load_i8 v8, v[0:1], off offset:1", [0xdc46_0001, 0x087c_0000]),
    ("global_load_u16 v8, v0, s[4:5]", [0xdc4a_0000, 0x0804_0000]),
    ("global_load_i16 v8, v[0:1], off", [0xdc4e_0000, 0x087c_0000]),
    ("global_load_d16_b16 v8, v[0:1], off", [0xdc82_0000, 0x087c_0000]),
    ("global_load_d16_hi_b16 v8, v[0:1], off", [0xdc8e_0000, 0x087c_0000]),
    ("global_load_d16_i8 v8, v[0:1], off", [0xdc7e_0000, 0x087c_0000]),
    ("global_load_d16_hi_u8 v8, v[0:1], off", [0xdc86_0000, 0x087c_0000]),
    ("global_store_b32 v[0:1], v4, off", [0xdc6a_0000, 0x007c_0400]),
    ("global_store_b32 v0, v4, s[4:5] offset:8", [0xdc6a_0008, 0x0004_0400]),
    ("global_store_b64 v[0:1], v[4:5], off", [0xdc6e_0000, 0x007c_0400]),
    ("global_store_b96 v[0:1], v[4:6], off", [0xdc72_0000, 0x007c_0400]),
    ("global_store_b128 v[0:1], v[4:7], off", [0xdc76_0000, 0x007c_0400]),
    ("global_store_b8 v[0:1], v4, off", [0xdc62_0000, 0x007c_0400]),
    ("global_store_b16 v[0:1], v4, off", [0xdc66_0000, 0x007c_0400]),
    ("global_store_d16_hi_b8 v[0:1], v4, off", [0xdc92_0000, 0x007c_0400]),
    ("global_store_d16_hi_b16 v[0:1], v4, off", [0xdc96_0000, 0x007c_0400]),
];

/// Addresses in `v0`.
const LDS: [Access; 23] = [
    ("ds_load_b32 v8, v0 offset:4", [0xd8d8_0004, 0x0800_0000]),
    ("ds_load_b64 v[8:9], v0", [0xd9d8_0000, 0x0800_0000]),
    ("ds_load_b96 v[8:10], v0", [0xdbf8_0000, 0x0800_0000]),
    ("ds_load_b128 v[8:11], v0", [0xdbfc_0000, 0x0800_0000]),
    ("ds_load_b128 v[0:3], v0", [0xdbfc_0000, 0x0000_0000]),
    ("ds_load_2addr_b32 v[8:9], v0 offset1:1", [0xd8dc_0100, 0x0800_0000]),
    ("ds_load_2addr_b32 v[8:9], v0 offset0:1 offset1:9", [0xd8dc_0901, 0x0800_0000]),
    ("ds_load_2addr_b32 v[0:1], v0 offset0:3 offset1:1", [0xd8dc_0103, 0x0000_0000]),
    ("ds_load_2addr_b64 v[8:11], v0 offset1:2", [0xd9dc_0200, 0x0800_0000]),
    ("ds_load_2addr_stride64_b32 v[8:9], v0 offset1:1", [0xd8e0_0100, 0x0800_0000]),
    ("ds_load_u8 v8, v0", [0xd8e8_0000, 0x0800_0000]),
    ("ds_load_i8 v8, v0 offset:3", [0xd8e4_0003, 0x0800_0000]),
    ("ds_load_u16 v8, v0", [0xd8f0_0000, 0x0800_0000]),
    ("ds_load_i16 v8, v0", [0xd8ec_0000, 0x0800_0000]),
    ("ds_load_u8_d16_hi v8, v0", [0xda8c_0000, 0x0800_0000]),
    ("ds_load_u16_d16 v8, v0", [0xda98_0000, 0x0800_0000]),
    ("ds_store_b32 v0, v4", [0xd834_0000, 0x0000_0400]),
    ("ds_store_b64 v0, v[4:5]", [0xd934_0000, 0x0000_0400]),
    ("ds_store_b96 v0, v[4:6]", [0xdb78_0000, 0x0000_0400]),
    ("ds_store_b128 v0, v[4:7] offset:16", [0xdb7c_0010, 0x0000_0400]),
    ("ds_store_b8 v0, v4", [0xd878_0000, 0x0000_0400]),
    ("ds_store_2addr_b32 v0, v4, v5 offset1:2", [0xd838_0200, 0x0005_0400]),
    ("ds_store_2addr_b64 v0, v[4:5], v[6:7] offset1:2", [0xd938_0200, 0x0006_0400]),
];

const LDS_BYTES: u32 = 2048;
const PAGE: u32 = 4096;
/// Pages of the memory that is accessed; the third one is missing where there are to be faults.
const PAGES: u32 = 4;

/// State after a run.
#[derive(PartialEq, Debug)]
struct Outcome {
    stop: Stop,
    pc: u64,
    instructions: u64,
    registers: Vec<u32>,
    vcc: u64,
    memory: Vec<u8>,
    lds: Vec<u8>,
}

/// The lanes' addresses, from the begin of the memory or of LDS on, and EXEC.
#[derive(Debug)]
struct Case {
    addresses: [u32; 64],
    exec: u64,
    /// True if the third page is missing.
    hides: bool,
}

struct Runner {
    bench: Bench,
    memory: u64,
    size: WaveSize,
    access: Access,
}

impl Outcome {
    /// Returns the state of a wave, of LDS, and of memory from an address on.
    fn of(stop: Stop, wave: &Wave, bench: &Bench, memory: u64) -> Outcome {
        let lanes = wave.lanes();
        Outcome {
            stop,
            pc: wave.pc() - bench.pc,
            instructions: wave.instructions,
            registers: (0..32)
                .flat_map(|n| (0..lanes).map(move |lane| (n, lane)))
                .map(|(n, lane)| wave.vgpr(n, lane))
                .collect(),
            vcc: wave.vcc(),
            memory: bench.gpu.memory.read(memory, (PAGES * PAGE) as usize),
            lds: bench.gpu.lds.bytes().to_vec(),
        }
    }
}

/// A byte of the accessed memory, before.
fn byte(at: u32) -> u8 {
    (at * 7 + at / 251 + 1) as u8
}

/// A lane of a vector register, before.
fn pattern(register: u32, lane: u32) -> u32 {
    (lane * 0x0103_0507 + 0x80).wrapping_mul(register * 2 + 1)
}

impl Runner {
    fn new(backend: Backend, access: Access, size: WaveSize, (before, after): (&[u32], &[u32])) -> Runner {
        let words = [before, &access.1, after].concat();
        let mut bench = Bench::new(backend, &words);
        // With a page before it, which nothing else is in.
        let memory = bench.gpu.alloc((PAGES as usize + 2) * PAGE as usize).next_multiple_of(u64::from(PAGE));
        let memory = memory + u64::from(PAGE);
        bench.gpu.lds.reset(LDS_BYTES);
        Runner { bench, memory, size, access }
    }

    fn run(&mut self, case: &Case) -> Outcome {
        let bytes: Vec<u8> = (0..PAGES * PAGE).map(byte).collect();
        self.bench.gpu.memory.write(self.memory, &bytes);
        for (at, byte) in self.bench.gpu.lds.bytes_mut().iter_mut().enumerate() {
            *byte = (at * 5 + at / 253 + 3) as u8;
        }
        let mut vgprs: Vec<[u32; 64]> =
            (0..32).map(|register| lanes(|lane| pattern(register, lane))).collect();
        let global = !self.access.0.starts_with("ds");
        let base = if global && !self.access.0.contains("s[4:5]") { self.memory } else { 0 };
        vgprs[0] = case.addresses.map(|address| address.wrapping_add(base as u32));
        if global {
            vgprs[1] = [(base >> 32) as u32; 64];
        }
        vgprs[30] = [0; 64];
        let mut sgprs = [0; 16];
        (sgprs[4], sgprs[5]) = (self.memory as u32, (self.memory >> 32) as u32);
        let mut wave = Wave::new(&WaveInit {
            pc: self.bench.pc,
            exec: case.exec,
            wave_size: self.size,
            vgprs: &vgprs,
            sgprs: &sgprs,
            vgpr_count: 32,
            ..WaveInit::default()
        });
        let stop = self.bench.run(&mut wave);
        Outcome::of(stop, &wave, &self.bench, self.memory)
    }

    fn hide(&mut self, hides: bool) {
        if hides {
            self.bench.gpu.memory.hide(self.memory + 2 * u64::from(PAGE));
        } else {
            self.bench.gpu.memory.unhide();
        }
    }
}

/// Sets of active lanes.
const EXECS: [u64; 7] = [
    u64::MAX,
    0xaaaa_5555_aaaa_5555,
    0xffff_ffff_ffff_fffe,
    1 << 17 | 1 << 40,
    0xffff_0000_0000,
    0,
    0x7fff_ffff_7fff_ffff,
];

/// Places of addresses that are no edges.
const PLACES: usize = 22;

/// Cases with elements of `bytes` bytes. In turn, every lane of `edges` is at the edge of a page or of LDS.
fn cases(global: bool, bytes: u32, edges: &[u32]) -> Vec<Case> {
    let mut random = Random(0x1234_5678_9abc_def0 + u64::from(bytes));
    let mut next = |below: u32| (random.next() >> 33) as u32 % below;
    let room = if global { PAGE } else { LDS_BYTES };
    let mut places = vec![
        lanes(|lane| lane * bytes),
        lanes(|lane| 8 + lane * bytes),
        lanes(|_| 36),
        lanes(|lane| lane / 16 * 48 + 4),
        lanes(|lane| lane % 16 * 16 + 4),
        lanes(|lane| lane % 32 * bytes + lane / 32 * 64),
        lanes(|lane| lane / 32 * 72 + 8),
        lanes(|lane| (lane % 32 * bytes + lane / 32 * PAGE) % (2 * room)),
        lanes(|lane| lane * 32 % room),
        lanes(|lane| 1003 - lane * 4),
        lanes(|lane| 100 + lane * 2),
        core::array::from_fn(|_| next(room - 32)),
        core::array::from_fn(|_| next(2 * room - 64)),
        lanes(|lane| (lane & 1) * PAGE + lane * 8),
        lanes(|lane| lane * 200),
        // Behind a scalar base, the first eight are 4 GiB away.
        lanes(|lane| (lane * 8).wrapping_sub(64)),
        lanes(|lane| (lane ^ 40).wrapping_mul(264).wrapping_sub(264 * 3)),
        // Sixteens that follow each other by themselves, upwards and downwards, and that are the same.
        lanes(|lane| lane % 16 * bytes + lane / 16 * 520 + 12),
        lanes(|lane| lane % 16 * bytes + (3 - lane / 16) * 500),
        lanes(|lane| (lane % 16 * bytes + (3 - lane / 16) * (PAGE - 64)) % (2 * room)),
        lanes(|lane| (3 - lane / 16) * 172),
        // As for matrix instructions: sixteen lanes in some pages, and others with the same addresses.
        lanes(|lane| (lane % 16 * 700 + 4) % (2 * room)),
    ];
    assert_eq!(places.len(), PLACES);
    for &edge in edges {
        let end = if global { 2 * PAGE } else { LDS_BYTES };
        // The element at the edge is the first one beyond, or across it, or the last one before.
        for beyond in [0, bytes / 2, bytes] {
            places.push(lanes(|lane| {
                end.wrapping_sub(beyond).wrapping_add(lane.wrapping_sub(edge).wrapping_mul(bytes))
            }));
            places.push(lanes(|lane| if lane == edge { end - beyond } else { 64 + lane * bytes % 512 }));
        }
    }
    let hides = if global { &[false, true][..] } else { &[false] };
    let mut cases = Vec::new();
    for &hides in hides {
        for (n, addresses) in places.iter().enumerate() {
            // All sets of lanes where edges do not make too many of it.
            let sets = if n < PLACES { &EXECS[..] } else { &EXECS[..2] };
            cases.extend(sets.iter().map(|&exec| Case { addresses: *addresses, exec, hides }));
        }
    }
    cases
}

/// Bytes of an element, by the name of the instruction.
fn element(text: &str) -> u32 {
    let name = text.split(' ').next().unwrap_or_default();
    [("b128", 16), ("b96", 12), ("2addr_b64", 8), ("b64", 8), ("b32", 4), ("16", 2), ("8", 1)]
        .into_iter()
        .find(|(part, _)| name.replace("d16", "").contains(part))
        .map_or(1, |(_, bytes)| bytes)
}

fn compare(access: Access, size: WaveSize, around: (&[u32], &[u32])) {
    tiers().for_each(|tiers| compare_tiers(access, size, around, tiers));
}

fn compare_tiers(access: Access, size: WaveSize, around: (&[u32], &[u32]), tiers: [Backend; 2]) {
    let lanes = if size == WaveSize::Wave32 { 32 } else { 64 };
    let edges = [0, 1, 15, 16, 17, lanes / 2, lanes - 1];
    let mut runners = tiers.map(|backend| Runner::new(backend, access, size, around));
    let mut hidden = false;
    for case in cases(access.0.starts_with("global"), element(access.0), &edges) {
        if hidden != case.hides {
            hidden = case.hides;
            runners.iter_mut().for_each(|runner| runner.hide(hidden));
        }
        // Pages come into the TLB by handlers; the second run finds them there.
        for round in 0..2 {
            let [expected, found] = runners.each_mut().map(|runner| runner.run(&case));
            assert!(
                expected == found,
                "{:?} {} {size:?} round {round} {case:x?}\n{}",
                tiers[1],
                access.0,
                difference(&expected, &found)
            );
        }
    }
}

/// Describes the first differences of two outcomes.
fn difference(a: &Outcome, b: &Outcome) -> String {
    let lanes = a.registers.len() / 32;
    let register = (0..a.registers.len()).find(|&n| a.registers[n] != b.registers[n]);
    let memory = (0..a.memory.len()).find(|&n| a.memory[n] != b.memory[n]);
    let lds = (0..a.lds.len()).find(|&n| a.lds[n] != b.lds[n]);
    format!(
        "{:?} at {} after {}, {:?} at {} after {}; register and lane {:x?}, VCC {:x?}, memory {memory:x?}, LDS {lds:x?}",
        a.stop,
        a.pc,
        a.instructions,
        b.stop,
        b.pc,
        b.instructions,
        register.map(|n| (n / lanes, n % lanes, a.registers[n], b.registers[n])),
        [a.vcc, b.vcc]
    )
}

#[test]
fn global_memory_in_waves_of_32_lanes() {
    GLOBAL.into_iter().for_each(|access| compare(access, WaveSize::Wave32, (&BEFORE, &AFTER)));
}

#[test]
fn global_memory_in_waves_of_64_lanes() {
    GLOBAL.into_iter().for_each(|access| compare(access, WaveSize::Wave64, (&BEFORE, &AFTER)));
}

#[test]
fn lds_in_waves_of_32_lanes() {
    LDS.into_iter().for_each(|access| compare(access, WaveSize::Wave32, (&BEFORE, &AFTER)));
}

#[test]
fn lds_in_waves_of_64_lanes() {
    LDS.into_iter().for_each(|access| compare(access, WaveSize::Wave64, (&BEFORE, &AFTER)));
}

#[test]
fn lds_among_many_rows() {
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        for access in LDS {
            compare(access, size, (&[&MANY[..], &BEFORE[..]].concat(), &MANY_MORE));
        }
    }
}
