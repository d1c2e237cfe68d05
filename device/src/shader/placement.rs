//! Which SIMD a wave sits on: wave slots, vector registers and LDS of the modelled GPU.
//!
//! Sizes of gfx1100: LLVM `AMDGPUBaseInfo.cpp` (`getTotalNumVGPRs`, `getVGPRAllocGranule`, `getMaxWavesPerEU`,
//! `getAddressableLocalMemorySize`).

use belfry_isa::inst::WaveSize;

use crate::chip::Topology;

/// Waves a SIMD holds.
const SLOTS: u32 = 16;
/// Vector registers of a SIMD, of 32 lanes each.
const VGPRS: u32 = 1536;
/// Unit of their allocation.
const GRANULE: u32 = 24;
/// SIMDs of a work group processor; a compute unit has two of them.
const SIMDS: usize = 4;
/// Bytes of LDS of a compute unit.
const LDS: u32 = 64 << 10;
/// Workgroups a work group processor holds.
const GROUPS: u32 = 32;

/// What a workgroup needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Need {
    /// Waves.
    pub(super) waves: u32,
    /// Vector registers of each, in units of 32 lanes.
    pub(super) vgprs: u32,
    /// Bytes of LDS.
    pub(super) lds: u32,
    /// Over both compute units of a work group processor instead of one.
    pub(super) wgp_mode: bool,
}

/// Vector registers, of 32 lanes each, that a wave of `size` with `count` registers occupies; of those the halves of a
/// wave64 share, each is one.
pub(super) fn allocated(size: WaveSize, count: u16, shared: u16) -> u32 {
    let rows = match size {
        WaveSize::Wave32 => u32::from(count),
        WaveSize::Wave64 => u32::from(count) * 2 + u32::from(shared),
    };
    rows.next_multiple_of(GRANULE).max(GRANULE)
}

impl Need {
    /// Whether an empty work group processor or compute unit holds it.
    pub(super) fn fits_at_all(&self) -> bool {
        let simds = if self.wgp_mode { 4 } else { 2 };
        let per_simd = (VGPRS / self.vgprs.max(1)).min(SLOTS);
        self.waves <= per_simd * simds && self.lds <= LDS
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Simd {
    /// Slots in use.
    slots: u16,
    vgprs: u32,
}

#[derive(Clone, Copy, Debug)]
struct Wgp {
    simds: [Simd; SIMDS],
    /// Bytes of LDS in use, of the first and of the second compute unit.
    lds: [u32; 2],
    groups: u32,
    /// `HW_ID1` of slot 0 of SIMD 0.
    id: u32,
}

/// A workgroup's place.
#[derive(Debug)]
pub(super) struct Place {
    wgp: usize,
    /// SIMD and slot of each wave.
    waves: Vec<(u8, u8)>,
    vgprs: u32,
    lds: [u32; 2],
    group: u32,
    id: u32,
}

impl Place {
    /// `HW_ID1` of a wave: WAVE_ID 4:0, SIMD_ID 9:8, WGP_ID 13:10, SA_ID 16, SE_ID 20:18.
    pub(super) fn hw_id1(&self, wave: u32) -> u32 {
        let (simd, slot) = self.waves.get(wave as usize).copied().unwrap_or((0, 0));
        self.id | u32::from(simd) << 8 | u32::from(slot)
    }

    /// `HW_ID2.WG_ID`, bits 20:16.
    pub(super) fn group_id(&self) -> u32 {
        self.group << 16
    }
}

/// All work group processors.
#[derive(Debug)]
pub(super) struct Floor {
    wgps: Vec<Wgp>,
    /// Where the next workgroup is tried first: they spread over the GPU.
    next: usize,
}

impl Floor {
    pub(super) fn new(topology: Topology) -> Floor {
        let mut wgps = Vec::new();
        for engine in 0..topology.shader_engines {
            for array in 0..topology.arrays_per_engine {
                for wgp in 0..topology.active_wgps(engine * topology.arrays_per_engine + array) {
                    let id = wgp << 10 | array << 16 | engine << 18;
                    wgps.push(Wgp { simds: [Simd::default(); SIMDS], lds: [0; 2], groups: 0, id });
                }
            }
        }
        Floor { wgps, next: 0 }
    }

    /// Takes a place, if there is one.
    pub(super) fn take(&mut self, need: &Need) -> Option<Place> {
        let count = self.wgps.len();
        for distance in 0..count {
            let index = (self.next + distance) % count;
            let wgp = &mut self.wgps[index];
            let place = if need.wgp_mode {
                wgp.take(need, 0..SIMDS)
            } else {
                wgp.take(need, 0..2).or_else(|| wgp.take(need, 2..SIMDS))
            };
            if let Some(place) = place {
                self.next = (index + 1) % count;
                return Some(Place { wgp: index, ..place });
            }
        }
        None
    }

    /// Gives a place back.
    pub(super) fn give(&mut self, place: &Place) {
        let Some(wgp) = self.wgps.get_mut(place.wgp) else { return };
        for &(simd, slot) in &place.waves {
            let simd = &mut wgp.simds[usize::from(simd) % SIMDS];
            simd.slots &= !(1 << slot);
            simd.vgprs -= place.vgprs;
        }
        for (used, given) in wgp.lds.iter_mut().zip(place.lds) {
            *used -= given;
        }
        wgp.groups &= !(1 << place.group);
    }
}

impl Wgp {
    /// Takes slots on some of the SIMDs.
    fn take(&mut self, need: &Need, simds: core::ops::Range<usize>) -> Option<Place> {
        let group = (!self.groups).trailing_zeros();
        if group >= GROUPS {
            return None;
        }
        let cu = simds.start / 2;
        let free = self.lds.map(|used| LDS - used);
        let lds = match simds.len() {
            SIMDS => {
                let first = need.lds.min(free[0]);
                [first, need.lds - first]
            }
            _ if cu == 0 => [need.lds, 0],
            _ => [0, need.lds],
        };
        if lds[0] > free[0] || lds[1] > free[1] {
            return None;
        }
        let mut after = self.simds;
        let mut waves = Vec::with_capacity(need.waves as usize);
        for _ in 0..need.waves {
            // The emptiest SIMD, as the hardware balances them.
            let (index, simd) = after
                .iter_mut()
                .enumerate()
                .take(simds.end)
                .skip(simds.start)
                .filter(|(_, simd)| simd.slots != u16::MAX && simd.vgprs + need.vgprs <= VGPRS)
                .min_by_key(|(_, simd)| simd.slots.count_ones())?;
            let slot = (!simd.slots).trailing_zeros();
            simd.slots |= 1 << slot;
            simd.vgprs += need.vgprs;
            waves.push((index as u8, slot as u8));
        }
        self.simds = after;
        self.lds = [self.lds[0] + lds[0], self.lds[1] + lds[1]];
        self.groups |= 1 << group;
        Some(Place { wgp: 0, waves, vgprs: need.vgprs, lds, group, id: self.id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(wgps: u32) -> Floor {
        let arrays = if wgps == 1 { 1 } else { 2 };
        Floor::new(Topology {
            shader_engines: 1,
            arrays_per_engine: arrays,
            wgps_per_array: wgps / arrays,
            wgps,
        })
    }

    fn fill(floor: &mut Floor, need: Need) -> Vec<Place> {
        core::iter::from_fn(|| floor.take(&need)).collect()
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
            let need = Need { waves: 1, vgprs: allocated(size, vgprs, 0), lds: 0, wgp_mode: true };
            let mut floor = floor(1);
            // Workgroups of one wave are limited to their own number too.
            let places = fill(&mut floor, need).len() as u32;
            assert_eq!(places, (waves * 4).min(GROUPS), "{size:?} {vgprs}");
            let four = Need { waves: 4, ..need };
            assert_eq!(fill(&mut self::floor(1), four).len() as u32, waves, "{size:?} {vgprs}");
        }
    }

    #[test]
    fn shared_registers_take_half_the_room() {
        let waves = |count, shared| {
            let vgprs = allocated(WaveSize::Wave64, count, shared);
            fill(&mut floor(1), Need { waves: 4, vgprs, lds: 0, wgp_mode: true }).len()
        };
        // 1536 rows of a SIMD: 2 * 48 of a wave are 16 waves, 2 * 48 + 8 in units of 24 are 12.
        assert_eq!(
            [waves(48, 0), waves(40, 16), waves(48, 8), waves(52, 16), waves(136, 120)],
            [16, 16, 12, 12, 3]
        );
    }

    #[test]
    fn lds_limits_workgroups_of_a_compute_unit_or_of_both() {
        let need = |lds, wgp_mode| Need { waves: 1, vgprs: 24, lds, wgp_mode };
        for (lds, cu, wgp) in [(64 << 10, 2, 2), (33 << 10, 2, 3), (32 << 10, 4, 4), (40 << 10, 2, 3)] {
            assert_eq!(fill(&mut floor(1), need(lds, false)).len(), cu, "{lds}");
            assert_eq!(fill(&mut floor(1), need(lds, true)).len(), wgp, "{lds}");
        }
        assert!(!need((64 << 10) + 1, true).fits_at_all());
    }

    #[test]
    fn workgroups_that_no_processor_holds_are_known() {
        let need = |waves, count, wgp_mode| Need {
            waves,
            vgprs: allocated(WaveSize::Wave32, count, 0),
            lds: 0,
            wgp_mode,
        };
        assert!(need(32, 96, false).fits_at_all());
        assert!(!need(32, 97, false).fits_at_all());
        assert!(need(32, 97, true).fits_at_all());
        assert!(!need(32, 256, true).fits_at_all());
    }

    #[test]
    fn places_are_distinct_and_come_back() {
        let mut floor = floor(4);
        let need = Need { waves: 8, vgprs: 96, lds: 1024, wgp_mode: false };
        let places = fill(&mut floor, need);
        assert_eq!(places.len(), 4 * 8);
        let mut ids: Vec<u32> =
            places.iter().flat_map(|place| (0..8).map(|wave| place.hw_id1(wave))).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4 * 64);
        // In CU mode all waves of a workgroup are on two neighbouring SIMDs.
        for place in &places {
            let first = place.hw_id1(0) >> 9 & 1;
            assert!((0..8).all(|wave| place.hw_id1(wave) >> 9 & 1 == first));
        }
        places.iter().for_each(|place| floor.give(place));
        assert!(floor.wgps.iter().all(|wgp| wgp.groups == 0 && wgp.lds == [0; 2]));
        assert!(floor.wgps.iter().all(|wgp| wgp.simds.iter().all(|simd| simd.slots == 0 && simd.vgprs == 0)));
        assert_eq!(fill(&mut floor, need).len(), 32);
    }
}
