//! The kernel's own rings: which are mapped, by registers, by a packet of the KIQ or by a frame, and their turns.

pub(super) mod graphics;
mod kind;
pub(super) mod pm4;
mod running;

use std::collections::BTreeMap;
use std::collections::btree_map::Keys;

use belfry_abi::doorbell::DoorbellIndex;

use super::{Ports, Turn};
use crate::doorbell::Owner;
use crate::guest_error::GuestError;
use crate::queue::{Hqd, HqdId, Mqd, Ring, seed_doorbell};
use crate::save::{Broken, check};
use crate::vm::AddressSpace;
pub(super) use kind::{MappedBy, RingKind};
pub(super) use running::{Fate, Running, SavedRunning};

/// Place of a kernel ring: its graphics core and its hardware queue there.
pub(super) type At = (u8, HqdId);

/// [`KernelRings`] as plain values.
pub(super) type SavedRings = Vec<(u8, HqdId, SavedRunning)>;

/// A ring to be mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRing {
    pub(super) kind: RingKind,
    pub(super) at: At,
    /// Address of its MQD, in VMID 0.
    pub(super) mqd: u64,
    pub(super) doorbell: DoorbellIndex,
}

/// The kernel rings that are served, by their places.
#[derive(Debug, Default)]
pub(super) struct KernelRings(BTreeMap<At, Running>);

impl KernelRings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all rings. Their doorbells and registers are reset by others.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn has(&self, at: At) -> bool {
        self.0.contains_key(&at)
    }

    /// Returns the places of the rings, in the order in which they are served.
    pub(super) fn places(&self) -> Keys<'_, At, Running> {
        self.0.keys()
    }

    /// Returns the rings with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (At, &Running)> {
        self.0.iter().map(|(&at, running)| (at, running))
    }

    /// Returns true if the next packet of a ring waits for memory.
    pub(super) fn wait(&self) -> bool {
        self.0.values().any(Running::waits)
    }

    /// Returns the place of the ring with a doorbell.
    pub(super) fn of_doorbell(&self, doorbell: DoorbellIndex) -> Option<At> {
        self.iter().find(|(_, running)| running.ring.doorbell() == doorbell).map(|(at, _)| at)
    }

    /// Loads a ring's registers from its MQD and activates its hardware queue. Returns the registers.
    ///
    /// # Errors
    ///
    /// A ring of an engine without a model, an MQD that is not one, or one that describes no kernel ring. The registers
    /// are as before.
    pub(super) fn load(
        ports: &Ports,
        space: &AddressSpace,
        new: &NewRing,
        by: MappedBy,
    ) -> Result<Hqd, GuestError> {
        new.kind.served(by)?;
        let mut image = Hqd::new();
        if new.kind == RingKind::Graphics {
            graphics::load(&mut image, space, new.mqd)?;
        } else {
            image.load(&Mqd::read(&ports.chip.mqd, space, new.mqd)?);
        }
        image.set_doorbell(new.doorbell);
        Ring::new(&image)?;
        let (xcc, id) = new.at;
        Ok(ports.hqds.hqd_of(xcc, id, |hqd| {
            hqd.replace(&image);
            hqd.activate();
            *hqd
        }))
    }

    /// Serves a ring that was [loaded](Self::load). Its driver may ring its doorbell as soon as this returns.
    pub(super) fn begin(
        &mut self,
        ports: &Ports,
        space: &AddressSpace,
        at: At,
        hqd: &Hqd,
    ) -> Result<(), GuestError> {
        seed_doorbell(hqd, Some(space), &ports.doorbells);
        self.start(ports, at, hqd)
    }

    /// Maps a ring: [`Self::load`] and [`Self::begin`].
    pub(super) fn map(
        &mut self,
        ports: &Ports,
        space: &AddressSpace,
        new: &NewRing,
        by: MappedBy,
    ) -> Result<(), GuestError> {
        let hqd = Self::load(ports, space, new, by)?;
        self.begin(ports, space, new.at, &hqd)
    }

    /// Takes a ring off.
    pub(super) fn unmap(&mut self, ports: &Ports, at: At) {
        let (xcc, id) = at;
        ports.hqds.hqd_of(xcc, id, Hqd::deactivate);
        if let Some(running) = self.0.remove(&at) {
            ports.doorbells.own(running.ring.doorbell(), Owner::Nobody);
        }
    }

    fn start(&mut self, ports: &Ports, at: At, hqd: &Hqd) -> Result<(), GuestError> {
        let ring = Ring::new(hqd)?;
        let doorbell = ring.doorbell();
        ports.doorbells.own(doorbell, Owner::Ring);
        let before = self.0.insert(at, Running::new(ring, hqd.activation));
        if let Some(before) = before.filter(|before| before.ring.doorbell() != doorbell) {
            ports.doorbells.own(before.ring.doorbell(), Owner::Nobody);
        }
        Ok(())
    }

    /// Follows the registers of an active hardware queue that is no process's: starts its ring, or stops it if the
    /// driver asks for that. `kind` is the kind of ring that a driver may start there, or the reason why it may not.
    pub(super) fn follow(&mut self, ports: &Ports, at: At, hqd: &Hqd, kind: Result<RingKind, GuestError>) {
        if hqd.wants_dequeue() {
            return self.dequeue(ports, at, hqd);
        }
        if self.0.get(&at).is_some_and(|running| running.activation == hqd.activation) {
            return;
        }
        let started =
            kind.and_then(|kind| kind.served(MappedBy::Registers)).and_then(|()| self.start(ports, at, hqd));
        if let Err(why) = started {
            self.refuse(ports, at, why);
        }
    }

    /// Stops a ring as `CP_HQD_DEQUEUE_REQUEST` asks for.
    fn dequeue(&mut self, ports: &Ports, at: At, hqd: &Hqd) {
        let running = self.0.remove(&at);
        let (xcc, id) = at;
        ports.hqds.hqd_of(xcc, id, |registers| {
            if let Some(running) = running.filter(|running| running.activation == hqd.activation) {
                let (rptr, wptr) = running.ring.pointers();
                registers.set_pointers(rptr, wptr);
            }
            // The doorbell is given up before the driver sees the ring off and may start another one with it.
            self.give_up(ports, hqd.doorbell());
            registers.deactivate();
        });
    }

    /// Stops a queue that was started through registers and may not run.
    pub(super) fn refuse(&self, ports: &Ports, at: At, why: GuestError) {
        error(ports, at, why);
        let (xcc, id) = at;
        let doorbell = ports.hqds.hqd_of(xcc, id, |hqd| {
            hqd.deactivate();
            hqd.doorbell()
        });
        self.give_up(ports, doorbell);
    }

    /// Gives up the doorbell of a hardware queue that is stopped, unless a ring has it: the hardware queues of a HIQ on
    /// several cores have one doorbell, and one ring.
    fn give_up(&self, ports: &Ports, doorbell: DoorbellIndex) {
        if self.of_doorbell(doorbell).is_none() {
            ports.doorbells.own(doorbell, Owner::Nobody);
        }
    }

    /// Drops the rings whose hardware queues the driver has stopped or started anew.
    pub(super) fn drop_stopped(&mut self, ports: &Ports) {
        self.0.retain(|&at, running| running.goes_on(ports, at));
    }

    pub(super) fn save(&self) -> SavedRings {
        self.iter().map(|((xcc, id), running)| (xcc, id, running.save())).collect()
    }

    /// Takes over the rings of another device. `may_be` returns true if a hardware queue may have a kernel ring.
    pub(super) fn restore(
        &mut self,
        saved: &SavedRings,
        xccs: u8,
        may_be: impl Fn(HqdId) -> bool,
    ) -> Result<(), Broken> {
        for (xcc, id, running) in saved {
            check("graphics core of a kernel's ring", *xcc, *xcc < xccs)?;
            check("micro engine of a kernel's ring", id.me, may_be(*id))?;
            self.0.insert((*xcc, *id), Running::restored(running.clone())?);
        }
        Ok(())
    }
}

/// Counts an error of a ring or of a hardware queue.
fn error(ports: &Ports, (xcc, id): At, why: GuestError) {
    let HqdId { me, pipe, queue } = id;
    ports.counters.error(why, format_args!("xcc={xcc} me={me} pipe={pipe} queue={queue}"));
}

/// A firmware that executes the packets of kernel rings.
pub(super) trait ServesRings {
    fn rings(&mut self) -> (&mut KernelRings, &Ports);

    /// Executes one packet of a ring. Returns false if there was none.
    ///
    /// # Errors
    ///
    /// The ring cannot go past the packet.
    fn step(&mut self, space: &AddressSpace, at: At, running: &mut Running) -> Result<bool, GuestError>;

    /// Gives a turn to the rings at these places, if they are there.
    fn serve_rings(&mut self, order: Vec<At>) -> Turn {
        let Some(space) = self.rings().1.contexts.space(0) else { return Turn::WhenWoken };
        let mut turn = Turn::WhenWoken;
        for at in order {
            let (rings, ports) = self.rings();
            let Some(mut running) = rings.0.remove(&at) else { continue };
            running.look(ports);
            let (more, failed) = running.batch(|running| self.step(&space, at, running));
            turn = turn.min(more);
            let (rings, ports) = self.rings();
            if let Some(why) = failed {
                error(ports, at, why);
            }
            if running.ring.report(&space).is_err() {
                error(ports, at, GuestError::RptrReportUnmapped);
            }
            // A packet may have mapped another ring in its place.
            rings.0.entry(at).or_insert(running);
        }
        turn
    }
}
