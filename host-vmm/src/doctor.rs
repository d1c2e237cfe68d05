//! `belfry doctor`: what is there, what is missing, and the fix for each.

use std::path::Path;
use std::process::{Command, Stdio};

use belfry_device::GpuConfig;
use belfry_embedded::PARTS;
use belfry_guest::Accelerator;
use belfry_guest::qemu::choose_accelerator;
use belfry_image::artifacts::{cached_qemu, system_qemu};
use belfry_image::fetch::{Distribution, KEYRING, find_mirror};
use belfry_image::tools::{E2FSPROGS, PASST, system_mke2fs, system_passt};
use belfry_image::{Cache, Found, Part};

use crate::exec;
use crate::hosted::{self, Around};
use crate::own_machine::{self, Unusable};

/// State of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// There.
    Good,
    /// Not there yet; `belfry image` or `belfry run` gets it.
    Later,
    /// Missing, and needed for guests.
    NoGuest,
    /// Missing, and needed for hosted programs.
    NoHosted,
    /// Belfry's own machine does not run here, or not at a useful speed; QEMU does.
    NoKvm,
    /// Missing, and everything works without it.
    Slower,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Thing that was looked at.
    pub subject: &'static str,
    /// State of the thing.
    pub health: Health,
    /// Result in words.
    pub text: String,
    /// Steps that would mend it.
    pub fix: Option<String>,
}

/// Everything that was looked at.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// In the order it was looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns true if `run --mode qemu` has all that it needs, or can get it.
    #[must_use]
    pub fn guest_possible(&self) -> bool {
        self.findings.iter().all(|finding| finding.health != Health::NoGuest)
    }

    /// Returns true if `run --mode kvm` runs a stock kernel at a useful speed.
    #[must_use]
    pub fn kvm_useful(&self) -> bool {
        self.findings.iter().all(|finding| finding.health != Health::NoKvm)
    }

    /// Returns true if `run --mode hosted` works.
    #[must_use]
    pub fn hosted_possible(&self) -> bool {
        self.findings.iter().all(|finding| finding.health != Health::NoHosted)
    }

    fn good(&mut self, subject: &'static str, text: impl Into<String>) {
        self.findings.push(Finding { subject, health: Health::Good, text: text.into(), fix: None });
    }

    fn bad(
        &mut self,
        subject: &'static str,
        health: Health,
        text: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.findings.push(Finding { subject, health, text: text.into(), fix: Some(fix.into()) });
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for finding in &self.findings {
            let mark = match finding.health {
                Health::Good => "ok     ",
                Health::Later => "later  ",
                Health::NoGuest | Health::NoHosted => "MISSING",
                Health::NoKvm | Health::Slower => "note   ",
            };
            writeln!(f, "{mark}  {:<14} {}", finding.subject, finding.text)?;
            if let Some(fix) = &finding.fix {
                writeln!(f, "{:25}-> {fix}", "")?;
            }
        }
        let answer = |possible| if possible { "works" } else { "does not work" };
        writeln!(f)?;
        let kvm = match (self.guest_possible(), self.kvm_useful()) {
            (true, false) => "is of no use here",
            (possible, _) => answer(possible),
        };
        writeln!(f, "run --mode kvm     {kvm}")?;
        writeln!(f, "run --mode qemu    {}", answer(self.guest_possible()))?;
        write!(f, "run --mode hosted  {}", answer(self.hosted_possible()))
    }
}

/// Looks at everything, for a GPU of this chip.
#[must_use]
pub fn examine(gpu: GpuConfig) -> Report {
    let mut report = Report::default();
    hosted_mode(&mut report, gpu);
    unmodified_programs(&mut report);
    let cache = cache(&mut report);
    let complete = cache.as_ref().is_some_and(|cache| {
        ["kernel", "headers"].iter().all(|artifact| cache.find(artifact).is_some())
            && (system_qemu().is_some() || cached_qemu(cache).is_some())
    });
    if let Some(cache) = &cache {
        own_machine(&mut report, cache);
    }
    packages(&mut report, complete);
    embedded(&mut report);
    tools(&mut report);
    if let Some(cache) = &cache {
        artifacts(&mut report, cache);
        disks(&mut report, cache);
        network(&mut report, cache);
    }
    report
}

fn hosted_mode(report: &mut Report, gpu: GpuConfig) {
    let config = GpuConfig { workers: 1, ..gpu };
    let (chip, xccs, cus) = (config.chip, config.xccs, config.cus);
    let cores = if xccs > 1 { format!(", {xccs} XCCs") } else { String::new() };
    let vram = config.vram_size >> 20;
    report.good("chip", format!("{chip} ({}){cores}, {cus} CUs, {vram} MiB of VRAM", chip.product));
    let arguments = ["1024".to_owned()];
    let limit = std::time::Duration::from_secs(60);
    let mut text = Vec::new();
    match hosted::run((&config.into(), Around::default()), "vector-add", &arguments, limit, &mut |_, data| {
        text.extend_from_slice(data);
    }) {
        Ok(outcome) if outcome.exit_status == 0 => {
            report.good("hosted GPU", "a small vector-add ran and is right");
        }
        Ok(_) => report.bad(
            "hosted GPU",
            Health::NoHosted,
            String::from_utf8_lossy(&text).trim().to_owned(),
            "this is a defect of belfry: please report it with the line above",
        ),
        Err(error) => report.bad(
            "hosted GPU",
            Health::NoHosted,
            error.to_string(),
            "it needs x86-64 Linux, memfd_create and a few hundred MB of address space; look at ulimit -v",
        ),
    }
}

/// Checks the features of this machine that `exec` uses.
fn unmodified_programs(report: &mut Report) {
    match exec::namespaces() {
        Ok(()) => report.good("namespaces", "exec --root and --namespace work"),
        Err(error) => report.bad(
            "namespaces",
            Health::Slower,
            format!("{error}: exec works without --root and --namespace only"),
            "allow user namespaces: kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0, or a container that may unshare",
        ),
    }
    if exec::userfault() {
        report.good("userfaultfd", "exec is told of doorbells and of memory that goes away");
    } else {
        report.bad(
            "userfaultfd",
            Health::Slower,
            "not allowed: exec looks at doorbells, every 4 ms at the least",
            "allow the system call userfaultfd: containers' seccomp profiles often forbid it",
        );
    }
}

fn cache(report: &mut Report) -> Option<Cache> {
    match Cache::open() {
        Ok(cache) => {
            report.good("cache", cache.root().display().to_string());
            for shared in cache.shared() {
                report.good("shared cache", format!("{}, which is only read", shared.display()));
            }
            match free_bytes(cache.root()) {
                Some(free) if free < 2 << 30 => report.bad(
                    "disk space",
                    Health::Slower,
                    format!("{} MB free beside the cache; a guest's parts take 1.5 GB", free >> 20),
                    "free some space, or set BELFRY_CACHE to a directory on another disk",
                ),
                Some(free) => report.good("disk space", format!("{} GB free", free >> 30)),
                None => {}
            }
            Some(cache)
        }
        Err(error) => {
            let fix = "set BELFRY_CACHE to a directory you can write to";
            report.bad("cache", Health::NoGuest, error.to_string(), fix);
            None
        }
    }
}

fn own_machine(report: &mut Report, cache: &Cache) {
    match own_machine::usable(cache) {
        Ok(speed) => report.good("own machine", speed.to_string()),
        Err(error @ Unusable::NoMachine(_)) => {
            let fix = "works as it is, in QEMU; with hardware virtualisation, join the group kvm: usermod -aG kvm $USER";
            report.bad("own machine", Health::NoKvm, error.to_string(), fix);
        }
        Err(error @ Unusable::Slow(_)) => {
            let fix = "works as it is, in QEMU; only the bare-metal guest is small enough for this /dev/kvm";
            report.bad("own machine", Health::NoKvm, error.to_string(), fix);
        }
    }
}

fn packages(report: &mut Report, complete: bool) {
    // Once everything is cached, none of this is used again.
    let health = if complete { Health::Slower } else { Health::NoGuest };
    for (program, package) in [("apt-get", "apt"), ("dpkg-deb", "dpkg")] {
        if runs(program) {
            report.good("packages", format!("{program} is there"));
        } else {
            let fix = "guests are made of Debian packages: use Debian or a system with apt, or hosted mode";
            report.bad("packages", health, format!("{program} (package {package}) is missing"), fix);
        }
    }
    if Path::new(KEYRING).exists() {
        report.good("archive keys", KEYRING);
    } else {
        report.bad(
            "archive keys",
            health,
            "Debian's archive keys are missing, and packages are never taken unverified",
            "apt install debian-archive-keyring",
        );
    }
    match find_mirror(Distribution::Debian) {
        Ok(mirror) => report.good("mirror", format!("{mirror} (from this machine's apt configuration)")),
        Err(error) => {
            let fix = "set BELFRY_DEBIAN_MIRROR to the URI of a Debian archive";
            report.bad("mirror", health, error.to_string(), fix);
        }
    }
}

fn tools(report: &mut Report) {
    for (program, fix) in [
        ("gcc", "apt install gcc libc6-dev"),
        ("ld", "apt install binutils"),
        ("objdump", "apt install binutils"),
    ] {
        if runs(program) {
            report.good("tools", format!("{program} is there"));
        } else {
            report.bad(
                "tools",
                Health::NoGuest,
                format!("{program} is missing; the driver is built for the guest's kernel with it"),
                fix,
            );
        }
    }
}

/// Checks the parts that this binary carries for guests.
fn embedded(report: &mut Report) {
    for (what, part, health) in [
        ("the guest's driver", PARTS.driver.core, Health::NoGuest),
        ("the bare-metal guest", PARTS.bare_metal, Health::NoKvm),
    ] {
        match part {
            Part::Present(_) => report.good("in belfry", what),
            Part::Absent(why) => report.bad(
                "in belfry",
                health,
                format!("{what} is not: {why}"),
                "see to that and build belfry again, in a checkout after `touch host-vmm/embedded/build.rs`",
            ),
        }
    }
}

/// Checks for `mke2fs`, which makes the disks of guests with a root file system.
fn disks(report: &mut Report, cache: &Cache) {
    match system_mke2fs() {
        Some(program) => report.good("mke2fs", format!("{}, for run --image and --root", program.display())),
        None if cache.find(E2FSPROGS).is_some() => {
            report.good("mke2fs", "in the cache, for run --image and --root");
        }
        None => {
            let fix = "run --image and run --root fetch it; or: apt install e2fsprogs";
            report.bad("mke2fs", Health::Later, "not here; disks for run --image and --root need it", fix);
        }
    }
}

/// Checks for `passt`, which carries the network of guests on Belfry's own machine.
fn network(report: &mut Report, cache: &Cache) {
    match system_passt() {
        Some(program) => report.good("passt", format!("{}, for --net user on /dev/kvm", program.display())),
        None if cache.find(PASST).is_some() => {
            report.good("passt", "in the cache, for --net user on /dev/kvm");
        }
        None => {
            let fix = "run --net user fetches it; or: apt install passt";
            report.bad("passt", Health::Later, "not here; --net user on /dev/kvm needs it", fix);
        }
    }
}

fn artifacts(report: &mut Report, cache: &Cache) {
    let later = "belfry image (or the next belfry run) fetches it";
    let qemu = match (system_qemu(), cached_qemu(cache)) {
        (Some(qemu), _) => {
            report.good("QEMU", format!("{} of this system", qemu.version));
            Some(qemu)
        }
        (None, Some(qemu)) => {
            report.good(
                "QEMU",
                format!("{} in the cache; the system's has no vfio-user or is absent", qemu.version),
            );
            Some(qemu)
        }
        (None, None) => {
            report.bad(
                "QEMU",
                Health::Later,
                "the system's has no vfio-user (10.1 or newer) or is absent",
                later,
            );
            None
        }
    };
    for (subject, artifact) in [("kernel", "kernel"), ("kernel headers", "headers")] {
        match cache.find(artifact) {
            Some(Found { manifest, .. }) => {
                let first = manifest.packages.first().map(|package| &package.version);
                let version = manifest.facts.get("release").or(first).map_or("", String::as_str);
                report.good(subject, format!("{version} in the cache"));
            }
            None => report.bad(subject, Health::Later, "not in the cache", later),
        }
    }
    if let Some(qemu) = qemu {
        match choose_accelerator(cache, &qemu) {
            Accelerator::Kvm => report.good("QEMU with KVM", "runs code at full speed"),
            Accelerator::Tcg => report.bad(
                "QEMU with KVM",
                Health::Slower,
                "not usable here; guests in QEMU run translated",
                "works as it is",
            ),
        }
    }
}

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_says_which_mode_works() {
        let mut report = Report::default();
        report.good("a", "fine");
        report.bad("b", Health::Slower, "slow", "faster");
        report.bad("c", Health::Later, "soon", "wait");
        assert!(report.guest_possible() && report.hosted_possible());
        assert!(report.kvm_useful() && report.to_string().contains("run --mode kvm     works"));
        report.bad("own machine", Health::NoKvm, "slow", "live with it");
        assert!(!report.kvm_useful() && report.guest_possible());
        assert!(report.to_string().contains("run --mode kvm     is of no use here"));
        report.bad("d", Health::NoGuest, "gone", "get it");
        assert!(!report.guest_possible() && report.hosted_possible());
        let text = report.to_string();
        for part in
            ["MISSING  d", "-> get it", "run --mode qemu    does not work", "run --mode hosted  works"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
