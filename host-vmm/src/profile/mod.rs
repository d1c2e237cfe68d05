//! What the profiler of kernels has counted, as text and JSON.
//!
//! Counts come from `belfry_device::profile`; source lines from files that are known, C++ names from their mangled ones.

mod json;
#[cfg(test)]
mod tests;
mod text;

use belfry_device::Matrices;
use belfry_device::chip::{Model, Shape};
use belfry_device::profile::{Block, KernelProfile, ProfileReport};

use crate::symbols::Symbols;
use crate::trace::demangled;

/// How a profile is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
}

/// What one process has run on its GPU.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number and program, where it is not this one.
    pub of: Option<(i32, String)>,
    /// What was counted.
    pub report: ProfileReport,
}

/// What estimates are for.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// The chip.
    pub model: &'static Model,
    /// How much there is of it.
    pub shape: Shape,
    /// How its matrix instructions form their sums.
    pub matrices: Matrices,
}

/// The profiles of processes in a format, each with the source lines that symbols have for it.
#[must_use]
pub fn render(processes: &[Process], gpu: Gpu, symbols: &mut Symbols, format: Format) -> String {
    match format {
        Format::Text => text::render(processes, gpu, symbols),
        Format::Json => format!("{:#}\n", json::render(processes, gpu, symbols)),
    }
}

/// What a kernel is called: its name, or its address where it has none.
fn name(kernel: &KernelProfile) -> String {
    if kernel.name.is_empty() { crate::trace::kernel(kernel.entry) } else { demangled(&kernel.name) }
}

/// Has symbols belong to a kernel's addresses.
fn place(symbols: &mut Symbols, kernel: &KernelProfile) {
    // Processes have the same addresses for different code objects.
    symbols.loaded.clear();
    if let Some(descriptor) = kernel.descriptor {
        symbols.dispatched(&kernel.name, descriptor);
    }
}

/// An address as its distance from a kernel's first instruction, which callees may be in front of.
fn offset(kernel: &KernelProfile, pc: u64) -> String {
    if pc >= kernel.entry {
        format!("+{:#x}", pc - kernel.entry)
    } else {
        format!("-{:#x}", kernel.entry - pc)
    }
}

/// The part that a block's instructions are of all, 0 to 1.
fn share(kernel: &KernelProfile, block: &Block<'_>) -> f64 {
    block.instructions as f64 / kernel.total().max(1) as f64
}
