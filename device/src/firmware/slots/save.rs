//! The scheduler as plain values.

use serde::{Deserialize, Serialize};

use super::debuggers::MAX_DEBUGGERS;
use super::queue::{SavedQueue, With};
use super::{Hardware, MAX_QUEUES, Process, Quanta, Queue, Shape, Slots};
use crate::firmware::Ports;
use crate::queue::Partition;
use crate::save::{Broken, check, count, counter};
use crate::shader::Restoring;
use crate::vm::{DebugSettings, ShaderMemory, SpaceList, Spaces, VMIDS};

/// Most hardware queues: those of two micro engines, and of all SDMA engines.
const MAX_SLOTS: usize = 64 + crate::sdma::MAX_ENGINES as usize * 8;

/// The scheduler, without its pace of looking at memory.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedSlots {
    hardware: Vec<Hardware>,
    /// Processes by the address of their contexts.
    processes: Vec<(u64, SavedProcess)>,
    queues: Vec<SavedQueue>,
    /// Settings of debuggers, by the address of the process's context.
    debuggers: Vec<(u64, DebugSettings)>,
    turns: u64,
    quanta: Quanta,
}

/// One process; its queues are counted again.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct SavedProcess {
    partition: Partition,
    pasid: u16,
    base: u64,
    shape: Option<Shape>,
    shader: Option<ShaderMemory>,
    vmid: Option<u8>,
    /// Number of its address space.
    space: Option<u32>,
}

impl SavedSlots {
    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.queues.iter().map(SavedQueue::waves).sum()
    }
}

impl Slots {
    /// Saves the scheduler with its queues, while the shader engine is held.
    pub(crate) fn save(&self, spaces: &mut SpaceList) -> SavedSlots {
        let mut process = |process: &Process| SavedProcess {
            partition: process.partition,
            pasid: process.pasid,
            base: process.base,
            shape: process.shape,
            shader: process.shader,
            vmid: process.vmid,
            space: process.space.as_ref().map(|space| spaces.number(space)),
        };
        SavedSlots {
            hardware: self.hardware.clone(),
            processes: self.processes.iter().map(|(&key, one)| (key, process(one))).collect(),
            queues: self.queues.values().map(|queue| queue.snapshot(spaces)).collect(),
            debuggers: self.debuggers.iter().map(|(&key, &settings)| (key, settings)).collect(),
            turns: self.turns,
            quanta: self.quanta.clone(),
        }
    }

    /// Takes over the queues of another scheduler. This one has no queues.
    pub(crate) fn restore(
        &mut self,
        ports: &Ports,
        saved: &SavedSlots,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        let xccs = ports.hqds.xccs();
        count("partitions", saved.hardware.len(), saved.hardware.len() <= usize::from(xccs))?;
        for Hardware { partition, slots, .. } in &saved.hardware {
            partition.check(xccs)?;
            count("hardware queues of the scheduler", slots.len(), (1..=MAX_SLOTS).contains(&slots.len()))?;
            slots.iter().try_for_each(|slot| slot.check())?;
        }
        count("queues", saved.queues.len(), saved.queues.len() <= MAX_QUEUES)?;
        self.hardware.clone_from(&saved.hardware);
        self.turns = counter("turn of the scheduler", saved.turns)?;
        self.quanta = saved.quanta.clone();
        for (key, process) in &saved.processes {
            process.partition.check(xccs)?;
            let process = process.restored(spaces)?;
            process.set_waiting(ports.chip);
            self.processes.insert(*key, process);
        }
        count("debuggers", saved.debuggers.len(), saved.debuggers.len() <= MAX_DEBUGGERS)?;
        for &(key, settings) in &saved.debuggers {
            check("settings of a debugger", 0u32, self.set_debug(key, Some(settings)))?;
        }
        for queue in &saved.queues {
            let queue = Queue::restored(queue, With { ports, spaces, restoring })?;
            queue.partition.check(xccs)?;
            let process = self.processes.get_mut(&queue.process);
            let none = Broken { field: "process of a queue", value: queue.process };
            process.ok_or(none)?.queues += 1;
            let doorbell = queue.doorbell;
            let before = self.queues.insert(doorbell, queue);
            check("doorbell of two queues", doorbell.dwords(), before.is_none())?;
        }
        let idle = self.processes.values().filter(|process| process.queues == 0).count();
        count("processes without queues", idle, idle == 0)?;
        Ok(())
    }
}

impl SavedProcess {
    fn restored(&self, spaces: &Spaces) -> Result<Process, Broken> {
        let Self { partition, pasid, base, shape, shader, vmid, space } = *self;
        check("VMID of a process", vmid.unwrap_or(0), usize::from(vmid.unwrap_or(1)) < VMIDS)?;
        let space = space.map(|number| spaces.get(number)).transpose()?;
        Ok(Process { partition, pasid, base, shape, shader, vmid, space, queues: 0 })
    }
}
