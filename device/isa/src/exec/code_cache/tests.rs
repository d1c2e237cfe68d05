//! Workers that share the code of an address space.

#![expect(unsafe_code, reason = "an address space gives out pointers into its memory")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use super::*;
use crate::exec::{self, Env, Lds, Stop};
use crate::mem::{Access, Fault, FaultKind, Mapping, Mmu, Tlb};
use crate::wave::{Wave, WaveInit};

const PC: u64 = 0x10_0000;
const WORDS: usize = 2048;
const S_ENDPGM: u32 = 0xbfb0_0000;

/// Pages of code, two of them unless there are to be more.
#[repr(align(4096))]
struct Code<const N: usize = WORDS> {
    words: [AtomicU32; N],
    translations: AtomicU64,
}

impl Code {
    /// `s_mov_b32 s0, value`, and the end of the program.
    fn new(value: u32) -> Arc<Code> {
        let code = Code {
            words: core::array::from_fn(|_| AtomicU32::new(S_ENDPGM)),
            translations: AtomicU64::new(0),
        };
        code.set(value);
        Arc::new(code)
    }

    fn set(&self, value: u32) {
        self.words[0].store(0xbe80_0080 + value, Ordering::SeqCst);
    }
}

// SAFETY: the words live as long as the address space, and are atomics.
unsafe impl<const N: usize> Mmu for Code<N> {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        self.translations.fetch_add(1, Ordering::SeqCst);
        let len = N as u64 * 4;
        if va.wrapping_sub(PC) >= len {
            return Err(Fault::new(va, access, FaultKind::NotPresent));
        }
        Ok(Mapping {
            va: PC,
            len,
            host: self.words[0].as_ptr().cast(),
            writable: true,
            executable: true,
            mirrored: false,
            alone: false,
        })
    }
    fn generation(&self) -> u64 {
        1
    }
    fn context(&self) -> u64 {
        7
    }
}

/// Runs a wave and returns its `s0`.
fn run(code: &Code, cache: &mut CodeCache, epoch: u64) -> u32 {
    wave((code, cache), epoch, Apertures::default(), 100).sgpr(0)
}

/// Runs a wave to its end on a worker, with at most `budget` instructions, and returns it.
fn wave((code, cache): (&Code, &mut CodeCache), code_epoch: u64, apertures: Apertures, budget: u64) -> Wave {
    wave_at((code, cache), (PC, code_epoch), apertures, budget)
}

/// As [`wave`], for a wave that begins at an address.
fn wave_at<const N: usize>(
    (code, cache): (&Code<N>, &mut CodeCache),
    (pc, code_epoch): (u64, u64),
    apertures: Apertures,
    budget: u64,
) -> Wave {
    let mut wave = Wave::new(&WaveInit { pc, sgprs: &[0, 0, pc as u32], ..WaveInit::default() });
    let mut env = Env {
        mmu: code,
        tlb: &mut Tlb::new(),
        code: cache,
        lds: &mut Lds::new(0),
        apertures,
        clock: &|| 0,
        code_epoch,
    };
    assert_eq!(exec::run(&mut wave, &mut env, budget), Stop::EndProgram);
    wave
}

fn shared() -> Arc<SharedCode> {
    Arc::new(SharedCode::new(Arch::Gfx1100, Backend::detect()))
}

#[test]
fn workers_that_begin_together_lower_a_region_once() {
    const WORKERS: usize = 8;
    for _ in 0..50 {
        let (memory, code, start) = (Code::new(5), shared(), Barrier::new(WORKERS));
        let counts: Vec<RegionCounts> = std::thread::scope(|scope| {
            let worker = || {
                let mut cache = CodeCache::sharing(Arc::clone(&code));
                start.wait();
                for epoch in 1..4 {
                    assert_eq!(run(&memory, &mut cache, epoch), 5);
                }
                cache.take_counts()
            };
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().expect("it does not panic")).collect()
        });
        let sum = |part: fn(&RegionCounts) -> u64| counts.iter().map(part).sum::<u64>();
        assert_eq!((sum(|counts| counts.lowered), sum(|counts| counts.shared)), (1, WORKERS as u64 - 1));
    }
}

#[test]
fn worker_sees_new_code_in_the_next_epoch_and_not_before() {
    let (memory, code) = (Code::new(1), shared());
    let [mut first, mut second] = [CodeCache::sharing(Arc::clone(&code)), CodeCache::sharing(code)];
    assert_eq!((run(&memory, &mut first, 1), run(&memory, &mut second, 1)), (1, 1));
    memory.set(2);
    // The second worker goes on to an epoch of its own: what it lowers is not the first one's yet.
    assert_eq!(run(&memory, &mut second, 2), 2);
    assert_eq!(run(&memory, &mut first, 1), 1, "the epoch in which it looked is not over");
    assert_eq!(run(&memory, &mut first, 2), 2);
    assert_eq!(first.take_counts(), RegionCounts { lowered: 1, shared: 1 });
    assert_eq!(second.take_counts(), RegionCounts { lowered: 1, shared: 1 });
    // Old code that comes back is lowered again: a key has one region.
    memory.set(1);
    assert_eq!((run(&memory, &mut first, 3), run(&memory, &mut second, 3)), (1, 1));
    assert_eq!(first.take_counts(), RegionCounts { lowered: 1, shared: 0 });
    assert_eq!(second.take_counts(), RegionCounts { lowered: 0, shared: 1 });
}

#[test]
fn new_code_is_seen_wherever_it_is() {
    let (memory, mut cache) = (Code::new(0), CodeCache::sharing(shared()));
    // s_add_u32 s0, s0, 1, up to the end of the program, which is in the last word of all.
    memory.words[..WORDS - 1].iter().for_each(|word| word.store(0x8000_8100, Ordering::SeqCst));
    let sums =
        |cache: &mut CodeCache, epoch| wave((&memory, cache), epoch, Apertures::default(), 1 << 20).sgpr(0);
    let mut expected = WORDS as u32 - 1;
    assert_eq!(sums(&mut cache, 1), expected);
    for (epoch, at) in (2..).zip([0, 63, 64, 65, 1023, 1024, WORDS - 2]) {
        // s_nop 0.
        memory.words[at].store(0xbf80_0000, Ordering::SeqCst);
        assert_eq!(sums(&mut cache, epoch - 1), expected, "not in the same epoch");
        expected -= 1;
        assert_eq!(sums(&mut cache, epoch), expected, "word {at}");
    }
    assert_eq!(cache.take_counts().lowered, 8);
    assert_eq!(sums(&mut cache, 100), expected);
    assert_eq!(cache.take_counts(), RegionCounts::default(), "nothing is new");
}

#[test]
fn regions_differ_by_the_apertures_they_were_lowered_for() {
    let (memory, code) = (Code::new(0), shared());
    // s_mov_b64 s[0:1], src_shared_base: a constant in the lowered code.
    memory.words[0].store(0xbe80_01eb, Ordering::SeqCst);
    let high = |base: u64| {
        let mut cache = CodeCache::sharing(Arc::clone(&code));
        let apertures = Apertures { shared_base: base, private_base: 0 };
        wave((&memory, &mut cache), 1, apertures, 100).sgpr(1)
    };
    assert_eq!((high(1 << 48), high(2 << 48), high(1 << 48)), (1 << 16, 2 << 16, 1 << 16));
}

#[test]
fn large_regions_are_compiled_beside_the_interpreter() {
    let backend = Backend::detect();
    if !Backend::all().any(|other| other.kind() == backend.kind() && other.tier() == Tier::One) {
        println!("nothing is compiled on this host: there is nothing to see");
        return;
    }
    let (memory, mut cache) = (Code::new(0), CodeCache::sharing(shared()));
    // s_add_u32 s0, s0, 1, up to the end of the program.
    let sums = WORDS - 1;
    memory.words[..sums].iter().for_each(|word| word.store(0x8000_8100, Ordering::SeqCst));
    let mut compiled = || {
        let wave = wave((&memory, &mut cache), 1, Apertures::default(), 1 << 20);
        assert_eq!(wave.sgpr(0), sums as u32);
        let (region, _) = cache.last.as_ref().expect("it was run");
        assert!(region.code.len() >= LARGE);
        (region.compiles.load(Ordering::SeqCst), region.machine_code().is_some())
    };
    assert_eq!(compiled(), (false, false), "what is used once is interpreted");
    // However long the other thread takes.
    let begun = std::time::Instant::now();
    while compiled() != (true, true) {
        assert!(begun.elapsed().as_secs() < 60, "nobody has compiled it");
    }
    compiled();
}

/// Words of a block.
const BLOCK: usize = 16;
/// Blocks of a program that goes through them backwards.
const BLOCKS: usize = 512;
const LARGE_WORDS: usize = BLOCK * BLOCKS;

/// A program of blocks, each of which jumps to the block before it. Each could also go on to the block after it: so
/// the region that begins with a block includes all later ones.
fn backwards() -> Box<Code<LARGE_WORDS>> {
    let code =
        Code { words: [const { AtomicU32::new(S_ENDPGM) }; LARGE_WORDS], translations: AtomicU64::new(0) };
    for block in code.words.chunks(BLOCK).take(BLOCKS - 1) {
        // s_add_u32 s0, s0, 1; s_cbranch_scc1 to the next block; s_sub_u32 s2, s2, 64; s_setpc_b64 s[2:3].
        for (word, value) in block.iter().zip([0x8000_8100, 0xbfa2_000e, 0x8082_c002, 0xbe80_4802]) {
            word.store(value, Ordering::SeqCst);
        }
    }
    // The first one ends; s_nop in front of it keeps its place.
    code.words[3].store(S_ENDPGM, Ordering::SeqCst);
    Box::new(code)
}

#[test]
fn regions_of_any_number_take_bounded_memory() {
    const MOST: usize = 8 << 20;
    const WORKERS: usize = 3;
    let memory = backwards();
    let code = Arc::new(SharedCode::within(Arch::Gfx1100, Backend::detect().with_tier(Tier::Zero), MOST));
    let first = PC + (BLOCKS as u64 - 2) * BLOCK as u64 * 4;
    // The largest region, and what it takes: without a bound all of them took half as much each.
    let mut alone = CodeCache::new(Arch::Gfx1100, Backend::detect().with_tier(Tier::Zero));
    wave_at((&memory, &mut alone), (PC, 1), Apertures::default(), 100);
    let largest = alone.code.budget.taken();
    assert!(largest * BLOCKS / 2 > 8 * MOST, "there is something to bound: {largest}");
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut cache = CodeCache::sharing(Arc::clone(&code));
                for epoch in 1..3 {
                    let wave = wave_at((&memory, &mut cache), (first, epoch), Apertures::default(), 1 << 20);
                    assert_eq!(wave.sgpr(0), BLOCKS as u32 - 1, "each block was executed once");
                    // Beside what is kept, each worker has one that it runs, and may be making another one.
                    let taken = code.budget.taken();
                    assert!(
                        taken <= MOST + 2 * WORKERS * largest,
                        "{taken} of {MOST}, {largest} the largest"
                    );
                }
            });
        }
    });
    // A worker cannot make room while another test does.
    assert!(code.budget.taken() <= MOST + WORKERS * largest, "{}", code.budget.taken());
}

#[test]
fn what_is_used_stays_and_what_is_oldest_goes() {
    let memory = backwards();
    let backend = Backend::detect().with_tier(Tier::Zero);
    let mut alone = CodeCache::new(Arch::Gfx1100, backend);
    let block = |n: u64| PC + n * BLOCK as u64 * 4;
    wave_at((&memory, &mut alone), (PC, 1), Apertures::default(), 100);
    let largest = alone.code.budget.taken();
    let code = Arc::new(SharedCode::within(Arch::Gfx1100, backend, largest * 4));
    let mut cache = CodeCache::sharing(Arc::clone(&code));
    let mut lowered = |n: u64| {
        let mut global = Global { mmu: &*memory, tlb: &mut Tlb::new() };
        let key = Key { pc: block(n), halves: 1, mode: 0, second_from: 0, allocated: 0 };
        // By `find`, which does not look at the region used last: each block is part of the regions that begin before
        // it.
        cache.find(key, 1, Apertures::default(), &mut global);
        cache.take_counts().lowered
    };
    assert_eq!(lowered(0), 1);
    // Others come, and the first one is looked for in between.
    for n in 1..20 {
        assert_eq!((lowered(n), lowered(0)), (1, 0), "region {n}");
    }
    assert_eq!(lowered(19), 0, "the last one is there");
    assert_eq!(lowered(1), 1, "one that nobody has looked for since is not");
    assert!(code.budget.taken() <= largest * 4);
}

/// Threads of this process that compile.
fn compilers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there is a list of threads");
    let names =
        tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim_end() == compiler::NAME).count()
}

#[test]
fn one_thread_compiles_all_that_is_hot() {
    let backend = Backend::detect().with_tier(Tier::Auto);
    if backend.tier() == Tier::Zero {
        println!("nothing is compiled on this host: there is nothing to see");
        return;
    }
    let memory = backwards();
    let mut cache = CodeCache::new(Arch::Gfx1100, backend);
    // More than wait at a time, each of them large.
    let regions: Vec<Arc<Region>> = (0..64_u64)
        .map(|n| {
            let mut global = Global { mmu: &*memory, tlb: &mut Tlb::new() };
            let key = Key { pc: PC + n * BLOCK as u64 * 4, halves: 1, mode: 0, second_from: 0, allocated: 0 };
            cache.find(key, 1, Apertures::default(), &mut global)
        })
        .collect();
    assert!(regions.iter().all(|region| region.code.len() >= LARGE));
    let begun = std::time::Instant::now();
    let mut most = 0;
    let mut refused = false;
    while regions.iter().any(|region| region.compiled.get().is_none()) {
        for region in &regions {
            region.was_used(u64::MAX);
            refused |= region.compiled.get().is_none() && !region.compiles.load(Ordering::SeqCst);
        }
        most = most.max(compilers());
        assert!(begun.elapsed().as_secs() < 120, "nobody has compiled them");
        std::thread::yield_now();
    }
    assert!(most <= 1, "{most} threads at a time");
    assert!(refused, "the queue has an end");
}
