//! Forms of samples: the addresses that an instruction has beside its coordinates, and the use of the texels.

use super::{coordinates, field};

/// The parts of a sample's name, as bits of [`Di::dst2`](crate::exec::di::Di::dst2) beside those of [`field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form(u32);

impl Form {
    /// Level 0, and texels that are blended.
    pub(crate) const PLAIN: Self = Self(0);
    /// The instruction names a level (`_l`).
    pub(crate) const LEVEL: Self = Self(field::LEVEL);
    /// Texels from the place, in six bits for each axis (`_o`).
    pub(crate) const OFFSET: Self = Self(1 << 18);
    /// A level that is added (`_b`).
    pub(crate) const BIAS: Self = Self(1 << 19);
    /// A number that texels are compared with (`_c`).
    pub(crate) const COMPARES: Self = Self(1 << 20);
    /// The distances to the neighbours of a quad (`_d`), and those of sixteen bits.
    pub(crate) const GRADIENTS: Self = Self(1 << 21);
    pub(crate) const G16: Self = Self(1 << 22);
    /// The least level (`_cl`).
    pub(crate) const LEAST: Self = Self(1 << 23);
    /// The level follows from the places of the four lanes of a quad.
    pub(crate) const QUADS: Self = Self(1 << 24);
    /// One component of four texels, which are neighbours in two dimensions (`gather4`), or in a row (`gather4h`).
    pub(crate) const GATHERS: Self = Self(1 << 25);
    pub(crate) const ROW: Self = Self(1 << 26);
    /// The level itself, instead of texels.
    pub(crate) const ASKS: Self = Self(1 << 27);

    /// The bits of a lowered instruction.
    pub(crate) fn of(fields: u32) -> Self {
        Self(fields & (0x3ff << 18 | field::LEVEL))
    }

    /// Both forms together.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of another form is in this one.
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits for [`Di::dst2`](crate::exec::di::Di::dst2).
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if the level follows from distances.
    pub(crate) fn has_distances(self) -> bool {
        self.is(Self::GRADIENTS) || self.is(Self::QUADS)
    }
}

/// Distances along x, y and z that gradients have, by the number of the dimension.
pub(crate) fn distances(dimension: u32) -> u32 {
    match dimension {
        0 | 4 => 1,
        2 => 3,
        _ => 2,
    }
}

/// The first address register of each part, in their order, counted from the first of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) bias: u32,
    pub(crate) reference: u32,
    pub(crate) gradients: u32,
    pub(crate) coordinates: u32,
    /// Registers of all parts.
    pub(crate) count: u32,
}

impl Addresses {
    /// The registers of an instruction with these fields and this form; `None` for a dimension that is not modelled.
    pub(crate) fn of(fields: u32, form: Form) -> Option<Self> {
        let dimension = fields >> field::DIM & 7;
        let (all, _) = coordinates(dimension)?;
        let one = |part| u32::from(form.is(part));
        let bias = one(Form::OFFSET);
        let reference = bias + one(Form::BIAS);
        let gradients = reference + one(Form::COMPARES);
        let coordinates = gradients
            + match (form.is(Form::GRADIENTS), distances(dimension)) {
                (false, _) => 0,
                // Halves share registers in each of the two directions.
                (true, each) if form.is(Form::G16) => 2 * each.div_ceil(2),
                (true, each) => 2 * each,
            };
        let last = all + u32::from(form.is(Form::LEVEL) || form.is(Form::LEAST));
        let last = if fields & field::A16 != 0 { last.div_ceil(2) } else { last };
        Some(Self { bias, reference, gradients, coordinates, count: coordinates + last })
    }
}
