//! A user's own system with the GPU, from its packages to its console; `cargo xtask own-system` is its front.
//!
//! With the argument `--install-driver` the disk is made without the driver, and `belfry image install-driver` puts it in.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_image::dkms;
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_tests::own_system;
use belfry_tests::suite::process::run;
use belfry_tests::suite::{self, Ended};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long a guest may take; far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(1500);

/// What a program over ssh finds, and the status it ends with.
const LOOK: &str = "set -e; grep -q '^amdgpu ' /proc/modules; test -c /dev/kfd -a -c /dev/dri/renderD128
modinfo -F filename amdgpu; rocminfo | grep -m1 -o gfx1100; systemctl is-system-running --wait; echo \"$0: $1\"; exit 42";

fn main() -> Result<()> {
    let started = Instant::now();
    let installs = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--install-driver") => true,
        Some(other) => bail!("{other:?} is no option; --install-driver is"),
    };
    let scratch = tempfile::tempdir_in("/var/tmp")?;
    // mmdebstrap's user namespace reads there as somebody else.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let package = dkms::package(&belfry_embedded::PARTS, scratch.path())?;
    let belfry = suite::belfry()?;
    let disk = if installs {
        println!("own-system: making a disk of packages, without the driver");
        let disk = own_system::make(scratch.path(), None)?;
        println!("own-system: made in {} s", started.elapsed().as_secs());
        install_driver(&belfry, &disk)?;
        println!(
            "own-system: install-driver has put the driver in, twice; {} s",
            started.elapsed().as_secs()
        );
        disk
    } else {
        println!("own-system: making a disk of packages, with {}", package.display());
        let disk = own_system::make(scratch.path(), Some(&package))?;
        println!("own-system: made in {} s", started.elapsed().as_secs());
        disk
    };
    over_ssh(&belfry, &disk)?;
    println!("own-system: over ssh, the driver is loaded and rocminfo lists the GPU");
    at_the_console(&belfry, &disk)?;
    println!("own-system: at the console as well; {} s in all", started.elapsed().as_secs());
    Ok(())
}

/// Puts the driver into a disk that has none, and again into one that has it; neither leaves anything beside the disk.
fn install_driver(belfry: &Path, disk: &Path) -> Result<()> {
    let folder = disk.parent().context("the disk's folder")?;
    let names = || -> Result<BTreeSet<OsString>> {
        Ok(std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()?)
    };
    let before = names()?;
    for _ in 0..2 {
        let mut command = Command::new(belfry);
        command.args(["image", "install-driver"]).arg(disk);
        let outcome = run(command, LIMIT)?;
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        ensure!(outcome.ended == Ended::Status(0), "{}: {said}", outcome.ended);
        ensure!(outcome.stdout.contains("driver for 6."), "no kernel: {said}");
        print!("{said}");
    }
    ensure!(names()? == before, "something is left beside {}", disk.display());
    Ok(())
}

fn over_ssh(belfry: &Path, disk: &Path) -> Result<()> {
    let mut command = Command::new(belfry);
    command.args(["run", "--image"]).arg(disk).args(["--", "sh", "-c", LOOK, "word with 'quotes'", "$HOME"]);
    let outcome = run(command, LIMIT)?;
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    ensure!(outcome.ended == Ended::Status(42), "{}: {said}", outcome.ended);
    for part in ["updates/dkms/amdgpu.ko", "gfx1100", "\nrunning\n", "word with 'quotes': $HOME"] {
        ensure!(outcome.stdout.contains(part), "no {part:?}: {said}");
    }
    Ok(())
}

/// Logs in by hand, as it were.
fn at_the_console(belfry: &Path, disk: &Path) -> Result<()> {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let name = ptsname(&keyboard, Vec::new())?;
    let terminal = File::options().read(true).write(true).open(name.to_str()?)?;
    let mut command = Command::new(belfry);
    command.args(["run", "--interactive", "--image"]).arg(disk);
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    die_with_parent(&mut command);
    let mut belfry = KillOnDrop(command.spawn()?);
    // The command has the last copies of the terminal, so that its end is seen here.
    drop(command);
    let mut screen =
        Screen { terminal: File::from(keyboard), text: String::new(), deadline: Instant::now() + LIMIT };
    for (prompt, keys) in [
        ("login:", "root\r"),
        ("# ", "rocminfo | grep -m1 -o gfx1100; echo seen=$((40 + 2))\r"),
        ("seen=42", "poweroff\r"),
        ("exit status 0", ""),
    ] {
        screen.wait_for(prompt)?;
        screen.terminal.write_all(keys.as_bytes())?;
    }
    let status = belfry.0.wait()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

struct Screen {
    terminal: File,
    text: String,
    deadline: Instant,
}

impl Screen {
    /// Waits for a text behind what was seen before.
    fn wait_for(&mut self, wanted: &str) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.text.find(wanted) {
                self.text.drain(..at + wanted.len());
                return Ok(());
            }
            if Instant::now() > self.deadline {
                bail!("no {wanted:?} on the console: {}", self.text);
            }
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            if poll(&mut [PollFd::new(&self.terminal, PollFlags::IN)], Some(&second))? == 0 {
                continue;
            }
            // The other side is closed: what was said is all there is.
            let count =
                self.terminal.read(&mut buffer).with_context(|| format!("no {wanted:?}: {}", self.text))?;
            self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
}
