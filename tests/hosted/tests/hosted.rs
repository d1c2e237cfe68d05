//! The whole path in one process: runtime, driver core and device, without a VM.

use std::sync::Arc;

use belfry_device::chip::{self, Model};
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

/// A GPU of its own for one test.
fn gpu() -> Arc<HostedGpu> {
    gpu_of(chip::DEFAULT)
}

/// A GPU of a chip.
fn gpu_of(chip: &'static Model) -> Arc<HostedGpu> {
    HostedGpu::new(GpuConfig { chip, vram_size: 64 << 20, ..GpuConfig::default() }).unwrap()
}

/// A process on that GPU.
fn process(gpu: &Arc<HostedGpu>) -> Runtime {
    Runtime::with_transport(HostedTransport::open(gpu).unwrap()).unwrap()
}

/// Runs a role in a process of its own.
fn role(gpu: &Arc<HostedGpu>, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let mut out = Vec::new();
    belfry_test_roles::run(name, &process(gpu), &arguments, &mut out)?;
    Ok(String::from_utf8(out)?)
}

macro_rules! examples {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            for chip in chip::MODELS {
                let gpu = gpu_of(chip);
                let mut out = Vec::new();
                belfry_examples::run($name, &process(&gpu), &[], &mut out).unwrap_or_else(|error| {
                    panic!("{} on {chip}: {error:?}\n{}", $name, String::from_utf8_lossy(&out))
                });
            }
        }
    )*
        /// Examples that take no arguments; `launch` has tests of its own.
        const TESTED: &[&str] = &[$($name),*];
    };
}

examples! {
    vector_add_succeeds: "vector-add";
    gemm_succeeds: "gemm";
    reduce_succeeds: "reduce";
    histogram_succeeds: "histogram";
    sort_succeeds: "sort";
    transcendental_succeeds: "transcendental";
    matrix_succeeds: "matrix";
    mixed_succeeds: "mixed";
    shapes_succeeds: "shapes";
    scratch_succeeds: "scratch";
    memory_pools_succeeds: "memory-pools";
    copy_engines_succeeds: "copy-engines";
    barriers_and_signals_succeeds: "barriers-and-signals";
    grid_sync_succeeds: "grid-sync";
    many_queues_succeeds: "many-queues";
    context_save_succeeds: "context-save";
    stop_endless_succeeds: "stop-endless";
    gpuinfo_succeeds: "gpuinfo";
}

#[test]
fn grid_sync_succeeds_beside_kernels_that_do_not_end() {
    let gpu = gpu();
    // One kernel in a process of its own, and one beside the queue with the global wave sync.
    let runtimes = [process(&gpu), process(&gpu)];
    let spins = runtimes.each_ref().map(|runtime| {
        let words = [0, 1].map(|_| runtime.gpu().gtt().buffer_from(&[0u32]).unwrap());
        let queue = runtime.gpu().queue().unwrap();
        let spin =
            runtime.gpu().load(belfry_test_roles::probe(runtime.gpu())).unwrap().kernel("spin").unwrap();
        let completion =
            spin.launch(&queue).grid(32).block(32).args((&words[0], &words[1])).submit().unwrap();
        while words[1].get(0).unwrap() == 0 {
            std::thread::yield_now();
        }
        (words, queue, completion)
    });
    let mut out = Vec::new();
    belfry_examples::run("grid-sync", &runtimes[1], &[], &mut out).unwrap();
    assert!(gpu.device().stats().queues_preempted > 0, "the queues took turns");
    // The kernels were kept off the GPU meanwhile, and go on afterwards.
    for ([stop, _], _queue, completion) in spins {
        stop.fill(1);
        completion.wait().unwrap();
    }
}

#[test]
fn every_example_has_a_test() {
    // `peers` needs several GPUs: `several.rs`.
    let tested = |name: &&str| ["all", "launch", "peers"].contains(name) || TESTED.contains(name);
    let untested: Vec<_> = belfry_examples::NAMES.iter().filter(|name| !tested(name)).collect();
    assert!(untested.is_empty(), "no test for {untested:?}");
}

#[test]
fn all_examples_run_in_one_process_with_a_line_each() {
    for chip in chip::MODELS {
        let gpu = gpu_of(chip);
        let mut out = Vec::new();
        belfry_examples::run("all", &process(&gpu), &[], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for name in TESTED {
            let ok = text.lines().any(|line| line.starts_with(name) && line.contains(" ok "));
            assert!(ok, "{name} on {chip}: {text}");
        }
        assert_eq!(text.lines().count(), TESTED.len(), "{chip}: {text}");
    }
}

/// Code that clang has made for whole kinds of processors, in compressed bundles of both versions, runs on the chip of each kind.
#[test]
fn compressed_code_for_a_kind_of_processors_runs_on_each_chip() {
    let fixtures =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-runtime/src/code_object/bundle/fixtures");
    for chip in chip::MODELS {
        let gpu = gpu_of(chip);
        for version in ["v2", "v3"] {
            let file = format!("{fixtures}/generic.{version}.hipfb");
            let rest = "--kernel double_them --grid 128 --block 64 --arg buf:u32:128:iota".split(' ');
            let args: Vec<String> = std::iter::once(file).chain(rest.map(str::to_owned)).collect();
            let mut out = Vec::new();
            belfry_examples::run("launch", &process(&gpu), &args, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains("u32[128] = 0, 2, 4, 6,"), "{chip} {version}: {out}");
        }
    }
}

#[test]
fn two_processes_cannot_reach_each_others_memory() {
    let gpu = gpu();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (address, release) = (path("address"), path("release"));
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| role(&gpu, "hold", &[&address, &release]));
        let victim = belfry_test_roles::wait_for(address.as_ref()).unwrap();
        let thief = role(&gpu, "steal", &[&victim]);
        std::fs::write(&release, "now").unwrap();
        assert!(thief.unwrap().contains("refused"));
        holder.join().unwrap().unwrap();
    });
    assert!(role(&gpu, "work", &[]).unwrap().contains("verified"));
}

#[test]
fn illegal_instruction_stops_its_queue_and_nothing_else() {
    for chip in chip::MODELS {
        let gpu = gpu_of(chip);
        assert!(role(&gpu, "illegal", &[]).unwrap().contains("refused"), "{chip}");
        // It is named: by its bytes, where it is, and its kernel.
        let stats = gpu.device().stats();
        assert_eq!(stats.errors.get(&GuestError::IllegalInstruction), Some(&1), "{chip}: {:?}", stats.errors);
        let reason = &stats.reasons[&GuestError::IllegalInstruction];
        assert!(reason.contains("illegal instruction [") && reason.contains("wave fault at 0x"), "{reason}");
        assert!(reason.ends_with("kernel=illegal"), "{reason}");
        assert!(role(&gpu, "work", &[]).unwrap().contains("verified"), "{chip}");
    }
}

#[test]
fn process_that_goes_away_with_its_queue_running_leaves_the_next_one_working() {
    let gpu = gpu();
    for _ in 0..3 {
        let runtime = process(&gpu);
        let stop = runtime.gpu().gtt().buffer_from(&[0u32]).unwrap();
        let begun = runtime.gpu().gtt().buffer_from(&[0u32]).unwrap();
        let queue = runtime.gpu().queue().unwrap();
        let spin =
            runtime.gpu().load(belfry_test_roles::probe(runtime.gpu())).unwrap().kernel("spin").unwrap();
        let completion = spin.launch(&queue).grid(32).block(32).args((&stop, &begun)).submit().unwrap();
        while begun.get(0).unwrap() == 0 {
            std::thread::yield_now();
        }
        // Others work beside the endless kernel, and after it was taken away.
        assert!(role(&gpu, "work", &[]).unwrap().contains("verified"));
        drop((completion, queue, spin, stop, begun, runtime));
        assert!(role(&gpu, "work", &[]).unwrap().contains("verified"));
    }
}

#[test]
fn read_only_memory_cannot_be_written_and_unmapped_memory_not_touched() {
    let gpu = gpu();
    let runtime = process(&gpu);
    let queue = runtime.gpu().queue().unwrap();
    let poke = runtime.gpu().load(belfry_test_roles::probe(runtime.gpu())).unwrap().kernel("poke").unwrap();
    let error = poke.launch(&queue).grid(1).block(1).args((0x1234_5000u64, 7u32)).run().unwrap_err();
    assert!(error.to_string().contains("0x12345000"), "{error}");
    assert!(role(&gpu, "work", &[]).unwrap().contains("verified"));
}
