//! The device as its host sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use belfry_abi::pci;
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use vm_memory::MmapRegion;

use crate::blocks::{Gc, GcPorts, Mmhub, Mp0, Nbif, Osssys, Smuio};
use crate::chip::{self, Chip};
use crate::config::GpuConfig;
use crate::cp::CpEnv;
use crate::doorbell::{DoorbellListener, Doorbells, Way};
use crate::error::Error;
use crate::interrupt::{Control, InterruptSink, Interrupts, Sources};
use crate::io::{IoError, IoResult};
use crate::memory::{Location, Memory, SystemMemory};
use crate::pci::{ConfigSpace, Msix};
use crate::queue::{self, HqdBanks, Scheduler};
use crate::regs::{Block, RegisterFile, Windows};
use crate::shader::{ShaderConfig, ShaderEngine};
use crate::stats::{Counters, Stats, count};
use crate::threads::Wake;
use crate::time::{self, Clock};
use crate::trace::TraceEvent;
use crate::vm::{Contexts, FrameBuffer, WalkCounter};

/// What a host hands to the device; regions are shared memory where a guest is to map them.
pub struct Resources {
    /// BAR0: as large as [`GpuConfig::vram_size`].
    pub vram: MmapRegion,
    /// BAR2: the doorbell pages, [`belfry_abi::pci::DOORBELL_BAR_SIZE`] bytes, the single copy of every doorbell's value.
    pub doorbells: MmapRegion,
    /// Guest memory; tell the device with [`Gpu::memory_changed`] after replacing it.
    pub system: SystemMemory,
    /// Where interrupts go.
    pub interrupts: Arc<dyn InterruptSink>,
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}

/// Kinds of reset a host may ask for; function level resets also arrive as configuration writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResetKind {
    /// The function alone: configuration space, registers and queues; memory is kept.
    Flr,
    /// With the whole system, as at power on; VRAM is kept here too, as it is on a card that stays powered.
    System,
}

/// What the blocks of one device share.
pub(crate) struct Core {
    pub(crate) config: GpuConfig,
    pub(crate) chip: Arc<dyn Chip>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) registers: Arc<RegisterFile>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) hqds: Arc<HqdBanks>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) clock: Clock,
    pub(crate) env: CpEnv,
    walks: Arc<WalkCounter>,
    activity: AtomicU64,
}

impl Core {
    pub(crate) fn trace(&self, event: TraceEvent) {
        if let Some(trace) = &self.config.trace {
            trace.event(event);
        }
    }

    /// Takes note of the doorbell at a dword index, if it was rung.
    pub(crate) fn look_at_doorbell(&self, index: u32) {
        if let Some(rung) = self.doorbells.take(index) {
            self.activity.fetch_add(1, Ordering::Relaxed);
            self.trace(TraceEvent::DoorbellSeen { doorbell: index });
            if rung.found {
                self.found(u64::from(index) * 4, rung.value);
            }
        }
    }

    /// A doorbell was found to have been stored behind the device's back.
    fn found(&self, offset: u64, value: u64) {
        count(&self.counters.doorbells_polled);
        self.trace(TraceEvent::Doorbell { offset, value, way: Way::Polled });
    }

    /// Has the scheduler look, and look often for a while.
    fn hint(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
        self.wake.wake();
    }

    /// Changes whenever something has happened on a queue, or is said to be about to.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// A doorbell was written.
    fn ring(&self, offset: u64, value: u64, len: usize) {
        if !self.lets_through(offset) {
            return;
        }
        count(&self.counters.doorbells_trapped);
        self.trace(TraceEvent::Doorbell { offset, value, way: Way::Trapped });
        if let Some(unknown) = self.doorbells.store(offset, value, len) {
            self.found(offset & !7, unknown);
        }
        if self.interrupts.rptr_doorbell() == Some(offset) {
            self.interrupts.set_rptr(value as u32);
            return;
        }
        if !self.doorbells.is_owned(offset) {
            self.unknown(format_args!("offset={offset:#x} value={value:#x}"));
        }
        self.wake.wake();
    }

    /// The host says that a doorbell was written to.
    fn woken(&self, offset: u64, writes: u64) {
        if writes == 0 || !self.lets_through(offset) {
            return;
        }
        self.counters.doorbells_woken.fetch_add(writes, Ordering::Relaxed);
        self.trace(TraceEvent::Doorbell { offset, value: self.doorbells.load(offset), way: Way::Woken });
        if !self.doorbells.note(offset) {
            self.unknown(format_args!("offset={offset:#x} writes={writes}"));
        }
        self.wake.wake();
    }

    fn lets_through(&self, offset: u64) -> bool {
        let enabled = self.doorbells.enabled();
        if !enabled {
            self.counters.error("doorbell while the aperture is off", format_args!("offset={offset:#x}"));
        }
        enabled
    }

    fn unknown(&self, details: std::fmt::Arguments<'_>) {
        count(&self.counters.doorbells_unknown);
        self.counters.error("doorbell of a queue that does not exist", details);
    }

    /// Puts the static tables where a driver looks for them.
    fn place_tables(&self) {
        let at = self.memory.vram_size() - self.chip.discovery_offset();
        if self.memory.write_bytes(Location::Vram(at), &self.chip.discovery()).is_err() {
            log::error!(target: "gpu", "VRAM has no room for the discovery table");
        }
    }
}

/// One GPU.
///
/// | state | accesses | queues | left by |
/// | --- | --- | --- | --- |
/// | running | answered | served | [`Gpu::pause`], [`Gpu::stop`] |
/// | paused | answered | kept, not served | [`Gpu::resume`], [`Gpu::stop`] |
/// | stopped | answered | gone | nothing |
///
/// A function that is not bus master (command register, bit 2) neither touches memory nor interrupts: its queues are
/// held where they are until the bit is set.
pub struct Gpu {
    core: Arc<Core>,
    pci: Mutex<ConfigSpace>,
    scheduler: Arc<Scheduler>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("config", &self.core.config).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Makes a device and starts its threads.
    ///
    /// # Errors
    ///
    /// A configuration out of range, regions of the wrong size, or threads that cannot be started.
    pub fn new(config: GpuConfig, resources: Resources) -> Result<Arc<Self>, Error> {
        config.validate().map_err(Error::Config)?;
        let actual = resources.vram.size() as u64;
        if actual != config.vram_size {
            return Err(Error::VramRegion { expected: config.vram_size, actual });
        }
        let doorbells = Doorbells::new(resources.doorbells)
            .map_err(|actual| Error::DoorbellRegion { expected: pci::DOORBELL_BAR_SIZE, actual })?;
        let doorbells = Arc::new(doorbells);
        let chip: Arc<dyn Chip> = chip::chip(&config).into();
        let memory = Arc::new(Memory::new(resources.vram, resources.system));
        let counters = Arc::new(Counters::default());
        let walks = Arc::new(WalkCounter::default());
        let wake = Arc::new(Wake::default());
        let clock = time::golden_counter();
        let interrupts = Arc::new(Interrupts::new(
            resources.interrupts,
            (config.msix_table, config.interrupt_pin),
            Arc::clone(&counters),
            config.trace.clone(),
            config.poll_doorbells,
        ));
        let frame_buffer = FrameBuffer::new(chip.fb_base(), memory.vram_size());
        let contexts = Arc::new(Contexts::new(Arc::clone(&memory), Arc::clone(&walks), frame_buffer));
        let hqds = Arc::new(HqdBanks::default());
        let windows = Arc::new(Windows::new(&*chip));
        let ports = GcPorts {
            contexts: Arc::clone(&contexts),
            hqds: Arc::clone(&hqds),
            doorbells: Arc::clone(&doorbells),
            wake: Arc::clone(&wake),
        };
        let blocks: Vec<Box<dyn Block>> = vec![
            Box::new(Gc::new(ports, chip.topology(), chip.mes_version())),
            Box::new(Mmhub::new(Arc::clone(&contexts), frame_buffer)),
            Box::new(Osssys::new(Arc::clone(&interrupts), Arc::clone(&contexts))),
            Box::new(Nbif::new(Arc::clone(&windows), Arc::clone(&doorbells), memory.vram_size())),
            Box::new(Smuio::new(Arc::clone(&clock))),
            Box::new(Mp0::default()),
        ];
        let registers =
            RegisterFile::new(Arc::clone(&chip), blocks, windows, Arc::clone(&memory), Arc::clone(&counters));
        let shader =
            ShaderEngine::new(shader_config(&config, &*chip), Arc::clone(&clock)).map_err(Error::Shader)?;
        let sources = Sources {
            contexts: Arc::clone(&contexts),
            interrupts: Arc::clone(&interrupts),
            clock: Arc::clone(&clock),
            counters: Arc::clone(&counters),
        };
        let waker = Arc::clone(&wake);
        let env = CpEnv {
            clock: Arc::clone(&clock),
            interrupts: Arc::new(sources),
            shader: Arc::new(shader),
            wake: Arc::new(move || waker.wake()),
        };
        let space = ConfigSpace::new(&*chip, &config);
        let activity = AtomicU64::new(0);
        let core = Arc::new(Core {
            config,
            chip,
            memory,
            registers: Arc::new(registers),
            contexts,
            hqds,
            doorbells,
            interrupts,
            counters,
            wake,
            clock,
            env,
            walks,
            activity,
        });
        core.place_tables();
        let scheduler = Arc::new(Scheduler::default());
        let thread = queue::spawn(&scheduler, &core).map_err(Error::Thread)?;
        Ok(Arc::new(Self { core, pci: Mutex::new(space), scheduler, thread: Mutex::new(Some(thread)) }))
    }

    fn pci(&self) -> MutexGuard<'_, ConfigSpace> {
        self.pci.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration the device was made with.
    #[must_use]
    pub fn config(&self) -> &GpuConfig {
        &self.core.config
    }

    /// Reads the configuration space; what lies beyond its 4096 bytes reads as 0.
    pub fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.pci().read(offset, data);
        if self.core.interrupts.pin_pending() {
            ConfigSpace::show_pending_pin(offset, data);
        }
    }

    /// Writes the configuration space; read-only bits keep their value, what lies beyond is ignored.
    ///
    /// Setting the function level reset bit of the PCI Express capability resets the device before this returns.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        let (effect, control) = {
            let mut pci = self.pci();
            (pci.write(offset, data), control(&pci))
        };
        if effect.reset {
            self.reset(ResetKind::Flr);
        } else if effect.control {
            let started = control.bus_master && !self.core.interrupts.bus_master();
            let stopped = !control.bus_master && self.core.interrupts.bus_master();
            self.core.interrupts.set_control(control);
            if stopped {
                // Returns once nothing is served any more, and holds the waves.
                self.scheduler.hold(&self.core);
            } else if started {
                self.core.wake.wake();
            }
        }
    }

    /// Reads a BAR; on an error, `data` is zeroed.
    ///
    /// VRAM takes any width; doorbells take 4 and 8 bytes; registers take 8 bytes, 4 bytes, and parts of 4 bytes.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> IoResult {
        data.fill(0);
        let len = data.len();
        self.check(bar, offset, len)?;
        let core = &self.core;
        match bar {
            pci::BAR_VRAM => {
                let read = core.memory.read_bytes(Location::Vram(offset), data);
                read.map_err(|_| IoError::OutOfRange { bar, offset, len })
            }
            pci::BAR_DOORBELLS => {
                let value = if len == 8 {
                    core.doorbells.load(offset)
                } else {
                    core.doorbells.load32(offset & !3).into()
                };
                match len {
                    4 | 8 if offset.is_multiple_of(len as u64) => {
                        data.copy_from_slice(&value.to_le_bytes()[..len]);
                    }
                    _ => return Err(IoError::Unsupported { bar, offset, len }),
                }
                Ok(())
            }
            _ if Msix::contains(offset) => {
                core.interrupts.read_msix(offset, data);
                Ok(())
            }
            _ => core.registers.read_bytes(offset, data),
        }
    }

    /// Writes a BAR; on an error, nothing is written.
    ///
    /// VRAM takes any width; doorbells and registers take aligned accesses of 4 and 8 bytes.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> IoResult {
        let len = data.len();
        self.check(bar, offset, len)?;
        let core = &self.core;
        if bar == pci::BAR_VRAM {
            let written = core.memory.write_bytes(Location::Vram(offset), data);
            return written.map_err(|_| IoError::OutOfRange { bar, offset, len });
        }
        if bar == pci::BAR_REGISTERS {
            if Msix::contains(offset) {
                core.interrupts.write_msix(offset, data);
                return Ok(());
            }
            return core.registers.write_bytes(offset, data);
        }
        let value = match *data {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return Err(IoError::Unsupported { bar, offset, len }),
        };
        if !offset.is_multiple_of(len as u64) {
            return Err(IoError::Unsupported { bar, offset, len });
        }
        core.ring(offset, value, len);
        Ok(())
    }

    fn check(&self, bar: u8, offset: u64, len: usize) -> IoResult {
        let size = match bar {
            pci::BAR_VRAM => self.core.config.vram_size,
            pci::BAR_DOORBELLS => pci::DOORBELL_BAR_SIZE,
            pci::BAR_REGISTERS => pci::REGISTER_BAR_SIZE,
            _ => return Err(IoError::NoSuchBar(bar)),
        };
        match offset.checked_add(len as u64) {
            Some(end) if end <= size => Ok(()),
            _ => Err(IoError::OutOfRange { bar, offset, len }),
        }
    }

    /// Tells the device that the guest's memory map was replaced; returns when nothing uses the old one.
    ///
    /// Until then the device keeps the old map, and with it regions that own their mapping: a host may forget them
    /// before it calls this. What regions only refer to (made from raw pointers) must stay mapped until it has returned.
    pub fn memory_changed(&self) {
        self.core.memory.changed();
    }

    /// Tells the device that a doorbell page may have been written behind its back, or is about to be.
    ///
    /// The device looks at once, and where it looks by itself ([`GpuConfig::poll_doorbells`]) it does so as often as after
    /// a doorbell: a store that lands just after the look is found soon.
    pub fn doorbell_hint(&self) {
        self.core.hint();
    }

    /// Tells the device that the doorbell at a byte offset was written to a number of times, with values nobody knows.
    ///
    /// How far producers have got is read from their write pointers, which they write before they ring. The kernel's own
    /// rings (KIQ, MES) take the doorbell's value: their writes have to arrive by [`Self::bar_write`].
    pub fn doorbell_woken(&self, offset: u64, writes: u64) {
        self.core.woken(offset, writes);
    }

    /// Tells `listener` from now on which doorbells queues listen to; takes the first one only.
    pub fn set_doorbell_listener(&self, listener: Arc<dyn DoorbellListener>) {
        self.core.doorbells.set_listener(listener);
    }

    /// Doorbells queues listen to on the 4 KiB page at a byte offset: their byte offsets and values, lowest first.
    pub fn doorbells(&self, page: u64) -> impl Iterator<Item = (u64, u64)> {
        self.core.doorbells.of_page(page)
    }

    /// Whether a queue that listens to a doorbell of the page has work that is not completed.
    #[must_use]
    pub fn has_work(&self, page: u64) -> bool {
        self.core.doorbells.is_busy(page)
    }

    /// Tells the device that the doorbell at a byte offset of the doorbell BAR was written behind its back, and lends it
    /// the calling thread: packets and small dispatches are executed before this returns, for some tens of microseconds
    /// at most; what takes longer goes on by itself.
    pub fn doorbell_written(&self, offset: u64) {
        let index = u32::try_from(offset / 8 * 2).unwrap_or(u32::MAX);
        if !self.scheduler.serve(&self.core, index) {
            self.core.wake.wake();
        }
    }

    /// Resets the device: queues gone, registers as at power on, memory kept, discovery table in place.
    pub fn reset(&self, kind: ResetKind) {
        let core = &self.core;
        log::info!(target: "gpu", "reset {kind:?}");
        core.trace(TraceEvent::Reset);
        count(&core.counters.resets);
        let control = {
            let mut pci = self.pci();
            *pci = ConfigSpace::new(&*core.chip, &core.config);
            control(&pci)
        };
        core.interrupts.set_control(control);
        self.scheduler.reset(core, || {
            core.interrupts.reset();
            core.registers.reset();
            core.contexts.reset();
            core.hqds.reset();
            core.doorbells.reset();
            core.place_tables();
        });
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.core.counters.fill(&mut stats);
        let shader = self.core.env.shader.statistics();
        stats.dispatches = shader.dispatches;
        stats.workgroups = shader.workgroups;
        stats.waves = shader.waves;
        stats.wave_instructions = shader.wave_instructions;
        stats.page_walks = self.core.walks.get();
        stats
    }

    /// When the first dispatch was found complete.
    #[must_use]
    pub fn first_dispatch(&self) -> Option<Instant> {
        self.core.env.shader.first_dispatch()
    }

    /// What was used and has no behaviour here: name, reads, writes; most used first.
    ///
    /// Registers of the BAR, far registers behind the index/data pairs, and fields of packets and scheduler frames that
    /// were answered without doing what the field asks; those count as written.
    #[must_use]
    pub fn unmodelled(&self) -> Vec<(String, u64, u64)> {
        let mut ranked = self.core.registers.unmodelled();
        let fields = self.core.counters.unmodelled_fields();
        ranked.extend(fields.into_iter().map(|(name, count)| (name.to_owned(), 0, count)));
        ranked.sort_by(|a, b| (b.1 + b.2).cmp(&(a.1 + a.2)).then_with(|| a.0.cmp(&b.0)));
        ranked
    }

    /// Stops serving queues and holds their waves where they are.
    pub fn pause(&self) {
        self.scheduler.pause(&self.core, true);
    }

    /// Undoes [`Self::pause`].
    pub fn resume(&self) {
        self.scheduler.pause(&self.core, false);
    }

    /// Stops every queue and thread; the device answers accesses but does nothing any more.
    pub fn stop(&self) {
        self.scheduler.stop(&self.core);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "gpu", "the scheduler thread panicked");
        }
    }
}

/// The device on one thread, for fuzz targets: an input then does the same each time.
#[cfg(fuzzing)]
impl Gpu {
    /// Ends the device's threads: from now on, it works when [`Gpu::pass`] and [`Gpu::turn`] are called.
    pub fn work_on_caller(&self) {
        self.stop();
        self.core.env.shader.work_on_caller();
    }

    /// Serves the kernel's rings and every queue once; whether there is more to do at once.
    pub fn pass(&self) -> bool {
        self.scheduler.pass(&self.core)
    }

    /// Takes one turn at running waves; whether there were any to run.
    pub fn turn(&self) -> bool {
        self.core.env.shader.turn()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.stop();
    }
}

fn shader_config(config: &GpuConfig, chip: &dyn Chip) -> ShaderConfig {
    ShaderConfig {
        workers: if config.deterministic.is_some() { 1 } else { config.workers },
        topology: chip.topology(),
        arch: Arch::Gfx1100,
        backend: Backend::detect(),
        deterministic: config.deterministic,
        trace: config.trace.clone(),
    }
}

fn control(pci: &ConfigSpace) -> Control {
    let msix = pci.msix_state();
    Control {
        bus_master: pci.bus_master(),
        msix_enabled: msix.enabled,
        msix_masked: msix.masked,
        msi_enabled: pci.msi_enabled(),
        pin_disabled: pci.pin_disabled(),
    }
}

#[cfg(test)]
mod tests;
