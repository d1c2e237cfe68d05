//! `belfry run --image` with a disk in which the driver's package was installed as a user would.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use belfry_image::{Cache, Progress, tools};
use belfry_tests::suite::process::run_with_input;

use super::installs::copy_of;
use super::screen::Screen;
use super::{Case, LIMIT, Trial, said, tool};

pub(super) const CASES: [Case; 7] = [
    ("program-over-ssh", |trial| over_ssh(trial, &trial.disk("driver")?.display().to_string())),
    ("shell-over-ssh", shell_over_ssh),
    ("console", |trial| at_the_console(trial, &trial.disk("driver")?.display().to_string())),
    ("console-ended-by-keys", console_ended_by_keys),
    ("guest-switches-off-under-a-program", switches_off),
    ("uefi-alone", |trial| by_uefi(trial, true)),
    ("uefi-by-choice", |trial| by_uefi(trial, false)),
];

/// Offset in the disks of the EFI system partition.
const ESP: &str = "1M";
/// Code of a BIOS's boot loader in the first sector.
const CODE: usize = 440;
/// Entry that systemd-boot starts.
const ENTRY: &str = "title linux\nlinux /vmlinuz\ninitrd /initrd.img\n\
options root=LABEL=root rw console=ttyS0,115200\n";

/// Script of a program over ssh, which prints what it finds and ends with a status of its own.
const LOOK: &str = "set -e; udevadm settle; grep -q '^amdgpu ' /proc/modules; test -c /dev/kfd -a -c /dev/dri/renderD128
modinfo -F filename amdgpu; rocminfo | grep -m1 -o gfx1100; systemctl is-system-running --wait; echo \"$0: $1\"; exit 42";

/// A program with words of its own, on a disk with its options.
pub(super) fn over_ssh(trial: &Trial, disk: &str) -> Result<()> {
    let program = ["--", "sh", "-c", LOOK, "word with 'quotes'", "$HOME"];
    let said = trial.belfry(&[&["run", "--image", disk][..], &program].concat(), 42)?;
    for part in ["updates/dkms/amdgpu.ko", "gfx1100", "\nrunning\n", "word with 'quotes': $HOME"] {
        ensure!(said.contains(part), "no {part:?}: {said}");
    }
    Ok(())
}

/// A disk with systemd-boot, without a boot loader for BIOS or beside one.
fn by_uefi(trial: &Trial, alone: bool) -> Result<()> {
    let folder = trial.folder()?;
    let disk = copy_of(&trial.disk("driver")?, folder.path())?;
    if alone {
        OpenOptions::new().write(true).open(&disk)?.write_all_at(&[0; CODE], 0)?;
    }
    let loader = tools::package(&Cache::open()?, "systemd-boot-efi", &Progress::new())?;
    let loader = loader.join("usr/lib/systemd/boot/efi/systemd-bootx64.efi").display().to_string();
    let entry = folder.path().join("linux.conf");
    fs::write(&entry, ENTRY)?;
    let esp = format!("{}@@{ESP}", disk.display());
    tool("mmd", &["-i", &esp, "::/EFI", "::/EFI/BOOT", "::/loader", "::/loader/entries"])?;
    tool("mcopy", &["-i", &esp, &loader, "::/EFI/BOOT/BOOTX64.EFI"])?;
    tool("mcopy", &["-i", &esp, &entry.display().to_string(), "::/loader/entries/linux.conf"])?;
    let firmware: &[&str] = if alone { &[] } else { &["--firmware", "uefi"] };
    let program =
        ["--", "sh", "-c", "udevadm settle; test -d /sys/firmware/efi && rocminfo | grep -m1 -o gfx1100"];
    let disk = disk.display().to_string();
    let said = trial.belfry(&[&["run", "--image", &disk][..], firmware, &program].concat(), 0)?;
    ensure!(said.contains("gfx1100"), "{said}");
    Ok(())
}

/// A login shell that reads its commands from a pipe.
fn shell_over_ssh(trial: &Trial) -> Result<()> {
    let mut command = Command::new(&trial.belfry);
    command.args(["run", "--ssh", "--image"]).arg(trial.disk("driver")?);
    let (keys, mut typed) = std::io::pipe()?;
    typed.write_all(b"echo seen=$((40 + 2)); pwd; exit 7\n")?;
    drop(typed);
    let said = said(&run_with_input(command, Stdio::from(keys), LIMIT)?, 7)?;
    ensure!(said.contains("seen=42\n/root\n"), "{said}");
    Ok(())
}

/// Logs in by hand, as it were, and switches the guest off there.
pub(super) fn at_the_console(trial: &Trial, disk: &str) -> Result<()> {
    let mut screen = Screen::start(&trial.belfry, &["run", "--interactive", "--image", disk])?;
    screen.play(&[
        ("login:", "root\r"),
        // The prompt may come before the driver is loaded.
        ("# ", "systemctl is-system-running --wait; rocminfo | grep -m1 -o gfx1100; echo seen=$((40 + 2))\r"),
        ("gfx1100\r", ""),
        ("seen=42", "poweroff\r"),
        ("exit status 0", ""),
    ])?;
    let status = screen.end()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// Ctrl-A x, for which the guest is not asked.
fn console_ended_by_keys(trial: &Trial) -> Result<()> {
    let disk = trial.disk("driver")?.display().to_string();
    let mut screen = Screen::start(&trial.belfry, &["run", "--interactive", "--image", &disk])?;
    screen.play(&[
        ("login:", "root\r"),
        ("# ", "echo seen=$((40 + 2)); sleep 3600\r"),
        ("seen=42", "\x01x"),
        ("exit status 0", ""),
    ])?;
    let status = screen.end()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// The program's end is not known then, and ssh's own status stands for that.
fn switches_off(trial: &Trial) -> Result<()> {
    let disk = trial.disk("driver")?.display().to_string();
    let program = "echo seen=$((40 + 2)); systemctl poweroff; sleep 3600";
    let said = trial.belfry(&["run", "--image", &disk, "--", "sh", "-c", program], 255)?;
    ensure!(said.contains("seen=42"), "{said}");
    Ok(())
}
