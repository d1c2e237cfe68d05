//! The way in which QEMU runs guest code, and a test if KVM is worth using.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belfry_image::{BootRecord, Cache, Qemu};
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_process::scratch::Scratch;

use super::command::option;
use crate::config::Accelerator;

/// Returns true if the user has chosen by `BELFRY_ACCEL`.
#[must_use]
pub fn accelerator_is_forced() -> bool {
    matches!(std::env::var("BELFRY_ACCEL").as_deref(), Ok("kvm" | "tcg"))
}

/// Chooses KVM if it runs code at a useful speed, otherwise the translator; `BELFRY_ACCEL` overrides.
#[must_use]
pub fn choose_accelerator(cache: &Cache, qemu: &Qemu) -> Accelerator {
    match std::env::var("BELFRY_ACCEL").as_deref() {
        Ok("kvm") => return Accelerator::Kvm,
        Ok("tcg") => return Accelerator::Tcg,
        _ => {}
    }
    let accessible = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    if !accessible {
        return Accelerator::Tcg;
    }
    // The result holds until the machine or QEMU changes.
    let about = format!("{} {}", qemu.program.display(), qemu.version);
    let record = BootRecord::new(cache, "qemu-kvm", &about);
    let works = record.get().unwrap_or_else(|| {
        let works = kvm_runs_code(qemu);
        record.set(works);
        works
    });
    if works { Accelerator::Kvm } else { Accelerator::Tcg }
}

/// Boots a sector that leaves QEMU by its debug port: firmware and sector must get through within two seconds.
///
/// A /dev/kvm that opens says little: nested or emulated ones abort QEMU, or run a thousand times too slowly.
fn kvm_runs_code(qemu: &Qemu) -> bool {
    const EXIT_CODE: u8 = 0x10;
    let Ok(directory) = Scratch::new() else { return false };
    let disk = directory.path().join("boot.img");
    let mut sector = vec![0u8; 64 << 10];
    // mov al, EXIT_CODE; mov dx, 0xf4; out dx, al; hlt; jmp to the hlt
    sector[..9].copy_from_slice(&[0xb0, EXIT_CODE, 0xba, 0xf4, 0x00, 0xee, 0xf4, 0xeb, 0xfd]);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    if fs::write(&disk, &sector).is_err() {
        return false;
    }
    let mut command = Command::new(&qemu.program);
    command
        .args(&qemu.arguments)
        .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-accel", "kvm", "-cpu", "host", "-machine", "q35", "-m", "64M"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-boot", "c"])
        .args(["-drive", &format!("if=ide,format=raw,file={}", option(&disk))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    die_with_parent(&mut command);
    let Ok(child) = command.spawn() else { return false };
    let mut child = KillOnDrop(child);
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        match child.0.try_wait() {
            Ok(Some(status)) => return status.code() == Some(i32::from(EXIT_CODE) << 1 | 1),
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => return false,
        }
    }
    false
}
