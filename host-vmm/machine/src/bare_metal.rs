//! The bare-metal guest: its machine, and its stress test of doorbells.

use std::path::Path;
use std::time::Duration;

use belfry_device::GpuConfig;
use vm_memory::{Bytes as _, GuestAddress};

use crate::config::{Config, DoorbellMode};

use crate::error::KvmError;

use crate::machine::{Machine, Outcome};

/// RAM of the guest.
const MEMORY: u64 = 32 << 20;

/// Address at which `stress.rs` of the guest finds the number of rings.
const RINGS_AT: GuestAddress = GuestAddress(0x3f_f008);

/// Returns the machine of the bare-metal guest `kernel`, a file that `belfry_image::bare_metal` builds.
#[must_use]
pub fn config(kernel: &Path, gpu: GpuConfig, doorbells: DoorbellMode) -> Config {
    Config { memory: MEMORY, gpus: vec![gpu], doorbells, catch_signals: true, ..Config::new(kernel) }
}

/// Lets the guest ring a doorbell `rings` times, in bursts and pauses, while it moves the BAR now and then.
///
/// # Errors
///
/// No machine, or one that fails while it runs.
pub fn stress(
    config: Config,
    rings: u64,
    limit: Duration,
    output: &mut dyn FnMut(&[u8]),
) -> Result<Outcome, KvmError> {
    let machine = Machine::new(config)?;
    let written = machine.memory().write_obj(rings.to_le(), RINGS_AT);
    written.map_err(|error| KvmError::Setup {
        what: "tell the guest what to do",
        source: std::io::Error::other(error),
    })?;
    machine.run(limit, output)
}
