//! The switch to other nodes: the graphics cores are shared out in another way, as a write to `current_compute_partition` asks for
//! (`amdgpu_gfx_set_compute_partition`, `aqua_vanjaram_switch_partition_mode`).

use alloc::sync::Arc;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::hw::log;
use crate::node::Nodes;
use crate::os::Os;
use crate::processes::Processes;
use crate::scheduler;
use crate::xcp_tree::mode_named;

/// Shares the graphics cores out as `text` says, and puts the nodes of the new partitions into the topology. The device must not be
/// in use.
///
/// # Errors
///
/// `EINVAL` for a mode that there is not or that these cores do not have, and on chips that are not shared out; `EBUSY` while a
/// process has the KFD node open or a file of the render node has had work; `ENODEV` after removal, `EIO` for a device beyond
/// repair, `ENOMEM`, `ETIME` when the scheduler does not start, after which the device was reset.
pub(crate) fn switch<O: Os>(processes: &Processes<O>, device: &Device<O>, text: &str) -> Result<()> {
    let xccs = device.config.xccs.max(1);
    // An odd number cannot be shared out, says Linux, and looks no further.
    if !device.hw.asic().partitions || !xccs.is_multiple_of(2) {
        return Err(Errno::EINVAL);
    }
    let mode = mode_named(text)?;
    let others = processes.names_but(device);
    let nodes = Nodes::new(device.hw.asic(), &device.info, &device.config, mode, &others)?;
    if mode == device.nodes().mode() {
        return Ok(());
    }
    processes.lock_out(device)?;
    let result = share_out(processes, device, &nodes);
    processes.let_in();
    result.inspect_err(|error| log!(device.hw, Error, "the GPU is not {mode} ({error})"))?;
    log!(device.hw, Info, "the GPU is {mode} now, {} nodes", nodes.count());
    device.hw.os().topology_changed();
    Ok(())
}

/// Stops the scheduler, and starts one for the new nodes. The device is not in use, and the caller has locked new users out.
fn share_out<O: Os>(processes: &Processes<O>, device: &Device<O>, nodes: &Arc<Nodes>) -> Result<()> {
    // Made before the old one goes: without memory, all is as it was.
    let new = scheduler::new(&device.hw, &device.gart, nodes)?;
    let epoch = device.epoch();
    let result = device.replace_scheduler(new, || {
        let before = device.set_nodes(nodes.clone());
        processes.count_nodes(before.count() + nodes.count());
    });
    if result == Err(Errno::ETIME) {
        device.recover_after(epoch, result);
    }
    result
}
