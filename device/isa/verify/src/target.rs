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

/// What differs between instruction sets, as the reference has it.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Bits of `MODE` that exist.
    pub mode: u32,
    /// Hardware registers that can be read, but for `MODE`.
    pub hardware: &'static [u32],
    /// The hardware register with the float exceptions that were raised.
    pub exceptions: u32,
    /// `STATUS` and `TRAPSTS` are several registers.
    pub splits_status: bool,
    /// Of A and B of matrix instructions the upper lanes hold copies.
    pub matrices_have_copies: bool,
    /// Bits that what is kept as `MODE` has and has not, whatever a program says.
    pub fixed_mode: (u32, u32),
}

impl Facts {
    /// Those of an instruction set.
    pub const fn of(arch: Arch) -> Facts {
        match arch {
            Arch::Gfx1100 => Facts {
                mode: 0xffff_ffff,
                // `STATUS`, `TRAPSTS`, `GPR_ALLOC`, `LDS_ALLOC`, `IB_STS`, `SH_MEM_BASES`, `FLAT_SCR_LO`, `FLAT_SCR_HI`,
                // `HW_ID1`, `HW_ID2`, `IB_STS2`, `SHADER_CYCLES`.
                hardware: &[2, 3, 5, 6, 7, 15, 20, 21, 23, 24, 28, 29],
                exceptions: 3,
                splits_status: false,
                matrices_have_copies: true,
                fixed_mode: (0, 0),
            },
            Arch::Gfx1201 => Facts {
                mode: 0x0980_00ff,
                // `STATUS`, `STATE_PRIV`, `GPR_ALLOC`, `LDS_ALLOC`, `IB_STS`, `EXCP_FLAG_PRIV`, `EXCP_FLAG_USER`, `TRAP_CTRL`,
                // `SCRATCH_BASE_LO`, `SCRATCH_BASE_HI`, `HW_ID1`, `HW_ID2`, `SCHED_MODE`, `SHADER_CYCLES_LO`,
                // `SHADER_CYCLES_HI`.
                hardware: &[2, 4, 5, 6, 7, 17, 18, 19, 20, 21, 23, 24, 26, 29, 30],
                exceptions: 18,
                splits_status: true,
                matrices_have_copies: false,
                fixed_mode: (1 << 8, 1 << 9),
            },
        }
    }
}
