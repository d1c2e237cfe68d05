//! The card that the device is: what its files show, and what is measured for them (`amdgpu_pm.c`, `amdgpu_vram_mgr.c`).

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::regs::gc;

use super::Device;
use crate::card::{self, Card, Figures, Source};
use crate::errno::{Errno, Result};
use crate::os::{Clock, Function as _, Os};

/// `GRBM_PERF_SEL_GUI_ACTIVE` (linux `soc21_enum.h`): ticks in which waves are executed.
const GUI_ACTIVE: u32 = 2;
/// Nanoseconds of a tick.
const TICK_NS: u64 = 10;

impl<O: Os> Device<O> {
    pub(crate) fn card(&self) -> Card {
        let product = &self.hw.asic().product;
        Card {
            vram: self.vram.size(),
            gtt: self.gtt_limit,
            device_id: self.info.device_id,
            unique_id: u64::from(self.gpu_id()),
            max_engine_clock: product.max_engine_clock,
            max_memory_clock: product.max_memory_clock,
            mec_version: product.fw_version,
            sdma_version: product.sdma_fw_version,
            partitioned_xccs: if self.hw.asic().partitions { self.config.xccs.max(1) } else { 0 },
            partitions: self.nodes().count(),
            hive: self.config.hive.map_or(0, |hive| hive.id),
            hive_node: self.config.hive.map_or(0, |hive| hive.node),
            hive_nodes: self.config.hive.map_or(0, |hive| hive.nodes),
        }
    }

    /// Bytes of VRAM and of system memory that this device has given away.
    pub(crate) fn own_memory(&self) -> (u64, u64) {
        (self.vram.size() - self.vram.free_bytes(), self.gtt_used.load(Ordering::Relaxed))
    }

    /// Bytes of VRAM and of system memory that are in use: where this device is a part of a card, those of the card.
    pub(crate) fn memory_used(&self) -> (u64, u64) {
        let own = self.own_memory();
        let (vram, gtt) = self.hw.function().used_by_others();
        (own.0.saturating_add(vram).min(self.vram.size()), own.1.saturating_add(gtt).min(self.gtt_limit))
    }

    /// Nanoseconds during which the card has executed waves, by its performance counter.
    fn busy_ns(&self) -> u64 {
        if self.hw.read::<gc::GRBM_PERFCOUNTER0_SELECT>().perf_sel() != GUI_ACTIVE {
            let mut select = gc::GRBM_PERFCOUNTER0_SELECT(0);
            select.set_perf_sel(GUI_ACTIVE);
            self.hw.write(select);
        }
        let high = || self.hw.read::<gc::GRBM_PERFCOUNTER0_HI>().0;
        let mut before = high();
        loop {
            let low = self.hw.read::<gc::GRBM_PERFCOUNTER0_LO>().0;
            let after = high();
            // The low half wraps every 43 seconds.
            if after == before || !self.hw.alive() {
                return (u64::from(after) << 32 | u64::from(low)).saturating_mul(TICK_NS);
            }
            before = after;
        }
    }

    /// Measures what a file of this source needs, and nothing else.
    pub(crate) fn figures(&self, source: Source) -> Figures {
        let mut figures = Figures::default();
        if source != Source::Card {
            (figures.vram_used, figures.gtt_used) = self.memory_used();
            figures.boot_ns = self.hw.os().clock_ns(Clock::Boot);
            figures.uncorrectable = self.uncorrectable.load(Ordering::Relaxed);
            figures.corrected = self.corrected_errors();
        }
        if source == Source::Activity {
            let os = self.hw.os();
            let look = || {
                // A device that is gone reads as all ones, which is not busy.
                figures.busy_ns = if self.hw.alive() { self.busy_ns() } else { 0 };
                self.load.lock().look(os.clock_ns(Clock::MonotonicRaw), figures.busy_ns)
            };
            figures.busy_percent = card::measure(look, |us| os.sleep_us(us));
        }
        figures
    }

    /// Reads a file of the card.
    pub(crate) fn card_read(&self, path: &str) -> Result<Vec<u8>> {
        let (file, card) = (card::file(path)?, self.card());
        if !self.hw.alive() {
            return Err(Errno::ENODEV);
        }
        if !file.is_of(&card) {
            return Err(Errno::ENOENT);
        }
        Ok(file.show(&card, &self.figures(file.source)))
    }
}
