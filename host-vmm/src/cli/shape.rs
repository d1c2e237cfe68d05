//! The chip on the command line: its name, and its size.

use belfry_abi::partition::ComputePartition;
use belfry_device::GpuConfig;
use belfry_device::chip::{self, Model, UnknownChip};
use clap::Args;

use super::size::parse_size;

/// Reason for refusing a chip.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum ChipError {
    /// There is no chip of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownChip),
    /// A part that `--chip` does not have.
    #[error("{0:?} of --chip is not xccs=N, partition=MODE (spx, dpx, tpx, qpx, cpx), cus=N or vram=SIZE")]
    Part(String),
    /// A part that is there twice.
    #[error("--chip has {0} twice")]
    Twice(String),
}

/// Parses a chip's name alone.
pub(super) fn parse_name(text: &str) -> Result<&'static str, UnknownChip> {
    Model::named(text).map(|model| model.name)
}

/// `--chip` of commands whose other options say nothing of the GPU.
#[derive(Clone, Debug, Args)]
pub(super) struct ChipArg {
    /// Chip of the GPU, and its size; `belfry chips` lists the chips.
    #[arg(long, value_name = "NAME[:xccs=N,partition=MODE,cus=N,vram=SIZE]", default_value = chip::DEFAULT.name)]
    chip: String,
}

impl ChipArg {
    /// Returns the configuration of a GPU with this chip.
    ///
    /// # Errors
    ///
    /// A chip that does not exist, or not in this shape.
    pub(super) fn config(&self) -> anyhow::Result<GpuConfig> {
        let config = configure(&self.chip, GpuConfig::default())?;
        config.validate()?;
        Ok(config)
    }
}

/// Kinds of GPUs that `--chip` names, each time one: at least one.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    first: GpuConfig,
    others: Vec<GpuConfig>,
}

impl Kinds {
    /// Applies each `--chip` to `plain`, or `usual` if there is none.
    ///
    /// # Errors
    ///
    /// A chip that does not exist, or not in that shape.
    pub(super) fn of(chips: &[String], usual: &str, plain: &GpuConfig) -> anyhow::Result<Self> {
        let one = |text: &str| -> anyhow::Result<_> {
            let config = configure(text, plain.clone())?;
            config.validate()?;
            Ok(config)
        };
        let Some((first, others)) = chips.split_first() else {
            return Ok(Self { first: one(usual)?, others: Vec::new() });
        };
        let others = others.iter().map(|text| one(text)).collect::<Result<_, _>>()?;
        Ok(Self { first: one(first)?, others })
    }

    /// Returns the kind of the first GPU.
    pub(super) fn first(&self) -> &GpuConfig {
        &self.first
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &GpuConfig> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns how many were named.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the kind of a GPU by its number: for those behind the last one, that of the last one.
    pub(super) fn of_gpu(&self, number: usize) -> &GpuConfig {
        let last = self.others.last().unwrap_or(&self.first);
        self.all().nth(number).unwrap_or(last)
    }

    /// Returns the only chip that there is.
    ///
    /// # Errors
    ///
    /// Several chips, of which `what` has one.
    pub(super) fn only_chip(&self, what: &str) -> anyhow::Result<&'static Model> {
        let chip = self.first.chip;
        let other = self.all().find(|kind| kind.chip != chip);
        match other {
            None => Ok(chip),
            Some(other) => {
                anyhow::bail!("{what} is for one chip, and --chip names {chip} and {}", other.chip)
            }
        }
    }
}

/// Applies `--chip NAME[:xccs=N,partition=MODE,cus=N,vram=SIZE]` to `config`. Parts that it does not name stay as
/// they are, except the number of graphics cores, which is the chip's usual one, and the partition, which is one for
/// all.
pub(super) fn configure(text: &str, config: GpuConfig) -> Result<GpuConfig, ChipError> {
    let (name, parts) = text.split_once(':').map_or((text, None), |(name, parts)| (name, Some(parts)));
    let chip = Model::named(name)?;
    let mut config = GpuConfig { chip, xccs: chip.default.xccs, partition: ComputePartition::Spx, ..config };
    let mut seen = Vec::new();
    for part in parts.into_iter().flat_map(|parts| parts.split(',')) {
        let bad = || ChipError::Part(part.to_owned());
        let (key, value) = part.split_once('=').ok_or_else(bad)?;
        if seen.contains(&key) {
            return Err(ChipError::Twice(key.to_owned()));
        }
        seen.push(key);
        match key {
            "xccs" => config.xccs = value.parse().map_err(|_| bad())?,
            "partition" => config.partition = ComputePartition::named(value).ok_or_else(bad)?,
            "cus" => config.cus = value.parse().map_err(|_| bad())?,
            "vram" => config.vram_size = parse_size(value).map_err(|_| bad())?,
            _ => return Err(bad()),
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Result<(&'static str, u32, u32, u64), ChipError> {
        let config = configure(text, GpuConfig { cus: 16, vram_size: 1 << 28, ..GpuConfig::default() })?;
        Ok((config.chip.name, config.xccs, config.cus, config.vram_size))
    }

    #[test]
    fn parts_of_a_chip_are_those_that_are_named() {
        assert_eq!(shape("gfx1201"), Ok(("gfx1201", 1, 16, 1 << 28)));
        assert_eq!(shape("gfx942:xccs=8"), Ok(("gfx942", 8, 16, 1 << 28)));
        assert_eq!(shape("gfx942:xccs=2,cus=4,vram=1G"), Ok(("gfx942", 2, 4, 1 << 30)));
        assert_eq!(shape("gfx1100:cus=96"), Ok(("gfx1100", 1, 96, 1 << 28)));
        let partition = |text| configure(text, GpuConfig::default()).expect("well formed").partition;
        assert_eq!(partition("gfx942:xccs=8"), ComputePartition::Spx);
        assert_eq!(partition("gfx942:partition=cpx,xccs=8"), ComputePartition::Cpx);
        assert_eq!(partition("gfx942:xccs=4,partition=DPX"), ComputePartition::Dpx);
    }

    #[test]
    fn parts_that_are_none_are_refused_by_name() {
        for text in [
            "gfx942:",
            "gfx942:xccs",
            "gfx942:wgps=2",
            "gfx942:cus=many",
            "gfx942:vram=1X",
            "gfx942:partition=nps1",
        ] {
            assert!(matches!(shape(text), Err(ChipError::Part(_))), "{text}");
        }
        assert_eq!(shape("gfx942:cus=2,cus=4"), Err(ChipError::Twice("cus".to_owned())));
        assert!(matches!(shape("gfx9000:cus=2"), Err(ChipError::Unknown(_))));
    }

    #[test]
    fn shapes_that_a_chip_cannot_have_are_refused() {
        let check = |text| configure(text, GpuConfig::default()).expect("well formed").validate();
        assert_eq!(check("gfx942:xccs=8,cus=304"), Ok(()));
        assert_eq!(check("gfx942:xccs=8,cus=8,partition=qpx"), Ok(()));
        for text in [
            "gfx942:xccs=8,cus=8,partition=tpx",
            "gfx1100:partition=cpx",
            "gfx942:xccs=9",
            "gfx942:xccs=0",
            "gfx942:xccs=8,cus=12",
            "gfx1100:xccs=2",
            "gfx942:cus=39",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
