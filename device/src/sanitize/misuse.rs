//! Rules for drivers and runtimes: reports of broken ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use super::finding::Rule;

/// Most misuses that are kept apart.
const MAX_MISUSES: usize = 256;
/// Most queues that were removed with work left and may be added again.
const MAX_REMOVED: usize = 4096;

/// A rule for drivers and runtimes that was broken.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Misuse {
    /// The rule; its meaning is the right behaviour.
    pub rule: Rule,
    /// PASID of the process, if there is one.
    pub process: Option<u32>,
    /// The queue's doorbell, in dwords from the beginning of the doorbell BAR.
    pub doorbell: Option<u32>,
    /// Index of the packet.
    pub packet: Option<u64>,
    /// Address of the misuse.
    pub address: Option<u64>,
    /// Time of the device, in nanoseconds.
    pub time: u64,
    /// Name by which suppressions tell it from others of its rule and queue: for [`Rule::Refused`], the
    /// error's name.
    pub subject: String,
    /// Description of the misuse.
    pub found: String,
    /// Number of times that it was found.
    pub count: u64,
}

impl Misuse {
    /// A misuse of a rule, without queue and process; [`Sanitizer::misused`](super::Sanitizer::misused) sets
    /// its time.
    pub(crate) fn new(rule: Rule, found: String) -> Self {
        Self {
            rule,
            process: None,
            doorbell: None,
            packet: None,
            address: None,
            time: 0,
            subject: String::new(),
            found,
            count: 1,
        }
    }

    /// Adds the queue: its process's PASID and its doorbell, in dwords.
    pub(crate) fn of(self, pasid: u32, doorbell: u32) -> Self {
        Self { process: Some(pasid), doorbell: Some(doorbell), ..self }
    }

    /// Adds the index of the packet.
    pub(crate) fn at_packet(self, packet: u64) -> Self {
        Self { packet: Some(packet), ..self }
    }

    /// Adds the address.
    pub(crate) fn at(self, address: u64) -> Self {
        Self { address: Some(address), ..self }
    }

    /// Adds a name for suppressions.
    pub(crate) fn named(self, subject: &str) -> Self {
        Self { subject: subject.to_owned(), ..self }
    }

    fn key(&self) -> Key {
        (self.rule, self.process, self.doorbell, self.subject.clone())
    }

    /// Adds the count of the same misuse in another process; returns false if it is another misuse.
    pub(super) fn takes(&mut self, other: &Self) -> bool {
        let same = (self.rule, &self.subject, &self.found) == (other.rule, &other.subject, &other.found);
        if same {
            self.count += other.count;
        }
        same
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule)?;
        if let Some(doorbell) = self.doorbell {
            write!(f, "queue with doorbell {doorbell:#x}, ")?;
        }
        if let Some(process) = self.process {
            write!(f, "process {process:#x}, ")?;
        }
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}, ")?;
        }
        if let Some(address) = self.address {
            write!(f, "address {address:#x}, ")?;
        }
        let (milliseconds, rest) = (self.time / 1_000_000, self.time / 1000 % 1000);
        write!(f, "after {milliseconds}.{rest:03} ms\n  found: {}", self.found)?;
        write!(f, "\n  expected: {}", self.rule.meaning())?;
        match self.count {
            1 => Ok(()),
            count => write!(f, "\n  met {count} times"),
        }
    }
}

/// Key that tells one misuse from another.
type Key = (Rule, Option<u32>, Option<u32>, String);

/// A queue that was removed with work left.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    /// Address of its MQD, by which it is known when it is added again.
    pub(crate) mqd: u64,
    pub(crate) doorbell: u32,
    /// Index of the first packet that is left.
    pub(crate) read_index: u64,
    pub(crate) found: String,
}

/// The misuses of a device.
#[derive(Default)]
pub(super) struct Misuses {
    found: BTreeMap<Key, Misuse>,
    /// Misuses that are reported unless the queue is added again, by the address of its MQD.
    removed: BTreeMap<u64, (Removed, Misuse)>,
    /// Misuses beyond those that are kept.
    beyond: u64,
}

impl Misuses {
    /// Keeps a misuse, or counts it once more.
    pub(super) fn add(&mut self, misuse: Misuse) {
        let full = self.found.len() == MAX_MISUSES;
        match self.found.entry(misuse.key()) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(_) if full => self.beyond += 1,
            Entry::Vacant(free) => {
                free.insert(misuse);
            }
        }
    }

    /// Notes that a queue is removed with work left: a driver that takes its queues off for a while adds it
    /// again.
    pub(super) fn removed(&mut self, removed: Removed, misuse: Misuse) {
        if self.removed.len() < MAX_REMOVED || self.removed.contains_key(&removed.mqd) {
            self.removed.insert(removed.mqd, (removed, misuse));
        } else {
            self.add(misuse);
        }
    }

    /// Notes that a queue is added at a packet: it counts as the removed one if doorbell and packet are
    /// equal.
    pub(super) fn added(&mut self, mqd: u64, doorbell: u32, read_index: u64) {
        if let Some((removed, misuse)) = self.removed.remove(&mqd)
            && (removed.doorbell, removed.read_index) != (doorbell, read_index)
        {
            self.add(misuse);
        }
    }

    /// All misuses until now, and the number of further ones.
    pub(super) fn all(&self) -> (Vec<Misuse>, u64) {
        let mut all = Self { found: self.found.clone(), removed: BTreeMap::new(), beyond: self.beyond };
        for (_, misuse) in self.removed.values() {
            all.add(misuse.clone());
        }
        (all.found.into_values().collect(), all.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(misuses: &Misuses) -> usize {
        misuses.all().0.len()
    }

    #[test]
    fn a_queue_that_comes_back_was_not_removed_for_good() {
        let mut misuses = Misuses::default();
        let removed = || Removed { mqd: 0x1000, doorbell: 8, read_index: 5, found: String::new() };
        let misuse = || Misuse::new(Rule::QueueRemovedBusy, "work".into());
        misuses.removed(removed(), misuse());
        assert_eq!(left(&misuses), 1);
        misuses.added(0x1000, 8, 5);
        assert_eq!(left(&misuses), 0);
        misuses.removed(removed(), misuse());
        misuses.added(0x1000, 8, 0);
        assert_eq!(left(&misuses), 1, "another queue at the same place");
    }

    #[test]
    fn misuses_are_counted_and_bounded() {
        let mut misuses = Misuses::default();
        for number in 0..300 {
            misuses.add(Misuse::new(Rule::Refused, "it".into()).named(&number.to_string()));
        }
        misuses.add(Misuse::new(Rule::Refused, "it".into()).named("7"));
        let (all, beyond) = misuses.all();
        assert_eq!((all.len(), beyond), (MAX_MISUSES, 44));
        assert_eq!(all.iter().find(|misuse| misuse.subject == "7").unwrap().count, 2);
    }

    #[test]
    fn text_tells_where_and_what() {
        let misuse = Misuse::new(Rule::PacketChanged, "dword 4 is 0x2, was 0x1".into());
        let misuse =
            Misuse { time: 12_345_678, count: 2, ..misuse.of(0x8001, 0x1002).at_packet(7).at(0x1000) };
        assert_eq!(
            misuse.to_string(),
            "packet-changed: queue with doorbell 0x1002, process 0x8001, packet 7, address 0x1000, after 12.345 ms\n  \
             found: dword 4 is 0x2, was 0x1\n  expected: a packet stays as it is from its doorbell until the read \
             index has passed it\n  met 2 times"
        );
    }
}
