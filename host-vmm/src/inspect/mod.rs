//! `--inspect`, `--gdb` and `belfry inspect`: what `belfry-inspect` has, and the terminal's user interface (`ui/`).

pub mod ui;

use std::sync::Arc;

use belfry_device::Gpu;
pub use belfry_inspect::inspect::*;

use crate::output::note;

/// Lets the GPU of this process be looked at, and says where GDB finds it.
///
/// # Errors
///
/// A socket or a stub that cannot be, or a breakpoint that is none.
pub fn look_at(gpu: &Arc<Gpu>, options: &InspectOptions) -> Result<Onlookers, InspectError> {
    let onlookers = Onlookers::start(gpu, options, (None, None))?;
    if let Some(at) = onlookers.gdb() {
        note!("belfry: the first dispatch waits for GDB: target remote {at}");
    }
    Ok(onlookers)
}
