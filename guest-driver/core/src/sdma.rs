//! The hardware queues of the SDMA engines: which are taken, by all processes (`kfd_device_queue_manager.c`,
//! `allocate_sdma_queue`).

use core::sync::atomic::{AtomicU32, Ordering};

use crate::asic::SdmaLayout;
use crate::errno::{Errno, Result};
use crate::request::SdmaPlace;

/// Most engines of any chip.
const MAX_ENGINES: usize = 16;

/// Engines that a queue may be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdmaChoice {
    /// Any of those for PCIe.
    Pcie,
    /// Any of those for links between GPUs.
    Xgmi,
    /// The one of this number.
    Engine(u32),
}

/// The queues that processes can have.
pub(crate) struct SdmaQueues {
    engines: u32,
    pcie_engines: u32,
    /// Free queues of each engine, one bit each.
    free: [AtomicU32; MAX_ENGINES],
    /// Queues that are there at all.
    mask: u32,
}

impl SdmaQueues {
    /// All queues of these engines that the layout leaves to processes.
    pub(crate) fn new(engines: u32, layout: &SdmaLayout) -> Self {
        let engines = engines.min(layout.engines).min(MAX_ENGINES as u32);
        let free = core::array::from_fn(|engine| {
            AtomicU32::new(if (engine as u32) < engines { layout.hqd_mask } else { 0 })
        });
        Self { engines, pcie_engines: layout.pcie_engines.min(engines), free, mask: layout.hqd_mask }
    }

    /// All engines.
    pub(crate) fn engines(&self) -> u32 {
        self.engines
    }

    /// Returns the number of engines for transfers over PCIe.
    pub(crate) fn pcie_engines(&self) -> u32 {
        self.pcie_engines
    }

    /// Takes the first free queue: numbers go around the engines.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when all are taken.
    pub(crate) fn take(&self, choice: SdmaChoice) -> Result<SdmaPlace> {
        let engines = match choice {
            SdmaChoice::Pcie => 0..self.pcie_engines,
            SdmaChoice::Xgmi => self.pcie_engines..self.engines,
            SdmaChoice::Engine(engine) if engine < self.engines => engine..engine + 1,
            SdmaChoice::Engine(_) => return Err(Errno::ENOMEM),
        };
        for queue in 0..u32::BITS {
            for engine in engines.clone() {
                let bit = 1 << queue;
                if self.free[engine as usize].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    return Ok(SdmaPlace { engine, queue });
                }
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Returns how many are taken.
    pub(crate) fn taken(&self) -> u32 {
        let free: u32 = self.free.iter().map(|free| free.load(Ordering::Relaxed).count_ones()).sum();
        self.engines * self.mask.count_ones() - free
    }

    /// Gives a queue back.
    pub(crate) fn put(&self, place: SdmaPlace) {
        if let Some(free) = self.free.get(place.engine as usize) {
            free.fetch_or(1 << place.queue, Ordering::AcqRel);
        }
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
        assert!(expected.clone().all(|expected| queues.take(SdmaChoice::Pcie) == expected));
        assert_eq!(queues.take(SdmaChoice::Pcie), Err(Errno::ENOMEM));
        queues.put(SdmaPlace { engine: 1, queue: 5 });
        assert_eq!(queues.take(SdmaChoice::Engine(0)), Err(Errno::ENOMEM));
        assert_eq!(queues.take(SdmaChoice::Engine(1)), place(1, 5));
        for place in expected.flatten() {
            queues.put(place);
        }
        assert_eq!(queues.take(SdmaChoice::Engine(1)), place(1, 2));
        assert_eq!(SdmaQueues::new(0, layout).take(SdmaChoice::Pcie), Err(Errno::ENOMEM));
    }

    #[test]
    fn engines_for_links_have_queues_of_their_own() {
        let layout = SdmaLayout { engines: 16, pcie_engines: 2, hqd_mask: 0xff, ..crate::asic::ANY.sdma };
        let queues = SdmaQueues::new(16, &layout);
        assert_eq!((queues.engines(), queues.pcie_engines()), (16, 2));
        let taken: u32 =
            (0..).map_while(|_| queues.take(SdmaChoice::Xgmi).ok()).map(|place| place.engine).sum();
        assert_eq!(taken, (2..16).sum::<u32>() * 8);
        assert_eq!(queues.taken(), 14 * 8);
        assert_eq!(queues.take(SdmaChoice::Engine(2)), Err(Errno::ENOMEM));
        assert_eq!(queues.take(SdmaChoice::Pcie), Ok(SdmaPlace { engine: 0, queue: 0 }));
        assert_eq!(queues.take(SdmaChoice::Engine(16)), Err(Errno::ENOMEM));
        assert_eq!(SdmaQueues::new(1, &layout).take(SdmaChoice::Xgmi), Err(Errno::ENOMEM));
    }

    #[test]
    fn doorbells_are_in_the_range_of_their_engine_in_both_halves() {
        let layout = &crate::asic::ANY.sdma;
        let doorbell = |engine, queue| layout.doorbell(SdmaPlace { engine, queue });
        assert_eq!([doorbell(0, 2), doorbell(0, 3), doorbell(0, 7)], [Ok(0x101), Ok(0x301), Ok(0x303)]);
        assert_eq!([doorbell(1, 2), doorbell(1, 7)], [Ok(0x10b), Ok(0x30d)]);
        assert_eq!(doorbell(2, 2), Err(Errno::EINVAL));
    }
}
