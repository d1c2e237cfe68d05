//! Seats of workgroups as plain values, and queues that go on from a snapshot.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_isa::mem::Apertures;
use belfry_lock::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::{Permission, Residency, Seat, ShaderQueue, Standing};
use crate::save::{Broken, check, count};
use crate::shader::gws::Gws;
use crate::shader::launch::Launch;
use crate::shader::placement::{Place, SavedPlace};
use crate::vm::AddressSpace;

/// Standing of a workgroup with the GPU.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum SavedStanding {
    On(SavedPlace),
    /// Beyond the workgroups that the GPU holds, with the place that it has there since the queue has other workgroups.
    Beyond(Option<SavedPlace>),
    Off,
}

/// Room for one workgroup, and its slots of scratch memory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::shader) struct SavedSeat {
    standing: SavedStanding,
    /// Slot of each wave; `None` for a wave that had ended before its queue was preempted.
    scratch: Vec<Option<u32>>,
}

impl ShaderQueue {
    /// Makes a queue that is suspended, or stopped for good.
    pub(crate) fn restored(
        space: Arc<AddressSpace>,
        apertures: Apertures,
        gws: Arc<Gws>,
        stopped: bool,
    ) -> Arc<ShaderQueue> {
        let permission = if stopped { Permission::Stopped } else { Permission::Suspended };
        Arc::new(ShaderQueue {
            space,
            apertures,
            permission: AtomicU8::new(permission as u8),
            turns: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            busy: Mutex::new(()),
            left: Condvar::new(),
            waves: AtomicU32::new(0),
            gws,
        })
    }

    /// Has turns end at their next wave switch. Returns true if the queue ran until now.
    pub(in crate::shader) fn begin_suspension(&self) -> bool {
        let from = (Permission::Run as u8, Permission::Suspended as u8);
        self.permission.compare_exchange(from.0, from.1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Seat {
    pub(in crate::shader) fn save(&self) -> SavedSeat {
        let standing = match &self.standing {
            Standing::On(place) => SavedStanding::On(place.save()),
            Standing::Beyond => {
                let rooms = self.residency.rooms();
                let place = rooms.beyond.get(&self.queue.address()).and_then(|(_, place)| place.as_ref());
                SavedStanding::Beyond(place.map(Place::save))
            }
            Standing::Off => SavedStanding::Off,
        };
        SavedSeat { standing, scratch: self.scratch.iter().flat_map(|(_, slots)| slots).copied().collect() }
    }
}

impl Residency {
    /// Returns the processor on which the next workgroup is tried first.
    pub(in crate::shader) fn next(&self) -> u32 {
        self.rooms().floor.next()
    }

    /// Sets the processor on which the next workgroup is tried first.
    pub(in crate::shader) fn set_next(&self, next: u32) -> Result<(), Broken> {
        self.rooms().floor.set_next(next)
    }

    /// Takes the very seat that a workgroup had.
    pub(in crate::shader) fn seat_again(
        self: &Arc<Self>,
        queue: &Arc<ShaderQueue>,
        launch: &Launch,
        saved: &SavedSeat,
    ) -> Result<Box<Seat>, Broken> {
        let need = launch.need(self.rules);
        let wanted = if launch.scratch.is_some() { need.waves as usize } else { 0 };
        count("slots of scratch memory of a workgroup", saved.scratch.len(), saved.scratch.len() == wanted)?;
        if let Some(pool) = &launch.scratch {
            let outside = saved.scratch.iter().flatten().find(|&&slot| slot >= pool.slots());
            outside.map_or(Ok(()), |&slot| check("slot of scratch memory", slot, false))?;
        }
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = match &saved.standing {
            SavedStanding::On(place) => Standing::On(rooms.floor.take_again(place)?),
            SavedStanding::Beyond(place) => {
                let place = place.as_ref().map(|place| rooms.floor.take_again(place)).transpose()?;
                let before = rooms.beyond.insert(queue.address(), (need, place));
                check("workgroups of a queue beyond what the GPU holds", 2u32, before.is_none())?;
                Standing::Beyond
            }
            SavedStanding::Off => Standing::Off,
        };
        if !matches!(standing, Standing::Off) {
            queue.set_resident(&rooms, queue.resident() + need.waves);
            if queue.gws.is_granted() {
                rooms.syncing.get_or_insert(queue.address());
            }
        }
        drop(rooms);
        let scratch = launch.scratch.as_ref().map(|pool| (Arc::clone(pool), saved.scratch.clone()));
        Ok(Box::new(Seat { residency: Arc::clone(self), queue: Arc::clone(queue), need, standing, scratch }))
    }
}
