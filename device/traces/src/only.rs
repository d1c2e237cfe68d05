//! `--trace-only`: the choice of events that are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use belfry_device::trace::Kind;

use crate::flow::Flows;
use crate::name::kernel;
use crate::trace::Trace;

/// Properties that events must have; an empty list allows all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Only {
    processes: Vec<u64>,
    queues: Vec<u64>,
    kernels: Vec<String>,
    engines: Vec<String>,
}

/// Reasons why a text is no choice of events.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OnlyError {
    /// The value has to be a number.
    #[error("{0} is no number")]
    Number(String),
    /// The part has another form.
    #[error("{0}: expected process=PASID, queue=DOORBELL, kernel=NAME or engine=NAME")]
    Form(String),
}

/// `process=PASID`, `queue=DOORBELL`, `kernel=NAME` or `engine=NAME`, several of them with commas.
impl FromStr for Only {
    type Err = OnlyError;

    fn from_str(text: &str) -> Result<Self, OnlyError> {
        let mut only = Self::default();
        let number = |text: &str| {
            let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
            hex.unwrap_or_else(|| text.parse()).map_err(|_| OnlyError::Number(text.to_owned()))
        };
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("process", value)) => only.processes.push(number(value)?),
                Some(("queue", value)) => only.queues.push(number(value)?),
                Some(("kernel", value)) if !value.is_empty() => only.kernels.push(value.to_owned()),
                Some(("engine", value)) if !value.is_empty() => only.engines.push(value.to_owned()),
                _ => return Err(OnlyError::Form(part.to_owned())),
            }
        }
        Ok(only)
    }
}

impl Only {
    /// Adds the wishes of another choice.
    pub fn and(&mut self, other: &Self) {
        self.processes.extend(&other.processes);
        self.queues.extend(&other.queues);
        self.kernels.extend(other.kernels.iter().cloned());
        self.engines.extend(other.engines.iter().cloned());
    }

    /// Keeps the wanted events of a trace; returns the number of events that were removed.
    pub fn keep(&self, trace: &mut Trace) -> usize {
        if *self == Self::default() {
            return 0;
        }
        let flows = Flows::of(&trace.records);
        let mut jobs = BTreeSet::new();
        let mut processes = BTreeMap::new();
        for record in &trace.records {
            let job = (record.owner.gpu, record.job);
            if record.kind == Kind::DispatchStart {
                let address = record.argument("kernel_object").unwrap_or(0);
                let name = if record.text.is_empty() { kernel(address) } else { record.text.clone() };
                if self.kernels.iter().any(|kernel| name.contains(kernel.as_str())) {
                    jobs.insert(job);
                }
            }
            if record.owner.pasid != 0 && !record.job.is_none() {
                processes.insert(job, u64::from(record.owner.pasid));
            }
        }
        let before = trace.records.len();
        let gpus = std::mem::take(&mut trace.gpus);
        let mut place = 0;
        trace.records.retain(|record| {
            let flow = flows.at(place);
            let gpu = record.owner.gpu;
            place += 1;
            let any =
                |wanted: &[u64], own: Option<u64>, of: &dyn Fn(&belfry_device::trace::Job) -> Option<u64>| {
                    let mut all = own.into_iter().chain(flow.iter().filter_map(of));
                    wanted.is_empty() || all.any(|value| wanted.contains(&value))
                };
            let pasid = Some(u64::from(record.owner.pasid)).filter(|&pasid| pasid != 0);
            let of_system = gpus.get(usize::from(gpu)).map(|gpu| u64::from(gpu.process));
            (of_system.is_some_and(|process| self.processes.contains(&process))
                || any(&self.processes, pasid, &|job| processes.get(&(gpu, *job)).copied()))
                && any(&self.queues, record.owner.doorbell.map(u64::from), &|job| Some(job.doorbell().into()))
                && (self.kernels.is_empty() || flow.iter().any(|job| jobs.contains(&(gpu, *job))))
                && (self.engines.is_empty() || self.engines.contains(&record.owner.engine.to_string()))
        });
        trace.gpus = gpus;
        before - trace.records.len()
    }
}
