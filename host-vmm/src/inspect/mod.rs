//! `--inspect`, `--gdb` and `belfry inspect`: the parts of `belfry-inspect`, and the terminal's user interface
//! (`ui/`).

pub mod ui;

use std::sync::Arc;

use belfry_device::Gpu;
pub use belfry_inspect::inspect::*;

use crate::output::note;

/// Lets the user look at the GPU of this process, and prints the address for GDB.
///
/// # Errors
///
/// A socket or a stub that cannot be made, or a text that is no breakpoint.
pub fn look_at(gpu: &Arc<Gpu>, options: &InspectOptions) -> Result<Onlookers, InspectError> {
    let onlookers = Onlookers::start(gpu, options, (None, None))?;
    if let Some(at) = onlookers.gdb() {
        note!("belfry: the first dispatch waits for GDB: target remote {at}");
    }
    Ok(onlookers)
}
