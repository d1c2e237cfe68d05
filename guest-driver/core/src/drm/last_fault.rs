//! The last memory fault of a file's work, as GPUVM_FAULT tells it (`amdgpu_vm_update_fault_cache`).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use belfry_abi::kfd::drm::DrmAmdgpuInfoGpuvmFault;
use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc::GCVM_L2_PROTECTION_FAULT_STATUS;

/// A fault that the interrupt thread keeps; zeros before the first one.
#[derive(Debug, Default)]
pub(super) struct LastFault {
    address: AtomicU64,
    status: AtomicU32,
}

impl LastFault {
    /// Keeps a fault in place of the one before. Two at once may be mixed: both are of this file.
    pub(super) fn put(&self, address: u64, not_present: bool, write: bool) {
        // The register has the fault that came first, maybe another file's. What the interrupt says is its part of it.
        let mut status = GCVM_L2_PROTECTION_FAULT_STATUS::from_bits(0);
        status.set_rw(write);
        status.set_walker_error(not_present.into());
        status.set_mapping_error(not_present);
        status.set_permission_faults(match (not_present, write) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        });
        self.address.store(address, Ordering::Relaxed);
        self.status.store(status.bits(), Ordering::Release);
    }

    /// The fault, in the graphics hub (`AMDGPU_VMHUB_TYPE_GFX`).
    pub(super) fn get(&self) -> DrmAmdgpuInfoGpuvmFault {
        let status = self.status.load(Ordering::Acquire);
        DrmAmdgpuInfoGpuvmFault { addr: self.address.load(Ordering::Relaxed), status, vmhub: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_fault_is_told_with_its_kind() {
        let fault = LastFault::default();
        assert_eq!((fault.get().addr, fault.get().status), (0, 0));
        fault.put(0x7000, true, false);
        assert_eq!((fault.get().addr, fault.get().status), (0x7000, 1 << 8 | 1 << 1));
        fault.put(0x8000, true, true);
        assert_eq!((fault.get().addr, fault.get().status), (0x8000, 1 << 18 | 1 << 8 | 1 << 1));
        fault.put(0x9000, false, true);
        assert_eq!((fault.get().addr, fault.get().status), (0x9000, 1 << 18 | 2 << 4));
    }
}
