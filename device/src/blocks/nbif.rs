//! Bus interface: the size of VRAM, the doorbell aperture, scratch registers of the firmware, and the windows' indices.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::nbio::{self, RCC_CONFIG_MEMSIZE, RCC_DOORBELL_APER_EN};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::doorbell::Doorbells;
use crate::regs::{Block, Run, Storage, Windows};

/// The bus interface.
pub(crate) struct Nbif {
    storage: Storage,
    windows: Arc<Windows>,
    doorbells: Arc<Doorbells>,
    vram_size: u64,
}

impl Nbif {
    pub(crate) fn new(windows: Arc<Windows>, doorbells: Arc<Doorbells>, vram_size: u64) -> Self {
        let bus = Self { storage: Storage::new(nbio::ALL), windows, doorbells, vram_size };
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
        self.storage.claims()
    }

    fn read(&self, at: Offset) -> u32 {
        self.windows.read(at).unwrap_or_else(|| self.storage.read(at))
    }

    fn write(&self, at: Offset, value: u32) {
        if self.windows.write(at, value) {
            return;
        }
        self.storage.write(at, value);
        if at == RCC_DOORBELL_APER_EN::AT {
            self.doorbells.enable(RCC_DOORBELL_APER_EN::from_bits(value).bif_doorbell_aper_en());
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        self.storage.kept()
    }

    fn reset(&self) {
        self.storage.reset();
        self.storage.set(RCC_CONFIG_MEMSIZE::from_bits((self.vram_size >> 20) as u32));
    }
}
