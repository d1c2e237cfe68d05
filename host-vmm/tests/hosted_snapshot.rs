//! Snapshots of hosted programs: the library's, in the middle of a grid, and `belfry run --mode hosted --snapshot` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use belfry_device::chip::Model;
use belfry_device::trace::{Kind, Record, TraceSink};
use belfry_device::{Gpu, GpuConfig, Rest};
use belfry_examples::kernels;
use belfry_kfd_hosted::HostedGpu;
use belfry_machine::snapshot::HostedSnapshot;
use belfry_runtime::{Pool, Runtime};
use belfry_runtime_hosted::HostedTransport;
use belfry_tools::inspect::Inspect as _;
use belfry_vmm::snapshot::Source;

const LIMIT: Duration = Duration::from_secs(60);

/// Halts a device as soon as it has begun workgroups for the twentieth time.
#[derive(Debug, Default)]
struct Halts {
    begun: AtomicU64,
    gpu: Mutex<Weak<Gpu>>,
}

impl TraceSink for Halts {
    fn record(&self, record: &Record) {
        if record.kind == Kind::WorkgroupStart
            && self.begun.fetch_add(1, Ordering::SeqCst) == 19
            && let Some(gpu) = self.gpu.lock().unwrap().upgrade()
        {
            gpu.inspect().halt_soon();
        }
    }
}

/// A GPU with a program.
fn gpu(chip: &'static Model, trace: Option<Arc<dyn TraceSink>>) -> (Arc<HostedGpu>, Runtime) {
    let config = GpuConfig { chip, workers: 1, trace, ..GpuConfig::default() };
    let gpu = HostedGpu::new(config).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    (gpu, runtime)
}

/// Waits until the device has been halted, and stands still.
fn wait_for_halt(gpu: &Gpu) {
    let begun = Instant::now();
    while !gpu.inspect().status().halted {
        assert!(begun.elapsed() < LIMIT, "the grid does not begin");
        std::thread::yield_now();
    }
    gpu.inspect().halt().unwrap();
}

/// The PASID of the only process that has queues.
fn pasid(gpu: &Gpu) -> u16 {
    gpu.inspect().queues().unwrap().iter().find(|queue| !queue.kernel).unwrap().pasid
}

fn floats(gpu: &Gpu, pasid: u16, address: u64, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; count * 4];
    assert_eq!(gpu.inspect().bytes_of_process(pasid, address, &mut bytes).unwrap(), bytes.len());
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Goes on from a file; the device, and the digest of its memory.
fn resume(path: &Path) -> (Arc<Gpu>, Rest, u64) {
    let snapshot = HostedSnapshot::open(path).unwrap();
    snapshot.check_memory().unwrap();
    let alone = snapshot.resume(snapshot.config()).unwrap();
    let rest = alone.gpu().run_to_rest(LIMIT);
    (alone.gpu().clone(), rest, alone.digest().unwrap())
}

/// Every kind of memory takes its turn as the one that is stored to.
#[test]
fn grid_in_flight_comes_to_what_the_program_saw() {
    const COUNT: u32 = 1 << 19;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    for (chip, turn) in [("gfx1100", 0), ("gfx1201", 1), ("gfx942", 2)] {
        let halts = Arc::new(Halts::default());
        let (hosted, runtime) = gpu(Model::named(chip).unwrap(), Some(halts.clone()));
        *halts.gpu.lock().unwrap() = Arc::downgrade(hosted.device());
        let gpu = runtime.gpu();
        let mut pools: [Pool; 3] = [gpu.vram(), gpu.gtt(), gpu.userptr()];
        pools.rotate_left(turn);
        let numbers = |factor: u32| -> Vec<f32> { (0..COUNT).map(|at| (at * factor) as f32).collect() };
        let a = pools[1].buffer_from(&numbers(3)).unwrap();
        let b = pools[2].buffer_from(&numbers(5)).unwrap();
        let c = pools[0].buffer::<f32>(COUNT as usize).unwrap();
        let queue = gpu.queue().unwrap();
        let kernel = gpu.load(kernels::VECADD.on(gpu).unwrap()).unwrap().kernel("vecadd").unwrap();
        let launch = || kernel.launch(&queue).grid(COUNT).block(256).args((&a, &b, &c, COUNT)).submit();
        let completion = launch().unwrap();
        // This dispatch comes after it, and is done as well.
        let second = launch().unwrap();
        wait_for_halt(hosted.device());
        let saved = Source::Hosted(Arc::downgrade(&hosted)).save(&path).unwrap();
        eprintln!("{chip}: {saved:?}");
        let before = hosted.device().stats();
        let pasid = pasid(hosted.device());
        assert!(before.dispatches == 0 && before.workgroups < u64::from(COUNT / 256), "{before:?}");
        hosted.device().inspect().proceed();
        completion.wait().unwrap();
        second.wait().unwrap();
        let whole = c.to_vec();
        assert!(whole == numbers(8), "the program is right");

        let (device, rest, digest) = resume(&path);
        assert_eq!(rest, Rest::Idle, "{chip}");
        assert_eq!(device.stats().dispatches, 2, "{chip}");
        assert!(floats(&device, pasid, c.address(), COUNT as usize) == whole, "{chip}");
        assert!(floats(&device, pasid, a.address(), COUNT as usize) == numbers(3), "{chip}");
        let (_, _, again) = resume(&path);
        assert_eq!(again, digest, "{chip}: it comes to the same each time");
    }
}

#[test]
fn what_waits_for_the_program_or_never_ends_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let (hosted, runtime) = gpu(Model::named("gfx1100").unwrap(), None);
    let gpu = runtime.gpu();
    let source = Source::Hosted(Arc::downgrade(&hosted));
    let (queue, signal) = (gpu.queue().unwrap(), gpu.signal(1).unwrap());
    let barrier = queue.barrier_and(&[&signal]).unwrap();
    source.save(&path).unwrap();
    let (_, rest, _) = resume(&path);
    assert!(matches!(rest, Rest::Waiting(_)), "{rest:?}");
    signal.store(0);
    barrier.wait().unwrap();
    source.save(&path).unwrap();
    assert_eq!(resume(&path).1, Rest::Idle);

    let beats = gpu.gtt().buffer_from(&[0u32]).unwrap();
    let endless = gpu.load(kernels::ENDLESS.on(gpu).unwrap()).unwrap().kernel("endless").unwrap();
    let completion = endless.launch(&queue).grid(64).block(64).arg(&beats).submit().unwrap();
    while beats.get(0).unwrap() == 0 {
        std::thread::yield_now();
    }
    source.save(&path).unwrap();
    let snapshot = HostedSnapshot::open(&path).unwrap();
    assert!(snapshot.head().waves > 0);
    let alone = snapshot.resume(snapshot.config()).unwrap();
    let rest = alone.gpu().run_to_rest(Duration::from_millis(100));
    assert!(matches!(&rest, Rest::Late(left) if left.waves > 0), "{rest:?}");
    queue.destroy().unwrap();
    assert!(completion.wait().is_err());
}

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

/// Runs a command that must end with this status; its output on both streams.
#[track_caller]
fn ends(status: i32, arguments: &[&str]) -> String {
    let output = belfry(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// The line about a device that has gone on, without its times.
#[track_caller]
fn outcome(said: &str) -> String {
    let line = said.lines().find(|line| line.starts_with("resumed in ")).unwrap_or_else(|| panic!("{said}"));
    eprintln!("{line}");
    line.split_once(" ms: ").unwrap().1.to_owned()
}

#[test]
fn programs_are_saved_on_the_way_and_their_grids_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snap shot");
    let file = path.to_str().unwrap();
    for (moment, program) in [
        ("dispatch:1", &["vector-add"][..]),
        ("workgroup:100", &["vector-add"]),
        ("dispatch:5", &["many-queues", "4"]),
        ("sdma:1", &["copy-engines"]),
    ] {
        let run = ["run", "--mode", "hosted", "--snapshot", file, "--snapshot-at", moment, "--"];
        let said = ends(0, &[&run[..], program].concat());
        assert!(said.contains("belfry: saved ") && said.contains("verified"), "{moment}: {said}");
        let checked = ends(0, &["snapshot", "--check", file]);
        assert!(checked.contains("the GPU of a hosted program"), "{checked}");
        let first = outcome(&ends(0, &["run", "--from", file]));
        assert!(first.contains("queues idle"), "{moment}: {first}");
        assert!(!first.contains(" 0 events"), "{moment}: {first}");
        let second =
            outcome(&ends(0, &["run", "--mode", "hosted", "--verify", "--workers", "3", "--from", file]));
        assert_eq!(first, second, "{moment}");
    }
    let futures = ends(0, &["fork", "-n", "2", file]);
    assert_eq!(futures.lines().filter(|line| line.contains("status 0")).count(), 2, "{futures}");
}

#[test]
fn snapshots_of_something_else_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let file = path.to_str().unwrap();
    let take = ["run", "--mode", "hosted", "--snapshot", file, "--snapshot-at", "workgroup:3", "--"];
    ends(0, &[&take[..], &["vector-add", "65536"]].concat());
    let said = ends(125, &["run", "--mode", "kvm", "--from", file]);
    assert!(said.contains("of the GPU of a hosted program, and not of a machine"), "{said}");
    let said = ends(125, &["run", "--mode", "qemu", "--from", file]);
    assert!(said.contains("QEMU has no snapshots"), "{said}");
    let said = ends(125, &["run", "--from", file, "--snapshot", file, "--snapshot-at", "1s"]);
    assert!(said.contains("a GPU alone"), "{said}");
    let said = ends(125, &["run", "--from", file, "--chip", "gfx1201"]);
    assert!(said.contains("--chip"), "{said}");

    let whole = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let damaged = |at: u64, said: &str| {
        use std::os::unix::fs::FileExt as _;
        let mut byte = [0];
        whole.read_exact_at(&mut byte, at).unwrap();
        whole.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
        let error = ends(125, &["run", "--mode", "hosted", "--verify", "--from", file]);
        whole.write_all_at(&byte, at).unwrap();
        assert!(error.contains(said), "byte {at}: {error}");
    };
    damaged(0, "no snapshot");
    damaged(8, "version");
    damaged(40, "head");
    damaged(4200, "state is damaged");
    let length = whole.metadata().unwrap().len();
    damaged(length - 100, "VRAM is damaged");
    ends(0, &["run", "--from", file]);
    whole.set_len(length - 4096).unwrap();
    assert!(ends(125, &["run", "--from", file]).contains("cut off"));
    whole.set_len(length + 4096).unwrap();
    assert!(ends(125, &["run", "--from", file]).contains("should have"));
    // What was recorded has no memory of its own to save; the run goes on.
    let record = folder.path().join("record");
    let other = folder.path().join("none");
    let both = [
        "run",
        "--mode",
        "hosted",
        "--record",
        record.to_str().unwrap(),
        "--snapshot",
        other.to_str().unwrap(),
    ];
    let said = ends(0, &[&both[..], &["--snapshot-at", "dispatch:1", "--", "vector-add", "4096"]].concat());
    assert!(said.contains("cannot be saved") && said.contains("verified") && !other.exists(), "{said}");
}
