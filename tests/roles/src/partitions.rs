//! The render nodes of partitions: a node of the topology each, and files that are of one partition.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result, ensure};
use belfry_abi::kfd::drm::{AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_HW_IP_COMPUTE};

use crate::nodes::{DRIVER, Nodes, function, write_driver};
use crate::render;

const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";

/// A node of a partition.
struct Partition {
    gpu_id: u32,
    minor: u32,
}

/// Partitions in the topology now, the processors left out.
fn partitions() -> Result<Vec<Partition>> {
    let count = fs::read_dir(TOPOLOGY)?.count();
    (1..count)
        .map(|node| {
            let text = fs::read_to_string(format!("{TOPOLOGY}/{node}/properties"))?;
            let minor = text.lines().find_map(|line| line.strip_prefix("drm_render_minor "));
            Ok(Partition {
                gpu_id: fs::read_to_string(format!("{TOPOLOGY}/{node}/gpu_id"))?.trim().parse()?,
                minor: minor.context("a node without a render node")?.trim().parse()?,
            })
        })
        .collect()
}

fn open(minor: u32) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/dev/dri/renderD{minor}"))
}

/// Asks sysfs for another way to share the graphics cores out.
fn share_out(mode: &str) -> Result<()> {
    let path = format!("{DRIVER}/{}/current_compute_partition", function()?);
    fs::write(&path, mode).with_context(|| format!("{mode} to {path}"))
}

fn errno(result: io::Result<impl Sized>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Opens the render node of each of `count` partitions: address spaces, memory, work.
///
/// # Errors
///
/// When a partition has no render node of its own, or one that does not work.
pub fn run(count: usize, out: &mut dyn Write) -> Result<()> {
    let all = partitions()?;
    ensure!(all.len() == count, "{} nodes for {count} partitions", all.len());
    let minors: BTreeSet<u32> = all.iter().map(|partition| partition.minor).collect();
    ensure!(minors.len() == count, "render nodes {minors:?} for {count} partitions");
    // A process has each node's address space from the file of its own render node, and from no other.
    let mut files = Vec::new();
    for (number, partition) in all.iter().enumerate() {
        let render = open(partition.minor).with_context(|| format!("renderD{}", partition.minor))?;
        let nodes = Nodes::with(render.try_clone()?, partition.gpu_id, &|_| {})?;
        nodes.acquire_vm().with_context(|| format!("address space of partition {number}"))?;
        if let Some(next) = all.get(number + 1) {
            let refused = errno(Nodes::with(render, next.gpu_id, &|_| {})?.acquire_vm());
            ensure!(
                refused == libc::EINVAL,
                "partition {}: the file of another one gave {refused}",
                number + 1
            );
        }
        files.push(nodes);
    }
    // Memory and work of a file of each.
    let mut handles = Vec::new();
    for partition in &all {
        let file = open(partition.minor)?;
        render::create(file.as_raw_fd(), AMDGPU_GEM_DOMAIN_VRAM)?;
        render::submit(file.as_raw_fd(), AMDGPU_HW_IP_COMPUTE)?;
        handles.push(file);
    }
    let beyond = minors.last().context("no render node")? + 1;
    ensure!(errno(open(beyond)) == libc::ENOENT, "renderD{beyond} is of no partition");
    writeln!(out, "partitions: {count} render nodes")?;
    Ok(())
}

/// Switches to one partition and back, and unbinds the function under a file of the last partition's render node.
///
/// This has to be a process of its own: as long as a process lives that has opened the KFD node, there is no
/// switch.
///
/// # Errors
///
/// When a render node is there without its partition, or one does not work.
pub fn switch(out: &mut dyn Write) -> Result<()> {
    let last = partitions()?.last().context("no partition")?.minor;
    share_out("SPX")?;
    ensure!(partitions()?.len() == 1, "a node for each partition after the switch");
    ensure!(errno(open(last)) == libc::ENOENT, "renderD{last} after the switch");
    share_out("CPX")?;
    let chosen = format!("{DRIVER}/{}/compute_partition_config/xcp_config", function()?);
    fs::write(&chosen, "dpx").context("xcp_config")?;
    ensure!(fs::read_to_string(&chosen)?.trim() == "DPX", "xcp_config keeps what was chosen");
    ensure!(errno(fs::write(&chosen, "all")) == libc::EINVAL, "xcp_config takes any name");
    ensure!(partitions()?.len() > 1, "what is shown was chosen, and the partitions have changed");
    let left = open(last)?;
    let function = function()?;
    write_driver("unbind", &function)?;
    ensure!(render::create(left.as_raw_fd(), AMDGPU_GEM_DOMAIN_VRAM).is_err(), "memory without a device");
    write_driver("bind", &function)?;
    drop(left);
    let again = partitions()?;
    let file = open(again.last().context("no partition after it was bound again")?.minor)?;
    render::submit(file.as_raw_fd(), AMDGPU_HW_IP_COMPUTE)?;
    writeln!(out, "partitions: {} render nodes after the function was bound again", again.len())?;
    Ok(())
}
