//! The thread that keeps a process's slot.
//!
//! The slot's word is a robust futex of the thread (`get_robust_list(2)`): the kernel marks it when the thread ends, which it does with the
//! process, however that ends. So other processes see the end of one whose identity they cannot look up, as it is in another
//! container. The list that leads the kernel to the word is in this process's own memory; others can write to the word alone.
#![expect(unsafe_code, reason = "tells the kernel of a list")]

use std::ffi::c_long;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::sync::mpsc;

use super::slot::Slot;
use crate::real::raw;

/// Returns true if the word of a slot says that the process lives.
pub(super) fn lives(life: u32) -> bool {
    life & libc::FUTEX_TID_MASK != 0 && life & libc::FUTEX_OWNER_DIED == 0
}

/// The kernel's `struct robust_list_head`, with room for one entry.
#[repr(C)]
struct List {
    first: *mut Entry,
    /// Distance from an entry to its word.
    to_word: c_long,
    /// An entry that is being added.
    pending: *mut Entry,
    entry: Entry,
}

/// The kernel's `struct robust_list`.
#[repr(C)]
struct Entry {
    next: *mut Entry,
}

/// Size of `struct robust_list_head`.
const HEAD_SIZE: usize = 3 * size_of::<usize>();

/// Takes a slot of an ended process, or of none; `None` if there is none, or no thread to keep it.
pub(super) fn claim(slots: &'static [Slot]) -> Option<&'static Slot> {
    let (answer, found) = mpsc::sync_channel(1);
    let keep = move || {
        let slot = keep_one(slots);
        let is_kept = slot.is_some();
        let _ = answer.send(slot);
        if !is_kept {
            return;
        }
        loop {
            let forever = AtomicU32::new(0);
            raw::futex(&forever, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0, None);
        }
    };
    // A thread with a stack as small as can be.
    let thread = std::thread::Builder::new().name("belfry-card".into()).stack_size(64 << 10);
    thread.spawn(keep).ok()?;
    found.recv().ok()?
}

/// Makes the word of a free slot a robust futex that this thread holds.
fn keep_one(slots: &'static [Slot]) -> Option<&'static Slot> {
    // SAFETY: asks for a number.
    let me = u32::try_from(unsafe { raw::call(libc::SYS_gettid, [0; 6]) }).ok()?;
    // The kernel reads the list when the thread ends: it stays.
    let list = Box::into_raw(Box::new(List {
        first: ptr::null_mut(),
        to_word: 0,
        pending: ptr::null_mut(),
        entry: Entry { next: ptr::null_mut() },
    }));
    // An empty list is one that leads to itself.
    let end = list.cast::<Entry>();
    // SAFETY: `list` is a live allocation that this thread alone writes to, and that the kernel reads when the thread ends. The thread takes no
    // robust mutex of the C library, whose list this one replaces.
    let entry = unsafe {
        (*list).first = end;
        let arguments = [list as usize, HEAD_SIZE, 0, 0, 0, 0];
        if raw::call(libc::SYS_set_robust_list, arguments) != 0 {
            return None;
        }
        &raw mut (*list).entry
    };
    slots.iter().find(|slot| {
        let before = slot.life.load(Ordering::Acquire);
        if lives(before) {
            return false;
        }
        let to_word = (slot.life.as_ptr() as c_long).wrapping_sub(entry as c_long);
        // SAFETY: as above. The order is that of the kernel's description: the entry is pending while the word changes, so that the end of the
        // process at any moment marks the word.
        unsafe {
            ptr::write_volatile(&raw mut (*list).to_word, to_word);
            ptr::write_volatile(&raw mut (*list).pending, entry);
            compiler_fence(Ordering::SeqCst);
            let claimed = slot.life.compare_exchange(before, me, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if claimed {
                ptr::write_volatile(&raw mut (*entry).next, end);
                ptr::write_volatile(&raw mut (*list).first, entry);
            }
            compiler_fence(Ordering::SeqCst);
            ptr::write_volatile(&raw mut (*list).pending, ptr::null_mut());
            claimed
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_kept_until_its_thread_ends() {
        let slots: &'static [Slot] = Box::leak(Box::new([Slot::default(), Slot::default()]));
        let [first, second] = slots else { unreachable!() };
        let kept = || slots.iter().map(|slot| lives(slot.life.load(Ordering::Acquire))).collect::<Vec<_>>();
        assert_eq!(kept(), [false, false]);
        // A thread that ends, as all of a process do.
        let ended = std::thread::spawn(move || keep_one(slots)).join().unwrap();
        assert!(ended.is_some_and(|slot| ptr::eq(slot, first)));
        // The kernel marks the word after others may know of the end of the thread.
        while kept()[0] {
            std::thread::yield_now();
        }
        assert_eq!(first.life.load(Ordering::Acquire), libc::FUTEX_OWNER_DIED);
        assert!(!first.is_seen());
        assert!(claim(slots).is_some_and(|slot| ptr::eq(slot, first) && slot.is_seen()));
        assert!(claim(slots).is_some_and(|slot| ptr::eq(slot, second)));
        assert_eq!(kept(), [true, true]);
        assert!(claim(slots).is_none());
    }
}
