//! MSI-X vectors as eventfds: SET_IRQS stores them, the device's interrupts signal them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_device::InterruptSink;
use belfry_lock::{Mutex, MutexGuard, rank};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_TYPE_MASK, VFIO_IRQ_SET_DATA_BOOL,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_IRQ_SET_DATA_TYPE_MASK,
};

use super::eventfd::{Signaller, is_eventfd};

/// The vectors of one device.
#[derive(Debug)]
pub struct Irqs {
    signaller: Signaller,
    vectors: Mutex<Vec<Option<OwnedFd>>, rank::IrqVectors>,
    raised: AtomicU64,
    dropped: AtomicU64,
}

impl Irqs {
    /// Makes `count` vectors, none of them connected.
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has no asynchronous I/O, `EAGAIN` if `/proc/sys/fs/aio-max-nr` is used up.
    pub fn new(count: u16) -> io::Result<Self> {
        Ok(Self {
            signaller: Signaller::new()?,
            vectors: Mutex::new((0..count).map(|_| None).collect()),
            raised: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Returns the number of vectors.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.lock().len() as u16
    }

    /// Returns the number of interrupts delivered to an eventfd so far.
    #[must_use]
    pub fn raised(&self) -> u64 {
        self.raised.load(Ordering::Relaxed)
    }

    /// Returns the number of interrupts lost because no eventfd was connected.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Disconnects every vector.
    pub fn clear(&self) {
        self.lock().fill_with(|| None);
    }

    /// Applies SET_IRQS to MSI-X: connect, disconnect or fire `count` vectors from `start` on.
    ///
    /// Vectors without a descriptor in the message are disconnected: in this way a client enables MSI-X before it
    /// uses any vector.
    ///
    /// # Errors
    /// `EINVAL` for a range beyond the vectors, an action MSI-X does not have, or a descriptor that is no eventfd.
    pub fn set(&self, flags: u32, start: u32, count: u32, data: &[u8], fds: Vec<OwnedFd>) -> Result<(), i32> {
        if flags & VFIO_IRQ_SET_ACTION_TYPE_MASK != VFIO_IRQ_SET_ACTION_TRIGGER {
            return Err(libc::EINVAL);
        }
        let mut vectors = self.lock();
        let end =
            start.checked_add(count).filter(|end| *end as usize <= vectors.len()).ok_or(libc::EINVAL)?;
        let range = start as usize..end as usize;
        match flags & VFIO_IRQ_SET_DATA_TYPE_MASK {
            VFIO_IRQ_SET_DATA_NONE if count == 0 => vectors.fill_with(|| None),
            VFIO_IRQ_SET_DATA_NONE => {
                drop(vectors);
                range.for_each(|vector| self.raise(vector as u16));
            }
            VFIO_IRQ_SET_DATA_BOOL => {
                let fire = data.get(..count as usize).ok_or(libc::EINVAL)?;
                drop(vectors);
                for (vector, _) in range.zip(fire).filter(|(_, fire)| **fire != 0) {
                    self.raise(vector as u16);
                }
            }
            VFIO_IRQ_SET_DATA_EVENTFD => {
                if fds.len() > range.len() || !fds.iter().all(|fd| is_eventfd(fd.as_fd())) {
                    return Err(libc::EINVAL);
                }
                let mut fds = fds.into_iter();
                for vector in &mut vectors[range] {
                    *vector = fds.next();
                }
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<OwnedFd>>, rank::IrqVectors> {
        self.vectors.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl InterruptSink for Irqs {
    fn raise(&self, vector: u16) {
        let vectors = self.lock();
        let delivered = vectors
            .get(usize::from(vector))
            .and_then(Option::as_ref)
            // If the counter is full, the interrupt is pending already.
            .is_some_and(|fd| self.signaller.signal(fd.as_fd()).is_ok());
        let counter = if delivered { &self.raised } else { &self.dropped };
        if counter.fetch_add(1, Ordering::Relaxed) == 0 && !delivered {
            log::debug!(target: "vfio_user", "vector={vector} is not connected");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    const EVENTFD: u32 = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;
    const NONE: u32 = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_NONE;

    fn events() -> (OwnedFd, OwnedFd) {
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        (fd.try_clone().unwrap(), fd)
    }

    fn take(fd: &OwnedFd) -> u64 {
        let mut bytes = [0; 8];
        rustix::io::read(fd, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
    }

    #[test]
    fn raise_reaches_the_connected_vector_alone() {
        let irqs = Irqs::new(4).unwrap();
        let ((a, a_ours), (b, b_ours)) = (events(), events());
        irqs.set(EVENTFD, 1, 2, &[], vec![a, b]).unwrap();
        irqs.raise(2);
        irqs.raise(2);
        irqs.raise(0);
        irqs.raise(99);
        assert_eq!((take(&a_ours), take(&b_ours)), (0, 2));
        assert_eq!((irqs.raised(), irqs.dropped()), (2, 2));
    }

    #[test]
    fn fewer_descriptors_than_vectors_disconnect_the_rest() {
        let irqs = Irqs::new(2).unwrap();
        let ((a, ours), (b, _)) = (events(), events());
        irqs.set(EVENTFD, 0, 2, &[], vec![b, a]).unwrap();
        irqs.set(EVENTFD, 1, 1, &[], vec![]).unwrap();
        irqs.raise(1);
        assert_eq!(take(&ours), 0);
        irqs.raise(0);
        assert_eq!(irqs.raised(), 1);
        irqs.set(NONE, 0, 0, &[], vec![]).unwrap();
        irqs.raise(0);
        assert_eq!(irqs.raised(), 1);
    }

    #[test]
    fn bad_requests_are_refused() {
        let irqs = Irqs::new(2).unwrap();
        for (flags, start, count) in [
            (EVENTFD, 1, 2),
            (EVENTFD, u32::MAX, 2),
            (VFIO_IRQ_SET_DATA_NONE, 0, 1),
            (VFIO_IRQ_SET_ACTION_TRIGGER, 0, 1),
            (VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_BOOL, 0, 2),
        ] {
            assert_eq!(irqs.set(flags, start, count, &[], vec![]), Err(libc::EINVAL), "{flags:#x}");
        }
        let (extra, _) = events();
        assert_eq!(irqs.set(EVENTFD, 0, 0, &[], vec![extra]), Err(libc::EINVAL));
        let (_reader, writer) = io::pipe().unwrap();
        assert_eq!(irqs.set(EVENTFD, 0, 1, &[], vec![writer.into()]), Err(libc::EINVAL), "no eventfd");
    }
}
