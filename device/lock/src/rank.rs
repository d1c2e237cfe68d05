//! The order of locks: every rank, outermost first.
//!
//! If two locks nest, the one that is taken first is above. If they do not, their order has no meaning.
//!
//! There are three parts: locks of hosts and drivers, locks that each device has, and locks below those. In the middle
//! part the order goes by the number of the device first, and by the list then.

/// The rank of a lock; this module has them all.
pub trait Rank {
    /// Place in the order: a thread takes locks with growing positions.
    const POSITION: u8;
    /// True if each device has such a lock.
    const OF_DEVICE: bool;
}

/// Most devices whose locks a thread may hold in order: their numbers are below this.
pub const MAX_DEVICES: u8 = 8;

/// The rank of a lock that is not of these types, as it has no guard; the code that takes the lock reports
/// it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(debug_assertions), expect(dead_code, reason = "for the check alone"))]
pub struct AnyRank {
    pub(super) position: u8,
    pub(super) of_device: bool,
}

macro_rules! ranks {
    (
        hosts { $($host:ident = $host_text:literal,)* }
        devices { $($device:ident = $device_text:literal,)* }
        below { $($below:ident = $below_text:literal,)* }
    ) => {
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Position { $($host,)* $($device,)* $($below,)* }

        /// Names of locks in messages, by position.
        #[cfg(debug_assertions)]
        pub(super) const NAMES: &[&str] = &[$($host_text,)* $($device_text,)* $($below_text,)*];

        $(rank!($host = $host_text, false);)*
        $(rank!($device = $device_text, true);)*
        $(rank!($below = $below_text, false);)*
    };
}

macro_rules! rank {
    ($name:ident = $text:literal, $of_device:literal) => {
        #[doc = concat!("`", $text, "`.")]
        #[derive(Debug)]
        pub enum $name {}

        impl Rank for $name {
            const POSITION: u8 = Position::$name as u8;
            const OF_DEVICE: bool = $of_device;
        }
    };
}

ranks! {
    hosts {
        // Hosts, above the device.
        Saver = "Saver.one",
        RootBusConfiguring = "RootBus.configuring",
        GpuMessagesWriting = "GpuMessages.writing",
        VirtioConfig = "virtio config",
        VirtioPlacement = "virtio placement",
        VirtioEngine = "virtio engine",
        VirtioRegisters = "virtio registers",
        GpuFunctionVram = "GpuFunction.vram",
        PagesState = "Pages.state",
        BoardPorts = "Board.ports",
        DebugLinks = "Links of a debugger",
        HostedKfd = "Host.drivers",
        HostedMaps = "HostedProcess.maps",
        HostedQuarantine = "HostedProcess.quarantine",
        Handles = "Handles.table",
        Objects = "Objects.table",
        // The driver core, which calls the device; `LockRank` in it has an equal order.
        KfdProcess = "KFD process",
        KfdProcessState = "KFD process state",
        KfdClient = "KFD render node client",
        KfdAddressSpace = "KFD address space",
        KfdScheduler = "KFD scheduler",
        KfdInterruptRing = "KFD interrupt ring",
        KfdProcesses = "KFD process table",
        KfdEvents = "KFD events",
        KfdExceptions = "KFD exceptions",
        KfdPendingFault = "KFD pending fault",
        KfdSmiClients = "KFD SMI clients",
        HostedSmi = "hosted SMI descriptor",
        KfdSmiFifo = "KFD SMI FIFO",
        KfdVram = "KFD VRAM",
        KfdGart = "KFD GART",
        KfdInvalidation = "KFD invalidation engine",
        KfdObject = "KFD object",
        KfdRateLimit = "KFD rate limit",
        KfdNodes = "KFD nodes",
        KfdTrace = "KFD trace",
        Gems = "Gems.by_offset",
        SyncHandles = "Syncobjs.table",
        SyncDescriptors = "Syncs.descriptors",
        SyncEvents = "Syncs.events",
        Syncobj = "Syncobj.content",
        Exports = "Exports.table",
        ArenaFree = "Arena.free",
        // Memory of programs, and their doorbells.
        PinsTable = "Pins.table",
        NotifierRanges = "Notifier.ranges",
        TrapMaps = "Trap.maps",
        CardLoad = "load of the card",
        // Accesses of a hosted driver to its device.
        HostedAccess = "HostedOs.access",
        // One thing after the other, over all devices that are recorded together.
        RecordOrder = "Order.operation",
    }
    devices {
        // One thing after the other, while the device is recorded.
        Session = "Session.state",
        // The firmware, and the state that it programs.
        Runner = "Runner.state",
        Wakeups = "Wakeups.state",
        HqdBanks = "HqdBanks",
        Doorbells = "Doorbells.locks",
        // Waiting for the turns of a queue, which report ends of dispatches.
        ShaderQueueTurns = "ShaderQueue.turns",
        Contexts = "Contexts.state",
        ContextSpaces = "Contexts.spaces",
        // Waiting for slices; no thread that holds a lock below waits for them.
        QuiescenceTurn = "Quiescence.turn",
        // Locks of a turn.
        Submitter = "ShaderEngine.submitter",
        Engine = "Shared.state",
        ShaderQueueBusy = "ShaderQueue.busy",
        DispatchPaused = "Dispatch.paused",
        DispatchChance = "Dispatch.chance",
        Unclaimed = "Unclaimed.ranges",
        Rooms = "Residency.rooms",
        ScratchPool = "ScratchPool.used",
        Gws = "Gws.resources",
        CodeSpaces = "CodeSpaces.spaces",
        LateSignal = "InFlight.late",
        QueueFailure = "QueueState.failure",
        SdmaTurns = "Turns.state",
        SdmaJobs = "Engine.jobs",
        SdmaJob = "Job.work",
        // Interrupts; the sinks that are called under their lock are below.
        Interrupts = "Interrupts.state",
        // The end of a slice.
        QuiescenceLeft = "Quiescence.lock",
        // No lock of a device is taken under these.
        SliceCounters = "Memory.counters",
        ConfigSpace = "Gpu.pci",
        SmuLoad = "Smu.load",
        Thread = "Gpu.thread",
        DebugSettings = "Debugger.watches",
        Waits = "Waits.pages",
        StaleTlb = "StaleTlb.kept",
        Stops = "Stops.state",
        KnownPages = "Checks.pages",
        SanitizerGrid = "Grid.known",
        Sanitizer = "Sanitizer.state",
        Profiler = "Profiler.state",
        ProfiledKernel = "Kernel.counts",
        Faults = "Faults",
        LateVectors = "Interrupts.late",
        Unmodelled = "Unmodelled",
        Counters = "Counters",
        Wake = "Wake.asleep",
        TraceEpochs = "Tracer.epochs",
        Mirror = "Mirror.state",
        Peers = "Memory.peers",
        Journal = "Journal.state",
    }
    below {
        // Sinks of interrupts.
        VirtioInterrupt = "virtio interrupt",
        RoutesMessages = "Routes.messages",
        RoutesAsserted = "Routes.asserted",
        IrqVectors = "Irqs.vectors",
        SignallerContext = "Signaller.context",
        Line = "Line.state",
        // The vCPUs of Belfry's own machine, asked while the device stands still.
        VcpuGate = "Gate.state",
        // Notices on their way to debuggers elsewhere.
        DebugNotices = "Outbox.files",
        DebugNotice = "Told.file",
        // No lock is taken under these.
        Processors = "Processors.state",
        Console = "Console.state",
        Ending = "Ending.reason",
        RootBusDecoded = "RootBus.decoded",
    }
}
