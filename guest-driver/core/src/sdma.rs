//! The hardware queues of the SDMA engines: which are taken, by all processes (`kfd_device_queue_manager.c`,
//! `allocate_sdma_queue`).

use core::sync::atomic::{AtomicU64, Ordering};

use crate::asic::SdmaLayout;
use crate::errno::{Errno, Result};

/// Distance of the second half of a slice (`KFD_QUEUE_DOORBELL_MIRROR_OFFSET`).
const MIRROR_OFFSET: u32 = 512;

/// A queue of an SDMA engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SdmaPlace {
    pub(crate) engine: u32,
    pub(crate) queue: u32,
}

impl SdmaPlace {
    /// Number of its doorbell in the slice of its process (`allocate_doorbell`).
    pub(crate) fn doorbell(self, layout: &SdmaLayout) -> Result<u32> {
        let first = layout.doorbells.get(self.engine as usize).ok_or(Errno::EINVAL)?;
        Ok(first + (self.queue & 1) * MIRROR_OFFSET + (self.queue >> 1))
    }
}

/// The queues that processes can have. A queue's number is that of the queue on its engine, times the engines, plus the
/// engine: numbers go around the engines.
pub(crate) struct SdmaQueues {
    engines: u32,
    /// How many there are.
    all: u32,
    free: AtomicU64,
}

impl SdmaQueues {
    /// All queues of these engines that the layout leaves to processes.
    pub(crate) fn new(engines: u32, layout: &SdmaLayout) -> Self {
        let engines = engines.min(layout.doorbells.len() as u32);
        let given = |number: u32| layout.hqd_mask >> (number / engines.max(1)) & 1 == 1;
        let free =
            (0..engines * 8).filter(|&number| given(number)).fold(0u64, |free, number| free | 1 << number);
        Self { engines, all: free.count_ones(), free: AtomicU64::new(free) }
    }

    pub(crate) fn engines(&self) -> u32 {
        self.engines
    }

    /// Takes the first free queue, of this engine alone if one is named.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when all are taken.
    pub(crate) fn take(&self, engine: Option<u32>) -> Result<SdmaPlace> {
        let wanted = |number: u32| engine.is_none_or(|engine| number % self.engines == engine);
        let first = |free: u64| (0..u64::BITS).find(|&number| free >> number & 1 == 1 && wanted(number));
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
            first(free).map(|number| free & !(1 << number))
        });
        let number = taken.ok().and_then(first).ok_or(Errno::ENOMEM)?;
        Ok(SdmaPlace { engine: number % self.engines, queue: number / self.engines })
    }

    /// Returns how many are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.all - self.free.load(Ordering::Relaxed).count_ones()
    }

    /// Gives a queue back.
    pub(crate) fn put(&self, place: SdmaPlace) {
        self.free.fetch_or(1 << (place.queue * self.engines + place.engine), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_go_around_the_engines_and_come_back() {
        let layout = &crate::asic::ANY.sdma;
        let queues = SdmaQueues::new(2, layout);
        let place = |engine, queue| Ok(SdmaPlace { engine, queue });
        let expected = (2..8).flat_map(|queue| [place(0, queue), place(1, queue)]);
        assert!(expected.clone().all(|expected| queues.take(None) == expected));
        assert_eq!(queues.take(None), Err(Errno::ENOMEM));
        queues.put(SdmaPlace { engine: 1, queue: 5 });
        assert_eq!(queues.take(Some(0)), Err(Errno::ENOMEM));
        assert_eq!(queues.take(Some(1)), place(1, 5));
        for place in expected.flatten() {
            queues.put(place);
        }
        assert_eq!(queues.take(Some(1)), place(1, 2));
        assert_eq!(SdmaQueues::new(0, layout).take(None), Err(Errno::ENOMEM));
    }

    #[test]
    fn doorbells_are_in_the_range_of_their_engine_in_both_halves() {
        let layout = &crate::asic::ANY.sdma;
        let doorbell = |engine, queue| SdmaPlace { engine, queue }.doorbell(layout);
        assert_eq!([doorbell(0, 2), doorbell(0, 3), doorbell(0, 7)], [Ok(0x101), Ok(0x301), Ok(0x303)]);
        assert_eq!([doorbell(1, 2), doorbell(1, 7)], [Ok(0x10b), Ok(0x30d)]);
        assert_eq!(doorbell(2, 2), Err(Errno::EINVAL));
    }
}
