//! The device as its host sees it.

mod alone;
mod assembly;
mod bars;
mod explored;
mod replay;
mod reset;
mod save;
mod session;

pub use alone::Rest;
pub use explored::Stepped;
pub use replay::{Replay, Replayed, TraceSinks};
pub use save::{SavedGpu, SnapshotError};

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use belfry_isa::exec::CodeTimes;
use belfry_lock::{Mutex, OnDevice, rank};
use vm_memory::MmapRegion;

use crate::blocks::ResetRequest;
use crate::chip::Chip;
use crate::config::GpuConfig;
use crate::doorbell::{DoorbellWatch, Doorbells};
use crate::faults::Faults;
use crate::interrupt::{InterruptSink, Interrupts};
use crate::memory::{FlushPage, Memory, NoSuchPeer, Peer, Physical, SystemMemory};
use crate::own_bars::OwnBars;
use crate::pci::Function;
use crate::queue::HqdBanks;
use crate::record::Call;
use crate::regs::RegisterFile;
use crate::runner::Runner;
use crate::sanitize::{SanitizeReport, Sanitizer};
use crate::sdma::Movers;
use crate::shader::{RunningWaves, ShaderEngine};
use crate::stats::{Counters, Stats};
use crate::threads::Wake;
use crate::time::Clock;
use crate::tools::Tools;
use crate::trace::Tracer;
use crate::vm::{Contexts, WalkCounter};
use session::Session;

/// The host's part of a device; regions are shared memory if a guest is to map them.
pub struct Resources {
    /// BAR0: as large as [`GpuConfig::vram_size`].
    pub vram: MmapRegion,
    /// BAR2: the doorbell pages, [`belfry_abi::pci::DOORBELL_BAR_SIZE`] bytes, the single copy of every doorbell's value.
    pub doorbells: MmapRegion,
    /// Guest memory; tell the device with [`Gpu::memory_changed`] after replacing it.
    pub system: SystemMemory,
    /// Sink of interrupts.
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

/// One GPU.
///
/// | state | accesses | queues | left by |
/// | --- | --- | --- | --- |
/// | running | answered | served | [`Gpu::pause`], [`Gpu::stop`] |
/// | paused, or just restored | answered | kept, not served | [`Gpu::resume`], [`Gpu::stop`] |
/// | stopped | answered | gone | nothing |
///
/// A function that is not bus master (command register, bit 2) neither touches memory nor interrupts: its queues are
/// held where they are until the bit is set.
pub struct Gpu {
    config: GpuConfig,
    chip: Arc<dyn Chip>,
    memory: Arc<Memory>,
    pub(crate) contexts: Arc<Contexts>,
    hqds: Arc<HqdBanks>,
    pub(crate) registers: Arc<RegisterFile>,
    pub(crate) doorbells: Arc<Doorbells>,
    watch: Arc<DoorbellWatch>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) shader: Arc<ShaderEngine>,
    movers: Arc<Movers>,
    counters: Arc<Counters>,
    walks: Arc<WalkCounter>,
    wake: Arc<Wake>,
    pci: Function,
    pub(crate) runner: Arc<Runner>,
    thread: Mutex<Option<JoinHandle<()>>, rank::Thread>,
    pub(crate) clock: Clock,
    tools: Tools,
    /// Its BARs, for its own accesses to them.
    own: Arc<OwnBars>,
    /// A driver's request for a reset of the whole device.
    reset_request: Arc<ResetRequest>,
    /// Does one operation after the other, while the device is recorded or replayed.
    session: Option<Session>,
}

/// Shows the live state of every part by name (`{:#x?}` is for reading), each at one moment: waits for their
/// locks, one after the other.
impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("config", &self.config)
            .field("registers", &self.registers)
            .field("contexts", &self.contexts)
            .field("hqds", &self.hqds)
            .field("doorbells", &self.doorbells)
            .field("interrupts", &self.interrupts)
            .field("runner", &self.runner)
            .field("shader", &self.shader)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Has locks that the calling thread takes count as those of this device.
    pub(super) fn on_device(&self) -> OnDevice {
        OnDevice::new(self.config.number)
    }

    /// The configuration the device was made with.
    #[must_use]
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// Recorder of the device's events; a driver in the same process may record its own there.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        self.tools.tracer()
    }

    /// The faults that it was [given](GpuConfig::faults), with their strikes.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        self.tools.faults()
    }

    /// Reads the configuration space; bytes beyond its 4096 read as 0.
    pub fn config_read(&self, offset: usize, data: &mut [u8]) {
        let _on = self.on_device();
        if self.tools.is_removed() {
            return data.fill(0xff);
        }
        match &self.session {
            None => self.answer_config_read(offset, data),
            Some(session) => {
                data.fill(0);
                let call = Call::ConfigRead { offset: offset as u64, len: data.len() as u32 };
                // The configuration space refuses nothing.
                let _ = session.read(self, &call, data);
            }
        }
    }

    fn answer_config_read(&self, offset: usize, data: &mut [u8]) {
        self.pci.read(offset, data);
        if self.interrupts.pin_pending() {
            belfry_pci::show_interrupt(offset, data);
        }
    }

    /// Writes the configuration space; read-only bits keep their value, bytes beyond its end are ignored.
    ///
    /// Setting the function level reset bit of the PCI Express capability resets the device before this returns.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        let _on = self.on_device();
        if self.tools.is_removed() {
            return;
        }
        match &self.session {
            None => self.answer_config_write(offset, data),
            Some(session) => {
                session.tell(self, &Call::ConfigWrite { offset: offset as u64, data: data.to_vec() });
            }
        }
    }

    fn answer_config_write(&self, offset: usize, data: &[u8]) {
        let written = self.pci.write(offset, data);
        if written.bars {
            self.own.follow(&self.pci);
        }
        if written.reset {
            self.reset_now(ResetKind::Flr);
        } else if written.control {
            self.interrupts.control_changed();
            match written.bus_master {
                // Returns once nothing is served any more, and holds the waves.
                Some(false) => self.runner.hold(),
                Some(true) => self.wake.wake(),
                None => {}
            }
        }
    }

    /// Sets the bus addresses of the device's VRAM and doorbells, on a host that has no bus: page tables name them
    /// by those addresses.
    pub fn place_bars(&self, vram: u64, doorbells: u64) {
        let _on = self.on_device();
        match &self.session {
            None => self.own.place(vram, doorbells),
            Some(session) => session.tell(self, &Call::Place { vram, doorbells }),
        }
    }

    /// Returns the device as others reach it ([`Gpu::set_peer`]).
    pub fn as_peer(&self) -> Peer {
        self.as_peer_of_fabric().with_bars(Arc::clone(&self.own) as _)
    }

    /// Returns the device as others reach it on the fabric alone.
    fn as_peer_of_fabric(&self) -> Peer {
        Peer::from(self.memory.vram()).of_record(self.session.as_ref().map(Session::in_record))
    }

    /// Sets another device of the machine, or takes it away. This one reaches it by its number on the fabric, and by the
    /// addresses of its BARs on the bus. Returns when nothing uses the one before any more. A device that is recorded reaches those of its
    /// own record.
    ///
    /// # Errors
    ///
    /// A number that no device of a fabric has.
    pub fn set_peer(&self, number: u8, peer: Option<Peer>) -> Result<(), NoSuchPeer> {
        let _on = self.on_device();
        match &self.session {
            None => self.memory.set_peer(number, peer),
            Some(session) => session.set_peer(self, number, peer),
        }
    }

    /// Gives each GPU of a machine the way to all others, by their places in the list.
    ///
    /// # Errors
    ///
    /// More GPUs than reach each other.
    pub fn connect(gpus: &[&Self]) -> Result<(), NoSuchPeer> {
        for (own, gpu) in gpus.iter().enumerate() {
            for (number, other) in (0u8..=u8::MAX).zip(gpus).filter(|(number, _)| usize::from(*number) != own)
            {
                gpu.set_peer(number, Some(other.as_peer()))?;
            }
        }
        Ok(())
    }

    /// Gives each GPU of a machine the way to the VRAM of the others of its hive, and to nothing else of them.
    ///
    /// # Errors
    ///
    /// A number that no device of a fabric has.
    pub fn connect_hives(gpus: &[&Self]) -> Result<(), NoSuchPeer> {
        for (own, gpu) in gpus.iter().enumerate() {
            let Some(hive) = gpu.memory.hive() else { continue };
            for &number in hive.members().iter().filter(|&&number| usize::from(number) != own) {
                let Some(other) = gpus.get(usize::from(number)) else { return Err(NoSuchPeer(number)) };
                gpu.set_peer(number, Some(other.as_peer_of_fabric()))?;
            }
        }
        Ok(())
    }

    /// Tells the device that the guest's memory map was replaced; returns when nothing uses the old one.
    ///
    /// Until then the device keeps the old map, and with it regions that own their mapping: a host may forget
    /// them before it calls this. Memory that regions only refer to (made from raw pointers) must stay mapped
    /// until it has returned.
    pub fn memory_changed(&self) {
        let _on = self.on_device();
        match &self.session {
            None => self.memory.changed(),
            Some(session) => session.tell(self, &Call::Memory(self.memory.installed())),
        }
    }

    /// Puts the static tables at the places where a driver reads them.
    fn place_tables(&self) {
        let at = self.memory.vram_size() - self.chip.discovery_offset();
        if self.memory.write_bytes(Physical::local(at), &self.chip.discovery()).is_err() {
            log::error!(target: "gpu", "VRAM has no room for the discovery table");
        }
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.counters.fill(&mut stats);
        let shader = self.shader.statistics();
        stats.dispatches = shader.dispatches;
        stats.workgroups = shader.workgroups;
        stats.waves = shader.waves;
        stats.wave_instructions = shader.wave_instructions;
        stats.tlb_misses = shader.tlb_misses;
        stats.page_walks = self.walks.get();
        stats.kept_code = self.config.kept_code.as_ref().map(|kept| kept.counts());
        stats
    }

    /// Returns the times of compiled code since the last call, if the configuration asks for [code that
    /// counts](GpuConfig::counts_code).
    pub fn take_code_times(&self) -> CodeTimes {
        self.shader.take_code_times()
    }

    /// Time at which the first dispatch was found complete.
    #[must_use]
    pub fn first_dispatch(&self) -> Option<Instant> {
        self.shader.first_dispatch()
    }

    /// Work that has begun on the shader engine and not ended, with at most `most` waves one by one; `None`
    /// for a stopped device.
    ///
    /// The device stands still meanwhile, and goes on afterwards.
    #[must_use]
    pub fn running_waves(&self, most: usize) -> Option<RunningWaves> {
        let _on = self.on_device();
        let _between = self.session.as_ref().map(Session::between);
        self.runner.between_passes(|_| self.shader.running_waves(most))
    }

    /// Registers and fields that were used and have no behaviour here: name, reads, writes; most used first.
    ///
    /// Registers of the BAR, far registers behind the index/data pairs, and fields of packets and scheduler frames that
    /// were answered without doing what the field asks; those count as written.
    #[must_use]
    pub fn unmodelled(&self) -> Vec<(String, u64, u64)> {
        let mut ranked = self.registers.unmodelled();
        let fields = self.counters.unmodelled_fields();
        ranked.extend(fields.into_iter().map(|(name, count)| (name.into_owned(), 0, count)));
        ranked.sort_by(|a, b| (b.1 + b.2).cmp(&(a.1 + a.2)).then_with(|| a.0.cmp(&b.0)));
        ranked
    }

    /// Stops serving queues and holds their waves where they are.
    pub fn pause(&self) {
        let _on = self.on_device();
        match &self.session {
            None => self.runner.pause(),
            Some(session) => session.tell(self, &Call::Pause),
        }
    }

    /// Undoes [`Self::pause`], and lets a device go on that was [restored](Self::restore).
    pub fn resume(&self) {
        let _on = self.on_device();
        match &self.session {
            None => self.resume_now(),
            Some(session) => session.tell(self, &Call::Resume),
        }
    }

    pub(super) fn resume_now(&self) {
        self.runner.between_passes(|_| self.shader.release());
        self.runner.unpause();
    }

    /// Stops every queue and thread; the device answers accesses but does nothing any more.
    pub fn stop(&self) {
        let _on = self.on_device();
        match &self.session {
            None => self.runner.stop(),
            Some(session) => session.end(self),
        }
        self.join();
        self.movers.stop();
    }

    /// Ends the record of the device, if it has one; the record is then complete. The device goes on without
    /// it. For a process that may end, or become another program, at any moment.
    pub fn end_record(&self) {
        let _on = self.on_device();
        if let Some(session) = &self.session {
            session.end_record(self);
        }
    }

    /// Sets the page by which programs flush the host data path, if it is memory and not the register; only
    /// the first call counts.
    pub fn set_flush_page(&self, page: Arc<dyn FlushPage>) {
        let _on = self.on_device();
        self.memory.set_flush_page(page);
    }

    /// Findings of the sanitizer, if there is one.
    #[must_use]
    pub fn sanitized(&self) -> Option<SanitizeReport> {
        self.config.sanitizer.as_deref().map(Sanitizer::report)
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // That thread itself may drop the last handle.
        let thread = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "gpu", "the device's thread panicked");
        }
    }
}

/// The device on one thread, for fuzz targets, and for tests that stop at a certain turn: an input then has
/// one result each time.
impl Gpu {
    /// Ends the device's own thread; passes are left to the caller.
    fn serve_on_caller(&self) {
        self.runner.serve_on_caller();
        self.join();
    }

    /// Ends the device's threads: from now on, it works when [`Gpu::pass`] and [`Gpu::turn`] are called. No wave runs yet: no
    /// queue was mapped, or the device was restored and not resumed.
    pub fn work_on_caller(&self) {
        let _on = self.on_device();
        self.serve_on_caller();
        self.movers.stop();
        self.shader.work_on_caller();
    }

    /// Serves the kernel's rings and every queue once; returns true if there is more to do at once.
    pub fn pass(&self) -> bool {
        let _on = self.on_device();
        self.runner.pass()
    }

    /// Takes one turn at running waves; returns true if there were any.
    pub fn turn(&self) -> bool {
        let _on = self.on_device();
        self.shader.turn()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
