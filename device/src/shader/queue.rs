//! A queue as the shader engine sees it: its address space, its permission to run, and the waves it has on the GPU.

mod save;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_isa::mem::Apertures;
use belfry_lock::{Condvar, Mutex, MutexGuard, rank};

use super::context::{ContextError, SavedGroup};
use super::dispatch::Dispatch;
use super::gws::Gws;
use super::launch::Launch;
use super::placement::{Floor, Need, Place};
use super::scratch::ScratchPool;
use crate::chip::{ShaderRules, Topology};
use crate::vm::AddressSpace;

pub(super) use save::SavedSeat;

/// Permission of a queue's waves to run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
enum Permission {
    /// Turns begin and go on.
    Run,
    /// No turn begins, and turns in progress pause, until the queue is resumed.
    Suspended,
    /// As suspended, for good.
    Stopped,
}

/// One queue's standing with the shader engine.
pub struct ShaderQueue {
    space: Arc<AddressSpace>,
    apertures: Apertures,
    /// A [`Permission`], the only record of it.
    permission: AtomicU8,
    /// Workers in a turn of this queue, or about to find that they may not begin one.
    turns: AtomicU32,
    /// Threads that wait for the last turn to end; `left` wakes them. A thread that ends a turn takes the lock only if
    /// there are some.
    waiting: AtomicU32,
    busy: Mutex<(), rank::ShaderQueueBusy>,
    left: Condvar,
    /// Resident waves, running or paused. It changes only under the lock of the engine's rooms.
    waves: AtomicU32,
    gws: Arc<Gws>,
}

impl fmt::Debug for ShaderQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permission = [Permission::Run, Permission::Suspended, Permission::Stopped];
        let turns = self.turns.load(Ordering::Relaxed);
        f.debug_struct("ShaderQueue")
            .field("permission", &permission.into_iter().find(|&permission| self.has(permission)))
            .field("workers_in_a_turn", &format_args!("{turns}"))
            .field("waves_resident", &format_args!("{}", self.waves.load(Ordering::Relaxed)))
            .field("root", self.space.root())
            .field("gws", &self.gws)
            .finish_non_exhaustive()
    }
}

impl ShaderQueue {
    /// Makes a queue whose waves run in `space`, with this global wave sync.
    #[must_use]
    pub fn new(space: Arc<AddressSpace>, apertures: Apertures, gws: Arc<Gws>) -> Arc<ShaderQueue> {
        Arc::new(ShaderQueue {
            space,
            apertures,
            permission: AtomicU8::new(Permission::Run as u8),
            turns: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            busy: Mutex::new(()),
            left: Condvar::new(),
            waves: AtomicU32::new(0),
            gws,
        })
    }

    /// Returns the queue's address space.
    #[must_use]
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    pub(super) fn apertures(&self) -> Apertures {
        self.apertures
    }

    /// Returns the number of its waves on the compute units.
    pub(super) fn resident(&self) -> u32 {
        self.waves.load(Ordering::Relaxed)
    }

    /// Sets the number of resident waves. The caller holds the lock of the rooms, which orders all changes: each change
    /// sees the one before it, and none needs an atomic exchange.
    fn set_resident(&self, _rooms: &Rooms, waves: u32) {
        self.waves.store(waves, Ordering::Relaxed);
    }

    /// Returns its global wave sync. While waves of the queue use it, no other queue with global wave sync runs.
    #[must_use]
    pub fn gws(&self) -> &Arc<Gws> {
        &self.gws
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Lets no further turn begin, for good; running turns end at their next wave switch. Does not wait.
    pub(crate) fn begin_stop(&self) {
        self.permission.store(Permission::Stopped as u8, Ordering::SeqCst);
    }

    /// Stops every wave for good. Returns when none runs any more, within a few thousand instructions.
    ///
    /// Afterwards nothing is written on the queue's behalf: no completion signal, no interrupt of a completion.
    pub fn stop(&self) {
        self.begin_stop();
        self.wait_until_idle();
    }

    /// Stops waves where they are, to go on after [`super::ShaderEngine::resume`]. Returns when none runs.
    ///
    /// They keep their places on the GPU, unless [`super::ShaderEngine::save_context`] takes them away.
    pub fn suspend(&self) {
        self.change(Permission::Run, Permission::Suspended);
        self.wait_until_idle();
    }

    pub(super) fn end_suspension(&self) {
        self.change(Permission::Suspended, Permission::Run);
    }

    /// Returns true if the queue is stopped or stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.has(Permission::Stopped)
    }

    /// Changes the permission from `from` to `to`; does nothing if it is not `from`.
    fn change(&self, from: Permission, to: Permission) {
        let _other =
            self.permission.compare_exchange(from as u8, to as u8, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn has(&self, permission: Permission) -> bool {
        self.permission.load(Ordering::SeqCst) == permission as u8
    }

    /// Returns true if running turns should pause or end now.
    pub(super) fn should_yield(&self) -> bool {
        self.permission.load(Ordering::Relaxed) != Permission::Run as u8
    }

    /// Waits until no turn is in progress. The caller holds no lock that a turn takes, or the turn would wait for the
    /// caller.
    fn wait_until_idle(&self) {
        belfry_lock::about_to_wait::<rank::ShaderQueueTurns>();
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.turns.load(Ordering::SeqCst) != 0 {
            busy = self.left.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Begins a turn. Returns false if the queue is stopped or suspended.
    pub(super) fn begin_turn(&self) -> bool {
        // The turn is counted before the permission is read. A thread that stops the queue changes the permission
        // before it reads the count. All four accesses are in one order, so that either this turn finds the queue
        // stopped, or the other thread finds the turn and waits for its end.
        self.turns.fetch_add(1, Ordering::SeqCst);
        if !self.has(Permission::Run) {
            self.end_turn();
            return false;
        }
        true
    }

    /// Ends a turn.
    pub(super) fn end_turn(&self) {
        // A thread that waits counts itself in `waiting` before it reads `turns`: either it finds no turn, or it is
        // found here. It holds the lock from there until it sleeps, so that it is not woken before.
        if self.turns.fetch_sub(1, Ordering::SeqCst) == 1 && self.waiting.load(Ordering::SeqCst) != 0 {
            drop(self.busy.lock().unwrap_or_else(PoisonError::into_inner));
            self.left.notify_all();
        }
    }
}

/// Workgroups resident on the whole engine.
pub(super) struct Residency {
    rules: &'static ShaderRules,
    rooms: Mutex<Rooms, rank::Rooms>,
}

impl fmt::Debug for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rooms = self.rooms();
        f.debug_struct("Residency")
            .field("floor", &rooms.floor)
            .field("global_wave_sync_in_use", &rooms.syncing.is_some())
            .finish()
    }
}

struct Rooms {
    floor: Floor,
    /// The workgroup that a queue, by its address, has beyond those that the GPU holds, and the place that it has on
    /// the GPU since the queue has other workgroups.
    beyond: BTreeMap<usize, (Need, Option<Place>)>,
    /// The queue with global wave sync that has waves here, by its address. There is only one: with waves of two such
    /// queues, each could wait for workgroups that find no room.
    syncing: Option<usize>,
}

impl Residency {
    pub(super) fn new(topology: Topology, rules: &'static ShaderRules) -> Residency {
        Residency {
            rules,
            rooms: Mutex::new(Rooms {
                floor: Floor::new(topology, rules),
                beyond: BTreeMap::new(),
                syncing: None,
            }),
        }
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms, rank::Rooms> {
        self.rooms.lock_spinning().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, queue: &ShaderQueue, need: &Need) -> Option<Standing> {
        let syncs = queue.gws.is_granted().then_some(queue.address());
        let mut rooms = self.rooms();
        if syncs.is_some() && rooms.syncing.is_some() && syncs != rooms.syncing {
            return None;
        }
        // All waves of a queue together must fit the GPU, because its context save area is that large.
        let Rooms { floor, beyond, .. } = &mut *rooms;
        if let Some((need, place @ None)) = beyond.get_mut(&queue.address()) {
            *place = Some(floor.take(need)?);
        }
        let standing = match rooms.floor.take(need) {
            Some(place) => Standing::On(place),
            // Seats are only handed out under the engine's lock, so that one queue cannot get in twice.
            None if queue.resident() == 0 => {
                rooms.beyond.insert(queue.address(), (*need, None));
                Standing::Beyond
            }
            None => return None,
        };
        queue.set_resident(&rooms, queue.resident() + need.waves);
        rooms.syncing = syncs.or(rooms.syncing);
        Some(standing)
    }

    fn leave(&self, queue: &ShaderQueue, need: &Need, standing: &Standing) {
        let mut rooms = self.rooms();
        match standing {
            Standing::On(place) => rooms.floor.give(place),
            Standing::Beyond => {
                if let Some((_, Some(place))) = rooms.beyond.remove(&queue.address()) {
                    rooms.floor.give(&place);
                }
            }
            Standing::Off => return,
        }
        let left = queue.resident() - need.waves;
        queue.set_resident(&rooms, left);
        if left == 0 && rooms.syncing == Some(queue.address()) {
            rooms.syncing = None;
        }
    }

    /// Returns a seat for one workgroup of a dispatch, if there is room.
    ///
    /// The engine holds as many workgroups as the modelled GPU. A queue without any wave gets one more in: a queue
    /// whose waves never end must not keep the others out.
    pub(super) fn seat(self: &Arc<Self>, dispatch: &Dispatch) -> Option<Box<Seat>> {
        let queue = dispatch.queue();
        let need = dispatch.launch().need(self.rules);
        let standing = self.take(queue, &need)?;
        let mut seat = Box::new(Seat {
            residency: Arc::clone(self),
            queue: Arc::clone(queue),
            need,
            standing,
            scratch: None,
        });
        if let Some(pool) = &dispatch.launch().scratch {
            let slots = pool.take(need.waves)?;
            seat.scratch = Some((Arc::clone(pool), slots.into_iter().map(Some).collect()));
        }
        Some(seat)
    }
}

impl Residency {
    /// Returns the seat of a saved workgroup, off the GPU, with the scratch memory of its waves.
    pub(super) fn seat_off(
        self: &Arc<Self>,
        dispatch: &Dispatch,
        group: &SavedGroup,
    ) -> Result<Box<Seat>, ContextError> {
        let queue = Arc::clone(dispatch.queue());
        let need = dispatch.launch().need(self.rules);
        let mut seat = Box::new(Seat {
            residency: Arc::clone(self),
            queue,
            need,
            standing: Standing::Off,
            scratch: None,
        });
        if let Some(pool) = &dispatch.launch().scratch {
            let mut slots = vec![None; need.waves as usize];
            let mut all = true;
            for wave in &group.waves {
                let slot = wave.scratch_slot.filter(|&slot| pool.claim(slot));
                all &= slot.is_some();
                if let Some(place) = slots.get_mut(wave.number as usize) {
                    *place = slot;
                }
            }
            // Slots that were claimed are given back with the seat.
            seat.scratch = Some((Arc::clone(pool), slots));
            if !all {
                return Err(ContextError::Corrupt("scratch memory that is not there or taken"));
            }
        }
        Ok(seat)
    }

    /// Returns true if an empty GPU holds a workgroup of this launch.
    pub(super) fn holds(&self, launch: &Launch) -> bool {
        self.rooms().floor.holds(&launch.need(self.rules))
    }

    /// Returns the bytes of LDS and of vector registers in use.
    pub(super) fn in_use(&self) -> (u64, u64) {
        self.rooms().floor.in_use()
    }

    /// Returns the number of waves that the GPU holds.
    pub(super) fn capacity(&self) -> u64 {
        self.rooms().floor.wave_slots()
    }
}

/// Standing of a workgroup with the GPU.
#[derive(Debug)]
enum Standing {
    /// On the GPU.
    On(Place),
    /// Beyond the workgroups that the GPU holds; the only one of its queue.
    Beyond,
    /// Off the GPU, as after a context restore.
    Off,
}

/// Room for one workgroup and its scratch memory; given back when dropped. Workgroups hand it on to one another, in a
/// box, so that they hand on a pointer.
pub(super) struct Seat {
    residency: Arc<Residency>,
    queue: Arc<ShaderQueue>,
    need: Need,
    standing: Standing,
    /// The pool, and the slots of the waves by their numbers.
    scratch: Option<(Arc<ScratchPool>, Vec<Option<u32>>)>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("standing", &self.standing)
            .field("scratch_slots", &self.scratch.as_ref().map(|(_, slots)| slots))
            .finish_non_exhaustive()
    }
}

impl Seat {
    /// Returns the scratch slot of a wave.
    pub(super) fn scratch_slot(&self, wave: u32) -> Option<u32> {
        self.scratch.as_ref().and_then(|(_, slots)| *slots.get(wave as usize)?)
    }

    /// Returns the place of a wave: bits of `HW_ID1` and `HW_ID2`.
    pub(super) fn hw_ids(&self, wave: u32) -> [u32; 2] {
        match &self.standing {
            Standing::On(place) => place.hw_ids(wave),
            Standing::Beyond | Standing::Off => [0; 2],
        }
    }

    /// Returns true if the workgroup has to come [back](Seat::back) before it goes on.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.standing, Standing::Off)
    }

    fn leave(&mut self) {
        let standing = std::mem::replace(&mut self.standing, Standing::Off);
        self.residency.leave(&self.queue, &self.need, &standing);
    }

    /// Takes a place again. Returns false if there is no room.
    pub(super) fn back(&mut self) -> bool {
        if self.is_off()
            && let Some(standing) = self.residency.take(&self.queue, &self.need)
        {
            self.standing = standing;
        }
        !self.is_off()
    }

    /// Returns true if the seat serves a workgroup of this launch without a change.
    #[inline(always)]
    pub(super) fn fits(&self, launch: &Launch) -> bool {
        let scratch = match (&self.scratch, &launch.scratch) {
            (None, None) => true,
            (Some((mine, _)), Some(wanted)) => Arc::ptr_eq(mine, wanted),
            _ => false,
        };
        // The seat of a restored workgroup may have scratch memory for some of its waves only.
        let whole = self.scratch.as_ref().is_none_or(|(_, slots)| slots.iter().all(Option::is_some));
        scratch && whole && self.need == launch.need(self.residency.rules)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((pool, slots)) = &mut self.scratch {
            pool.give(slots.drain(..).flatten());
        }
        self.leave();
    }
}
