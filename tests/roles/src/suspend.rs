//! A system that goes to sleep with work on its GPU: to memory, from which the host has to wake it up, or by
//! the kernel's own test of going to sleep, which wakes up by itself.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use belfry_runtime::Runtime;

use crate::probe;

/// Words of each buffer.
const WORDS: usize = 4096;
/// Number of sleeps of the system.
const TIMES: usize = 3;
/// Longest time the kernel may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// The depth that is no test.
const MEMORY: &str = "memory";

/// The bridge of QEMU's q35 that has the system's power management registers, in its configuration space: where they are (ICH9's
/// `PMBASE`), and that they are switched on (`ACPI_CNTL`).
const BRIDGE: &str = "/sys/bus/pci/devices/0000:00:1f.0/config";
const PMBASE: u64 = 0x40;
const ACPI_CNTL: u64 = 0x44;

/// Suspends the system to memory.
///
/// The machine resets its bridge as it wakes up, and SeaBIOS does not set it up again: the registers would read as all ones, and
/// the next sleep would end before it begins. Linux leaves them to the firmware.
fn sleep_to_memory() -> Result<()> {
    let bridge = File::options().read(true).write(true).open(BRIDGE).context(BRIDGE)?;
    let (mut base, mut control) = ([0; 4], [0; 1]);
    bridge.read_exact_at(&mut base, PMBASE)?;
    bridge.read_exact_at(&mut control, ACPI_CNTL)?;
    fs::write("/sys/power/mem_sleep", "deep")?;
    fs::write("/sys/power/state", "mem").context("mem to /sys/power/state")?;
    bridge.write_all_at(&base, PMBASE)?;
    bridge.write_all_at(&control, ACPI_CNTL).context(BRIDGE)
}

/// Suspends the system: to memory, or to idle as far as `depth` of `/sys/power/pm_test` goes, from which it comes back after a second.
fn sleep(depth: &str) -> Result<()> {
    let write = |path: &str, text: &str| fs::write(path, text).with_context(|| format!("{text} to {path}"));
    if depth == MEMORY {
        return sleep_to_memory();
    }
    write("/sys/module/suspend/parameters/pm_test_delay", "1")?;
    write("/sys/power/pm_test", depth)?;
    write("/sys/power/state", "freeze")
}

/// Has the system sleep while a kernel runs and VRAM holds something.
///
/// # Errors
///
/// When the system does not sleep, or work or memory is lost.
pub fn run(runtime: &Runtime, depth: &str, out: &mut dyn Write) -> Result<()> {
    let gpu = runtime.gpu();
    let from: Vec<u32> = (0..WORDS as u32).map(|word| word.wrapping_mul(0x9e37_79b9)).collect();
    let kept = gpu.vram().buffer_from(&from)?;
    let target = gpu.gtt().buffer::<u32>(WORDS)?;
    let (stop, begun) = (gpu.gtt().buffer_from(&[0u32])?, gpu.gtt().buffer_from(&[0u32])?);
    let (queue, other) = (gpu.queue()?, gpu.queue()?);
    let module = gpu.load(probe(gpu))?;
    let spin = module.kernel("spin")?;
    let spinning = spin.launch(&queue).grid(256).block(64).args((&stop, &begun)).submit()?;
    let deadline = Instant::now() + PATIENCE;
    while begun.get(0)? == 0 {
        ensure!(Instant::now() < deadline, "the kernel did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    let peek = module.kernel("peek")?;
    for time in 0..TIMES {
        sleep(depth)?;
        ensure!(!spinning.is_done(), "the kernel has ended in sleep {time}");
        peek.launch(&other).grid(WORDS as u32).block(256).arg(&target).arg(kept.address()).run()?;
        ensure!(target.to_vec() == from, "sleep {time}: VRAM holds something else");
    }
    stop.write(0, &[1])?;
    spinning.wait()?;
    writeln!(out, "suspend: {TIMES} times, work and memory verified")?;
    Ok(())
}
