//! Firmware: what microcode does on the card. It maps queues on hardware slots and serves the kernel's own rings.
//!
//! [`FirmwareScheduler`] is the seam: the device's thread knows no more of a scheduler than that. On chips with a micro
//! engine scheduler it is [`MesScheduler`], which the kernel interface queue brings up. [`scheduler()`] makes the chip's.

mod hws;
mod kiq;
mod mes;
mod rings;
mod save;
mod scheduler;
mod seen;
mod slots;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;

use crate::chip::{Firmware, Generation};
use crate::cp::CpEnv;
use crate::doorbell::{DoorbellWatch, Doorbells};
use crate::faults::Faults;
use crate::interrupt::Sources;
use crate::queue::{HqdBanks, Partitions};
use crate::regs::RegisterFile;
use crate::save::Broken;
use crate::sdma::{Movers, SdmaEnv};
use crate::shader::Restoring;
use crate::stats::Counters;
use crate::threads::Wake;
use crate::trace::{Engine, TraceEvent, Tracer};
use crate::vm::{Contexts, SpaceList, Spaces};
use hws::HwsScheduler;
pub(crate) use save::SavedFirmware;
use scheduler::MesScheduler;
pub(crate) use seen::{SeenPackets, SeenQueue, SeenRing};

/// When there is something to do again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Turn {
    /// At once.
    Now,
    /// After a while of the host's time, or when woken.
    After(Duration),
    /// When woken.
    WhenWoken,
}

/// What serving a queue came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Served {
    /// Nothing to do until somebody wakes the device's thread.
    Idle,
    /// There may be more at once.
    Again,
    /// A value in memory has to change, and no doorbell or wake tells of it.
    Polls,
}

/// The firmware that maps queues; called by one thread at a time.
pub(crate) trait FirmwareScheduler: std::fmt::Debug + Send {
    /// Does what there is to do: rings, frames, queues, slots. Says when to call again.
    fn pass(&mut self) -> Turn;

    /// Serves the queue of a doorbell; `None` if that is only for [`pass`](Self::pass) to do.
    fn serve(&mut self, doorbell: DoorbellIndex) -> Option<Served>;

    /// Whether any ring or queue listens to a doorbell.
    fn listens(&self) -> bool;

    /// Keeps waves where they are, or lets them go on.
    fn hold(&mut self, held: bool);

    /// Stops every queue and forgets everything.
    fn reset(&mut self);

    /// Its queues, the kernel's own first.
    fn queues(&self) -> Vec<SeenQueue>;

    /// Its state, while the shader engine is held.
    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware;

    /// Takes over the state of another device's firmware, with its queues suspended.
    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken>;
}

/// The firmware of the chip.
pub(crate) fn scheduler(ports: Ports) -> Box<dyn FirmwareScheduler> {
    match ports.chip.firmware {
        Firmware::Mes(mes) => Box::new(MesScheduler::new(ports, mes)),
        Firmware::Hws(_) => Box::new(HwsScheduler::new(ports)),
    }
}

/// What the firmware reaches on the card.
pub(crate) struct Ports {
    /// What the chip's generation decides.
    pub(crate) chip: &'static Generation,
    /// SDMA engines.
    pub(crate) sdma_engines: u8,
    pub(crate) registers: Arc<RegisterFile>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) hqds: Arc<HqdBanks>,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) watch: Arc<DoorbellWatch>,
    /// The driver's interrupts.
    pub(crate) interrupts: Sources,
    /// What engines of queues need.
    pub(crate) env: CpEnv,
    /// The threads of the SDMA engines.
    pub(crate) movers: Arc<Movers>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tracer: Tracer,
    pub(crate) faults: Faults,
    /// How long a busy queue keeps its slot at least while others wait for one.
    pub(crate) quantum: Duration,
}

impl Ports {
    /// What SDMA queues run in.
    pub(crate) fn sdma_env(&self) -> SdmaEnv {
        SdmaEnv { cp: self.env.clone(), movers: Arc::clone(&self.movers), packets: self.chip.sdma.packets }
    }

    fn trace(&self, event: TraceEvent<'_>) {
        self.tracer.of_engine(Engine::Firmware, event);
    }
}
