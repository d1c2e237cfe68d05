//! The rule for the host data path: a processor's writes to VRAM are flushed before the device looks at them.
#![expect(unsafe_code, reason = "stores to VRAM as a program does that flushes by itself, or forgets to")]

use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::chip::{MODELS, Model};
use belfry_device::sanitize::{Misuse, Rule, SanitizeOptions, Sanitizer};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Buffer, Runtime};
use belfry_runtime_hosted::HostedTransport;

/// Elements of a buffer: two pages.
const COUNT: u32 = 2048;

fn gpu(chip: &'static Model, rules: impl IntoIterator<Item = Rule>) -> Arc<HostedGpu> {
    let options = SanitizeOptions { rules: rules.into_iter().collect(), ..SanitizeOptions::default() };
    let sanitizer = Some(Arc::new(Sanitizer::new(options)));
    HostedGpu::new(GpuConfig { chip, vram_size: 64 << 20, sanitizer, ..GpuConfig::default() }).unwrap()
}

fn process(gpu: &Arc<HostedGpu>) -> Runtime {
    Runtime::with_transport(HostedTransport::open(gpu).unwrap()).unwrap()
}

fn misuses(gpu: &HostedGpu) -> Vec<Misuse> {
    let report = gpu.device().sanitized().unwrap();
    assert_eq!(report.findings, []);
    report.misuses
}

/// Stores to an element without the runtime.
fn store(buffer: &Buffer<f32>, index: usize, value: f32) {
    let first = std::ptr::with_exposed_provenance_mut::<f32>(buffer.address() as usize);
    assert!(index < buffer.len());
    // SAFETY: the element is mapped at the address of its buffer, for the processor as for the GPU.
    unsafe { first.add(index).write_volatile(value) };
}

/// Adds two buffers, after the processor has stored to the first one: by a kernel, or a copy of that one.
fn after_store(chip: &'static Model, by_engine: bool, flushes: bool) -> Vec<Misuse> {
    let gpu = gpu(chip, [Rule::HdpNotFlushed]);
    let runtime = process(&gpu);
    let agent = runtime.gpu();
    let [a, b] = [1.0, 2.0].map(|value| agent.vram().buffer_from(&vec![value; COUNT as usize]).unwrap());
    let sum = agent.gtt().buffer::<f32>(COUNT as usize).unwrap();
    let kernel =
        agent.load(belfry_examples::kernels::VECADD.on(agent).unwrap()).unwrap().kernel("vecadd").unwrap();
    let queue = agent.queue().unwrap();
    let mut engine = agent.copy_queue().unwrap();
    let mut work = || {
        if by_engine {
            engine.copy(&a, &sum).unwrap();
            engine.finish(None).unwrap();
        } else {
            kernel.launch(&queue).grid(COUNT).block(256).args((&a, &b, &sum, COUNT)).run().unwrap();
        }
    };
    // All was written by the runtime, which flushes before its doorbells.
    work();
    assert_eq!(misuses(&gpu), [], "{chip}");
    store(&a, 1500, 5.0);
    if flushes {
        b.write(0, &[2.0]).unwrap();
    }
    work();
    assert_eq!(sum.get(1500).unwrap(), if by_engine { 5.0 } else { 7.0 }, "{chip}");
    misuses(&gpu)
}

#[test]
fn store_that_is_not_flushed_is_told_of() {
    for chip in MODELS {
        for by_engine in [false, true] {
            let found = after_store(chip, by_engine, false);
            // Memory that programs ask of an APU is the processor's: there is nothing to flush.
            if chip.name == "gfx1151" {
                assert_eq!(found, [], "{chip}");
                continue;
            }
            let [misuse] = &*found else { panic!("{chip}: {found:?}") };
            assert_eq!((misuse.rule, misuse.count), (Rule::HdpNotFlushed, 1), "{chip}");
            assert!(
                misuse.found.starts_with("2 bytes in a page of VRAM, the first at offset 0x"),
                "{misuse}"
            );
            // Bytes 2 and 3 of element 1500 - 1024 of the second page.
            assert!(misuse.found.ends_with("772"), "{misuse}");
            assert!(misuse.process.is_some() && misuse.doorbell.is_some(), "{misuse}");
        }
    }
}

#[test]
fn store_that_is_flushed_is_nothing() {
    for chip in MODELS {
        for by_engine in [false, true] {
            assert_eq!(after_store(chip, by_engine, true), [], "{chip}");
        }
    }
}

#[test]
fn driver_and_runtime_flush_what_they_write() {
    let rules = [Rule::HdpNotFlushed, Rule::StaleTranslation, Rule::Refused, Rule::KernargChanged];
    for chip in MODELS {
        for (example, arguments) in
            [("vector-add", "5000"), ("many-queues", "4"), ("memory-pools", ""), ("reduce", "10000")]
        {
            let gpu = gpu(chip, rules);
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            let mut out = Vec::new();
            belfry_examples::run(example, &process(&gpu), &arguments, &mut out).unwrap();
            assert_eq!(misuses(&gpu), [], "{chip}: {example}");
        }
    }
}
