//! The state of a machine as plain values: processors, interrupt controllers, timers, ports, and the GPU's own snapshot.

use belfry_virtio::saved::{SavedVirtio, StateError};
use kvm_bindings::{
    kvm_clock_data, kvm_cpuid_entry2, kvm_debugregs, kvm_irqchip, kvm_lapic_state, kvm_mp_state,
    kvm_msr_entry, kvm_pit_state2, kvm_regs, kvm_sregs, kvm_vcpu_events, kvm_xcrs, kvm_xsave,
};
use serde::{Deserialize, Serialize};

/// Number of doorbell modes.
pub const DOORBELLS: u8 = 3;

/// A vCPU.
#[derive(Debug, Deserialize, Serialize)]
pub struct SavedVcpu {
    /// CPUID.
    pub cpuid: Vec<kvm_cpuid_entry2>,
    /// Its run state.
    pub mp: kvm_mp_state,
    /// General registers.
    pub regs: kvm_regs,
    /// Segments and control registers.
    pub sregs: kvm_sregs,
    /// Vector and floating-point state.
    pub xsave: kvm_xsave,
    /// Extended control registers.
    pub xcrs: kvm_xcrs,
    /// Debug registers.
    pub debug: kvm_debugregs,
    /// Its local APIC.
    pub lapic: kvm_lapic_state,
    /// Model-specific registers.
    pub msrs: Vec<kvm_msr_entry>,
    /// Exceptions and interrupts on their way.
    pub events: kvm_vcpu_events,
}

/// The first serial port.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedSerial {
    /// Its registers.
    pub registers: [u8; 9],
    /// Bytes that were typed and not read.
    #[serde(with = "serde_bytes")]
    pub typed: Vec<u8>,
}

/// The clock.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedCmos {
    /// The selected byte.
    pub index: u8,
    /// Its bytes.
    #[serde(with = "serde_bytes")]
    pub memory: Vec<u8>,
    /// Difference of the guest's time from the host's, in nanoseconds; positive if the guest is ahead.
    pub ahead: i128,
    /// The time at which the clock stands, if it is stopped, in nanoseconds.
    pub still: Option<i128>,
}

/// The ports of the board.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedBoard {
    /// The serial port.
    pub serial: SavedSerial,
    /// The clock.
    pub clock: SavedCmos,
    /// Registers of power management.
    pub power: [u8; 6],
    /// `CONFIG_ADDRESS` of the bus.
    pub address: u32,
}

/// A machine without its memory.
#[derive(Debug, Deserialize, Serialize)]
pub struct SavedMachine {
    /// Its processors.
    pub vcpus: Vec<SavedVcpu>,
    /// Both 8259 and the I/O APIC.
    pub chips: Vec<kvm_irqchip>,
    /// The timer.
    pub pit: kvm_pit_state2,
    /// KVM's clock.
    pub clock: kvm_clock_data,
    /// Its ports.
    pub board: SavedBoard,
    /// Number of the doorbell mode.
    pub doorbells: u8,
    /// Paravirtual devices, by ascending numbers.
    pub virtio: Vec<SavedVirtio>,
    /// Note that the machine's user keeps with it.
    #[serde(with = "serde_bytes")]
    pub note: Vec<u8>,
    /// The bytes of the GPU's snapshot, which has no VRAM.
    #[serde(with = "serde_bytes")]
    pub gpu: Option<Vec<u8>>,
}

impl SavedMachine {
    /// Returns the state as bytes.
    ///
    /// # Errors
    ///
    /// None for the state of a real machine.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_allocvec(self)?)
    }

    /// Makes a state of bytes that are not trusted; takes memory in proportion to them. `cpus` is the number of vCPUs
    /// that it must have.
    ///
    /// # Errors
    ///
    /// Bytes that are no state, and values that no machine has. KVM checks the registers of processors.
    pub fn from_bytes(bytes: &[u8], cpus: u8) -> Result<Self, StateError> {
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
