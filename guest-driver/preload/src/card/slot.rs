//! Slots of the file that the processes of a machine share.
#![expect(unsafe_code, reason = "maps memory that other processes map")]

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use belfry_device::Busy;
use belfry_kfd_hosted::prepared::{MAX_GPUS, SHARED_FILE, SHARED_SIZE};
use once_cell::race::OnceBox;

use crate::identity::{Identity, raw_close, raw_open, raw_open_own};
use crate::inside::inside;
use crate::real::raw;
use crate::settings::settings;

/// Figures of one process. All zeros are a slot that no process has had.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Slot {
    /// [`super::keeper`]'s, which says if the process lives.
    pub(super) life: AtomicU32,
    /// 1 once the process is about to end or to become another program.
    pub(super) left: AtomicU32,
    /// [`super::name`].
    pub(super) name: AtomicU64,
    pub(super) cards: [CardSlot; MAX_GPUS],
}

/// Figures of one process's device of a card: a line of the processors' caches, which no other device writes to.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct CardSlot {
    /// Time for which the device has executed waves. The value of an ended process stays: the card's energy
    /// is the sum over all of them.
    pub(super) busy: Busy,
    vram_used: AtomicU64,
    gtt_used: AtomicU64,
}

impl Slot {
    /// Returns true if its process is there.
    pub(super) fn is_seen(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 && super::keeper::lives(self.life.load(Ordering::Acquire))
    }

    /// Returns true if a process has it, or has had it.
    pub(super) fn was_taken(&self) -> bool {
        self.life.load(Ordering::Acquire) != 0
    }

    /// Returns true if its process uses the card of this name.
    pub(super) fn is_of(&self, name: u64) -> bool {
        self.name.load(Ordering::Relaxed) == name
    }

    /// Begins the figures of a process that uses the card of this name. Its time goes on from that of the processes before.
    pub(super) fn begin(&self, name: u64) {
        let same = self.name.load(Ordering::Relaxed) == name;
        for card in &self.cards {
            if same {
                card.busy.begin_anew();
            } else {
                card.busy.clear();
            }
            card.set_memory(0, 0);
        }
        self.name.store(name, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }
}

impl CardSlot {
    /// Tells the others how much memory the process has.
    pub(super) fn set_memory(&self, vram: u64, gtt: u64) {
        self.vram_used.store(vram, Ordering::Relaxed);
        self.gtt_used.store(gtt, Ordering::Relaxed);
    }

    pub(super) fn plus_memory(&self, vram: u64, gtt: u64) -> (u64, u64) {
        let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (vram.saturating_add(of(&self.vram_used)), gtt.saturating_add(of(&self.gtt_used)))
    }
}

const SLOTS: usize = SHARED_SIZE / size_of::<Slot>();

/// The slots, and whether this process may have one.
pub(super) struct Slots {
    pub(super) all: &'static [Slot],
    pub(super) is_writable: bool,
}

/// The slots of this process's machine; `None` where there are none.
pub(super) fn slots() -> Option<&'static Slots> {
    // As in `settings`: the second thread to come leaves a map that is not used.
    static MAPPED: OnceBox<Option<Slots>> = OnceBox::new();
    MAPPED.get_or_init(|| inside(|| Box::new(settings().and_then(|settings| map(&settings.tree))))).as_ref()
}

/// Maps the file of the directory; where it may not be written to, as in a container, one in `/dev/shm`, which the processes of the
/// container have in common, with those of other containers of the same namespace of IPC.
fn map(tree: &[u8]) -> Option<Slots> {
    let path = CString::new([tree, b"/", SHARED_FILE.as_bytes()].concat()).ok()?;
    let writable = raw_open(&path, libc::O_RDWR | libc::O_CLOEXEC).or_else(|| {
        let Identity { device, inode } = Identity::of_path(&path)?;
        raw_open_own(&CString::new(format!("/dev/shm/belfry-{device:x}-{inode:x}")).ok()?, SHARED_SIZE)
    });
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
    let all = unsafe { std::slice::from_raw_parts(at as *const Slot, SLOTS) };
    Some(Slots { all, is_writable: writable.is_some() })
}
