//! `belfry run --image` with a disk in which the driver's package was installed as a user would.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use belfry_tests::suite::process::run_with_input;

use super::screen::Screen;
use super::{Case, LIMIT, Trial, said};

pub(super) const CASES: [Case; 5] = [
    ("program-over-ssh", |trial| over_ssh(trial, &trial.disk("driver")?.display().to_string())),
    ("shell-over-ssh", shell_over_ssh),
    ("console", |trial| at_the_console(trial, &trial.disk("driver")?.display().to_string())),
    ("console-ended-by-keys", console_ended_by_keys),
    ("guest-switches-off-under-a-program", switches_off),
];

/// What a program over ssh finds, and the status it ends with.
const LOOK: &str = "set -e; grep -q '^amdgpu ' /proc/modules; test -c /dev/kfd -a -c /dev/dri/renderD128
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
        ("# ", "rocminfo | grep -m1 -o gfx1100; echo seen=$((40 + 2))\r"),
        ("gfx1100\r\n", ""),
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
