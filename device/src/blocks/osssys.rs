//! Interrupt handler: ring 0, and the table of the processes that VMIDs belong to.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::osssys::{self, IH_VMID_0_LUT};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::interrupt::Interrupts;
use crate::regs::{Block, Run, Storage};
use crate::vm::{Contexts, VMIDS};

const CONTEXTS: u32 = VMIDS as u32;

/// The operating system services block.
pub(crate) struct Osssys {
    storage: Storage,
    interrupts: Arc<Interrupts>,
    contexts: Arc<Contexts>,
}

impl Osssys {
    pub(crate) fn new(interrupts: Arc<Interrupts>, contexts: Arc<Contexts>) -> Self {
        Self { storage: Storage::new(osssys::ALL), interrupts, contexts }
    }
}

shows_registers!(Osssys, storage);

impl Block for Osssys {
    fn ip(&self) -> (Ip, u8) {
        (osssys::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.push(Run { first: IH_VMID_0_LUT::AT, count: CONTEXTS });
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        if let Some(vmid) = at.element(IH_VMID_0_LUT::AT, CONTEXTS) {
            return self.contexts.pasid(vmid as u8).into();
        }
        self.interrupts.read_register(at).unwrap_or_else(|| self.storage.read(at))
    }

    fn write(&self, at: Offset, value: u32) {
        if let Some(vmid) = at.element(IH_VMID_0_LUT::AT, CONTEXTS) {
            self.contexts.set_pasid(vmid as u8, IH_VMID_0_LUT::from_bits(value).pasid() as u16);
        } else if !self.interrupts.write_register(at, value) {
            self.storage.write(at, value);
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        self.storage.kept()
    }

    fn reset(&self) {
        self.storage.reset();
    }
}
