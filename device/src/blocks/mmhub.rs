//! MM hub: its contexts are storage, because the engines run in the GC hub's.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::mmhub::{
    self, MMMC_VM_FB_LOCATION_BASE, MMMC_VM_FB_LOCATION_TOP, MMVM_INVALIDATE_ENG0_ACK,
    MMVM_INVALIDATE_ENG0_REQ, MMVM_INVALIDATE_ENG0_SEM,
};
use belfry_abi::regs::{Ip, Offset, Register};

use super::invalidation::{Invalidation, Registers};
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
    invalidation: Invalidation,
    frame_buffer: FrameBuffer,
}

impl Mmhub {
    /// A hub that finds VRAM at this place, as the card's own firmware leaves it.
    pub(crate) fn new(contexts: Arc<Contexts>, frame_buffer: FrameBuffer) -> Self {
        let invalidation = Invalidation::new(INVALIDATION, contexts);
        let hub = Self { storage: Storage::new(mmhub::ALL), invalidation, frame_buffer };
        hub.reset();
        hub
    }
}

shows_registers!(Mmhub, storage);

impl Block for Mmhub {
    fn ip(&self) -> (Ip, u8) {
        (mmhub::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.extend(self.invalidation.claims());
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        self.invalidation.read(at).unwrap_or_else(|| self.storage.read(at))
    }

    fn write(&self, at: Offset, value: u32) {
        if !self.invalidation.write(at, value) {
            self.storage.write(at, value);
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.invalidation.kept()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage.set(MMMC_VM_FB_LOCATION_BASE::from_bits(self.frame_buffer.base));
        self.storage.set(MMMC_VM_FB_LOCATION_TOP::from_bits(self.frame_buffer.top));
        self.invalidation.reset();
    }
}
