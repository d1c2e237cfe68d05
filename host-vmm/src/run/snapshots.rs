//! Runs that are saved, and runs that go on from a snapshot.

use std::path::Path;

use belfry_machine::snapshot::{Kind, Snapshot};
use belfry_machine::{HugePages, KvmError};

use super::in_guest::Output;
use super::report::RunReport;
use super::{GuestKind, MachineOptions, Mode, RunError, RunOptions, alone, on_machine};

/// Refuses to save a run that can have no snapshot, and to keep warm a guest that cannot be kept.
pub(super) fn check(options: &RunOptions) -> Result<(), RunError> {
    let MachineOptions { disks, huge_pages, .. } = &options.machine;
    let elsewhere =
        options.system.is_some() || options.network || options.interactive || !options.shares.is_empty();
    let disks = options.root.is_some() || !disks.is_empty();
    if options.snapshot.is_some() && !matches!(options.mode, Mode::Hosted | Mode::Kvm) {
        return Err(RunError::WrongGuest(
            "--snapshot saves hosted programs and machines of Belfry's own: add --mode hosted or --mode kvm",
        ));
    }
    if options.warm && (options.mode != Mode::Kvm || options.guest != GuestKind::Debian) {
        return Err(RunError::WrongGuest(
            "--warm starts Debian guests on Belfry's own machine, of which alone there are snapshots: add --mode kvm",
        ));
    }
    if (options.snapshot.is_some() && options.mode == Mode::Kvm || options.warm)
        && (elsewhere || *huge_pages == HugePages::Reserved)
    {
        return Err(RunError::WrongGuest(
            "--snapshot and --warm keep no guests with shared folders, a network (--net), a terminal (--interactive) or reserved huge \
             pages; leave these away",
        ));
    }
    if options.warm && disks {
        return Err(RunError::WrongGuest(
            "--warm keeps no guests with disks or a root file system; leave --warm away",
        ));
    }
    Ok(())
}

/// Goes on from a snapshot; its file says if it is of a machine or of a hosted GPU.
pub(super) fn go_on(options: &RunOptions, file: &Path, output: Output<'_>) -> Result<RunReport, RunError> {
    let kind = match options.mode {
        Mode::Kvm => Kind::Machine,
        Mode::Hosted => Kind::Hosted,
        Mode::Auto => Snapshot::head_of(file).map_err(KvmError::from)?.kind,
        Mode::Qemu => {
            return Err(RunError::WrongGuest(
                "--from goes on with a machine of --mode kvm or the GPU of --mode hosted; QEMU has no snapshots",
            ));
        }
    };
    match kind {
        Kind::Machine => on_machine::from_snapshot(options, file, output),
        Kind::Hosted => alone::from_snapshot(options, file, output),
    }
}
