//! The chips that a configuration can name.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Chip, Generation, gfx942, gfx950, gfx1100, gfx1151, gfx1201};

/// A chip that a configuration can name.
pub struct Model {
    /// Its name: the name of its instruction set, in the spelling of compilers and tools.
    pub name: &'static str,
    /// The product it is taken from.
    pub product: &'static str,
    /// Parts of the product that are modelled.
    pub modelled: &'static str,
    /// Common parts of all chips of its generation.
    pub generation: &'static Generation,
    /// Shape unless a configuration asks for another.
    pub default: Shape,
    /// Most compute units it can have.
    pub max_cus: u32,
    /// Compute units come in this number: a work group processor has two.
    pub cu_step: u32,
    /// Most graphics cores it can have.
    pub max_xccs: u32,
    /// True if several of them can be a hive.
    pub has_xgmi: bool,
    /// Least and most bytes of VRAM it can have.
    pub vram: RangeInclusive<u64>,
    /// Makes a chip of this shape.
    pub(super) make: fn(Shape) -> Box<dyn Chip>,
}

/// Size of a chip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Graphics cores; there is one on chips that do not number them.
    pub xccs: u32,
    /// Compute units, in all.
    pub cus: u32,
}

impl Shape {
    /// One graphics core with this many compute units.
    #[must_use]
    pub const fn one(cus: u32) -> Self {
        Self { xccs: 1, cus }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every model.
pub static MODELS: &[&Model] =
    &[&gfx1100::MODEL, &gfx942::MODEL, &gfx1201::MODEL, &gfx1151::MODEL, &gfx950::MODEL];

/// The model of a configuration that names none.
pub static DEFAULT: &Model = &gfx1100::MODEL;

/// A name that no model has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no chip {name:?}: choose from {}", Names)]
pub struct UnknownChip {
    /// The name.
    pub name: String,
}

/// The names of all models.
struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, model) in MODELS.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, model.name)?;
        }
        Ok(())
    }
}

impl Model {
    /// The model with this name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn named(name: &str) -> Result<&'static Model, UnknownChip> {
        let model = MODELS.iter().find(|model| model.name == name);
        model.copied().ok_or_else(|| UnknownChip { name: name.to_owned() })
    }

    /// Returns true if it can have this shape.
    #[must_use]
    pub fn can_be(&self, shape: Shape) -> bool {
        let Shape { xccs, cus } = shape;
        let steps = self.cu_step.max(1) * xccs;
        (1..=self.max_xccs).contains(&xccs)
            && (steps..=self.max_cus / self.max_xccs * xccs).contains(&cus)
            && cus.is_multiple_of(steps)
    }

    /// Makes a chip of this shape.
    #[must_use]
    pub fn chip(&self, shape: Shape) -> Box<dyn Chip> {
        (self.make)(shape)
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Model {}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_name_and_no_other_name_is() {
        for model in MODELS {
            let found = Model::named(model.name).expect("it is in the list");
            assert_eq!(found, *model);
            let whole = Shape { xccs: model.max_xccs, cus: model.max_cus };
            assert!(model.can_be(model.default) && model.can_be(whole), "{model}");
            let topology = model.chip(whole).topology();
            assert_eq!(topology.wgps * topology.xccs * model.cu_step, model.max_cus);
            assert!(!model.can_be(Shape { xccs: 0, cus: 8 }) && !model.can_be(Shape { xccs: 9, cus: 72 }));
        }
        assert!(
            gfx942::MODEL.can_be(Shape { xccs: 8, cus: 8 })
                && !gfx942::MODEL.can_be(Shape { xccs: 8, cus: 12 })
        );
        assert!(!gfx1100::MODEL.can_be(Shape::one(3)));
        let error = Model::named("gfx9000").expect_err("no such chip");
        assert_eq!(
            error.to_string(),
            "there is no chip \"gfx9000\": choose from gfx1100, gfx942, gfx1201, gfx1151, gfx950"
        );
    }
}
