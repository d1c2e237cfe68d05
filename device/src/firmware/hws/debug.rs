//! Debugger settings in MAP_PROCESS: the launch of waves, and the watched addresses.
//!
//! Source: Linux `amdgpu_amdkfd_gc_9_4_3.c`, `amdgpu_amdkfd_aldebaran.c` and `kfd_packet_manager_v9.c`.

use belfry_abi::pm4::MapProcess;

use super::{HwsScheduler, process_key};
use crate::firmware::Ports;
use crate::firmware::watch::WatchRegisters;
use crate::guest_error::GuestError;
use crate::queue::Partition;
use crate::vm::{DebugSettings, LaunchControl, LaunchMode};

/// Bits of `TCP_WATCHn_CNTL.MASK`.
const MASK_BITS: u32 = 24;
/// Bits of `SPI_GDBG_PER_VMID_CNTL`.
const LAUNCH_BITS: u32 = 0xffff;

impl HwsScheduler {
    /// Forgets the settings of debuggers of all processes of a partition.
    pub(super) fn forget_debuggers(&mut self, partition: Partition) {
        let all = process_key(partition, 0)..=process_key(partition, u16::MAX);
        self.slots.forget_debuggers(|key| all.contains(&key));
    }

    /// Gives the waves of a process of a list the settings of its debugger.
    pub(super) fn debug(
        &mut self,
        partition: Partition,
        key: u64,
        process: &MapProcess,
    ) -> Result<(), GuestError> {
        let settings = settings(&self.ports, partition, process)?;
        if self.slots.set_debug(key, settings) { Ok(()) } else { Err(GuestError::HwsDebuggers) }
    }
}

/// Returns the settings of the debugger of a process on these graphics cores; `None` if there is none.
fn settings(
    ports: &Ports,
    partition: Partition,
    process: &MapProcess,
) -> Result<Option<DebugSettings>, GuestError> {
    let launch = LaunchControl(process.spi_gdbg_per_vmid_cntl);
    if launch.mode() == LaunchMode::Kill || launch.0 & !LAUNCH_BITS != 0 {
        return Err(GuestError::HwsLaunch);
    }
    let of = |xcc| WatchRegisters::of(&ports.registers, xcc, process.tcp_watch_cntl);
    let watches = of(partition.first);
    if watches.iter().any(|watch| watch.is_valid() && watch.has_other_space()) {
        return Err(GuestError::HwsWatch);
    }
    let differs = |xcc| of(xcc).iter().zip(&watches).any(|(own, first)| first.is_valid() && own != first);
    let differ = partition.xccs().skip(1).any(differs);
    for (name, asks) in [
        (
            "SPI_GDBG_PER_VMID_CNTL stall and traps at the begin and the end of waves",
            launch.unmodelled() != 0,
        ),
        ("TCP_WATCHn_ADDR that differ between XCCs", differ),
    ] {
        if asks {
            let pasid = process.control.pasid();
            ports.counters.unmodelled(name, format_args!("MAP_PROCESS pasid={pasid:#x}"));
        }
    }
    let watches = watches.map(|watch| watch.watch(MASK_BITS));
    Ok(Some(DebugSettings { launch, watches }).filter(DebugSettings::change_anything))
}
