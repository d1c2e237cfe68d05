//! The register file behind BAR5: storage for what is storage, behaviour for what acts.
//!
//! A register nobody models reads what was last written (0 at first), and its use is counted under its name.

mod gc;
mod names;
mod nbio;
mod vmhub;

use std::collections::HashMap;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belfry_abi::pci::{HDP_REMAP_OFFSET, REGISTER_BAR_SIZE};
use belfry_abi::regs::mmhub::{MMMC_VM_FB_LOCATION_BASE, MMMC_VM_FB_LOCATION_TOP};
use belfry_abi::regs::nbio::{RCC_CONFIG_MEMSIZE, RCC_DOORBELL_APER_EN, REMAP_HDP_MEM_FLUSH_CNTL};
use belfry_abi::regs::osssys::IH_VMID_0_LUT;
use belfry_abi::regs::smuio::{GOLDEN_TSC_COUNT_LOWER, GOLDEN_TSC_COUNT_UPPER};
use belfry_abi::regs::{self, Access, Description, Register};

use crate::doorbell::Doorbells;
use crate::hal::Chip;
use crate::interrupt::Interrupts;
use crate::memory::Memory;
use crate::queue::{HqdBanks, seed_doorbell};
use crate::stats::{Counters, count};
use crate::vm::{Contexts, FrameBuffer, VMIDS};
use vmhub::HubRegister;

/// Registers BAR5 decodes.
const REGISTERS: u32 = (REGISTER_BAR_SIZE / 4) as u32;

/// Reads of the 100 MHz golden counter.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Everything the registers hold.
#[derive(Debug)]
struct State {
    storage: Box<[u32]>,
    indirect: HashMap<u32, u32>,
}

impl State {
    fn new(chip: &dyn Chip, vram_size: u64) -> Self {
        let mut storage = vec![0; REGISTERS as usize].into_boxed_slice();
        for register in known() {
            storage[register.index as usize] = register.reset;
        }
        let mut set = |index: u32, value: u32| storage[index as usize] = value;
        set(RCC_CONFIG_MEMSIZE::INDEX, (vram_size >> 20) as u32);
        let frame_buffer = FrameBuffer::new(chip.fb_base(), vram_size);
        set(MMMC_VM_FB_LOCATION_BASE::INDEX, frame_buffer.base);
        set(MMMC_VM_FB_LOCATION_TOP::INDEX, frame_buffer.top);
        Self { storage, indirect: HashMap::new() }
    }
}

/// Every register `belfry_abi` declares.
fn known() -> impl Iterator<Item = &'static Description> {
    [regs::gc::ALL, regs::mmhub::ALL, regs::mp::ALL, regs::nbio::ALL, regs::osssys::ALL, regs::smuio::ALL]
        .into_iter()
        .flatten()
}

/// The register file.
pub(crate) struct Mmio {
    state: Mutex<State>,
    /// Access class of the registers that are modelled or known storage.
    classes: HashMap<u32, Access>,
    /// Uses of the others: reads, writes.
    unmodelled: Mutex<HashMap<u32, (u64, u64)>>,
    /// Uses of far registers, by byte address.
    far: Mutex<HashMap<u32, (u64, u64)>>,
    contexts: Arc<Contexts>,
    hqds: Arc<HqdBanks>,
    interrupts: Arc<Interrupts>,
    memory: Arc<Memory>,
    doorbells: Arc<Doorbells>,
    chip: Arc<dyn Chip>,
    clock: Clock,
    counters: Arc<Counters>,
}

impl std::fmt::Debug for Mmio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mmio").finish_non_exhaustive()
    }
}

impl Mmio {
    pub(crate) fn new(
        chip: Arc<dyn Chip>,
        memory: Arc<Memory>,
        doorbells: Arc<Doorbells>,
        interrupts: Arc<Interrupts>,
        clock: Clock,
        counters: Arc<Counters>,
        (contexts, hqds): (Arc<Contexts>, Arc<HqdBanks>),
    ) -> Self {
        Self {
            state: Mutex::new(State::new(&*chip, memory.vram_size())),
            classes: known().map(|register| (register.index, register.access)).collect(),
            unmodelled: Mutex::default(),
            far: Mutex::default(),
            contexts,
            hqds,
            interrupts,
            memory,
            doorbells,
            chip,
            clock,
            counters,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the register at an absolute dword index; beyond the BAR: 0.
    pub(crate) fn read(&self, index: u32) -> u32 {
        count(&self.counters.register_reads);
        match nbio::decode(index) {
            Some(window) => nbio::read(self, window),
            None => self.read_direct(index),
        }
    }

    fn read_direct(&self, index: u32) -> u32 {
        if let Some(value) = self.interrupts.read_register(index) {
            return value;
        }
        match index {
            GOLDEN_TSC_COUNT_UPPER::INDEX => return ((self.clock)() >> 32) as u32,
            GOLDEN_TSC_COUNT_LOWER::INDEX => return (self.clock)() as u32,
            _ => {}
        }
        let state = self.lock();
        match vmhub::classify(index) {
            Some(HubRegister::Semaphore) => return 1,
            Some(HubRegister::Acknowledge { request }) => return state.storage[request as usize] & 0xffff,
            Some(HubRegister::Context(vmid, field)) => return field.read(&self.contexts.tables(vmid)),
            Some(HubRegister::FrameBuffer(field)) => return *field.of(&mut self.contexts.frame_buffer()),
            Some(HubRegister::Request) | None => {}
        }
        if let Some(vmid) = lut(index) {
            return self.contexts.pasid(vmid).into();
        }
        if let Some(value) = gc::read(self, &state, index) {
            return value;
        }
        let Some(&value) = state.storage.get(index as usize) else { return 0 };
        drop(state);
        self.note(index, |uses| uses.0 += 1);
        value
    }

    /// Writes the register at an absolute dword index; whether the scheduler has to look at the queues.
    pub(crate) fn write(&self, index: u32, value: u32) -> bool {
        count(&self.counters.register_writes);
        match nbio::decode(index) {
            Some(window) => nbio::write(self, window, value),
            None => self.write_direct(index, value),
        }
    }

    fn write_direct(&self, index: u32, value: u32) -> bool {
        if self.classes.get(&index) == Some(&Access::Ro) || self.interrupts.write_register(index, value) {
            return false;
        }
        let mut state = self.lock();
        if let Some(acted) = gc::write(self, &mut state, index, value) {
            if let Some(hqd) = acted.started {
                // Before the driver can ring it, the doorbell loses what an earlier owner left there.
                seed_doorbell(&hqd, None, &self.doorbells);
                self.doorbells.own(hqd.doorbell(), true);
            }
            return acted.queues;
        }
        let Some(register) = state.storage.get_mut(index as usize) else { return false };
        *register = value;
        if index == RCC_DOORBELL_APER_EN::INDEX {
            self.doorbells.enable(value & 1 == 1);
        }
        if index == flush_register(&state) {
            drop(state);
            // What the guest wrote through BAR0 is already where the engines look: ordering is all there is to do.
            fence(Ordering::SeqCst);
            return false;
        }
        drop(state);
        match vmhub::classify(index) {
            Some(HubRegister::Request) => self.contexts.invalidate(value & 0xffff),
            Some(HubRegister::Context(vmid, field)) => {
                self.contexts.change(vmid, |tables| field.write(tables, value));
            }
            Some(HubRegister::FrameBuffer(field)) => {
                self.contexts.change_frame_buffer(|at| *field.of(at) = value)
            }
            _ => match lut(index) {
                Some(vmid) => self.contexts.set_pasid(vmid, value as u16),
                None => self.note(index, |uses| uses.1 += 1),
            },
        }
        false
    }

    fn note(&self, index: u32, add: impl FnOnce(&mut (u64, u64))) {
        let is_request = vmhub::classify(index) == Some(HubRegister::Request);
        if is_request || self.classes.contains_key(&index) {
            return;
        }
        let first = {
            let mut unmodelled = self.unmodelled.lock().unwrap_or_else(PoisonError::into_inner);
            let uses = unmodelled.entry(index).or_insert((0, 0));
            let first = *uses == (0, 0);
            add(uses);
            first
        };
        if first && log::log_enabled!(target: "gpu::mmio", log::Level::Debug) {
            log::debug!(target: "gpu::mmio", "register without behaviour: {} at dword {index:#x}", names::name(index));
        }
    }

    /// Registers that were used and have no behaviour: name, reads, writes.
    pub(crate) fn unmodelled(&self) -> Vec<(String, u64, u64)> {
        let near = self.unmodelled.lock().unwrap_or_else(PoisonError::into_inner);
        let near = near.iter().map(|(&index, &(reads, writes))| (names::name(index), reads, writes));
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let far = far.iter().map(|(&byte, &(reads, writes))| (nbio::far_name(byte), reads, writes));
        near.chain(far).collect()
    }

    /// Back to the values of power on.
    pub(crate) fn reset(&self) {
        *self.lock() = State::new(&*self.chip, self.memory.vram_size());
    }
}

/// VMID of an entry of the interrupt handler's process table.
fn lut(index: u32) -> Option<u8> {
    index.checked_sub(IH_VMID_0_LUT::INDEX).filter(|&vmid| vmid < VMIDS as u32).map(|vmid| vmid as u8)
}

/// Dword index of the register the driver has put the memory flush at.
fn flush_register(state: &State) -> u32 {
    match state.storage[REMAP_HDP_MEM_FLUSH_CNTL::INDEX as usize] {
        0 => (HDP_REMAP_OFFSET / 4) as u32,
        offset => offset / 4,
    }
}
