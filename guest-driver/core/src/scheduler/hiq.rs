//! Client of the hardware scheduler: packets into its ring, the HIQ, and run lists of all queues in memory.
//!
//! Sequence: Linux `amdkfd/kfd_device_queue_manager.c` (`start_cpsch`, `map_queues_cpsch`, `unmap_queues_cpsch`) and
//! `kfd_packet_manager.c` (`pm_create_runlist_ib`); the packets' layout is for [`crate::asic`] to know. The scheduler knows no
//! single queues: at any change, all are taken off the hardware, and a new list is handed over. It chooses the VMIDs. Partitions
//! know nothing of each other: each has a ring and a list of its own.

mod partition;

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gfx9::gc as gfx9;

use crate::asic::HiqPackets;
use crate::errno::{Errno, Result};
use crate::gart::Gart;
use crate::hw::Hw;
use crate::kiq::{self, Kiq};
use crate::node::Nodes;
use crate::os::Os;
use crate::request::{QueueRequest, ShaderDebugger};
use crate::scheduler::Scheduler;
use partition::Partition;

/// The scheduler.
pub(crate) struct Hiq<O: Os> {
    hw: Arc<Hw<O>>,
    /// Of each graphics core.
    kiqs: Vec<Kiq<O>>,
    /// Of each node.
    partitions: Vec<Partition<O>>,
}

impl<O: Os> Hiq<O> {
    /// The scheduler of a GPU with these nodes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        hw: Arc<Hw<O>>,
        gart: &Arc<Gart<O>>,
        packets: &'static HiqPackets,
        nodes: &Nodes,
    ) -> Result<Self> {
        let doorbells = &hw.asic().doorbells;
        let mut kiqs = Vec::new();
        for xcc in hw.xccs() {
            let number = xcc.number();
            let doorbell = doorbells.kiq.dwords() + number as u32 * doorbells.kiq_stride * 2;
            kiqs.push(Kiq::new(hw.clone(), gart, number, DoorbellIndex::from_dwords(doorbell))?);
        }
        let partition = |node| Partition::new(&hw, gart, packets, node);
        let partitions = nodes.iter().map(partition).collect::<Result<_>>()?;
        Ok(Self { hw, kiqs, partitions })
    }

    fn partition(&mut self, node: u32) -> Result<&mut Partition<O>> {
        self.partitions.get_mut(node as usize).ok_or(Errno::EINVAL)
    }

    /// Starts or halts the compute micro engines of all graphics cores (`gfx_v9_4_3_xcc_cp_compute_enable`).
    fn set_running(&self, running: bool) {
        for xcc in self.hw.xccs() {
            let mut cntl = gfx9::CP_MEC_CNTL(0);
            cntl.set_mec_me1_halt(!running);
            cntl.set_mec_me2_halt(!running);
            xcc.write(cntl);
        }
    }
}

impl<O: Os> Scheduler for Hiq<O> {
    /// Shares the graphics cores out, starts their micro engines, and has the HIQ of each partition mapped on its own.
    fn start(&mut self) -> Result<()> {
        for partition in &mut self.partitions {
            partition.reset()?;
            partition.join_cores();
        }
        self.set_running(true);
        for kiq in &mut self.kiqs {
            kiq.start()?;
        }
        for partition in &mut self.partitions {
            partition.start(&mut self.kiqs)?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        kiq::stop(&self.hw);
        self.set_running(false);
    }

    fn add_queue(&mut self, queue: &QueueRequest) -> Result<()> {
        let (context, doorbell) = (queue.process_context, queue.doorbell);
        let partition = self.partition(queue.node)?;
        let result = partition.change(|partition| {
            partition.processes.entry(context).or_default().push(*queue);
        });
        if result == Err(Errno::ENOSPC) {
            // The others go on.
            partition.forget(doorbell);
            partition.run()?;
        }
        result
    }

    fn remove_queue(&mut self, doorbell: DoorbellIndex, _gang: u64) -> Result<()> {
        let partition = self.partitions.iter_mut().find(|partition| partition.has(doorbell));
        partition.ok_or(Errno::EINVAL)?.change(|partition| partition.forget(doorbell))
    }

    fn set_shader_debugger(&mut self, debugger: &ShaderDebugger) -> Result<()> {
        self.partitions.iter_mut().try_for_each(|partition| {
            partition.change(|partition| {
                partition.debuggers.insert(debugger.process_context, *debugger);
            })
        })
    }

    fn flush_shader_debugger(&mut self, process_context: u64) -> Result<()> {
        self.partitions.iter_mut().try_for_each(|partition| {
            partition.change(|partition| {
                partition.debuggers.remove(&process_context);
            })
        })
    }

    #[cfg(test)]
    fn ring(&self) -> (u64, u64) {
        (self.partitions[0].ring.ring_address(), partition::RING_SIZE as u64)
    }
}

#[cfg(test)]
mod tests;
