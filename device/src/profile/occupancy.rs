//! Occupancy: the number of waves of a kernel that a SIMD can hold, and the resource that limits it.

use belfry_isa::inst::WaveSize;
use serde::{Deserialize, Serialize};

use crate::chip::ShaderRules;

/// Scalar registers of a SIMD on chips where waves ask for as many as they need (gfx9): LLVM,
/// `AMDGPUBaseInfo.cpp`, `getTotalNumSGPRs`.
const SGPRS: u32 = 800;
/// Unit of their allocation, `getSGPRAllocGranule`.
const SGPR_GRANULE: u32 = 16;

/// Resources of one workgroup of a launch.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Lanes of a wave.
    pub wave_size: WaveSize,
    /// Vector registers of a wave, those for accumulation among them.
    pub vgprs: u16,
    /// Vector registers that the halves of a wave of 64 lanes share.
    pub shared_vgprs: u16,
    /// Scalar registers that a wave asks for; `None` if every wave has all.
    pub sgprs: Option<u32>,
    /// Bytes of LDS of a workgroup, as allocated.
    pub lds: u32,
    /// Bytes of private memory of a lane.
    pub scratch: u32,
    /// Waves of a workgroup.
    pub waves: u32,
    /// True if a workgroup may be on both compute units of a work group processor.
    pub wgp_mode: bool,
}

/// Resource that limits the occupancy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wave slots: all are used, except for a rest that is too small for a whole workgroup.
    WaveSlots,
    /// Slots of workgroups.
    Workgroups,
    /// LDS.
    Lds,
    /// Vector registers.
    Vgprs,
    /// Scalar registers.
    Sgprs,
}

impl Limit {
    /// Name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WaveSlots => "places for waves",
            Self::Workgroups => "places for workgroups",
            Self::Lds => "LDS",
            Self::Vgprs => "VGPRs",
            Self::Sgprs => "SGPRs",
        }
    }
}

/// Occupancy of a processor by one kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Workgroups of a processor (a work group processor, or a compute unit on chips without work group
    /// processors).
    pub workgroups: u32,
    /// Waves of a processor.
    pub waves: u32,
    /// SIMDs of a processor.
    pub simds: u32,
    /// Most waves of a SIMD.
    pub most: u32,
    /// Rows of vector registers that a wave gets.
    pub vgpr_rows: u32,
    /// Resource that limits it.
    pub limit: Limit,
}

impl Occupancy {
    /// Occupancy by workgroups with these resources, alone on a chip with such compute units.
    #[must_use]
    pub fn of(rules: &ShaderRules, resources: &Resources) -> Self {
        let Resources { wave_size, vgprs, shared_vgprs, sgprs, lds, waves, wgp_mode, .. } = *resources;
        let rows = rules.allocated_vgprs(wave_size, vgprs, shared_vgprs);
        let (cus, simds) = (rules.cus as u32, rules.simds() as u32);
        let waves = waves.max(1);
        // Workgroups if each SIMD has room for `per_simd` waves.
        let fit = |per_simd: u32| {
            if wgp_mode { per_simd * simds / waves } else { per_simd * (simds / cus) / waves * cus }
        };
        let of_lds = |lds: u32| if wgp_mode { rules.lds * cus / lds } else { rules.lds / lds * cus };
        let of_sgprs = |sgprs: u32| fit(SGPRS / sgprs.next_multiple_of(SGPR_GRANULE));
        let limits = [
            (Limit::WaveSlots, fit(rules.wave_slots)),
            (Limit::Workgroups, rules.groups),
            (Limit::Lds, if lds == 0 { u32::MAX } else { of_lds(lds) }),
            (Limit::Vgprs, fit(rules.vgpr_rows / rows)),
            (Limit::Sgprs, sgprs.filter(|sgprs| *sgprs > 0).map_or(u32::MAX, of_sgprs)),
        ];
        // Of equal limits the first is reported.
        let (mut limit, mut workgroups) = limits[0];
        for (of, count) in limits {
            if count < workgroups {
                (limit, workgroups) = (of, count);
            }
        }
        Self { workgroups, waves: workgroups * waves, simds, most: rules.wave_slots, vgpr_rows: rows, limit }
    }

    /// Waves of a SIMD, on average.
    #[must_use]
    pub fn per_simd(&self) -> f64 {
        f64::from(self.waves) / f64::from(self.simds.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{gfx942, gfx1100, gfx1201};

    const ONE: Resources = Resources {
        wave_size: WaveSize::Wave32,
        vgprs: 24,
        shared_vgprs: 0,
        sgprs: None,
        lds: 0,
        scratch: 0,
        waves: 4,
        wgp_mode: false,
    };

    #[test]
    fn vector_registers_limit_waves_of_gfx1100() {
        // 1536 VGPRs of 32 lanes, in pieces of 24: getNumWavesPerEUWithNumVGPRs of LLVM 19.
        for (vgprs, waves) in [
            (24, 16.0),
            (96, 16.0),
            (97, 12.0),
            (120, 12.0),
            (121, 10.0),
            (144, 10.0),
            (168, 9.0),
            (192, 8.0),
            (216, 7.0),
            (240, 6.0),
            (256, 5.0),
        ] {
            let occupancy = Occupancy::of(&gfx1100::GENERATION.shader, &Resources { vgprs, waves: 1, ..ONE });
            // A workgroup of a wave: 32 places for workgroups are 8 waves for each of 4 SIMDs.
            let expected = f64::min(waves, 8.0);
            assert_eq!(occupancy.per_simd(), expected, "{vgprs}");
            let two = Occupancy::of(&gfx1100::GENERATION.shader, &Resources { vgprs, waves: 2, ..ONE });
            assert_eq!(two.per_simd(), waves, "{vgprs}");
            let limit = if waves == 16.0 { Limit::WaveSlots } else { Limit::Vgprs };
            assert_eq!(two.limit, limit, "{vgprs}");
        }
        // A wave of 64 lanes takes twice as much.
        let wide = Resources { wave_size: WaveSize::Wave64, vgprs: 96, waves: 2, ..ONE };
        assert_eq!(Occupancy::of(&gfx1201::GENERATION.shader, &wide).per_simd(), 8.0);
    }

    #[test]
    fn registers_limit_waves_of_gfx942() {
        // The table of the MI300 ISA: 512 VGPRs in pieces of 8.
        let cdna = |vgprs, sgprs| {
            let resources = Resources { wave_size: WaveSize::Wave64, vgprs, sgprs: Some(sgprs), ..ONE };
            let occupancy = Occupancy::of(&gfx942::GENERATION.shader, &resources);
            (occupancy.per_simd(), occupancy.limit)
        };
        for (vgprs, waves) in
            [(64, 8.0), (72, 7.0), (80, 6.0), (96, 5.0), (128, 4.0), (168, 3.0), (256, 2.0), (512, 1.0)]
        {
            let limit = if waves == 8.0 { Limit::WaveSlots } else { Limit::Vgprs };
            assert_eq!(cdna(vgprs, 96), (waves, limit), "{vgprs}");
        }
        // LLVM's getOccupancyWithNumSGPRs: 7 waves with more than 100.
        assert_eq!(cdna(24, 112), (7.0, Limit::Sgprs));
    }

    #[test]
    fn lds_limits_workgroups_and_work_group_processors_have_twice_as_much() {
        let rules = &gfx1100::GENERATION.shader;
        let of = |lds, wgp_mode| {
            let occupancy = Occupancy::of(rules, &Resources { lds, wgp_mode, ..ONE });
            (occupancy.workgroups, occupancy.limit)
        };
        assert_eq!(of(64 << 10, false), (2, Limit::Lds));
        assert_eq!(of(40 << 10, false), (2, Limit::Lds));
        assert_eq!(of(40 << 10, true), (3, Limit::Lds));
        assert_eq!(of(512, false), (16, Limit::WaveSlots));
        // Workgroups of 32 waves: one of them fits where 8 waves do on each SIMD of a processor.
        let large = Resources { waves: 32, vgprs: 128, wgp_mode: true, ..ONE };
        let occupancy = Occupancy::of(rules, &large);
        assert_eq!((occupancy.workgroups, occupancy.waves, occupancy.limit), (1, 32, Limit::Vgprs));
    }
}
