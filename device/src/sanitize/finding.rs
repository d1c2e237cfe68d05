//! Rules, and reports of broken ones.

use std::fmt;
use std::str::FromStr;

/// A rule that a kernel, a driver or a runtime must keep; each variant says how it is broken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two waves of a workgroup access LDS, one of them writes, and no barrier or atomic is between.
    LdsRace,
    /// Two waves access global memory, one of them writes, and no barrier or atomic is between.
    GlobalRace,
    /// LDS is read before anything in the workgroup has written it.
    LdsUninitialized,
    /// LDS is accessed beyond the workgroup's allocation, where hardware reads 0 and drops stores.
    LdsOutOfBounds,
    /// Waves of a workgroup wait for each other at different barriers.
    BarrierDivergence,
    /// A register is used before a wait for the load that writes it.
    MissingWait,
    /// Global memory is accessed beyond an allocation.
    GlobalOutOfBounds,
    /// Global memory is accessed after it was freed.
    UseAfterFree,
    /// A register that nothing has written is part of an address, is stored, or decides a branch.
    RegisterUninitialized,
    /// Global memory is read before anything has written it since its allocation.
    MemoryUninitialized,
    /// A load may find old bytes in a cache after another workgroup has written.
    CacheNotInvalidated,
    /// A store may still be in a cache when another workgroup loads its bytes.
    CacheNotWrittenBack,
    /// A doorbell is rung for a packet whose header is not valid yet.
    DoorbellBeforePacket,
    /// A doorbell is rung for a packet that no program has reserved.
    DoorbellBeyondWriteIndex,
    /// A doorbell is rung for a packet that lies over one that is not retired.
    RingOverrun,
    /// A packet differs from its state when its doorbell was rung.
    PacketChanged,
    /// A kernel's arguments are changed while it runs.
    KernargChanged,
    /// A kernel's descriptor or code is changed while it runs.
    CodeChanged,
    /// A completion signal is decremented although it is 0 already.
    SignalBelowZero,
    /// A queue's MQD is changed while the queue is on a hardware queue.
    MqdChanged,
    /// A queue is taken away with packets or waves left.
    QueueRemovedBusy,
    /// A page is mapped to another place, and used, without an invalidation in between.
    StaleTranslation,
    /// An interrupt does not reach the driver.
    InterruptLost,
    /// A doorbell is rung that belongs to no queue.
    DoorbellOfNobody,
    /// A frame of the MES is written again before the scheduler has taken it.
    MesFrameReused,
    /// The device is reset while waves run.
    ResetBusy,
    /// Memory is unmapped while a dispatch runs whose arguments point into it.
    UnmappedInFlight,
    /// The device reads VRAM that a processor has written through its BAR and not flushed.
    HdpNotFlushed,
    /// The device refuses a request.
    Refused,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 29] = [
        Self::LdsRace,
        Self::GlobalRace,
        Self::LdsUninitialized,
        Self::LdsOutOfBounds,
        Self::BarrierDivergence,
        Self::MissingWait,
        Self::GlobalOutOfBounds,
        Self::UseAfterFree,
        Self::RegisterUninitialized,
        Self::MemoryUninitialized,
        Self::CacheNotInvalidated,
        Self::CacheNotWrittenBack,
        Self::DoorbellBeforePacket,
        Self::DoorbellBeyondWriteIndex,
        Self::RingOverrun,
        Self::PacketChanged,
        Self::KernargChanged,
        Self::CodeChanged,
        Self::SignalBelowZero,
        Self::MqdChanged,
        Self::QueueRemovedBusy,
        Self::StaleTranslation,
        Self::InterruptLost,
        Self::DoorbellOfNobody,
        Self::MesFrameReused,
        Self::ResetBusy,
        Self::UnmappedInFlight,
        Self::HdpNotFlushed,
        Self::Refused,
    ];

    /// The [usual](Self::is_usual) rules.
    pub fn usual() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|rule| rule.is_usual())
    }

    /// Returns true if kernels must keep the rule; drivers and runtimes keep the others.
    #[must_use]
    pub const fn is_for_kernels(self) -> bool {
        matches!(
            self,
            Self::LdsRace
                | Self::GlobalRace
                | Self::LdsUninitialized
                | Self::LdsOutOfBounds
                | Self::BarrierDivergence
                | Self::MissingWait
                | Self::GlobalOutOfBounds
                | Self::UseAfterFree
                | Self::RegisterUninitialized
                | Self::MemoryUninitialized
                | Self::CacheNotInvalidated
                | Self::CacheNotWrittenBack
        )
    }

    /// Returns true if the rule is checked unless a user chooses rules. Some programs break the others on
    /// purpose: programs that end a kernel which does not end by itself, or that copy memory of which they
    /// have written only a part.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        !matches!(
            self,
            Self::QueueRemovedBusy
                | Self::ResetBusy
                | Self::RegisterUninitialized
                | Self::MemoryUninitialized
                | Self::UnmappedInFlight
                | Self::HdpNotFlushed
        )
    }

    /// Name of the rule on command lines and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LdsRace => "lds-race",
            Self::GlobalRace => "global-race",
            Self::LdsUninitialized => "lds-uninitialized",
            Self::LdsOutOfBounds => "lds-out-of-bounds",
            Self::BarrierDivergence => "barrier-divergence",
            Self::MissingWait => "missing-wait",
            Self::GlobalOutOfBounds => "global-out-of-bounds",
            Self::UseAfterFree => "use-after-free",
            Self::RegisterUninitialized => "register-uninitialized",
            Self::MemoryUninitialized => "memory-uninitialized",
            Self::CacheNotInvalidated => "cache-not-invalidated",
            Self::CacheNotWrittenBack => "cache-not-written-back",
            Self::DoorbellBeforePacket => "doorbell-before-packet",
            Self::DoorbellBeyondWriteIndex => "doorbell-beyond-write-index",
            Self::RingOverrun => "ring-overrun",
            Self::PacketChanged => "packet-changed",
            Self::KernargChanged => "kernarg-changed",
            Self::CodeChanged => "code-changed",
            Self::SignalBelowZero => "signal-below-zero",
            Self::MqdChanged => "mqd-changed",
            Self::QueueRemovedBusy => "queue-removed-busy",
            Self::StaleTranslation => "stale-translation",
            Self::InterruptLost => "interrupt-lost",
            Self::DoorbellOfNobody => "doorbell-of-nobody",
            Self::MesFrameReused => "mes-frame-reused",
            Self::ResetBusy => "reset-busy",
            Self::UnmappedInFlight => "unmapped-in-flight",
            Self::HdpNotFlushed => "hdp-not-flushed",
            Self::Refused => "refused",
        }
    }

    /// Description of the mistake; for drivers and runtimes, of the right behaviour.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LdsRace => {
                "two waves of the workgroup access these bytes of LDS, and no barrier orders them"
            }
            Self::GlobalRace => {
                "two waves access these bytes, and neither a barrier nor an atomic orders them"
            }
            Self::LdsUninitialized => "nothing in the workgroup has written these bytes of LDS",
            Self::LdsOutOfBounds => {
                "these bytes are beyond the workgroup's LDS: hardware reads 0 and drops stores there"
            }
            Self::BarrierDivergence => "waves of the workgroup meet at different barriers",
            Self::MissingWait => {
                "the load of this register may not be over: a wait for its counter is missing"
            }
            Self::GlobalOutOfBounds => "these bytes are beyond the allocation",
            Self::UseAfterFree => "this memory has been freed",
            Self::RegisterUninitialized => "nothing has written this register",
            Self::MemoryUninitialized => "nothing has written these bytes since they were allocated",
            Self::CacheNotInvalidated => {
                "another workgroup has written these bytes, and caches were not invalidated since: they may have older ones"
            }
            Self::CacheNotWrittenBack => {
                "another workgroup has stored these bytes and not written its cache back"
            }
            Self::DoorbellBeforePacket => "a packet's header is valid before its doorbell is rung",
            Self::DoorbellBeyondWriteIndex => {
                "the write index is beyond a packet before its doorbell is rung"
            }
            Self::RingOverrun => "a packet is not written over one that the read index has not passed",
            Self::PacketChanged => {
                "a packet stays as it is from its doorbell until the read index has passed it"
            }
            Self::KernargChanged => "arguments stay as they are until the dispatch has completed",
            Self::CodeChanged => "a kernel stays as it is until its dispatches have completed",
            Self::SignalBelowZero => "a completion signal is above 0 until its last packet completes",
            Self::MqdChanged => "an MQD stays as it is while its queue is mapped",
            Self::QueueRemovedBusy => "a queue is removed for good when it has nothing left to do",
            Self::StaleTranslation => {
                "the TLBs are invalidated between a change of a page's entry and its next use"
            }
            Self::InterruptLost => "the interrupt ring has room, and is on and mapped, for each entry",
            Self::DoorbellOfNobody => "a doorbell that is rung has a queue that listens",
            Self::MesFrameReused => "a frame of the MES stays as it is until its fence is written",
            Self::ResetBusy => "a device is reset when nothing runs on it any more",
            Self::UnmappedInFlight => {
                "memory that arguments of a dispatch point into stays mapped until it has completed"
            }
            Self::HdpNotFlushed => {
                "the host data path is flushed between a processor's store to VRAM and the device's look at it"
            }
            Self::Refused => "what the device is asked for is something it does",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no rule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no rule; these are: {names}", names = Rule::ALL.map(Rule::name).join(", "))]
pub struct UnknownRule(pub String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        Self::ALL.into_iter().find(|rule| rule.name() == text).ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

/// A line of a source file.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Source {
    /// The file's path, as its compiler had it.
    pub file: String,
    /// The line, from 1 on.
    pub line: u32,
}

/// Shows `vecadd.cl:14`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.rsplit('/').next().unwrap_or_default(), self.line)
    }
}

/// A place in a kernel, and the wave that was there.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Other {
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// The wave in it.
    pub wave: u32,
    /// The lane, of an access of memory.
    pub lane: Option<u8>,
    /// Address of the instruction.
    pub pc: u64,
    /// The instruction.
    pub instruction: String,
    /// Action of the wave there.
    pub does: String,
    /// Its source line, if a host has debug information; the device has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// A rule that was broken.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The kernel's name, empty if it is not known.
    pub kernel: String,
    /// Address of the kernel's first instruction.
    pub entry: u64,
    /// Address of its descriptor, if its code object was found.
    #[serde(default)]
    pub descriptor: Option<u64>,
    /// Number of the first dispatch in which it was found.
    pub dispatch: u64,
    /// Place at which it was noticed.
    pub here: Other,
    /// The other place, if the rule takes two.
    pub against: Option<Other>,
    /// Number of times that it was found.
    pub count: u64,
}

impl Finding {
    /// Returns true for the same finding in another process, where the kernel may be at another address.
    fn is_same(&self, other: &Self) -> bool {
        let offset = |finding: &Self, at: &Other| (at.pc.wrapping_sub(finding.entry), at.instruction.clone());
        let places = |finding: &Self| {
            (offset(finding, &finding.here), finding.against.as_ref().map(|at| offset(finding, at)))
        };
        (self.rule, &self.kernel) == (other.rule, &other.kernel) && places(self) == places(other)
    }

    /// Adds the count of the same finding in another process; returns false if it is another finding.
    pub(super) fn takes(&mut self, other: &Self) -> bool {
        let same = self.is_same(other);
        if same {
            self.count += other.count;
        }
        same
    }

    fn place(&self, f: &mut fmt::Formatter<'_>, at: &Other) -> fmt::Result {
        let [x, y, z] = at.workgroup;
        let offset = at.pc.wrapping_sub(self.entry).cast_signed();
        let sign = if offset < 0 { '-' } else { '+' };
        write!(f, "  {sign}{:#x} ({:#x}): {}", offset.unsigned_abs(), at.pc, at.instruction)?;
        if let Some(source) = &at.source {
            write!(f, ", {source}")?;
        }
        write!(f, "\n    wave {} of workgroup {x},{y},{z}", at.wave)?;
        if let Some(lane) = at.lane {
            write!(f, ", lane {lane},")?;
        }
        write!(f, " {}", at.does)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = if self.kernel.is_empty() { "a kernel without a name" } else { &*self.kernel };
        writeln!(f, "{}: {kernel}, dispatch {}: {}", self.rule, self.dispatch, self.rule.meaning())?;
        self.place(f, &self.here)?;
        if let Some(against) = &self.against {
            f.write_str("\n")?;
            self.place(f, against)?;
        }
        match self.count {
            1 => Ok(()),
            count => write!(f, "\n    met {count} times"),
        }
    }
}
