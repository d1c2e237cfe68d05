//! Contents of a trace.

use std::fmt;

use belfry_device::trace::{Contents, Kind, Record};
use serde::{Deserialize, Serialize};

use crate::name::demangled;

/// Contents of a trace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trace {
    /// Events by time.
    pub records: Vec<Record>,
    /// Slots of the ring whose events were overwritten by later events.
    pub dropped: u64,
    /// Processes of the GPUs, by the number that events have; empty if all GPUs are of one machine.
    pub gpus: Vec<GpuOf>,
}

/// The process that a GPU was made in.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct GpuOf {
    /// Its identifier.
    pub process: u32,
    /// Name of the process.
    pub name: String,
    /// Its number among those of the process, if that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
}

/// `NAME (PID)`, and `NAME (PID), GPU NUMBER` if the process has several.
impl fmt::Display for GpuOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.process)?;
        self.number.map_or(Ok(()), |number| write!(f, ", GPU {number}"))
    }
}

impl From<Contents> for Trace {
    fn from(contents: Contents) -> Self {
        let mut records = contents.records;
        for record in &mut records {
            if record.kind == Kind::DispatchStart && !record.text.is_empty() {
                record.text = demangled(&record.text);
            }
        }
        records.sort_by_key(|record| record.time);
        Self { records, dropped: contents.dropped, gpus: Vec::new() }
    }
}

impl Trace {
    /// Returns true if there are several GPUs of one machine, which only have numbers.
    pub(crate) fn has_numbered_gpus(&self) -> bool {
        self.gpus.is_empty() && self.records.iter().any(|record| record.owner.gpu > 0)
    }

    /// Makes one trace of the rings of several processes, each with GPUs of its own, by the clock that they share.
    #[must_use]
    pub fn of_processes(rings: Vec<Contents>) -> Self {
        let first = rings.iter().map(|ring| ring.begins).filter(|&begins| begins != 0).min().unwrap_or(0);
        let mut whole = Self::default();
        let mut rings = rings;
        rings.sort_by_key(|ring| (ring.begins, ring.process));
        for mut ring in rings {
            let later = ring.begins.saturating_sub(first);
            let last = ring.records.iter().map(|record| record.owner.gpu).max().unwrap_or(0);
            let base = whole.gpus.len();
            // Numbers of GPUs have 16 bits.
            let Some(behind) = u16::try_from(base).ok().and_then(|base| base.checked_add(last)) else {
                break;
            };
            let base = behind - last;
            let (process, name) = (ring.process, std::mem::take(&mut ring.name));
            whole.gpus.extend((0..=last).map(|gpu| {
                let number = (last > 0).then_some(gpu);
                GpuOf { process, name: name.clone(), number }
            }));
            let one = Self::from(ring);
            whole.dropped += one.dropped;
            whole.records.extend(one.records.into_iter().map(|mut record| {
                record.owner.gpu += base;
                record.time = record.time.saturating_add(later);
                record
            }));
        }
        whole.records.sort_by_key(|record| record.time);
        whole
    }
}

/// Reason why bytes are no trace.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoTrace {
    /// Another program wrote them.
    #[error("they are no trace of belfry's: {0}")]
    Foreign(String),
    /// They end too early, or are damaged.
    #[error("they are truncated or damaged: {0}")]
    Damaged(String),
}
