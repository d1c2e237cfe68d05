//! What a debugger has set for the waves of an address space.
//!
//! Hardware has one `SPI_GDBG_PER_VMID_CNTL` for each VMID, and `TCP_WATCHn_CNTL` with a VMID in it; the scheduler loads them
//! for the process that gets the VMID. Here they stay with the address space.
//!
//! Source: Linux `amdgpu/amdgpu_amdkfd_gfx_v11.c` and `gc_11_0_0_sh_mask.h`.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use belfry_isa::mem::{Watch, WatchMode};

use crate::lock::{Mutex, rank};

/// `TCP_WATCHn`.
pub const WATCHES: usize = 4;

/// `SPI_GDBG_PER_VMID_CNTL`: how waves are launched.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct LaunchControl(pub u32);

/// How waves begin (`LAUNCH_MODE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaunchMode {
    /// As ever.
    Normal,
    /// Halted before their first instruction.
    Halt,
    /// They are taken away: nothing asks for it, and there is no such wave here.
    Kill,
    /// With a trap after each instruction.
    Debug,
}

impl LaunchControl {
    /// `LAUNCH_MODE`, bits 2:1.
    #[must_use]
    pub fn mode(self) -> LaunchMode {
        match self.0 >> 1 & 3 {
            0 => LaunchMode::Normal,
            1 => LaunchMode::Halt,
            2 => LaunchMode::Kill,
            _ => LaunchMode::Debug,
        }
    }

    /// `EXCP_EN`, bits 12:4: exceptions that waves take traps for, as in `MODE`.
    #[must_use]
    pub fn exceptions(self) -> u32 {
        self.0 >> 4 & 0x1ff
    }

    /// `EXCP_REPLACE`: the kernel's own exceptions do not count.
    #[must_use]
    pub fn replaces_exceptions(self) -> bool {
        self.0 >> 13 & 1 == 1
    }

    /// Bits that this device does not act on: `STALL_VMID`, `TRAP_ON_START`, `TRAP_ON_END`, and those above.
    #[must_use]
    pub fn unmodelled(self) -> u32 {
        self.0 & !0x3ffe
    }

    /// Whether a wave begins otherwise than it would without a debugger.
    #[inline(always)]
    #[must_use]
    pub fn changes_launch(self) -> bool {
        self.0 & 0x3ff6 != 0
    }
}

/// `TCP_WATCHn_ADDR` and `TCP_WATCHn_CNTL`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct WatchRegisters {
    /// Bits 47:7 of the address.
    pub address: u64,
    /// `MASK` 22:0, the bits from 7 on that have to be equal; `MODE` 30:29; `VALID` 31.
    pub control: u32,
}

impl WatchRegisters {
    /// The watch, if it is valid.
    #[must_use]
    pub fn watch(self) -> Option<Watch> {
        let mode = match self.control >> 29 & 3 {
            0 => WatchMode::Read,
            1 => WatchMode::NonRead,
            2 => WatchMode::Atomic,
            _ => WatchMode::All,
        };
        // Bits above those of the mask are always compared.
        let mask = !0x3fff_ffff | u64::from(self.control & 0x7f_ffff) << 7;
        (self.control >> 31 == 1).then_some(Watch { address: self.address & mask, mask, mode })
    }
}

/// All that a debugger sets for a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DebugSettings {
    /// How waves are launched.
    pub launch: LaunchControl,
    /// What traps when it is accessed.
    pub watches: [WatchRegisters; WATCHES],
}

/// The settings where waves find them.
#[derive(Debug, Default)]
pub(super) struct Debugger {
    launch: AtomicU32,
    watching: AtomicBool,
    watches: Mutex<[Option<Watch>; WATCHES], rank::DebugSettings>,
}

impl Debugger {
    pub(super) fn set(&self, settings: &DebugSettings) {
        let watches = settings.watches.map(WatchRegisters::watch);
        *self.watches.lock().unwrap_or_else(PoisonError::into_inner) = watches;
        self.watching.store(watches.iter().any(Option::is_some), Ordering::Release);
        self.launch.store(settings.launch.0, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn launch(&self) -> LaunchControl {
        LaunchControl(self.launch.load(Ordering::Relaxed))
    }

    pub(super) fn watches(&self) -> Option<[Option<Watch>; WATCHES]> {
        let watching = self.watching.load(Ordering::Acquire);
        watching.then(|| *self.watches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_compare_the_bits_of_their_mask_and_all_above() {
        let registers = WatchRegisters { address: 0x1234_5678_9a80, control: 1 << 31 | 1 << 29 | 0x7f_ffff };
        let watch = registers.watch().expect("valid");
        assert_eq!(watch.mode, WatchMode::NonRead);
        assert!(watch.covers(0x1234_5678_9aff) && !watch.covers(0x1234_5678_9b00));
        let wide = WatchRegisters { control: registers.control & !1, ..registers }.watch().expect("valid");
        assert!(wide.covers(0x1234_5678_9a00) && wide.covers(0x1234_5678_9aff));
        assert!(!wide.covers(0x1234_9678_9a00));
        assert_eq!(WatchRegisters { control: 0x7f_ffff, ..registers }.watch(), None);
    }

    #[test]
    fn launch_fields_are_where_the_register_has_them() {
        let control = LaunchControl(1 << 3 | 1 << 1 | 0x182 << 4 | 1 << 13);
        assert_eq!((control.mode(), control.exceptions()), (LaunchMode::Halt, 0x182));
        assert!(control.replaces_exceptions() && control.changes_launch() && control.unmodelled() == 0);
        assert!(!LaunchControl(1 << 3).changes_launch());
    }
}
