//! System memory that GPUs of the machine use: one limit for all of them (`amdgpu_amdkfd_gpuvm.c`, `kfd_mem_limit`), and the share of
//! each that its buffer objects have.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use crate::errno::{Errno, Result};
use crate::os::Os;

/// System memory of the whole machine that programs may have for GPUs.
pub(crate) struct SystemLimit {
    used: AtomicU64,
    limit: u64,
}

impl SystemLimit {
    /// Makes the limit of a machine with this many bytes of memory.
    pub(crate) fn of(memory_bytes: u64) -> Self {
        Self { used: AtomicU64::new(0), limit: (memory_bytes / 4 * 3).max(64 << 20) }
    }

    /// Returns the limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes that are charged.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` beyond the limit.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::ENOMEM),
        }
    }

    /// Gives a charge back.
    pub(crate) fn uncharge(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl<O: Os> Device<O> {
    /// Charges `bytes` of system memory behind buffer objects of this device.
    ///
    /// # Errors
    ///
    /// `ENOMEM` beyond what all devices may use.
    pub(crate) fn charge_gtt(&self, bytes: u64) -> Result<()> {
        self.users.system().charge(bytes)?;
        self.gtt_used.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Charges `bytes` whose old charge is given back soon, when the pin goes that they replace.
    pub(crate) fn charge_gtt_again(&self, bytes: u64) {
        self.users.system().used.fetch_add(bytes, Ordering::Relaxed);
        self.gtt_used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives a charge back.
    pub(crate) fn uncharge_gtt(&self, bytes: u64) {
        self.users.system().uncharge(bytes);
        self.gtt_used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
