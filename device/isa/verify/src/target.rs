//! Targets of the checks: an instruction set, in waves of one size.

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
    /// All sizes of waves.
    pub fn all(arch: Arch) -> impl Iterator<Item = Target> {
        arch.wave_sizes().iter().map(move |&wave| Target { arch, wave })
    }
}

/// Differences between instruction sets, as the reference has them.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Bits of `MODE` that exist.
    pub mode: u32,
    /// Hardware registers that can be read, except `MODE`.
    pub hardware: &'static [u32],
    /// The hardware register with the float exceptions that were raised.
    pub exceptions: u32,
    /// `STATUS` and `TRAPSTS` are several registers.
    pub splits_status: bool,
    /// True if the upper lanes hold copies of A and B of matrix instructions.
    pub matrices_have_copies: bool,
    /// Bits that are always set, and bits that are always clear, in the internal `MODE`.
    pub fixed_mode: (u32, u32),
    /// Stores by a format have the first component where the instruction has none, and not 0.
    pub repeats_component: bool,
    /// The instructions after GFX9: other numbers of registers and operations, other names.
    pub is_gfx9: bool,
    /// Floats of eight bits are those of CDNA3.
    pub old_bytes: bool,
    /// Number of `M0`.
    pub m0: u8,
    /// Number of `NULL`; where there is none, of no register.
    pub null: u8,
    /// Accumulation registers of a wave.
    pub accumulators: usize,
    /// Words of instructions that programs are made with.
    pub words: Words,
}

/// Words of instructions without their operands, and numbers of SOPP operations.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// `s_endpgm`.
    pub end: u32,
    /// `v_and_b32`, `v_or_b32` with a literal for the first source.
    pub v_and: u32,
    /// As above.
    pub v_or: u32,
    /// `s_and_b32` with a literal for the second source.
    pub s_and: u32,
    /// `s_addk_i32`.
    pub s_addk: u32,
    /// `s_and_saveexec_b32`, and of 64 bits.
    pub saveexec: [u32; 2],
    /// `s_branch`, and on SCC, VCC and EXEC, in the order of their numbers.
    pub branches: [u32; 7],
}

const GFX11_WORDS: Words = Words {
    end: 0xbfb0_0000,
    v_and: 0x3600_00ff,
    v_or: 0x3800_00ff,
    s_and: 0x8b00_ff00,
    s_addk: 0xb780_0000,
    saveexec: [0x20, 0x21],
    branches: [0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26],
};

const GFX9_WORDS: Words = Words {
    end: 0xbf81_0000,
    v_and: 0x2600_00ff,
    v_or: 0x2800_00ff,
    s_and: 0x8600_ff00,
    s_addk: 0xb700_0000,
    saveexec: [0x20, 0x20],
    branches: [2, 4, 5, 6, 7, 8, 9],
};

impl Facts {
    /// Returns true if a memory operation has an older name: it gives the width as dwords, bytes and shorts, or as
    /// `_x2`.
    pub fn is_old_name(name: &str) -> bool {
        let moved = ["dword", "byte", "short"].iter().any(|part| name.contains(part));
        let bare = name.contains("_atomic_") && !name.ends_with(|last: char| last.is_ascii_digit());
        moved || bare || name.ends_with("_x2")
    }

    /// Returns the facts of an instruction set.
    pub const fn of(arch: Arch) -> Facts {
        match arch {
            Arch::Gfx1100 | Arch::Gfx1151 => Facts {
                mode: 0xffff_ffff,
                // `STATUS`, `TRAPSTS`, `GPR_ALLOC`, `LDS_ALLOC`, `IB_STS`, `SH_MEM_BASES`, `FLAT_SCR_LO`, `FLAT_SCR_HI`,
                // `HW_ID1`, `HW_ID2`, `IB_STS2`, `SHADER_CYCLES`.
                hardware: &[2, 3, 5, 6, 7, 15, 20, 21, 23, 24, 28, 29],
                exceptions: 3,
                splits_status: false,
                matrices_have_copies: true,
                fixed_mode: (0, 0),
                repeats_component: false,
                is_gfx9: false,
                old_bytes: false,
                m0: 125,
                null: 124,
                accumulators: 0,
                words: GFX11_WORDS,
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
                repeats_component: true,
                is_gfx9: false,
                old_bytes: false,
                m0: 125,
                null: 124,
                accumulators: 0,
                words: GFX11_WORDS,
            },
            Arch::Gfx950 => Facts { old_bytes: false, ..Facts::of(Arch::Gfx942) },
            Arch::Gfx942 => Facts {
                mode: 0xff9f_ffff,
                // `STATUS`, `TRAPSTS`, `HW_ID`, `GPR_ALLOC`, `LDS_ALLOC`, `IB_STS`, `SH_MEM_BASES`, `TBA`, `TMA`, `XCC_ID`.
                hardware: &[2, 3, 4, 5, 6, 7, 15, 16, 17, 18, 19, 20],
                exceptions: 3,
                splits_status: false,
                matrices_have_copies: false,
                fixed_mode: (0, 0),
                repeats_component: false,
                is_gfx9: true,
                old_bytes: true,
                m0: 124,
                null: 255,
                accumulators: 32,
                words: GFX9_WORDS,
            },
        }
    }
}
