//! The hardware queues that the scheduler owns.

use crate::queue::HqdId;
use crate::save::{Broken, check};
use crate::sdma::ENGINES;

/// Queues of each SDMA engine.
const QUEUES: u8 = 8;

/// One hardware queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) enum Place {
    /// Of the compute pipes.
    Compute(HqdId),
    /// Of an SDMA engine.
    Sdma { engine: u8, queue: u8 },
}

/// Hardware queues of which one is as good as another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) enum Pool {
    /// Those of the compute pipes.
    Compute,
    /// Those of an SDMA engine.
    Sdma(u8),
}

impl Place {
    /// Places that SET_HW_RSRC gives: queues of the compute pipes 0 to 3, and of the SDMA engines, one bit each.
    pub(super) fn given(compute: [u8; 4], sdma: [u32; ENGINES as usize]) -> Vec<Self> {
        let compute = (0..32u8)
            .map(|at| HqdId { me: 1, pipe: at & 3, queue: at >> 2 })
            .filter(|id| compute[usize::from(id.pipe)] >> id.queue & 1 == 1)
            .map(Self::Compute);
        let sdma = (0..ENGINES)
            .zip(sdma)
            .flat_map(|(engine, mask)| {
                (0..QUEUES).filter(move |queue| mask >> queue & 1 == 1).map(move |queue| (engine, queue))
            })
            .map(|(engine, queue)| Self::Sdma { engine, queue });
        compute.chain(sdma).collect()
    }

    /// The places it is as good as.
    pub(super) fn pool(self) -> Pool {
        match self {
            Self::Compute(_) => Pool::Compute,
            Self::Sdma { engine, .. } => Pool::Sdma(engine),
        }
    }

    /// Pipe or engine, and queue.
    pub(super) fn numbers(self) -> (u8, u8) {
        match self {
            Self::Compute(id) => (id.pipe, id.queue),
            Self::Sdma { engine, queue } => (engine, queue),
        }
    }

    /// Whether a chip has it and SET_HW_RSRC can give it.
    pub(super) fn check(self) -> Result<(), Broken> {
        let (exists, me) = match self {
            Self::Compute(id) => (matches!(id.me, 1 | 2) && id.pipe < 4 && id.queue < 8, id.me),
            Self::Sdma { engine, queue } => (engine < ENGINES && queue < QUEUES, 0),
        };
        let (pipe, queue) = self.numbers();
        let place = u32::from(me) << 16 | u32::from(pipe) << 8 | u32::from(queue);
        check("hardware queue of a queue", place, exists)
    }
}

impl Pool {
    /// The queues of an SDMA engine; `None` for one that there is not.
    pub(super) fn of_engine(engine: u32) -> Option<Self> {
        u8::try_from(engine).ok().filter(|&engine| engine < ENGINES).map(Self::Sdma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_give_the_places_whose_bits_are_set() {
        let given = Place::given([0b1000_0001, 0, 0, 0b10], [0xfc, 0x101]);
        let compute = |pipe, queue| Place::Compute(HqdId { me: 1, pipe, queue });
        let mut expected = vec![compute(0, 0), compute(3, 1), compute(0, 7)];
        expected.extend((2..8).map(|queue| Place::Sdma { engine: 0, queue }));
        expected.push(Place::Sdma { engine: 1, queue: 0 });
        assert_eq!(given, expected);
        assert!(given.iter().all(|place| place.check().is_ok()));
        assert!(Place::Sdma { engine: 2, queue: 0 }.check().is_err());
        assert_eq!(
            (Pool::of_engine(1), Pool::of_engine(2), Pool::of_engine(257)),
            (Some(Pool::Sdma(1)), None, None)
        );
    }
}
