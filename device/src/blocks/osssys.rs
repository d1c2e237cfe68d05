//! Interrupt handler: its rings, and the table of the processes that VMIDs belong to.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::gfx9::{
    self,
    osssys::{IH_RETRY_CAM_ACK, IH_VMID_0_LUT_MM},
};
use belfry_abi::regs::layout::OWN;
use belfry_abi::regs::osssys::{self, IH_VMID_0_LUT};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::interrupt::Interrupts;
use crate::regs::{Block, Run, Storage};
use crate::vm::{Contexts, VMIDS};

const CONTEXTS: u32 = VMIDS as u32;

/// The VMID of an entry of a table; `IH_VMID_LUT_INDEX` selects one of several tables, which are all equal.
fn vmid(at: Offset) -> Option<u8> {
    let tables = [IH_VMID_0_LUT::AT, IH_VMID_0_LUT_MM::AT];
    tables.into_iter().find_map(|first| at.element(first, CONTEXTS)).map(|vmid| vmid as u8)
}

/// The operating system services block.
pub(crate) struct Osssys {
    storage: Storage,
    /// Registers that only chips of gfx9 have.
    storage_gfx9: Storage,
    interrupts: Arc<Interrupts>,
    contexts: Arc<Contexts>,
}

impl Osssys {
    pub(crate) fn new(interrupts: Arc<Interrupts>, contexts: Arc<Contexts>) -> Self {
        let (storage, storage_gfx9) = (Storage::new(osssys::ALL), Storage::new(gfx9::osssys::ALL));
        Self { storage, storage_gfx9, interrupts, contexts }
    }
}

shows_registers!(Osssys, storage);

impl Block for Osssys {
    fn ip(&self) -> (Ip, u8) {
        (osssys::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.extend(self.storage_gfx9.claims());
        claims.extend([IH_VMID_0_LUT::AT, IH_VMID_0_LUT_MM::AT].map(|first| Run { first, count: CONTEXTS }));
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        if let Some(vmid) = vmid(at) {
            return self.contexts.pasid(vmid).into();
        }
        let storage = if at.segment >= OWN { &self.storage_gfx9 } else { &self.storage };
        self.interrupts.read_register(at).unwrap_or_else(|| storage.read(at))
    }

    fn write(&self, at: Offset, value: u32) {
        if let Some(vmid) = vmid(at) {
            self.contexts.set_pasid(vmid, IH_VMID_0_LUT::from_bits(value).pasid() as u16);
        } else if at == IH_RETRY_CAM_ACK::AT {
            if let Some((vmid, page)) = self.interrupts.acknowledge_retry(value) {
                self.contexts.retried(vmid, page);
            }
        } else if !self.interrupts.write_register(at, value) {
            let storage = if at.segment >= OWN { &self.storage_gfx9 } else { &self.storage };
            storage.write(at, value);
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.storage_gfx9.kept()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage_gfx9.reset();
    }
}
