//! Figures that the processes of one prepared directory add up for its cards.
//!
//! Each process has devices of its own; together they are the cards whose files the directory has. For each card, a file of slots
//! that all of them map tells the memory that each one has, and if its device executes waves. A process has a slot from
//! its first opening of the GPU on; the slot of a process that has ended goes to the next one.
#![expect(unsafe_code, reason = "maps memory that other processes map")]

use std::ffi::CString;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use belfry_lock::{Mutex, rank};
use once_cell::race::OnceBox;

use belfry_device::{Activity, Busy, WholeCard};
use belfry_kfd_hosted::card::{Figures, Load, Source, measure};
use belfry_kfd_hosted::prepared::{MAX_GPUS, SHARED_SIZE, shared_file};

use crate::identity::{raw_close, raw_open};
use crate::inside::inside;
use crate::real::raw;
use crate::settings::settings;
use crate::{companion, gpu};

/// Bytes of a slot: a line of the processors' caches, which no other process writes to.
const SLOT_SIZE: usize = 64;
const SLOTS: usize = SHARED_SIZE / SLOT_SIZE;

/// Figures of one process. All zeros are a free slot.
#[repr(C, align(64))]
#[derive(Default)]
struct Slot {
    /// [`Owner`].
    owner: AtomicU64,
    /// Time for which its device has executed waves. The value of an ended process stays: the card's energy
    /// is the sum over all of them.
    busy: Busy,
    /// 1 once the process has ended or become another program.
    left: AtomicU32,
    vram_used: AtomicU64,
    gtt_used: AtomicU64,
    /// [`name`].
    name: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == SLOT_SIZE);

/// A process, as a number that no other one has: its identity (22 bits), when it was started (26 bits) and its namespace
/// of identities (16 bits), whose other processes are not seen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u64);

impl Owner {
    fn of(pid: u32) -> Option<Self> {
        let started = started_at(pid)?;
        Some(Self(u64::from(pid) & 0x3f_ffff | (started & 0x3ff_ffff) << 22 | namespace() << 48))
    }

    fn pid(self) -> u32 {
        (self.0 & 0x3f_ffff) as u32
    }

    /// Returns true if the process is in this process's namespace and has not ended.
    fn lives(self) -> bool {
        Self::of(self.pid()) == Some(self)
    }

    /// Returns true if the process has ended, as far as this process can know.
    fn has_ended(self) -> bool {
        self.0 >> 48 == namespace() && !self.lives()
    }
}

/// When a process was started, in ticks since the machine was.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field of `/proc/PID/stat`; the second one is a name, which may hold anything.
fn started(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Bits that tell this process's namespace of identities from others.
pub(crate) fn namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap_or(0) & 0xffff
}

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

/// The slots of a card, and whether this process may have one.
type Slots = (&'static [Slot], bool);

/// The slots of a card; `None` where there are none.
fn slots(gpu: usize) -> Option<&'static Slots> {
    // As in `settings`: the second thread to come leaves a map that is not used.
    static MAPPED: [OnceBox<Option<Slots>>; MAX_GPUS] = [const { OnceBox::new() }; MAX_GPUS];
    let map = || inside(|| Box::new(settings().and_then(|settings| map(&settings.tree, gpu))));
    MAPPED.get(gpu)?.get_or_init(map).as_ref()
}

fn map(tree: &[u8], gpu: usize) -> Option<Slots> {
    let path = CString::new([tree, b"/", shared_file(gpu).as_bytes()].concat()).ok()?;
    let writable = raw_open(&path, libc::O_RDWR | libc::O_CLOEXEC);
    let fd = writable.or_else(|| raw_open(&path, libc::O_RDONLY | libc::O_CLOEXEC))?;
    let whole = raw::fstat(fd).is_some_and(|stat| stat.st_size as usize == SHARED_SIZE);
    let prot = if writable.is_some() { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let arguments = [0, SHARED_SIZE, prot as usize, libc::MAP_SHARED as usize, fd as usize, 0];
    // SAFETY: a new mapping at a place the kernel chooses.
    let at = if whole { unsafe { raw::call(libc::SYS_mmap, arguments) } } else { -1 };
    raw_close(fd);
    if at <= 0 {
        return None;
    }
    // SAFETY: mapped for ever, as large as it says, of a type whose every value is one, and written
    // atomically alone; if it may only be read, no process is given a slot.
    let slots = unsafe { std::slice::from_raw_parts(at as *const Slot, SLOTS) };
    Some((slots, writable.is_some()))
}

/// This process's slot of each card; null before it has joined.
static OWN: [AtomicPtr<Slot>; MAX_GPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_GPUS];

fn own(gpu: usize) -> Option<&'static Slot> {
    // SAFETY: null, or a slot that was stored here, which stay for ever.
    unsafe { OWN.get(gpu)?.load(Ordering::Acquire).as_ref() }
}

/// Takes a slot of a card for this process, which opens the GPU; where its device counts the threads that execute waves.
///
/// If there is no free slot, the figures of this process are its own alone.
pub(crate) fn join(gpu: usize) -> Activity {
    let slot = claim(gpu).unwrap_or_else(|| Box::leak(Box::default()));
    if slot.name.load(Ordering::Relaxed) == name() {
        slot.busy.begin_anew();
    } else {
        slot.busy.clear();
    }
    slot.vram_used.store(0, Ordering::Relaxed);
    slot.gtt_used.store(0, Ordering::Relaxed);
    slot.name.store(name(), Ordering::Relaxed);
    slot.left.store(0, Ordering::Relaxed);
    if let Some(own) = OWN.get(gpu) {
        own.store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    }
    Activity::shared(&slot.busy, Some(Arc::new(Others(gpu))))
}

/// The other devices of the card with this number.
struct Others(usize);

impl WholeCard for Others {
    fn others_are_busy(&self) -> bool {
        others(self.0).any(|slot| slot.busy.is_busy() && slot.is_seen())
    }

    fn others_ns(&self) -> u64 {
        others(self.0).fold(0, |sum, slot| sum.saturating_add(slot.busy_ns()))
    }

    fn others_memory(&self) -> (u64, u64) {
        others(self.0)
            .filter(|slot| slot.is_seen())
            .fold((0, 0), |(vram, gtt), slot| slot.plus_memory(vram, gtt))
    }
}

/// The slots of a card's other processes, also of those that have ended.
fn others(gpu: usize) -> impl Iterator<Item = &'static Slot> {
    let (name, own) = (name(), own(gpu).map_or(std::ptr::null(), std::ptr::from_ref));
    let all = slots(gpu).map_or(&[][..], |(slots, _)| slots);
    all.iter().filter(move |slot| {
        let is_one = slot.owner.load(Ordering::Acquire) != 0 && slot.name.load(Ordering::Relaxed) == name;
        is_one && !std::ptr::eq(*slot, own)
    })
}

impl Slot {
    /// Returns true if its process is there, and in this process's namespace.
    fn is_seen(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 && Owner(self.owner.load(Ordering::Acquire)).lives()
    }

    /// Nanoseconds for which its devices have executed waves. The slot of a process that was killed while
    /// busy says so for ever.
    fn busy_ns(&self) -> u64 {
        self.busy.total_ns(self.busy.is_busy() && self.is_seen())
    }

    fn plus_memory(&self, vram: u64, gtt: u64) -> (u64, u64) {
        let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (vram.saturating_add(of(&self.vram_used)), gtt.saturating_add(of(&self.gtt_used)))
    }
}

fn claim(gpu: usize) -> Option<&'static Slot> {
    let (slots, true) = slots(gpu)? else { return None };
    let me = Owner::of(companion::process() as u32)?;
    // The program that this process was before may have had one.
    let had = slots.iter().find(|slot| slot.owner.load(Ordering::Acquire) == me.0);
    had.or_else(|| {
        slots.iter().find(|slot| {
            let before = slot.owner.load(Ordering::Acquire);
            let free = before == 0 || Owner(before).has_ended();
            free && slot.owner.compare_exchange(before, me.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
        })
    })
}

/// In a forked child: the slots are the parent's.
pub(crate) fn forget() {
    OWN.iter().for_each(|own| own.store(std::ptr::null_mut(), Ordering::Release));
}

/// Tells the others how much memory this process has now.
pub(crate) fn publish() {
    let Some(gpu) = gpu::own() else { return };
    for (number, slot) in (0..gpu.machine.gpus().len()).filter_map(|number| Some((number, own(number)?))) {
        let (vram, gtt) = inside(|| gpu.process.own_memory(number));
        slot.vram_used.store(vram, Ordering::Relaxed);
        slot.gtt_used.store(gtt, Ordering::Relaxed);
        slot.left.store(0, Ordering::Relaxed);
    }
}

/// This process ends, or becomes another program; if that fails, it is back with its next call of the driver.
pub(crate) fn leave() {
    if gpu::own().is_some() {
        (0..MAX_GPUS).filter_map(own).for_each(|slot| slot.left.store(1, Ordering::Relaxed));
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
    let own = own(gpu);
    let used = Others(gpu).others_memory();
    let used = own.map_or(used, |slot| slot.plus_memory(used.0, used.1));
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
                own.map_or(0, |slot| slot.busy.total_ns(true)).saturating_add(Others(gpu).others_ns());
            figures.busy_ns = most_busy_ns.fetch_max(busy_ns, Ordering::Relaxed).max(busy_ns);
            // Another thread may have it, also one that this process, which was forked, does not have.
            load.try_lock().ok()?.look(raw::boot_ns(), busy_ns)
        };
        figures.busy_percent = measure(look, raw::sleep_us);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_may_hold_anything() {
        let stat = "71 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 9876 20 21\n";
        assert_eq!(started(stat), Some(9876));
        assert_eq!(started("71 (x) S 1"), None);
        assert_eq!(started(""), None);
    }

    #[test]
    fn processes_are_told_apart_from_those_that_have_ended() {
        let me = Owner::of(std::process::id()).unwrap();
        assert!(me.lives() && !me.has_ended());
        assert_eq!(me.pid(), std::process::id());
        let earlier = Owner(me.0 ^ 1 << 22);
        assert!(!earlier.lives() && earlier.has_ended());
        let elsewhere = Owner(me.0 ^ 1 << 48);
        assert!(!elsewhere.lives() && !elsewhere.has_ended());
    }
}
