//! The counts of the profiler of kernels, as text and JSON.
//!
//! Counts come from `belfry_device::profile`, source lines from files with debug information, C++ names from their
//! mangled forms.

mod json;
#[cfg(test)]
mod tests;
mod text;

use belfry_device::chip::{Model, Shape};
use belfry_device::profile::{KernelProfile, ProfileReport};
use belfry_device::{GpuConfig, Matrices};
use belfry_tools::profile::Block;
use belfry_traces::{Matrix, demangled};

use crate::symbols::Symbols;

/// Formats of a profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
}

/// Counts of one process on its GPUs.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number and program, if it is another process than this one.
    pub of: Option<(i32, String)>,
    /// Counts of its kernels, by the number of the GPU.
    pub reports: Vec<ProfileReport>,
}

impl Process {
    /// Returns the bytes that went over links between its GPUs.
    fn links(&self) -> Matrix {
        let mut matrix = Matrix::default();
        for (own, report) in (0..).zip(&self.reports) {
            for link in &report.links {
                let peer = link.peer.into();
                for (from, to, bytes) in [(own, peer, link.to_peer()), (peer, own, link.from_peer())] {
                    if bytes > 0 {
                        matrix.add(from, to, bytes);
                    }
                }
            }
        }
        matrix
    }
}

/// GPU that estimates are for.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// The chip.
    pub model: &'static Model,
    /// Its size.
    pub shape: Shape,
    /// Way in which its matrix instructions form their sums.
    pub matrices: Matrices,
}

impl From<&GpuConfig> for Gpu {
    fn from(config: &GpuConfig) -> Self {
        Self { model: config.chip, shape: config.shape(), matrices: config.matrices }
    }
}

/// Returns the profiles of processes on these GPUs in a format, each with its source lines as far as symbols have them.
#[must_use]
pub fn render(processes: &[Process], gpus: &[Gpu], symbols: &mut Symbols, format: Format) -> String {
    match format {
        Format::Text => text::render(processes, gpus, symbols),
        Format::Json => format!("{:#}\n", json::render(processes, gpus, symbols)),
    }
}

/// Returns a kernel's name, or its address if it has no name.
fn name(kernel: &KernelProfile) -> String {
    if kernel.name.is_empty() { belfry_traces::kernel(kernel.entry) } else { demangled(&kernel.name) }
}

/// Assigns the symbols of a kernel to its addresses.
fn place(symbols: &mut Symbols, kernel: &KernelProfile) {
    // Different processes can have different code objects at one address.
    symbols.loaded.clear();
    if let Some(descriptor) = kernel.descriptor {
        symbols.dispatched(&kernel.name, descriptor);
    }
}

/// Returns an address as its distance from a kernel's first instruction; callees can be in front of it.
fn offset(kernel: &KernelProfile, pc: u64) -> String {
    if pc >= kernel.entry {
        format!("+{:#x}", pc - kernel.entry)
    } else {
        format!("-{:#x}", kernel.entry - pc)
    }
}

/// Returns the share of a block's instructions in all of the kernel's, 0 to 1.
fn share(kernel: &KernelProfile, block: &Block<'_>) -> f64 {
    block.instructions as f64 / kernel.total().max(1) as f64
}
