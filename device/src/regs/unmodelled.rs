//! Registers that no block claims: they store, and every use is counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use belfry_lock::{Mutex, MutexGuard, rank};

use crate::chip::Chip;
use crate::guest_error::GuestError;
use crate::save::{Broken, check, count};
use crate::stats::Counters;

/// `MP1_FIRMWARE_FLAGS` in the system management network: bit 0, the SMU's firmware runs.
const MP1_FIRMWARE_FLAGS: u32 = 0x03b1_0024;
/// Most far registers that are kept (and counted); a driver uses a few dozen.
const MAX_FAR: usize = 4096;

/// One register.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Use {
    value: u32,
    reads: u64,
    writes: u64,
}

/// Uses of near and of far registers, by index and address.
pub(super) type SavedUses = [BTreeMap<u32, Use>; 2];

type Uses = Mutex<HashMap<u32, Use>, rank::Unmodelled>;

/// Everything that has been used without a model.
#[derive(Debug, Default)]
pub(super) struct Unmodelled {
    /// Registers of the BAR, by absolute dword index.
    near: Uses,
    /// Registers behind the windows only, by byte address.
    far: Uses,
}

fn lock(uses: &Uses) -> MutexGuard<'_, HashMap<u32, Use>, rank::Unmodelled> {
    uses.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name of a register of the BAR, for reports.
pub(super) fn near_name(chip: &dyn Chip, dword: u32) -> String {
    chip.register_name(dword).map_or_else(|| format!("register at dword {dword:#x}"), str::to_owned)
}

fn far_name(address: u32) -> String {
    format!("far register {address:#x}")
}

/// Logs the first use of a register.
fn announce(used: &Use, name: impl FnOnce() -> String) {
    if used.reads + used.writes == 1 && log::log_enabled!(target: "gpu::regs", log::Level::Debug) {
        log::debug!(target: "gpu::regs", "register without behaviour: {}", name());
    }
}

impl Unmodelled {
    pub(super) fn read_near(&self, dword: u32, name: impl FnOnce() -> String) -> u32 {
        let mut near = lock(&self.near);
        let used = near.entry(dword).or_default();
        used.reads += 1;
        announce(used, name);
        used.value
    }

    pub(super) fn write_near(&self, dword: u32, value: u32, name: impl FnOnce() -> String) {
        let mut near = lock(&self.near);
        let used = near.entry(dword).or_default();
        used.writes += 1;
        used.value = value;
        announce(used, name);
    }

    /// Uses the far register at a byte address, unless there are too many already.
    fn far(&self, address: u32, counters: &Counters, operation: impl FnOnce(&mut Use)) {
        let mut far = lock(&self.far);
        if far.len() >= MAX_FAR && !far.contains_key(&address) {
            drop(far);
            counters.error(GuestError::FarRegisters, format_args!("address={address:#x}"));
            return;
        }
        let used = far.entry(address).or_default();
        operation(used);
        announce(used, || far_name(address));
    }

    pub(super) fn read_far(&self, address: u32, counters: &Counters) -> u32 {
        if address == MP1_FIRMWARE_FLAGS {
            return 1;
        }
        let mut value = 0;
        self.far(address, counters, |used| {
            used.reads += 1;
            value = used.value;
        });
        value
    }

    pub(super) fn write_far(&self, address: u32, value: u32, counters: &Counters) {
        self.far(address, counters, |used| {
            used.writes += 1;
            used.value = value;
        });
    }

    /// Registers that were used: name, reads, writes.
    pub(super) fn uses(&self, name: impl Fn(u32) -> String) -> Vec<(String, u64, u64)> {
        let mut all: Vec<_> =
            lock(&self.near).iter().map(|(&dword, used)| (name(dword), used.reads, used.writes)).collect();
        all.extend(lock(&self.far).iter().map(|(&byte, used)| (far_name(byte), used.reads, used.writes)));
        all
    }

    /// Uses of near and far registers, in the order of their places.
    pub(super) fn save(&self) -> SavedUses {
        [&self.near, &self.far].map(|uses| lock(uses).iter().map(|(&at, &used)| (at, used)).collect())
    }

    /// Takes over the uses of another device.
    pub(super) fn restore(&self, saved: &SavedUses) -> Result<(), Broken> {
        let [near, far] = saved;
        count("far registers", far.len(), far.len() <= MAX_FAR)?;
        for (&at, used) in near.iter().chain(far) {
            check("register without a model", at, used.reads.max(used.writes) < u64::from(u32::MAX) << 16)?;
        }
        for (uses, saved) in [(&self.near, near), (&self.far, far)] {
            *lock(uses) = saved.iter().map(|(&at, &used)| (at, used)).collect();
        }
        Ok(())
    }

    /// Sets every value to 0 again; the counts stay.
    pub(super) fn reset(&self) {
        for uses in [&self.near, &self.far] {
            lock(uses).values_mut().for_each(|used| used.value = 0);
        }
    }
}
