//! Resources that each way to share out the graphics cores gives a partition, as files below the PCI device's directory (`amdgpu_xcp.c`,
//! `amdgpu_xcp_cfg_sysfs_init`; `aqua_vanjaram.c`, `aqua_vanjaram_get_xcp_res_info`).
//!
//! `compute_partition_config` has the ways that there are, which of them the folders are about, and a folder for each kind of
//! resource. Only what is shown follows from a write to `xcp_config`: the partitions stay as they are.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::partition::ComputePartition;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::Os;

/// Name of the tree, which its paths begin with.
pub(crate) const ROOT: &str = "compute_partition_config";
/// The file that says which way is shown, which takes another one.
pub(crate) const CHOICE: &str = "compute_partition_config/xcp_config";

/// Files of the tree, and those of a resource.
const FILES: [&str; 3] = ["supported_xcp_configs", "xcp_config", "supported_nps_configs"];
const RESOURCE_FILES: [&str; 2] = ["num_inst", "num_shared"];

/// Kinds of resources (`amdgpu_xcp_res_names`): graphics cores, SDMA engines, video decoders, JPEG decoders.
const RESOURCES: [&str; 4] = ["xcc", "dma", "dec", "jpeg"];

/// The mode that a write names, by its first letters as Linux looks at them.
///
/// # Errors
///
/// `EINVAL`.
pub(crate) fn mode_named(text: &str) -> Result<ComputePartition> {
    text.get(..3).and_then(ComputePartition::named).ok_or(Errno::EINVAL)
}

/// Instances that a partition has of so many, and partitions that have one in common. Of what there is not, both are 0.
fn share(instances: u32, partitions: u32) -> (u32, u32) {
    match instances {
        0 => (0, 0),
        few if few < partitions => (1, partitions / few),
        many => (many / partitions, 1),
    }
}

/// Cores that can be shared out.
///
/// # Errors
///
/// `ENOENT` on chips that are not.
fn shared_cores<O: Os>(device: &Device<O>) -> Result<u32> {
    if device.hw.asic().partitions { Ok(device.config.xccs.max(1)) } else { Err(Errno::ENOENT) }
}

fn shown_mode<O: Os>(device: &Device<O>) -> ComputePartition {
    let number = device.shown_mode.load(Ordering::Relaxed) as usize;
    ComputePartition::ALL.get(number).copied().unwrap_or_default()
}

/// Reads a file below the tree.
pub(crate) fn read<O: Os>(device: &Device<O>, path: &str) -> Result<String> {
    let xccs = shared_cores(device)?;
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        ["supported_xcp_configs"] => {
            let names: Vec<&str> = ComputePartition::available(xccs).map(|mode| mode.name()).collect();
            Ok(format!("{}\n", names.join(", ")))
        }
        ["xcp_config"] => Ok(format!("{}\n", shown_mode(device))),
        // All of memory is one partition, which every way can have.
        ["supported_nps_configs"] => Ok("NPS1\n".to_string()),
        [resource, file] => {
            let instances = match resource {
                "xcc" => xccs,
                "dma" => device.config.sdma_engines,
                "dec" | "jpeg" => 0,
                _ => return Err(Errno::ENOENT),
            };
            let partitions = shown_mode(device).partitions(xccs).unwrap_or(1);
            let (each, sharing) = share(instances, partitions);
            match file {
                "num_inst" => Ok(format!("{each}\n")),
                "num_shared" => Ok(format!("{sharing}\n")),
                _ => Err(Errno::ENOENT),
            }
        }
        _ => Err(Errno::ENOENT),
    }
}

/// Lists a directory of the tree; directories end in a slash.
pub(crate) fn list<O: Os>(device: &Device<O>, path: &str) -> Result<Vec<String>> {
    shared_cores(device)?;
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [] => {
            let files = FILES.iter().map(|file| (*file).to_string());
            Ok(files.chain(RESOURCES.iter().map(|name| format!("{name}/"))).collect())
        }
        [resource] if RESOURCES.contains(&resource) => {
            Ok(RESOURCE_FILES.iter().map(|file| (*file).to_string()).collect())
        }
        _ => Err(Errno::ENOENT),
    }
}

/// Shows what the way that `text` names would give.
///
/// # Errors
///
/// `EINVAL` for one that these cores do not have; `ENOENT` on chips that are not shared out.
pub(crate) fn show<O: Os>(device: &Device<O>, text: &str) -> Result<()> {
    let xccs = shared_cores(device)?;
    let mode = mode_named(text)?;
    if mode.partitions(xccs).is_none() {
        return Err(Errno::EINVAL);
    }
    device.shown_mode.store(mode as u32, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn partitions_have_their_part_or_share_what_is_too_few() {
        assert_eq!([share(8, 1), share(8, 4), share(16, 8)], [(8, 1), (2, 1), (2, 1)]);
        assert_eq!([share(4, 8), share(1, 2), share(0, 2)], [(1, 2), (1, 2), (0, 0)]);
    }
}
