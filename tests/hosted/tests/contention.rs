//! Atomics of waves against each other and against the processor, and workgroups that wait for each other.
#![expect(unsafe_code, reason = "the processor's side updates words of a GPU buffer atomically")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use belfry_device::GpuConfig;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

fn process(config: GpuConfig) -> Runtime {
    let gpu = HostedGpu::new(GpuConfig { vram_size: 64 << 20, ..config }).unwrap();
    Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap()
}

/// A number the compare-and-swap loops of `contend` apply to word 1, here as in the kernel.
fn scramble(old: u32) -> u32 {
    (old.wrapping_mul(5) % 7).wrapping_add(old & !7).wrapping_add(8)
}

#[test]
fn waves_and_processor_update_the_same_words_exactly() {
    const ITEMS: u32 = 512;
    const ROUNDS: u32 = 64;
    const CPU_ROUNDS: u32 = 30_000;
    const THREADS: u32 = 2;
    let runtime = process(GpuConfig { workers: 2, ..GpuConfig::default() });
    let gpu = runtime.gpu();
    let words = gpu.gtt().buffer_from(&[0u32; 8]).unwrap();
    let wide = gpu.gtt().buffer_from(&[0u64; 2]).unwrap();
    let queue = gpu.queue().unwrap();
    let contend = gpu.load(belfry_test_roles::probe(gpu)).unwrap().kernel("contend").unwrap();
    let word = |index: usize| {
        let pointer = std::ptr::with_exposed_provenance_mut::<u32>(words.address() as usize);
        // SAFETY: the buffer outlives the closure, its address is the processor's too, and while the kernel runs its words
        // are only updated atomically.
        unsafe { AtomicU32::from_ptr(pointer.wrapping_add(index)) }
    };
    let long = |index: usize| {
        let pointer = std::ptr::with_exposed_provenance_mut::<u64>(wide.address() as usize);
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(pointer.wrapping_add(index)) }
    };
    let completion =
        contend.launch(&queue).grid(ITEMS).block(64).args((&words, &wide, ROUNDS)).submit().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..CPU_ROUNDS {
                    word(0).fetch_add(1, Ordering::SeqCst);
                    let _ =
                        word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| Some(scramble(old)));
                    let _ = word(2).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                        Some((f32::from_bits(old) + 1.0).to_bits())
                    });
                    word(3).fetch_xor(1 << (round & 31), Ordering::Relaxed);
                    word(4).fetch_max(round, Ordering::Relaxed);
                    long(0).fetch_add(0x1_0000_0001, Ordering::Relaxed);
                    let _ = long(1).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                        Some((f64::from_bits(old) + 0.5).to_bits())
                    });
                }
            });
        }
    });
    completion.wait().unwrap();
    let updates = ITEMS * ROUNDS + THREADS * CPU_ROUNDS;
    let mut scrambled = 0;
    for _ in 0..updates {
        scrambled = scramble(scrambled);
    }
    let got = words.to_vec();
    assert_eq!(got[0], updates);
    assert_eq!(got[1], scrambled);
    assert_eq!(f32::from_bits(got[2]), updates as f32);
    // Each bit is flipped an even number of times by the waves; by the processor twice in each round of both threads.
    assert_eq!(got[3], 0);
    assert_eq!(got[4], (CPU_ROUNDS - 1).max(ITEMS - 1 + ROUNDS - 1));
    let got = wide.to_vec();
    assert_eq!(got[0], u64::from(updates) * 0x1_0000_0001);
    assert_eq!(f64::from_bits(got[1]), f64::from(updates) / 2.0);
}

/// Grid barriers and spin locks progress with any number of workers, and in a deterministic schedule.
#[test]
fn workgroups_that_wait_for_each_other_progress() {
    for (workers, deterministic) in [(1, None), (2, None), (1, Some(3))] {
        let runtime = process(GpuConfig { workers, deterministic, ..GpuConfig::default() });
        let gpu = runtime.gpu();
        let module = gpu.load(belfry_test_roles::probe(gpu)).unwrap();
        let queue = gpu.queue().unwrap();
        let (groups, rounds) = (32u32, 3u32);
        let arrived = gpu.gtt().buffer_from(&[0u32]).unwrap();
        let out = gpu.gtt().buffer_from(&vec![0u32; 64 * groups as usize]).unwrap();
        let rendezvous = module.kernel("rendezvous").unwrap();
        let launch = rendezvous.launch(&queue).grid(64 * groups).block(64);
        launch.args((&arrived, &out, groups, rounds)).run().unwrap();
        assert_eq!(arrived.get(0).unwrap(), groups * rounds);
        assert!(out.to_vec().iter().all(|seen| *seen == groups * rounds));
        let taken = gpu.gtt().buffer_from(&[0u32]).unwrap();
        let count = gpu.gtt().buffer_from(&[0u32]).unwrap();
        let lock = module.kernel("lock").unwrap();
        lock.launch(&queue).grid(64 * groups).block(64).args((&taken, &count, 50u32)).run().unwrap();
        assert_eq!(count.get(0).unwrap(), groups * 50);
    }
}
