//! Firmware: the work of the card's microcode. It maps queues on hardware slots and serves the kernel's own rings.
//!
//! [`Firmware`] is the seam: it is all that the device thread knows of one firmware. [`FirmwareList`] makes those of the
//! chip, and serves them in their order. On chips with a micro engine scheduler, the one that maps queues is
//! [`MesScheduler`], which the kernel interface queue brings up; on the others it is [`HwsScheduler`].

mod hws;
mod kiq;
mod list;
mod mes;
mod rings;
mod save;
mod sdma_rings;
mod seen;
mod slots;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;

use crate::chip::Generation;
use crate::cp::CpEnv;
use crate::doorbell::{DoorbellWatch, Doorbells};
use crate::interrupt::Sources;
use crate::moments::{Moment, Verdict};
use crate::queue::{HqdBanks, Partitions};
use crate::regs::RegisterFile;
use crate::save::Broken;
use crate::sdma::{Movers, RingNotice, SdmaEnv};
use crate::shader::Restoring;
use crate::stats::Counters;
use crate::threads::Wake;
use crate::tools::Tools;
use crate::trace::Engine;
use crate::vm::{Contexts, SpaceList, Spaces};
#[cfg(doc)]
use hws::HwsScheduler;
pub(crate) use list::FirmwareList;
#[cfg(doc)]
use mes::MesScheduler;
pub(crate) use save::SavedFirmware;
pub use seen::{SeenPackets, SeenQueue, SeenRing};

/// Time at which there is something to do again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Turn {
    /// At once.
    Now,
    /// After a while of the host's time, or when woken.
    After(Duration),
    /// When woken.
    WhenWoken,
}

/// Result of serving a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Served {
    /// Nothing to do until the device thread is woken.
    Idle,
    /// There may be more at once.
    Again,
    /// A value in memory has to change, and no doorbell or wake-up announces that.
    Polls,
}

/// One firmware of the card; called by one thread at a time.
pub(crate) trait Firmware: std::fmt::Debug + Send {
    /// Serves its rings, mailboxes and queues. Returns the time of the next call.
    fn pass(&mut self) -> Turn;

    /// Serves the queue of a doorbell; `None` if it has no such queue, or only [`pass`](Self::pass) may do that.
    fn serve(&mut self, doorbell: DoorbellIndex) -> Option<Served>;

    /// Returns true if any ring or queue of it listens to a doorbell.
    fn listens(&self) -> bool;

    /// Keeps waves where they are, or lets them go on.
    fn hold(&mut self, held: bool);

    /// Stops everything and forgets everything.
    fn reset(&mut self);

    /// Returns its queues, the kernel's own first.
    fn queues(&self) -> Vec<SeenQueue>;

    /// Returns its state, while the shader engine is held.
    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware;

    /// Takes over the state of the same firmware of another device, with its queues suspended.
    ///
    /// # Errors
    ///
    /// The state of another firmware, or a value that no device has.
    fn restore(
        &mut self,
        saved: &SavedFirmware,
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken>;
}

/// Parts of the card that the firmware reaches.
pub(crate) struct Ports {
    /// Properties of the chip's generation.
    pub(crate) chip: &'static Generation,
    /// Number of SDMA engines.
    pub(crate) sdma_engines: u8,
    pub(crate) registers: Arc<RegisterFile>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) hqds: Arc<HqdBanks>,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) watch: Arc<DoorbellWatch>,
    /// The driver's interrupts.
    pub(crate) interrupts: Sources,
    /// Environment of the engines of queues.
    pub(crate) env: CpEnv,
    /// The threads of the SDMA engines.
    pub(crate) movers: Arc<Movers>,
    /// Notice of drivers that have changed a ring of an SDMA engine.
    pub(crate) ring_notice: Arc<RingNotice>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tools: Tools,
    /// Least time that a busy queue keeps its slot while others wait for one.
    pub(crate) quantum: Duration,
}

impl Ports {
    /// Returns the environment of SDMA queues.
    pub(crate) fn sdma_env(&self) -> SdmaEnv {
        SdmaEnv { cp: self.env.clone(), movers: Arc::clone(&self.movers), packets: self.chip.sdma.packets }
    }

    /// Tells the tools a moment of the firmware.
    #[inline(always)]
    fn at(&self, moment: Moment<'_>) -> Verdict {
        self.tools.at(|| moment.on(Engine::Firmware))
    }

    /// Tells the tools a moment of the firmware that they only look at.
    #[inline(always)]
    fn tell(&self, moment: Moment<'_>) {
        self.tools.tell(|| moment.on(Engine::Firmware));
    }
}
