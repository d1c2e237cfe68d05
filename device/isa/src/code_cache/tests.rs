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

/// Two pages of code.
#[repr(align(4096))]
struct Code {
    words: [AtomicU32; WORDS],
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
unsafe impl Mmu for Code {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        self.translations.fetch_add(1, Ordering::SeqCst);
        let len = WORDS as u64 * 4;
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
        })
    }
    fn generation(&self) -> u64 {
        1
    }
    fn context(&self) -> u64 {
        7
    }
}

/// What a wave finds in `s0` that a worker runs.
fn run(code: &Code, cache: &mut CodeCache, epoch: u64) -> u32 {
    wave((code, cache), epoch, Apertures::default(), 100).sgpr(0)
}

/// A wave that a worker has run to its end, with so many instructions at most.
fn wave((code, cache): (&Code, &mut CodeCache), code_epoch: u64, apertures: Apertures, budget: u64) -> Wave {
    let mut wave = Wave::new(&WaveInit { pc: PC, ..WaveInit::default() });
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
