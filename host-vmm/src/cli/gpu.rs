//! The options of one GPU: its size, the instructions that are written, and its faults.

use std::path::PathBuf;
use std::sync::Arc;

use belfry_device::GpuConfig;
use clap::Args;

use super::device::DeviceArgs;
use super::faults::FaultFlags;
use super::inspect::InspectFlags;
use crate::isa_trace::{IsaTrace, TracedWave};
use crate::symbols::Symbols;

/// Options of the GPU of a run.
#[derive(Debug, Args)]
pub(super) struct GpuArgs {
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    /// Writes the instructions of a wave, and the registers they change, to a file [default: stderr].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "trace")]
    pub(super) trace_isa: Option<PathBuf>,
    /// Selects the wave to write, with the workgroup as X, X,Y or X,Y,Z; or "all".
    #[arg(long, value_name = "DISPATCH:WORKGROUP:WAVE", default_value_t, requires = "trace_isa")]
    pub(super) trace_wave: TracedWave,
    /// A file with debug information, for source lines and variables: a code object, a bundle, a HIP program, or a folder of such files;
    /// `run` knows the file of `launch` without it.
    #[arg(long, value_name = "PATH")]
    pub(super) symbols: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) faults: FaultFlags,
}

impl GpuArgs {
    /// Refuses symbols that no option would show.
    pub(super) fn check_symbols(&self, inspect: &InspectFlags, counts: bool) -> anyhow::Result<()> {
        let shown = self.trace_isa.is_some() || inspect.options(&[]).is_some() || counts;
        anyhow::ensure!(
            self.symbols.is_empty() || shown,
            "--symbols is for --gdb, --inspect, --profile, --sanitize and --trace-isa, and none of them is there"
        );
        Ok(())
    }

    /// Returns the configuration of a device of a kind, with the tools that are asked for.
    ///
    /// # Errors
    ///
    /// As [`DeviceArgs::of_kind`]; plans and symbols that cannot be read.
    pub(super) fn config(&self, kind: GpuConfig) -> anyhow::Result<GpuConfig> {
        let mut config = self.device.of_kind(kind)?;
        config.faults = self.faults.plan()?;
        if let Some(path) = &self.trace_isa {
            config.trace =
                Some(Arc::new(IsaTrace::open(path, self.trace_wave)?.with(Symbols::of(&self.symbols)?)));
        }
        Ok(config)
    }
}
