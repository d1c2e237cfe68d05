//! An estimate of the time that a kernel would take on the card: a model like a roofline, and no measurement.
//!
//! Each part of the card would take a time of its own if it were alone; the estimate is the longest of these
//! times. All work is counted as if it were spread evenly over the compute units and SIMDs that the launches
//! can fill.
//!
//! | part | its time |
//! | --- | --- |
//! | vector | cycles of vector, transcendental, double and matrix instructions, per SIMD |
//! | scalar | cycles of scalar and control instructions, per SIMD |
//! | LDS | passes over the banks, per compute unit |
//! | caches | cache lines that wave instructions touch, through the vector cache of each compute unit |
//! | memory | bytes of these lines by the card's bandwidth: as if no cache ever hit |
//! | latency | waits for loads, each of [`LATENCY`] cycles, that the waves of a SIMD have at the same time |
//!
//! Not in it: starting waves, caches, instruction fetch, dual issue other than VOPD (which counts as one), clocks below the highest.

use belfry_device::chip::{Model, Shape};
use belfry_device::profile::{KernelProfile, LINE};
use belfry_isa::exec::Class;
use belfry_isa::inst::WaveSize;
use serde::Serialize;

/// Cycles that a wave waits for a load of global memory: an assumption of the model.
pub const LATENCY: u64 = 500;

/// Part of the card that an estimate is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the module's table")]
pub enum Bound {
    Vector,
    Scalar,
    Lds,
    Caches,
    Memory,
    Latency,
}

/// Nanoseconds of all launches of a kernel, by part of the card, see the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Longest of these times.
    pub ns: f64,
    /// Part with the longest time.
    pub bound: Bound,
    /// Time of each part.
    pub parts: [(Bound, f64); 6],
}

/// Estimates the time of all launches of a kernel on the card of a chip of this shape.
#[must_use]
pub fn estimate(kernel: &KernelProfile, model: &Model, shape: Shape) -> Estimate {
    let (card, rules) = (&model.generation.card, &model.generation.shader);
    let per_launch = |count: u64| count.div_ceil(kernel.launches.max(1)).max(1);
    let cus = u64::from(shape.cus).min(per_launch(kernel.workgroups)).max(1);
    let all_simds = u64::from(shape.cus) * rules.simds_per_cu as u64;
    let simds = all_simds.min(per_launch(kernel.waves)).max(1);
    // Wide waves of chips whose SIMDs have 32 lanes take every vector instruction twice.
    let resources = kernel.resources;
    let is_wide = resources.is_some_and(|of| of.wave_size == WaveSize::Wave64) && rules.row_lanes == 32;
    let count = |class: Class| kernel.instructions.get(&class).copied().unwrap_or(0);
    let [vector, transcendental, double, matrix, scalar] = card.cycles.map(u64::from);
    let busy = count(Class::Vector) * vector
        + count(Class::Transcendental) * transcendental
        + count(Class::Double) * double
        + count(Class::Matrix) * matrix;
    let passes: u64 = kernel.sites.iter().filter_map(|site| site.lds).map(|lds| lds.passes).sum();
    let lines: u64 = kernel.sites.iter().filter_map(|site| site.global).map(|access| access.lines).sum();
    let resident = kernel.occupancy.map_or(1.0, |occupancy| occupancy.per_simd());
    let resident = resident.min(per_launch(kernel.waves).div_ceil(simds) as f64).max(1.0);
    let waits = count(Class::Wait).min(count(Class::Load));
    let ns = |cycles: f64| cycles * 1e3 / f64::from(card.clock_mhz);
    let parts = [
        (Bound::Vector, ns((busy << u32::from(is_wide)) as f64 / simds as f64)),
        (Bound::Scalar, ns(((count(Class::Scalar) + count(Class::Control)) * scalar) as f64 / simds as f64)),
        (Bound::Lds, ns(passes as f64 / cus as f64)),
        (Bound::Caches, ns((lines * (LINE / u64::from(card.cache_bytes))) as f64 / cus as f64)),
        (Bound::Memory, (lines * LINE) as f64 / f64::from(card.gigabytes_per_second)),
        (Bound::Latency, ns((waits * LATENCY) as f64 / (simds as f64 * resident))),
    ];
    let (bound, longest) =
        parts.into_iter().fold((Bound::Vector, 0.0), |most, part| if part.1 > most.1 { part } else { most });
    Estimate { ns: longest, bound, parts }
}

#[cfg(test)]
mod tests {
    use belfry_device::chip::{gfx942, gfx1100};
    use belfry_device::profile::{GlobalAccess, LdsAccess, Occupancy, Resources, Site};
    use belfry_isa::exec::Class;

    use super::*;

    fn kernel(wave_size: WaveSize) -> KernelProfile {
        let resources = Resources {
            wave_size,
            vgprs: 24,
            shared_vgprs: 0,
            sgprs: None,
            lds: 0,
            scratch: 0,
            waves: 2,
            wgp_mode: false,
        };
        let site = Site {
            pc: 0,
            size: 8,
            text: String::new(),
            class: Class::Load,
            executions: 100,
            lanes: 3200,
            entered: true,
            ends_block: false,
            global: Some(GlobalAccess { accesses: 100, lines: 960, ..GlobalAccess::default() }),
            lds: Some(LdsAccess { passes: 4000, ..LdsAccess::default() }),
        };
        KernelProfile {
            launches: 2,
            workgroups: 200,
            waves: 400,
            instructions: [
                (Class::Vector, 1000),
                (Class::Transcendental, 100),
                (Class::Double, 10),
                (Class::Matrix, 1),
                (Class::Scalar, 500),
                (Class::Load, 100),
                (Class::Wait, 50),
            ]
            .into(),
            sites: vec![site],
            resources: Some(resources),
            occupancy: Some(Occupancy::of(&gfx1100::GENERATION.shader, &resources)),
            ..KernelProfile::default()
        }
    }

    fn parts(kernel: &KernelProfile, model: &Model) -> [f64; 6] {
        let estimate = estimate(kernel, model, Shape::one(8));
        let longest = estimate.parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!((estimate.bound, estimate.ns), longest);
        estimate.parts.map(|part| (part.1 * 1e6).round() / 1e6)
    }

    #[test]
    fn arithmetic_of_gfx1100() {
        // 8 compute units, 16 SIMDs; of the 200 waves of a launch each SIMD gets 13, and all of them fit.
        let cycle = 1e3 / 2482.0f64;
        let expected: [f64; 6] = [
            (1000.0 + 400.0 + 160.0 + 32.0) / 16.0 * cycle,
            500.0 / 16.0 * cycle,
            4000.0 / 8.0 * cycle,
            960.0 / 8.0 * cycle,
            960.0 * 128.0 / 960.0,
            50.0 * 500.0 / (16.0 * 13.0) * cycle,
        ];
        assert_eq!(
            parts(&kernel(WaveSize::Wave32), &gfx1100::MODEL),
            expected.map(|ns| (ns * 1e6).round() / 1e6)
        );
        let wide = parts(&kernel(WaveSize::Wave64), &gfx1100::MODEL);
        assert_eq!(wide[0], (expected[0] * 2.0 * 1e6).round() / 1e6);
        let bound = estimate(&kernel(WaveSize::Wave32), &gfx1100::MODEL, Shape::one(8)).bound;
        assert_eq!(bound, Bound::Lds);
    }

    #[test]
    fn arithmetic_of_gfx942() {
        let parts = parts(&kernel(WaveSize::Wave64), &gfx942::MODEL);
        let cycle = 1e3 / 2100.0f64;
        // 32 SIMDs, which issue an instruction of a wave in 4 cycles.
        let vector = (4000.0 + 1600.0 + 40.0 + 16.0) / 32.0 * cycle;
        assert_eq!(parts[0], (vector * 1e6).round() / 1e6);
        assert_eq!(parts[3], (1920.0 / 8.0 * cycle * 1e6).round() / 1e6);
    }

    #[test]
    fn nothing_takes_no_time() {
        let estimate = estimate(&KernelProfile::default(), &gfx1100::MODEL, Shape::one(8));
        assert_eq!(estimate.ns, 0.0);
    }
}
