//! Kernels whose code is kept, found again and run: they must leave in memory what tier 0 leaves.

#[macro_use]
mod common;

use core::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use belfry_isa::code_cache::{CodeCache, SharedCode};
use belfry_isa::code_store::{CodeKey, CodeStore, Found, KeptCode, KeptCounts};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::{Backend, Tier};
use common::{Args, BASE, Gpu, Objects, Random};

const MEMORY: usize = 4 << 20;

/// A store in memory, which others can be made of that have the same.
#[derive(Clone, Debug, Default)]
struct Memory {
    files: Arc<Mutex<HashMap<CodeKey, Vec<u8>>>>,
    /// Reasons why entries were discarded.
    discarded: Arc<Mutex<Vec<String>>>,
    /// Keeps nothing.
    is_full: bool,
    /// Trusts nothing that it has.
    refuses: bool,
}

impl CodeStore for Memory {
    fn find(&self, key: &CodeKey) -> Found {
        match self.files.lock().unwrap().get(key) {
            None => Found::Nothing,
            Some(_) if self.refuses => Found::Refused,
            Some(code) => Found::Code(code.clone()),
        }
    }

    fn keep(&self, key: &CodeKey, code: &[u8]) -> bool {
        if !self.is_full {
            self.files.lock().unwrap().insert(*key, code.to_vec());
        }
        !self.is_full
    }

    fn discard(&self, key: &CodeKey, why: &dyn Error) {
        self.discarded.lock().unwrap().push(why.to_string());
        self.files.lock().unwrap().remove(key);
    }
}

type Case = (&'static str, fn(&mut Gpu));

fn random(gpu: &mut Gpu, n: usize) -> u64 {
    let mut random = Random(n as u64);
    let values: Vec<f32> = (0..n).map(|_| random.small()).collect();
    gpu.buffer(&values)
}

fn launch(gpu: &mut Gpu, files: Objects<'_>, name: &str, sizes: ([u32; 3], [u32; 3]), args: &Args) {
    let kernel = gpu.load(files, name);
    gpu.launch(&kernel, sizes.0, sizes.1, args).unwrap();
}

/// Partial waves; LDS, barriers and loops; permutations; a loop of arithmetic alone; atomics, which handlers do; integers;
/// functions of a library; branches within waves.
const CASES: [Case; 8] = [
    ("vecadd", |gpu| {
        let (a, b, c) = (random(gpu, 1000), random(gpu, 1000), random(gpu, 1024));
        let args = Args::default().push(a).push(b).push(c).push(1000).hidden([8, 1, 1], [128, 1, 1]);
        launch(gpu, fixture!("vecadd"), "vecadd", ([8, 1, 1], [128, 1, 1]), &args);
    }),
    ("gemm_tiled", |gpu| {
        let (a, b, c) = (random(gpu, 1 << 14), random(gpu, 1 << 14), random(gpu, 1 << 14));
        let args = Args::default().push(c).push(a).push(b).push(128);
        launch(gpu, fixture!("bench"), "gemm_tiled", ([2, 2, 1], [256, 1, 1]), &args);
    }),
    ("reduce", |gpu| {
        let (data, out) = (random(gpu, 10_000), random(gpu, 64));
        let args = Args::default().push(data).push(out).push(10_000);
        launch(gpu, fixture!("reduce"), "reduce", ([64, 1, 1], [256, 1, 1]), &args);
    }),
    ("alu", |gpu| {
        let args = Args::default().push(random(gpu, 64)).push(20);
        launch(gpu, fixture!("bench"), "alu", ([2, 1, 1], [32, 1, 1]), &args);
    }),
    ("hist", |gpu| {
        let (data, out) = (random(gpu, 1000), gpu.buffer(&[0_u32; 256]));
        let args = Args::default().push(data).push(out).push(4000);
        launch(gpu, fixture!("hist"), "hist", ([16, 1, 1], [256, 1, 1]), &args);
    }),
    ("intmix", |gpu| {
        let args = Args::default().push(gpu.buffer(&[0_u32; 256])).push(200).push(50);
        let args = args.hidden([2, 1, 1], [128, 1, 1]);
        launch(gpu, fixture!("intmix"), "intmix", ([2, 1, 1], [128, 1, 1]), &args);
    }),
    ("misc", |gpu| {
        let [a, d, q] = [0; 3].map(|_: u32| random(gpu, 256));
        let h = gpu.buffer(&[0x3c00_u16, 0x4000, 0x4200, 0xc400].repeat(32));
        let args = Args::default().push(a).push(d).push(h).push(q).push(100).hidden([4, 1, 1], [32, 1, 1]);
        launch(gpu, fixture!("sort"), "misc", ([4, 1, 1], [32, 1, 1]), &args);
    }),
    ("gemm_naive", |gpu| {
        let (a, b, c) = (random(gpu, 1 << 10), random(gpu, 1 << 10), random(gpu, 1 << 10));
        let args = Args::default().push(c).push(a).push(b).push(32);
        launch(gpu, fixture!("bench"), "gemm_naive", ([1, 4, 1], [32, 8, 1]), &args);
    }),
];

/// All of memory after a kernel has run, so many bytes further on than it might be.
fn outcome_at(
    further: usize,
    (arch, backend): (Arch, Backend),
    kept: Option<&Arc<KeptCode>>,
    (_, run): Case,
) -> Vec<u8> {
    let mut gpu = Gpu::of(arch, backend, MEMORY);
    gpu.alloc(further);
    let code = SharedCode::new(arch, backend).kept_in(kept.map(Arc::clone));
    gpu.code = CodeCache::sharing(Arc::new(code));
    run(&mut gpu);
    gpu.memory.read(BASE, MEMORY)
}

fn outcome(arch: Arch, backend: Backend, kept: Option<&Arc<KeptCode>>, case: Case) -> Vec<u8> {
    outcome_at(0, (arch, backend), kept, case)
}

/// A process that keeps code of any size there.
fn process(store: &Memory) -> Arc<KeptCode> {
    Arc::new(KeptCode::new(store.clone(), 0))
}

fn compiling() -> impl Iterator<Item = Backend> {
    Backend::all().filter(|backend| backend.tier() == Tier::One)
}

#[test]
fn code_that_was_kept_does_what_the_interpreter_does() {
    for (arch, backend) in Arch::ALL.into_iter().flat_map(|arch| compiling().map(move |of| (arch, of))) {
        let interpreter = Backend::force(backend.kind()).expect("it compiles for it");
        let store = Memory::default();
        for case in CASES {
            let name = format!("{} on {arch:?}, {:?}", case.0, backend.kind());
            let expected = outcome(arch, interpreter, None, case);
            let [first, second] = [process(&store), process(&store)];
            assert!(outcome(arch, backend, Some(&first), case) == expected, "{name}, compiled");
            let counts = first.counts();
            assert!(counts.stored > 0 && counts.refused == 0, "{name}: {counts:?}");
            assert!(outcome(arch, backend, Some(&second), case) == expected, "{name}, found");
            let found = KeptCounts { loaded: counts.stored + counts.loaded, ..KeptCounts::default() };
            assert_eq!(second.counts(), found, "{name}: all of it was kept");
            // Another process may have kernels and buffers elsewhere.
            let (third, further) = (process(&store), 37 << 12);
            let expected = outcome_at(further, (arch, interpreter), None, case);
            let moved = outcome_at(further, (arch, backend), Some(&third), case);
            assert!(moved == expected, "{name}, found elsewhere");
            assert_eq!(third.counts(), found, "{name}: the same code");
        }
        assert_eq!(*store.discarded.lock().unwrap(), [""; 0]);
    }
}

#[test]
fn code_that_has_changed_is_compiled_instead_and_kept_anew() {
    let Some(backend) = compiling().last() else {
        return println!("nothing is compiled on this host: there is nothing to see");
    };
    let (store, case) = (Memory::default(), CASES[0]);
    let run = |store: &Memory| {
        let process = process(store);
        (outcome(Arch::Gfx1100, backend, Some(&process), case), process.counts())
    };
    let (expected, kept) = run(&store);
    for code in store.files.lock().unwrap().values_mut() {
        let middle = code.len() / 2;
        code[middle] ^= 1;
    }
    let (changed, counts) = run(&store);
    assert!(changed == expected);
    assert_eq!(counts, KeptCounts { refused: kept.stored, stored: kept.stored, ..counts });
    let discarded = store.discarded.lock().unwrap().clone();
    assert_eq!(discarded, vec!["its checksum is not that of its content"; kept.stored as usize]);
    let (again, counts) = run(&store);
    assert!(again == expected);
    assert_eq!(counts, KeptCounts { loaded: kept.stored, ..KeptCounts::default() });
    // Neither what is not trusted nor a store without room makes a difference.
    let (distrusted, counts) = run(&Memory { refuses: true, is_full: true, ..store });
    assert!(distrusted == expected);
    assert_eq!(counts, KeptCounts { refused: kept.stored, ..KeptCounts::default() });
}

#[test]
fn small_regions_and_code_that_counts_are_left_out() {
    let Some(backend) = compiling().last() else {
        return println!("nothing is compiled on this host: there is nothing to see");
    };
    let store = Memory::default();
    let run = |process: KeptCode, backend| {
        let process = Arc::new(process);
        outcome(Arch::Gfx1100, backend, Some(&process), CASES[3]);
        process.counts()
    };
    let small = run(KeptCode::new(store.clone(), 1 << 20), backend);
    let counting = run(KeptCode::new(store.clone(), 0), backend.counting());
    for counts in [small, counting] {
        assert!(counts.left_out > 0, "{counts:?}");
        assert_eq!(counts, KeptCounts { left_out: counts.left_out, ..KeptCounts::default() });
    }
    assert!(store.files.lock().unwrap().is_empty());
}
