//! The state of a machine as plain values: processors, interrupt controllers, timers, ports, and the GPU's own snapshot.

use kvm_bindings::{
    kvm_clock_data, kvm_cpuid_entry2, kvm_debugregs, kvm_irqchip, kvm_lapic_state, kvm_mp_state,
    kvm_msr_entry, kvm_pit_state2, kvm_regs, kvm_sregs, kvm_vcpu_events, kvm_xcrs, kvm_xsave,
};
use serde::{Deserialize, Serialize};

use super::virtio_state::SavedVirtio;

/// Number of doorbell modes.
pub(super) const DOORBELLS: u8 = 3;

/// A vCPU.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SavedVcpu {
    pub(crate) cpuid: Vec<kvm_cpuid_entry2>,
    pub(crate) mp: kvm_mp_state,
    pub(crate) regs: kvm_regs,
    pub(crate) sregs: kvm_sregs,
    pub(crate) xsave: kvm_xsave,
    pub(crate) xcrs: kvm_xcrs,
    pub(crate) debug: kvm_debugregs,
    pub(crate) lapic: kvm_lapic_state,
    pub(crate) msrs: Vec<kvm_msr_entry>,
    pub(crate) events: kvm_vcpu_events,
}

/// The first serial port.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedSerial {
    pub(crate) registers: [u8; 9],
    #[serde(with = "serde_bytes")]
    pub(crate) typed: Vec<u8>,
}

/// The clock.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedCmos {
    pub(crate) index: u8,
    #[serde(with = "serde_bytes")]
    pub(crate) memory: Vec<u8>,
    /// Difference of the guest's time from the host's, in nanoseconds; positive if the guest is ahead.
    pub(crate) ahead: i128,
    /// The time at which the clock stands, if it is stopped, in nanoseconds.
    pub(crate) still: Option<i128>,
}

/// The ports of the board.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedBoard {
    pub(crate) serial: SavedSerial,
    pub(crate) clock: SavedCmos,
    pub(crate) power: [u8; 6],
    /// `CONFIG_ADDRESS` of the bus.
    pub(crate) address: u32,
}

/// A machine without its memory.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SavedMachine {
    pub(crate) vcpus: Vec<SavedVcpu>,
    /// Both 8259 and the I/O APIC.
    pub(crate) chips: Vec<kvm_irqchip>,
    pub(crate) pit: kvm_pit_state2,
    pub(crate) clock: kvm_clock_data,
    pub(crate) board: SavedBoard,
    /// Number of the doorbell mode.
    pub(crate) doorbells: u8,
    /// Paravirtual devices, by ascending numbers.
    pub(crate) virtio: Vec<SavedVirtio>,
    /// Note that the machine's user keeps with it.
    #[serde(with = "serde_bytes")]
    pub(crate) note: Vec<u8>,
    /// The bytes of the GPU's snapshot, which has no VRAM.
    #[serde(with = "serde_bytes")]
    pub(crate) gpu: Option<Vec<u8>>,
}

/// Reason why bytes are not the state of a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes cannot be read, or there are too many of them.
    #[error("the machine's state cannot be read: {0}")]
    Encoding(#[from] postcard::Error),
    /// There are bytes after the state's end.
    #[error("the machine's state ends {0} bytes before its bytes do")]
    Trailing(usize),
    /// The image of a disk has changed.
    #[error("the disk image {path} has changed since: resume it with the image that it was saved with")]
    Changed {
        /// The image.
        path: std::path::PathBuf,
    },
    /// The guest's writes to a disk cannot be restored.
    #[error("what was written to the disk image {path} cannot be had again: {why}")]
    Disk {
        /// The image.
        path: std::path::PathBuf,
        /// Why.
        why: String,
    },
    /// A value that no machine has.
    #[error("the machine's {what} is {value}, which cannot be")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: u64,
    },
}

impl SavedMachine {
    /// Returns the state as bytes.
    ///
    /// # Errors
    ///
    /// None for the state of a real machine.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_allocvec(self)?)
    }

    /// Makes a state of bytes that are not trusted; takes memory in proportion to them. `cpus` is the number of vCPUs
    /// that it must have.
    ///
    /// # Errors
    ///
    /// Bytes that are no state, and values that no machine has. KVM checks the registers of processors.
    pub(crate) fn from_bytes(bytes: &[u8], cpus: u8) -> Result<Self, StateError> {
        let (saved, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let refused = |what, value: usize| Err(StateError::Value { what, value: value as u64 });
        if !rest.is_empty() {
            return Err(StateError::Trailing(rest.len()));
        }
        if saved.vcpus.len() != usize::from(cpus) || cpus == 0 {
            return refused("number of processors", saved.vcpus.len());
        }
        for vcpu in &saved.vcpus {
            if vcpu.cpuid.len() > kvm_bindings::KVM_MAX_CPUID_ENTRIES {
                return refused("number of CPUID leaves", vcpu.cpuid.len());
            }
            if vcpu.msrs.len() > kvm_bindings::KVM_MAX_MSR_ENTRIES {
                return refused("number of model-specific registers", vcpu.msrs.len());
            }
        }
        if saved.chips.len() != 3 {
            return refused("number of interrupt controllers", saved.chips.len());
        }
        for (number, chip) in (0u32..).zip(&saved.chips) {
            if chip.chip_id != number {
                return refused("number of an interrupt controller", chip.chip_id as usize);
            }
        }
        if saved.board.clock.memory.len() != 128 || saved.board.clock.index > 0x7f {
            return refused("clock's memory", saved.board.clock.memory.len());
        }
        if !saved.virtio.is_sorted_by(|one, next| one.number < next.number) {
            return refused("order of paravirtual devices", saved.virtio.len());
        }
        saved.virtio.iter().try_for_each(SavedVirtio::check)?;
        if saved.doorbells >= DOORBELLS {
            return refused("way that doorbells travel", saved.doorbells.into());
        }
        Ok(saved)
    }
}
