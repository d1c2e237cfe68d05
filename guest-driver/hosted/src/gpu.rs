//! A GPU and its driver in this process.

pub(super) mod saving;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_device::explore::Explorer;
use belfry_device::faults::Rule;
use belfry_device::memory::{Links, MAX_PEERS};
use belfry_device::{Gpu, GpuConfig, InterruptSink, Resources};
use belfry_kfd_core::card::Card;
use belfry_kfd_core::{Errno, Kfd, KfdDevice};
use belfry_lock::{Mutex, RwLock, rank};

use crate::arena::Arena;
use crate::bars::{Bars, HostedFunction};
use crate::config::{HostedConfig, Place, Reach};
use crate::dmabuf::{Exports, Reached};
use crate::error::Error;
use crate::exploring::Exploring;
use crate::flush_page::Flushes;
use crate::function;
use crate::gems::Gems;
use crate::host::{Host, Parts};
use crate::line::{Handler, Line};
use crate::os::HostedOs;
use crate::pins::Pins;
use crate::sync::{Pool, lock};
use crate::syncobj::Syncs;
use crate::time::DriverTime;

/// Pause between looks at a state whose changes are not signalled.
const LOOK: Duration = Duration::from_micros(100);

/// GPUs that a driver is bound to, for a process that opens it.
pub(crate) struct Bound {
    pub(crate) kfd: Arc<Kfd<HostedOs>>,
    pub(crate) gpus: Vec<(Arc<HostedGpu>, Arc<KfdDevice<HostedOs>>)>,
    /// Number of the process that opens it.
    pub(crate) key: u64,
}

/// A GPU in this process, with the driver bound to it.
///
/// | state | entered by | `HostedProcess::open` |
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
    /// The machine, and its number there.
    host: Arc<Host>,
    index: usize,
    /// All GPUs of the machine, this one among them.
    peers: OnceLock<Vec<Weak<Self>>>,
    place: Place,
    time: DriverTime,
    pid: u32,
    works: Arc<Pool>,
    pub(crate) exploring: Option<Arc<Exploring>>,
    /// Held by accesses to the device; a save of the device holds it alone.
    pub(crate) access: Arc<RwLock<(), rank::HostedAccess>>,
    pub(crate) reach: Reach,
}

impl std::fmt::Debug for HostedGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let driver = self.host.device(self.index);
        f.debug_struct("HostedGpu").field("gpu", &self.gpu).field("driver", &driver).finish_non_exhaustive()
    }
}

impl HostedGpu {
    /// Makes a device and binds the driver to it: a machine with this GPU alone.
    ///
    /// # Errors
    ///
    /// Memory, threads, a bad configuration, or a device the driver does not accept.
    pub fn new(config: impl Into<HostedConfig>) -> Result<Arc<Self>, Error> {
        assemble(vec![config.into()])?.pop().ok_or(Error::NoGpu)
    }

    /// Makes the device of a machine, which has no driver yet. It is number `index` of the machine.
    fn with_parts(parts: Parts, host: &Arc<Host>, index: usize) -> Result<Arc<Self>, Error> {
        let Parts { gpu: config, place, pid, memory, bars, arena, reach } = parts;
        let pins = host.pins.clone();
        let exports = Exports::new(&memory, (&bars, &arena), &pins, reached(host, &config))
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
        gpu.place_bars(bars.vram.address(), bars.doorbells.address());
        gpu.set_flush_page(Arc::<Flushes>::clone(&bars.flushes));
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
        Ok(Arc::new(Self {
            gpu,
            bars,
            arena,
            pins,
            gems: Arc::default(),
            exports: Arc::new(exports),
            syncs: Syncs::new(time.source()),
            line,
            thread: Mutex::new(thread),
            host: host.clone(),
            index,
            peers: OnceLock::new(),
            place,
            time,
            pid,
            works: Pool::new(),
            exploring,
            access: Arc::default(),
            reach,
        }))
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
        let mut drivers = lock(&self.host.drivers);
        if drivers.devices.contains_key(&self.index) {
            return Ok(());
        }
        function::enable(&self.gpu);
        let os = HostedOs {
            gpu: self.gpu.clone(),
            arena: self.arena.clone(),
            pins: self.pins.clone(),
            gems: self.gems.clone(),
            exports: self.exports.clone(),
            memory: self.host.memory.clone(),
            peers: self.host.peers,
            numa: self.host.numa,
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
        let kfd = match &drivers.kfd {
            Some(kfd) => kfd.clone(),
            None => Kfd::new(&os).map_err(Error::Probe)?,
        };
        let device = kfd.probe(os, function).map_err(Error::Probe)?;
        let interrupted = Arc::downgrade(&device);
        self.line.belongs_to(Some(Arc::new(move || {
            interrupted.upgrade().is_some_and(|device| device.interrupt())
        })));
        // What was raised while the driver was starting found no handler.
        self.line.raise(0);
        drivers.kfd = Some(kfd);
        drivers.devices.insert(self.index, device);
        Ok(())
    }

    /// Unbinds the driver from the device (rmmod, where it is the last one) while its processes go on; their calls fail from then on, also
    /// those for other GPUs of the machine.
    pub fn unload(&self) {
        let Some(device) = lock(&self.host.drivers).take(self.index) else { return };
        self.line.belongs_to(None);
        device.remove();
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
        let drivers = lock(&self.host.drivers);
        drivers.devices.get(&self.index).ok_or(Errno::ENODEV)?.suspend()?;
        function::suspend(&self.gpu);
        Ok(())
    }

    /// Resumes a device that is suspended. It has lost its registers, and has kept VRAM; its queues go on where they were.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a driver, `EINVAL` when it is not suspended, `EIO` when it does not come back.
    pub fn resume(&self) -> Result<(), Errno> {
        let drivers = lock(&self.host.drivers);
        // A driver that was loaded meanwhile has nothing to do with it.
        let device = drivers.devices.get(&self.index).ok_or(Errno::ENODEV)?;
        if !device.is_suspended() {
            return Err(Errno::EINVAL);
        }
        function::resume(&self.gpu)?;
        device.resume()
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

    /// Returns the GPUs of the machine that are bound, for a new process.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`] if no GPU is.
    pub(crate) fn bound(&self) -> Result<Bound, Error> {
        let (kfd, devices) = {
            let drivers = lock(&self.host.drivers);
            (drivers.kfd.clone().ok_or(Error::NotLoaded)?, drivers.devices.clone())
        };
        let all = self.peers.get().map_or(&[][..], Vec::as_slice);
        let of = |(index, device): (usize, _)| Some((all.get(index)?.upgrade()?, device));
        let gpus = devices.into_iter().filter_map(of).collect();
        Ok(Bound { kfd, gpus, key: self.host.next_process.fetch_add(1, Ordering::Relaxed) })
    }

    /// Returns the text of a file of the topology, or of a process; its path is below the topology's directory.
    ///
    /// # Errors
    ///
    /// [`Errno::ENOENT`], and [`Errno::ENODEV`] without a driver.
    pub fn sysfs_read(&self, path: &str) -> Result<String, Errno> {
        self.driver()?.sysfs_read(path)
    }

    /// Lists a directory of the topology, or of the GPU's own trees; directories end in a slash.
    ///
    /// # Errors
    ///
    /// As for [`HostedGpu::sysfs_read`].
    pub fn sysfs_list(&self, path: &str) -> Result<Vec<String>, Errno> {
        self.driver()?.sysfs_list(path)
    }

    /// Returns the constant properties that the files of the card are made of.
    ///
    /// # Errors
    ///
    /// [`Errno::ENODEV`] without a driver.
    pub fn card(&self) -> Result<Card, Errno> {
        Ok(self.driver()?.card())
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

    fn driver(&self) -> Result<Arc<KfdDevice<HostedOs>>, Errno> {
        self.host.device(self.index).ok_or(Errno::ENODEV)
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

/// Returns the GPUs whose VRAM a GPU reaches.
fn reached(host: &Host, config: &GpuConfig) -> Reached {
    let others = match config.hive {
        _ if host.peers => None,
        Some(hive) => Some(hive.members().to_vec()),
        None => Some(Vec::new()),
    };
    Reached { own: config.number, others }
}

/// Makes the GPUs of a machine, and binds the driver to them one after the other.
pub(crate) fn assemble(configs: Vec<HostedConfig>) -> Result<Vec<Arc<HostedGpu>>, Error> {
    let first = configs.first().ok_or(Error::NoGpu)?;
    let (reach, observer, peers) = (first.reach, first.pins.clone(), first.links != Links::None);
    let numa = first.numa;
    if configs.len() > 1 && configs.iter().any(|config| config.gpu.explorer.is_some()) {
        return Err(Error::OneGpuOnly);
    }
    if configs.len() > MAX_PEERS {
        return Err(Error::TooManyGpus(configs.len()));
    }
    let parts = configs.into_iter().map(Parts::new).collect::<Result<Vec<_>, _>>()?;
    let driver = parts.iter().flat_map(Parts::driver_memory).collect();
    let host = Arc::new(Host {
        drivers: Mutex::default(),
        pins: Pins::new(reach, driver, observer).map_err(Error::Probe)?,
        peers,
        numa,
        memory: parts.iter().flat_map(Parts::maps).collect(),
        next_process: AtomicU64::new(1),
    });
    let numbered = parts.into_iter().enumerate();
    let gpus = numbered.map(|(index, parts)| HostedGpu::with_parts(parts, &host, index));
    let gpus = gpus.collect::<Result<Vec<_>, _>>()?;
    host.pins.attach(gpus.iter().map(|gpu| gpu.device()));
    for gpu in &gpus {
        // There is no other place that sets it.
        let _ = gpu.peers.set(gpus.iter().map(Arc::downgrade).collect());
    }
    let devices: Vec<_> = gpus.iter().map(|gpu| &*gpu.gpu).collect();
    let connected = if peers { Gpu::connect(&devices) } else { Gpu::connect_hives(&devices) };
    connected.map_err(|_| Error::TooManyGpus(gpus.len()))?;
    gpus.iter().try_for_each(|gpu| gpu.load())?;
    Ok(gpus)
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
