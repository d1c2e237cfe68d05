//! One plan after the other in a guest. The driver is loaded for each plan. If a plan has left the guest without a
//! working driver, the guest is booted anew; on Belfry's own machine it goes on from a snapshot of the first guest,
//! taken after its boot.
//!
//! Time is the guest's, and cannot be made to pass faster: a ten-second wait of a driver takes ten seconds.

use std::time::{Duration, Instant};

use belfry_device::GpuConfig;
use belfry_device::faults::{FaultReport, Plan, Rule};
use belfry_embedded::PARTS;
use belfry_examples::WRONG_RESULT;
use belfry_guest::qemu::choose_accelerator;
use belfry_guest::{Guest, GuestConfig, GuestError, KvmConfig, MachineConfig, QemuConfig, Stream};
use belfry_image::guest::EXAMPLES;
use belfry_image::{Cache, CacheError, Freshness, GuestImage, ImageError, Progress, artifacts};
use belfry_machine::snapshot::{Saver, Snapshot};

use super::verdict::{Ending, Verdict};
use crate::output::note;
use crate::run::ENVIRONMENT;
use crate::trial::Finding;

/// Time limit for the program's resources to be given back.
const SETTLES: Duration = Duration::from_secs(10);
/// Time limit for the driver to let go of a killed program: requests to a scheduler that hangs end by their timeouts.
const LETS_GO: Duration = Duration::from_secs(60);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(50);
/// Beginnings of the kernel's lines about mistakes in it or in a driver, apart from those after which it panics.
const COMPLAINTS: [&str; 7] = [
    "BUG:",
    "WARNING:",
    "Oops",
    "UBSAN:",
    "general protection fault",
    "refcount_t:",
    "blocked for more than",
];
/// Bytes that are kept of a program's output.
const KEPT: usize = 2000;

/// Machine that guests run on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Machine {
    /// QEMU, with the GPU over vfio-user.
    Qemu,
    /// Belfry's own machine.
    Kvm,
}

/// Reason for having no guest.
#[derive(Debug, thiserror::Error)]
pub enum InGuestError {
    /// Its parts are not there.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Guests of one kind, one after the other.
pub(super) struct InGuest {
    config: GuestConfig,
    cache: Cache,
    image: GuestImage,
    program: Vec<String>,
    limit: Duration,
    guest: Option<Guest>,
    /// The first guest as it had booted, without a driver; only on Belfry's own machine.
    booted: Option<Snapshot>,
    /// True if the guest has gone on from that snapshot.
    resumed: bool,
    /// Number of lines of the kernel's log that were read.
    read: usize,
}

/// Fetches and builds the parts of guests.
///
/// # Errors
///
/// Parts that are not available.
pub fn prepare(machine: Machine, progress: &Progress) -> Result<(), InGuestError> {
    parts(machine, &Cache::open()?, progress).map(|_| ())
}

/// Returns the parts of guests, and the machine that boots them.
fn parts(
    machine: Machine,
    cache: &Cache,
    progress: &Progress,
) -> Result<(GuestImage, MachineConfig), InGuestError> {
    let image = belfry_image::prepare(cache, &PARTS, Freshness::Cached, progress)?;
    let machine = match machine {
        Machine::Kvm => MachineConfig::Kvm(KvmConfig::default()),
        Machine::Qemu => {
            let qemu = artifacts::qemu(cache, Freshness::Cached, progress).map_err(ImageError::from)?;
            let accelerator = choose_accelerator(cache, &qemu);
            MachineConfig::Qemu(QemuConfig { program: Some(qemu), accelerator, ..QemuConfig::default() })
        }
    };
    Ok((image, machine))
}

/// End of a program in a guest.
enum End {
    Status(i32, String),
    /// The program did not end, and was killed.
    Killed,
}

impl InGuest {
    /// Prepares guests with a GPU, for a program and its arguments, with this time limit for each run.
    pub(super) fn new(
        machine: Machine,
        gpu: &GpuConfig,
        (program, limit): (&[String], Duration),
    ) -> Result<Self, InGuestError> {
        let cache = Cache::open()?;
        let (image, machine) = parts(machine, &cache, &Progress::new())?;
        // Only a device that begins with a plan can be given another plan later.
        let gpu = GpuConfig { faults: Plan::counting(), ..gpu.clone() };
        let config = GuestConfig { machine, gpus: vec![gpu], ..GuestConfig::default() };
        let program = [EXAMPLES.to_owned()].iter().chain(program).cloned().collect();
        Ok(Self { config, cache, image, program, limit, guest: None, booted: None, resumed: false, read: 0 })
    }

    /// Runs the program under a plan; returns the verdict.
    pub(super) fn attempt(&mut self, plan: &Plan) -> Verdict {
        let mut verdict = Verdict::default();
        let ended = self.booted().and_then(|mut guest| {
            verdict.resumed = self.resumed;
            let ended = self.in_guest(&mut guest, plan, &mut verdict);
            // A guest with an unexpected failure is not used for the next plan.
            if matches!(ended, Ok(true)) && verdict.findings.is_empty() {
                self.guest = Some(guest);
            }
            ended.map(|_| ())
        });
        if let Err(error) = ended {
            verdict.findings.push(match error {
                GuestError::Panic { line, during, .. } => Finding::Kernel(format!("{line}, while {during}")),
                error => Finding::Died(error.to_string()),
            });
        }
        verdict
    }

    /// Returns the guest of the last plan, or another one.
    fn booted(&mut self) -> Result<Guest, GuestError> {
        if let Some(guest) = self.guest.take() {
            return Ok(guest);
        }
        let mut guest = self.another()?;
        // Complaints of the kernel about the machine do not belong to a plan.
        self.read = guest.kernel_log()?.lines().count();
        Ok(guest)
    }

    /// Returns a guest that has just booted.
    fn another(&mut self) -> Result<Guest, GuestError> {
        if let (Some(snapshot), Some(gpu)) = (&self.booted, self.config.gpus.first()) {
            self.resumed = true;
            return Guest::resume(snapshot, gpu.clone(), &self.cache).map(|(guest, _)| guest);
        }
        let guest = Guest::boot(&self.image, &self.config, &self.cache)?;
        if let Some(saver) = guest.saver() {
            guest.keep(None);
            // If this guest cannot be kept, the next ones boot, too.
            match kept(&saver, &self.cache) {
                Ok(snapshot) => self.booted = Some(snapshot),
                Err(error) => {
                    note!("belfry torture: each guest boots anew, as the first one is not kept: {error}");
                }
            }
        }
        Ok(guest)
    }

    /// Runs the program; returns true if the guest can be used for another plan.
    fn in_guest(
        &mut self,
        guest: &mut Guest,
        plan: &Plan,
        verdict: &mut Verdict,
    ) -> Result<bool, GuestError> {
        let faults = guest.gpu().map(|gpu| gpu.faults().clone()).unwrap_or_default();
        faults.begin(plan);
        // A driver that cannot start its device is loaded all the same, and has no device.
        let loaded = guest.load_driver().and_then(|_| held(guest));
        let before = match loaded {
            Ok(before) => before,
            Err(GuestError::Refused { text, .. }) => {
                faults.end();
                verdict.note(&faults.report());
                verdict.ending = Ending::Error(format!("the driver does not take the device: {text}"));
                self.listen(guest, verdict)?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        verdict.loading = faults.report().met;
        let end = self.run(guest)?;
        faults.end();
        let report = faults.report();
        verdict.note(&report);
        let lasts = lasts(&report);
        match end {
            End::Status(0, _) => {}
            End::Status(status, text) => verdict.failed(text, status == i32::from(WRONG_RESULT), &report),
            End::Killed => {
                verdict.ending = Ending::Error("the program waits, and was killed".to_owned());
            }
        }
        if !lasts {
            self.works_again(guest, verdict)?;
        }
        if !lasts && verdict.findings.is_empty() {
            let now = settled(guest, &before)?;
            if now.iter().zip(&before).any(|(now, before)| now > before) && !verdict.reloaded {
                verdict.findings.push(Finding::Leak(format!("VRAM, GTT, pins: {before:?}, now {now:?}")));
            }
        }
        if let Some(why) = unload(guest)? {
            verdict.findings.push(Finding::Broken(format!("the driver cannot be unloaded: {why}")));
        }
        self.listen(guest, verdict)?;
        Ok(!lasts)
    }

    /// Runs the program again, now that no fault strikes any more: with the present driver, or after loading the
    /// driver again.
    fn works_again(&self, guest: &mut Guest, verdict: &mut Verdict) -> Result<(), GuestError> {
        let told = |end| match end {
            End::Status(0, _) => None,
            End::Status(_, text) => Some(text),
            End::Killed => Some("the program waits for ever".to_owned()),
        };
        let Some(first) = told(self.run(guest)?) else { return Ok(()) };
        let loaded = match unload(guest)? {
            Some(why) => Some(why),
            None => refused(guest.load_driver())?,
        };
        let again = match loaded {
            Some(why) => Some(why),
            None => told(self.run(guest)?),
        };
        verdict.reloaded = again.is_none();
        if let Some(again) = again {
            verdict.findings.push(Finding::Broken(format!("{first}; with a new driver: {again}")));
        }
        Ok(())
    }

    fn run(&self, guest: &mut Guest) -> Result<End, GuestError> {
        let id = guest.spawn(&self.program, &ENVIRONMENT.map(str::to_owned), "/root")?;
        let mut text = Vec::new();
        let mut keep = |stream, data: &[u8]| {
            if stream == Stream::Stderr {
                text.extend_from_slice(&data[..data.len().min(KEPT - text.len().min(KEPT))]);
            }
        };
        match guest.wait(id, self.limit, &mut keep) {
            Err(GuestError::Timeout { .. }) => {
                guest.kill(id, rustix::process::Signal::KILL.as_raw())?;
                // A program that cannot be killed is a finding: the error of this wait.
                guest.wait(id, self.limit, &mut keep)?;
                Ok(End::Killed)
            }
            exit => {
                let status = exit?.status;
                Ok(End::Status(status, String::from_utf8_lossy(&text).trim().to_owned()))
            }
        }
    }

    /// Looks for complaints in the lines that the kernel has written since the last plan.
    fn listen(&mut self, guest: &mut Guest, verdict: &mut Verdict) -> Result<(), GuestError> {
        let log = guest.kernel_log()?;
        let lines: Vec<&str> = log.lines().collect();
        // After a new boot the log is shorter.
        let new = lines.get(self.read..).unwrap_or(&lines);
        self.read = lines.len();
        let complaint = new.iter().find(|line| COMPLAINTS.iter().any(|begin| line.contains(begin)));
        verdict.findings.extend(complaint.map(|line| Finding::Kernel((*line).to_owned())));
        Ok(())
    }
}

/// Saves the machine as it is now, in a file that is gone once no machine uses it, however this process ends.
fn kept(saver: &Saver, cache: &Cache) -> anyhow::Result<Snapshot> {
    let folder = tempfile::tempdir_in(cache.root())?;
    let file = folder.path().join("booted");
    saver.save(&file)?;
    Ok(Snapshot::open(&file)?)
}

/// Returns the guest's text if it refuses something; other errors are those of the guest itself.
fn refused<T>(result: Result<T, GuestError>) -> Result<Option<String>, GuestError> {
    match result {
        Ok(_) => Ok(None),
        Err(GuestError::Refused { text, .. }) => Ok(Some(text)),
        Err(error) => Err(error),
    }
}

/// Unloads the driver, as soon as no program has it open any more; returns the reason if that fails.
fn unload(guest: &mut Guest) -> Result<Option<String>, GuestError> {
    let until = Instant::now() + LETS_GO;
    loop {
        match refused(guest.unload_driver())? {
            Some(_) if Instant::now() < until => std::thread::sleep(LOOK),
            ended => return Ok(ended),
        }
    }
}

/// Returns true if the effects of a plan outlast it.
fn lasts(report: &FaultReport) -> bool {
    [Rule::Removal, Rule::RegisterStuck].iter().any(|rule| report.struck.contains_key(rule))
}

/// Returns the bytes of VRAM and of system memory that the driver holds, and the number of pinned pages.
fn held(guest: &mut Guest) -> Result<[i64; 3], GuestError> {
    let mut number = |name: &str| -> Result<i64, GuestError> {
        let path = format!("/sys/class/drm/card0/device/{name}");
        let text = guest.get_file(&path)?;
        Ok(String::from_utf8_lossy(&text).trim().parse().unwrap_or(0))
    };
    let (vram, gtt) = (number("mem_info_vram_used")?, number("mem_info_gtt_used")?);
    let text = guest.get_file("/proc/vmstat")?;
    let text = String::from_utf8_lossy(&text);
    let figure = |name: &str| -> i64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|figure| figure.parse().ok()).unwrap_or(0)
    };
    Ok([vram, gtt, figure("nr_foll_pin_acquired") - figure("nr_foll_pin_released")])
}

/// Checks until no more is held than before, or until the time limit; returns what is held at last.
fn settled(guest: &mut Guest, before: &[i64; 3]) -> Result<[i64; 3], GuestError> {
    let until = Instant::now() + SETTLES;
    loop {
        let now = held(guest)?;
        if now.iter().zip(before).all(|(now, before)| now <= before) || Instant::now() >= until {
            return Ok(now);
        }
        std::thread::sleep(LOOK);
    }
}
