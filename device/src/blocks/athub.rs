//! Address translation hub: the process of each VMID.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::gfx9::athub::{self, ATC_VMID_PASID_MAPPING_UPDATE_STATUS, ATC_VMID0_PASID_MAPPING};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::regs::{Block, Run};
use crate::vm::{Contexts, VMIDS};

const CONTEXTS: u32 = VMIDS as u32;

/// The hub of chips whose drivers find there the VMIDs that firmware has chosen.
pub(crate) struct Athub {
    contexts: Arc<Contexts>,
    /// `ATC_VMID_PASID_MAPPING_UPDATE_STATUS`.
    updated: AtomicU32,
}

impl Athub {
    pub(crate) fn new(contexts: Arc<Contexts>) -> Self {
        Self { contexts, updated: AtomicU32::new(0) }
    }
}

impl std::fmt::Debug for Athub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Athub").field("updated", &self.updated).finish_non_exhaustive()
    }
}

impl Block for Athub {
    fn ip(&self) -> (Ip, u8) {
        (athub::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        let status = Run { first: ATC_VMID_PASID_MAPPING_UPDATE_STATUS::AT, count: 1 };
        vec![status, Run { first: ATC_VMID0_PASID_MAPPING::AT, count: CONTEXTS }]
    }

    fn read(&self, at: Offset) -> u32 {
        let Some(vmid) = at.element(ATC_VMID0_PASID_MAPPING::AT, CONTEXTS) else {
            return self.updated.load(Ordering::Acquire);
        };
        let pasid = self.contexts.pasid(vmid as u8);
        let mut mapping = ATC_VMID0_PASID_MAPPING::default();
        mapping.set_pasid(pasid.into());
        mapping.set_valid(pasid != 0);
        mapping.bits()
    }

    fn write(&self, at: Offset, value: u32) {
        let Some(vmid) = at.element(ATC_VMID0_PASID_MAPPING::AT, CONTEXTS) else {
            self.updated.fetch_and(!value, Ordering::AcqRel);
            return;
        };
        let mapping = ATC_VMID0_PASID_MAPPING::from_bits(value);
        let pasid = if mapping.valid() { mapping.pasid() as u16 } else { 0 };
        self.contexts.set_pasid(vmid as u8, pasid);
        self.updated.fetch_or(1 << vmid, Ordering::AcqRel);
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        vec![&self.updated]
    }

    fn reset(&self) {
        self.updated.store(0, Ordering::Release);
    }
}
