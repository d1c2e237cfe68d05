//! The GPU of a hosted program that goes on from a snapshot, without the program: work in flight comes to its end.

use std::path::Path;
use std::time::Instant;

use belfry_device::{GpuConfig, Rest};
use belfry_guest::Stream;
use belfry_machine::snapshot::{HostedSnapshot, SnapshotError};

use super::in_guest::Output;
use super::report::{RunReport, from_device, milliseconds};
use super::resumed::as_saved;
use super::{Mode, RunError, RunOptions, inspected};
use crate::snapshot::Watch;

/// Goes on from a snapshot until no work is in flight any more; the status is 0 if that is reached.
pub(super) fn from_snapshot(
    options: &RunOptions,
    file: &Path,
    output: Output<'_>,
) -> Result<RunReport, RunError> {
    if options.snapshot.is_some() {
        return Err(RunError::WrongGuest("--snapshot saves programs and machines, and this is a GPU alone"));
    }
    let started = Instant::now();
    let snapshot = HostedSnapshot::open(file)?;
    let saved = snapshot.config();
    let mut config = GpuConfig {
        interrupt_pin: saved.interrupt_pin,
        msix_table: saved.msix_table,
        poll_doorbells: saved.poll_doorbells,
        ..as_saved(&saved, &options.gpus.first)
    };
    let counting = Watch::counting(&mut config);
    let alone = snapshot.resume(config)?;
    let gpu = alone.gpu();
    let onlookers = inspected(options, std::slice::from_ref(gpu))?;
    let resumed = started.elapsed();
    let before = gpu.stats();
    let started = Instant::now();
    let rest = gpu.run_to_rest(options.timeout);
    let ran = started.elapsed();
    let map = |source| SnapshotError::Map { path: file.to_owned(), source };
    let memory = alone.digest().map_err(map)?;
    let (stats, events) = (gpu.stats(), counting.seen());
    let (exit_status, how) = match &rest {
        Rest::Idle => (0, "queues idle".to_owned()),
        Rest::Waiting(left) => (1, format!("what is left waits for the program: {left}")),
        Rest::Late(left) => (1, format!("not at its end within {:?}: {left}", options.timeout)),
    };
    let text = format!(
        "resumed in {:.1} ms, went on for {:.1} ms: {} waves that had begun, {} dispatches and {events} events to their end, memory \
         {memory:016x}; {how}\n",
        milliseconds(resumed),
        milliseconds(ran),
        snapshot.head().waves,
        stats.dispatches - before.dispatches,
    );
    output(Stream::Stdout, text.as_bytes());
    if let Some(onlookers) = &onlookers {
        onlookers.ended(exit_status);
    }
    Ok(RunReport {
        mode: Mode::Hosted,
        program: file.display().to_string(),
        exit_status,
        boot_ms: milliseconds(resumed),
        program_ms: milliseconds(ran),
        ..from_device(&stats, gpu.unmodelled())
    }
    .with_faults(&gpu.faults().report()))
}
