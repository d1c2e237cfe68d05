//! The chips that inputs choose: the first byte of an input says which.

use arbitrary::{Arbitrary, Result, Unstructured};
use belfry_device::chip::{Model, Shape, gfx942, gfx950, gfx1100, gfx1151, gfx1201};

/// A chip, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its place among the choices.
    pub(crate) nth: usize,
    /// The chip.
    pub model: &'static Model,
    /// Graphics cores and compute units.
    pub shape: Shape,
}

/// Number of choices.
pub const CHOICES: usize = 6;

static ALL: [Choice; CHOICES] = [
    Choice { nth: 0, model: &gfx1100::MODEL, shape: Shape::one(2) },
    Choice { nth: 1, model: &gfx1201::MODEL, shape: Shape::one(2) },
    Choice { nth: 2, model: &gfx942::MODEL, shape: Shape::one(2) },
    Choice { nth: 3, model: &gfx942::MODEL, shape: Shape { xccs: 8, cus: 8 } },
    Choice { nth: 4, model: &gfx1151::MODEL, shape: Shape::one(2) },
    Choice { nth: 5, model: &gfx950::MODEL, shape: Shape::one(2) },
];

impl Choice {
    /// The chip that a byte chooses.
    #[must_use]
    pub fn of(byte: u8) -> Self {
        ALL[usize::from(byte) % CHOICES]
    }

    /// All that can be chosen.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// Takes the first byte of an input. Returns the choice and the rest.
    #[must_use]
    pub fn split(input: &[u8]) -> Option<(Self, &[u8])> {
        input.split_first().map(|(&first, rest)| (Self::of(first), rest))
    }

    /// Returns true if its queues come by run lists, not by frames.
    #[must_use]
    pub fn has_run_lists(self) -> bool {
        self.model.generation.firmware.mes().is_none()
    }

    /// Returns true if it has a ring of the kernel's that takes PM4 packets.
    #[must_use]
    pub fn has_kiq(self) -> bool {
        !self.model.generation.firmware.mes().is_some_and(|mes| mes.on_both_pipes)
    }
}

impl<'a> Arbitrary<'a> for Choice {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        u8::arbitrary(input).map(Self::of)
    }

    fn size_hint(_depth: usize) -> (usize, Option<usize>) {
        (1, Some(1))
    }
}

/// An input with the chip that it is for, which its first byte says.
#[derive(Debug)]
pub struct On<T> {
    /// The chip.
    pub chip: Choice,
    /// The rest.
    pub input: T,
}

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for On<T> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { chip: Choice::arbitrary(input)?, input: T::arbitrary(input)? })
    }

    fn arbitrary_take_rest(mut input: Unstructured<'a>) -> Result<Self> {
        let chip = Choice::arbitrary(&mut input)?;
        Ok(Self { chip, input: T::arbitrary_take_rest(input)? })
    }

    fn size_hint(depth: usize) -> (usize, Option<usize>) {
        arbitrary::size_hint::and(Choice::size_hint(depth), T::size_hint(depth))
    }
}
