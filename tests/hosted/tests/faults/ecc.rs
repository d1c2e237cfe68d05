//! Errors of VRAM that a wave or an engine comes to.

use belfry_device::GuestError;
use belfry_device::chip::{self, Model, gfx942, gfx1201};
use belfry_device::faults::{Hook, Plan, Rule};
use belfry_kfd_hosted::HostedGpu;

use super::{COUNT, config, moments_before, process, work};

/// Has the first reads of a buffer's VRAM find an error that cannot be corrected, by a wave or by an engine.
fn poisoned(chip: &'static Model, by_engine: bool) {
    let gpu = HostedGpu::new(config(chip, Plan::counting())).unwrap();
    let (other, runtime) = (process(&gpu).unwrap(), process(&gpu).unwrap());
    let agent = runtime.gpu();
    let a = agent.vram().buffer_from(&vec![1.0f32; COUNT as usize]).unwrap();
    let [b, sum] = [(); 2].map(|()| agent.gtt().buffer::<f32>(COUNT as usize).unwrap());
    let kernel =
        agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap().kernel("vecadd").unwrap();
    let plan = format!("vram-ecc@1,address:{:#x}..{:#x}", a.address(), a.address() + 4 * u64::from(COUNT));
    assert!(gpu.device().faults().begin(&plan.parse().unwrap()));
    let error = if by_engine {
        let mut engine = agent.copy_queue().unwrap();
        engine.copy(&a, &sum).unwrap();
        engine.finish(None).unwrap_err().to_string()
    } else {
        let queue = agent.queue().unwrap();
        let launch = kernel.launch(&queue).grid(COUNT).block(256).args((&a, &b, &sum, COUNT));
        launch.run().expect_err(&format!("{:?}", gpu.device().faults().report())).to_string()
    };
    assert!(error.contains("error that cannot be corrected"), "{chip}: {error}");
    let errors = gpu.device().stats().errors;
    assert_eq!(errors.get(&GuestError::Poison), Some(&1), "{chip}: {errors:?}");
    assert!(!errors.contains_key(&GuestError::PageFault), "{chip}: {errors:?}");
    // The process has lost its queues, and no other one has.
    belfry_examples::run("vector-add", &other, &["256".to_owned()], &mut std::io::sink()).unwrap();
    work(&gpu, || ()).unwrap();
    let counts = gpu.card_read("ras/umc_err_count").ok();
    let expected = (*chip == gfx942::MODEL).then_some(&b"ue: 1\nce: 0\nde: 0\n"[..]);
    assert_eq!(counts.as_deref(), expected, "{chip}");
}

#[test]
fn wave_and_engine_that_read_an_uncorrectable_error_stop_their_process_alone() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        for by_engine in [false, true] {
            poisoned(chip, by_engine);
        }
    }
}

/// Has a wave and an engine read VRAM with errors that are corrected.
fn corrected(chip: &'static Model) {
    let gpu = HostedGpu::new(config(chip, Plan::counting())).unwrap();
    let runtime = process(&gpu).unwrap();
    let agent = runtime.gpu();
    let a = agent.vram().buffer_from(&vec![1.0f32; COUNT as usize]).unwrap();
    let [b, sum, copy] = [(); 3].map(|()| agent.gtt().buffer::<f32>(COUNT as usize).unwrap());
    let kernel =
        agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap().kernel("vecadd").unwrap();
    let range = a.address()..a.address() + 4 * u64::from(COUNT);
    let plan = format!("vram-ecc-correctable@1,address:{:#x}..{:#x}", range.start, range.end);
    let counts = || gpu.card_read("ras/umc_err_count").ok();
    let expected = |corrected: u64| {
        let text = format!("ue: 0\nce: {corrected}\nde: 0\n");
        (*chip == gfx942::MODEL).then(|| text.into_bytes())
    };
    assert_eq!(counts(), expected(0), "{chip}");
    assert!(gpu.device().faults().begin(&plan.parse().unwrap()));
    let queue = agent.queue().unwrap();
    kernel.launch(&queue).grid(COUNT).block(256).args((&a, &b, &sum, COUNT)).run().unwrap();
    assert_eq!(counts(), expected(1), "{chip}");
    assert!(gpu.device().faults().begin(&plan.parse().unwrap()));
    let mut engine = agent.copy_queue().unwrap();
    engine.copy(&a, &copy).unwrap();
    engine.finish(None).unwrap();
    assert_eq!(gpu.device().faults().report().struck[&Rule::VramEccCorrectable], 1, "{chip}");
    // Counted errors stay counted after a reading.
    assert_eq!((counts(), counts()), (expected(2), expected(2)), "{chip}");
    assert!(sum.to_vec().iter().all(|word| *word == 1.0), "{chip}");
    assert!(copy.to_vec().iter().all(|word| *word == 1.0), "{chip}");
    let errors = gpu.device().stats().errors;
    assert!(errors.is_empty(), "{chip}: {errors:?}");
}

#[test]
fn wave_and_engine_that_read_a_corrected_error_get_what_was_written_and_it_is_counted() {
    for chip in [chip::DEFAULT, &gfx1201::MODEL, &gfx942::MODEL] {
        corrected(chip);
    }
}

#[test]
fn corrected_errors_outlive_a_reset_of_the_device() {
    let frame = moments_before(&gfx942::MODEL, Hook::Frame) + 4;
    let plan = format!("vram-ecc-correctable@every:1;frame-unanswered@{frame}").parse().unwrap();
    let gpu = HostedGpu::new(config(&gfx942::MODEL, plan)).unwrap();
    let mut corrected = 0;
    for _ in 0..3 {
        let _ = work(&gpu, || ());
        let text = String::from_utf8(gpu.card_read("ras/umc_err_count").unwrap()).unwrap();
        let now: u64 = text.lines().nth(1).unwrap().strip_prefix("ce: ").unwrap().parse().unwrap();
        assert!(now >= corrected, "{now} after {corrected}");
        corrected = now;
    }
    let report = gpu.device().faults().report();
    assert_eq!(report.struck[&Rule::FrameUnanswered], 1);
    assert_eq!(Some(&corrected), report.struck.get(&Rule::VramEccCorrectable));
}
