//! Reports of a GPU's work as plain values: the library of `belfry exec` writes them, a line of JSON for each process, and the binary
//! reads and prints them.

use std::collections::BTreeMap;
use std::time::Duration;

use belfry_device::faults::FaultReport;
use belfry_device::profile::ProfileReport;
use belfry_device::sanitize::SanitizeReport;
use belfry_device::{KeptCounts, Stats};
use serde::{Deserialize, Serialize};

/// Doorbells by the way they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct Doorbells {
    /// Writes that reached the device as accesses.
    pub trapped: u64,
    /// Writes announced to the device, without their value.
    pub woken: u64,
    /// Writes found in the mapped page.
    pub polled: u64,
}

impl Doorbells {
    /// Doorbells that a device has noticed.
    #[must_use]
    pub fn of(stats: &Stats) -> Self {
        Self {
            trapped: stats.doorbells_trapped,
            woken: stats.doorbells_woken,
            polled: stats.doorbells_polled,
        }
    }
}

/// A register without behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unmodelled {
    /// Its name, or its offset.
    pub register: String,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// Result of one process; the numbers are those of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its number.
    pub pid: i32,
    /// Kind of its end.
    pub end: End,
    /// The signal that has ended it, if that is known.
    pub signal: Option<i32>,
    /// True if the counters below were taken at its end; otherwise at its first use of the GPU.
    #[serde(default)]
    pub counted: bool,
    /// Its program.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
    /// Milliseconds to start device and driver.
    pub start_ms: f64,
    /// Milliseconds from then to its end.
    pub program_ms: f64,
    /// Kernel dispatches completed.
    pub dispatches: u64,
    /// Waves run.
    pub waves: u64,
    /// Wave instructions executed.
    pub wave_instructions: u64,
    /// Doorbells by the way they came.
    pub doorbells: Doorbells,
    /// GPU page table walks.
    pub page_walks: u64,
    /// Processor time by kind of thread.
    #[serde(default)]
    pub processor_ms: ProcessorTime,
    /// Most memory that it has had, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Time of compiled code, if it counts (`--costs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeOfProcess>,
    /// Counts of its kept compiled code, if a folder keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_code: Option<KeptCounts>,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Number of the program's errors, by their names.
    pub errors: BTreeMap<String, u64>,
    /// Description of the first error of each name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, String>,
    /// Registers the driver used that have no behaviour.
    pub unmodelled: Vec<Unmodelled>,
    /// Findings in its kernels, if they were checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitizer: Option<SanitizeReport>,
    /// Counts of its kernels on each GPU, if they were profiled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<ProfileReport>,
    /// Effects of a plan of faults, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultsOfProcess>,
    /// The record of its GPU, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordOfProcess>,
}

/// Processor time of a process in milliseconds, by kind of thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// The program's own threads, with what they do in the driver and while they wait.
    pub program: f64,
    /// The part of it in waits of ROCr for signals.
    pub waits: f64,
    /// Threads that execute waves.
    pub workers: f64,
    /// The other threads of driver and device.
    pub device: f64,
}

/// Time of the compiled code of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeOfProcess {
    /// Wave instructions that it has executed, those of handlers that it calls among them.
    pub instructions: u64,
    /// Milliseconds in it, and in those handlers.
    pub ms: f64,
    /// Calls of handlers, and milliseconds in them, by operation.
    pub handlers: BTreeMap<String, (u64, f64)>,
}

/// The line that a process writes about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its start time, as `/proc` has it, which tells it from a later process of the same number.
    pub started: u64,
    /// The report.
    #[serde(flatten)]
    pub process: ProcessReport,
}

/// The record of a process's GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordOfProcess {
    /// Its name in the directory.
    pub file: String,
    /// Turns of the device and calls of the driver.
    pub operations: u64,
    /// Writes of others to memory and doorbells.
    pub inputs: u64,
    /// Events.
    pub events: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// True if the record has an end.
    pub complete: bool,
    /// Reason for ending the record early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Effects of a plan of faults in a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultsOfProcess {
    /// The first strikes, in words.
    pub strikes: Vec<String>,
    /// Strikes of each rule.
    pub struck: BTreeMap<String, u64>,
}

impl FaultsOfProcess {
    /// Effects that a device reports.
    #[must_use]
    pub fn of(FaultReport { strikes, struck, .. }: &FaultReport) -> Self {
        Self {
            strikes: strikes.iter().map(ToString::to_string).collect(),
            struck: struck.iter().map(|(rule, &count)| (rule.name().to_owned(), count)).collect(),
        }
    }
}

/// Kind of a process's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, or it became another program.
    Exited,
    /// A signal has ended it.
    Signalled,
    /// The process has not reported its end: SIGKILL, or a signal that it handled or that came while it could report
    /// nothing.
    Lost,
    /// The process still runs.
    Running,
}

/// A time in milliseconds, as reports have it.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    // The clock is no better than three decimals of a millisecond.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"started":7,"pid":3,"end":"signalled","signal":9,"counted":false,"program":"p","arguments":["a"],"start_ms":1.5,"program_ms":2.0,"dispatches":4,"waves":5,"wave_instructions":6,"doorbells":{"trapped":1,"woken":2,"polled":3},"page_walks":8,"processor_ms":{"program":0.0,"waits":0.0,"workers":0.0,"device":0.0},"interrupts":9,"errors":{"e":1},"reasons":{"e":"why"},"unmodelled":[{"register":"R","reads":1,"writes":2}]}"#;

    #[test]
    fn line_of_a_process_is_read_as_it_was_written() {
        let line: Line = serde_json::from_str(TEXT).unwrap();
        assert_eq!((line.started, line.process.end, line.process.doorbells.woken), (7, End::Signalled, 2));
        assert_eq!(serde_json::to_string(&line).unwrap(), TEXT);
    }

    #[test]
    fn printed_report_has_no_start_time() {
        let Line { process, .. } = serde_json::from_str(TEXT).unwrap();
        assert_eq!(serde_json::to_string(&process).unwrap(), TEXT.replace("\"started\":7,", ""));
    }
}
