//! A trace as one JSON object.

use std::io;

use belfry_device::trace::{ARGUMENTS, Engine, Job, Kind, Owner, Record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::trace::{GpuOf, NoTrace, Trace};

/// Name of the format in the object.
const FORMAT: &str = "belfry-trace";

#[derive(Deserialize, Serialize)]
struct Whole {
    format: String,
    version: u32,
    dropped: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<GpuOf>,
    events: Vec<Event>,
}

/// One event; numbers that need 64 bits are texts in hexadecimal, since many readers of JSON round large numbers.
#[derive(Deserialize, Serialize)]
struct Event {
    time_ns: u64,
    event: String,
    engine: String,
    #[serde(default, skip_serializing_if = "is_first")]
    gpu: u16,
    process: u32,
    vmid: u8,
    queue: Option<u32>,
    job: String,
    arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_first(gpu: &u16) -> bool {
    *gpu == 0
}

/// Returns an engine by its name.
pub(super) fn engine(name: &str) -> Option<Engine> {
    let plain = [
        Engine::Device,
        Engine::Doorbells,
        Engine::Firmware,
        Engine::Cp,
        Engine::Shader,
        Engine::Ih,
        Engine::Driver,
    ];
    let sdma = || name.strip_prefix("sdma")?.parse().ok().map(Engine::Sdma);
    plain.into_iter().find(|engine| engine.to_string() == name).or_else(sdma)
}

/// Returns a kind by its name.
pub(super) fn kind(name: &str) -> Option<Kind> {
    Kind::ALL.iter().find(|kind| kind.name() == name).copied()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl From<&Record> for Event {
    fn from(record: &Record) -> Self {
        let Owner { gpu, pasid, vmid, doorbell, engine } = record.owner;
        let names = record.kind.arguments().iter().zip(record.arguments);
        Self {
            time_ns: record.time,
            event: record.kind.name().to_owned(),
            engine: engine.to_string(),
            gpu,
            process: pasid,
            vmid,
            queue: doorbell,
            job: format!("{:#x}", record.job.bits()),
            arguments: names
                .map(|(&name, value)| (name.to_owned(), Value::String(format!("{value:#x}"))))
                .collect(),
            text: record.text.clone(),
        }
    }
}

impl Event {
    fn record(&self) -> Option<Record> {
        let kind = kind(&self.event)?;
        let mut arguments = [0; ARGUMENTS];
        for (name, to) in kind.arguments().iter().zip(&mut arguments) {
            *to = hex(self.arguments.get(*name)?.as_str()?)?;
        }
        let owner = Owner {
            gpu: self.gpu,
            pasid: self.process,
            vmid: self.vmid,
            doorbell: self.queue,
            engine: engine(&self.engine)?,
        };
        Some(Record {
            sequence: 0,
            time: self.time_ns,
            job: Job::from_bits(hex(&self.job)?),
            owner,
            kind,
            arguments,
            text: self.text.clone(),
        })
    }
}

/// Writes a trace as one JSON object.
///
/// # Errors
///
/// A failure of `out`.
pub fn write(trace: &Trace, out: &mut impl io::Write) -> io::Result<()> {
    let events = trace.records.iter().map(Event::from).collect();
    let (dropped, gpus) = (trace.dropped, trace.gpus.clone());
    let whole = Whole { format: FORMAT.to_owned(), version: 1, dropped, gpus, events };
    serde_json::to_writer(&mut *out, &whole)?;
    writeln!(out)
}

pub(crate) fn read(bytes: &[u8]) -> Result<Trace, NoTrace> {
    let whole: Whole = serde_json::from_slice(bytes).map_err(|error| {
        let why = error.to_string();
        if error.is_data() { NoTrace::Foreign(why) } else { NoTrace::Damaged(why) }
    })?;
    if whole.format != FORMAT || whole.version != 1 {
        return Err(NoTrace::Foreign(format!("it is {} of version {}", whole.format, whole.version)));
    }
    let unknown =
        |event: &Event| NoTrace::Damaged(format!("an event {:?} that it does not know", event.event));
    let records = whole.events.iter().map(|event| event.record().ok_or_else(|| unknown(event)));
    Ok(Trace { records: records.collect::<Result<_, _>>()?, dropped: whole.dropped, gpus: whole.gpus })
}
