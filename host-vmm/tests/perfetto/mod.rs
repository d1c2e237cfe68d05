//! Parts of Perfetto's published schema that tests need, and the flows that they find in a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost::Message;

/// `Trace` of `protos/perfetto/trace/trace.proto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packet: Vec<Packet>,
}

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(message, optional, tag = "11")]
    pub(crate) track_event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    pub(crate) track_descriptor: Option<Track>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(int32, optional, tag = "9")]
    pub(crate) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(crate) name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub(crate) counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(crate) flow_ids: Vec<u64>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent_uuid: Option<u64>,
}

/// `TYPE_SLICE_BEGIN` of `TrackEvent.Type`.
pub(crate) const BEGIN: i32 = 1;

impl Trace {
    /// Parses a file.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        Self::decode(std::fs::read(path).unwrap().as_slice()).unwrap()
    }

    /// Names of tracks by their numbers.
    pub(crate) fn tracks(&self) -> BTreeMap<u64, String> {
        let tracks = self.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        tracks.map(|track| (track.uuid.unwrap(), track.name.clone().unwrap())).collect()
    }

    /// All events, in their order.
    pub(crate) fn events(&self) -> Vec<&Event> {
        self.packet.iter().filter_map(|packet| packet.track_event.as_ref()).collect()
    }

    /// The names of the slices that the flow of each dispatch of a kernel goes through; the kernel's name begins as
    /// given.
    pub(crate) fn flows_of(&self, kernel: &str) -> Vec<BTreeSet<String>> {
        let (tracks, events) = (self.tracks(), self.events());
        let mut steps: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for event in &events {
            for &flow in &event.flow_ids {
                steps.entry(flow).or_default().insert(event.name.clone().unwrap_or_default());
            }
        }
        let is_dispatch = |event: &&&Event| {
            event.kind == Some(BEGIN)
                && tracks[&event.track_uuid.unwrap()].starts_with("queue")
                && event.name.as_ref().is_some_and(|name| name.starts_with(kernel))
        };
        events.iter().filter(is_dispatch).map(|event| steps[&event.flow_ids[0]].clone()).collect()
    }
}
