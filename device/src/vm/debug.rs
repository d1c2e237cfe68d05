//! Settings of a debugger for the waves of an address space.
//!
//! Hardware has one `SPI_GDBG_PER_VMID_CNTL` for each VMID, and `TCP_WATCHn_CNTL` with a VMID in it; the scheduler loads them
//! for the process that gets the VMID. Here they stay with the address space.
//!
//! Source: Linux `amdgpu/amdgpu_amdkfd_gfx_v11.c`, `gc_11_0_0_sh_mask.h` and `gc_9_4_3_sh_mask.h`, which agree.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use belfry_isa::mem::Watch;
use belfry_lock::{Mutex, rank};

/// `TCP_WATCHn`.
pub const WATCHES: usize = 4;

/// `SPI_GDBG_PER_VMID_CNTL`: control of wave launches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct LaunchControl(pub u32);

/// First state of a wave (`LAUNCH_MODE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaunchMode {
    /// As without a debugger.
    Normal,
    /// Halted before their first instruction.
    Halt,
    /// The wave is taken away: no driver asks for it, and this device has no such wave.
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

    /// `EXCP_REPLACE`: the exceptions of the kernel itself do not count.
    #[must_use]
    pub fn replaces_exceptions(self) -> bool {
        self.0 >> 13 & 1 == 1
    }

    /// Bits that this device does not act on: `STALL_VMID`, `TRAP_ON_START`, `TRAP_ON_END`, and those above.
    #[must_use]
    pub fn unmodelled(self) -> u32 {
        self.0 & !0x3ffe
    }

    /// Returns true if a wave starts in another way than without a debugger.
    #[inline(always)]
    #[must_use]
    pub fn changes_launch(self) -> bool {
        self.0 & 0x3ff6 != 0
    }
}

/// All that a debugger sets for a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DebugSettings {
    /// Control of wave launches.
    pub launch: LaunchControl,
    /// Addresses whose accesses trap.
    pub watches: [Option<Watch>; WATCHES],
}

impl DebugSettings {
    fn is_watching(&self) -> bool {
        self.watches.iter().any(Option::is_some)
    }

    /// Returns true if waves differ at all from those of a process without a debugger.
    #[must_use]
    pub fn change_anything(&self) -> bool {
        self.launch.changes_launch() || self.is_watching()
    }
}

/// The settings in a form that waves read.
#[derive(Debug, Default)]
pub(super) struct Debugger {
    launch: AtomicU32,
    watching: AtomicBool,
    watches: Mutex<[Option<Watch>; WATCHES], rank::DebugSettings>,
}

impl Debugger {
    pub(super) fn set(&self, settings: &DebugSettings) {
        *self.watches.lock().unwrap_or_else(PoisonError::into_inner) = settings.watches;
        self.watching.store(settings.is_watching(), Ordering::Release);
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
    fn launch_fields_are_where_the_register_has_them() {
        let control = LaunchControl(1 << 3 | 1 << 1 | 0x182 << 4 | 1 << 13);
        assert_eq!((control.mode(), control.exceptions()), (LaunchMode::Halt, 0x182));
        assert!(control.replaces_exceptions() && control.changes_launch() && control.unmodelled() == 0);
        assert!(!LaunchControl(1 << 3).changes_launch());
    }
}
