//! A GPU and its driver in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use belfry_abi::pci;
use belfry_device::{Gpu, GpuConfig, InterruptSink, Resources};
use belfry_kfd_core::Kfd;
use belfry_kfd_core::os::ProcessKey;

use crate::arena::Arena;
use crate::error::Error;
use crate::function;
use crate::os::{Gems, HostedOs};
use crate::pins::Pins;
use crate::process::HostedProcess;
use crate::shared::Shared;
use crate::sync::lock;

/// Bytes of system memory the driver may hand out; pages exist once touched.
const SYSTEM_MEMORY: usize = 8 << 30;

/// Where the device's interrupts go: a thread that runs the driver's handler.
#[derive(Default)]
struct Line {
    state: Mutex<LineState>,
    raised: Condvar,
}

#[derive(Default)]
struct LineState {
    pending: bool,
    /// Nobody will raise it any more.
    closed: bool,
    /// Handles interrupts while a driver is loaded.
    handler: Weak<Kfd<HostedOs>>,
}

impl InterruptSink for Line {
    fn raise(&self, _vector: u16) {
        lock(&self.state).pending = true;
        self.raised.notify_one();
    }
}

impl Line {
    fn serve(&self) {
        loop {
            let handler = {
                let mut state = lock(&self.state);
                while !state.pending && !state.closed {
                    state = self.raised.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.closed {
                    return;
                }
                state.pending = false;
                state.handler.upgrade()
            };
            if handler.is_some_and(|kfd| kfd.interrupt()) {
                lock(&self.state).pending = true;
            }
        }
    }
}

/// Memory behind the BARs.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) vram: Shared,
    pub(crate) doorbells: Shared,
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
    line: Arc<Line>,
    thread: Mutex<Option<JoinHandle<()>>>,
    kfd: Mutex<Option<Arc<Kfd<HostedOs>>>>,
    next_process: AtomicU64,
}

impl std::fmt::Debug for HostedGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedGpu").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}

impl HostedGpu {
    /// Makes a device and binds the driver to it.
    ///
    /// # Errors
    ///
    /// Memory, threads, a bad configuration, or a device the driver does not accept.
    pub fn new(config: GpuConfig) -> Result<Arc<Self>, Error> {
        config.validate().map_err(belfry_device::Error::Config)?;
        let bars = Arc::new(Bars {
            vram: Shared::new(c"belfry-vram", config.vram_size as usize)?,
            doorbells: Shared::new(c"belfry-doorbells", pci::DOORBELL_BAR_SIZE as usize)?,
        });
        let arena = Arena::new(Shared::new(c"belfry-system", SYSTEM_MEMORY)?);
        let system = arena.memory().address();
        let pins = Pins::new(vec![(system, system + SYSTEM_MEMORY as u64)]).map_err(Error::Probe)?;
        let line = Arc::new(Line::default());
        let gpu = Gpu::new(
            config,
            Resources {
                vram: bars.vram.region()?,
                doorbells: bars.doorbells.region()?,
                system: pins.system(),
                interrupts: line.clone(),
            },
        )?;
        pins.attach(&gpu);
        let thread = {
            let line = line.clone();
            std::thread::Builder::new()
                .name("belfry-irq".to_owned())
                .spawn(move || line.serve())
                .map_err(|source| Error::System { what: "interrupt thread", source })?
        };
        let hosted = Arc::new(Self {
            gpu,
            bars,
            arena,
            pins,
            gems: Arc::default(),
            line,
            thread: Mutex::new(Some(thread)),
            kfd: Mutex::new(None),
            next_process: AtomicU64::new(1),
        });
        hosted.load()?;
        Ok(hosted)
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Returns how many ranges of user memory are pinned.
    pub fn pinned_ranges(&self) -> usize {
        self.pins.count()
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
        };
        let kfd = Kfd::probe(os).map_err(Error::Probe)?;
        lock(&self.line.state).handler = Arc::downgrade(&kfd);
        // What was raised while the driver was starting found no handler.
        self.line.raise(0);
        *slot = Some(kfd);
        Ok(())
    }

    /// Unbinds the driver (rmmod), whatever its processes are doing; their calls fail from then on.
    pub fn unload(&self) {
        let Some(kfd) = lock(&self.kfd).take() else { return };
        lock(&self.line.state).handler = Weak::new();
        kfd.remove();
        function::disable(&self.gpu);
    }

    /// Opens the driver as a process of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or what the driver says.
    pub fn open(self: &Arc<Self>) -> Result<HostedProcess, Error> {
        let kfd = lock(&self.kfd).clone().ok_or(Error::NotLoaded)?;
        let key = self.next_process.fetch_add(1, Ordering::Relaxed);
        let process = kfd.open(ProcessKey(key)).map_err(Error::Open)?;
        Ok(HostedProcess::new(self.clone(), kfd, process, key))
    }

    pub(crate) fn gems(&self) -> &Gems {
        &self.gems
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
        lock(&self.line.state).closed = true;
        self.line.raised.notify_all();
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            log::error!(target: "kfd", "the interrupt thread panicked");
        }
    }
}
