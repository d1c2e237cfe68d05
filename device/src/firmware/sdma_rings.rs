//! Rings of the kernel on the SDMA engines, which a driver starts through the registers of queue 0 (linux
//! `amdgpu/sdma_v6_0.c`, `sdma_v6_0_gfx_resume`).
//!
//! An engine reads a ring's write pointer in memory, where the driver puts it before it rings the doorbell. A ring that is started again
//! begins with the pointer of its registers, 0: Linux leaves that of the ring before in memory, until the first packets.

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::sdma::{
    SDMA0_QUEUE0_DOORBELL, SDMA0_QUEUE0_DOORBELL_OFFSET, SDMA0_QUEUE0_RB_BASE, SDMA0_QUEUE0_RB_BASE_HI,
    SDMA0_QUEUE0_RB_CNTL, SDMA0_QUEUE0_RB_RPTR, SDMA0_QUEUE0_RB_RPTR_ADDR_HI, SDMA0_QUEUE0_RB_RPTR_ADDR_LO,
    SDMA0_QUEUE0_RB_RPTR_HI, SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI, SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
    SDMA1_QUEUE0_RB_CNTL,
};
use belfry_abi::regs::{Ip, Offset, Register};
use serde::{Deserialize, Serialize};

use super::{Firmware, Ports, SavedFirmware, SeenPackets, SeenQueue, SeenRing, Served, Turn};
use crate::doorbell::Owner;
use crate::guest_error::GuestError;
use crate::queue::{BlockedOn, DmaContext, Progress, QueueEngine as _, QueueIdentity};
use crate::save::{Broken, count};
use crate::sdma::{SavedSdma, SdmaConfig, SdmaQueue};
use crate::shader::Restoring;
use crate::vm::{SpaceList, Spaces};

/// The state of an engine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedEngine {
    queue: Option<SavedSdma>,
    stale: Option<u64>,
    left: Option<Left>,
}

/// Engines whose registers have a model.
const ENGINES: u8 = 2;
/// Distance of the second engine's registers.
const STRIDE: u32 = SDMA1_QUEUE0_RB_CNTL::AT.dword - SDMA0_QUEUE0_RB_CNTL::AT.dword;
/// Time between two looks at memory that a packet waits for.
const WAIT: Duration = Duration::from_micros(100);
/// Least and most of `RB_SIZE`, the logarithm of a ring's dwords.
const SIZES: std::ops::RangeInclusive<u32> = 4..=28;

/// The rings, by engine.
pub(super) struct SdmaRings {
    rings: Vec<Option<Ring>>,
    left: Vec<Option<Left>>,
    ports: Arc<Ports>,
}

#[derive(Debug)]
struct Ring {
    queue: SdmaQueue,
    /// Write pointer in memory that the ring before has left there.
    stale: Option<u64>,
}

/// A write pointer that a stopped ring has left in memory.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Left {
    at: u64,
    value: u64,
}

impl std::fmt::Debug for SdmaRings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SdmaRings").field(&self.rings).finish()
    }
}

impl SdmaRings {
    pub(super) fn new(ports: Arc<Ports>) -> Self {
        let left = vec![None; usize::from(ENGINES)];
        Self { rings: (0..ENGINES).map(|_| None).collect(), left, ports }
    }

    /// Reads a register of an engine, by its place on the first one.
    fn read(&self, engine: u8, at: Offset) -> u32 {
        self.ports.registers.get_of(Ip::GC, 0, at.plus(STRIDE * u32::from(engine)))
    }

    fn quad(&self, engine: u8, low: Offset, high: Offset) -> u64 {
        u64::from(self.read(engine, low)) | u64::from(self.read(engine, high)) << 32
    }

    /// Starts and stops rings as the registers say.
    fn follow(&mut self) {
        for engine in 0..ENGINES {
            let at = usize::from(engine);
            let cntl = SDMA0_QUEUE0_RB_CNTL::from_bits(self.read(engine, SDMA0_QUEUE0_RB_CNTL::AT));
            match (cntl.rb_enable(), self.rings[at].is_some()) {
                (true, false) => match self.start(engine, cntl) {
                    Ok(queue) => {
                        let left = self.left[at].take().filter(|left| left.at == queue.config().wptr_poll);
                        self.rings[at] = Some(Ring { queue, stale: left.map(|left| left.value) });
                    }
                    Err(why) => {
                        // Its registers have given it a doorbell.
                        self.ports.doorbells.own(self.doorbell(engine), Owner::Nobody);
                        self.ports.counters.error(why, format_args!("engine={engine}"));
                    }
                },
                (false, true) => self.stop(at),
                _ => {}
            }
        }
    }

    fn doorbell(&self, engine: u8) -> DoorbellIndex {
        let offset = self.read(engine, SDMA0_QUEUE0_DOORBELL_OFFSET::AT);
        DoorbellIndex::from_dwords(SDMA0_QUEUE0_DOORBELL_OFFSET::from_bits(offset).offset())
    }

    fn start(&self, engine: u8, cntl: SDMA0_QUEUE0_RB_CNTL) -> Result<SdmaQueue, GuestError> {
        let ports = &self.ports;
        let space = ports.contexts.space(0).ok_or(GuestError::SdmaRingSpace)?;
        let enabled = SDMA0_QUEUE0_DOORBELL::from_bits(self.read(engine, SDMA0_QUEUE0_DOORBELL::AT)).enable();
        let doorbell = self.doorbell(engine);
        let ring_base = self.quad(engine, SDMA0_QUEUE0_RB_BASE::AT, SDMA0_QUEUE0_RB_BASE_HI::AT) << 8;
        if !SIZES.contains(&cntl.rb_size()) || ring_base == 0 {
            return Err(GuestError::SdmaRingSize);
        }
        if !enabled {
            return Err(GuestError::SdmaRingDoorbell);
        }
        let config = SdmaConfig {
            identity: QueueIdentity { xcc: 0, me: engine, pipe: 0, queue: 0, vmid: 0, pasid: 0, doorbell },
            ring_base,
            ring_bytes: 4 << cntl.rb_size(),
            rptr_report: self.quad(
                engine,
                SDMA0_QUEUE0_RB_RPTR_ADDR_LO::AT,
                SDMA0_QUEUE0_RB_RPTR_ADDR_HI::AT,
            ),
            wptr_poll: self.quad(
                engine,
                SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO::AT,
                SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI::AT,
            ),
            read_index: self.quad(engine, SDMA0_QUEUE0_RB_RPTR::AT, SDMA0_QUEUE0_RB_RPTR_HI::AT),
            kernel: true,
        };
        ports.doorbells.own(doorbell, Owner::Ring);
        ports.doorbells.take(doorbell);
        Ok(SdmaQueue::new(config, space, &ports.sdma_env(), DmaContext::default()))
    }

    fn stop(&mut self, engine: usize) {
        if let Some(Ring { mut queue, stale }) = self.rings[engine].take() {
            queue.stop();
            let at = queue.config().wptr_poll;
            let value = self.ports.contexts.space(0).and_then(|space| space.load_u64(at).ok()).or(stale);
            self.left[engine] = value.map(|value| Left { at, value });
            self.ports.doorbells.own(queue.config().identity.doorbell, Owner::Nobody);
        }
    }
}

impl Firmware for SdmaRings {
    fn pass(&mut self) -> Turn {
        if self.ports.ring_notice.take() {
            self.follow();
        }
        let mut turn = Turn::WhenWoken;
        let space = self.ports.contexts.space(0);
        for Ring { queue, stale } in self.rings.iter_mut().flatten() {
            if let Some(space) = &space {
                queue.follow_space(space);
            }
            let doorbell = queue.config().identity.doorbell;
            let rung = self.ports.doorbells.take(doorbell).is_some();
            let written = || space.as_ref()?.load_u64(queue.config().wptr_poll).ok();
            if !rung && stale.is_some() && *stale == written() {
                continue;
            }
            *stale = None;
            turn = turn.min(match queue.service() {
                Progress::Advanced => Turn::Now,
                Progress::Blocked(BlockedOn::Memory) => Turn::After(WAIT),
                Progress::Blocked(BlockedOn::Dispatches) | Progress::Idle => Turn::WhenWoken,
                Progress::Error(error) => {
                    let details = format_args!("ring of the kernel doorbell={doorbell:#x} {error}");
                    self.ports.counters.error(GuestError::QueueStopped, details);
                    Turn::WhenWoken
                }
            });
        }
        turn
    }

    fn serve(&mut self, _: DoorbellIndex) -> Option<Served> {
        None
    }

    fn listens(&self) -> bool {
        self.rings.iter().any(Option::is_some)
    }

    fn hold(&mut self, _: bool) {}

    fn reset(&mut self) {
        (0..self.rings.len()).for_each(|engine| self.stop(engine));
        self.ports.ring_notice.take();
    }

    fn queues(&self) -> Vec<SeenQueue> {
        let seen = |Ring { queue, .. }: &Ring| {
            let config = queue.config();
            let space = self.ports.contexts.space(0);
            let written = space.as_ref().and_then(|space| space.load_u64(config.wptr_poll).ok());
            SeenQueue {
                doorbell: config.identity.doorbell,
                kernel: true,
                pasid: 0,
                vmid: Some(0),
                mqd: 0,
                state: "mapped",
                place: Some((None, config.identity.me, 0)),
                busy: queue.is_busy(),
                ring: Some(SeenRing {
                    packets: SeenPackets::Sdma,
                    base: config.ring_base,
                    bytes: config.ring_bytes,
                    read_index: queue.read_index() / 4,
                    write_pointer: config.wptr_poll,
                    write_index: written.map(|bytes| bytes / 4),
                }),
                hqd: None,
                space,
            }
        };
        self.rings.iter().flatten().map(seen).collect()
    }

    fn save(&self, spaces: &mut SpaceList) -> SavedFirmware {
        let save = |(ring, left): (&Option<Ring>, &Option<Left>)| SavedEngine {
            queue: ring.as_ref().map(|ring| ring.queue.save(spaces)),
            stale: ring.as_ref().and_then(|ring| ring.stale),
            left: *left,
        };
        SavedFirmware::SdmaRings(self.rings.iter().zip(&self.left).map(save).collect())
    }

    fn restore(&mut self, saved: &SavedFirmware, spaces: &Spaces, _: &mut Restoring) -> Result<(), Broken> {
        let SavedFirmware::SdmaRings(saved) = saved else { return Err(SavedFirmware::OF_ANOTHER_KIND) };
        count("rings of SDMA engines", saved.len(), saved.len() == self.rings.len())?;
        for ((ring, left), saved) in self.rings.iter_mut().zip(&mut self.left).zip(saved) {
            let env = self.ports.sdma_env();
            let queue =
                saved.queue.as_ref().map(|queue| SdmaQueue::restored(queue, spaces, &env)).transpose()?;
            *ring = queue.map(|queue| Ring { queue, stale: saved.stale });
            *left = saved.left;
        }
        Ok(())
    }
}
