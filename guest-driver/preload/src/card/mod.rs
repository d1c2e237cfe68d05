//! Figures that the processes of one prepared directory add up for its cards.
//!
//! Each process has devices of its own; together they are the cards whose files the directory has. A file of slots that all processes
//! map tells the memory that each one has, and if its devices execute waves. A process has a slot from its first opening of the GPU on; the
//! slot of a process that has ended goes to the next one.
#![expect(unsafe_code, reason = "keeps the process's slot behind a pointer that a forked child can drop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use belfry_lock::{Mutex, rank};

use belfry_device::{Activity, WholeCard};
use belfry_kfd_hosted::card::{Figures, Load, Source, measure};
use belfry_kfd_hosted::prepared::MAX_GPUS;

use crate::gpu;
use crate::inside::inside;
use crate::real::raw;
use crate::settings::settings;
use slot::{CardSlot, Slot, slots};

mod keeper;
mod slot;

/// The name of the card as a number; 0 where it has none.
fn name() -> u64 {
    let name = settings().map_or(&[][..], |settings| settings.card_name.as_slice());
    if name.is_empty() {
        return 0;
    }
    // FNV-1a.
    name.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// This process's slot; null before it has joined.
static OWN: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

fn own() -> Option<&'static Slot> {
    // SAFETY: null, or a slot that was stored here, which stay for ever.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// Takes a slot for this process, which opens its GPUs.
///
/// If there is no free slot, the figures of this process are its own alone.
pub(crate) fn join() {
    let free = slots().filter(|slots| slots.is_writable).and_then(|slots| keeper::claim(slots.all));
    let slot = free.unwrap_or_else(|| Box::leak(Box::default()));
    slot.begin(name());
    OWN.store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
}

/// Returns the counts of the threads that execute waves on this process's device of a card, once the process has joined.
pub(crate) fn activity(gpu: usize) -> Activity {
    match own().and_then(|slot| slot.cards.get(gpu)) {
        Some(card) => Activity::shared(&card.busy, Some(Arc::new(Others(gpu)))),
        None => Activity::default(),
    }
}

/// The other devices of the card with this number.
struct Others(usize);

impl WholeCard for Others {
    fn others_are_busy(&self) -> bool {
        self.slots().any(|(slot, card)| card.busy.is_busy() && slot.is_seen())
    }

    fn others_ns(&self) -> u64 {
        // A process that was killed while busy says so for ever.
        let ns = |(slot, card): (&Slot, &CardSlot)| card.busy.total_ns(card.busy.is_busy() && slot.is_seen());
        self.slots().fold(0, |sum, both| sum.saturating_add(ns(both)))
    }

    fn others_memory(&self) -> (u64, u64) {
        self.slots()
            .filter(|(slot, _)| slot.is_seen())
            .fold((0, 0), |(vram, gtt), (_, card)| card.plus_memory(vram, gtt))
    }
}

impl Others {
    /// The slots of the card's other processes, also of those that have ended. Slots are taken in their order.
    fn slots(&self) -> impl Iterator<Item = (&'static Slot, &'static CardSlot)> {
        let (gpu, name, own) = (self.0, name(), own().map_or(std::ptr::null(), std::ptr::from_ref));
        let all = slots().map_or(&[][..], |slots| slots.all);
        all.iter()
            .take_while(|slot| slot.was_taken())
            .filter(move |slot| slot.is_of(name) && !std::ptr::eq(*slot, own))
            .filter_map(move |slot| Some((slot, slot.cards.get(gpu)?)))
    }
}

/// In a forked child: the slot is the parent's.
pub(crate) fn forget() {
    OWN.store(std::ptr::null_mut(), Ordering::Release);
}

/// Tells the others how much memory this process has now.
pub(crate) fn publish() {
    let (Some(gpu), Some(slot)) = (gpu::own(), own()) else { return };
    for (number, card) in slot.cards.iter().enumerate().take(gpu.machine.gpus().len()) {
        let (vram, gtt) = inside(|| gpu.process.own_memory(number));
        card.set_memory(vram, gtt);
    }
    slot.left.store(0, Ordering::Relaxed);
}

/// This process ends, or becomes another program; if that fails, it is back with its next call of the driver.
pub(crate) fn leave() {
    if gpu::own().is_some()
        && let Some(slot) = own()
    {
        slot.left.store(1, Ordering::Relaxed);
    }
}

/// Load of each card, as this process has found it.
static LOADS: [Mutex<Load, rank::CardLoad>; MAX_GPUS] = [const { Mutex::new(Load::new()) }; MAX_GPUS];
/// Longest time, in nanoseconds, for which each card was found to have been busy: a reading while a process
/// changes its slot may be a little less.
static MOST_BUSY_NS: [AtomicU64; MAX_GPUS] = [const { AtomicU64::new(0) }; MAX_GPUS];

/// The figures of a card with this much VRAM and system memory: the sums over the processes.
pub(crate) fn figures(gpu: usize, source: Source, (vram, gtt): (u64, u64)) -> Figures {
    let (Some(load), Some(most_busy_ns)) = (LOADS.get(gpu), MOST_BUSY_NS.get(gpu)) else {
        return Figures::default();
    };
    if source == Source::Card {
        return Figures::default();
    }
    publish();
    let own = own().and_then(|slot| slot.cards.get(gpu));
    let used = Others(gpu).others_memory();
    let used = own.map_or(used, |card| card.plus_memory(used.0, used.1));
    // Errors are counted by this process's own device.
    let errors =
        gpu::own().map_or_else(Figures::default, |all| inside(|| all.process.figures(gpu, Source::Memory)));
    let mut figures = Figures {
        vram_used: used.0.min(vram),
        gtt_used: used.1.min(gtt),
        boot_ns: raw::boot_ns(),
        uncorrectable: errors.uncorrectable,
        corrected: errors.corrected,
        ..Figures::default()
    };
    if source == Source::Activity {
        let look = || {
            let busy_ns =
                own.map_or(0, |card| card.busy.total_ns(true)).saturating_add(Others(gpu).others_ns());
            figures.busy_ns = most_busy_ns.fetch_max(busy_ns, Ordering::Relaxed).max(busy_ns);
            // Another thread may have it, also one that this process, which was forked, does not have.
            load.try_lock().ok()?.look(raw::boot_ns(), busy_ns)
        };
        figures.busy_percent = measure(look, raw::sleep_us);
    }
    figures
}
