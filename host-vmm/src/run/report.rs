//! The results of a program: the summary and its JSON.

use std::collections::BTreeMap;

use belfry_device::faults::FaultReport;
use belfry_device::{KeptCounts, Stats};
use belfry_guest::Phases;
pub(super) use belfry_report::milliseconds;
pub use belfry_report::{Doorbells, Unmodelled};
use serde::Serialize;

use super::{Driver, Mode};

/// Results of a run; `--json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Mode in which the program ran: anything but [`Mode::Auto`].
    pub mode: Mode,
    /// `kvm` or `tcg`, if there was a guest.
    pub accelerator: Option<String>,
    /// The guest's kernel, if there was one.
    pub kernel: Option<String>,
    /// The image or path of the guest's root file system, if it had one.
    pub root: Option<String>,
    /// Driver that has taken the GPU of a guest, if there was one that a host chooses.
    pub driver: Option<Driver>,
    /// The program's name or path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its exit status; 128 + the signal's number for a killed program.
    pub exit_status: i32,
    /// Milliseconds from the start to a machine with a device.
    pub boot_ms: f64,
    /// Milliseconds to load the driver.
    pub driver_ms: f64,
    /// Milliseconds the program took.
    pub program_ms: f64,
    /// Times at which the guest reached its phases, if there was one.
    pub phases: Option<BootPhases>,
    /// Kernel dispatches completed.
    pub dispatches: u64,
    /// Waves run.
    pub waves: u64,
    /// Wave instructions executed.
    pub wave_instructions: u64,
    /// Doorbells.
    pub doorbells: Doorbells,
    /// GPU page table walks.
    pub page_walks: u64,
    /// Counts of kept compiled code, if a folder keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_code: Option<KeptCounts>,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Number of the guest's errors, by their names.
    pub errors: BTreeMap<String, u64>,
    /// Description of the first error of each name.
    pub reasons: BTreeMap<String, String>,
    /// Faults that were planned and have struck: the first ones, each with its place.
    pub faults: Vec<String>,
    /// Strikes of each rule.
    pub struck: BTreeMap<String, u64>,
    /// Registers the driver used that the device stores without any behaviour, most used first.
    pub unmodelled: Vec<Unmodelled>,
}

/// Milliseconds from the start of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BootPhases {
    /// To the kernel's first instruction; `None` for QEMU, which does not report it.
    pub kernel_ms: Option<f64>,
    /// To the guest's init; bare-metal guests have none.
    pub init_ms: Option<f64>,
    /// To the moment at which the driver is ready.
    pub driver_ms: Option<f64>,
    /// To the first completed dispatch.
    pub dispatch_ms: Option<f64>,
}

impl From<Phases> for BootPhases {
    fn from(phases: Phases) -> Self {
        Self {
            kernel_ms: phases.entry.map(milliseconds),
            init_ms: Some(milliseconds(phases.init)),
            driver_ms: phases.driver.map(milliseconds),
            dispatch_ms: phases.dispatch.map(milliseconds),
        }
    }
}

/// Makes a report of the device's counts, and nothing else.
pub(super) fn from_device(stats: &Stats, unmodelled: Vec<(String, u64, u64)>) -> RunReport {
    RunReport {
        mode: Mode::Auto,
        accelerator: None,
        kernel: None,
        root: None,
        driver: None,
        program: String::new(),
        arguments: Vec::new(),
        exit_status: 0,
        boot_ms: 0.0,
        driver_ms: 0.0,
        program_ms: 0.0,
        phases: None,
        dispatches: stats.dispatches,
        waves: stats.waves,
        wave_instructions: stats.wave_instructions,
        doorbells: Doorbells::of(stats),
        page_walks: stats.page_walks,
        kept_code: stats.kept_code,
        interrupts: stats.interrupts,
        errors: stats.errors.iter().map(|(error, &count)| (error.name().to_owned(), count)).collect(),
        reasons: stats.reasons.iter().map(|(error, text)| (error.name().to_owned(), text.clone())).collect(),
        faults: Vec::new(),
        struck: BTreeMap::new(),
        unmodelled: unmodelled
            .into_iter()
            .map(|(register, reads, writes)| Unmodelled { register, reads, writes })
            .collect(),
    }
}

/// Faults that the summary shows one by one.
const SHOWN: usize = 20;

impl RunReport {
    /// Adds the effects of a plan of faults.
    #[must_use]
    pub(super) fn with_faults(self, report: &FaultReport) -> Self {
        Self {
            faults: report.strikes.iter().map(ToString::to_string).collect(),
            struck: report.struck.iter().map(|(rule, &count)| (rule.name().to_owned(), count)).collect(),
            ..self
        }
    }

    /// Lists the refusals of the device and the registers without a model, as `run --unmodelled` prints them.
    #[must_use]
    pub fn shortcomings(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::from("refused or failed, by name:\n");
        for (name, count) in &self.errors {
            let _ = writeln!(text, "  {count:>8}  {name}");
        }
        text.push_str("registers without behaviour, most used first (reads, writes):\n");
        for Unmodelled { register, reads, writes } in &self.unmodelled {
            let _ = writeln!(text, "  {reads:>8} {writes:>8}  {register}");
        }
        text
    }
}

impl std::fmt::Display for RunReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match (&self.kernel, &self.accelerator) {
            (Some(kernel), Some(accelerator)) => format!("guest {kernel}, {accelerator}"),
            _ => "hosted".to_owned(),
        };
        writeln!(f, "{} ({place}): exit status {}", self.program, self.exit_status)?;
        writeln!(
            f,
            "  time         boot {:.0} ms, driver {:.0} ms, program {:.0} ms",
            self.boot_ms, self.driver_ms, self.program_ms
        )?;
        if let Some(BootPhases { kernel_ms, init_ms, driver_ms, dispatch_ms }) = self.phases {
            let steps =
                [("kernel", kernel_ms), ("init", init_ms), ("driver", driver_ms), ("dispatch", dispatch_ms)];
            let steps: Vec<String> =
                steps.iter().filter_map(|(name, ms)| ms.map(|ms| format!("{name} at {ms:.0} ms"))).collect();
            writeln!(f, "  reached      {}", steps.join(", "))?;
        }
        writeln!(
            f,
            "  work         {} dispatches, {} waves, {} wave instructions",
            self.dispatches, self.waves, self.wave_instructions
        )?;
        if self.driver == Some(Driver::Stock) {
            writeln!(f, "  driver       the kernel's own amdgpu")?;
        }
        let Doorbells { trapped, woken, polled } = self.doorbells;
        writeln!(f, "  doorbells    {trapped} trapped, {woken} woken, {polled} polled")?;
        write!(f, "  page walks   {}\n  interrupts   {}", self.page_walks, self.interrupts)?;
        if let Some(counts) = &self.kept_code {
            write!(f, "\n  code         {counts}")?;
        }
        for (name, count) in &self.errors {
            let reason = self.reasons.get(name).map_or("", String::as_str);
            write!(f, "\n  errors       {count} x {name}: {reason}")?;
        }
        for strike in self.faults.iter().take(SHOWN) {
            write!(f, "\n  fault        {strike}")?;
        }
        let all: u64 = self.struck.values().sum();
        if all > SHOWN as u64 {
            let each: Vec<String> =
                self.struck.iter().map(|(rule, count)| format!("{count} x {rule}")).collect();
            write!(f, "\n  faults       {all} in all: {}", each.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_in_the_summary_with_its_reason() {
        let error = belfry_device::GuestError::QueueStopped;
        let mut stats = Stats::default();
        stats.errors.insert(error, 3);
        stats.reasons.insert(error, "doorbell=0x7 illegal instruction".to_owned());
        let report = from_device(&stats, Vec::new());
        let line = "\n  errors       3 x queue stopped: doorbell=0x7 illegal instruction";
        assert!(report.to_string().ends_with(line), "{report}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["reasons"]["queue stopped"], "doorbell=0x7 illegal instruction");
    }

    #[test]
    fn report_is_one_object_with_the_promised_names() {
        let report = RunReport { program: "x".into(), ..from_device(&Stats::default(), Vec::new()) };
        let json = serde_json::to_value(&report).unwrap();
        for name in [
            "mode",
            "program",
            "exit_status",
            "boot_ms",
            "driver_ms",
            "program_ms",
            "dispatches",
            "waves",
            "wave_instructions",
            "doorbells",
            "interrupts",
        ] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert_eq!(serde_json::to_value(Mode::Qemu).unwrap(), "qemu");
    }
}
