//! Command numbers of the KFD node (`AMDKFD_IOC_*`), and the fields of a command word
//! (`include/uapi/asm-generic/ioctl.h`).

/// Interface version that the driver reports, equal to Linux 6.12: with debuggers (1.13), event ages (1.14),
/// mappings by GEM_VA (1.15), contiguous VRAM (1.16) and SDMA queues by engine (1.17).
pub const KFD_IOCTL_MAJOR_VERSION: u32 = 1;
/// See [`KFD_IOCTL_MAJOR_VERSION`].
pub const KFD_IOCTL_MINOR_VERSION: u32 = 17;

/// `AMDKFD_IOCTL_BASE`, the type byte of every command.
pub const KFD_IOC_TYPE: u8 = b'K';

/// The command copies its arguments in.
pub const IOC_WRITE: u32 = 1;
/// The command copies its arguments out.
pub const IOC_READ: u32 = 2;

/// Returns the number of a command (`_IOC_NR`).
#[must_use]
pub const fn ioc_nr(command: u32) -> u8 {
    (command & 0xff) as u8
}

/// Returns the type byte of a command (`_IOC_TYPE`).
#[must_use]
pub const fn ioc_type(command: u32) -> u8 {
    (command >> 8 & 0xff) as u8
}

/// Returns the argument size of a command in bytes, below 16 KiB (`_IOC_SIZE`).
#[must_use]
pub const fn ioc_size(command: u32) -> usize {
    (command >> 16 & 0x3fff) as usize
}

/// Returns the direction bits of a command (`_IOC_DIR`): [`IOC_WRITE`], [`IOC_READ`].
#[must_use]
pub const fn ioc_dir(command: u32) -> u32 {
    command >> 30
}

/// Composes a command word (`_IOC`).
#[must_use]
pub const fn ioc(dir: u32, ty: u8, nr: u8, size: usize) -> u32 {
    dir << 30 | (size as u32) << 16 | (ty as u32) << 8 | nr as u32
}

macro_rules! commands {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = concat!("`AMDKFD_IOC_", stringify!($name), "`: ", $text)] pub const $name: u32 = $value;)*

        /// Every command with its name, in order of their numbers.
        pub const COMMANDS: &[(&str, u32)] = &[$((stringify!($name), $name),)*];
    };
}

commands! {
    GET_VERSION = 0x8008_4b01, "interface version.";
    CREATE_QUEUE = 0xc060_4b02, "user-mode queue. The 88-byte form of 6.12 is `0xc058_4b02`.";
    DESTROY_QUEUE = 0xc008_4b03, "removes a queue.";
    SET_MEMORY_POLICY = 0x4020_4b04, "default cache policy of an aperture.";
    GET_CLOCK_COUNTERS = 0xc028_4b05, "three clocks read together.";
    GET_PROCESS_APERTURES = 0x8190_4b06, "apertures of up to 7 GPUs.";
    UPDATE_QUEUE = 0x4018_4b07, "ring, share and priority of a queue.";
    CREATE_EVENT = 0xc020_4b08, "event.";
    DESTROY_EVENT = 0x4008_4b09, "removes an event.";
    SET_EVENT = 0x4008_4b0a, "sets a signal event.";
    RESET_EVENT = 0x4008_4b0b, "resets a signal event.";
    WAIT_EVENTS = 0xc018_4b0c, "waits for events.";
    DBG_REGISTER_DEPRECATED = 0x4008_4b0d, "refused.";
    DBG_UNREGISTER_DEPRECATED = 0x4008_4b0e, "refused.";
    DBG_ADDRESS_WATCH_DEPRECATED = 0x4010_4b0f, "refused.";
    DBG_WAVE_CONTROL_DEPRECATED = 0x4010_4b10, "refused.";
    SET_SCRATCH_BACKING_VA = 0xc010_4b11, "where scratch lies; for old GPUs.";
    GET_TILE_CONFIG = 0xc028_4b12, "image tiling.";
    SET_TRAP_HANDLER = 0x4018_4b13, "second-level trap handler.";
    GET_PROCESS_APERTURES_NEW = 0xc010_4b14, "apertures of any number of GPUs.";
    ACQUIRE_VM = 0x4008_4b15, "takes the GPU address space of a render node's file.";
    ALLOC_MEMORY_OF_GPU = 0xc028_4b16, "buffer object.";
    FREE_MEMORY_OF_GPU = 0x4008_4b17, "removes a buffer object.";
    MAP_MEMORY_TO_GPU = 0xc018_4b18, "maps a buffer object into the GPU's address space.";
    UNMAP_MEMORY_FROM_GPU = 0xc018_4b19, "unmaps it.";
    SET_CU_MASK = 0x4010_4b1a, "compute units a queue may use.";
    GET_QUEUE_WAVE_STATE = 0xc018_4b1b, "context save area of a stopped queue.";
    GET_DMABUF_INFO = 0xc020_4b1c, "what a DMA-buf is.";
    IMPORT_DMABUF = 0xc018_4b1d, "DMA-buf to buffer object.";
    ALLOC_QUEUE_GWS = 0xc010_4b1e, "global wave sync.";
    SMI_EVENTS = 0xc008_4b1f, "system management event stream.";
    SVM = 0xc018_4b20, "shared virtual memory ranges; the size grows by 8 per attribute.";
    SET_XNACK_MODE = 0xc004_4b21, "retry faults.";
    CRIU_OP = 0xc038_4b22, "checkpoint and restore.";
    AVAILABLE_MEMORY = 0xc010_4b23, "free VRAM.";
    EXPORT_DMABUF = 0xc010_4b24, "buffer object to DMA-buf.";
    RUNTIME_ENABLE = 0xc010_4b25, "debugger handshake of the runtime.";
    DBG_TRAP = 0xc020_4b26, "debugger.";
}

/// `AMDKFD_IOC_IPC_IMPORT_HANDLE` of AMD's own kernel module (DKMS); Linux has no such command.
pub const IPC_IMPORT_HANDLE: u32 = 0xc030_4b80;
/// `AMDKFD_IOC_IPC_EXPORT_HANDLE` of AMD's own kernel module (DKMS); Linux has no such command.
pub const IPC_EXPORT_HANDLE: u32 = 0xc020_4b81;

/// `AMDKFD_COMMAND_END` of Linux 6.12: numbers from here on do not exist.
pub const KFD_COMMAND_END: u8 = 0x27;

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::*;
    use crate::kfd::{aperture, debug, event, memory, misc, queue, smi, svm};

    #[test]
    fn command_words_carry_their_argument_sizes() {
        let sizes = [
            (GET_VERSION, size_of::<misc::GetVersionArgs>()),
            (CREATE_QUEUE, size_of::<queue::CreateQueueArgs>()),
            (DESTROY_QUEUE, size_of::<queue::DestroyQueueArgs>()),
            (SET_MEMORY_POLICY, size_of::<misc::SetMemoryPolicyArgs>()),
            (GET_CLOCK_COUNTERS, size_of::<misc::GetClockCountersArgs>()),
            (GET_PROCESS_APERTURES, size_of::<aperture::GetProcessAperturesArgs>()),
            (UPDATE_QUEUE, size_of::<queue::UpdateQueueArgs>()),
            (CREATE_EVENT, size_of::<event::CreateEventArgs>()),
            (SMI_EVENTS, size_of::<smi::SmiEventsArgs>()),
            (SET_EVENT, size_of::<event::EventIdArgs>()),
            (WAIT_EVENTS, size_of::<event::WaitEventsArgs>()),
            (GET_TILE_CONFIG, size_of::<misc::GetTileConfigArgs>()),
            (SET_TRAP_HANDLER, size_of::<misc::SetTrapHandlerArgs>()),
            (GET_PROCESS_APERTURES_NEW, size_of::<aperture::GetProcessAperturesNewArgs>()),
            (ACQUIRE_VM, size_of::<memory::AcquireVmArgs>()),
            (ALLOC_MEMORY_OF_GPU, size_of::<memory::AllocMemoryOfGpuArgs>()),
            (FREE_MEMORY_OF_GPU, size_of::<memory::FreeMemoryOfGpuArgs>()),
            (MAP_MEMORY_TO_GPU, size_of::<memory::MapMemoryToGpuArgs>()),
            (UNMAP_MEMORY_FROM_GPU, size_of::<memory::MapMemoryToGpuArgs>()),
            (SET_CU_MASK, size_of::<queue::SetCuMaskArgs>()),
            (ALLOC_QUEUE_GWS, size_of::<queue::AllocQueueGwsArgs>()),
            (SET_XNACK_MODE, size_of::<misc::SetXnackModeArgs>()),
            (GET_DMABUF_INFO, size_of::<memory::GetDmabufInfoArgs>()),
            (IMPORT_DMABUF, size_of::<memory::ImportDmabufArgs>()),
            (AVAILABLE_MEMORY, size_of::<memory::GetAvailableMemoryArgs>()),
            (EXPORT_DMABUF, size_of::<memory::ExportDmabufArgs>()),
            (IPC_IMPORT_HANDLE, size_of::<memory::IpcImportHandleArgs>()),
            (IPC_EXPORT_HANDLE, size_of::<memory::IpcExportHandleArgs>()),
            (SVM, size_of::<svm::SvmArgs>()),
            (RUNTIME_ENABLE, size_of::<debug::RuntimeEnableArgs>()),
            (DBG_TRAP, size_of::<debug::DbgTrapArgs>()),
        ];
        for (command, size) in sizes {
            assert_eq!(ioc_size(command), size, "command {command:#x}");
        }
    }

    #[test]
    fn command_numbers_are_dense_and_typed() {
        for (index, (name, command)) in COMMANDS.iter().enumerate() {
            assert_eq!(usize::from(ioc_nr(*command)), index + 1, "{name}");
            assert_eq!(ioc_type(*command), KFD_IOC_TYPE, "{name}");
            assert_eq!(ioc(ioc_dir(*command), KFD_IOC_TYPE, ioc_nr(*command), ioc_size(*command)), *command);
        }
        assert_eq!(COMMANDS.len() + 1, usize::from(KFD_COMMAND_END));
    }
}
