//! A partition's part of the scheduler: a ring of its own, the HIQ, and a run list of its own queues.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gfx9::gc as gfx9;

use crate::asic::HiqPackets;
use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, log};
use crate::kiq::{KernelQueue, Kiq};
use crate::node::Node;
use crate::os::Os;
use crate::request::{LaunchControl, QueueRequest, RunList, RunProcess, ShaderDebugger};

/// Bytes of the ring (`KFD_KERNEL_QUEUE_SIZE`).
pub(super) const RING_SIZE: usize = 2048;
/// Pages of a run list.
const LIST_PAGES: usize = 64;
const LIST_DWORDS: usize = LIST_PAGES * 1024;
/// Time that the scheduler may take to let all queues go (`queue_preemption_timeout_ms`).
const TIMEOUT_NS: u64 = 9_000_000_000;
/// Compute pipes of the micro engine that it schedules, and the hardware queues of each.
const PIPES: u32 = 4;
const QUEUES_PER_PIPE: u32 = 8;
/// Place at which the KIQ maps the HIQ: engine 1 (HIQ), micro engine field 1, pipe 0, queue 0 (`kgd_gfx_v9_hiq_mqd_load`).
const HIQ_PLACE: u32 = 1 << 26 | 1 << 18;

/// Graphics cores that run queues together, with what they are told.
pub(super) struct Partition<O: Os> {
    hw: Arc<Hw<O>>,
    packets: &'static HiqPackets,
    /// Number of its node.
    node: u32,
    /// First of its graphics cores, and how many there are.
    first: usize,
    count: usize,
    /// VMIDs that it may give to processes.
    vmids: u32,
    pub(super) ring: KernelQueue<O>,
    fence: KernelBuffer<O>,
    /// Value of the fence when everything asked for is done.
    asked: u64,
    list: KernelBuffer<O>,
    /// Dwords that the list has room for.
    pub(super) room: usize,
    /// The scheduler has a list.
    running: bool,
    /// Queues, by the context of their process.
    pub(super) processes: BTreeMap<u64, Vec<QueueRequest>>,
    /// Settings of debuggers, by the same.
    pub(super) debuggers: BTreeMap<u64, ShaderDebugger>,
}

impl<O: Os> Partition<O> {
    /// Of a node; nothing runs yet.
    pub(super) fn new(
        hw: &Arc<Hw<O>>,
        gart: &Arc<Gart<O>>,
        packets: &'static HiqPackets,
        node: &Node,
    ) -> Result<Self> {
        let (first, count) = (node.first_xcc as usize, node.config.xccs.max(1) as usize);
        let doorbells = &hw.asic().doorbells;
        // That of its first graphics core.
        let doorbell = doorbells.scheduler.dwords() + node.first_xcc * doorbells.kiq_stride * 2;
        let doorbell = DoorbellIndex::from_dwords(doorbell);
        Ok(Self {
            ring: KernelQueue::new(hw.clone(), gart, RING_SIZE, doorbell, count)?,
            packets,
            node: node.number,
            first,
            count,
            vmids: node.vmids,
            fence: gart.allocate(1)?,
            asked: 0,
            list: gart.allocate(LIST_PAGES)?,
            room: LIST_DWORDS,
            running: false,
            processes: BTreeMap::new(),
            debuggers: BTreeMap::new(),
            hw: hw.clone(),
        })
    }

    /// Forgets all queues, as the hardware has.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.processes.clear();
        self.debuggers.clear();
        (self.running, self.asked) = (false, 0);
        self.fence.quad(0).store(0, Ordering::Relaxed);
        self.ring.reset()
    }

    /// Tells its graphics cores that they belong together.
    pub(super) fn join_cores(&self) {
        for number in 0..self.count {
            let mut place = gfx9::CP_HYP_XCP_CTL(0);
            place.set_num_xcc_in_xcp(self.count as u32);
            place.set_virtual_xcc_id(number as u32);
            self.hw.instance(self.first + number).write(place);
        }
    }

    /// Has the HIQ mapped on each of its graphics cores, by their KIQs, and hands over VMIDs and hardware queues.
    pub(super) fn start(&mut self, kiqs: &mut [Kiq<O>]) -> Result<()> {
        for (number, kiq) in kiqs.iter_mut().skip(self.first).take(self.count).enumerate() {
            kiq.map((&self.ring, number), HIQ_PLACE, "HIQ mapping")?;
        }
        let (vmids, slots) = (self.vmids, self.slots());
        self.ask(|packets, out| (packets.set_resources)(out, vmids, slots), "SET_RESOURCES")
    }

    /// Hardware queues that it may use, one bit each, eight of each pipe.
    fn slots(&self) -> u64 {
        let mask = u64::from(self.hw.asic().compute_hqd_mask);
        (0..PIPES).fold(0, |all, pipe| all | mask << (pipe * QUEUES_PER_PIPE))
    }

    /// Hands packets over and waits until the scheduler is through with them.
    fn ask(&mut self, fill: impl FnOnce(&HiqPackets, &mut Vec<u32>), what: &str) -> Result<()> {
        self.asked += 1;
        let mut packets = Vec::new();
        fill(self.packets, &mut packets);
        (self.packets.query_status)(&mut packets, self.fence.gpu_address(), self.asked);
        self.ring.submit(&packets);
        let (fence, asked) = (self.fence.quad(0), self.asked);
        self.hw.poll(TIMEOUT_NS, || fence.load(Ordering::Acquire) >= asked).inspect_err(|_| {
            log!(
                self.hw,
                Error,
                "the hardware scheduler does not answer: {what} (fence {asked}, memory {})",
                fence.load(Ordering::Acquire)
            );
        })
    }

    /// Takes all queues off the hardware: their state is in their MQDs then.
    fn unmap(&mut self) -> Result<()> {
        if !self.running {
            return Ok(());
        }
        self.ring.clear_culprits()?;
        let result = self.ask(|packets, out| (packets.unmap_all)(out), "queues do not stop");
        if result == Err(Errno::ETIME) {
            for (xcc, doorbell) in self.ring.culprits()?.into_iter().enumerate().filter(|(_, at)| *at != 0) {
                let xcc = self.first + xcc;
                log!(self.hw, Error, "the queue of doorbell {doorbell:#x} keeps graphics core {xcc}");
            }
        }
        result?;
        self.running = false;
        Ok(())
    }

    /// The packets of all processes and their queues.
    fn packets_of_all(&self) -> Vec<u32> {
        let asic = self.hw.asic();
        let mut out = Vec::new();
        for (context, queues) in &self.processes {
            let Some(first) = queues.first() else { continue };
            let debugger = self.debuggers.get(context);
            // All queues of a process are created in the same mode.
            let retries = asic.retry.filter(|_| first.xnack).map_or(0, |retry| retry.disable);
            let process = RunProcess {
                pasid: first.pasid,
                root: first.root,
                sh_mem_bases: asic.apertures.sh_mem_bases(),
                sh_mem_config: asic.sh_mem_config & !retries,
                trap_handler: first.trap_handler,
                trap_memory: first.trap_memory,
                gws: queues.iter().any(|queue| queue.gws),
                queues: queues.len() as u32,
                launch: debugger.map_or_else(LaunchControl::default, |debugger| debugger.launch),
                watches: debugger
                    .map_or([0; 4], |debugger| debugger.watches.map(|watch| watch.control_on(self.node))),
                flags: debugger.map_or(0, |debugger| debugger.flags),
            };
            (self.packets.map_process)(&mut out, &process);
            queues.iter().for_each(|queue| (self.packets.map_queue)(&mut out, queue));
        }
        out
    }

    /// Hands a list of all queues over (`pm_send_runlist`): while there are more than the hardware takes, one that begins anew at
    /// its end, which makes the scheduler share the hardware out by time.
    ///
    /// # Errors
    ///
    /// `ENOSPC` for more queues than a list can have.
    pub(super) fn run(&mut self) -> Result<()> {
        let queues = || self.processes.values().flatten();
        if queues().next().is_none() {
            return Ok(());
        }
        let processes = self.processes.values().filter(|queues| !queues.is_empty()).count() as u32;
        let compute = queues().filter(|queue| queue.sdma.is_none()).count() as u32;
        let alone = queues().filter(|queue| queue.gws).count();
        let vmids = self.vmids.count_ones();
        let too_many = processes > vmids || compute > self.slots().count_ones() || alone > 1;
        let processes = processes.min(vmids);
        let mut packets = self.packets_of_all();
        let address = self.list.gpu_address();
        let mut list = RunList { address, dwords: 0, chain: true, processes };
        if too_many {
            let before = packets.len();
            (self.packets.run_list)(&mut packets, &list);
            list.dwords = packets.len() as u32;
            packets.truncate(before);
            (self.packets.run_list)(&mut packets, &list);
        }
        if packets.len() > self.room {
            return Err(Errno::ENOSPC);
        }
        for (at, packet) in packets.iter().enumerate() {
            self.list.word(at * 4).store(*packet, Ordering::Relaxed);
        }
        let list = RunList { address, dwords: packets.len() as u32, chain: false, processes };
        self.running = true;
        // amdkfd does not wait. Here a queue listens to its doorbell before its process knows of it.
        self.ask(|packets, out| (packets.run_list)(out, &list), "RUN_LIST")
    }

    /// Changes what runs.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        self.unmap()?;
        change(self);
        self.run()
    }

    pub(super) fn has(&self, doorbell: DoorbellIndex) -> bool {
        self.processes.values().flatten().any(|queue| queue.doorbell == doorbell)
    }

    pub(super) fn forget(&mut self, doorbell: DoorbellIndex) {
        self.processes.values_mut().for_each(|queues| queues.retain(|queue| queue.doorbell != doorbell));
        self.processes.retain(|_, queues| !queues.is_empty());
    }
}
