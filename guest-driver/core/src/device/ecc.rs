//! Errors of memory that were corrected. No program is told of them; the memory controller counts them.
//!
//! The driver asks when the file is read, as amdgpu does (`amdgpu_ras_sysfs_read`), and before the counter is lost.

use core::sync::atomic::Ordering;

use belfry_abi::regs::Ip;
use belfry_abi::regs::gfx9::umc::UMCCH0_OdEccErrCnt;

use super::Device;
use crate::os::Os;

/// Value that the counter counts from (`UMC_V12_0_CE_CNT_INIT`).
const FIRST: u32 = 0;

impl<O: Os> Device<O> {
    /// Has the memory controller count from the beginning, on chips that have one.
    pub(super) fn start_counting(&self) {
        if self.hw.registers().count(Ip::UMC) > 0 {
            self.hw.write(UMCCH0_OdEccErrCnt(FIRST));
        }
    }

    /// Errors that were corrected since the driver was bound.
    pub(crate) fn corrected_errors(&self) -> u64 {
        if self.hw.registers().count(Ip::UMC) > 0 && !self.is_asleep() {
            // One asks at a time: two would count the same errors.
            let _asking = self.flush.lock();
            let count = self.hw.read::<UMCCH0_OdEccErrCnt>().0;
            // A device that is gone reads as all ones.
            if count != FIRST && count != u32::MAX {
                self.hw.write(UMCCH0_OdEccErrCnt(FIRST));
                self.corrected.fetch_add(u64::from(count - FIRST), Ordering::Relaxed);
            }
        }
        self.corrected.load(Ordering::Relaxed)
    }
}
