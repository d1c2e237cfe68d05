//! Errors of a guest, by name.

use std::fmt;

macro_rules! guest_errors {
    ($($name:ident = $text:literal,)*) => {
        /// An error that a guest caused: [`Stats::errors`](crate::Stats::errors) counts each of them.
        ///
        /// The log has the details.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum GuestError {
            $(#[doc = concat!($text, ".")] $name,)*
        }

        impl GuestError {
            /// All errors.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Name in logs and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

guest_errors! {
    FaultInjected = "refused by a fault that was planned",
    QueueHangs = "a queue hangs and cannot be taken off",
    MesFrameCutShort = "MES frame that is cut short",
    MqdNotSaved = "MQD cannot be saved",
    ContextNotSaved = "context of a preempted queue not saved",
    ContextNotRestored = "context of a preempted queue not restored",
    UnknownDoorbell = "doorbell of a queue that does not exist",
    DoorbellsOff = "doorbell while the aperture is off",
    InterruptLost = "interrupt lost",
    PacketRefused = "packet refused",
    QueueStopped = "queue stopped",
    SdmaPacketRefused = "SDMA packet refused",
    RptrReportUnmapped = "read pointer report to an unmapped address",
    FarRegisters = "too many far registers",
    WindowOntoWindow = "window onto a window",
    WindowOutsideVram = "window outside of VRAM",
    PageFault = "page fault",
    IllegalInstruction = "illegal instruction",
    Poison = "memory with an error that cannot be corrected",
    ComputeQueueByRegisters = "compute queue started through registers, which is not modelled",
    Pm4PacketLength = "PM4 packet longer than any this queue takes",
    KernelRingOfAql = "a kernel ring does not hold AQL packets",
    SchedulerQueue = "queue of the scheduler's engine that is not modelled",
    MqdWithoutRing = "the MQD has no ring",
    MqdHeader = "the MQD has the wrong header",
    MqdStride = "MQD of a queue on several XCCs without the place of the others",
    MqdXccs = "MQDs whose XCCs do not share all workgroups among them",
    MqdUnmapped = "MQD at an address that is not mapped",
    MqdRingSize = "MQD with an impossible ring size",
    RingWithoutAddress = "the ring has no address",
    RingTooLarge = "the ring is too large",
    WritePointer = "the write pointer is not within one ring of the read pointer",
    KiqRingUnmapped = "the KIQ's ring is not mapped",
    MesRingUnmapped = "the MES ring is not mapped",
    AddQueueTooEarly = "ADD_QUEUE before SET_HW_RSRC",
    AddQueueGraphics = "ADD_QUEUE of a graphics queue, of which the driver gave none",
    AddQueueKernel = "ADD_QUEUE of a kernel queue, which is not modelled",
    AddQueueOtherProcess = "ADD_QUEUE of a process that is another one already",
    AddQueueProtected = "ADD_QUEUE of a protected queue, which is not modelled",
    AddQueueSdma = "ADD_QUEUE of an SDMA queue on an engine without queues for the scheduler",
    AddQueueType = "ADD_QUEUE of an unknown type",
    AddQueueTooMany = "ADD_QUEUE of more queues than the scheduler keeps",
    AddQueueDoorbell = "ADD_QUEUE with a doorbell that does not exist",
    AddQueueDoorbellTaken = "ADD_QUEUE with a doorbell that is taken",
    AddQueueRange = "ADD_QUEUE with an impossible address range",
    MiscOpcode = "MES MISC opcode that is not modelled",
    FenceUnmapped = "MES fence at an address that is not mapped",
    MesFrameType = "MES frame of an unknown type",
    MesFrameSize = "MES frame of the wrong size",
    MesFrameLength = "frame of the wrong length",
    MesOpcodeUnknown = "MES opcode that does not exist",
    MesOpcode = "MES opcode that is not modelled",
    ReadRegUnmapped = "READ_REG to an address that is not mapped",
    RemoveQueueKernel = "REMOVE_QUEUE of a kernel queue that is not mapped",
    RemoveQueueUnknown = "REMOVE_QUEUE of a queue that does not exist",
    ResourcesInUse = "SET_HW_RSRC while queues exist",
    ResourcesWithoutVmids = "SET_HW_RSRC without VMIDs",
    ResourcesWithoutQueues = "SET_HW_RSRC without compute queues",
    ShaderDebugger = "SET_SHADER_DEBUGGER, which is not modelled",
    SuspendFenceUnmapped = "SUSPEND fence at an address that is not mapped",
    GangUnknown = "SUSPEND or RESUME of a gang that does not exist",
    WaitForever = "WAIT_REG_MEM for what never comes",
    WaitOperation = "WAIT_REG_MEM with an unknown operation",
    WaitFunction = "WAIT_REG_MEM with a function that does not exist",
    WaitOnMemory = "WAIT_REG_MEM on memory, for which the KIQ does not wait",
    ProcessWithoutTables = "process without valid page tables",
    QueueNotWaiting = "queue that is on a slot, or has failed",
    KiqIndirectBuffer = "INDIRECT_BUFFER on the KIQ, which is not modelled",
    MapQueuesEngine = "MAP_QUEUES for an engine other than the scheduler",
    MapQueuesCompute = "MAP_QUEUES of a compute queue, which is not modelled",
    MapQueuesGraphics = "MAP_QUEUES of a graphics ring, which is not modelled",
    MapQueuesSdma = "MAP_QUEUES of an SDMA ring of the kernel, which is not modelled",
    MapQueuesNotGiven = "MAP_QUEUES of a queue SET_RESOURCES did not give",
    MapQueuesMicroEngine = "MAP_QUEUES of the scheduler on a micro engine that is not its own",
    KiqInterrupt = "RELEASE_MEM with an interrupt on the KIQ, which is not modelled",
    ResourcesOfOtherQueue = "SET_RESOURCES for a queue other than the KIQ",
    UnmapQueuesSelect = "UNMAP_QUEUES other than by doorbell, which is not modelled",
    UnmapQueuesUnknown = "UNMAP_QUEUES of a queue that does not exist",
    HwsPacket = "packet that the HIQ does not take",
    HwsRing = "HIQ that is mapped more than once",
    HwsPartition = "HIQ on an XCC whose partition is not what its other XCCs say",
    RunListUnmapped = "RUN_LIST at an address that is not mapped",
    RunListInvalid = "RUN_LIST without VALID, or without a list",
    RunListPacket = "run list with a packet that does not belong there",
    RunListWithoutProcess = "run list with a queue before its process",
    HwsLaunch = "MAP_PROCESS with a launch mode, or bits of SPI_GDBG_PER_VMID_CNTL, that do not exist",
    HwsWatch = "MAP_PROCESS with a TCP_WATCHn_CNTL that has a VMID, or ATC",
    HwsDebuggers = "MAP_PROCESS of more processes with a debugger than the scheduler keeps",
    HwsQueueType = "MAP_QUEUES of a queue type that is not modelled",
    HwsQueueEngine = "MAP_QUEUES of an engine that does not exist",
    HwsQueueSelect = "MAP_QUEUES that does not leave the slot of one queue to the scheduler",
    HwsDoorbell = "MAP_QUEUES with a doorbell that belongs to another engine",
    UnmapQueuesAction = "UNMAP_QUEUES with an action that is not modelled",
    UnmapQueuesEngine = "UNMAP_QUEUES for an engine other than compute",
    Pm4Type = "PM4 packet of a type this queue does not take",
    Pm4Opcode = "PM4 opcode this queue does not know",
    Pm4Length = "PM4 packet of the wrong length",
    Pm4Unmodelled = "PM4 packet that is not modelled",
    Pm4Unmapped = "PM4 packet with an unmapped address",
    Pm4Buffer = "PM4 indirect buffer that is refused",
    RingBufferVmid = "indirect buffer of a kernel ring in a VMID without page tables",
    RemoveQueuePreempt = "REMOVE_QUEUE that preempts a graphics ring, which is not modelled",
    AddQueuePlace = "ADD_QUEUE of a kernel queue on a hardware queue that does not exist, or that the scheduler gives to others",
    SdmaRingSpace = "ring of an SDMA engine without VMID 0",
    SdmaRingSize = "ring of an SDMA engine with an impossible size, or without an address",
    SdmaRingDoorbell = "ring of an SDMA engine without a doorbell, which is not modelled",
    PspBootCommand = "command that the boot loader of the PSP does not know",
    PspBootOrder = "operating system of the PSP before its system driver",
    PspBootOver = "command to the boot loader of a PSP whose operating system runs",
    PspNotUp = "command about the ring of a PSP whose operating system does not run",
    PspRingCommand = "command about the PSP's ring that is not modelled",
    PspRingSize = "ring of the PSP with an impossible size",
    PspNoRing = "write pointer of a PSP without a ring",
    PspWritePointer = "write pointer of the PSP outside of its ring, or within a frame",
    PspUnmapped = "frame, command, answer or fence of the PSP at an address that is not mapped",
    PspCommand = "command of the PSP that is not modelled",
    PspCommandOrder = "command of the PSP at the wrong time",
    PspNoBytes = "command of the PSP that loads nothing",
    PspSession = "command of the PSP for an application that is not loaded",
    PspSessions = "more applications than the PSP takes",
    PspApplication = "call of an application of the PSP, which is not modelled",
    SmuMessage = "message of the SMU that is not modelled",
    SmuDebugMessage = "message to the mailbox for tests of the SMU, which is not modelled",
    SmuClock = "clock of the SMU, or level of one, that does not exist",
    SmuPowerLimit = "limit of power that the SMU cannot have",
    SmuTable = "table of the SMU that is not modelled",
    SmuTableUnmapped = "table of the SMU at an address that is not mapped",
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for GuestError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_tell_errors_apart() {
        let names: BTreeSet<_> = GuestError::ALL.iter().map(|error| error.name()).collect();
        assert_eq!(names.len(), GuestError::ALL.len());
    }
}
