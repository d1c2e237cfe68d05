//! The hardware queues that the scheduler owns.

use crate::queue::HqdId;
use crate::save::{Broken, check};
use crate::sdma::MAX_ENGINES;

/// Number of queues of each SDMA engine, and of each graphics pipe.
const QUEUES: u8 = 8;
/// Number of graphics pipes.
const GRAPHICS_PIPES: u8 = 2;

/// One hardware queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) enum Place {
    /// Queue of the compute pipes of the partition with this first graphics core.
    Compute(u8, HqdId),
    /// Queue of an SDMA engine.
    Sdma { engine: u8, queue: u8 },
    /// Queue of the graphics pipes.
    Graphics(HqdId),
}

/// Hardware queues that can replace each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) enum Pool {
    /// The queues of the compute pipes of the partition with this first graphics core.
    Compute(u8),
    /// The queues of an SDMA engine.
    Sdma(u8),
    /// The queues of the graphics pipes.
    Graphics,
}

impl Place {
    /// Returns the places of the compute pipes of a partition, by its first core, that a mask has: four pipes of eight
    /// queues for each of two micro engines, one bit each.
    pub(in crate::firmware) fn compute(first: u8, mask: u64) -> impl Iterator<Item = Self> {
        (0..64u8)
            .map(|at| HqdId { me: 1 + at / 32, pipe: at & 3, queue: (at % 32) >> 2 })
            .filter(move |id| mask >> ((id.me - 1) * 32 + id.pipe * 8 + id.queue) & 1 == 1)
            .map(move |id| Self::Compute(first, id))
    }

    /// Returns the places of an SDMA engine that a mask has, one bit for each of its queues.
    pub(in crate::firmware) fn sdma(engine: u8, mask: u32) -> impl Iterator<Item = Self> {
        (0..QUEUES).filter(move |queue| mask >> queue & 1 == 1).map(move |queue| Self::Sdma { engine, queue })
    }

    /// Returns the places of a graphics pipe that a mask has, one bit for each of its queues.
    pub(in crate::firmware) fn graphics(pipe: u8, mask: u32) -> impl Iterator<Item = Self> {
        (0..QUEUES)
            .filter(move |queue| mask >> queue & 1 == 1)
            .map(move |queue| Self::Graphics(HqdId { me: 0, pipe, queue }))
    }

    /// Returns the pool of the places that can replace it.
    pub(in crate::firmware) fn pool(self) -> Pool {
        match self {
            Self::Compute(first, _) => Pool::Compute(first),
            Self::Sdma { engine, .. } => Pool::Sdma(engine),
            Self::Graphics(_) => Pool::Graphics,
        }
    }

    /// Returns pipe or engine, and queue.
    pub(in crate::firmware) fn numbers(self) -> (u8, u8) {
        match self {
            Self::Compute(_, id) | Self::Graphics(id) => (id.pipe, id.queue),
            Self::Sdma { engine, queue } => (engine, queue),
        }
    }

    /// Checks that a chip has it and a driver can give it.
    pub(in crate::firmware) fn check(self) -> Result<(), Broken> {
        let (exists, me) = match self {
            Self::Compute(_, id) => (matches!(id.me, 1 | 2) && id.pipe < 4 && id.queue < 8, id.me),
            Self::Sdma { engine, queue } => (engine < MAX_ENGINES && queue < QUEUES, 0),
            Self::Graphics(id) => (id.me == 0 && id.pipe < GRAPHICS_PIPES && id.queue < QUEUES, id.me),
        };
        let (pipe, queue) = self.numbers();
        let place = u32::from(me) << 16 | u32::from(pipe) << 8 | u32::from(queue);
        check("hardware queue of a queue", place, exists)
    }
}

impl Pool {
    /// Returns true if its queues run waves.
    pub(in crate::firmware) fn is_compute(self) -> bool {
        matches!(self, Self::Compute(_))
    }

    /// Returns the queues of an SDMA engine; `None` if the engine does not exist.
    pub(in crate::firmware) fn of_engine(engine: u32) -> Option<Self> {
        u8::try_from(engine).ok().filter(|&engine| engine < MAX_ENGINES).map(Self::Sdma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_give_the_places_whose_bits_are_set() {
        // Pipe 0 has queues 0 and 7, pipe 3 has 1; of the second micro engine, pipe 1 has 2.
        let given: Vec<_> = Place::compute(2, 1 << (32 + 8 + 2) | 0b10 << 24 | 0b1000_0001).collect();
        let compute = |me, pipe, queue| Place::Compute(2, HqdId { me, pipe, queue });
        assert_eq!(given, [compute(1, 0, 0), compute(1, 3, 1), compute(1, 0, 7), compute(2, 1, 2)]);
        let given: Vec<_> = Place::sdma(1, 0x1fc).collect();
        let expected: Vec<_> = (2..8).map(|queue| Place::Sdma { engine: 1, queue }).collect();
        assert_eq!(given, expected);
        assert!(given.iter().all(|place| place.check().is_ok()));
        let graphics = |pipe, queue| Place::Graphics(HqdId { me: 0, pipe, queue });
        let given: Vec<_> = Place::graphics(1, 0xffff_ff06).collect();
        assert_eq!(given, [graphics(1, 1), graphics(1, 2)]);
        assert!(graphics(1, 7).check().is_ok() && graphics(2, 0).check().is_err());
        assert!(Place::Graphics(HqdId { me: 1, pipe: 0, queue: 0 }).check().is_err());
        assert!(Place::Sdma { engine: 16, queue: 0 }.check().is_err());
        assert_eq!(
            (Pool::of_engine(1), Pool::of_engine(16), Pool::of_engine(257)),
            (Some(Pool::Sdma(1)), None, None)
        );
    }
}
