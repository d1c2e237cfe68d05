//! Processes as the scheduler knows them: page tables, PASID, and the VMID they run under while they do.

use std::sync::Arc;

use belfry_abi::mes::AddQueue;

use crate::vm::AddressSpace;

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pasid: u16,
    /// `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(super) base: u64,
    /// First and last virtual page.
    pub(super) range: (u64, u64),
    /// `GCVM_CONTEXTn_CNTL`.
    pub(super) cntl: u32,
    /// The VMID it holds.
    pub(super) vmid: Option<u8>,
    /// Its address space, once it has had a VMID.
    pub(super) space: Option<Arc<AddressSpace>>,
    /// Queues added and not removed.
    pub(super) queues: u32,
}

impl Process {
    pub(super) fn new(frame: &AddQueue) -> Self {
        Self {
            pasid: frame.process_id as u16,
            base: frame.page_table_base_addr.get(),
            range: (frame.process_va_start.get(), frame.process_va_end.get()),
            cntl: frame.vm_context_cntl,
            vmid: None,
            space: None,
            queues: 0,
        }
    }

    /// Whether another frame means the same process.
    pub(super) fn agrees(&self, frame: &AddQueue) -> bool {
        self.pasid == frame.process_id as u16 && self.base == frame.page_table_base_addr.get()
    }
}
