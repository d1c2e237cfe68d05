//! What is checked: an instruction set, in waves of one size.

use belfry_isa::inst::{Arch, WaveSize};

/// An instruction set in waves of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The instruction set.
    pub arch: Arch,
    /// The size of the waves.
    pub wave: WaveSize,
}

impl Target {
    /// Both sizes of waves.
    pub fn both(arch: Arch) -> [Target; 2] {
        [WaveSize::Wave32, WaveSize::Wave64].map(|wave| Target { arch, wave })
    }
}
