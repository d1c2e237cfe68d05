//! Graphics core: banked queue and memory registers, fuses, the scheduler's version, and the GC hub.

mod hub;
mod status;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gc::{
    self, CC_GC_SHADER_ARRAY_CONFIG, CP_HQD_ACTIVE, CP_HQD_DEQUEUE_REQUEST, CP_MES_GP3_LO,
    GCVM_L2_PROTECTION_FAULT_CNTL, GRBM_GFX_CNTL, GRBM_GFX_INDEX, RLC_SAFE_MODE, SH_MEM_BASES, SH_MEM_CONFIG,
};
use belfry_abi::regs::gfx9;
use belfry_abi::regs::gfx9::gc::{CP_HYP_XCP_CTL, GCMC_VM_XGMI_LFB_CNTL, GCMC_VM_XGMI_LFB_SIZE};
use belfry_abi::regs::layout::OWN;
use belfry_abi::regs::sdma::{
    self, SDMA0_QUEUE0_DOORBELL_OFFSET, SDMA0_QUEUE0_RB_CNTL, SDMA1_QUEUE0_RB_CNTL,
};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::activity::Activity;
use crate::chip::Topology;
use crate::doorbell::{Doorbells, Owner};
use crate::queue::{HQD_FIRST, HQD_REGISTERS, HqdBanks, HqdId, Partitions, seed_doorbell};
use crate::regs::{Block, Run, Storage};
use crate::sdma::{Movers, RingNotice};
use crate::threads::Wake;
use crate::vm::Contexts;
use hub::Hub;

/// Distance of the registers of the second SDMA engine.
const SDMA_ENGINE_STRIDE: u32 = SDMA1_QUEUE0_RB_CNTL::AT.dword - SDMA0_QUEUE0_RB_CNTL::AT.dword;

/// The parts of the device that the graphics core's registers reach.
pub(crate) struct GcPorts {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) hqds: Arc<HqdBanks>,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) doorbells: Arc<Doorbells>,
    /// Woken when a queue was started or asked to stop.
    pub(crate) wake: Arc<Wake>,
    pub(crate) activity: Activity,
    /// True if registers count the time during which waves are executed: the host's time is no part of a
    /// record.
    pub(crate) counts_time: bool,
    pub(crate) movers: Arc<Movers>,
    /// Notice of changed rings of the SDMA engines; `None` if these have no such rings.
    pub(crate) ring_notice: Option<Arc<RingNotice>>,
}

/// Number and kind of a graphics core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GcCore {
    /// Its number.
    pub(crate) xcc: u8,
    pub(crate) topology: Topology,
    /// True if its registers include those of SDMA engines.
    pub(crate) has_sdma: bool,
    /// Value of `CP_MES_GP3_LO` on the scheduler's pipes.
    pub(crate) mes_version: u32,
    /// Values after reset that differ.
    pub(crate) resets: &'static [(Offset, u32)],
}

/// One graphics core.
pub(crate) struct Gc {
    storage: Storage,
    /// Registers that only chips of gfx9 have.
    storage_gfx9: Storage,
    /// Registers of the kernel's rings on SDMA engines.
    storage_sdma: Option<Storage>,
    hub: Hub,
    ports: GcPorts,
    core: GcCore,
}

impl Gc {
    pub(crate) fn new(ports: GcPorts, core: GcCore) -> Self {
        let hub = Hub::new(Arc::clone(&ports.contexts));
        let storage = Storage::with_resets(gc::ALL, core.resets);
        let storage_sdma = ports.ring_notice.is_some().then(|| Storage::new(sdma::ALL));
        let storage_gfx9 = Storage::new(gfx9::gc::ALL);
        let gc = Self { storage, storage_gfx9, storage_sdma, hub, ports, core };
        gc.place_in_hive();
        gc
    }

    /// Sets the registers of the device's place in its hive, as the card's own firmware does.
    fn place_in_hive(&self) {
        let Some(hive) = self.ports.contexts.hive() else { return };
        let (region, last, size) = hive.registers();
        let (mut cntl, mut bytes) = (GCMC_VM_XGMI_LFB_CNTL::default(), GCMC_VM_XGMI_LFB_SIZE::default());
        cntl.set_pf_lfb_region(region);
        cntl.set_pf_max_region(last);
        bytes.set_pf_lfb_size(size);
        self.storage_gfx9.set(cntl);
        self.storage_gfx9.set(bytes);
    }

    /// The queue and the VMID whose banks are selected.
    fn selected(&self) -> (HqdId, u8) {
        let select: GRBM_GFX_CNTL = self.storage.get();
        let id =
            HqdId { me: select.meid() as u8, pipe: select.pipeid() as u8, queue: select.queueid() as u8 };
        (id, select.vmid() as u8)
    }

    /// The selected shader array's fuses.
    fn shader_array_config(&self) -> CC_GC_SHADER_ARRAY_CONFIG {
        let select: GRBM_GFX_INDEX = self.storage.get();
        let topology = self.core.topology;
        let engine = if select.se_broadcast_writes() { 0 } else { select.se_index() };
        let array = if select.sa_broadcast_writes() { 0 } else { select.sa_index() };
        let active = if engine < topology.shader_engines && array < topology.arrays_per_engine {
            topology.active_wgps(engine * topology.arrays_per_engine + array)
        } else {
            0
        };
        let mut config = CC_GC_SHADER_ARRAY_CONFIG::default();
        config.set_inactive_wgps(0xffff & !((1 << active) - 1));
        config
    }

    /// The registers of rings of SDMA engines, if this is one of them.
    fn sdma(&self, at: Offset) -> Option<&Storage> {
        self.storage_sdma.as_ref().filter(|storage| storage.has(at))
    }

    fn write_sdma(&self, storage: &Storage, at: Offset, value: u32) {
        storage.write(at, value);
        let engine = match at {
            SDMA0_QUEUE0_RB_CNTL::AT => 0,
            SDMA1_QUEUE0_RB_CNTL::AT => 1,
            _ => return,
        };
        if SDMA0_QUEUE0_RB_CNTL::from_bits(value).rb_enable() {
            // The driver may ring as soon as this returns.
            let place = SDMA0_QUEUE0_DOORBELL_OFFSET::AT.plus(engine * SDMA_ENGINE_STRIDE);
            let offset = SDMA0_QUEUE0_DOORBELL_OFFSET::from_bits(storage.read(place)).offset();
            self.ports.doorbells.own(DoorbellIndex::from_dwords(offset), Owner::Ring);
        }
        if let Some(notice) = &self.ports.ring_notice {
            notice.give();
        }
        self.ports.wake.wake();
    }

    fn write_hqd(&self, at: Offset, value: u32) {
        let GcPorts { hqds, doorbells, wake, .. } = &self.ports;
        hqds.hqd_of(self.core.xcc, self.selected().0, |hqd| match at {
            CP_HQD_ACTIVE::AT if value & 1 == 1 => {
                hqd.activate();
                // Before the queue is visible, its doorbell loses the value of an earlier owner.
                seed_doorbell(hqd, None, doorbells);
                doorbells.own(hqd.doorbell(), Owner::Ring);
            }
            CP_HQD_ACTIVE::AT => hqd.deactivate(),
            _ => hqd.write(at, value),
        });
        if matches!(at, CP_HQD_ACTIVE::AT | CP_HQD_DEQUEUE_REQUEST::AT) {
            wake.wake();
        }
    }
}

shows_registers!(Gc, storage);

impl Block for Gc {
    fn ip(&self) -> (Ip, u8) {
        (gc::IP, self.core.xcc)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.extend(self.storage_gfx9.claims());
        claims.extend(self.storage_sdma.iter().flat_map(Storage::claims));
        claims.push(Run { first: HQD_FIRST, count: HQD_REGISTERS });
        claims.extend(self.hub.claims());
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        let (hqd, vmid) = self.selected();
        match at {
            _ if at.element(HQD_FIRST, HQD_REGISTERS).is_some() => {
                self.ports.hqds.hqd_of(self.core.xcc, hqd, |hqd| hqd.read(at))
            }
            SH_MEM_BASES::AT => self.ports.contexts.shader_memory(vmid).bases,
            SH_MEM_CONFIG::AT => self.ports.contexts.shader_memory(vmid).config,
            CC_GC_SHADER_ARRAY_CONFIG::AT => self.shader_array_config().bits(),
            CP_MES_GP3_LO::AT if hqd.me == HqdId::MES.me && hqd.pipe < 2 => self.core.mes_version,
            CP_HYP_XCP_CTL::AT => self.ports.partitions.place(self.core.xcc).bits(),
            _ if at.segment >= OWN => self.storage_gfx9.read(at),
            _ => {
                let own = self.hub.read(at).or_else(|| self.status(at));
                let own = own.or_else(|| self.sdma(at).map(|storage| storage.read(at)));
                own.unwrap_or_else(|| self.storage.read(at))
            }
        }
    }

    fn write(&self, at: Offset, value: u32) {
        let contexts = &self.ports.contexts;
        let vmid = self.selected().1;
        match at {
            _ if at.element(HQD_FIRST, HQD_REGISTERS).is_some() => self.write_hqd(at, value),
            SH_MEM_BASES::AT => contexts.change_shader_memory(vmid, |memory| memory.bases = value),
            SH_MEM_CONFIG::AT => contexts.change_shader_memory(vmid, |memory| memory.config = value),
            RLC_SAFE_MODE::AT => {
                // The RLC takes the command at once.
                let mut mode = RLC_SAFE_MODE::from_bits(value);
                mode.set_cmd(false);
                self.storage.set(mode);
            }
            GCVM_L2_PROTECTION_FAULT_CNTL::AT => {
                let mut cntl = GCVM_L2_PROTECTION_FAULT_CNTL::from_bits(value);
                if cntl.clear_protection_fault_status_addr() {
                    contexts.clear_fault();
                    cntl.set_clear_protection_fault_status_addr(false);
                }
                self.storage.set(cntl);
            }
            CP_HYP_XCP_CTL::AT => self.ports.partitions.write(self.core.xcc, value),
            _ if at.segment >= OWN => self.storage_gfx9.write(at, value),
            _ => {
                if let Some(storage) = self.sdma(at) {
                    self.write_sdma(storage, at, value);
                } else if !self.hub.write(at, value) {
                    self.storage.write(at, value);
                }
            }
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        let partition = vec![self.ports.partitions.kept(self.core.xcc)];
        let sdma = self.storage_sdma.iter().flat_map(Storage::kept).collect();
        [self.storage.kept(), self.storage_gfx9.kept(), self.hub.kept(), partition, sdma].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage_gfx9.reset();
        self.storage_sdma.iter().for_each(Storage::reset);
        self.place_in_hive();
        self.ports.partitions.reset(self.core.xcc);
        self.hub.reset();
    }
}
