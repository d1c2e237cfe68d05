//! The order of locks: every rank, outermost first.
//!
//! If two locks nest, the one that is taken first is above. If they do not, their order has no meaning.

/// The rank of a lock; this module has them all.
pub trait Rank {
    /// Place in the order: a thread takes locks with growing positions.
    const POSITION: u8;
}

macro_rules! ranks {
    ($($name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Position { $($name),* }

        /// Names of locks in messages, by position.
        #[cfg(debug_assertions)]
        pub(super) const NAMES: &[&str] = &[$($text),*];

        $(
            #[doc = concat!("`", $text, "`.")]
            #[derive(Debug)]
            pub enum $name {}

            impl Rank for $name {
                const POSITION: u8 = Position::$name as u8;
            }
        )*
    };
}

ranks! {
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
    // Interrupts, and the sinks that are called under their lock.
    Interrupts = "Interrupts.state",
    VirtioInterrupt = "virtio interrupt",
    RoutesMessages = "Routes.messages",
    RoutesAsserted = "Routes.asserted",
    IrqVectors = "Irqs.vectors",
    SignallerContext = "Signaller.context",
    Line = "Line.state",
    // The end of a slice.
    QuiescenceLeft = "Quiescence.lock",
    // The vCPUs of Belfry's own machine, asked while the device stands still.
    VcpuGate = "Gate.state",
    // Notices on their way to debuggers elsewhere.
    DebugNotices = "Outbox.files",
    DebugNotice = "Told.file",
    // No lock is taken under these.
    SliceCounters = "Memory.counters",
    ConfigSpace = "Gpu.pci",
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
    Journal = "Journal.state",
    Console = "Console.state",
    Ending = "Ending.reason",
    RootBusDecoded = "RootBus.decoded",
}
