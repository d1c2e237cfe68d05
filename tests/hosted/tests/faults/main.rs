//! Faults that strike on purpose, each once, as a program, its driver and the next program see them.

mod ecc;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belfry_device::chip::{self, Model, gfx942, gfx1201};
use belfry_device::faults::{FaultReport, Hook, Plan, Planned, Rule, When};
use belfry_device::time::TimeSource;
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_hosted::{HostedGpu, HostedProcess};
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;
use belfry_tools::inspect::Inspect as _;

/// Work-items of the kernel, and words that are copied.
const COUNT: u32 = 4096;
/// Factor by which time passes faster where something hangs: a wait of the driver for ten seconds is over in
/// one. A busy machine keeps a thread from its turn for a tenth of that, and work that does not hang has to
/// be done in time.
const FACTOR: f64 = 10.0;
/// Length of a wait that nothing ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// In the host's time, where nothing hangs: no timeout of the driver expires because the machine is busy.
fn config(chip: &'static Model, plan: Plan) -> GpuConfig {
    GpuConfig { chip, vram_size: 64 << 20, faults: plan, ..GpuConfig::default() }
}

/// Configuration for tests in which the driver waits in vain.
fn hasty(chip: &'static Model, plan: Plan) -> GpuConfig {
    GpuConfig { time: TimeSource::scaled(FACTOR), ..config(chip, plan) }
}

fn process(gpu: &Arc<HostedGpu>) -> anyhow::Result<Runtime> {
    let runtime = Runtime::with_transport(HostedTransport::open(gpu)?)?;
    runtime.limit_waits(PATIENCE);
    Ok(runtime)
}

/// A kernel on a queue, then a copy; `before` is called when the process is there.
fn work(gpu: &Arc<HostedGpu>, before: impl FnOnce()) -> anyhow::Result<()> {
    let runtime = process(gpu)?;
    before();
    let gpu = runtime.gpu();
    let ones = vec![1.0f32; COUNT as usize];
    let (a, b) = (gpu.vram().buffer_from(&ones)?, gpu.vram().buffer_from(&ones)?);
    let (sum, copy) = (gpu.vram().buffer::<f32>(COUNT as usize)?, gpu.gtt().buffer::<f32>(COUNT as usize)?);
    let queue = gpu.queue()?;
    let kernel = gpu.load(belfry_examples::kernels::VECADD.on(gpu)?)?.kernel("vecadd")?;
    kernel.launch(&queue).grid(COUNT).block(256).args((&a, &b, &sum, COUNT)).run()?;
    let mut engine = gpu.copy_queue()?;
    engine.copy(&sum, &copy)?;
    engine.finish(None)?;
    let wrong = copy.to_vec().iter().filter(|sum| **sum != 2.0).count();
    anyhow::ensure!(wrong == 0, "{wrong} words are wrong");
    Ok(())
}

/// Number of moments of a hook before the work, once the driver is loaded.
fn moments_before(chip: &'static Model, hook: Hook) -> u64 {
    let gpu = HostedGpu::new(config(chip, Plan::counting())).unwrap();
    let mut before = 0;
    work(&gpu, || before = gpu.device().faults().report().met[&hook]).unwrap();
    before
}

/// The doorbell of the queue that the work makes first.
fn doorbell(chip: &'static Model) -> u32 {
    let gpu = HostedGpu::new(config(chip, "signal-late@1,for:0s".parse().unwrap())).unwrap();
    work(&gpu, || ()).unwrap();
    let place = &gpu.device().faults().report().strikes[0].place;
    let (_, behind) = place.split_once("doorbell 0x").unwrap();
    let digits = behind.split(',').next().unwrap();
    u32::from_str_radix(digits, 16).unwrap()
}

/// Runs the work with a rule that strikes at a moment of it, then checks that the next process can work.
/// Returns the work's outcome, the report of faults and the guest's errors.
fn strike_of(
    chip: &'static Model,
    text: &str,
    moment: u64,
) -> (Result<(), String>, FaultReport, Vec<GuestError>) {
    let mut planned: Planned = text.parse().unwrap();
    if planned.rule.hook() == Hook::Doorbell {
        // The number of rings of the kernel's own that wake a thread differs from run to run.
        planned.when.queue = Some(doorbell(chip));
    } else {
        planned.when.often = When::nth(moment).often;
    }
    let rule = planned.rule;
    let mut plan = Plan::default();
    plan.add(planned).unwrap();
    let hangs =
        matches!(rule, Rule::FrameUnanswered | Rule::FrameRefused | Rule::QueueHang | Rule::SdmaStuck);
    let none = Plan::counting();
    let gpu = HostedGpu::new(if hangs { hasty(chip, none) } else { config(chip, none) }).unwrap();
    // Once the driver is loaded: the number of moments before differs from run to run.
    let begin = || assert!(gpu.device().faults().begin(&plan));
    let outcome = work(&gpu, begin).map_err(|error| format!("{error:#}"));
    let report = gpu.device().faults().report();
    assert_eq!(report.struck.get(&rule), Some(&1), "{text} on {chip}: {report:?}");
    assert_eq!(report.strikes.len(), 1, "{text} on {chip}");
    let errors = gpu.device().stats().errors.into_keys().collect();
    if rule == Rule::DriverUnbound {
        gpu.load().unwrap();
    }
    if rule != Rule::Removal && rule != Rule::RegisterStuck {
        work(&gpu, || ()).unwrap_or_else(|error| panic!("{text} on {chip}: the next process: {error:#}"));
    }
    (outcome, report, errors)
}

fn strike(text: &str, moment: u64) -> (Result<(), String>, FaultReport, Vec<GuestError>) {
    strike_of(chip::DEFAULT, text, moment)
}

#[track_caller]
fn ends_well(text: &str) -> FaultReport {
    let (outcome, report, _) = strike(text, 1);
    assert_eq!(outcome, Ok(()), "{text}");
    report
}

#[track_caller]
fn ends_with(text: &str, moment: u64, expected: &str) -> FaultReport {
    let (outcome, report, _) = strike(text, moment);
    let error = outcome.expect_err(text);
    assert!(error.contains(expected), "{text}: {error}");
    report
}

#[test]
fn what_is_late_or_told_twice_does_no_harm() {
    for text in ["doorbell-late@for:1ms", "interrupt-doubled", "interrupt-late@for:1ms", "interrupt-spurious"]
    {
        ends_well(text);
    }
    for text in ["frame-late@for:1ms", "signal-late@for:1ms", "ih-overflow"] {
        ends_well(text);
    }
}

#[test]
fn lost_interrupt_is_found_when_the_program_looks_again() {
    ends_well("interrupt-lost");
}

#[test]
fn lost_doorbell_leaves_the_queue_asleep() {
    let report = ends_with("doorbell-lost", 1, "the GPU did not finish within 500ms");
    assert!(report.strikes[0].place.starts_with("ring, doorbell 0x"), "{report:?}");
}

#[test]
fn frames_that_are_not_answered_make_the_driver_reset_the_device() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        for (text, refused) in [("frame-unanswered", false), ("frame-refused", true)] {
            let (outcome, _, errors) = strike_of(chip, text, 1);
            assert!(outcome.is_err(), "{text} on {chip}");
            assert_eq!(errors.contains(&GuestError::FaultInjected), refused, "{text} on {chip}: {errors:?}");
        }
    }
}

#[test]
fn hung_queue_cannot_be_taken_off_and_is_gone_after_a_reset() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        for text in ["queue-hang@kernel:vecadd", "sdma-stuck"] {
            let (outcome, _, errors) = strike_of(chip, text, 1);
            let error = outcome.expect_err(text);
            assert!(
                error.contains("did not finish within") || error.contains("time"),
                "{text} on {chip}: {error}"
            );
            assert!(errors.contains(&GuestError::QueueHangs), "{text} on {chip}: {errors:?}");
        }
    }
}

#[test]
fn hung_wave_ends_with_its_queue() {
    let (outcome, report, errors) = strike("wave-hang@kernel:vecadd", 1);
    assert!(outcome.expect_err("it hangs").contains("did not finish within"));
    assert!(report.strikes[0].place.starts_with("dispatch of vecadd, doorbell"), "{report:?}");
    assert!(!errors.contains(&GuestError::QueueHangs), "{errors:?}");
}

#[test]
fn corrupt_copy_is_one_wrong_word() {
    ends_with("sdma-corrupt", 1, "1 words are wrong");
}

#[test]
fn failed_walk_of_a_wave_is_a_memory_fault() {
    let mut faults = 0;
    for moment in (1..160).step_by(12) {
        // From here on: the number of table walks while a driver is loaded depends on the turns of the device's thread.
        let gpu = HostedGpu::new(hasty(chip::DEFAULT, Plan::counting())).unwrap();
        let plan = format!("walk-fails@{moment}").parse().unwrap();
        assert!(gpu.device().faults().begin(&plan));
        let outcome = work(&gpu, || ());
        let errors = gpu.device().stats().errors;
        if let Err(error) = outcome
            && format!("{error:#}").contains("memory access fault")
        {
            assert!(errors.contains_key(&GuestError::PageFault), "{errors:?}");
            faults += 1;
        }
        work(&gpu, || ()).unwrap_or_else(|error| panic!("walk {moment}: the next process: {error:#}"));
    }
    assert!(faults > 0);
}

#[test]
fn scarce_hardware_is_shared() {
    for text in ["few-vmids", "few-slots"] {
        let mut plan = Plan::default();
        plan.add(text.parse().unwrap()).unwrap();
        for chip in [chip::DEFAULT, &gfx942::MODEL] {
            let gpu = HostedGpu::new(config(chip, plan.clone())).unwrap();
            let arguments = ["6".to_owned()];
            belfry_examples::run("many-queues", &process(&gpu).unwrap(), &arguments, &mut std::io::sink())
                .unwrap();
            // Two processes share the one VMID in turns.
            let both = [process(&gpu).unwrap(), process(&gpu).unwrap()];
            for runtime in &both {
                belfry_examples::run("vector-add", runtime, &["256".to_owned()], &mut std::io::sink())
                    .unwrap();
            }
            assert_eq!(gpu.device().faults().report().struck.values().sum::<u64>(), 1, "{text} on {chip}");
        }
    }
}

#[test]
fn removed_device_ends_in_errors_and_the_driver_can_be_unloaded() {
    let gpu = HostedGpu::new(config(chip::DEFAULT, "removal@1".parse().unwrap()));
    assert!(gpu.is_err(), "nothing answers while the driver loads");
    let time = TimeSource::manual();
    let plan = "removal@1,after:1s".parse().unwrap();
    let gpu = HostedGpu::new(GpuConfig { time: time.clone(), ..config(chip::DEFAULT, plan) }).unwrap();
    let held = gpu.system_memory_used();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                time.advance(Duration::from_secs(11));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // Work that is done before the time has gone on ends well.
        let is_removed = (0..1000).any(|_| work(&gpu, || ()).is_err());
        over.store(true, Ordering::Relaxed);
        assert!(is_removed);
    });
    assert_eq!(gpu.device().faults().report().struck[&Rule::Removal], 1);
    let mut word = [0; 4];
    gpu.device().bar_read(belfry_abi::pci::BAR_REGISTERS, 0, &mut word).unwrap();
    gpu.device().config_read(0, &mut word[..2]);
    assert_eq!(word, [0xff; 4]);
    assert!(gpu.system_memory_used() <= held, "what the device cannot reach any more is given back");
    gpu.unload();
    assert_eq!(gpu.system_memory_used(), 0);
}

#[test]
fn register_that_is_stuck_reads_the_same_for_good() {
    let offset = {
        let gpu = HostedGpu::new(config(chip::DEFAULT, Plan::counting())).unwrap();
        let registers = gpu.device().inspect().registers(Some("SMUIO")).unwrap();
        registers.into_iter().find(|register| register.name == "GOLDEN_TSC_COUNT_LOWER").unwrap().offset.0
    };
    let text = format!("register-stuck@1,address:{offset:#x}..{:#x}", offset + 4);
    let gpu = HostedGpu::new(config(chip::DEFAULT, text.parse().unwrap())).unwrap();
    let read = || {
        let mut word = [0; 4];
        gpu.device().bar_read(belfry_abi::pci::BAR_REGISTERS, offset, &mut word).unwrap();
        u32::from_le_bytes(word)
    };
    let first = read();
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(read(), first);
}

#[test]
fn late_signal_waits_for_its_time() {
    let time = TimeSource::manual();
    let plan: Plan = "signal-late@1,for:10ms".parse().unwrap();
    let config = GpuConfig { vram_size: 64 << 20, time: time.clone(), faults: plan, ..GpuConfig::default() };
    let gpu = HostedGpu::new(config).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    let agent = runtime.gpu();
    let output = agent.vram().buffer::<f32>(64).unwrap();
    let queue = agent.queue().unwrap();
    let kernel =
        agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap().kernel("vecadd").unwrap();
    let done =
        kernel.launch(&queue).grid(64).block(64).args((&output, &output, &output, 64u32)).submit().unwrap();
    while gpu.device().faults().report().struck.is_empty() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(!done.is_done(), "its time has not come");
    time.advance(Duration::from_millis(10));
    done.wait().unwrap();
}

#[test]
fn same_plan_strikes_at_the_same_places() {
    let run = || {
        let plan =
            "frame-late@every:2,for:1us;signal-late@1,for:0s;sdma-corrupt@1;wave-hang@2".parse().unwrap();
        let gpu =
            HostedGpu::new(GpuConfig { deterministic: Some(1), ..config(chip::DEFAULT, plan) }).unwrap();
        assert!(work(&gpu, || ()).is_err());
        assert!(work(&gpu, || ()).is_err());
        let strikes = gpu.device().faults().report().strikes;
        // Addresses are where this process has room.
        let place = |place: &str| place.split(", address").next().map(str::to_owned);
        strikes.iter().map(|strike| (strike.rule, strike.moment, place(&strike.place))).collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.len() > 4, "{first:?}");
    for _ in 0..2 {
        assert_eq!(run(), first);
    }
}

#[test]
fn a_driver_that_runs_out_of_something_says_so_and_goes_on() {
    for (text, expected) in
        [("vram-exhausted", "of VRAM"), ("gtt-exhausted", "memory"), ("doorbells-exhausted", "CREATE_QUEUE")]
    {
        for chip in [chip::DEFAULT, &gfx942::MODEL] {
            let (outcome, report, errors) = strike_of(chip, text, 1);
            let error = outcome.expect_err(text);
            assert!(error.contains(expected), "{text} on {chip}: {error}");
            assert!(report.strikes[0].place.contains("process 0x"), "{report:?}");
            assert_eq!(errors, [], "{text} on {chip}");
        }
    }
}

#[test]
fn function_that_is_reset_behind_the_drivers_back_works_again() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        // The driver polls registers for as long as the device takes: the number of reads differs from run to run.
        let moment = moments_before(chip, Hook::Register) + 10_000;
        let gpu = HostedGpu::new(hasty(chip, format!("function-reset@{moment}").parse().unwrap())).unwrap();
        let struck = || gpu.device().faults().report().struck.contains_key(&Rule::FunctionReset);
        let read = || {
            let mut word = [0; 4];
            for _ in (0..20_000).take_while(|_| !struck()) {
                gpu.device().bar_read(belfry_abi::pci::BAR_REGISTERS, 0, &mut word).unwrap();
            }
        };
        assert!(work(&gpu, read).is_err(), "{chip}: its queues are gone");
        assert_eq!(gpu.device().faults().report().struck[&Rule::FunctionReset], 1);
        // The driver hears of it when the scheduler does not answer, and resets the device itself.
        let again = (0..3).any(|_| work(&gpu, || ()).is_ok());
        assert!(again, "{chip}: it does not work any more");
    }
}

#[test]
fn clock_that_jumps_an_hour_hangs_nobody() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        let (outcome, ..) = strike_of(chip, "clock-jump@for:3600s", 1);
        assert_eq!(outcome, Ok(()), "{chip}");
    }
    let gpu = HostedGpu::new(config(chip::DEFAULT, "clock-jump@2,for:3600s".parse().unwrap())).unwrap();
    let registers = gpu.device().inspect().registers(Some("SMUIO")).unwrap();
    let upper = registers.iter().find(|register| register.name == "GOLDEN_TSC_COUNT_UPPER").unwrap().offset.0;
    let read = || {
        let mut word = [0; 4];
        gpu.device().bar_read(belfry_abi::pci::BAR_REGISTERS, upper, &mut word).unwrap();
        u32::from_le_bytes(word)
    };
    let before = read();
    work(&gpu, || ()).unwrap();
    work(&gpu, || ()).unwrap();
    assert!(read() - before >= 83, "an hour is 83 times the lower half");
}

#[test]
fn driver_that_is_unbound_at_a_call_ends_it_and_gives_everything_back() {
    for chip in [chip::DEFAULT, &gfx942::MODEL] {
        for moment in [1, 2, 5, 9, 14, 20] {
            let before = moments_before(chip, Hook::Call);
            let text = format!("driver-unbound@{}", before + moment);
            let gpu = HostedGpu::new(config(chip, text.parse().unwrap())).unwrap();
            let outcome = work(&gpu, || ());
            if gpu.device().faults().report().struck.is_empty() {
                assert!(moment > 9 && outcome.is_ok(), "{text} on {chip}");
                continue;
            }
            assert!(HostedProcess::open(&gpu).is_err(), "{text} on {chip}");
            assert_eq!((gpu.pinned_ranges(), gpu.system_memory_used()), (0, 0), "{text} on {chip}");
            gpu.load().unwrap();
            work(&gpu, || ()).unwrap_or_else(|error| panic!("{text} on {chip}: loaded again: {error:#}"));
        }
    }
}

#[test]
fn invalidation_that_is_not_heard_ends_with_the_next_one() {
    for chip in [chip::DEFAULT, &gfx942::MODEL] {
        for moment in 1..4 {
            // What the old translations lead to is as it was: nothing was freed in between.
            let (outcome, ..) = strike_of(chip, "tlb-stale", moment);
            assert_eq!(outcome, Ok(()), "{moment} on {chip}");
        }
    }
}

#[test]
fn errors_of_memory_and_clocks_at_any_moment_leave_a_driver_that_works() {
    for chip in [chip::DEFAULT, &gfx942::MODEL] {
        for rule in ["vram-ecc", "vram-ecc-correctable", "tlb-stale", "clock-jump"] {
            let mut struck = 0;
            for moment in [1, 2, 3, 5, 8, 13, 21, 34] {
                let plan = format!("{rule}@{moment}").parse().unwrap();
                let gpu = HostedGpu::new(config(chip, plan)).unwrap();
                let outcome = work(&gpu, || ());
                let report = gpu.device().faults().report();
                struck += report.strikes.len();
                if report.strikes.is_empty() || ["clock-jump", "vram-ecc-correctable"].contains(&rule) {
                    assert!(outcome.is_ok(), "{rule}@{moment} on {chip}: {outcome:?}");
                }
                gpu.device().faults().end();
                work(&gpu, || ())
                    .unwrap_or_else(|error| panic!("{rule}@{moment} on {chip}: the next process: {error:#}"));
                gpu.unload();
                assert_eq!((gpu.pinned_ranges(), gpu.system_memory_used()), (0, 0), "{rule}@{moment}");
            }
            assert!(struck > 0, "{rule} on {chip}");
        }
    }
}
