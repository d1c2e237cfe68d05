//! The packets that an event belongs to.
//!
//! Events of the device carry their job, and a doorbell carries that of the packet it names. The rest follows from
//! the hardware's own rules: a doorbell announces all packets up to the one it names, and the driver knows an event
//! by its process and number, which are those of the interrupt's entry.

use std::collections::{BTreeMap, BTreeSet};

use belfry_device::trace::{Engine, Job, Kind, Record};

/// Packets of each event, by the event's index in the trace: packets of the event's own GPU.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Flows(Vec<Vec<Job>>);

impl Flows {
    /// Finds the packets of all events, which have to be sorted by time.
    #[must_use]
    pub fn of(records: &[Record]) -> Self {
        let mut flows: Vec<Vec<Job>> = records
            .iter()
            .map(|record| {
                if record.job.is_none() || record.kind == Kind::Doorbell { vec![] } else { vec![record.job] }
            })
            .collect();
        Self::doorbells(records, &mut flows);
        Self::driver(records, &mut flows);
        Self(flows)
    }

    /// Returns the packets of the event at this index.
    #[must_use]
    pub fn at(&self, place: usize) -> &[Job] {
        self.0.get(place).map_or(&[], Vec::as_slice)
    }

    /// Assigns each packet to the first doorbell whose value has reached it.
    fn doorbells(records: &[Record], flows: &mut [Vec<Job>]) {
        // For each queue: the values of its doorbell in their order, and their indices.
        let mut rung: BTreeMap<(u16, u64), Vec<(u64, usize)>> = BTreeMap::new();
        let mut packets: BTreeMap<(u16, u64), BTreeMap<Job, bool>> = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            let queue = (record.owner.gpu, record.job.queue());
            match record.kind {
                Kind::Doorbell if !record.job.is_none() => {
                    rung.entry(queue).or_default().push((record.job.index(), place));
                }
                Kind::PacketRead => {
                    // The doorbell of a PM4 or SDMA queue is a pointer, and announces the packets before it.
                    let aql = record.owner.engine == Engine::Cp && is_aql(&record.text);
                    packets.entry(queue).or_default().insert(record.job, aql);
                }
                _ => {}
            }
        }
        for (queue, packets) in packets {
            let Some(rung) = rung.get(&queue) else { continue };
            for (job, aql) in packets {
                let reached = |value: u64| if aql { value >= job.index() } else { value > job.index() };
                let first = rung.iter().find(|&&(value, _)| reached(value));
                if let Some(&(_, place)) = first {
                    flows[place].push(job);
                }
            }
        }
    }

    /// Assigns packets to the driver's events: the interrupts since an event was last set have named it, and a waiter
    /// that goes on waited for those.
    fn driver(records: &[Record], flows: &mut [Vec<Job>]) {
        let mut told: BTreeMap<(u16, u32, u64), BTreeSet<Job>> = BTreeMap::new();
        let mut set: BTreeMap<(u16, u32, u64), BTreeSet<Job>> = BTreeMap::new();
        let mut last: BTreeMap<u16, Option<Job>> = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            let gpu = record.owner.gpu;
            let key = |event| (gpu, record.owner.pasid, event);
            match record.kind {
                Kind::IhEntry => {
                    if !record.job.is_none() {
                        told.entry(key(record.argument("context").unwrap_or(0)))
                            .or_default()
                            .insert(record.job);
                    }
                    last.insert(gpu, (!record.job.is_none()).then_some(record.job));
                }
                // A vector is raised for the entry before it.
                Kind::Interrupt if record.job.is_none() => {
                    flows[place].extend(last.get(&gpu).copied().flatten());
                }
                Kind::EventSet => {
                    let key = key(record.argument("event").unwrap_or(0));
                    let jobs = told.remove(&key).unwrap_or_default();
                    flows[place] = jobs.iter().copied().collect();
                    set.entry(key).or_default().extend(jobs);
                }
                Kind::EventWake => {
                    let key = key(record.argument("event").unwrap_or(0));
                    flows[place] = set.remove(&key).unwrap_or_default().into_iter().collect();
                }
                _ => {}
            }
        }
    }
}

/// Returns true if a packet of this name is of an AQL queue, whose doorbell holds the index of the last packet.
fn is_aql(name: &str) -> bool {
    matches!(name, "KERNEL_DISPATCH" | "BARRIER_AND" | "BARRIER_OR" | "PM4_IB" | "BARRIER_VALUE" | "unknown")
}
