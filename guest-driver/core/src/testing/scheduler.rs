//! A scheduler that answers every frame, and writes to the trace which queues are added and removed.
#![expect(unsafe_code, reason = "the driver's buffers are reached by the addresses it gives the device")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use belfry_abi::gpuvm::PTE_ADDRESS_MASK;
use belfry_abi::mes::{API_FRAME_SIZE_IN_DWORDS, Header, Opcode, api_status_offset};
use belfry_abi::regs::gc;

use super::{FakeOs, lock, registers};
use crate::gart::GART_START;
use crate::os::PAGE_SIZE;

pub(crate) struct FakeScheduler {
    /// Address of the ring in VMID 0, and its length in bytes.
    pub(crate) ring: u64,
    pub(crate) size: u64,
    /// Dwords taken from it.
    pub(crate) taken: u64,
}

/// Address at which the device would find `address` of VMID 0: bus addresses are the processor's here.
fn translate(os: &FakeOs, address: u64) -> usize {
    let base = registers().dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>();
    let base = os.reg_read(base * 4) & !1;
    let mut entry = [0; 8];
    os.vram_read(u64::from(base) + (address - GART_START) / PAGE_SIZE * 8, &mut entry);
    let entry = u64::from_le_bytes(entry);
    assert_ne!(entry, 0, "{address:#x} is not mapped");
    ((entry & PTE_ADDRESS_MASK) + address % PAGE_SIZE) as usize
}

impl FakeScheduler {
    fn dword(&self, os: &FakeOs, index: u64) -> u32 {
        let address = translate(os, self.ring + index * 4 % self.size);
        // SAFETY: the driver mapped the page for the device, and only touches it atomically.
        unsafe { AtomicU32::from_ptr(address as *mut u32) }.load(Ordering::Relaxed)
    }

    /// Serves the frames in front of `wptr`.
    pub(super) fn serve(&mut self, os: &FakeOs, wptr: u64) {
        while self.taken < wptr {
            let opcode = Header(self.dword(os, self.taken)).opcode();
            match opcode {
                Opcode::ADD_QUEUE => lock(&os.trace).push("add"),
                Opcode::REMOVE_QUEUE => lock(&os.trace).push("remove"),
                _ => {}
            }
            let status = self.taken + api_status_offset(opcode).unwrap() as u64 / 4;
            let quad = |at| u64::from(self.dword(os, at)) | u64::from(self.dword(os, at + 1)) << 32;
            let fence = translate(os, quad(status));
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(fence as *mut u64) }.store(quad(status + 2), Ordering::Release);
            self.taken += API_FRAME_SIZE_IN_DWORDS as u64;
        }
    }
}
