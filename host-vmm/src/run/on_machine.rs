//! Guests on Belfry's own machine without a channel: the bare-metal guest, and guests that go on from a snapshot.

use std::path::Path;
use std::sync::Arc;

use belfry_device::{Gpu, GpuConfig};
use belfry_guest::Stream;
use belfry_image::Cache;
use belfry_machine::snapshot::Snapshot;
use belfry_machine::{Config, End, KvmError, Machine, bare_metal};

use super::in_guest::Output;
use super::report::{RunReport, from_device, milliseconds};
use super::{MachineOptions, Mode, RunError, RunOptions, inspected, resumed};
use crate::doorbell;
use crate::snapshot::{Source, Taking, Watch};

/// Runs the bare-metal guest.
pub(super) fn bare_metal_guest(options: &RunOptions, output: Output<'_>) -> Result<RunReport, RunError> {
    let machine = options.machine != MachineOptions::default();
    if !options.program.is_empty() || !options.files.is_empty() || machine {
        return Err(RunError::WrongGuest(
            "the bare-metal guest takes no program, no files, no kernel arguments (--append) and no other machine",
        ));
    }
    if options.gpus.count() > 1 {
        return Err(RunError::WrongGuest("the bare-metal guest drives one GPU; leave --gpus out"));
    }
    let doorbells = doorbell::on_kvm(options.doorbell, options.gpus.first.works_on_copy())?;
    let kernel = belfry_image::bare_metal::obtain(&Cache::open()?, &belfry_embedded::PARTS)?;
    let config = |gpu| bare_metal::config(&kernel, gpu, doorbells);
    let report = run(options, options.gpus.first.clone(), output, |gpu| Machine::new(config(gpu)))?;
    Ok(RunReport { kernel: Some("bare-metal".to_owned()), program: "bare-metal".to_owned(), ..report })
}

/// Goes on from a snapshot.
pub(super) fn from_snapshot(
    options: &RunOptions,
    file: &Path,
    output: Output<'_>,
) -> Result<RunReport, RunError> {
    let snapshot = Snapshot::open(file).map_err(KvmError::from)?;
    let Some(saved) = snapshot.gpu() else { return Err(RunError::WrongGuest("the snapshot has no GPU")) };
    let gpu = resumed::as_saved(&saved, &options.gpus.first);
    if snapshot.has_channel() {
        return resumed::run(options, (file, &snapshot), gpu, output);
    }
    let make = |gpu| {
        let config = Config { gpus: vec![gpu], catch_signals: true, ..snapshot.config() };
        Machine::resume(&snapshot, config)
    };
    let report = run(options, gpu, output, make)?;
    Ok(RunReport { kernel: Some("a snapshot".to_owned()), program: file.display().to_string(), ..report })
}

/// Makes a machine and runs it to its end.
fn run(
    options: &RunOptions,
    mut gpu: GpuConfig,
    output: Output<'_>,
    make: impl FnOnce(GpuConfig) -> Result<Machine, KvmError>,
) -> Result<RunReport, RunError> {
    let snapshot = options.snapshot.as_ref();
    let watch = Watch::over(&mut gpu, snapshot);
    let machine = make(gpu)?;
    let gpu: Option<Arc<Gpu>> = machine.gpu().cloned();
    let onlookers = inspected(options, machine.gpus())?;
    if let Some(onlookers) = &onlookers {
        onlookers.can_save(Source::Machine(Arc::downgrade(&machine.saver())).into_save());
    }
    let taking = snapshot.map(|snapshot| {
        let source = Source::Machine(Arc::downgrade(&machine.saver()));
        Taking::start(snapshot, (source, machine.gpu()), watch.as_deref())
    });
    let taking = taking.transpose();
    let taking = taking.map_err(|source| KvmError::Setup { what: "start a thread", source })?;
    let outcome = machine.run(options.timeout, &mut |data| output(Stream::Stdout, data));
    if let Some(taking) = taking {
        taking.finish();
    }
    let outcome = outcome?;
    let End::Exit(status) = outcome.end else { return Err(KvmError::Ended(outcome.end.to_string()).into()) };
    if let Some(onlookers) = &onlookers {
        onlookers.ended(status.into());
    }
    Ok(RunReport {
        mode: Mode::Kvm,
        accelerator: Some("kvm".to_owned()),
        exit_status: status.into(),
        boot_ms: milliseconds(outcome.setup),
        program_ms: milliseconds(outcome.ran),
        ..from_device(&outcome.stats, outcome.unmodelled)
    }
    .with_faults(&gpu.map(|gpu| gpu.faults().report()).unwrap_or_default()))
}
