//! A trace in Perfetto's format; its annotations hold all that belfry knows of an event.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use belfry_device::trace::{ARGUMENTS, Counter, Engine, Job, Kind, Owner, PerWhat, Record, Way};
use prost::Message as _;

use crate::flow::Flows;
use crate::json;
use crate::name::{kernel, processes};
use crate::schema::{
    self, COUNTER, CounterDescriptor, DebugAnnotation, INSTANT, ProcessDescriptor, SLICE_BEGIN, SLICE_END,
    STATE_CLEARED, TracePacket, TrackDescriptor, TrackEvent, Value,
};
use crate::trace::{GpuOf, NoTrace, Trace};

/// The only sequence of packets.
const SEQUENCE: u32 = 1;
/// Packets that are encoded at a time.
const BATCH: usize = 4096;
/// Annotation of the first event: [`Trace::dropped`].
const DROPPED: &str = "belfry.dropped";
/// Annotations of the first event, of each GPU: [`GpuOf`].
const GPU_PROCESS: &str = "belfry.gpu.process";
const GPU_NAME: &str = "belfry.gpu.name";
/// Its number among those of the process, and one; 0 if it is the only one.
const GPU_NUMBER: &str = "belfry.gpu.number";
/// Annotation of every event: its kind.
const KIND: &str = "belfry.event";

/// A track, by its subject.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Track {
    Gpu,
    Process(u32),
    Engine(Engine),
    Worker(u64),
    Queue(u32, u32),
    /// Work of a queue; work that overlaps is on tracks of its own.
    Lane(u32, u32, usize),
    Thread(u32, u64),
    Counter(Counter, u32, Option<u32>),
    /// Bytes to the memory of another GPU, or from there.
    Link(u64, bool),
}

impl Track {
    fn parent(self) -> Option<Self> {
        match self {
            Self::Gpu | Self::Process(_) => None,
            Self::Engine(_) | Self::Worker(_) | Self::Link(..) => Some(Self::Gpu),
            Self::Queue(pasid, _) | Self::Lane(pasid, ..) | Self::Thread(pasid, _) => Some(Self::of(pasid)),
            Self::Counter(_, pasid, _) => Some(Self::of(pasid)),
        }
    }

    fn of(pasid: u32) -> Self {
        if pasid == 0 { Self::Gpu } else { Self::Process(pasid) }
    }

    fn name(self) -> String {
        match self {
            Self::Gpu => "GPU".to_owned(),
            Self::Process(pasid) => format!("process {pasid:#x}"),
            Self::Engine(Engine::Ih) => "interrupts".to_owned(),
            Self::Engine(engine) => engine.to_string(),
            Self::Worker(worker) => format!("worker {worker}"),
            Self::Queue(_, doorbell) => format!("queue {doorbell:#x}: packets"),
            Self::Lane(_, doorbell, 0) => format!("queue {doorbell:#x}: work"),
            Self::Lane(_, doorbell, lane) => format!("queue {doorbell:#x}: work beside it ({lane})"),
            Self::Thread(_, thread) => format!("driver calls of thread {thread}"),
            Self::Counter(counter, _, None) => counter.name().to_owned(),
            Self::Link(peer, true) => format!("bytes to GPU {peer}"),
            Self::Link(peer, false) => format!("bytes from GPU {peer}"),
            Self::Counter(counter, _, Some(doorbell)) => format!("{} of queue {doorbell:#x}", counter.name()),
        }
    }
}

/// PASID and doorbell of a queue.
type QueueKey = (u32, u32);

/// Slices of a GPU that have begun and not ended.
#[derive(Debug, Default)]
struct Open {
    workers: BTreeSet<u64>,
    threads: BTreeSet<(u32, u64)>,
    /// Jobs of each queue, by their lane.
    lanes: BTreeMap<QueueKey, Vec<Option<Job>>>,
    /// Dispatches whose first workgroup has begun.
    begun: BTreeSet<Job>,
}

impl Open {
    fn take_lane(&mut self, queue: QueueKey, job: Job) -> usize {
        let lanes = self.lanes.entry(queue).or_default();
        let free = lanes.iter().position(Option::is_none).unwrap_or_else(|| {
            lanes.push(None);
            lanes.len() - 1
        });
        lanes[free] = Some(job);
        free
    }

    fn leave_lane(&mut self, queue: QueueKey, job: Job) -> Option<usize> {
        let lanes = self.lanes.get_mut(&queue)?;
        let lane = lanes.iter().position(|on| *on == Some(job))?;
        lanes[lane] = None;
        Some(lane)
    }
}

/// Returns the track of an event, and its kind of drawing.
fn place(record: &Record, open: &mut Open) -> (Track, i32) {
    let Owner { pasid, doorbell, engine, .. } = record.owner;
    let argument = |name| record.argument(name).unwrap_or(0);
    let queue = doorbell.map(|doorbell| (pasid, doorbell));
    let on_queue = queue.map_or(Track::Engine(engine), |(pasid, doorbell)| Track::Queue(pasid, doorbell));
    let thread = (pasid, argument("thread"));
    match (record.kind, queue) {
        (Kind::DispatchStart | Kind::SdmaStart, Some(queue)) => {
            (Track::Lane(queue.0, queue.1, open.take_lane(queue, record.job)), SLICE_BEGIN)
        }
        (Kind::DispatchEnd | Kind::SdmaEnd, Some(queue)) => match open.leave_lane(queue, record.job) {
            Some(lane) => (Track::Lane(queue.0, queue.1, lane), SLICE_END),
            None => (on_queue, INSTANT),
        },
        (Kind::WorkgroupStart, _) => {
            open.workers.insert(argument("worker"));
            (Track::Worker(argument("worker")), SLICE_BEGIN)
        }
        (Kind::WorkgroupEnd, _) if open.workers.remove(&argument("worker")) => {
            (Track::Worker(argument("worker")), SLICE_END)
        }
        (Kind::WorkgroupEnd, _) => (Track::Worker(argument("worker")), INSTANT),
        (Kind::IoctlEnter, _) => {
            open.threads.insert(thread);
            (Track::Thread(pasid, thread.1), SLICE_BEGIN)
        }
        (Kind::IoctlLeave, _) if open.threads.remove(&thread) => (Track::Thread(pasid, thread.1), SLICE_END),
        (Kind::Counter, _) => match Counter::from_number(argument("counter")) {
            Some(counter) if counter.per() == PerWhat::Queue => {
                (Track::Counter(counter, pasid, doorbell), COUNTER)
            }
            Some(counter) => (Track::Counter(counter, 0, None), COUNTER),
            None => (Track::Engine(engine), INSTANT),
        },
        (Kind::LinkTo, _) => (Track::Link(argument("peer"), true), COUNTER),
        (Kind::LinkFrom, _) => (Track::Link(argument("peer"), false), COUNTER),
        (Kind::PacketRead | Kind::SignalWritten, Some(_)) => (on_queue, INSTANT),
        (_, _) if engine == Engine::Driver && pasid != 0 => (Track::Process(pasid), INSTANT),
        _ => (Track::Engine(engine), INSTANT),
    }
}

fn name(record: &Record) -> String {
    let argument = |name| record.argument(name).unwrap_or(0);
    match record.kind {
        Kind::DispatchStart if record.text.is_empty() => kernel(argument("kernel_object")),
        Kind::DispatchStart | Kind::PacketRead | Kind::IoctlEnter => record.text.clone(),
        Kind::SdmaStart => format!("SDMA, {} bytes", argument("bytes")),
        Kind::WorkgroupStart => {
            format!("workgroup {},{},{}", argument("x"), argument("y"), argument("z"))
        }
        Kind::Doorbell => format!("doorbell {}", Way::name(argument("way"))),
        Kind::KernelInstructions | Kind::KernelMemory | Kind::Refused | Kind::PageFault | Kind::Fault => {
            format!("{}: {}", record.kind.name(), record.text)
        }
        kind => kind.name().to_owned(),
    }
}

fn annotation(name: &str, value: Value) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), value: Some(value) }
}

fn annotations(record: &Record) -> Vec<DebugAnnotation> {
    let Owner { gpu, pasid, vmid, doorbell, engine } = record.owner;
    let mut all = vec![
        annotation(KIND, Value::Text(record.kind.name().to_owned())),
        annotation("engine", Value::Text(engine.to_string())),
        annotation("process", Value::Pointer(pasid.into())),
        annotation("vmid", Value::Uint(vmid.into())),
        annotation("job", Value::Pointer(record.job.bits())),
    ];
    all.extend((gpu != 0).then(|| annotation("gpu", Value::Uint(gpu.into()))));
    all.extend(doorbell.map(|doorbell| annotation("queue doorbell", Value::Pointer(doorbell.into()))));
    let names = record.kind.arguments().iter().zip(record.arguments);
    all.extend(names.map(|(name, value)| {
        let is_address = matches!(*name, "address" | "entry" | "kernel_object" | "offset" | "header");
        annotation(name, if is_address { Value::Pointer(value) } else { Value::Uint(value) })
    }));
    if !record.text.is_empty() {
        all.push(annotation("text", Value::Text(record.text.clone())));
    }
    all
}

/// Returns true if arrows of its packets go through an event.
fn is_linked(record: &Record, begun: &mut BTreeSet<Job>) -> bool {
    match record.kind {
        Kind::Counter
        | Kind::LinkTo
        | Kind::LinkFrom
        | Kind::DispatchEnd
        | Kind::SdmaEnd
        | Kind::WorkgroupEnd
        | Kind::DoorbellSeen
        | Kind::KernelInstructions
        | Kind::KernelLanes
        | Kind::KernelMemory => false,
        // One arrow for each dispatch is enough.
        Kind::WorkgroupStart => begun.insert(record.job),
        _ => true,
    }
}

/// Track descriptors that have been written, by GPU.
#[derive(Debug)]
struct Tracks<'a> {
    written: BTreeMap<(u16, Track), u64>,
    gpus: &'a [GpuOf],
    /// True if there are several GPUs without a process of their own.
    are_numbered: bool,
    /// Names of the processes that a driver has reported.
    processes: BTreeMap<(u16, u32), String>,
}

impl Tracks<'_> {
    /// Returns the name of a track. Tracks of one GPU are named after its process if there are several GPUs.
    fn name(&self, gpu: u16, track: Track) -> String {
        match (track, self.gpus.get(usize::from(gpu))) {
            (Track::Gpu, Some(of)) => format!("GPU of {of}"),
            (Track::Process(_), Some(of)) => of.to_string(),
            (Track::Process(pasid), None) => {
                self.processes.get(&(gpu, pasid)).cloned().unwrap_or_else(|| track.name())
            }
            (Track::Gpu, None) if self.are_numbered => format!("GPU {gpu}"),
            _ => track.name(),
        }
    }

    fn uuid(&mut self, gpu: u16, track: Track, packets: &mut Vec<TracePacket>) -> u64 {
        if let Some(&uuid) = self.written.get(&(gpu, track)) {
            return uuid;
        }
        let parent_uuid = track.parent().map(|parent| self.uuid(gpu, parent, packets));
        let uuid = self.written.len() as u64 + 1;
        self.written.insert((gpu, track), uuid);
        // Perfetto's identifiers of processes only keep them apart: PASIDs have 16 bits, and numbers of GPUs 14 of this.
        let base = i32::from(gpu & 0x3fff) << 17;
        let process = match track {
            Track::Gpu => Some(base + 1),
            Track::Process(pasid) => Some(base + 0x1_0000 + pasid as i32),
            _ => None,
        };
        let name = self.name(gpu, track);
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name.clone()),
            process: process
                .map(|pid| ProcessDescriptor { pid: Some(pid), process_name: Some(name.clone()) }),
            parent_uuid,
            counter: match track {
                Track::Counter(counter, ..) => {
                    Some(CounterDescriptor { unit_name: Some(counter.unit().to_owned()) })
                }
                Track::Link(..) => Some(CounterDescriptor { unit_name: Some("bytes".to_owned()) }),
                _ => None,
            },
        };
        packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
        uuid
    }
}

/// Writes a trace for Perfetto's user interface.
///
/// # Errors
///
/// A failure of `out`.
pub fn write(trace: &Trace, out: &mut impl io::Write) -> io::Result<()> {
    let flows = Flows::of(&trace.records);
    let processes = processes(&trace.records);
    let are_numbered = trace.has_numbered_gpus();
    let mut tracks = Tracks { written: BTreeMap::new(), gpus: &trace.gpus, are_numbered, processes };
    let mut open: BTreeMap<u16, Open> = BTreeMap::new();
    let mut arrows: BTreeMap<(u16, Job), u64> = BTreeMap::new();
    let mut packets = vec![TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(STATE_CLEARED),
        ..TracePacket::default()
    }];
    // Facts of the whole trace are an event, too, so that a reader sees them.
    let mut about = vec![annotation(DROPPED, Value::Uint(trace.dropped))];
    about.extend(trace.gpus.iter().flat_map(|gpu| {
        [
            annotation(GPU_PROCESS, Value::Uint(gpu.process.into())),
            annotation(GPU_NAME, Value::Text(gpu.name.clone())),
            annotation(GPU_NUMBER, Value::Uint(gpu.number.map_or(0, |number| u64::from(number) + 1))),
        ]
    }));
    let first = TrackEvent {
        kind: Some(INSTANT),
        track_uuid: Some(tracks.uuid(0, Track::Gpu, &mut packets)),
        name: Some("trace".to_owned()),
        debug_annotations: about,
        ..TrackEvent::default()
    };
    packets.push(packet(trace.records.first().map_or(0, |record| record.time), first));
    for (index, record) in trace.records.iter().enumerate() {
        let gpu = record.owner.gpu;
        let open = open.entry(gpu).or_default();
        let (track, kind) = place(record, open);
        let uuid = tracks.uuid(gpu, track, &mut packets);
        let mut arrow = |job: &Job| {
            let next = arrows.len() as u64 + 1;
            *arrows.entry((gpu, *job)).or_insert(next)
        };
        let flow_ids = if is_linked(record, &mut open.begun) {
            flows.at(index).iter().map(&mut arrow).collect()
        } else {
            Vec::new()
        };
        let event = TrackEvent {
            debug_annotations: annotations(record),
            kind: Some(kind),
            track_uuid: Some(uuid),
            categories: vec![record.owner.engine.to_string()],
            name: (kind == SLICE_BEGIN || kind == INSTANT).then(|| name(record)),
            counter_value: (kind == COUNTER)
                .then(|| i64::try_from(record.argument("value").unwrap_or(0)).unwrap_or(i64::MAX)),
            flow_ids,
        };
        packets.push(packet(record.time, event));
        if packets.len() >= BATCH {
            out.write_all(&schema::Trace { packet: std::mem::take(&mut packets) }.encode_to_vec())?;
        }
    }
    out.write_all(&schema::Trace { packet: packets }.encode_to_vec())
}

fn packet(time: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(time),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(event),
        ..TracePacket::default()
    }
}

pub(crate) fn read(bytes: &[u8]) -> Result<Trace, NoTrace> {
    // `Trace` has one field, 1, of messages.
    if bytes.first() != Some(&0x0a) {
        return Err(NoTrace::Foreign("it begins as no form that it reads".to_owned()));
    }
    let whole = schema::Trace::decode(bytes).map_err(|error| NoTrace::Damaged(error.to_string()))?;
    let (mut trace, mut is_mine) = (Trace::default(), false);
    for packet in whole.packet {
        let Some(event) = packet.track_event else { continue };
        let fields: Vec<_> = event
            .debug_annotations
            .into_iter()
            .filter_map(|DebugAnnotation { name, value }| Some((name?, value?)))
            .collect();
        if let Some((_, Value::Uint(dropped))) = fields.iter().find(|(name, _)| name == DROPPED) {
            (trace.dropped, is_mine) = (*dropped, true);
            trace.gpus = gpus(&fields);
            continue;
        }
        let fields: BTreeMap<_, _> = fields.into_iter().collect();
        let Some(Value::Text(kind)) = fields.get(KIND) else { continue };
        let unknown = || NoTrace::Damaged(format!("an event {kind:?} that it does not know"));
        trace.records.push(record(packet.timestamp.unwrap_or(0), kind, &fields).ok_or_else(unknown)?);
    }
    if !is_mine {
        return Err(NoTrace::Foreign("it is Perfetto's form, and was not written by belfry".to_owned()));
    }
    Ok(trace)
}

/// Returns the processes of the GPUs, which the first event lists.
fn gpus(fields: &[(String, Value)]) -> Vec<GpuOf> {
    let of =
        |wanted: &'static str| fields.iter().filter(move |(name, _)| name == wanted).map(|(_, value)| value);
    // Files of earlier versions have no numbers.
    let numbers = of(GPU_NUMBER).map(|number| match number {
        Value::Uint(number) => number.checked_sub(1).and_then(|number| u16::try_from(number).ok()),
        _ => None,
    });
    let pairs = of(GPU_PROCESS).zip(of(GPU_NAME)).zip(numbers.chain(std::iter::repeat(None)));
    pairs
        .filter_map(|(pair, number)| match pair {
            (Value::Uint(process), Value::Text(name)) => {
                Some(GpuOf { process: u32::try_from(*process).ok()?, name: name.clone(), number })
            }
            _ => None,
        })
        .collect()
}

fn record(time: u64, kind: &str, fields: &BTreeMap<String, Value>) -> Option<Record> {
    let number = |name: &str| match fields.get(name) {
        Some(Value::Uint(value) | Value::Pointer(value)) => Some(*value),
        _ => None,
    };
    let text = |name: &str| match fields.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let kind = json::kind(kind)?;
    let mut arguments = [0; ARGUMENTS];
    for (name, to) in kind.arguments().iter().zip(&mut arguments) {
        *to = number(name)?;
    }
    let owner = Owner {
        gpu: number("gpu").unwrap_or(0).try_into().ok()?,
        pasid: number("process")?.try_into().ok()?,
        vmid: number("vmid")?.try_into().ok()?,
        doorbell: number("queue doorbell").and_then(|doorbell| doorbell.try_into().ok()),
        engine: json::engine(&text("engine")?)?,
    };
    Some(Record {
        sequence: 0,
        time,
        job: Job::from_bits(number("job")?),
        owner,
        kind,
        arguments,
        text: text("text").unwrap_or_default(),
    })
}
