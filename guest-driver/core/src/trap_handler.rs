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
/// Address of the code (`SVM_CWSR_BASE`).
pub(crate) const TBA: u64 = GPUVM_BASE - SIZE;
/// Distance of the first node's trap memory from the code (`KFD_CWSR_TMA_OFFSET`); that of each further one follows.
const TMA_OFFSET: u64 = PAGE_SIZE + 2048;
/// Bytes of a node's: what its address is a multiple of.
const TMA_SIZE: u64 = 256;
/// Nodes that there is room for.
const NODES: u32 = ((SIZE - TMA_OFFSET) / TMA_SIZE) as u32;

const fn tma_offset(node: u32) -> u64 {
    TMA_OFFSET + TMA_SIZE * (node % NODES) as u64
}

/// Address of a node's trap memory.
pub(crate) const fn tma(node: u32) -> u64 {
    TBA + tma_offset(node)
}

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
        vm.map(TBA, device.hw.vram_base() + memory.offset(), SIZE, vm.page_bits(rights))?;
        Ok(Self { memory })
    }

    /// Sets the program's handler on a node, and its trap memory (`kfd_process_set_trap_handler`).
    pub(crate) fn set_program(&self, node: u32, tba: u64, tma: u64) {
        let hw = self.memory.hw();
        hw.vram_write(self.memory.offset() + tma_offset(node), [tba, tma].as_bytes());
        hw.flush_hdp();
    }

    /// No node has a handler of the program.
    pub(crate) fn clear_programs(&self) {
        (0..NODES).for_each(|node| self.set_program(node, 0, 0));
    }

    /// Says whether a debugger is attached (`kfd_process_set_trap_debug_flag`).
    pub(crate) fn set_debugged(&self, debugged: bool) {
        for node in 0..NODES {
            let at = self.memory.offset() + tma_offset(node) + 16;
            self.memory.hw().vram_write(at, u64::from(debugged).as_bytes());
        }
        self.memory.hw().flush_hdp();
    }

    /// Returns whether a range touches the pages.
    pub(crate) fn overlaps(va: u64, size: u64) -> bool {
        va < TBA + SIZE && va.saturating_add(size) > TBA
    }
}
