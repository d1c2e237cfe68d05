//! Client of the hardware scheduler: packets into its ring, the HIQ, and run lists of all queues in memory.
//!
//! Sequence: Linux `amdkfd/kfd_device_queue_manager.c` (`start_cpsch`, `map_queues_cpsch`, `unmap_queues_cpsch`) and
//! `kfd_packet_manager.c` (`pm_create_runlist_ib`); the packets' layout is for [`crate::asic`] to know. The scheduler knows no
//! single queues: whatever changes, all are taken off the hardware, and a new list is handed over. It chooses the VMIDs.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gfx9::gc as gfx9;

use crate::asic::{HiqPackets, LaunchControl};
use crate::device::VMIDS;
use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, log};
use crate::kiq::{self, KernelQueue, Kiq};
use crate::os::Os;
use crate::scheduler::{QueueRequest, Scheduler, ShaderDebugger};

/// Bytes of the ring (`KFD_KERNEL_QUEUE_SIZE`).
const RING_SIZE: usize = 2048;
/// Pages of a run list.
const LIST_PAGES: usize = 64;
const LIST_DWORDS: usize = LIST_PAGES * 1024;
/// How long the scheduler may take to let all queues go (`queue_preemption_timeout_ms`).
const TIMEOUT_NS: u64 = 9_000_000_000;
/// Compute pipes of the micro engine that it schedules, and the hardware queues of each.
const PIPES: u32 = 4;
const QUEUES_PER_PIPE: u32 = 8;
/// Where the KIQ maps the HIQ: engine 1 (HIQ), micro engine field 1, pipe 0, queue 0 (`kgd_gfx_v9_hiq_mqd_load`).
const HIQ_PLACE: u32 = 1 << 26 | 1 << 18;

/// A process of a run list.
pub(crate) struct RunProcess {
    pub(crate) pasid: u16,
    /// Root of its page tables, in the form of their entries.
    pub(crate) root: u64,
    pub(crate) sh_mem_bases: u32,
    pub(crate) sh_mem_config: u32,
    pub(crate) trap_handler: u64,
    pub(crate) trap_memory: u64,
    /// One of its queues has the global wave sync.
    pub(crate) gws: bool,
    /// Queues that follow.
    pub(crate) queues: u32,
    /// What a debugger wants of its waves.
    pub(crate) launch: LaunchControl,
    pub(crate) watches: [u32; 4],
    pub(crate) flags: u32,
}

/// A run list in memory: its address in VMID 0, and how long it is.
pub(crate) struct RunList {
    pub(crate) address: u64,
    pub(crate) dwords: u32,
    /// It is the last packet of this list, which begins anew after it.
    pub(crate) chain: bool,
    /// Processes that get a VMID at a time.
    pub(crate) processes: u32,
}

/// The scheduler.
pub(crate) struct Hiq<O: Os> {
    hw: Arc<Hw<O>>,
    packets: &'static HiqPackets,
    /// Of each graphics core.
    kiqs: Vec<Kiq<O>>,
    ring: KernelQueue<O>,
    fence: KernelBuffer<O>,
    /// What the fence holds when everything asked for is done.
    asked: u64,
    list: KernelBuffer<O>,
    /// Dwords that the list has room for.
    room: usize,
    /// The scheduler has a list.
    running: bool,
    /// Queues, by the context of their process.
    processes: BTreeMap<u64, Vec<QueueRequest>>,
    /// What debuggers want, by the same.
    debuggers: BTreeMap<u64, ShaderDebugger>,
}

impl<O: Os> Hiq<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>, packets: &'static HiqPackets) -> Result<Self> {
        let doorbells = &hw.asic().doorbells;
        let mut kiqs = Vec::new();
        for xcc in hw.xccs() {
            let number = xcc.number();
            let doorbell = doorbells.kiq.dwords() + number as u32 * doorbells.kiq_stride * 2;
            kiqs.push(Kiq::new(hw.clone(), gart, number, DoorbellIndex::from_dwords(doorbell))?);
        }
        Ok(Self {
            ring: KernelQueue::new(hw.clone(), gart, RING_SIZE, doorbells.scheduler, kiqs.len())?,
            packets,
            kiqs,
            fence: gart.allocate(1)?,
            asked: 0,
            list: gart.allocate(LIST_PAGES)?,
            room: LIST_DWORDS,
            running: false,
            processes: BTreeMap::new(),
            debuggers: BTreeMap::new(),
            hw,
        })
    }

    /// VMIDs that the scheduler may give to processes.
    fn vmids(&self) -> u32 {
        u32::MAX << self.hw.asic().first_kfd_vmid & ((1 << VMIDS) - 1)
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
                watches: debugger.map_or([0; 4], |debugger| debugger.watches),
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
    fn run(&mut self) -> Result<()> {
        let queues = || self.processes.values().flatten();
        if queues().next().is_none() {
            return Ok(());
        }
        let processes = self.processes.values().filter(|queues| !queues.is_empty()).count() as u32;
        let compute = queues().filter(|queue| queue.sdma.is_none()).count() as u32;
        let alone = queues().filter(|queue| queue.gws).count();
        let vmids = self.vmids().count_ones();
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
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        self.unmap()?;
        change(self);
        self.run()
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
    /// Starts the micro engines, has the HIQ mapped on every graphics core, and hands over VMIDs and hardware queues.
    fn start(&mut self) -> Result<()> {
        self.processes.clear();
        self.debuggers.clear();
        (self.running, self.asked) = (false, 0);
        self.fence.quad(0).store(0, Ordering::Relaxed);
        // One partition with all of them (SPX).
        let count = self.hw.xccs().count() as u32;
        for xcc in self.hw.xccs() {
            let mut place = gfx9::CP_HYP_XCP_CTL(0);
            place.set_num_xcc_in_xcp(count);
            place.set_virtual_xcc_id(xcc.number() as u32);
            xcc.write(place);
        }
        self.set_running(true);
        self.ring.reset()?;
        for kiq in &mut self.kiqs {
            kiq.start()?;
            kiq.map(&self.ring, HIQ_PLACE, "HIQ mapping")?;
        }
        let (vmids, slots) = (self.vmids(), self.slots());
        self.ask(|packets, out| (packets.set_resources)(out, vmids, slots), "SET_RESOURCES")
    }

    fn stop(&mut self) {
        kiq::stop(&self.hw);
        self.set_running(false);
    }

    fn add_queue(&mut self, queue: &QueueRequest) -> Result<()> {
        let (context, doorbell) = (queue.process_context, queue.doorbell);
        let result = self.change(|hiq| hiq.processes.entry(context).or_default().push(*queue));
        if result == Err(Errno::ENOSPC) {
            // The others go on.
            self.forget(doorbell);
            self.run()?;
        }
        result
    }

    fn remove_queue(&mut self, doorbell: DoorbellIndex, _gang: u64) -> Result<()> {
        self.change(|hiq| hiq.forget(doorbell))
    }

    fn set_shader_debugger(&mut self, debugger: &ShaderDebugger) -> Result<()> {
        self.change(|hiq| {
            hiq.debuggers.insert(debugger.process_context, *debugger);
        })
    }

    fn flush_shader_debugger(&mut self, process_context: u64) -> Result<()> {
        self.change(|hiq| {
            hiq.debuggers.remove(&process_context);
        })
    }

    #[cfg(test)]
    fn ring(&self) -> (u64, u64) {
        (self.ring.ring_address(), RING_SIZE as u64)
    }
}

impl<O: Os> Hiq<O> {
    fn forget(&mut self, doorbell: DoorbellIndex) {
        self.processes.values_mut().for_each(|queues| queues.retain(|queue| queue.doorbell != doorbell));
        self.processes.retain(|_, queues| !queues.is_empty());
    }
}

#[cfg(test)]
mod tests;
