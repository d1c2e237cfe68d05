//! Memory instructions that fault on one lane, and go on when its page is there.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::FaultKind;
use belfry_isa::trap::{TrapCause, TrapHandler};
use belfry_isa::wave::{Wave, WaveInit};

use super::{APERTURES, Bench, lanes};

/// Places of lanes' elements.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Addresses in `v[0:1]`, 32 bytes apart, one of them across the border of the missing page.
    Global,
    /// As [`Form::Global`], every second lane in LDS.
    Flat,
    /// Offsets in `v0` of the buffer in `s[4:7]`, otherwise as [`Form::Global`].
    Buffer,
    /// A dword for each lane, side by side, at offset 8 in `v0`.
    Scratch,
    /// A dword for each lane, side by side, from `s[8:9]` on.
    ByLane,
}

/// Effect of the instruction on these places.
#[derive(Clone, Copy)]
enum Effect {
    /// To registers from this one on.
    Load(u8),
    /// From registers from this one on.
    Store(u8),
    /// Adds the register pair `v[2:3]`; the old value goes to registers from this one on.
    Add(Option<u8>),
}

struct Case {
    text: &'static str,
    words: [u32; 2],
    form: Form,
    effect: Effect,
    /// Bytes of an element.
    bytes: usize,
}

const fn case(text: &'static str, words: [u32; 2], form: Form, effect: Effect, bytes: usize) -> Case {
    Case { text, words, form, effect, bytes }
}

const CASES: [Case; 24] = {
    use Effect::{Add, Load, Store};
    use Form::{Buffer, ByLane, Flat, Global, Scratch};
    [
        case("global_load_b32 v4, v[0:1], off", [0xdc52_0000, 0x047c_0000], Global, Load(4), 4),
        case("global_load_b64 v[0:1], v[0:1], off", [0xdc56_0000, 0x007c_0000], Global, Load(0), 8),
        case("global_load_i8 v4, v[0:1], off", [0xdc46_0000, 0x047c_0000], Global, Load(4), 1),
        case("flat_load_b128 v[4:7], v[0:1]", [0xdc5c_0000, 0x047c_0000], Flat, Load(4), 16),
        case("global_store_b32 v[0:1], v2, off", [0xdc6a_0000, 0x007c_0200], Global, Store(2), 4),
        case("global_store_b128 v[0:1], v[8:11], off", [0xdc76_0000, 0x007c_0800], Global, Store(8), 16),
        case("global_store_b16 v[0:1], v2, off", [0xdc66_0000, 0x007c_0200], Global, Store(2), 2),
        case("flat_store_b64 v[0:1], v[8:9]", [0xdc6c_0000, 0x007c_0800], Flat, Store(8), 8),
        case(
            "global_atomic_add_u32 v4, v[0:1], v2, off glc",
            [0xdcd6_4000, 0x047c_0200],
            Global,
            Add(Some(4)),
            4,
        ),
        case("flat_atomic_add_u32 v[0:1], v2", [0xdcd4_0000, 0x007c_0200], Flat, Add(None), 4),
        case(
            "global_atomic_add_u64 v[4:5], v[0:1], v[2:3], off glc",
            [0xdd0e_4000, 0x047c_0200],
            Global,
            Add(Some(4)),
            8,
        ),
        case("scratch_load_b64 v[4:5], v0, off", [0xdc55_0000, 0x04fc_0000], Scratch, Load(4), 8),
        case("scratch_store_b32 v0, v2, off", [0xdc69_0000, 0x00fc_0200], Scratch, Store(2), 4),
        case("scratch_store_b128 v0, v[8:11], off", [0xdc75_0000, 0x00fc_0800], Scratch, Store(8), 16),
        case("buffer_load_b32 v4, v0, s[4:7], 0 offen", [0xe050_0000, 0x8041_0400], Buffer, Load(4), 4),
        case("buffer_load_b128 v[4:7], v0, s[4:7], 0 offen", [0xe05c_0000, 0x8041_0400], Buffer, Load(4), 16),
        case("buffer_store_b32 v2, v0, s[4:7], 0 offen", [0xe068_0000, 0x8041_0200], Buffer, Store(2), 4),
        case(
            "buffer_store_b128 v[8:11], v0, s[4:7], 0 offen",
            [0xe074_0000, 0x8041_0800],
            Buffer,
            Store(8),
            16,
        ),
        case(
            "buffer_store_format_xyzw v[8:11], v0, s[4:7], 0 offen",
            [0xe01c_0000, 0x8041_0800],
            Buffer,
            Store(8),
            16,
        ),
        case(
            "buffer_atomic_add_u32 v2, v0, s[4:7], 0 offen glc",
            [0xe0d4_4000, 0x8041_0200],
            Buffer,
            Add(Some(2)),
            4,
        ),
        case(
            "buffer_atomic_add_u32 v2, v0, s[4:7], 0 offen",
            [0xe0d4_0000, 0x8041_0200],
            Buffer,
            Add(None),
            4,
        ),
        case("global_store_addtid_b32 v2, s[8:9]", [0xdca6_0000, 0x0008_0200], ByLane, Store(2), 4),
        case("global_load_addtid_b32 v4, s[8:9]", [0xdca2_0000, 0x0408_0000], ByLane, Load(4), 4),
        case("global_load_u16 v0, v[0:1], off", [0xdc4a_0000, 0x007c_0000], Global, Load(0), 2),
    ]
};

/// One byte of an element.
#[derive(Clone, Copy)]
enum At {
    Memory(u64),
    Lds(usize),
}

/// A case laid out in memory.
struct Layout<'a> {
    case: &'a Case,
    bench: Bench,
    lanes: u32,
    /// First address: of lane 0, or of the dwords side by side.
    base: u64,
    /// The page that is missing at first.
    missing: u64,
    /// The lane across the border.
    across: u32,
}

const S_ENDPGM: u32 = 0xbfb0_0000;
const OFFSET: u32 = 8;

impl Layout<'_> {
    fn new(case: &Case, backend: Backend, size: WaveSize, across: u32) -> Layout<'_> {
        let [first, second] = case.words;
        let mut bench = Bench::new(backend, &[first, second, S_ENDPGM]);
        bench.gpu.lds.reset(1024);
        let lanes = if size == WaveSize::Wave32 { 32 } else { 64 };
        let border = bench.gpu.alloc(16384).next_multiple_of(4096) + 8192;
        let base = match case.form {
            Form::Global | Form::Flat | Form::Buffer => border - 4096,
            Form::Scratch => border - u64::from(across * 4) - u64::from(OFFSET * lanes),
            Form::ByLane => border - u64::from(across * 4),
        };
        Layout { case, bench, lanes, base, missing: border, across }
    }

    /// Address of a lane's element, of those that are in one piece.
    fn element(&self, lane: u32) -> u64 {
        // An atomic must be aligned, and a byte has no border within.
        let part = if matches!(self.case.effect, Effect::Add(_)) || self.case.bytes == 1 {
            0
        } else {
            self.case.bytes / 2
        };
        if lane == self.across { self.missing - part as u64 } else { self.base + u64::from(lane * 32) }
    }

    fn at(&self, lane: u32, byte: usize) -> At {
        let dword = (byte & !3) as u64;
        match self.case.form {
            Form::Flat if lane % 2 == 1 => At::Lds(lane as usize * 16 + byte),
            Form::Global | Form::Flat | Form::Buffer => At::Memory(self.element(lane) + byte as u64),
            Form::Scratch => {
                let dwords = (u64::from(OFFSET) + dword) * u64::from(self.lanes);
                At::Memory(self.base + dwords + u64::from(lane * 4) + (byte & 3) as u64)
            }
            Form::ByLane => At::Memory(self.base + u64::from(lane * 4) + byte as u64),
        }
    }

    fn read(&self, lane: u32) -> Vec<u8> {
        let byte = |byte: usize| match self.at(lane, byte) {
            At::Memory(va) => self.bench.gpu.memory.read(va, 1)[0],
            At::Lds(at) => self.bench.gpu.lds.bytes()[at],
        };
        (0..self.case.bytes).map(byte).collect()
    }

    fn write(&mut self, lane: u32, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate().take(self.case.bytes) {
            match self.at(lane, n) {
                At::Memory(va) => self.bench.gpu.memory.write(va, &[*byte]),
                At::Lds(at) => self.bench.gpu.lds.bytes_mut()[at] = *byte,
            }
        }
    }

    /// Returns true if a lane's element needs the missing page.
    fn is_missing(&self, lane: u32) -> bool {
        (0..self.case.bytes).any(|byte| match self.at(lane, byte) {
            At::Memory(va) => va & !0xfff == self.missing,
            At::Lds(_) => false,
        })
    }

    fn wave(&self, size: WaveSize) -> Wave {
        let address = |lane: u32| match (self.case.form, self.at(lane, 0)) {
            (Form::Scratch | Form::ByLane, _) => u64::from(OFFSET),
            (Form::Buffer, At::Memory(va)) => va - self.base,
            (_, At::Memory(va)) => va,
            (_, At::Lds(at)) => APERTURES.shared_base + at as u64,
        };
        let data = |n: u32| lanes(|lane| 0x5000_0000 + (n << 16) + lane);
        let mut vgprs: Vec<[u32; 64]> = (0..12).map(data).collect();
        let exists = |lane: u32| if lane < self.lanes { address(lane) } else { 0 };
        (vgprs[0], vgprs[1]) = (lanes(|lane| exists(lane) as u32), lanes(|lane| (exists(lane) >> 32) as u32));
        let mut sgprs = vec![0; 10];
        let words: u32 = 3 << 28 | 61 << 12 | 4 | 5 << 3 | 6 << 6 | 7 << 9;
        sgprs[4..8].copy_from_slice(&[self.base as u32, (self.base >> 32) as u32, u32::MAX, words]);
        (sgprs[8], sgprs[9]) = (self.base as u32, (self.base >> 32) as u32);
        let mut wave = Wave::new(&WaveInit {
            pc: self.bench.pc,
            exec: u64::MAX,
            wave_size: size,
            vgprs: &vgprs,
            sgprs: &sgprs,
            vgpr_count: 32,
            scratch_base: self.base,
            scratch_size_per_lane: 64,
            ..Default::default()
        });
        wave.set_sgpr(125, 512);
        wave
    }
}

/// The bytes of registers from `first` on, in one lane.
fn registers(wave: &Wave, first: u8, lane: u32, bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..4).flat_map(|n| wave.vgpr(first + n, lane).to_le_bytes()).collect();
    all.truncate(bytes);
    all
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns a lane's element as it is at first or, if `second`, as the test writes it later.
fn pattern(lane: u32, second: bool) -> Vec<u8> {
    (0..16).map(|byte| (lane * 16 + byte) as u8 ^ if second { 0xff } else { 0 }).collect()
}

fn check(case: &Case, backend: Backend, size: WaveSize, across: u32) {
    let mut layout = Layout::new(case, backend, size, across);
    let name = format!("{} in {size:?} across lane {across}, {:?}", case.text, backend.kind());
    for lane in 0..layout.lanes {
        layout.write(lane, &pattern(lane, false));
    }
    let mut wave = layout.wave(size);
    let start = wave.clone();
    let missing: u64 =
        (0..layout.lanes).filter(|lane| layout.is_missing(*lane)).fold(0, |lanes, lane| lanes | 1 << lane);
    let first = missing.trailing_zeros();
    layout.bench.gpu.memory.hide(layout.missing);
    let Stop::Fault(fault) = layout.bench.run(&mut wave) else { panic!("no fault: {name}") };
    let FaultCause::Memory { fault: memory, lanes } = fault.kind else { panic!("{fault}: {name}") };
    assert_eq!((memory.kind, lanes), (FaultKind::NotPresent, missing), "{name}");
    assert_eq!((wave.pc(), wave.exec(), wave.instructions), (start.pc(), start.exec(), 0), "{name}");
    if let Effect::Load(register) = case.effect {
        // A load has done all lanes or none.
        for lane in 0..layout.lanes {
            let [now, before] = [&wave, &start].map(|wave| registers(wave, register, lane, 16));
            assert_eq!(now, before, "lane {lane}: {name}");
        }
    }

    let expected = |lane: u32, second: bool| {
        let old = pattern(lane, second)[..case.bytes].to_vec();
        match case.effect {
            Effect::Load(_) => old,
            Effect::Store(data) => registers(&start, data, lane, case.bytes),
            Effect::Add(_) => {
                let sum = number(&old).wrapping_add(number(&registers(&start, 2, lane, case.bytes)));
                sum.to_le_bytes()[..case.bytes].to_vec()
            }
        }
    };
    // Of stores and atomics the lanes before the fault are done, those from it on have written nothing.
    for lane in 0..layout.lanes {
        let done = lane < first && !matches!(case.effect, Effect::Load(_));
        let now = if done { expected(lane, false) } else { pattern(lane, false)[..case.bytes].to_vec() };
        assert_eq!(layout.read(lane), now, "lane {lane}: {name}");
    }
    // The test overwrites everything meanwhile: so a lane that is done twice is seen.
    for lane in 0..layout.lanes {
        layout.write(lane, &pattern(lane, true));
    }
    layout.bench.gpu.memory.unhide();
    assert_eq!(layout.bench.run(&mut wave), Stop::EndProgram, "{name}");
    assert_eq!((wave.exec(), wave.instructions), (start.exec(), 2), "{name}");
    for lane in 0..layout.lanes {
        match case.effect {
            Effect::Load(register) => {
                let loaded = registers(&wave, register, lane, case.bytes);
                assert_eq!(loaded, expected(lane, true), "lane {lane}: {name}");
            }
            Effect::Store(_) | Effect::Add(_) => {
                let twice = pattern(lane, true)[..case.bytes].to_vec();
                let now = if lane < first { twice } else { expected(lane, true) };
                assert_eq!(layout.read(lane), now, "lane {lane}: {name}");
            }
        }
        if let Effect::Add(Some(register)) = case.effect {
            let old = registers(&wave, register, lane, case.bytes);
            assert_eq!(old, pattern(lane, lane >= first)[..case.bytes], "lane {lane}: {name}");
        }
    }
}

#[test]
fn faulting_instruction_resumed_does_every_lane_once() {
    for backend in Backend::all() {
        for case in &CASES {
            for (size, lanes) in [(WaveSize::Wave32, [0, 16, 20]), (WaveSize::Wave64, [6, 32, 50])] {
                for across in lanes {
                    check(case, backend, size, across);
                }
            }
        }
    }
}

// s_mov_b32 s0, 1 ; global_atomic_add_u32 v[0:1], v2, off ; s_add_u32 s0, s0, 1 ; s_cmp_lt_u32 s0, 4 ; s_cbranch_scc1 -6
// s_endpgm
const LOOP: [u32; 7] =
    [0xbe80_0081, 0xdcd6_0000, 0x007c_0200, 0x8000_8100, 0xbf0a_8400, 0xbfa2_fffb, 0xbfb0_0000];

#[test]
fn wave_sent_elsewhere_after_a_fault_forgets_the_lanes_done() {
    for backend in Backend::all() {
        let case = &CASES[8];
        let mut layout = Layout::new(case, backend, WaveSize::Wave32, 20);
        layout.bench.pc = layout.bench.gpu.buffer(&LOOP);
        let mut wave = layout.wave(WaveSize::Wave32);
        layout.bench.gpu.memory.hide(layout.missing);
        assert!(matches!(layout.bench.run(&mut wave), Stop::Fault(_)));
        layout.bench.gpu.memory.unhide();
        // Past the instruction, as a handler that gives up on it would; the loop comes back to it twice more.
        wave.set_pc(wave.pc() + 8);
        assert_eq!(layout.bench.run(&mut wave), Stop::EndProgram);
        for lane in 0..32 {
            let times = if lane < 20 { 3 } else { 2 };
            let data = 0x5002_0000_u32 + lane;
            assert_eq!(number(&layout.read(lane)), u64::from(data.wrapping_mul(times)), "lane {lane}");
        }
    }
}

// global_atomic_add_u32 v[0:1], v2, off ; s_rfe_b64 ttmp[0:1]
const HANDLER: [u32; 3] = [0xdcd6_0000, 0x007c_0200, 0xbe80_4a6c];

#[test]
fn trap_handler_that_faults_itself_returns_to_the_lanes_that_are_left() {
    for backend in Backend::all() {
        let case = &CASES[8];
        let mut layout = Layout::new(case, backend, WaveSize::Wave32, 20);
        let tba = layout.bench.gpu.buffer(&HANDLER);
        let plain = layout.wave(WaveSize::Wave32);
        let init = WaveInit {
            pc: plain.pc(),
            vgprs: &core::array::from_fn::<_, 3, _>(|n| lanes(|lane| plain.vgpr(n as u8, lane))),
            vgpr_count: 32,
            trap: Some(TrapHandler { tba, tma: 0, takes_traps: true }),
            ..WaveInit::default()
        };
        let mut wave = Wave::new(&init);
        layout.bench.gpu.memory.hide(layout.missing);
        let Stop::Fault(fault) = layout.bench.run(&mut wave) else { panic!("no fault") };
        assert!(wave.enter_trap(TrapCause::Fault(&fault.kind)));
        // The handler does the lanes before the page as well, and stops at the same one.
        assert!(matches!(layout.bench.run(&mut wave), Stop::Fault(_)));
        assert!(wave.is_privileged());
        layout.bench.gpu.memory.unhide();
        assert_eq!(layout.bench.run(&mut wave), Stop::EndProgram);
        for lane in 0..32 {
            let sum = (0x5002_0000_u32 + lane).wrapping_mul(2);
            assert_eq!(number(&layout.read(lane)), u64::from(sum), "lane {lane}");
        }
    }
}

#[test]
fn code_that_could_not_be_fetched_is_fetched_when_it_is_there() {
    for backend in Backend::all() {
        let mut gpu = super::Gpu::new(backend, 1 << 20);
        let page = gpu.alloc(8192).next_multiple_of(4096) + 4096;
        // s_mov_b32 s0, 1 at the end of a page, s_mov_b32 s1, 2 in the next.
        for (va, word) in [(page - 4, 0xbe80_0081_u32), (page, 0xbe81_0082), (page + 4, S_ENDPGM)] {
            gpu.memory.write(va, &word.to_le_bytes());
        }
        gpu.memory.hide(page);
        let init = WaveInit { pc: page - 4, ..Default::default() };
        let mut wave = Wave::new(&init);
        let Stop::Fault(fault) = gpu.step(&mut wave, 100) else { panic!("no fault") };
        assert_eq!(fault.pc, page);
        gpu.memory.unhide();
        assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
        assert_eq!((wave.sgpr(0), wave.sgpr(1)), (1, 2));
        // Nor is the fault what the next dispatch finds there.
        wave.restart(&init);
        gpu.new_epoch();
        assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
    }
}
