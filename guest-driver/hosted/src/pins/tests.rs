#![expect(unsafe_code, reason = "takes rights from memory")]

use super::*;

#[test]
fn counts_keep_the_union_of_overlapping_pins() {
    let mut counts = Counts::default();
    counts.change(10, 20, |c| c + 1);
    counts.change(15, 30, |c| c + 1);
    counts.change(40, 50, |c| c + 1);
    assert_eq!(counts.union(), [(10, 30), (40, 50)]);
    counts.change(10, 20, |c| c - 1);
    assert_eq!(counts.union(), [(15, 30), (40, 50)]);
    assert_eq!(counts.gaps(0, 60), [0..15, 30..40, 50..60]);
    assert_eq!(counts.gaps(16, 29), []);
    counts.change(30, 40, |c| c + 1);
    assert_eq!(counts.union(), [(15, 50)]);
    counts.change(15, 30, |c| c - 1);
    counts.change(30, 40, |c| c - 1);
    counts.change(40, 50, |c| c - 1);
    assert_eq!(counts, Counts::default());
}
/// Tries to mirror a page whenever it is about to change.
struct Mirrors {
    pins: Arc<Pins>,
    answers: std::sync::Mutex<Vec<Option<Errno>>>,
}

impl Mirrors {
    fn try_to(self: &Arc<Self>, at: u64) -> Option<Errno> {
        self.pins.mirror(at, 1, true, self.clone()).err()
    }
}

impl Invalidate for Mirrors {
    fn invalidated(&self, change: &Change) {
        let answer = self.pins.mirror(change.start, 1, true, Arc::new(Nobody)).err();
        self.answers.lock().unwrap().push(answer);
    }
}

struct Nobody;

impl Invalidate for Nobody {
    fn invalidated(&self, _change: &Change) {}
}

/// A wave that waits for a page would be refused it for good, although the program always has memory there.
#[test]
fn mirror_of_memory_that_is_being_replaced_is_to_be_tried_again() {
    let pins = Pins::new(Reach::Process, Vec::new(), None).unwrap();
    let mirrors = Arc::new(Mirrors { pins: pins.clone(), answers: std::sync::Mutex::default() });
    let memory = crate::shared::Shared::new(c"a program's", PAGE_SIZE as usize).unwrap();
    let at = memory.address();
    let protect = |rights| {
        // SAFETY: memory of this test's own, which it does not access.
        assert_eq!(unsafe { libc::mprotect(at as *mut _, PAGE_SIZE as usize, rights) }, 0);
    };
    let watch = pins.watch(at, 1, mirrors.clone()).unwrap();
    let change = Change { start: at, end: at + PAGE_SIZE, unmapped: true, held: false };
    pins.change(&change, || ());
    assert_eq!(*mirrors.answers.lock().unwrap(), [Some(Errno::EAGAIN)]);
    drop(watch);
    assert_eq!(mirrors.try_to(at), None);
    protect(libc::PROT_READ);
    assert_eq!(mirrors.try_to(at), Some(Errno::EAGAIN), "another area, which may be read");
    protect(libc::PROT_NONE);
    assert_eq!(mirrors.try_to(at), Some(Errno::EFAULT));
    drop(memory);
    assert_eq!(mirrors.try_to(PAGE_SIZE), Some(Errno::EFAULT));
}

/// Pins its memory again when it hears of a change.
#[derive(Default)]
struct Renews {
    pin: std::sync::Mutex<Option<Pin>>,
    answers: std::sync::Mutex<Vec<Option<Errno>>>,
}

impl Invalidate for Renews {
    fn invalidated(&self, _change: &Change) {
        let Some(old) = self.pin.lock().unwrap().take() else { return };
        let renewed = old.renew();
        self.answers.lock().unwrap().push(renewed.as_ref().err().copied());
        *self.pin.lock().unwrap() = renewed.ok();
    }
}

/// A program may have new memory at an address before the driver hears that the old one went: the ring of a queue, for example.
#[test]
fn memory_that_has_come_before_an_old_change_is_heard_of_stays_pinned() {
    let pins = Pins::new(Reach::Process, Vec::new(), None).unwrap();
    let memory = crate::shared::Shared::new(c"a program's", PAGE_SIZE as usize).unwrap();
    let (at, renews) = (memory.address(), Arc::new(Renews::default()));
    *renews.pin.lock().unwrap() = Some(pins.pin(at, 1, true, renews.clone()).unwrap());
    let change = Change { start: at, end: at + PAGE_SIZE, unmapped: false, held: false };
    pins.changed(&change);
    assert_eq!(*renews.answers.lock().unwrap(), [None]);
    assert!(pins.any_in(at, at + PAGE_SIZE), "it is there");
    // One that is about to go is not pinned again.
    pins.change(&change, || ());
    assert_eq!(*renews.answers.lock().unwrap(), [None, Some(Errno::EFAULT)]);
    assert!(!pins.any_in(at, at + PAGE_SIZE));
    *renews.pin.lock().unwrap() = Some(pins.pin(at, 1, true, renews.clone()).unwrap());
    drop(memory);
    pins.changed(&change);
    assert_eq!(renews.answers.lock().unwrap().last(), Some(&Some(Errno::EFAULT)));
    assert!(!pins.any_in(at, at + PAGE_SIZE), "there is nothing");
}

/// Linux brings memory back whose access a program has taken and given again (`amdgpu_amdkfd_restore_userptr_worker`).
#[test]
fn owner_of_a_lost_pin_hears_when_the_memory_is_back() {
    let pins = Pins::new(Reach::Process, Vec::new(), None).unwrap();
    let memory = crate::shared::Shared::new(c"a program's", PAGE_SIZE as usize).unwrap();
    let at = memory.address();
    let protect = |rights| {
        // SAFETY: memory of this test's own, which it does not access.
        assert_eq!(unsafe { libc::mprotect(at as *mut _, PAGE_SIZE as usize, rights) }, 0);
    };
    let change = Change { start: at, end: at + PAGE_SIZE, unmapped: false, held: false };
    for writable in [true, false] {
        let keeps = Arc::new(Keeps::default());
        *keeps.pin.lock().unwrap() = Some(pins.pin(at, 1, writable, keeps.clone()).unwrap());
        pins.change(&change, || protect(libc::PROT_READ));
        // What only reads goes on.
        assert_eq!(pins.count(), usize::from(!writable));
        pins.change(&change, || protect(libc::PROT_NONE));
        assert_eq!((pins.count(), pins.any_in(at, at + PAGE_SIZE)), (0, true), "it may come back");
        protect(libc::PROT_READ | libc::PROT_WRITE);
        pins.tell(&change);
        assert_eq!(pins.count(), 1);
        pins.tell(&change);
        assert_eq!(pins.count(), 1);
        drop(keeps.pin.lock().unwrap().take());
        assert_eq!((pins.count(), pins.any_in(at, at + PAGE_SIZE)), (0, false));
    }
}

/// Keeps the old pin where it gets no new one, as the driver does.
#[derive(Default)]
struct Keeps {
    pin: std::sync::Mutex<Option<Pin>>,
}

impl Invalidate for Keeps {
    fn invalidated(&self, _change: &Change) {
        let Some(old) = self.pin.lock().unwrap().take() else { return };
        let renewed = old.renew();
        *self.pin.lock().unwrap() = Some(renewed.unwrap_or(old));
    }
}
