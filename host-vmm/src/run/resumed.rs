//! A guest with a program that goes on from a snapshot: its program runs to its end, and the guest is switched off.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use belfry_device::GpuConfig;
use belfry_guest::Guest;
use belfry_image::Cache;
use belfry_machine::snapshot::Snapshot;
use belfry_machine::{KvmError, totals};

use super::in_guest::Output;
use super::report::{RunReport, from_device, milliseconds};
use super::{Mode, RunError, RunOptions, driver_trace, inspected};
use crate::snapshot::{Source, Taking, Watch};

/// Returns the configuration of a GPU that goes on: the device is the saved one; its execution and inspection are
/// this run's choice.
pub(super) fn as_saved(saved: &GpuConfig, own: &GpuConfig) -> GpuConfig {
    GpuConfig {
        chip: saved.chip,
        xccs: saved.xccs,
        partition: saved.partition,
        cus: saved.cus,
        vram_size: saved.vram_size,
        deterministic: saved.deterministic,
        quantum: saved.quantum,
        ..own.clone()
    }
}

/// Goes on from a snapshot to the end of the program that it was saved with.
pub(super) fn run(
    options: &RunOptions,
    (file, snapshot): (&Path, &Snapshot),
    mut gpu: GpuConfig,
    output: Output<'_>,
) -> Result<RunReport, RunError> {
    let watch = Watch::over(&mut gpu, options.snapshot.as_ref());
    let (mut guest, kept) = Guest::resume(snapshot, gpu, &Cache::open()?)?;
    let Some((id, argv)) = kept.program() else {
        return Err(RunError::WrongGuest(
            "the guest of the snapshot runs no program; `run --warm` goes on from it",
        ));
    };
    let is_recorded = driver_trace::start(&mut guest, &options.gpus.first)?;
    // The guest can be saved again.
    guest.keep(Some((id, argv)));
    let inspector = inspected(options, guest.gpus())?;
    let source = guest.saver().map(|saver| Source::Machine(Arc::downgrade(&saver)));
    if let (Some(onlookers), Some(source)) = (&inspector, &source) {
        onlookers.can_save(source.clone().into_save());
    }
    let taking = match (&options.snapshot, source) {
        (Some(snapshot), Some(source)) => {
            let taking = Taking::start(snapshot, (source, guest.gpu()), watch.as_deref());
            Some(taking.map_err(|source| KvmError::Setup { what: "start a thread", source })?)
        }
        _ => None,
    };
    let resumed = guest.boot_time();
    let started = Instant::now();
    let exit = guest.wait(id, options.timeout, output);
    taking.into_iter().for_each(Taking::finish);
    let exit_status = exit?.status;
    let program_time = started.elapsed();
    driver_trace::finish(&mut guest, is_recorded)?;
    let (stats, unmodelled) = totals(guest.gpus().iter().map(|gpu| &**gpu));
    let faults = guest.gpu().map(|gpu| gpu.faults().report()).unwrap_or_default();
    if let Some(onlookers) = &inspector {
        onlookers.ended(exit_status);
    }
    drop(inspector);
    let report = RunReport {
        mode: Mode::Kvm,
        accelerator: Some("kvm".to_owned()),
        kernel: Some(format!("{} from {}", kept.kernel, file.display())),
        program: argv.first().cloned().unwrap_or_default(),
        arguments: argv.get(1..).unwrap_or_default().to_vec(),
        exit_status,
        boot_ms: milliseconds(resumed),
        program_ms: milliseconds(program_time),
        ..from_device(&stats, unmodelled)
    };
    guest.power_off()?;
    Ok(report.with_faults(&faults))
}
