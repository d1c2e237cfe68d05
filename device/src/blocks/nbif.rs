//! Bus interface: the size of VRAM, the doorbell aperture, scratch registers of the firmware, and the windows' indices.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::gfx9::{
    self,
    nbio::{PARTITION_COMPUTE_CAP, PARTITION_COMPUTE_STATUS, PARTITION_MEM_STATUS},
};
use belfry_abi::regs::layout::OWN;
use belfry_abi::regs::nbio::{
    self, GPU_HDP_FLUSH_DONE, GPU_HDP_FLUSH_REQ, RCC_CONFIG_MEMSIZE, RCC_DOORBELL_APER_EN,
};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::doorbell::Doorbells;
use crate::queue::Partitions;
use crate::regs::{Block, Run, Storage, Windows};

/// Value of `PARTITION_MODE` while the graphics cores are divided in a way that has no number.
const NO_MODE: u32 = 0xf;

/// The bus interface.
pub(crate) struct Nbif {
    storage: Storage,
    /// Registers that only chips of gfx9 have.
    storage_gfx9: Storage,
    windows: Arc<Windows>,
    doorbells: Arc<Doorbells>,
    partitions: Arc<Partitions>,
    vram_size: u64,
}

impl Nbif {
    pub(crate) fn new(
        windows: Arc<Windows>,
        doorbells: Arc<Doorbells>,
        partitions: Arc<Partitions>,
        vram_size: u64,
    ) -> Self {
        let (storage, storage_gfx9) = (Storage::new(nbio::ALL), Storage::new(gfx9::nbio::ALL));
        let bus = Self { storage, storage_gfx9, windows, doorbells, partitions, vram_size };
        bus.reset();
        bus
    }
}

shows_registers!(Nbif, storage);

impl Block for Nbif {
    fn ip(&self) -> (Ip, u8) {
        (nbio::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        [self.storage.claims(), self.storage_gfx9.claims()].concat()
    }

    fn read(&self, at: Offset) -> u32 {
        if at == PARTITION_COMPUTE_STATUS::AT {
            let mut status = PARTITION_COMPUTE_STATUS(0);
            status.set_partition_mode(self.partitions.mode().map_or(NO_MODE, |mode| mode as u32));
            return status.bits();
        }
        if at.segment >= OWN {
            return self.storage_gfx9.read(at);
        }
        self.windows.read(at).unwrap_or_else(|| self.storage.read(at))
    }

    fn write(&self, at: Offset, value: u32) {
        if at.segment >= OWN {
            // The graphics cores' registers show their partition, and all of memory is one partition.
            if ![PARTITION_COMPUTE_STATUS::AT, PARTITION_MEM_STATUS::AT].contains(&at) {
                self.storage_gfx9.write(at, value);
            }
            return;
        }
        if self.windows.write(at, value) {
            return;
        }
        self.storage.write(at, value);
        match at {
            RCC_DOORBELL_APER_EN::AT => {
                self.doorbells.enable(RCC_DOORBELL_APER_EN::from_bits(value).bif_doorbell_aper_en());
            }
            // A flush is done as soon as it is asked for.
            GPU_HDP_FLUSH_REQ::AT => self.storage.set(GPU_HDP_FLUSH_DONE::from_bits(value)),
            _ => {}
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.storage_gfx9.kept()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage_gfx9.reset();
        let modes = self.partitions.available().fold(0, |modes, mode| modes | 1 << mode as u32);
        self.storage_gfx9.set(PARTITION_COMPUTE_CAP::from_bits(modes));
        self.storage.set(RCC_CONFIG_MEMSIZE::from_bits((self.vram_size >> 20) as u32));
    }
}
