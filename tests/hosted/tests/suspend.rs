//! Suspend and resume: the device loses its registers under programs, whose work goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use belfry_device::chip::{self, MODELS, Model};
use belfry_device::faults::{Hook, Plan, Rule};
use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_core::Errno;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Buffer, Completion, Runtime};
use belfry_runtime_hosted::HostedTransport;
use belfry_tools::inspect::Inspect as _;

/// Workgroups of `tides`, and the work-items of each.
const GROUPS: u32 = 6;
const GROUP: u32 = 128;
/// Factor by which time passes faster where the driver waits ten seconds in vain.
const FACTOR: f64 = 10.0;

fn gpu_with(chip: &'static Model, plan: Plan) -> Arc<HostedGpu> {
    HostedGpu::new(GpuConfig { chip, vram_size: 64 << 20, faults: plan, ..GpuConfig::default() }).unwrap()
}

fn gpu(chip: &'static Model) -> Arc<HostedGpu> {
    gpu_with(chip, Plan::default())
}

fn process(gpu: &Arc<HostedGpu>) -> Runtime {
    Runtime::with_transport(HostedTransport::open(gpu).unwrap()).unwrap()
}

/// Runs a bundled program, with an argument or none.
fn example(gpu: &Arc<HostedGpu>, name: &str, argument: &str) -> anyhow::Result<()> {
    let arguments: Vec<String> = argument.split_whitespace().map(str::to_owned).collect();
    belfry_examples::run(name, &process(gpu), &arguments, &mut std::io::sink())
}

/// Errors of the guest that the device has counted. Rings of doorbells whose queues are off the device are
/// left out: it does not know them, and finds their packets in memory.
fn errors(gpu: &Arc<HostedGpu>) -> Vec<GuestError> {
    let errors = gpu.device().stats().errors.into_keys();
    errors.filter(|error| *error != GuestError::UnknownDoorbell).collect()
}

/// Workgroups that wait for a word.
struct Waiting<'a> {
    words: &'a Buffer<u32>,
    done: &'a Completion,
}

impl Waiting<'_> {
    /// Writes the word.
    fn release(&self) {
        self.words.write(0, &[1]).unwrap();
    }

    fn assert_not_done(&self) {
        assert!(!self.done.is_done(), "workgroups that wait have ended");
    }
}

/// Runs workgroups that wait for a word, with something in their registers and in LDS; `meanwhile` is called while all of them wait.
fn tides(gpu: &Arc<HostedGpu>, meanwhile: impl FnOnce(&Waiting<'_>)) -> Vec<u32> {
    let runtime = process(gpu);
    let agent = runtime.gpu();
    let words = agent.vram().buffer_from(&[0u32; 2]).unwrap();
    let result = agent.vram().buffer::<u32>((GROUPS * GROUP) as usize).unwrap();
    let module = agent.load(belfry_examples::kernels::CONTEXT.on(agent).unwrap()).unwrap();
    let queue = agent.queue().unwrap();
    let launch = module.kernel("tides").unwrap();
    let launch = launch.launch(&queue).grid(GROUPS * GROUP).block(GROUP);
    let done = launch.args((&words, &result, 40u32, 0x5e17_0000u32)).submit().unwrap();
    while words.get(1).unwrap() < GROUPS {
        std::thread::yield_now();
    }
    let waiting = Waiting { words: &words, done: &done };
    meanwhile(&waiting);
    waiting.release();
    done.wait().unwrap();
    result.to_vec()
}

#[test]
fn waves_in_flight_go_on_where_they_were() {
    for chip in MODELS {
        let gpu = gpu(chip);
        let expected = tides(&gpu, |waiting| waiting.assert_not_done());
        let result = tides(&gpu, |waiting| {
            for _ in 0..3 {
                gpu.suspend().unwrap();
                gpu.resume().unwrap();
            }
            waiting.assert_not_done();
        });
        assert_eq!(result, expected, "{chip}");
        assert_eq!(errors(&gpu), [], "{chip}");
        assert_eq!(gpu.device().stats().resets, 3, "{chip}: its registers were lost each time");
    }
}

#[test]
fn device_that_is_suspended_has_no_queue_and_raises_no_interrupt() {
    let (gpu, another) = (gpu(chip::DEFAULT), gpu(chip::DEFAULT));
    assert_eq!(gpu.resume(), Err(Errno::EINVAL));
    let expected = tides(&gpu, |waiting| waiting.assert_not_done());
    let result = tides(&gpu, |waiting| {
        gpu.suspend().unwrap();
        assert_eq!(gpu.suspend(), Err(Errno::EBUSY));
        assert!(gpu.device().inspect().queues().unwrap().is_empty());
        let before = gpu.device().stats();
        waiting.release();
        // Meanwhile the same workgroups begin and end on another device.
        assert_eq!(tides(&another, |waiting| waiting.assert_not_done()), expected);
        waiting.assert_not_done();
        let now = gpu.device().stats();
        assert_eq!((now.interrupts, now.wave_instructions), (before.interrupts, before.wave_instructions));
        gpu.resume().unwrap();
    });
    assert_eq!(result, expected);
    gpu.suspend().unwrap();
    gpu.unload();
    assert_eq!((gpu.resume(), gpu.suspend()), (Err(Errno::ENODEV), Err(Errno::ENODEV)));
    assert_eq!((gpu.pinned_ranges(), gpu.system_memory_used()), (0, 0));
    gpu.load().unwrap();
    example(&gpu, "vector-add", "4096").unwrap();
}

#[test]
fn what_is_asked_for_while_it_is_suspended_is_done_afterwards() {
    for chip in MODELS {
        let (gpu, another) = (gpu(chip), gpu(chip));
        let runtime = process(&gpu);
        let agent = runtime.gpu();
        let (ones, sum) =
            (agent.vram().buffer_from(&vec![1.0f32; 256]).unwrap(), agent.vram().buffer::<f32>(256).unwrap());
        let module = agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap();
        let kernel = module.kernel("vecadd").unwrap();
        let (queue, leaves) = (agent.queue().unwrap(), agent.queue().unwrap());
        gpu.suspend().unwrap();
        // A program that comes, a queue that goes, and a packet.
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let outcome = example(&gpu, "vector-add", "4096");
                over.store(true, Ordering::SeqCst);
                outcome
            });
            scope.spawn(|| drop(leaves));
            let launch = kernel.launch(&queue).grid(256).block(256).args((&ones, &ones, &sum, 256u32));
            let run = scope.spawn(|| launch.run());
            // A program that comes to another device later ends there, again and again.
            for _ in 0..3 {
                example(&another, "vector-add", "4096").unwrap();
            }
            assert!(!run.is_finished(), "{chip}: a kernel has run on a device that is suspended");
            assert!(
                !over.load(Ordering::SeqCst),
                "{chip}: a program has ended on a device that is suspended"
            );
            gpu.resume().unwrap();
            other.join().unwrap().unwrap();
            run.join().unwrap().unwrap();
        });
        assert!(sum.to_vec().iter().all(|sum| *sum == 2.0), "{chip}");
        assert_eq!(errors(&gpu), [], "{chip}");
    }
}

#[test]
fn programs_of_all_kinds_go_on_however_often_the_device_is_suspended() {
    let programs = [
        ("many-queues", "4"),
        ("vector-add", "65536"),
        ("context-save", "4"),
        ("grid-sync", ""),
        ("sort", "4096"),
    ];
    for chip in MODELS {
        let gpu = gpu(chip);
        let (left, times) = (AtomicU64::new(programs.len() as u64), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for (name, argument) in programs {
                let (gpu, left) = (&gpu, &left);
                scope.spawn(move || {
                    let outcome = example(gpu, name, argument);
                    left.fetch_sub(1, Ordering::SeqCst);
                    outcome.unwrap_or_else(|error| panic!("{name} on {chip}: {error:#}"));
                });
            }
            while left.load(Ordering::SeqCst) > 0 {
                gpu.suspend().unwrap();
                gpu.resume().unwrap();
                times.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        assert!(times.load(Ordering::SeqCst) > 0);
        assert_eq!(errors(&gpu), [], "{chip}");
    }
}

#[test]
fn rule_strikes_at_any_call_and_the_program_ends_well() {
    for chip in MODELS {
        let counted = gpu_with(chip, Plan::counting());
        example(&counted, "many-queues", "2").unwrap();
        let calls = counted.device().faults().report().met[&Hook::Call];
        let mut struck = 0;
        for moment in (1..=calls).step_by(calls as usize / 12 + 1) {
            let gpu = gpu_with(chip, format!("suspend@{moment}").parse().unwrap());
            example(&gpu, "many-queues", "2").unwrap_or_else(|error| panic!("{moment} on {chip}: {error:#}"));
            struck += gpu.device().faults().report().struck.get(&Rule::Suspend).copied().unwrap_or(0);
        }
        // How often a program asks again differs from run to run.
        assert!(struck > 6, "{struck} on {chip}");
        let gpu = gpu_with(chip, "suspend@every:1".parse().unwrap());
        for (name, argument) in [("many-queues", "2"), ("scratch", ""), ("memory-pools", "")] {
            example(&gpu, name, argument).unwrap_or_else(|error| panic!("{name} on {chip}: {error:#}"));
        }
        assert!(gpu.device().faults().report().struck[&Rule::Suspend] > 20, "{chip}");
        assert_eq!(errors(&gpu), [], "{chip}");
    }
}

#[test]
fn queue_that_hangs_is_lost_and_the_next_program_works() {
    for chip in MODELS {
        let plan = "queue-hang@kernel:vecadd".parse().unwrap();
        let time = TimeSource::scaled(FACTOR);
        let config = GpuConfig { chip, vram_size: 64 << 20, faults: plan, time, ..GpuConfig::default() };
        let gpu = HostedGpu::new(config).unwrap();
        let runtime = process(&gpu);
        runtime.limit_waits(Duration::from_millis(500));
        let agent = runtime.gpu();
        let sum = agent.vram().buffer::<f32>(64).unwrap();
        let module = agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap();
        let queue = agent.queue().unwrap();
        let launch = module.kernel("vecadd").unwrap();
        let done = launch.launch(&queue).grid(64).block(64).args((&sum, &sum, &sum, 64u32)).submit().unwrap();
        while gpu.device().faults().report().struck.is_empty() {
            std::thread::yield_now();
        }
        gpu.suspend().unwrap();
        gpu.resume().unwrap();
        assert!(done.wait().is_err(), "{chip}");
        assert!(gpu.device().stats().errors.contains_key(&GuestError::QueueHangs), "{chip}");
        drop((done, queue, sum, runtime));
        example(&gpu, "vector-add", "256").unwrap();
    }
}

#[test]
fn device_that_does_not_answer_any_more_is_given_up_and_works_with_a_new_driver() {
    for chip in MODELS {
        let time = TimeSource::scaled(FACTOR);
        let config =
            GpuConfig { chip, vram_size: 64 << 20, faults: Plan::counting(), time, ..GpuConfig::default() };
        let gpu = HostedGpu::new(config).unwrap();
        let runtime = process(&gpu);
        let queue = runtime.gpu().queue().unwrap();
        for during_resume in [false, true] {
            if during_resume {
                gpu.suspend().unwrap();
            }
            assert!(gpu.device().faults().begin(&"frame-unanswered@every:1".parse().unwrap()));
            let result = if during_resume { gpu.resume() } else { gpu.suspend() };
            assert!(matches!(result, Err(Errno::EIO | Errno::ETIME)), "{chip}: {result:?}");
            gpu.device().faults().end();
            gpu.unload();
            gpu.load().unwrap();
            example(&gpu, "vector-add", "256").unwrap();
        }
        drop((queue, runtime));
    }
}
