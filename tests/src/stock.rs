//! The life of the distribution's own driver in a guest: loads, binds, resets and sleeps, each followed by work, and the
//! kernel's log held against a list.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_guest::{Guest, GuestConfig, GuestError, ProgramId};
use belfry_image::Cache;

use crate::{guest_roles, stock_image, unload, wake};

/// Time limit of a program in the guest.
const LIMIT: Duration = Duration::from_secs(120);
/// Sleeps of one run of the role `suspend`.
const SLEEPS: u32 = 3;
const ROLES: &str = "/bin/guest-roles";
/// The only GPU.
const DRIVER: &str = "/sys/bus/pci/drivers/amdgpu";
const DEBUGFS: &str = "/sys/kernel/debug/dri";

/// Answer of Linux 6.12 to a program after a function was unbound: `amdgpu_device_ip_fini_early` suspends KFD, which locks it
/// (`kfd_locked`), and nothing unlocks it before the module is loaded again.
const LOCKED: &str = "cannot open /dev/kfd: Invalid argument";

/// Messages of the kernel that are warnings or worse, and come from a machine that works: a part of the line, and the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("amdgpu: module verification failed", "the module is not the kernel's own"),
    ("GPU reset begin!", "this part asks for resets"),
    ("clocksource: timekeeping watchdog", "a busy host stops the translator at times"),
    ("TSC found unstable", "the same"),
    // `remove_queue_mes` gives EIO while the lock of resets is held, and the caller has taken it (Linux 6.12).
    (
        "Failed to evict queue",
        "a reset begins with KFD's processes, whose queues are no longer taken from the MES",
    ),
    ("Failed to suspend process", "the same"),
];

/// A part of the life.
#[derive(Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    live: fn(&mut Life, u32) -> Result<String>,
}

/// All parts, in the order in which they are run.
pub const PARTS: &[Part] = &[
    Part { name: "load", live: load },
    Part { name: "bind", live: bind },
    Part { name: "rescan", live: rescan },
    Part { name: "recovery", live: recovery },
    Part { name: "idle", live: idle },
    Part { name: "memory", live: memory },
];

impl Part {
    /// Runs the part in a guest, and looks through the kernel's log, which is left in a file of `logs`. `times` is for loads; other
    /// parts take half as many.
    ///
    /// # Errors
    ///
    /// Anything that fails, and a message that the list of allowed ones does not have.
    pub fn run(&self, life: &mut Life, times: u32, logs: &Path) -> Result<String> {
        let said = (self.live)(life, times);
        let file = logs.join(format!("{}.log", self.name));
        let log = life.guest.kernel_log().context("reading the kernel's log")?;
        fs::write(&file, &log).with_context(|| file.display().to_string())?;
        let complaints = complaints(&log);
        let said = said.with_context(|| {
            format!("the kernel's log is in {}; its warnings:\n{}\n", file.display(), complaints.join("\n"))
        })?;
        ensure!(complaints.is_empty(), "the kernel warns ({}):\n{}", file.display(), complaints.join("\n"));
        Ok(said)
    }
}

/// Returns the messages of a log that are warnings or worse, but for those of the list and those from before the driver.
#[must_use]
pub fn complaints(log: &str) -> Vec<&str> {
    let bad = |line: &&str| line.as_bytes().get(1).is_some_and(|level| (b'0'..=b'4').contains(level));
    log.lines()
        .skip_while(|line| !line.contains("amdgpu"))
        .filter(bad)
        .filter(|line| !ALLOWED.iter().any(|(text, _)| line.contains(text)))
        .collect()
}

/// A guest with the kernel's own driver.
#[derive(Debug)]
pub struct Life {
    guest: Guest,
    /// Number of times that work found KFD locked.
    locked: u32,
}

impl Life {
    /// Boots the guest; its driver is not loaded yet.
    ///
    /// # Errors
    ///
    /// When a part of the guest cannot be had, or it does not boot.
    pub fn boot(config: &GuestConfig) -> Result<Self> {
        let cache = Cache::open()?;
        let roles = guest_roles()?;
        let mut guest = Guest::boot(&stock_image(&cache)?, config, &cache)?;
        guest.put_file(ROLES, 0o755, &roles)?;
        Ok(Self { guest, locked: 0 })
    }

    /// Writes to a file of sysfs.
    fn write(&mut self, path: &str, text: &str) -> Result<()> {
        self.succeed(&[ROLES, "write", path, text]).map(drop)
    }

    /// Runs a program that has to succeed; returns what it says.
    fn succeed(&mut self, argv: &[&str]) -> Result<String> {
        let (exit, stdout, stderr) = self.guest.run(argv, LIMIT)?;
        ensure!(exit.status == 0, "{argv:?} ended with {}\n{stdout}{stderr}", exit.status);
        Ok(stdout)
    }

    /// Runs work on the GPU.
    fn work(&mut self) -> Result<()> {
        self.guest.check_bound()?;
        let said = self.succeed(&[ROLES, "work"])?;
        ensure!(said.contains("verified"), "{said}");
        Ok(())
    }

    /// Runs work on a GPU that was bound anew, where the kernel lets a program have KFD.
    fn work_unless_locked(&mut self) -> Result<()> {
        self.guest.check_bound()?;
        let (exit, stdout, stderr) = self.guest.run(&[ROLES, "work"], LIMIT)?;
        self.locked += u32::from(exit.status != 0 && stderr.contains(LOCKED));
        ensure!(exit.status == 0 || stderr.contains(LOCKED), "{stdout}{stderr}");
        Ok(())
    }

    /// Loads the driver again and runs work, which is no longer locked out.
    fn work_after_a_load(&mut self) -> Result<()> {
        unload(&mut self.guest).context("unload at the end")?;
        self.guest.load_driver().context("load at the end")?;
        self.work().context("work at the end")
    }

    /// Returns a remark about work that the kernel did not let in.
    fn remark(&self) -> String {
        match self.locked {
            0 => String::new(),
            locked => format!("; KFD was locked {locked} times, until the module was loaded again (Linux's)"),
        }
    }

    /// Returns the PCI address of the function that the driver has.
    fn function(&mut self) -> Result<String> {
        let uevent = self.guest.get_file("/sys/class/drm/renderD128/device/uevent")?;
        let uevent = String::from_utf8_lossy(&uevent).into_owned();
        let name = uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
        Ok(name.context("no function is bound")?.to_owned())
    }

    /// Starts an endless kernel.
    fn load_begins(&mut self) -> Result<ProgramId> {
        const BEGUN: &str = "/tmp/spinning";
        self.guest.put_file(BEGUN, 0o644, b"")?;
        let argv = [ROLES, "spin", BEGUN].map(str::to_owned);
        let id = self.guest.spawn(&argv, &[], "/root")?;
        let deadline = Instant::now() + LIMIT;
        while self.guest.get_file(BEGUN)?.is_empty() {
            ensure!(Instant::now() < deadline, "no kernel began");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(id)
    }

    /// Ends the program with the endless kernel.
    fn load_ends(&mut self, id: ProgramId) -> Result<()> {
        match self.guest.kill(id, libc::SIGKILL) {
            // It may have ended by itself.
            Ok(()) | Err(GuestError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.guest.wait(id, LIMIT, &mut |_, _| {})?;
        Ok(())
    }
}

/// Loads and unloads the driver.
fn load(life: &mut Life, times: u32) -> Result<String> {
    for time in 0..times {
        life.guest.load_driver().with_context(|| format!("load {time}"))?;
        life.work().with_context(|| format!("work after load {time}"))?;
        unload(&mut life.guest).with_context(|| format!("unload {time}"))?;
    }
    let errors = life.guest.gpu().map(|gpu| gpu.stats().errors).unwrap_or_default();
    ensure!(errors.is_empty(), "the device counts {errors:?}");
    Ok(format!("{times} of {times} loads and unloads"))
}

/// Unbinds and binds the function.
fn bind(life: &mut Life, times: u32) -> Result<String> {
    back_again(life, times, "unbound and bound", |function| {
        [(format!("{DRIVER}/unbind"), function.to_owned()), (format!("{DRIVER}/bind"), function.to_owned())]
    })
}

/// Takes the function out of the bus, and has the bus look for it.
fn rescan(life: &mut Life, times: u32) -> Result<String> {
    back_again(life, times, "removed and found", |function| {
        let device = format!("/sys/bus/pci/devices/{function}");
        [(format!("{device}/remove"), "1".to_owned()), ("/sys/bus/pci/rescan".to_owned(), "1".to_owned())]
    })
}

/// Takes the function from the driver and gives it back, by two files and the texts that are written there; then does work.
fn back_again(
    life: &mut Life,
    times: u32,
    said: &str,
    files: impl Fn(&str) -> [(String, String); 2],
) -> Result<String> {
    let times = times.div_ceil(2);
    life.guest.load_driver()?;
    life.work()?;
    let files = files(&life.function()?);
    for time in 0..times {
        for (file, text) in &files {
            life.write(file, text).with_context(|| format!("{file}, time {time}"))?;
        }
        life.work_unless_locked().with_context(|| format!("work, time {time}"))?;
    }
    life.work_after_a_load()?;
    Ok(format!("{times} of {times} {said}{}", life.remark()))
}

/// Has the driver reset a GPU under load.
fn recovery(life: &mut Life, times: u32) -> Result<String> {
    let times = times.div_ceil(2);
    life.guest.load_driver()?;
    life.work()?;
    life.succeed(&[ROLES, "debugfs"])?;
    let function = life.function()?;
    // By number, or by address in later kernels.
    let cards = ["0", "1", "128", function.as_str()].map(|card| format!("{DEBUGFS}/{card}"));
    let card = cards.iter().find(|card| life.guest.get_file(&format!("{card}/name")).is_ok());
    let file = format!("{}/amdgpu_gpu_recover", card.context("no file to ask for a reset")?);
    for time in 0..times {
        let load = life.load_begins().with_context(|| format!("load before reset {time}"))?;
        life.guest.get_file(&file).with_context(|| format!("reset {time}"))?;
        life.load_ends(load).with_context(|| format!("end of the load after reset {time}"))?;
        life.work().with_context(|| format!("work after reset {time}"))?;
    }
    let log = life.guest.kernel_log()?;
    let done = log.lines().filter(|line| line.contains("GPU reset(") && line.contains("succeeded")).count();
    ensure!(done >= times as usize, "{done} of {times} resets succeeded\n{log}");
    Ok(format!("{times} of {times} recoveries under load"))
}

/// Suspends the system to idle, as far as its functions' power, with work on the GPU.
fn idle(life: &mut Life, times: u32) -> Result<String> {
    let times = times.div_ceil(2);
    life.guest.load_driver()?;
    life.work()?;
    let rounds = times.div_ceil(SLEEPS);
    for time in 0..rounds {
        let said = life.succeed(&[ROLES, "suspend", "platform"]).with_context(|| format!("sleep {time}"))?;
        ensure!(said.contains("work and memory verified"), "{said}");
    }
    life.work()?;
    Ok(format!("{0} of {0} suspends to idle, with work", rounds * SLEEPS))
}

/// Suspends the system to memory, three times, with work on the GPU.
fn memory(life: &mut Life, _: u32) -> Result<String> {
    life.guest.load_driver()?;
    life.work()?;
    let argv = [ROLES, "suspend", "memory"].map(str::to_owned);
    let id = life.guest.spawn(&argv, &[], "/root")?;
    for time in 0..SLEEPS {
        wake(&mut life.guest, id, LIMIT).with_context(|| format!("sleep {time}"))?;
    }
    let mut said = String::new();
    let exit = life.guest.wait(id, LIMIT, &mut |_, data| said.push_str(&String::from_utf8_lossy(data)))?;
    if exit.status != 0 || !said.contains("3 times, work and memory verified") {
        bail!("{said}");
    }
    life.work()?;
    Ok(format!("{SLEEPS} of {SLEEPS} suspends to memory, with work"))
}
