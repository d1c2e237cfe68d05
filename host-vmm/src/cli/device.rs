//! The options that say what the device is.

use anyhow::ensure;
use belfry_device::{GpuConfig, Matrices, Tier, chip};
use clap::Args;

use super::code_cache::CodeCacheArg;
use super::shape::Kinds;
use super::size::{parse_matrices, parse_size, parse_tier};

/// Choices of the device.
#[derive(Debug, Args)]
pub(super) struct DeviceArgs {
    /// Chip of the GPU, and its size; `belfry chips` lists the chips. For several GPUs in one machine: repeatable [default: gfx1100].
    #[arg(long, value_name = "NAME[:xccs=N,partition=MODE,cus=N,vram=SIZE]")]
    pub(super) chip: Vec<String>,
    /// Compute units: even, 2 to as many as the chip has.
    #[arg(long, value_name = "N", default_value_t = GpuConfig::default().cus)]
    pub(super) cus: u32,
    /// VRAM: a power of two in the range of the chip (gfx1100: 16M to 16G).
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub(super) vram: u64,
    /// Worker threads that execute waves.
    #[arg(long, value_name = "N")]
    pub(super) workers: Option<usize>,
    /// Executes waves in an order that follows from this number alone, on one worker thread.
    #[arg(long, value_name = "SEED")]
    deterministic: Option<u64>,
    /// Selects the code of kernels that is compiled to machine code, on a processor with AVX2 or AVX-512: none, all
    /// of it, or the code that is used often.
    #[arg(long, value_name = "0|1|auto", default_value_t = Tier::Auto, value_parser = parse_tier)]
    tier: Tier,
    /// Sums of matrix instructions of 16-bit floats: fast, or exactly as cards form them, which takes many times as
    /// long.
    #[arg(long, value_name = "fast|exact", default_value_t = Matrices::Fast, value_parser = parse_matrices)]
    matrix: Matrices,
    #[command(flatten)]
    code: CodeCacheArg,
}

impl DeviceArgs {
    /// Returns the kinds of GPUs that are asked for, of chip `usual` if none is named.
    ///
    /// # Errors
    ///
    /// A chip that does not exist, or not in that size.
    pub(super) fn kinds(&self, usual: &str) -> anyhow::Result<Kinds> {
        let plain = GpuConfig { cus: self.cus, vram_size: self.vram, ..GpuConfig::default() };
        Kinds::of(&self.chip, usual, &plain)
    }

    /// Returns the configuration of the only device.
    ///
    /// # Errors
    ///
    /// As [`Self::kinds`] and [`Self::of_kind`]; several chips.
    pub(super) fn config(&self) -> anyhow::Result<GpuConfig> {
        let kinds = self.kinds(chip::DEFAULT.name)?;
        ensure!(kinds.count() == 1, "--chip names {} GPUs, and there is one here", kinds.count());
        self.of_kind(kinds.first().clone())
    }

    /// Returns the configuration of a device of a kind.
    ///
    /// # Errors
    ///
    /// Values that no device can have; a folder of compiled code that cannot be used.
    pub(super) fn of_kind(&self, mut config: GpuConfig) -> anyhow::Result<GpuConfig> {
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        config.deterministic = self.deterministic;
        config.tier = self.tier;
        config.matrices = self.matrix;
        config.validate()?;
        config.kept_code = self.code.keep()?;
        Ok(config)
    }
}
