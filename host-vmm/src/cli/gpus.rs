//! The GPUs of a machine: how many, and the links between them.

use anyhow::ensure;
use belfry_device::GpuConfig;
use belfry_device::memory::Links;
use belfry_machine::{Gpus, MAX_GPUS};
use clap::Args;

use super::size::parse_links;
use crate::trace::of_gpu;

/// Most GPUs of a machine.
pub(super) const MOST: i64 = MAX_GPUS as i64;

/// Number of GPUs of a machine, and links between them.
#[derive(Debug, Args)]
pub(super) struct GpusArgs {
    /// GPUs of that kind, 1 to 8, each a function of its own: a program has all of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MOST))]
    pub(super) gpus: u8,
    /// Links by which each GPU reaches the memory of all others: XGMI, or the PCIe bus alone, or none [default: xgmi for chips that have it,
    /// pcie for others].
    #[arg(long, value_name = "xgmi|pcie|none", value_parser = parse_links)]
    pub(super) links: Option<Links>,
}

impl GpusArgs {
    /// Returns the GPUs of a machine, all of them like `gpu`. `alone` lists what looks at one GPU, and whether it was asked for.
    ///
    /// # Errors
    ///
    /// As [`alike`].
    pub(super) fn machine(&self, gpu: GpuConfig, alone: &[(&str, bool)]) -> anyhow::Result<Gpus> {
        alike((self.gpus, self.links), gpu, alone)
    }
}

/// Returns that many GPUs with links between them, all of them like `gpu`.
///
/// # Errors
///
/// Several GPUs together with one of `alone` that was asked for; links of XGMI for a chip that has none.
pub(super) fn alike(
    (count, links): (u8, Option<Links>),
    gpu: GpuConfig,
    alone: &[(&str, bool)],
) -> anyhow::Result<Gpus> {
    for (name, is_asked_for) in alone {
        ensure!(
            count == 1 || !is_asked_for,
            "{name} looks at one GPU, and --gpus asks for {count}; leave one of them out"
        );
    }
    ensure!(
        links != Some(Links::Xgmi) || gpu.chip.has_xgmi,
        "{} has no XGMI; --links pcie and --links none are for all chips",
        gpu.chip
    );
    let of = |number| GpuConfig { trace: gpu.trace.clone().map(|sink| of_gpu(number, sink)), ..gpu.clone() };
    let others = (1..count).map(of).collect();
    Ok(Gpus { first: gpu, others, links: links.unwrap_or_default() })
}
