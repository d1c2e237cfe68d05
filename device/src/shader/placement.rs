//! The SIMD of each wave: wave slots, vector registers and LDS of the modelled GPU, whose sizes the chip gives.

mod save;

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::chip::{CuMask, MAX_CUS, MAX_SIMDS, ShaderRules, Topology, WavePlace};

pub(super) use save::SavedPlace;

/// Resources that a workgroup needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Need {
    /// Number of waves.
    pub(super) waves: u32,
    /// Rows of vector registers of each wave.
    pub(super) vgprs: u32,
    /// Bytes of LDS.
    pub(super) lds: u32,
    /// True if it is spread over both compute units of a processor, false if it sits on one.
    pub(super) wgp_mode: bool,
    /// Compute units that it may be on.
    pub(super) cus: CuMask,
}

impl Need {
    /// Returns the groups of compute units of a processor that it may sit on: all of them together, or each one by
    /// itself.
    fn choices(&self, rules: &ShaderRules, at: WavePlace) -> impl Iterator<Item = Range<usize>> + use<> {
        let enabled = (rules.enabled_cus)(&self.cus, at);
        let width = if self.wgp_mode { rules.cus } else { 1 };
        let wanted = (1u32 << width) - 1;
        let starts = (0..rules.cus).step_by(width);
        starts.filter(move |start| enabled >> start & wanted == wanted).map(move |start| start..start + width)
    }

    /// Returns true if an empty processor or compute unit holds it.
    pub(super) fn fits_at_all(&self, rules: &ShaderRules) -> bool {
        let simds = if self.wgp_mode { rules.simds() } else { rules.simds_per_cu };
        let per_simd = (rules.vgpr_rows / self.vgprs.max(1)).min(rules.wave_slots);
        self.waves <= per_simd * simds as u32 && self.lds <= rules.lds
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Simd {
    /// Slots in use.
    slots: u16,
    vgprs: u32,
}

/// A work group processor, or a compute unit of a chip without them.
#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    /// SIMDs; the first ones, as many as the chip has, are in use.
    simds: [Simd; MAX_SIMDS],
    /// Bytes of LDS in use, for each compute unit.
    lds: [u32; MAX_CUS],
    groups: u32,
    /// Place of its first slot.
    at: WavePlace,
}

/// A workgroup's place.
pub(super) struct Place {
    processor: usize,
    /// SIMD and slot of each wave, without an allocation for the few that most workgroups have.
    waves: SmallVec<[(u8, u8); 8]>,
    vgprs: u32,
    lds: [u32; MAX_CUS],
    at: WavePlace,
    ids: fn(WavePlace) -> [u32; 2],
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WavePlace { engine, array, processor, group, .. } = self.at;
        f.debug_struct("Place")
            .field("shader_engine", &format_args!("{engine}"))
            .field("array", &format_args!("{array}"))
            .field("wgp", &format_args!("{processor}"))
            .field("workgroup_slot", &format_args!("{group}"))
            .field("simd_and_slot_of_waves", &format_args!("{:?}", self.waves))
            .finish_non_exhaustive()
    }
}

impl Place {
    /// Returns the bits of `HW_ID1` and `HW_ID2` that give a wave's place.
    pub(super) fn hw_ids(&self, wave: u32) -> [u32; 2] {
        let (simd, slot) = self.waves.get(wave as usize).copied().unwrap_or((0, 0));
        (self.ids)(WavePlace { simd: simd.into(), slot: slot.into(), ..self.at })
    }
}

/// All processors.
pub(super) struct Floor {
    rules: &'static ShaderRules,
    processors: Vec<Processor>,
    /// Processor on which the next workgroup is tried first, so that workgroups spread over the GPU.
    next: usize,
}

impl fmt::Debug for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simds = || self.processors.iter().flat_map(|processor| &processor.simds[..self.rules.simds()]);
        let groups: u32 = self.processors.iter().map(|processor| processor.groups.count_ones()).sum();
        let waves: u32 = simds().map(|simd| simd.slots.count_ones()).sum();
        let slots = simds().count() * self.rules.wave_slots as usize;
        f.debug_struct("Floor")
            .field("wgps", &format_args!("{}", self.processors.len()))
            .field("workgroups", &format_args!("{groups}"))
            .field("waves", &format_args!("{waves} of {slots}"))
            .finish()
    }
}

impl Floor {
    pub(super) fn new(topology: Topology, rules: &'static ShaderRules) -> Floor {
        let mut processors = Vec::new();
        let arrays = topology.shader_engines * topology.arrays_per_engine;
        let places = (0..topology.xccs).flat_map(|xcc| (0..arrays).map(move |array| (xcc, array)));
        for (xcc, at) in places {
            let (engine, array) = (at / topology.arrays_per_engine, at % topology.arrays_per_engine);
            for processor in 0..topology.active_wgps(at) {
                let at = WavePlace { xcc, engine, array, processor, ..WavePlace::default() };
                let (simds, lds) = ([Simd::default(); MAX_SIMDS], [0; MAX_CUS]);
                processors.push(Processor { simds, lds, groups: 0, at });
            }
        }
        Floor { rules, processors, next: 0 }
    }

    /// Returns the number of wave slots of all processors.
    pub(super) fn wave_slots(&self) -> u64 {
        let one = self.rules.simds() as u64 * u64::from(self.rules.wave_slots);
        self.processors.len() as u64 * one
    }

    /// Returns the bytes of LDS and of vector registers in use.
    pub(super) fn in_use(&self) -> (u64, u64) {
        let lds = self.processors.iter().flat_map(|processor| processor.lds).map(u64::from).sum();
        let simds = self.processors.iter().flat_map(|processor| processor.simds);
        let rows: u64 = simds.map(|simd| u64::from(simd.vgprs)).sum();
        (lds, rows * u64::from(self.rules.row_lanes) * size_of::<u32>() as u64)
    }

    /// Takes a place, if there is one.
    pub(super) fn take(&mut self, need: &Need) -> Option<Place> {
        let count = self.processors.len();
        for distance in 0..count {
            let index = (self.next + distance) % count;
            let processor = &mut self.processors[index];
            let mut choices = need.choices(self.rules, processor.at);
            if let Some(place) = choices.find_map(|cus| processor.take(self.rules, need, cus)) {
                self.next = (index + 1) % count;
                return Some(Place { processor: index, ..place });
            }
        }
        None
    }

    /// Returns true if a workgroup finds a place on an empty GPU.
    pub(super) fn holds(&self, need: &Need) -> bool {
        self.processors.iter().any(|processor| {
            let mut empty = Processor { at: processor.at, ..Processor::default() };
            need.choices(self.rules, processor.at).any(|cus| empty.take(self.rules, need, cus).is_some())
        })
    }

    /// Gives a place back.
    pub(super) fn give(&mut self, place: &Place) {
        let Some(processor) = self.processors.get_mut(place.processor) else { return };
        for &(simd, slot) in &place.waves {
            let simd = &mut processor.simds[usize::from(simd) % MAX_SIMDS];
            simd.slots &= !(1 << slot);
            simd.vgprs -= place.vgprs;
        }
        for (used, given) in processor.lds.iter_mut().zip(place.lds) {
            *used -= given;
        }
        processor.groups &= !(1 << place.at.group);
    }
}

impl Processor {
    /// Takes slots on some of the compute units.
    fn take(&mut self, rules: &ShaderRules, need: &Need, cus: Range<usize>) -> Option<Place> {
        let group = (!self.groups).trailing_zeros();
        if group >= rules.groups {
            return None;
        }
        let mut lds = [0; MAX_CUS];
        let mut left = need.lds;
        for cu in cus.clone() {
            lds[cu] = left.min(rules.lds - self.lds[cu]);
            left -= lds[cu];
        }
        if left != 0 {
            return None;
        }
        let mut after = self.simds;
        let mut waves = SmallVec::with_capacity(need.waves as usize);
        let all = (1u32 << rules.wave_slots) - 1;
        for _ in 0..need.waves {
            // The emptiest SIMD, as the hardware balances them.
            let (index, simd) = after
                .iter_mut()
                .enumerate()
                .take(cus.end * rules.simds_per_cu)
                .skip(cus.start * rules.simds_per_cu)
                .filter(|(_, simd)| {
                    u32::from(simd.slots) != all && simd.vgprs + need.vgprs <= rules.vgpr_rows
                })
                .min_by_key(|(_, simd)| simd.slots.count_ones())?;
            let slot = (!simd.slots).trailing_zeros();
            simd.slots |= 1 << slot;
            simd.vgprs += need.vgprs;
            waves.push((index as u8, slot as u8));
        }
        self.simds = after;
        for (used, taken) in self.lds.iter_mut().zip(lds) {
            *used += taken;
        }
        self.groups |= 1 << group;
        let at = WavePlace { group, ..self.at };
        Some(Place { processor: 0, waves, vgprs: need.vgprs, lds, at, ids: rules.place_ids })
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::inst::WaveSize;

    use super::*;
    use crate::chip::MAX_ENGINES;
    use crate::chip::gfx1100::GENERATION;

    const RULES: &ShaderRules = &GENERATION.shader;

    fn allocated(size: WaveSize, count: u16, shared: u16) -> u32 {
        RULES.allocated_vgprs(size, count, shared)
    }

    fn topology(wgps: u32) -> Topology {
        let arrays = if wgps == 1 { 1 } else { 2 };
        Topology {
            xccs: 1,
            shader_engines: 1,
            arrays_per_engine: arrays,
            wgps_per_array: wgps / arrays,
            wgps,
        }
    }

    fn floor(wgps: u32) -> Floor {
        Floor::new(topology(wgps), RULES)
    }

    fn fill(floor: &mut Floor, need: Need) -> Vec<Place> {
        core::iter::from_fn(|| floor.take(&need)).collect()
    }

    #[test]
    fn what_is_in_use_is_what_was_given() {
        let mut floor = floor(2);
        assert_eq!(floor.in_use(), (0, 0));
        let need = Need {
            waves: 2,
            vgprs: allocated(WaveSize::Wave32, 24, 0),
            lds: 1024,
            wgp_mode: true,
            cus: CuMask::ALL,
        };
        let (first, _second) = (floor.take(&need).unwrap(), floor.take(&need).unwrap());
        assert_eq!(floor.in_use(), (2048, 2 * 2 * 24 * 32 * 4));
        floor.give(&first);
        assert_eq!(floor.in_use(), (1024, 2 * 24 * 32 * 4));
    }

    #[test]
    fn occupancy_is_that_of_the_chip() {
        // Registers and waves of a SIMD, LLVM's `getNumWavesPerEUWithNumVGPRs` for gfx1100.
        for (size, vgprs, waves) in [
            (WaveSize::Wave32, 8, 16),
            (WaveSize::Wave32, 96, 16),
            (WaveSize::Wave32, 97, 12),
            (WaveSize::Wave32, 128, 10),
            (WaveSize::Wave32, 168, 9),
            (WaveSize::Wave32, 256, 5),
            (WaveSize::Wave64, 48, 16),
            (WaveSize::Wave64, 49, 12),
            (WaveSize::Wave64, 128, 5),
            (WaveSize::Wave64, 256, 2),
        ] {
            let need =
                Need { waves: 1, vgprs: allocated(size, vgprs, 0), lds: 0, wgp_mode: true, cus: CuMask::ALL };
            let mut floor = floor(1);
            // Workgroups of one wave are limited to their own number too.
            let places = fill(&mut floor, need).len() as u32;
            assert_eq!(places, (waves * 4).min(RULES.groups), "{size:?} {vgprs}");
            let four = Need { waves: 4, ..need };
            assert_eq!(fill(&mut self::floor(1), four).len() as u32, waves, "{size:?} {vgprs}");
        }
    }

    #[test]
    fn shared_registers_take_half_the_room() {
        let waves = |count, shared| {
            let vgprs = allocated(WaveSize::Wave64, count, shared);
            fill(&mut floor(1), Need { waves: 4, vgprs, lds: 0, wgp_mode: true, cus: CuMask::ALL }).len()
        };
        // 1536 rows of a SIMD: 2 * 48 of a wave are 16 waves, 2 * 48 + 8 in units of 24 are 12.
        assert_eq!(
            [waves(48, 0), waves(40, 16), waves(48, 8), waves(52, 16), waves(136, 120)],
            [16, 16, 12, 12, 3]
        );
    }

    #[test]
    fn lds_limits_workgroups_of_a_compute_unit_or_of_both() {
        let need = |lds, wgp_mode| Need { waves: 1, vgprs: 24, lds, wgp_mode, cus: CuMask::ALL };
        for (lds, cu, wgp) in [(64 << 10, 2, 2), (33 << 10, 2, 3), (32 << 10, 4, 4), (40 << 10, 2, 3)] {
            assert_eq!(fill(&mut floor(1), need(lds, false)).len(), cu, "{lds}");
            assert_eq!(fill(&mut floor(1), need(lds, true)).len(), wgp, "{lds}");
        }
        assert!(!need((64 << 10) + 1, true).fits_at_all(RULES));
    }

    #[test]
    fn workgroups_that_no_processor_holds_are_known() {
        let need = |waves, count, wgp_mode| Need {
            waves,
            vgprs: allocated(WaveSize::Wave32, count, 0),
            lds: 0,
            wgp_mode,
            cus: CuMask::ALL,
        };
        assert!(need(32, 96, false).fits_at_all(RULES));
        assert!(!need(32, 97, false).fits_at_all(RULES));
        assert!(need(32, 97, true).fits_at_all(RULES));
        assert!(!need(32, 256, true).fits_at_all(RULES));
    }

    #[test]
    fn places_are_distinct_and_come_back() {
        let mut floor = floor(4);
        let need = Need { waves: 8, vgprs: 96, lds: 1024, wgp_mode: false, cus: CuMask::ALL };
        let places = fill(&mut floor, need);
        assert_eq!(places.len(), 4 * 8);
        let mut ids: Vec<u32> =
            places.iter().flat_map(|place| (0..8).map(|wave| place.hw_ids(wave)[0])).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4 * 64);
        // In CU mode all waves of a workgroup are on two neighbouring SIMDs.
        for place in &places {
            let first = place.hw_ids(0)[0] >> 9 & 1;
            assert!((0..8).all(|wave| place.hw_ids(wave)[0] >> 9 & 1 == first));
        }
        places.iter().for_each(|place| floor.give(place));
        assert!(floor.processors.iter().all(|wgp| wgp.groups == 0 && wgp.lds == [0; 2]));
        assert!(
            floor
                .processors
                .iter()
                .all(|wgp| wgp.simds.iter().all(|simd| simd.slots == 0 && simd.vgprs == 0))
        );
        assert_eq!(fill(&mut floor, need).len(), 32);
    }

    #[test]
    fn workgroups_stay_on_the_compute_units_of_their_mask() {
        let need = |cus, wgp_mode| Need { waves: 4, vgprs: 24, lds: 0, wgp_mode, cus: CuMask(cus) };
        // One engine of two arrays with two processors each.
        let places = |cus, wgp_mode| {
            let mut floor = floor(4);
            let need = need(cus, wgp_mode);
            assert_eq!(floor.holds(&need), floor.take(&need).is_some(), "{cus:x?}");
            let places = fill(&mut floor, need);
            let mut found: Vec<_> = places.iter().map(|place| (place.at.array, place.at.processor)).collect();
            found.sort_unstable();
            found.dedup();
            let on = |cu| {
                let waves = places.iter().flat_map(|place| &place.waves);
                waves.map(|wave| usize::from(wave.0) / RULES.simds_per_cu).any(|of| of == cu)
            };
            (found, [on(0), on(1)])
        };
        let both = [true, true];
        assert_eq!(places([0x0000_000c; MAX_ENGINES], true), (vec![(0, 1)], both));
        assert_eq!(places([0x0003_0000; MAX_ENGINES], false), (vec![(1, 0)], both));
        assert_eq!(places([0x0003_000c; MAX_ENGINES], true), (vec![(0, 1), (1, 0)], both));
        // Half a processor has its compute unit for workgroups that need no more.
        assert_eq!(places([2; MAX_ENGINES], false), (vec![(0, 0)], [false, true]));
        assert_eq!(places([2; MAX_ENGINES], true), (vec![], [false; 2]));
        // Processors that there are not, engines that there are not.
        assert_eq!(places([0xfff0_fff0; MAX_ENGINES], false), (vec![], [false; 2]));
        let mut other = [0; MAX_ENGINES];
        other[1] = u32::MAX;
        assert_eq!(places(other, false), (vec![], [false; 2]));
    }

    #[test]
    fn compute_units_without_work_group_processors_fill_by_their_own_sizes() {
        // As CDNA3 has them: four SIMDs of eight waves and 512 rows of 64 lanes, in units of eight.
        static CDNA3: ShaderRules = ShaderRules {
            wave_slots: 8,
            vgpr_rows: 512,
            vgpr_granule: 8,
            row_lanes: 64,
            cus: 1,
            simds_per_cu: 4,
            ..GENERATION.shader
        };
        let need = |waves, count| Need {
            waves,
            vgprs: CDNA3.allocated_vgprs(WaveSize::Wave64, count, 0),
            lds: 0,
            wgp_mode: false,
            cus: CuMask::ALL,
        };
        assert_eq!([1, 8, 9, 65, 512].map(|count| need(1, count).vgprs), [8, 8, 16, 72, 512]);
        for (count, waves) in [(8, 32), (64, 32), (65, 28), (128, 16), (256, 8), (512, 4)] {
            let mut floor = Floor::new(topology(1), &CDNA3);
            assert_eq!(fill(&mut floor, need(1, count)).len(), waves, "{count} registers");
        }
        assert!(need(16, 128).fits_at_all(&CDNA3) && !need(17, 128).fits_at_all(&CDNA3));
        let mut floor = Floor::new(topology(1), &CDNA3);
        let lds = Need { lds: 40 << 10, ..need(1, 8) };
        assert_eq!(fill(&mut floor, lds).len(), 1, "there is no second unit's LDS to take from");
    }
}
