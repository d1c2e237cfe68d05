//! Processes that are killed at random points of their use of the GPU: afterwards the GPU works, and nothing of theirs
//! is left.
//!
//! The driver's own counters (`belfry_usage` in debugfs) and the kernel's count of pinned pages tell if something is
//! left.
#![expect(unsafe_code, reason = "mounts debugfs and signals process groups")]

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::numbers::{COUNTERS, Numbers};

const DEBUGFS: &str = "/sys/kernel/debug";
/// Longest time a killed process may take to be gone, and a process that is not killed to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// A process is killed within this time, in milliseconds; most have begun to use the GPU in half of it.
const LIFE: u64 = 1500;
/// Processes that are killed: roles with their arguments. `#` stands for a number of the process's own.
const VICTIMS: [&[&str]; 8] = [
    &["race-child", "files", "#"],
    &["race-child", "work", "#"],
    &["spin", "/tmp/kills-spin"],
    &["store", "/tmp/kills-shared", "/tmp/kills-storing"],
    &["svm-store", "/tmp/kills-svm", "/tmp/kills-svm-storing"],
    &["svm"],
    &["share"],
    &["render"],
];

/// Path of the driver's counters.
pub(crate) fn usage_file() -> Result<PathBuf> {
    // SAFETY: all strings end with a zero; mounting changes no memory of this program.
    let result = unsafe {
        libc::mount(
            c"debugfs".as_ptr(),
            c"/sys/kernel/debug".as_ptr(),
            c"debugfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    let error = std::io::Error::last_os_error();
    ensure!(result == 0 || error.raw_os_error() == Some(libc::EBUSY), "mounting debugfs: {error}");
    let cards = fs::read_dir(Path::new(DEBUGFS).join("dri")).context("the kernel has no DRM in debugfs")?;
    cards
        .flatten()
        .map(|card| card.path().join("belfry_usage"))
        .find(|path| path.exists())
        .context("no card in debugfs has belfry_usage")
}

/// Resources that processes hold: the driver's counters, and a line of pages that are pinned in the whole
/// kernel.
fn usage(file: &Path) -> Result<String> {
    let counters = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let vmstat = fs::read_to_string("/proc/vmstat")?;
    let figure = |name: &str| -> Result<i64> {
        let line = vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("/proc/vmstat has no {name}"))?.parse()?)
    };
    let pinned = figure("nr_foll_pin_acquired")? - figure("nr_foll_pin_released")?;
    Ok(format!("{counters}pins {pinned}\n"))
}

/// The lines that differ, side by side.
fn difference(before: &str, now: &str) -> String {
    let lines = before.lines().zip(now.lines()).filter(|(before, now)| before != now);
    lines.map(|(before, now)| format!("{before}, now {now}")).collect::<Vec<_>>().join("; ")
}

/// Waits until processes hold no more than before.
fn wait_for_nothing_left(file: &Path, before: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = usage(file)?;
        if now == before {
            return Ok(());
        }
        ensure!(Instant::now() < end, "left after {PATIENCE:?}: {}", difference(before, &now));
        thread::sleep(Duration::from_millis(3));
    }
}

fn start(argv: &[&str], number: u64) -> Result<Child> {
    let number = number.to_string();
    let argv = argv.iter().map(|&word| if word == "#" { number.as_str() } else { word });
    Command::new("/proc/self/exe")
        .args(argv)
        // Its own children go with it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting a process")
}

fn kill(child: &mut Child) -> Result<()> {
    let group = -i32::try_from(child.id())?;
    // SAFETY: signals the processes that `start` has made, and that were not waited for.
    let result = unsafe { libc::kill(group, libc::SIGKILL) };
    ensure!(result == 0, "kill: {}", std::io::Error::last_os_error());
    child.wait()?;
    Ok(())
}

/// A program that runs to its end and checks its results.
fn clean_run() -> Result<()> {
    let output = Command::new("/proc/self/exe").arg("work").output()?;
    ensure!(
        output.status.success(),
        "a clean run ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Kills processes until there were `points` kills, each at a random point.
///
/// # Errors
///
/// When something is left of one, a clean run after it fails, or too few were killed while they held the GPU.
pub fn run(points: u64, out: &mut dyn Write) -> Result<()> {
    fs::write(COUNTERS, [0; crate::nodes::PAGE])?;
    let file = usage_file()?;
    clean_run()?;
    // The driver lets go of some things a moment after their process is gone.
    thread::sleep(Duration::from_secs(1));
    let before = usage(&file)?;
    let (mut started, mut killed, mut holding, mut queues) = (0u64, 0u64, 0u64, 0u64);
    let mut numbers = Numbers::new(0x6a09_e667_f3bc_c909);
    // Some end by themselves before it is their time.
    while killed < points {
        let victim = VICTIMS[(started % VICTIMS.len() as u64) as usize];
        started += 1;
        let life = Duration::from_micros(numbers.below(LIFE * 1000));
        let mut child = start(victim, numbers.below(u64::MAX))?;
        thread::sleep(life);
        if child.try_wait()?.is_none() {
            killed += 1;
            let now = usage(&file)?;
            holding += u64::from(now != before);
            queues += u64::from(now.lines().any(|line| line.starts_with("queues ") && line != "queues 0"));
            kill(&mut child)?;
        }
        let what = || format!("process {started}: {victim:?}, to be killed after {life:?}");
        wait_for_nothing_left(&file, &before).with_context(what)?;
        clean_run().with_context(what)?;
        wait_for_nothing_left(&file, &before).with_context(|| format!("{}, then a clean run", what()))?;
    }
    let text = format!(
        "{points} points, {killed} killed, {holding} of them with the GPU open, {queues} with queues"
    );
    // A kill of a process that held nothing shows nothing.
    ensure!(holding * 3 > points && queues * 5 > points, "too few processes held anything: {text}");
    writeln!(out, "kills: {text}; nothing was left")?;
    Ok(())
}
