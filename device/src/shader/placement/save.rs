//! Places of workgroups as plain values.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Floor, Place};
use crate::chip::{MAX_CUS, WavePlace};
use crate::save::{Broken, check, count};

/// A workgroup's place.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::shader) struct SavedPlace {
    processor: u32,
    /// Number of the workgroup among those of the processor.
    group: u32,
    /// SIMD and slot of each wave.
    waves: Vec<(u8, u8)>,
    vgprs: u32,
    lds: [u32; MAX_CUS],
}

impl Place {
    pub(in crate::shader) fn save(&self) -> SavedPlace {
        SavedPlace {
            processor: self.processor as u32,
            group: self.at.group,
            waves: self.waves.to_vec(),
            vgprs: self.vgprs,
            lds: self.lds,
        }
    }
}

impl Floor {
    /// Returns the processor on which the next workgroup is tried first.
    pub(in crate::shader) fn next(&self) -> u32 {
        self.next as u32
    }

    /// Sets the processor on which the next workgroup is tried first.
    pub(in crate::shader) fn set_next(&mut self, next: u32) -> Result<(), Broken> {
        check("processor to try next", next, (next as usize) < self.processors.len())?;
        self.next = next as usize;
        Ok(())
    }

    /// Takes exactly this place, which has to be free.
    pub(in crate::shader) fn take_again(&mut self, saved: &SavedPlace) -> Result<Place, Broken> {
        let rules = self.rules;
        let none = Broken { field: "processor of a workgroup", value: saved.processor.into() };
        let processor = self.processors.get_mut(saved.processor as usize).ok_or(none)?;
        let free = saved.group < rules.groups && processor.groups >> saved.group & 1 == 0;
        check("workgroup of a processor", saved.group, free)?;
        let mut after = *processor;
        for &(simd, slot) in &saved.waves {
            let exists = usize::from(simd) < rules.simds() && u32::from(slot) < rules.wave_slots;
            check("SIMD or slot of a wave", u16::from(simd) << 8 | u16::from(slot), exists)?;
            let simd = &mut after.simds[usize::from(simd)];
            check("slot of a wave that another one has", slot, simd.slots >> slot & 1 == 0)?;
            simd.slots |= 1 << slot;
            simd.vgprs = simd.vgprs.saturating_add(saved.vgprs);
            check("rows of vector registers of a SIMD", simd.vgprs, simd.vgprs <= rules.vgpr_rows)?;
        }
        for (cu, (used, taken)) in after.lds.iter_mut().zip(saved.lds).enumerate() {
            *used = used.saturating_add(taken);
            check("LDS of a compute unit", *used, *used <= rules.lds && (taken == 0 || cu < rules.cus))?;
        }
        after.groups |= 1 << saved.group;
        count("waves of a workgroup", saved.waves.len(), !saved.waves.is_empty())?;
        *processor = after;
        Ok(Place {
            processor: saved.processor as usize,
            waves: SmallVec::from_slice(&saved.waves),
            vgprs: saved.vgprs,
            lds: saved.lds,
            at: WavePlace { group: saved.group, ..processor.at },
            ids: rules.place_ids,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::chip::gfx1100::GENERATION;
    use crate::chip::{CuMask, Topology};
    use crate::shader::placement::{Floor, Need};

    fn floor() -> Floor {
        let topology =
            Topology { xccs: 1, shader_engines: 1, arrays_per_engine: 1, wgps_per_array: 2, wgps: 2 };
        Floor::new(topology, &GENERATION.shader)
    }

    #[test]
    fn place_is_taken_again_once_with_the_same_registers() {
        let (mut original, mut restored) = (floor(), floor());
        let need = Need { waves: 3, vgprs: 96, lds: 4096, wgp_mode: true, cus: CuMask::ALL };
        let places = [original.take(&need), original.take(&need), original.take(&need)];
        let last = places[2].as_ref().expect("there is room").save();
        let again = restored.take_again(&last).expect("it is free");
        assert_eq!(again.hw_ids(2), places[2].as_ref().expect("there is room").hw_ids(2));
        assert_eq!(restored.take_again(&last).expect_err("taken").field, "workgroup of a processor");
        restored.give(&again);
        restored.take_again(&last).expect("free again");
        for (field, change) in [
            ("processor of a workgroup", (|place| place.processor = 2) as fn(&mut super::SavedPlace)),
            ("workgroup of a processor", |place| place.group = 32),
            ("SIMD or slot of a wave", |place| place.waves[0] = (4, 0)),
            ("SIMD or slot of a wave", |place| place.waves[0] = (0, 16)),
            ("slot of a wave that another one has", |place| place.waves[1] = place.waves[0]),
            ("rows of vector registers of a SIMD", |place| place.vgprs = 1537),
            ("LDS of a compute unit", |place| place.lds[1] = u32::MAX),
            ("waves of a workgroup", |place| place.waves.clear()),
        ] {
            let mut place = last.clone();
            change(&mut place);
            assert_eq!(floor().take_again(&place).expect_err("no such place").field, field);
        }
        assert!(restored.set_next(2).is_err() && restored.set_next(1).is_ok());
    }
}
