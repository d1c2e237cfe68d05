//! Memory that waves share with threads of the host: eight aligned bytes are one access, for all lanes, addresses,
//! back ends and tiers. Elements that follow each other are loaded from high addresses to low ones, and stored from
//! low to high.
//!
//! A thread of the host writes numbers twice into 64 bits, while waves load them, or looks at those that waves store. Where a half is
//! one access, waves see numbers of different rounds in one word sooner or later.

#![expect(unsafe_code, reason = "an address space gives out pointers into its memory")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, Lds, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Access, Apertures, Fault, FaultKind, Mapping, Mmu, Tlb, Watch, WatchMode};
use belfry_isa::wave::{Wave, WaveInit};

const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x7_0000_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 4;
/// Words of 64 bits that the host writes.
const WORDS: usize = (PAGES * PAGE / 8) as usize;
/// Times that each wave is run.
const RUNS: u64 = 20_000;

#[repr(C, align(4096))]
struct Memory {
    data: [AtomicU64; WORDS],
    code: [AtomicU64; PAGE as usize / 8],
    /// True if each page is a mapping of its own; otherwise all pages are one mapping.
    by_page: AtomicBool,
}

// SAFETY: all of it are atomics, and it lives as long as the address space.
unsafe impl Mmu for Memory {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        let mapping = |va, len, host| Mapping {
            va,
            len,
            host,
            writable: true,
            executable: true,
            mirrored: false,
            alone: false,
        };
        if va & !(PAGE - 1) == CODE {
            return Ok(mapping(CODE, PAGE, self.code.as_ptr().cast_mut().cast()));
        }
        let offset = va.wrapping_sub(DATA);
        if offset >= PAGES * PAGE {
            return Err(Fault::new(va, access, FaultKind::NotPresent));
        }
        let host: *mut u8 = self.data.as_ptr().cast_mut().cast();
        if !self.by_page.load(Ordering::Relaxed) {
            return Ok(mapping(DATA, PAGES * PAGE, host));
        }
        let page = offset & !(PAGE - 1);
        Ok(mapping(DATA + page, PAGE, host.wrapping_add(page as usize)))
    }
    fn generation(&self) -> u64 {
        1 + u64::from(self.by_page.load(Ordering::Relaxed))
    }
    fn context(&self) -> u64 {
        1
    }
}

impl Memory {
    fn new() -> Box<Memory> {
        Box::new(Memory {
            data: [const { AtomicU64::new(0) }; WORDS],
            code: [const { AtomicU64::new(0) }; PAGE as usize / 8],
            by_page: AtomicBool::new(false),
        })
    }
}

/// Way in which an instruction makes addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// `v[0:1]`.
    Vector,
    /// `v0` and `s[4:5]`, or the buffer in `s[4:7]`.
    Offset,
    /// `s[4:5]`.
    Scalar,
}

/// An instruction, and the dwords of its elements.
type Op = (Arch, &'static str, &'static [u32], Form, usize);

/// To registers from `v8` or `s8` on; llvm-mc-19.
const LOADS: [Op; 20] = {
    use Arch::{Gfx942, Gfx1100, Gfx1201};
    use Form::{Offset, Scalar, Vector};
    [
        (Gfx1100, "global_load_b64 v[8:9], v[0:1], off", &[0xdc56_0000, 0x087c_0000], Vector, 2),
        (Gfx1100, "global_load_b96 v[8:10], v[0:1], off", &[0xdc5a_0000, 0x087c_0000], Vector, 3),
        (Gfx1100, "global_load_b128 v[8:11], v[0:1], off", &[0xdc5e_0000, 0x087c_0000], Vector, 4),
        (Gfx1100, "global_load_b64 v[8:9], v0, s[4:5]", &[0xdc56_0000, 0x0804_0000], Offset, 2),
        (Gfx1100, "global_load_b128 v[8:11], v0, s[4:5]", &[0xdc5e_0000, 0x0804_0000], Offset, 4),
        (Gfx1100, "flat_load_b64 v[8:9], v[0:1]", &[0xdc54_0000, 0x087c_0000], Vector, 2),
        (Gfx1100, "flat_load_b128 v[8:11], v[0:1]", &[0xdc5c_0000, 0x087c_0000], Vector, 4),
        (Gfx1100, "buffer_load_b64 v[8:9], v0, s[4:7], 0 offen", &[0xe054_0000, 0x8041_0800], Offset, 2),
        (Gfx1100, "buffer_load_b96 v[8:10], v0, s[4:7], 0 offen", &[0xe058_0000, 0x8041_0800], Offset, 3),
        (Gfx1100, "buffer_load_b128 v[8:11], v0, s[4:7], 0 offen", &[0xe05c_0000, 0x8041_0800], Offset, 4),
        (
            Gfx1100,
            "buffer_load_format_xyzw v[8:11], v0, s[4:7], 0 offen",
            &[0xe00c_0000, 0x8041_0800],
            Offset,
            4,
        ),
        (Gfx1100, "s_load_b64 s[8:9], s[4:5], null", &[0xf404_0202, 0xf800_0000], Scalar, 2),
        (Gfx1100, "s_load_b128 s[8:11], s[4:5], null", &[0xf408_0202, 0xf800_0000], Scalar, 4),
        (Gfx1100, "s_load_b512 s[8:23], s[4:5], null", &[0xf410_0202, 0xf800_0000], Scalar, 16),
        (Gfx942, "global_load_dwordx2 v[8:9], v[0:1], off", &[0xdc54_8000, 0x087f_0000], Vector, 2),
        (Gfx942, "global_load_dwordx3 v[8:10], v[0:1], off", &[0xdc58_8000, 0x087f_0000], Vector, 3),
        (Gfx942, "global_load_dwordx4 v[8:11], v[0:1], off", &[0xdc5c_8000, 0x087f_0000], Vector, 4),
        (Gfx942, "global_load_dwordx2 v[8:9], v0, s[4:5]", &[0xdc54_8000, 0x0804_0000], Offset, 2),
        (Gfx1201, "global_load_b64 v[8:9], v[0:1], off", &[0xee05_407c, 8, 0], Vector, 2),
        (Gfx1201, "global_load_b128 v[8:11], v[0:1], off", &[0xee05_c07c, 8, 0], Vector, 4),
    ]
};

/// From registers from `v8` on.
const STORES: [Op; 11] = {
    use Arch::{Gfx942, Gfx1100, Gfx1201};
    use Form::{Offset, Vector};
    [
        (Gfx1100, "global_store_b64 v[0:1], v[8:9], off", &[0xdc6e_0000, 0x007c_0800], Vector, 2),
        (Gfx1100, "global_store_b96 v[0:1], v[8:10], off", &[0xdc72_0000, 0x007c_0800], Vector, 3),
        (Gfx1100, "global_store_b128 v[0:1], v[8:11], off", &[0xdc76_0000, 0x007c_0800], Vector, 4),
        (Gfx1100, "flat_store_b64 v[0:1], v[8:9]", &[0xdc6c_0000, 0x007c_0800], Vector, 2),
        (Gfx1100, "flat_store_b128 v[0:1], v[8:11]", &[0xdc74_0000, 0x007c_0800], Vector, 4),
        (Gfx1100, "buffer_store_b64 v[8:9], v0, s[4:7], 0 offen", &[0xe06c_0000, 0x8041_0800], Offset, 2),
        (Gfx1100, "buffer_store_b128 v[8:11], v0, s[4:7], 0 offen", &[0xe074_0000, 0x8041_0800], Offset, 4),
        (
            Gfx1100,
            "buffer_store_format_xyzw v[8:11], v0, s[4:7], 0 offen",
            &[0xe01c_0000, 0x8041_0800],
            Offset,
            4,
        ),
        (Gfx942, "global_store_dwordx2 v[0:1], v[8:9], off", &[0xdc74_8000, 0x007f_0800], Vector, 2),
        (Gfx942, "global_store_dwordx4 v[0:1], v[8:11], off", &[0xdc7c_8000, 0x007f_0800], Vector, 4),
        (Gfx1201, "global_store_b64 v[0:1], v[8:9], off", &[0xee06_c07c, 0x0400_0000, 0], Vector, 2),
    ]
};

/// Places of lanes' elements, and the active lanes.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    name: &'static str,
    /// The offset of a lane's element, from the lane and the bytes of an element.
    offset: fn(u64, u64) -> u64,
    exec: u64,
    by_page: bool,
    watched: bool,
}

const fn pattern(name: &'static str, offset: fn(u64, u64) -> u64, exec: u64) -> Pattern {
    Pattern { name, offset, exec, by_page: false, watched: false }
}

const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

fn apart(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

const PATTERNS: [Pattern; 13] = [
    pattern("one behind the other", |lane, bytes| lane * bytes, u64::MAX),
    pattern("one behind the other, odd lanes", |lane, bytes| lane * apart(bytes), ODD),
    pattern("one address", |_, _| 64, u64::MAX),
    pattern("one address, odd lanes", |_, _| 64, ODD),
    pattern("one address for each sixteen", |lane, _| lane / 16 * 64, u64::MAX),
    pattern("each half by itself", |lane, bytes| lane / 32 * 2048 + lane % 32 * bytes, u64::MAX),
    pattern("each sixteen by itself", |lane, bytes| lane / 16 * 512 + lane % 16 * bytes, u64::MAX),
    pattern("every 16 bytes", |lane, _| lane * 16, u64::MAX),
    pattern("every 64 bytes", |lane, _| lane * 64, u64::MAX),
    pattern("every 64 bytes, three lanes", |lane, _| lane * 64, 0x0004_2001_0004_2001),
    pattern("anywhere", |lane, _| lane * 37 % 64 * 64, u64::MAX),
    Pattern { by_page: true, ..pattern("in each page", |lane, _| lane % 4 * PAGE + lane * 16, u64::MAX) },
    Pattern { watched: true, ..pattern("watched", |lane, bytes| lane * apart(bytes), u64::MAX) },
];

/// A wave, and the memory and caches that it runs on.
struct Bench<'a> {
    memory: &'a Memory,
    tlb: Tlb,
    code: CodeCache,
    lds: Lds,
    init: WaveInit<'a>,
    wave: Wave,
}

fn lanes(arch: Arch) -> u64 {
    if arch.is_gfx9() { 64 } else { 32 }
}

fn end(arch: Arch) -> u32 {
    if arch.is_gfx9() { 0xbf81_0000 } else { 0xbfb0_0000 }
}

/// The registers that an instruction finds: addresses by a pattern.
fn registers((arch, _, _, form, dwords): &Op, pattern: &Pattern) -> (Vec<[u32; 64]>, Vec<u32>) {
    let mut vgprs = vec![[0; 64]; 12];
    let (lows, highs) = vgprs.split_at_mut(1);
    let all = (0..lanes(*arch)).zip(lows[0].iter_mut().zip(&mut highs[0]));
    for (lane, (low, high)) in all {
        let offset = (pattern.offset)(lane, *dwords as u64 * 4);
        let address = if *form == Form::Vector { DATA + offset } else { offset };
        (*low, *high) = (address as u32, (address >> 32) as u32);
    }
    let mut sgprs = vec![0; 24];
    let format = 3 << 28 | 61 << 12 | 4 | 5 << 3 | 6 << 6 | 7 << 9;
    sgprs[4..8].copy_from_slice(&[DATA as u32, (DATA >> 32) as u32, u32::MAX, format]);
    (vgprs, sgprs)
}

impl<'a> Bench<'a> {
    fn new(
        memory: &'a Memory,
        backend: Backend,
        op: &Op,
        pattern: &Pattern,
        registers: &'a (Vec<[u32; 64]>, Vec<u32>),
    ) -> Bench<'a> {
        let (arch, _, words, ..) = *op;
        let code: Vec<u32> = [words, &[end(arch)], &[0; 4]].concat();
        for (at, pair) in memory.code.iter().zip(code.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or_default();
            at.store(u64::from(pair[0]) | u64::from(high) << 32, Ordering::SeqCst);
        }
        memory.by_page.store(pattern.by_page, Ordering::SeqCst);
        let mut tlb = Tlb::new();
        let watch = Watch { address: DATA + 64, mask: !0x7f, mode: WatchMode::All };
        tlb.set_watches(pattern.watched.then_some([Some(watch), None, None, None]));
        let init = WaveInit {
            pc: CODE,
            arch,
            exec: pattern.exec,
            wave_size: if arch.is_gfx9() { WaveSize::Wave64 } else { WaveSize::Wave32 },
            vgprs: &registers.0,
            sgprs: &registers.1,
            vgpr_count: 32,
            ..WaveInit::default()
        };
        let wave = Wave::new(&init);
        Bench { memory, tlb, code: CodeCache::new(arch, backend), lds: Lds::new(0), init, wave }
    }

    /// Runs the wave; before that its registers from `v8` on are set to a number, if there is one.
    fn run(&mut self, value: Option<u32>) {
        self.wave.restart(&self.init);
        if let Some(value) = value {
            for register in 8..12 {
                for lane in 0..self.wave.lanes() {
                    self.wave.set_vgpr(register, lane, value);
                }
            }
        }
        let mut env = Env {
            mmu: self.memory,
            tlb: &mut self.tlb,
            code: &mut self.code,
            lds: &mut self.lds,
            apertures: Apertures { shared_base: 1 << 48, private_base: 2 << 48 },
            clock: &|| 0,
            code_epoch: 1,
        };
        assert_eq!(exec::run(&mut self.wave, &mut env, 100), Stop::EndProgram);
    }

    /// The pairs of dwords that a load has brought, by address, and those of lanes that are off left out.
    fn loaded(&self, op: &Op, pattern: &Pattern) -> Vec<(u64, [u32; 2])> {
        let (arch, _, _, form, dwords) = *op;
        if form == Form::Scalar {
            let word = |n: usize| self.wave.sgpr(8 + n as u8);
            return (0..dwords / 2).map(|n| (n as u64 * 8, [word(n * 2), word(n * 2 + 1)])).collect();
        }
        let mut pairs = Vec::new();
        for lane in (0..lanes(arch)).filter(|lane| pattern.exec >> lane & 1 != 0) {
            let offset = (pattern.offset)(lane, dwords as u64 * 4);
            // Elements of twelve bytes that follow each other are aligned in every second lane.
            let pairs_of_lane = if offset.is_multiple_of(8) { dwords / 2 } else { 0 };
            for n in 0..pairs_of_lane {
                let word = |n: usize| self.wave.vgpr(8 + n as u8, lane as u32);
                pairs.push((offset + n as u64 * 8, [word(n * 2), word(n * 2 + 1)]));
            }
        }
        pairs
    }
}

/// Every way in which waves are executed here, for the chips that an instruction is for.
fn cases(ops: &'static [Op]) -> impl Iterator<Item = (Backend, &'static Op, &'static Pattern)> {
    let all = move |backend| {
        ops.iter().flat_map(move |op| PATTERNS.iter().map(move |pattern| (backend, op, pattern)))
    };
    Backend::all()
        .flat_map(all)
        .filter(|(_, op, pattern)| op.3 != Form::Scalar || pattern.name == PATTERNS[0].name)
}

/// Ends a thread of the host when a test ends, however it does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn torn_loads_are_not_seen() {
    let memory = Memory::new();
    let ends = AtomicBool::new(false);
    let mut torn = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 1;
            while !ends.load(Ordering::Relaxed) {
                for word in &memory.data {
                    word.store(round << 32 | round, Ordering::Release);
                }
                round = (round + 1) & 0x7fff_ffff;
            }
        });
        let _ends = Ends(&ends);
        for (backend, op, pattern) in cases(&LOADS) {
            let registers = registers(op, pattern);
            let mut bench = Bench::new(&memory, backend, op, pattern, &registers);
            let follow = pattern.name == PATTERNS[0].name;
            let (mut halves, mut late) = (0, 0);
            for _ in 0..RUNS {
                bench.run(None);
                let pairs = bench.loaded(op, pattern);
                halves += pairs.iter().filter(|(_, [low, high])| low != high).count();
                // What is at a low address was written first, and loaded last.
                late += pairs.windows(2).filter(|two| follow && two[0].1[0] < two[1].1[0]).count();
            }
            if halves + late > 0 {
                torn.push(format!("{} {}, {backend:?}: {halves} torn, {late} late", op.1, pattern.name));
            }
        }
    });
    assert!(torn.is_empty(), "{}", torn.join("\n"));
}

#[test]
fn torn_stores_are_not_seen() {
    let mut torn = Vec::new();
    for (backend, op, pattern) in cases(&STORES) {
        let memory = Memory::new();
        let ends = AtomicBool::new(false);
        let registers = registers(op, pattern);
        let dwords = op.4;
        let places: Vec<usize> = (0..lanes(op.0))
            .filter(|lane| pattern.exec >> lane & 1 != 0)
            .map(|lane| (pattern.offset)(lane, dwords as u64 * 4))
            .filter(|offset| offset.is_multiple_of(8))
            .flat_map(|offset| (0..dwords / 2).map(move |n| offset as usize / 8 + n))
            .collect();
        let follow = pattern.name == PATTERNS[0].name;
        let (halves, late) = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let (mut halves, mut late) = (0, 0);
                while !ends.load(Ordering::Relaxed) {
                    let mut last = 0;
                    for &place in places.iter().rev() {
                        let word = memory.data[place].load(Ordering::Acquire);
                        halves += usize::from(word as u32 != (word >> 32) as u32);
                        late += usize::from(follow && (word as u32) < last);
                        last = word as u32;
                    }
                }
                (halves, late)
            });
            {
                let _ends = Ends(&ends);
                let mut bench = Bench::new(&memory, backend, op, pattern, &registers);
                for round in 1..=RUNS {
                    bench.run(Some(round as u32));
                }
            }
            looks.join().expect("it does not panic")
        });
        if halves + late > 0 {
            torn.push(format!("{} {}, {backend:?}: {halves} torn, {late} late", op.1, pattern.name));
        }
    }
    assert!(torn.is_empty(), "{}", torn.join("\n"));
}
