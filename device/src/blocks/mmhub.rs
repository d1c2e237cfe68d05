//! MM hub: its contexts are storage, because the engines run in the GC hub's.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::gfx9::{
    self,
    mmhub::{
        MMMC_VM_XGMI_LFB_CNTL, MMMC_VM_XGMI_LFB_SIZE, MMVM_L2_PROTECTION_FAULT_ADDR_HI32,
        MMVM_L2_PROTECTION_FAULT_ADDR_LO32, MMVM_L2_PROTECTION_FAULT_CNTL, MMVM_L2_PROTECTION_FAULT_STATUS,
    },
};
use belfry_abi::regs::layout::OWN;
use belfry_abi::regs::mmhub::{
    self, MMMC_VM_FB_LOCATION_BASE, MMMC_VM_FB_LOCATION_TOP, MMVM_INVALIDATE_ENG0_ACK,
    MMVM_INVALIDATE_ENG0_REQ, MMVM_INVALIDATE_ENG0_SEM,
};
use belfry_abi::regs::{Ip, Offset, Register};

use super::invalidation::{Invalidation, Registers};
use crate::memory::Hive;
use crate::regs::{Block, Run, Storage};
use crate::vm::{Contexts, FrameBuffer};

const INVALIDATION: Registers = Registers {
    semaphore: MMVM_INVALIDATE_ENG0_SEM::AT,
    request: MMVM_INVALIDATE_ENG0_REQ::AT,
    request_reset: MMVM_INVALIDATE_ENG0_REQ::RESET,
    acknowledge: MMVM_INVALIDATE_ENG0_ACK::AT,
};

/// One MM hub.
pub(crate) struct Mmhub {
    storage: Storage,
    /// Registers that only chips of gfx9 have.
    storage_gfx9: Storage,
    invalidation: Invalidation,
    contexts: Arc<Contexts>,
    frame_buffer: FrameBuffer,
    /// Number of its die.
    instance: u8,
}

impl Mmhub {
    /// A hub that finds VRAM at this place, as the card's own firmware leaves it.
    pub(crate) fn new(contexts: Arc<Contexts>, frame_buffer: FrameBuffer, instance: u8) -> Self {
        let invalidation = Invalidation::new(INVALIDATION, Arc::clone(&contexts));
        let (storage, storage_gfx9) = (Storage::new(mmhub::ALL), Storage::new(gfx9::mmhub::ALL));
        let hub = Self { storage, storage_gfx9, invalidation, contexts, frame_buffer, instance };
        hub.reset();
        hub
    }
}

shows_registers!(Mmhub, storage);

impl Block for Mmhub {
    fn ip(&self) -> (Ip, u8) {
        (mmhub::IP, self.instance)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.extend(self.storage_gfx9.claims());
        claims.extend(self.invalidation.claims());
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        match at {
            // The engines translate in one hub, which keeps one fault.
            MMVM_L2_PROTECTION_FAULT_STATUS::AT => self.contexts.fault().status.bits(),
            MMVM_L2_PROTECTION_FAULT_ADDR_LO32::AT => self.contexts.fault().page as u32,
            MMVM_L2_PROTECTION_FAULT_ADDR_HI32::AT => (self.contexts.fault().page >> 32) as u32,
            _ if at.segment >= OWN => self.storage_gfx9.read(at),
            _ => self.invalidation.read(at).unwrap_or_else(|| self.storage.read(at)),
        }
    }

    fn write(&self, at: Offset, value: u32) {
        if at == MMVM_L2_PROTECTION_FAULT_CNTL::AT {
            let mut cntl = MMVM_L2_PROTECTION_FAULT_CNTL::from_bits(value);
            if cntl.clear_protection_fault_status_addr() {
                self.contexts.clear_fault();
                cntl.set_clear_protection_fault_status_addr(false);
            }
            self.storage_gfx9.set(cntl);
        } else if at.segment >= OWN {
            self.storage_gfx9.write(at, value);
        } else if !self.invalidation.write(at, value) {
            self.storage.write(at, value);
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.storage_gfx9.kept(), self.invalidation.kept()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage_gfx9.reset();
        if let Some((region, last, size)) = self.contexts.hive().map(Hive::registers) {
            let (mut cntl, mut bytes) = (MMMC_VM_XGMI_LFB_CNTL::default(), MMMC_VM_XGMI_LFB_SIZE::default());
            cntl.set_pf_lfb_region(region);
            cntl.set_pf_max_region(last);
            bytes.set_pf_lfb_size(size);
            self.storage_gfx9.set(cntl);
            self.storage_gfx9.set(bytes);
        }
        self.storage.set(MMMC_VM_FB_LOCATION_BASE::from_bits(self.frame_buffer.base));
        self.storage.set(MMMC_VM_FB_LOCATION_TOP::from_bits(self.frame_buffer.top));
        self.invalidation.reset();
    }
}
