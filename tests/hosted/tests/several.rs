//! Kernels on each GPU of a machine with several, over the runtime, the driver and the devices.

use std::io::{self, Cursor, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use belfry_device::chip::{MODELS, Model, gfx942, gfx950, gfx1100, gfx1151, gfx1201};
use belfry_device::profile::{LinkBytes, ProfileOptions, Profiler};
use belfry_device::record::{Recorded, Recording};
use belfry_device::{GpuConfig, Processors, Replay, Tier};
use belfry_kfd_hosted::{HostedConfig, HostedMachine, Links};
use belfry_runtime::{Gpu, Runtime};
use belfry_runtime_hosted::HostedTransport;

static VECADD_GFX942: &[u8] = include_bytes!("../../../guest-runtime/kernels/vecadd.gfx942.hsaco");
static VECADD_GFX1100: &[u8] = include_bytes!("../../../guest-runtime/kernels/vecadd.gfx1100.hsaco");
static PEERS: [(&Model, &[u8]); 5] = [
    (&gfx1100::MODEL, include_bytes!("../../../guest-runtime/kernels/peers.gfx1100.hsaco")),
    (&gfx950::MODEL, include_bytes!("../../../guest-runtime/kernels/peers.gfx950.hsaco")),
    (&gfx1151::MODEL, include_bytes!("../../../guest-runtime/kernels/peers.gfx1151.hsaco")),
    (&gfx1201::MODEL, include_bytes!("../../../guest-runtime/kernels/peers.gfx1201.hsaco")),
    (&gfx942::MODEL, include_bytes!("../../../guest-runtime/kernels/peers.gfx942.hsaco")),
];
const COUNT: usize = 20_000;
/// Words of example `peers`.
const ITEMS: u32 = 3001;
/// Rounds in which kernels of two GPUs answer each other.
const ROUNDS: u32 = 200;

/// Adds two vectors on one agent.
fn add(gpu: &Gpu, code: &[u8], factor: f32) {
    let kernel = gpu.load(code).unwrap().kernel("vecadd").unwrap();
    let a = gpu.vram().buffer_from(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    let b = gpu.gtt().buffer_from(&(0..COUNT).map(|i| i as f32 * factor).collect::<Vec<_>>()).unwrap();
    let sum = gpu.gtt().buffer_from(&vec![0f32; COUNT]).unwrap();
    let args = vec![(&a).into(), (&b).into(), (&sum).into(), (COUNT as u32).into()];
    kernel.launch(&gpu.queue().unwrap()).grid(COUNT as u32).block(256).args(args).run().unwrap();
    let sum = sum.to_vec();
    assert!(sum.iter().enumerate().all(|(i, sum)| (sum - i as f32 * (1.0 + factor)).abs() < f32::EPSILON));
}

#[test]
fn kernels_run_on_each_gpu_of_a_machine_with_different_ones() {
    let shape = GpuConfig { cus: 4, vram_size: 256 << 20, ..GpuConfig::default() };
    let chips = [&gfx1100::MODEL, &gfx942::MODEL, &gfx1100::MODEL];
    let configs = chips.map(|chip| HostedConfig::from(GpuConfig { chip, ..shape.clone() }));
    let machine = HostedMachine::new(configs.to_vec()).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&machine.gpus()[0]).unwrap()).unwrap();
    let code = [VECADD_GFX1100, VECADD_GFX942, VECADD_GFX1100];
    assert_eq!(runtime.gpus().len(), chips.len());
    std::thread::scope(|scope| {
        for (number, (one, code)) in runtime.gpus().iter().zip(code).enumerate() {
            scope.spawn(move || add(one, code, number as f32 + 1.0));
        }
    });
    drop(runtime);
    for gpu in machine.gpus() {
        assert_eq!(gpu.device().stats().errors, Default::default());
        assert!(gpu.device().stats().workgroups > 0, "each has run its own");
    }
}

/// Runs example `peers` on these GPUs; returns what it says.
fn peers(configs: Vec<HostedConfig>) -> anyhow::Result<String> {
    let machine = HostedMachine::new(configs)?;
    let runtime = Runtime::with_transport(HostedTransport::open(&machine.gpus()[0])?)?;
    let mut out = Vec::new();
    belfry_examples::run("peers", &runtime, &[ITEMS.to_string()], &mut out)?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn example_of_peers_runs_over_each_kind_of_link_and_on_different_chips() {
    let of = |chips: &[&'static Model], links| {
        let gpu = GpuConfig { cus: 4, vram_size: 64 << 20, ..GpuConfig::default() };
        let each =
            chips.iter().map(|chip| HostedConfig { links, ..GpuConfig { chip, ..gpu.clone() }.into() });
        peers(each.collect())
    };
    for chip in MODELS {
        assert!(of(&[*chip; 2], Links::Pcie).unwrap().contains("peers: 2 GPUs"), "{chip}");
    }
    for (chips, links) in
        [(&[&gfx942::MODEL; 3][..], Links::Xgmi), (&[&gfx1100::MODEL, &gfx942::MODEL], Links::Xgmi)]
    {
        of(chips, links).unwrap_or_else(|error| panic!("{chips:?}, {links}: {error:?}"));
    }
    let without = of(&[&gfx1100::MODEL; 2], Links::None).unwrap_err();
    assert!(format!("{without:#}").contains("MAP_MEMORY_TO_GPU failed: Invalid argument"), "{without:?}");
    let alone = of(&[&gfx1100::MODEL], Links::Pcie).unwrap_err();
    assert!(format!("{alone:#}").contains("--gpus 2"), "{alone:?}");
}

/// A record in memory.
#[derive(Clone, Default)]
struct InMemory(Arc<Mutex<Vec<u8>>>);

impl Write for InMemory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn peers_that_are_recorded_replay_as_one() {
    for (chips, links) in [
        (&[&gfx1100::MODEL; 2][..], Links::Pcie),
        (&[&gfx942::MODEL; 2], Links::Xgmi),
        (&[&gfx942::MODEL; 3], Links::Pcie),
        (&[&gfx1201::MODEL, &gfx942::MODEL], Links::Xgmi),
    ] {
        let file = InMemory::default();
        let recording = Recording::new(file.clone());
        let shape = GpuConfig { cus: 4, vram_size: 64 << 20, ..GpuConfig::default() };
        let each = chips.iter().map(|chip| {
            let record = Some(recording.clone());
            HostedConfig { links, ..GpuConfig { chip, record, ..shape.clone() }.into() }
        });
        peers(each.collect()).unwrap_or_else(|error| panic!("{chips:?}, {links}: {error:?}"));
        let Recorded { operations, inputs, events, complete, .. } = recording.recorded().unwrap();
        assert!(complete && inputs > 0, "{chips:?}, {links}");
        let record = file.0.lock().unwrap().clone();
        let mut first = None;
        for _ in 0..2 {
            let mut replay = Replay::open(Cursor::new(record.clone()), Box::new(|_| None)).unwrap();
            let replayed = replay.run(None).unwrap_or_else(|error| panic!("{chips:?}, {links}: {error}"));
            assert!(replayed.at_end && replayed.memory != 0);
            assert_eq!((replayed.operations, replayed.events), (operations, events), "{chips:?}, {links}");
            assert_eq!(replay.gpus().len(), chips.len());
            for gpu in replay.gpus() {
                assert!(gpu.stats().dispatches > 0, "each has run its own");
            }
            assert_eq!(*first.get_or_insert(replayed.clone()), replayed);
        }
    }
}

/// Runs a kernel on each of two GPUs that answer each other: in turns each waits for a store of the other one to its memory. Returns the
/// instructions of both.
fn answer(gpu: GpuConfig, code: &[u8]) -> u64 {
    let gpu = GpuConfig { cus: 4, vram_size: 64 << 20, ..gpu };
    let machine = HostedMachine::new(vec![gpu.clone().into(), gpu.into()]).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&machine.gpus()[0]).unwrap()).unwrap();
    let gpus = runtime.gpus();
    let words = [0, 1].map(|at: usize| gpus[at].vram_for(gpus).buffer_from(&[0u32]).unwrap());
    let queues = [0, 1].map(|at: usize| gpus[at].queue().unwrap());
    let running = [0, 1].map(|at: usize| {
        let kernel = gpus[at].load(code).unwrap().kernel("answer").unwrap();
        let args = (&words[at], &words[1 - at], at as u32, ROUNDS);
        kernel.launch(&queues[at]).grid(1).block(1).args(args).submit().unwrap()
    });
    running.into_iter().for_each(|completion| completion.wait().unwrap());
    assert_eq!(words.map(|word| word.to_vec()), [[2 * ROUNDS], [2 * ROUNDS]]);
    machine.gpus().iter().map(|gpu| gpu.device().stats().wave_instructions).sum()
}

#[test]
fn kernels_that_wait_for_each_other_give_way_where_processors_are_few() {
    // A turn that does not end when its wave looks in vain takes ten thousand, and turns in a row many times that.
    let most = u64::from(2 * ROUNDS) * 2500;
    for (chip, code) in PEERS {
        for (tier, workers) in [(Tier::Zero, 1), (Tier::Zero, 2), (Tier::One, 1), (Tier::One, 2)] {
            let of = |processors| GpuConfig {
                chip,
                tier,
                workers,
                processors: NonZeroUsize::new(processors).map(Processors::new),
                ..GpuConfig::default()
            };
            // The host's system may keep a worker from its next turn for milliseconds, and the other one looks in vain for so long. So
            // the best of a few runs counts: if waves did not give way, none would be near.
            let gives_way = (0..5).any(|_| answer(of(1), code) < most);
            assert!(gives_way, "{chip}, {tier:?}, {workers} workers");
            // They wait for each other at the same time there, for as long as it takes.
            answer(of(2), code);
        }
    }
}

#[test]
fn profiles_of_peers_have_the_bytes_over_each_link() {
    for (chip, links, waves) in [(&gfx1100::MODEL, Links::Pcie, 32), (&gfx942::MODEL, Links::Xgmi, 16)] {
        let profilers = [(); 2].map(|()| Arc::new(Profiler::new(ProfileOptions::default())));
        let each = profilers.iter().map(|profiler| {
            let profiler = Some(Arc::clone(profiler));
            let gpu = GpuConfig { chip, profiler, cus: 4, vram_size: 64 << 20, ..GpuConfig::default() };
            HostedConfig { links, ..gpu.into() }
        });
        peers(each.collect()).unwrap_or_else(|error| panic!("{chip:?}, {links}: {error:?}"));
        for (gpu, profiler) in profilers.iter().enumerate() {
            let [link] = profiler.report().links[..] else { panic!("one link of {chip:?}") };
            let words = 4 * u64::from(ITEMS);
            // Two kernels store all words, and one stores the numbers of its rounds. One lane of each wave adds.
            let expected = LinkBytes {
                peer: 1 - gpu as u8,
                loaded: 0,
                stored: 2 * words + 4 * 20,
                changed: 4 * waves,
                copied_from: words,
                copied_to: words,
            };
            assert_eq!(link, expected, "{chip:?}, GPU {gpu}");
        }
    }
}
