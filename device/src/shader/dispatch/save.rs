//! A dispatch in progress as plain values.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Dispatch, Owner};
use crate::chip::Generation;
use crate::save::{Broken, check, counter};
use crate::shader::chance::Chance;
use crate::shader::context::SavedGroup;
use crate::shader::launch::Launch;
use crate::shader::queue::{Residency, ShaderQueue};
use crate::shader::scratch::ScratchPool;
use crate::shader::unclaimed::Unclaimed;
use crate::shader::workgroup::{SavedWorkgroup, Workgroup};

/// A dispatch that has not ended, as plain values.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::shader) struct SavedDispatch {
    /// Index of its packet.
    packet: u64,
    launch: Launch,
    /// True if it uses the queue's scratch memory.
    scratch: bool,
    number: u64,
    chance: Option<Chance>,
    ticks: u64,
    unclaimed: Vec<(u64, u64)>,
    done: u64,
    paused: Vec<SavedWorkgroup>,
    /// Workgroups in the context save area.
    away: Vec<SavedGroup>,
}

/// Parts of the new device that a restored dispatch is given.
pub(in crate::shader) struct Restored<'a> {
    pub(in crate::shader) chip: &'static Generation,
    pub(in crate::shader) residency: &'a Arc<Residency>,
    pub(in crate::shader) queue: &'a Arc<ShaderQueue>,
    /// Scratch memory of the queue.
    pub(in crate::shader) scratch: Option<&'a Arc<ScratchPool>>,
    /// True if the schedule is deterministic.
    pub(in crate::shader) deterministic: bool,
}

impl Dispatch {
    /// Saves the dispatch of a packet, between turns.
    pub(in crate::shader) fn save(&self, packet: u64) -> SavedDispatch {
        let away = self.away();
        SavedDispatch {
            packet,
            launch: self.launch.clone(),
            scratch: self.launch.scratch.is_some(),
            number: self.number,
            chance: self.chance(),
            ticks: self.ticks(),
            unclaimed: self.unclaimed.save(),
            done: self.done.load(Ordering::Acquire),
            paused: self.paused().iter().filter_map(|workgroup| workgroup.save()).collect(),
            away,
        }
    }
}

impl SavedDispatch {
    /// Returns the number of waves in progress.
    pub(in crate::shader) fn waves(&self) -> usize {
        self.paused.iter().map(SavedWorkgroup::waves).sum()
    }

    /// Returns the index of its packet.
    pub(in crate::shader) fn packet(&self) -> u64 {
        self.packet
    }

    /// Restores the dispatch, with its workgroups as they were.
    pub(in crate::shader) fn restore(
        &self,
        with: &Restored<'_>,
        owner: Arc<dyn Owner>,
    ) -> Result<Arc<Dispatch>, Broken> {
        let mut launch = self.launch.clone();
        if self.scratch {
            let pool = with.scratch.cloned();
            let none =
                Broken { field: "packet of a dispatch without its scratch memory", value: self.packet };
            launch.scratch = Some(pool.ok_or(none)?);
        }
        launch.check(with.chip)?;
        let total = launch.workgroup_count().unwrap_or(0);
        let unclaimed = Unclaimed::restored(total, &self.unclaimed)?;
        let paused = self.paused.len() as u64;
        let known = self.done.checked_add(unclaimed.left()).and_then(|sum| sum.checked_add(paused));
        let known = known.and_then(|sum| sum.checked_add(self.away.len() as u64));
        check("workgroups of a dispatch", total, known.is_some_and(|known| known <= total))?;
        let decides = self.chance.is_some() == with.deterministic;
        check("whether the schedule is deterministic", self.chance.is_some(), decides)?;
        let number = counter("number of a dispatch", self.number)?;
        let mut dispatch = Dispatch::new(Arc::clone(with.queue), launch, total, number, owner, self.chance);
        dispatch.unclaimed = unclaimed;
        *dispatch.done.get_mut() = self.done;
        let waves = |group: &SavedGroup| {
            group.waves.iter().all(|wave| wave.number < dispatch.launch.waves_per_workgroup())
        };
        check("waves in a context save area", self.packet, self.away.iter().all(waves))?;
        dispatch.away.get_mut().unwrap_or_else(PoisonError::into_inner).clone_from(&self.away);
        *dispatch.ticks.get_mut() = counter("time of a dispatch", self.ticks)?;
        for saved in &self.paused {
            let seat = with.residency.seat_again(with.queue, &dispatch.launch, &saved.seat)?;
            let workgroup = Workgroup::restored(with.chip, &dispatch.launch, saved, seat)?;
            *dispatch.off.get_mut() += usize::from(workgroup.is_off());
            dispatch.paused().push_back(workgroup);
        }
        Ok(Arc::new(dispatch))
    }
}
