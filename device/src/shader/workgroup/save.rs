//! A paused workgroup as plain values.

use belfry_isa::exec::{Barriers, Lds};
use belfry_isa::save::SavedWave;
use belfry_isa::wave::Wave;
use serde::{Deserialize, Serialize};

use super::{State, Workgroup};
use crate::chip::Generation;
use crate::save::{Broken, check, count};
use crate::shader::launch::Launch;
use crate::shader::queue::{SavedSeat, Seat};

/// Waves and LDS of one workgroup.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::shader) struct SavedWorkgroup {
    id: [u32; 3],
    waves: Vec<(SavedWave, State)>,
    /// Wave that runs next.
    next: u32,
    #[serde(with = "serde_bytes")]
    lds: Vec<u8>,
    barriers: Barriers,
    pub(in crate::shader) seat: SavedSeat,
}

impl SavedWorkgroup {
    /// Returns the number of waves that have not ended.
    pub(in crate::shader) fn waves(&self) -> usize {
        self.waves.iter().filter(|(_, state)| *state != State::Ended).count()
    }
}

impl Workgroup {
    /// Saves the workgroup; `None` if it has no seat, but every paused one has.
    pub(in crate::shader) fn save(&self) -> Option<SavedWorkgroup> {
        let waves = self.waves.iter().take(self.count).zip(&self.states);
        Some(SavedWorkgroup {
            id: self.id,
            waves: waves.map(|(wave, state)| (wave.save(), *state)).collect(),
            next: self.next as u32,
            lds: self.lds.bytes().to_vec(),
            barriers: self.lds.barriers,
            seat: self.seat.as_ref()?.save(),
        })
    }

    /// Restores a workgroup of a launch, on a seat that was taken for it.
    pub(in crate::shader) fn restored(
        chip: &'static Generation,
        launch: &Launch,
        saved: &SavedWorkgroup,
        seat: Box<Seat>,
    ) -> Result<Box<Self>, Broken> {
        check("number of a workgroup", saved.id[0], launch.has_workgroup(saved.id))?;
        let items: u32 = launch.extent(saved.id).iter().product();
        let expected = items.div_ceil(launch.lanes()) as usize;
        count("waves of a workgroup", saved.waves.len(), saved.waves.len() == expected)?;
        check("wave that runs next", saved.next, (saved.next as usize) < expected)?;
        count("bytes of LDS", saved.lds.len(), saved.lds.len() == launch.lds_size as usize)?;
        let registers = launch.most_vgprs() + launch.shared_vgprs;
        let mut waves = Vec::with_capacity(expected);
        for (wave, _) in &saved.waves {
            let alike = wave.size() == launch.wave_size && wave.allocates_vgprs() == launch.allocates_vgprs;
            let fits = alike && wave.registers() <= registers;
            check("vector registers of a wave", wave.registers(), fits)?;
            let field = "contents of a wave's registers";
            waves.push(Wave::restore(chip.arch, wave).map_err(|_| Broken { field, value: 0 })?);
        }
        let mut lds = Lds::default();
        lds.reset(launch.lds_size);
        lds.bytes_mut().copy_from_slice(&saved.lds);
        lds.barriers = saved.barriers;
        Ok(Box::new(Self {
            chip,
            id: saved.id,
            waves,
            states: saved.waves.iter().map(|(_, state)| *state).collect(),
            count: expected,
            next: saved.next as usize,
            lds,
            seat: Some(seat),
            // The sanitizer knows nothing of its waves' past.
            check: None,
            profile: None,
            hangs: false,
            has_looked: false,
            in_flight: None,
        }))
    }
}
