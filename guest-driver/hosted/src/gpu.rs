//! A GPU and its driver in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_abi::pci;
use belfry_device::explore::Explorer;
use belfry_device::faults::Rule;
use belfry_device::lock::{Mutex, RwLock, rank};
use belfry_device::time::TimeSource;
use belfry_device::{Gpu, GpuConfig, InterruptSink, Resources};
use belfry_kfd_core::os::{MAX_PARTITIONS, PAGE_SIZE, ProcessKey};
use belfry_kfd_core::{Errno, Kfd};

use crate::arena::Arena;
use crate::bars::HostedFunction;
use crate::dmabuf::{self, Exports};
use crate::error::Error;
use crate::exploring::Exploring;
use crate::flush_page::Flushes;
use crate::function;
use crate::gems::Gems;
use crate::line::{Handler, Line};
use crate::os::HostedOs;
use crate::pins::{PinObserver, Pins};
use crate::process::HostedProcess;
use crate::shared::{Shared, memory_file};
use crate::sync::{Pool, lock};
use crate::syncobj::Syncs;
use crate::time::DriverTime;

/// Bytes of system memory the driver may hand out unless told otherwise; pages exist once touched.
const SYSTEM_MEMORY: usize = 8 << 30;
/// Pause between looks at a state whose changes are not signalled.
const LOOK: Duration = Duration::from_micros(100);

/// PCI address and minor number that a hosted GPU reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// PCI domain.
    pub domain: u32,
    /// Bus number << 8 | device << 3 | function.
    pub location_id: u32,
    /// Minor number of the render node.
    pub render_minor: u32,
}

impl Place {
    /// Minor numbers of the render nodes of partitions after the first one, of a GPU that can have them.
    #[must_use]
    pub fn partition_minors(&self, gpu: &GpuConfig) -> [u32; MAX_PARTITIONS - 1] {
        let mut minors = [0; MAX_PARTITIONS - 1];
        for (minor, number) in minors.iter_mut().zip(1..gpu.xccs) {
            *minor = self.render_minor + number;
        }
        minors
    }
}

impl Default for Place {
    fn default() -> Self {
        Self { domain: 0, location_id: 1 << 8, render_minor: 128 }
    }
}

/// Part of this process's memory that a device reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The driver's memory and pinned memory: anything else is no memory to the device.
    #[default]
    Pinned,
    /// All of the process's memory, so that pinning costs nothing; only the driver's page tables limit the device.
    Process,
}

/// Configuration of a hosted GPU.
#[derive(Clone)]
pub struct HostedConfig {
    /// The device.
    pub gpu: GpuConfig,
    /// Bytes of system memory the driver may hand out, whole pages; they exist once touched.
    pub system_memory: usize,
    /// PCI address and minor number that it reports.
    pub place: Place,
    /// Part of the process's memory that it reaches.
    pub reach: Reach,
    /// Observer of pins.
    pub pins: Option<Arc<dyn PinObserver>>,
    /// The number by which its processes name themselves.
    pub pid: u32,
}

impl std::fmt::Debug for HostedConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedConfig")
            .field("gpu", &self.gpu)
            .field("system_memory", &self.system_memory)
            .field("place", &self.place)
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

impl From<GpuConfig> for HostedConfig {
    fn from(gpu: GpuConfig) -> Self {
        Self {
            gpu,
            system_memory: SYSTEM_MEMORY,
            place: Place::default(),
            reach: Reach::default(),
            pins: None,
            pid: std::process::id(),
        }
    }
}

/// Memory behind the BARs.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) vram: Shared,
    pub(crate) doorbells: Shared,
    pub(crate) flushes: Arc<Flushes>,
}

/// A GPU in this process, with the driver bound to it.
///
/// | state | entered by | `open` |
/// | --- | --- | --- |
/// | loaded | [`HostedGpu::new`], [`HostedGpu::load`] | works |
/// | unloaded | [`HostedGpu::unload`] | [`Error::NotLoaded`] |
pub struct HostedGpu {
    gpu: Arc<Gpu>,
    pub(crate) bars: Arc<Bars>,
    arena: Arc<Arena>,
    pins: Arc<Pins>,
    gems: Arc<Gems>,
    exports: Arc<Exports>,
    syncs: Arc<Syncs>,
    line: Arc<Line>,
    thread: Mutex<Option<JoinHandle<()>>, rank::Thread>,
    kfd: Mutex<Option<Arc<Kfd<HostedOs>>>, rank::HostedKfd>,
    place: Place,
    time: DriverTime,
    pid: u32,
    works: Arc<Pool>,
    pub(crate) exploring: Option<Arc<Exploring>>,
    /// Held by accesses to the device; a save of the device holds it alone.
    pub(crate) access: Arc<RwLock<(), rank::HostedAccess>>,
    pub(crate) reach: Reach,
    next_process: AtomicU64,
}

impl std::fmt::Debug for HostedGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let driver = self.kfd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        f.debug_struct("HostedGpu").field("gpu", &self.gpu).field("driver", &driver).finish_non_exhaustive()
    }
}

impl HostedGpu {
    /// Makes a device and binds the driver to it.
    ///
    /// # Errors
    ///
    /// Memory, threads, a bad configuration, or a device the driver does not accept.
    pub fn new(config: impl Into<HostedConfig>) -> Result<Arc<Self>, Error> {
        let HostedConfig { gpu: mut config, system_memory, place, reach, pins: observer, pid } =
            config.into();
        if config.explorer.is_some() {
            config.time = TimeSource::manual();
        }
        config.validate().map_err(belfry_device::Error::Config)?;
        // One file for all memory that can be shared.
        let vram_size = config.vram_size;
        let memory = memory_file(dmabuf::NAME, vram_size.saturating_add(system_memory as u64))?;
        let bars = Arc::new(Bars {
            vram: Shared::part(&memory, 0, vram_size as usize)?,
            doorbells: Shared::new(c"belfry-doorbells", pci::DOORBELL_BAR_SIZE as usize)?,
            flushes: Arc::new(Flushes::new()?),
        });
        let arena = Arena::new(Shared::part(&memory, vram_size, system_memory)?);
        let system = arena.memory().address();
        let flushes = bars.flushes.0.address();
        let driver = vec![(system, system + system_memory as u64), (flushes, flushes + PAGE_SIZE)];
        let pins = Pins::new(reach, driver, observer).map_err(Error::Probe)?;
        let exports = Exports::new(&memory, &bars, &arena, &pins)
            .map_err(|source| Error::System { what: "a thread for shared memory", source })?;
        let line = Arc::new(Line::default());
        let time = DriverTime::new(&config.time);
        let exploring =
            config.explorer.as_ref().map(|explorer| Exploring::new(explorer, &config.time, &line));
        let gpu = Gpu::new(
            config,
            Resources {
                vram: bars.vram.region()?,
                doorbells: bars.doorbells.region()?,
                system: pins.system(),
                interrupts: line.clone(),
            },
        )?;
        gpu.place_doorbells(bars.doorbells.address());
        gpu.set_flush_page(Arc::<Flushes>::clone(&bars.flushes));
        pins.attach(&gpu);
        let thread = if let Some(exploring) = &exploring {
            exploring.attach(&gpu);
            None
        } else {
            let line = line.clone();
            let thread = std::thread::Builder::new()
                .name("belfry-irq".to_owned())
                .spawn(move || line.serve())
                .map_err(|source| Error::System { what: "interrupt thread", source })?;
            Some(thread)
        };
        let hosted = Arc::new(Self {
            gpu,
            bars,
            arena,
            pins,
            gems: Arc::default(),
            exports: Arc::new(exports),
            syncs: Syncs::new(time.source()),
            line,
            thread: Mutex::new(thread),
            kfd: Mutex::new(None),
            place,
            time,
            pid,
            works: Pool::new(),
            exploring,
            access: Arc::default(),
            reach,
            next_process: AtomicU64::new(1),
        });
        hosted.load()?;
        Ok(hosted)
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Starts threads for the driver's work before there is some. Otherwise, they are started when they are needed.
    pub fn add_work_threads(&self, count: usize) {
        self.works.add(count);
    }

    /// Returns how many ranges of user memory are pinned.
    pub fn pinned_ranges(&self) -> usize {
        self.pins.count()
    }

    /// Returns true if any user memory in a range is pinned.
    pub fn pins_in(&self, range: std::ops::Range<u64>) -> bool {
        self.pins.any_in(range.start, range.end)
    }

    /// Returns how many bytes of system memory the driver holds.
    pub fn system_memory_used(&self) -> usize {
        self.arena.used()
    }

    /// Binds the driver (modprobe). Does nothing when it is bound.
    ///
    /// # Errors
    ///
    /// [`Error::Probe`] when it does not accept the device.
    pub fn load(&self) -> Result<(), Error> {
        let mut slot = lock(&self.kfd);
        if slot.is_some() {
            return Ok(());
        }
        function::enable(&self.gpu);
        let os = HostedOs {
            gpu: self.gpu.clone(),
            arena: self.arena.clone(),
            pins: self.pins.clone(),
            gems: self.gems.clone(),
            exports: self.exports.clone(),
            bars: self.bars.clone(),
            time: self.time.clone(),
            pid: self.pid,
            works: self.works.clone(),
            exploring: self.exploring.clone(),
        };
        let function = HostedFunction {
            gpu: self.gpu.clone(),
            bars: self.bars.clone(),
            place: self.place,
            exploring: self.exploring.clone(),
            access: Arc::clone(&self.access),
        };
        let kfd = Kfd::probe(os, function).map_err(Error::Probe)?;
        self.line.belongs_to(Arc::downgrade(&kfd));
        // What was raised while the driver was starting found no handler.
        self.line.raise(0);
        *slot = Some(kfd);
        Ok(())
    }

    /// Unbinds the driver (rmmod) while its processes go on; their calls fail from then on.
    pub fn unload(&self) {
        let Some(kfd) = lock(&self.kfd).take() else { return };
        self.line.belongs_to(Weak::new());
        kfd.remove();
        self.exports.leave();
        function::disable(&self.gpu);
    }

    /// Suspends the device, as a system does that goes to sleep: its driver takes all queues off it, and the function goes to D3hot.
    /// Calls that need the device wait then.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a driver, `EBUSY` when it is suspended, `EIO` for a device beyond repair.
    pub fn suspend(&self) -> Result<(), Errno> {
        let slot = lock(&self.kfd);
        let kfd = slot.as_ref().ok_or(Errno::ENODEV)?;
        kfd.suspend()?;
        function::suspend(&self.gpu);
        Ok(())
    }

    /// Resumes a device that is suspended. It has lost its registers, and has kept VRAM; its queues go on where they were.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a driver, `EINVAL` when it is not suspended, `EIO` when it does not come back.
    pub fn resume(&self) -> Result<(), Errno> {
        let slot = lock(&self.kfd);
        // A driver that was loaded meanwhile has nothing to do with it.
        let kfd = slot.as_ref().ok_or(Errno::ENODEV)?;
        if !kfd.is_suspended() {
            return Err(Errno::EINVAL);
        }
        function::resume(&self.gpu)?;
        kfd.resume()
    }

    /// Unbinds the driver before it looks at a call of the process of this PASID, or suspends and resumes the device, if such a fault is
    /// planned there.
    pub(crate) fn strike_call(&self, pasid: u16) {
        // A replay has no driver.
        if self.gpu.config().record.is_some() {
            return;
        }
        match self.gpu.faults().at_call(pasid.into()) {
            Some(Rule::DriverUnbound) => self.unload(),
            // If the device does not come back, the reset has told its processes. Another thread may have it suspended.
            Some(_) if self.suspend().is_ok() => {
                let _ = self.resume();
            }
            _ => {}
        }
    }

    /// Opens the driver as a process of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open(self: &Arc<Self>) -> Result<HostedProcess, Error> {
        self.open_as(None)
    }

    /// Opens the driver for a process whose render nodes are the descriptors for which `partition_of` says whose they are.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open_with(self: &Arc<Self>, partition_of: fn(i32) -> Option<u32>) -> Result<HostedProcess, Error> {
        self.open_as(Some(partition_of))
    }

    fn open_as(
        self: &Arc<Self>,
        partition_of: Option<fn(i32) -> Option<u32>>,
    ) -> Result<HostedProcess, Error> {
        let kfd = lock(&self.kfd).clone().ok_or(Error::NotLoaded)?;
        let key = self.next_process.fetch_add(1, Ordering::Relaxed);
        let process = kfd.open(ProcessKey(key)).map_err(Error::Open)?;
        HostedProcess::new(self.clone(), kfd, process, key, partition_of).map_err(Error::Open)
    }

    /// Returns the text of a file of the topology, or of a process; its path is below the topology's directory.
    ///
    /// # Errors
    ///
    /// [`Errno::ENOENT`], and [`Errno::ENODEV`] without a driver.
    pub fn sysfs_read(&self, path: &str) -> Result<String, Errno> {
        self.driver()?.sysfs_read(path)
    }

    /// Returns the content of a file of the card, by its path below the PCI device's directory.
    ///
    /// # Errors
    ///
    /// As for [`HostedGpu::sysfs_read`].
    pub fn card_read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        self.driver()?.card_read(path)
    }

    /// Writes to a file of the card, as root does.
    ///
    /// # Errors
    ///
    /// As for [`HostedGpu::card_read`], and the errors of the file.
    pub fn card_write(&self, path: &str, text: &str) -> Result<(), Errno> {
        self.driver()?.card_write(path, text.as_bytes())
    }

    /// Explorer that decides which actor goes on next, if schedules are explored.
    pub fn explorer(&self) -> Option<&Explorer> {
        self.gpu.config().explorer.as_ref()
    }

    /// Lets others go on here, if schedules are explored: the host is about to do something that they may see, or has
    /// done it.
    pub fn point(&self) {
        if let Some(exploring) = &self.exploring {
            exploring.point();
        }
    }

    /// Waits until `is_so` holds, for at most `limit`, while others go on as an explored schedule decides. Returns true
    /// if it holds. Without an explored schedule, it looks again and again.
    pub fn wait_until(&self, is_so: &dyn Fn() -> bool, limit: Option<Duration>) -> bool {
        if let Some(exploring) = &self.exploring {
            return exploring.wait(is_so, limit);
        }
        let begun = std::time::Instant::now();
        while !is_so() {
            if limit.is_some_and(|limit| begun.elapsed() >= limit) {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Pauses the calling thread, which polls something, while others go on.
    pub fn pause(&self, pause: Duration) {
        match &self.exploring {
            Some(exploring) => exploring.sleep(pause),
            None => std::thread::sleep(pause),
        }
    }

    /// Has interrupts handled by `handler` instead of the driver, or by the driver again.
    pub fn handle_interrupts(&self, handler: Option<Handler>) {
        self.line.handle_instead(handler);
    }

    fn driver(&self) -> Result<Arc<Kfd<HostedOs>>, Errno> {
        lock(&self.kfd).clone().ok_or(Errno::ENODEV)
    }

    pub(crate) fn gems(&self) -> &Arc<Gems> {
        &self.gems
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    pub(crate) fn syncs(&self) -> &Arc<Syncs> {
        &self.syncs
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }
}

impl Drop for HostedGpu {
    fn drop(&mut self) {
        self.unload();
        self.gpu.stop();
        self.works.close();
        self.line.close();
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            log::error!(target: "kfd", "the interrupt thread panicked");
        }
    }
}
