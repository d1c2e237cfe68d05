//! Which chips there are: what a configuration names.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Chip, Generation, gfx1100, gfx1201};

/// A chip that can be had.
pub struct Model {
    /// Its name: that of its instruction set, as compilers and tools spell it.
    pub name: &'static str,
    /// The product it is taken from.
    pub product: &'static str,
    /// What there is of it.
    pub modelled: &'static str,
    /// What it has in common with others of its generation.
    pub generation: &'static Generation,
    /// Most compute units it can have.
    pub max_cus: u32,
    /// Least and most bytes of VRAM it can have.
    pub vram: RangeInclusive<u64>,
    /// Makes one with this many compute units.
    pub(super) make: fn(cus: u32) -> Box<dyn Chip>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every model.
pub static MODELS: &[&Model] = &[&gfx1100::MODEL, &gfx1201::MODEL];

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

    /// One with this many compute units.
    #[must_use]
    pub fn chip(&self, cus: u32) -> Box<dyn Chip> {
        (self.make)(cus)
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
            assert_eq!(model.chip(model.max_cus).topology().wgps * 2, model.max_cus);
        }
        let error = Model::named("gfx9000").expect_err("no such chip");
        assert_eq!(error.to_string(), "there is no chip \"gfx9000\": choose from gfx1100, gfx1201");
    }
}
