//! Random programs without loops, most of whose addresses are counted on from lane to lane, in waves that code starts: memory is as it is
//! with each wave alone.

use belfry_isa::exec::{Follower, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::{Backend, Tier};
use belfry_isa::wave::WaveInit;

use super::common::Random;
use super::succession::Launch;
use super::{Bench, lanes};

/// s_load_b128 s[8:11], s[0:1], null: the arrays that are loaded from, and stored to.
const ARRAYS: [u32; 2] = [0xf408_0200, 0xf800_0000];
const END: u32 = 0xbfb0_0000;
/// VCC.
const MASK: u32 = 0x6a;
const WAVES: u32 = 3;
const WORKGROUPS: u32 = 12;
/// Words of an array: offsets are below 0x4000, and sixteen bytes are loaded at most.
const WORDS: usize = 0x1400;

struct Program {
    random: Random,
    words: Vec<u32>,
}

impl Program {
    fn below(&mut self, end: u32) -> u32 {
        ((self.random.next() >> 33) % u64::from(end)) as u32
    }

    /// A vector register.
    fn v(&mut self) -> u32 {
        // `v0` more often: lanes are counted on from there.
        if self.below(4) == 0 { 0 } else { self.below(8) }
    }

    /// Returns a source that all lanes share: a scalar register, or a constant near 0.
    fn same(&mut self) -> u32 {
        match self.below(6) {
            0 | 1 => 3,
            2 | 3 => 4 + self.below(3),
            4 => 128 + self.below(33),
            _ => 193 + self.below(16),
        }
    }

    /// Any source.
    fn source(&mut self) -> u32 {
        if self.below(3) == 0 { self.same() } else { 256 + self.v() }
    }

    fn two(&mut self, opcode: u32, dst: u32, first: u32, second: u32) {
        self.words.push(opcode << 25 | dst << 17 | second << 9 | first);
    }

    fn three(&mut self, opcode: u32, dst: u32, [a, b, c]: [u32; 3]) {
        self.words.extend([opcode << 16 | dst, a | b << 9 | c << 18]);
    }

    fn operation(&mut self) {
        let (dst, count) = (self.v(), 128 + self.below(6));
        let (a, b, c) = (self.source(), self.v(), self.source());
        match self.below(18) {
            // v_add_nc_u32, v_sub_nc_u32, v_subrev_nc_u32, v_or_b32, v_xor_b32, v_mul_u32_u24
            n @ 0..6 => self.two([0x25, 0x26, 0x27, 0x1c, 0x1d, 0x0b][n as usize], dst, a, b),
            // v_lshlrev_b32
            6 | 7 => self.two(0x18, dst, count, b),
            // v_and_b32 with a constant of some low bits
            8 => {
                self.two(0x1b, dst, 255, b);
                let bits = 5 + self.below(12);
                self.words.push((1 << bits) - 1);
            }
            // v_ashrrev_i32 by 31
            9 => self.two(0x1a, dst, 128 + 31, b),
            // v_mov_b32
            10 => self.words.push(0x7e00_0200 | dst << 17 | a),
            // v_lshl_add_u32, v_lshl_or_b32, v_add_lshl_u32, v_add3_u32
            11 => self.three(0xd646, dst, [a, count, c]),
            12 => self.three(0xd656, dst, [a, count, c]),
            13 => self.three(0xd647, dst, [a, 256 + b, count]),
            14 => self.three(0xd655, dst, [a, 256 + b, 256]),
            // v_mul_lo_u32, v_mad_u32_u24
            15 => self.three(0xd72c, dst, [256 + b, count, 0]),
            16 => self.three(0xd60b, dst, [3, 4, c]),
            // v_mad_u64_u32 with no mask
            _ => self.three(0xd6fe, 0x7c00 | dst, [3, 4, 256 + b]),
        }
    }

    /// An address of 64 bits in v[10:11], a word of an array's, by a number that is not too large.
    fn wide_address(&mut self, array: u32) {
        let number = self.v();
        self.two(0x1b, 10, 255, number);
        self.words.push(0xfff);
        // v_ashrrev_i32 v11, 31, v10; v_lshlrev_b64 v[10:11], 2, v[10:11]
        self.two(0x1a, 11, 128 + 31, 10);
        self.three(0xd73c, 10, [130, 256 + 10, 0]);
        // v_add_co_u32 v10, vcc_lo, array, v10; v_add_co_ci_u32 v11, vcc_lo, array, v11, vcc_lo
        self.three(0xd700, MASK << 8 | 10, [array, 256 + 10, 0]);
        self.two(0x20, 11, array + 1, 11);
    }

    /// An offset in v10, of a word of an array's.
    fn offset(&mut self) {
        let number = self.v();
        self.two(0x1b, 10, 255, number);
        self.words.push(0xfff);
        self.two(0x18, 10, 130, 10);
    }

    fn access(&mut self, stores: bool) {
        let array = if self.below(3) == 0 { 18 - 8 } else { 8 };
        let wide = self.below(2) == 0;
        if wide {
            self.wide_address(array);
        } else {
            self.offset();
        }
        let base = if wide { 0x7c } else { array };
        // b32, b64 and b128, or a byte.
        let [load, store] =
            [[0xdc52, 0xdc6a], [0xdc56, 0xdc6e], [0xdc5e, 0xdc76], [0xdc42, 0xdc62]][self.below(4) as usize];
        let data = self.below(5);
        if stores {
            self.words.extend([store << 16, base << 16 | data << 8 | 10]);
        } else {
            self.words.extend([load << 16, data << 24 | base << 16 | 10]);
        }
    }

    fn of(seed: u64) -> Vec<u32> {
        let mut program = Program { random: Random(seed * 0x9e37_79b9 + 1), words: Vec::new() };
        let bound = program.below(2) == 0;
        let before = program.below(4);
        (0..before).for_each(|_| program.operation());
        // v_cmp_gt_i32 vcc_lo, s4, v; s_and_saveexec_b32 s20, vcc_lo; s_cbranch_execz to the end
        let branch = bound.then(|| {
            let number = program.v();
            let compare = [0x7c88_0000, 0x7c98_0000, 0x7c92_0000][program.below(3) as usize];
            program.words.extend([compare | number << 9 | 4, 0xbe94_206a]);
            program.words.push(0);
            program.words.len() - 1
        });
        for stores in [false, true] {
            for _ in 0..=program.below(2) {
                let operations = program.below(4);
                (0..operations).for_each(|_| program.operation());
                let stores = stores || program.below(6) == 0;
                program.access(stores);
            }
        }
        if let Some(branch) = branch {
            program.words[branch] = 0xbfa5_0000 | (program.words.len() - branch - 1) as u32;
        }
        [&ARRAYS[..], &program.words, &[END]].concat()
    }
}

fn check(words: &[u32], backend: Backend, (size, seed): (WaveSize, u64)) {
    let width = if size == WaveSize::Wave32 { 32 } else { 64 };
    let mut random = Random(seed + 77);
    let content: Vec<u32> = (0..WORDS).map(|_| (random.next() >> 30) as u32).collect();
    let mut bench = Bench::new(backend, words);
    let arrays = [0; 2].map(|_| bench.gpu.buffer(&content));
    let arguments = bench.gpu.buffer(&arrays);
    let pair = |va: u64| [va as u32, (va >> 32) as u32];
    let ([low, high], n) = (pair(arguments), [300, 64, 0x7fff_fff0][seed as usize % 3]);
    let sgprs = [low, high, 0, 0, n, 4, 64];
    // Not all waves have lanes that are counted on.
    let number_of =
        |number: u32, lane: u32| if (number + lane) % 97 == 90 { lane ^ 5 } else { number * width + lane };
    let follower =
        |number: u32| Follower::new((u64::MAX, lanes(|lane| number_of(number, lane))), [number, 0], 0);
    let init = WaveInit {
        pc: bench.pc,
        wave_size: size,
        vgpr_count: 32,
        sgprs: &sgprs,
        exec: 0,
        ..WaveInit::default()
    };
    let launch = || Launch::new(init, (0..WAVES).map(follower).collect(), (Some(3), WORKGROUPS));
    let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut left = [0, 1].map(|follows| {
        arrays.iter().for_each(|&array| bench.gpu.memory.write(array, &bytes));
        let (stop, _, launch) = match follows {
            0 => launch().run_alone(&mut bench.gpu),
            _ => launch().run(&mut bench.gpu),
        };
        let memory = arrays.map(|array| bench.gpu.fetch::<u8>(array, bytes.len()));
        (stop, launch.ended, launch.instructions, memory)
    });
    let [alone, followed] = &mut left;
    assert_eq!(alone.0, Stop::EndProgram, "{words:x?}");
    assert!(alone == followed, "seed {seed}, {:?}, {size:?}: {words:x?}", backend.kind());
}

#[test]
fn random_programs_do_in_waves_that_follow_what_they_do_alone() {
    for backend in Backend::all().filter(|backend| backend.tier() == Tier::One) {
        for seed in 0..1000 {
            let words = Program::of(seed);
            check(&words, backend, (WaveSize::Wave32, seed));
            check(&words, backend, (WaveSize::Wave64, seed));
        }
    }
}

#[test]
fn comparisons_look_at_lanes_that_wrap() {
    // v_add_nc_u32 v1, NUMBER, v0; v_cmp_gt_i32 (or u32) vcc_lo, BOUND, v1; s_and_saveexec_b32 s20, vcc_lo; s_cbranch_execz 3;
    // v_lshlrev_b32 v2, 2, v0; global_store_b32 v2, v1, s[8:9]; s_endpgm: one lane is not below, and neither the first nor the last.
    for (compare, number, bound) in
        [(0x7c88_02ff, 0x7fff_fff0, 0x7fff_ffff), (0x7c98_02ff, 0xffff_fff0, 0xffff_ffff)]
    {
        let rest = [0xbe94_206a, 0xbfa5_0003, 0x3004_0082, 0xdc6a_0000, 0x0008_0102, END];
        let words = [&ARRAYS[..], &[0x4a02_00ff, number, compare, bound], &rest].concat();
        for backend in Backend::all() {
            check(&words, backend, (WaveSize::Wave32, 0));
            check(&words, backend, (WaveSize::Wave64, 0));
        }
    }
}
