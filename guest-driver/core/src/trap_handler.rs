//! The driver's trap handler in the address space of a process (`kfd_process.c`, `kfd_process_device_init_cwsr_dgpu`).
//!
//! Two pages below the addresses that user space has: the code, and the trap memory with the addresses of the handler that
//! the program has set and of its trap memory. Waves that are preempted save themselves in the code; traps go on to the
//! program's handler.

use alloc::sync::Arc;

use belfry_abi::kfd::aperture::GPUVM_BASE;
use zerocopy::IntoBytes;

use crate::asic::PageRights;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{Os, PAGE_SIZE};
use crate::vm::Vm;
use crate::vram::VramMemory;

/// Bytes of code and trap memory (`KFD_CWSR_TBA_TMA_SIZE`).
const SIZE: u64 = 2 * PAGE_SIZE;
/// Where the code is (`SVM_CWSR_BASE`).
pub(crate) const TBA: u64 = GPUVM_BASE - SIZE;
/// Where the trap memory is (`KFD_CWSR_TMA_OFFSET` behind the code).
pub(crate) const TMA: u64 = TBA + TMA_OFFSET;
const TMA_OFFSET: u64 = PAGE_SIZE + 2048;

/// The pages of one process.
pub(crate) struct TrapHandler<O: Os> {
    memory: VramMemory<O>,
}

impl<O: Os> TrapHandler<O> {
    /// Installs the handler in an address space that no queue runs in yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn install(device: &Arc<Device<O>>, vm: &mut Vm<O>) -> Result<Self> {
        let code = device.hw.asic().trap_handler;
        let memory = device.vram.allocate(SIZE, true)?;
        if code.len() as u64 > PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        device.hw.vram_fill(memory.offset(), SIZE, 0);
        device.hw.vram_write(memory.offset(), code);
        let rights =
            PageRights { readable: true, writable: false, executable: true, system: false, uncached: false };
        vm.map(TBA, memory.offset(), SIZE, vm.page_bits(rights))?;
        Ok(Self { memory })
    }

    /// Sets the program's handler and its trap memory (`kfd_process_set_trap_handler`).
    pub(crate) fn set_program(&self, tba: u64, tma: u64) {
        self.memory.hw().vram_write(self.memory.offset() + TMA_OFFSET, [tba, tma].as_bytes());
    }

    /// Says whether a debugger is attached (`kfd_process_set_trap_debug_flag`).
    pub(crate) fn set_debugged(&self, debugged: bool) {
        self.memory.hw().vram_write(self.memory.offset() + TMA_OFFSET + 16, u64::from(debugged).as_bytes());
    }

    /// Whether a range touches the pages.
    pub(crate) fn overlaps(va: u64, size: u64) -> bool {
        va < TBA + SIZE && va.saturating_add(size) > TBA
    }
}
