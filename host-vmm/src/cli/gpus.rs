//! The GPUs of a machine: how many, of which kinds, and the links between them.

use anyhow::ensure;
use belfry_device::GpuConfig;
use belfry_device::memory::Links;
use belfry_device::trace::Timeline;
use belfry_machine::{Gpus, MAX_GPUS};
use clap::Args;

use super::links::LinksArg;
use super::shape::Kinds;

/// Most GPUs of a machine.
pub(super) const MOST: i64 = MAX_GPUS as i64;

/// Number of GPUs of a machine, and links between them.
#[derive(Debug, Default, Args)]
pub(super) struct GpusArgs {
    /// GPUs, 1 to 8, each a function of its own, which a program has all of: one for each --chip, and further ones of the last --chip
    /// [default: one for each --chip].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MOST))]
    pub(super) gpus: Option<u8>,
    /// Links by which each GPU reaches the memory of all others: XGMI, or the PCIe bus alone, or none [default: xgmi for chips that have it,
    /// pcie for others]; or a board, by the path of its file or as `mi300x-8` (eight gfx942) or `7900xtx-2` (two gfx1100).
    #[arg(long, value_name = "xgmi|pcie|none|BOARD|FILE", value_parser = LinksArg::parse)]
    pub(super) links: Option<LinksArg>,
}

impl GpusArgs {
    /// Returns the chip of GPUs for which none is named.
    pub(super) fn usual_chip(&self) -> &'static str {
        let preset = self.links.as_ref().and_then(LinksArg::preset);
        preset.map_or(belfry_device::chip::DEFAULT.name, |preset| preset.chip)
    }

    /// Returns how many GPUs there are.
    ///
    /// # Errors
    ///
    /// Fewer than are named, and more than a machine can have.
    pub(super) fn count(&self, kinds: &Kinds) -> anyhow::Result<usize> {
        let named = kinds.count();
        let preset = self.links.as_ref().and_then(LinksArg::preset).map_or(1, |preset| preset.gpus);
        let count = self.gpus.map_or(named.max(preset), usize::from);
        ensure!(count >= named, "--gpus asks for {count}, and --chip names {named}; leave --gpus out");
        ensure!(count <= MAX_GPUS, "--chip names {count} GPUs, and a machine has {MAX_GPUS} at most");
        Ok(count)
    }

    /// Returns the GPUs of a machine: of these kinds, the last of which counts for further ones, and in all else like `gpu`. `alone` lists
    /// what looks at one GPU, and whether it was asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::count`]; several GPUs together with one of `alone` that was asked for; links of XGMI where no chip has it; a board that
    /// the GPUs cannot be on.
    pub(super) fn machine(
        &self,
        gpu: &GpuConfig,
        kinds: &Kinds,
        alone: &[(&str, bool)],
    ) -> anyhow::Result<Gpus> {
        let count = self.count(kinds)?;
        for (name, is_asked_for) in alone {
            ensure!(
                count == 1 || !is_asked_for,
                "{name} looks at one GPU, and the machine has {count}; leave one of them out"
            );
        }
        let is_xgmi = self.links == Some(LinksArg::Of(Links::Xgmi));
        ensure!(
            !is_xgmi || kinds.all().any(|kind| kind.chip.has_xgmi),
            "{} has no XGMI; --links pcie and --links none are for all chips",
            gpu.chip
        );
        let timeline = gpu.trace.clone().filter(|_| count > 1).map(Timeline::new);
        let of = |number: usize| {
            let GpuConfig { chip, xccs, partition, cus, vram_size, .. } = *kinds.of_gpu(number);
            let own = |timeline: &Timeline| timeline.of_gpu(u8::try_from(number).unwrap_or(u8::MAX));
            let trace = timeline.as_ref().map(own).or_else(|| gpu.trace.clone());
            GpuConfig { chip, xccs, partition, cus, vram_size, trace, ..gpu.clone() }
        };
        let others = (1..count).map(of).collect();
        let links = match self.links {
            Some(LinksArg::Of(links)) => links,
            _ => Links::default(),
        };
        let gpus = Gpus { first: of(0), others, links, ..Gpus::default() };
        match self.links.as_ref().map(LinksArg::board).transpose()?.flatten() {
            Some(board) => Ok(board.place(gpus)?),
            None => Ok(gpus),
        }
    }
}

/// Refuses a board that no guest's machine has: that has one root port for each GPU, one memory node, and no more than one hive, as its
/// registers do not tell hives apart.
///
/// # Errors
///
/// The first of these, by name.
pub(super) fn check_guest(gpus: &Gpus) -> anyhow::Result<()> {
    let board = &gpus.board;
    ensure!(
        board.switches.is_empty() && board.numa_nodes == 1,
        "switches and memory nodes are for `exec` and --mode hosted: a guest's machine has a root port for each GPU, and one node"
    );
    ensure!(
        gpus.all().iter().filter_map(|gpu| gpu.hive).all(|hive| hive.id == 0),
        "several hives are for `exec` and --mode hosted: a guest's driver learns of hives from registers, which do not tell them apart"
    );
    Ok(())
}
