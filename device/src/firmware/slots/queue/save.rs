//! User queues as plain values, with the work that they have in progress.

use std::any::Any;
use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use serde::{Deserialize, Serialize};

use super::{Activity, Asked, Life, Pool, Queue, Rest, Slot, Wait, WritePointer};
use crate::cp::{AqlQueue, Pm4Queue, SavedAql, SavedPm4};
use crate::firmware::Ports;
use crate::queue::{Partition, QueueEngine};
use crate::save::{Broken, check, counter};
use crate::sdma::{SavedSdma, SdmaQueue};
use crate::shader::{Gws, Restoring, SavedGws};
use crate::vm::{SpaceList, Spaces};

/// A queue between ADD_QUEUE and REMOVE_QUEUE.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::firmware) struct SavedQueue {
    #[serde(with = "crate::save::doorbell")]
    doorbell: DoorbellIndex,
    partition: Partition,
    process: u64,
    gang: u64,
    pool: Pool,
    mqd: u64,
    wptr: WritePointer,
    trap: (u64, u64),
    exclusive: bool,
    is_static: bool,
    gws: SavedGws,
    asked: Asked,
    turn: u64,
    life: SavedLife,
}

/// State of a queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
enum SavedLife {
    Unmapped(Wait, Rest),
    Mapped(Slot, SavedEngine, Activity),
    Leaving(Slot, SavedEngine, Wait),
    Failed(Option<Slot>, u64),
}

/// An engine with its work in progress.
#[derive(Clone, Debug, Deserialize, Serialize)]
enum SavedEngine {
    Aql(Box<SavedAql>),
    Pm4(Box<SavedPm4>),
    Sdma(Box<SavedSdma>),
}

impl SavedEngine {
    /// Returns the number of waves in progress.
    fn waves(&self) -> usize {
        match self {
            Self::Aql(engine) => engine.waves(),
            Self::Pm4(engine) => engine.waves(),
            Self::Sdma(_) => 0,
        }
    }
}

impl SavedQueue {
    /// Returns the number of waves in progress.
    pub(in crate::firmware) fn waves(&self) -> usize {
        match &self.life {
            SavedLife::Mapped(_, engine, _) | SavedLife::Leaving(_, engine, _) => engine.waves(),
            SavedLife::Unmapped(..) | SavedLife::Failed(..) => 0,
        }
    }
}

/// Saves an engine; `None` for one of another kind, of which there is none.
fn save_engine(engine: &dyn QueueEngine, spaces: &mut SpaceList) -> Option<SavedEngine> {
    let engine: &dyn Any = engine;
    if let Some(engine) = engine.downcast_ref::<Pm4Queue>() {
        return Some(SavedEngine::Pm4(Box::new(engine.save(spaces))));
    }
    if let Some(engine) = engine.downcast_ref::<SdmaQueue>() {
        return Some(SavedEngine::Sdma(Box::new(engine.save(spaces))));
    }
    Some(SavedEngine::Aql(Box::new(engine.downcast_ref::<AqlQueue>()?.save(spaces))))
}

/// Parts that the restore of a queue needs.
pub(in crate::firmware) struct With<'a> {
    pub(in crate::firmware) ports: &'a Ports,
    pub(in crate::firmware) spaces: &'a Spaces,
    pub(in crate::firmware) restoring: &'a mut Restoring,
}

impl With<'_> {
    fn engine(&mut self, saved: &SavedEngine, gws: &Arc<Gws>) -> Result<Box<dyn QueueEngine>, Broken> {
        let (env, spaces, gws) = (&self.ports.env, self.spaces, Arc::clone(gws));
        Ok(match saved {
            SavedEngine::Aql(saved) => Box::new(AqlQueue::restored(saved, spaces, gws, env, self.restoring)?),
            SavedEngine::Pm4(saved) => Box::new(Pm4Queue::restored(saved, spaces, gws, env, self.restoring)?),
            SavedEngine::Sdma(saved) => Box::new(SdmaQueue::restored(saved, spaces, &self.ports.sdma_env())?),
        })
    }
}

fn check_slot(slot: Slot, pool: Pool) -> Result<Slot, Broken> {
    slot.id.check()?;
    check("engine of a queue", 0u32, slot.id.pool() == pool)?;
    counter("time of a hardware queue", slot.since.as_secs()).map(|_| slot)
}

impl Queue {
    pub(in crate::firmware) fn snapshot(&self, spaces: &mut SpaceList) -> SavedQueue {
        let life = match &self.life {
            Life::Unmapped { wait, rest } => SavedLife::Unmapped(*wait, *rest),
            Life::Mapped { slot, engine, activity } => save_engine(&**engine, spaces)
                .map_or(SavedLife::Failed(Some(*slot), engine.read_index()), |saved| {
                    SavedLife::Mapped(*slot, saved, *activity)
                }),
            Life::Leaving { slot, engine, then } => save_engine(&**engine, spaces)
                .map_or(SavedLife::Failed(Some(*slot), engine.read_index()), |saved| {
                    SavedLife::Leaving(*slot, saved, *then)
                }),
            Life::Failed { slot, read_index } => SavedLife::Failed(*slot, *read_index),
        };
        SavedQueue {
            doorbell: self.doorbell,
            partition: self.partition,
            process: self.process,
            gang: self.gang,
            pool: self.pool,
            mqd: self.mqd,
            wptr: self.wptr,
            trap: self.trap,
            exclusive: self.exclusive,
            is_static: self.is_static,
            gws: self.gws.save(),
            asked: self.asked,
            turn: self.turn,
            life,
        }
    }

    pub(in crate::firmware) fn restored(saved: &SavedQueue, mut with: With<'_>) -> Result<Self, Broken> {
        let doorbell = saved.doorbell;
        let exists = doorbell.number().is_some() && doorbell.is_whole();
        check("doorbell of a queue", doorbell.dwords(), exists)?;
        let own = !saved.pool.is_compute() || saved.pool == Pool::Compute(saved.partition.first);
        check("partition of a queue", u32::from(saved.partition.first), own)?;
        let gws = Arc::new(Gws::restored(&saved.gws)?);
        let life = match &saved.life {
            SavedLife::Unmapped(wait, rest) => Life::Unmapped { wait: *wait, rest: *rest },
            SavedLife::Mapped(slot, engine, activity) => Life::Mapped {
                slot: check_slot(*slot, saved.pool)?,
                engine: with.engine(engine, &gws)?,
                activity: *activity,
            },
            SavedLife::Leaving(slot, engine, then) => Life::Leaving {
                slot: check_slot(*slot, saved.pool)?,
                engine: with.engine(engine, &gws)?,
                then: *then,
            },
            SavedLife::Failed(slot, read_index) => Life::Failed {
                slot: slot.map(|slot| check_slot(slot, saved.pool)).transpose()?,
                read_index: *read_index,
            },
        };
        Ok(Self {
            doorbell,
            partition: saved.partition,
            process: saved.process,
            gang: saved.gang,
            pool: saved.pool,
            mqd: saved.mqd,
            wptr: saved.wptr,
            trap: saved.trap,
            exclusive: saved.exclusive,
            is_static: saved.is_static,
            gws,
            asked: saved.asked,
            deaf: None,
            noted: None,
            turn: counter("turn of a queue", saved.turn)?,
            life,
        })
    }
}
