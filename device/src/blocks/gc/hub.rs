//! GC hub: the registers of the VM contexts that the engines run in, and of the engines that invalidate translations.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::gc::{
    GCMC_VM_FB_LOCATION_BASE, GCMC_VM_FB_LOCATION_TOP, GCMC_VM_FB_OFFSET, GCVM_CONTEXT0_CNTL,
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, GCVM_INVALIDATE_ENG0_ACK, GCVM_INVALIDATE_ENG0_REQ,
    GCVM_INVALIDATE_ENG0_SEM, GCVM_L2_PROTECTION_FAULT_ADDR_HI32, GCVM_L2_PROTECTION_FAULT_ADDR_LO32,
    GCVM_L2_PROTECTION_FAULT_STATUS,
};
use belfry_abi::regs::{Offset, Register};

use crate::blocks::invalidation::{Invalidation, Registers};
use crate::regs::Run;
use crate::vm::{Contexts, Tables, VMIDS};

const CONTEXTS: u32 = VMIDS as u32;

const INVALIDATION: Registers = Registers {
    semaphore: GCVM_INVALIDATE_ENG0_SEM::AT,
    request: GCVM_INVALIDATE_ENG0_REQ::AT,
    request_reset: GCVM_INVALIDATE_ENG0_REQ::RESET,
    acknowledge: GCVM_INVALIDATE_ENG0_ACK::AT,
};

/// A 64-bit part of a context's tables.
type Part = fn(&mut Tables) -> &mut u64;

/// Pairs of registers for the 64-bit parts of a context's tables: VMID n is 2n dwords further.
const PAIRS: [(Offset, Part); 3] = [
    (GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32::AT, |tables| &mut tables.base),
    (GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32::AT, |tables| &mut tables.start),
    (GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32::AT, |tables| &mut tables.end),
];

/// Half of a part of a context's tables.
#[derive(Clone, Copy)]
struct Half {
    vmid: u8,
    part: Part,
    /// 0 or 32.
    shift: u32,
}

fn half(at: Offset) -> Option<Half> {
    PAIRS.into_iter().find_map(|(first, part)| {
        let element = at.element(first, 2 * CONTEXTS)?;
        Some(Half { vmid: (element / 2) as u8, part, shift: element % 2 * 32 })
    })
}

/// The hub.
#[derive(Debug)]
pub(super) struct Hub {
    contexts: Arc<Contexts>,
    invalidation: Invalidation,
}

impl Hub {
    pub(super) fn new(contexts: Arc<Contexts>) -> Self {
        Self { invalidation: Invalidation::new(INVALIDATION, Arc::clone(&contexts)), contexts }
    }

    /// Arrays of registers; the block itself claims the registers that it declares one by one.
    pub(super) fn claims(&self) -> Vec<Run> {
        let mut claims = self.invalidation.claims();
        claims.push(Run { first: GCVM_CONTEXT0_CNTL::AT, count: CONTEXTS });
        claims.extend(PAIRS.map(|(first, _)| Run { first, count: 2 * CONTEXTS }));
        claims
    }

    pub(super) fn read(&self, at: Offset) -> Option<u32> {
        if let Some(vmid) = at.element(GCVM_CONTEXT0_CNTL::AT, CONTEXTS) {
            return Some(self.contexts.tables(vmid as u8).cntl);
        }
        if let Some(Half { vmid, part, shift }) = half(at) {
            return Some((*part(&mut self.contexts.tables(vmid)) >> shift) as u32);
        }
        Some(match at {
            GCMC_VM_FB_LOCATION_BASE::AT => self.contexts.frame_buffer().base,
            GCMC_VM_FB_LOCATION_TOP::AT => self.contexts.frame_buffer().top,
            GCMC_VM_FB_OFFSET::AT => self.contexts.frame_buffer().offset,
            GCVM_L2_PROTECTION_FAULT_STATUS::AT => self.contexts.fault().status.bits(),
            GCVM_L2_PROTECTION_FAULT_ADDR_LO32::AT => self.contexts.fault().page as u32,
            GCVM_L2_PROTECTION_FAULT_ADDR_HI32::AT => (self.contexts.fault().page >> 32) as u32,
            _ => return self.invalidation.read(at),
        })
    }

    /// Writes a register; `false` if it has no effect here.
    pub(super) fn write(&self, at: Offset, value: u32) -> bool {
        if let Some(vmid) = at.element(GCVM_CONTEXT0_CNTL::AT, CONTEXTS) {
            self.contexts.change(vmid as u8, |tables| tables.cntl = value);
            return true;
        }
        if let Some(Half { vmid, part, shift }) = half(at) {
            self.contexts.change(vmid, |tables| {
                let part = part(tables);
                *part = *part & !(0xffff_ffff << shift) | u64::from(value) << shift;
            });
            return true;
        }
        match at {
            GCMC_VM_FB_LOCATION_BASE::AT => self.contexts.change_frame_buffer(|place| place.base = value),
            GCMC_VM_FB_LOCATION_TOP::AT => self.contexts.change_frame_buffer(|place| place.top = value),
            GCMC_VM_FB_OFFSET::AT => self.contexts.change_frame_buffer(|place| place.offset = value),
            _ => return self.invalidation.write(at, value),
        }
        true
    }

    /// The values that are its own.
    pub(super) fn kept(&self) -> Vec<&AtomicU32> {
        self.invalidation.kept()
    }

    pub(super) fn reset(&self) {
        self.invalidation.reset();
    }
}
