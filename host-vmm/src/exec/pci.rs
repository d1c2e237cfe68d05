//! The machine's PCI devices and buses, among which a program finds the GPU when it lists them.
//!
//! The prepared directory has links for all of them, as the kernel has. Those of the machine lead to its own files.

use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};

use belfry_kfd_hosted::Numa;

/// Directories of links, without a slash in front.
pub(super) const LISTS: [&str; 2] = ["sys/bus/pci/devices", "sys/class/pci_bus"];

/// Directory of the machine's NUMA nodes, and its first node.
const NODES: &str = "/sys/devices/system/node";
const NODE: &str = "/sys/devices/system/node/node0";

/// A link of the machine's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// Its path, without a slash in front.
    pub(super) place: PathBuf,
    /// The path in it.
    pub(super) target: PathBuf,
}

/// Returns the links in a directory of the machine's, in order; none if there is no such directory.
fn links(list: &str) -> Vec<Link> {
    let entries = fs::read_dir(Path::new("/").join(list)).into_iter().flatten().flatten();
    let mut links: Vec<Link> = entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            Some(Link { place: Path::new(list).join(entry.file_name()), target })
        })
        .collect();
    links.sort_by(|one, other| one.place.cmp(&other.place));
    links
}

/// Returns all links of the machine.
pub(super) fn machine() -> Vec<Link> {
    LISTS.iter().flat_map(|list| links(list)).collect()
}

/// Adds to a hash all that the prepared directory contains of the machine.
pub(super) fn hash(hasher: &mut impl Hasher) {
    machine().hash(hasher);
    near(Numa::default(), 0).hash(hasher);
}

/// Returns the root bus that a link of sysfs leads to, by its `../../devices/pci0000:00/...`. Other roots have files
/// of Belfry's as well.
pub(super) fn root_of(target: &Path) -> Option<&str> {
    let mut parts = target.components().skip_while(|part| part.as_os_str() == "..");
    let is_devices = parts.next().is_some_and(|part| part.as_os_str() == "devices");
    parts.next().filter(|_| is_devices)?.as_os_str().to_str().filter(|root| root.starts_with("pci"))
}

/// Returns the path that a link of sysfs leads to.
pub(super) fn whole(target: &Path) -> PathBuf {
    Path::new("/sys")
        .join(target.components().skip_while(|part| part.as_os_str() == "..").collect::<PathBuf>())
}

/// The processors that are near the GPU, as the kernel tells of them.
#[derive(Debug, Hash)]
pub(super) struct Near {
    /// `numa_node`.
    pub(super) node: String,
    /// `local_cpus`, a mask.
    pub(super) mask: String,
    /// `local_cpulist`.
    pub(super) list: String,
}

/// Returns the processors of a memory node. A machine with several has all processors, shared out among them in their order, as KFD's topology
/// has them.
pub(super) fn near(numa: Numa, numa_node: u32) -> Near {
    if numa.nodes > 1 {
        return share(numa, numa_node);
    }
    let node = |name: &str| fs::read_to_string(format!("{NODE}/{name}"));
    let processors = || {
        let count = belfry_device::processors();
        let online = fs::read_to_string("/sys/devices/system/cpu/online");
        (mask(count), online.unwrap_or_else(|_| format!("0-{}\n", count.saturating_sub(1))))
    };
    match (node("cpumap"), node("cpulist")) {
        (Ok(mask), Ok(list)) => Near { node: "0\n".into(), mask, list },
        _ => {
            // Of such a machine, all processors are one node.
            let (mask, list) = processors();
            Near { node: "0\n".into(), mask, list }
        }
    }
}

/// Returns the share of a memory node.
fn share(numa: Numa, numa_node: u32) -> Near {
    let count = belfry_device::processors();
    let of = |node| usize::try_from(numa.share(count as u64, node)).unwrap_or(0);
    let first: usize = (0..numa_node).map(of).sum();
    let last = first + of(numa_node);
    let list = match last - first {
        0 => "\n".to_owned(),
        1 => format!("{first}\n"),
        _ => format!("{first}-{}\n", last - 1),
    };
    Near { node: format!("{numa_node}\n"), mask: mask_of(count, first..last), list }
}

/// Returns the directory of NUMA nodes, without a slash in front, if the machine has none, or if the GPUs are at several: programs get
/// one then, as on a machine that has GPUs of this kind.
pub(super) fn own_nodes(numa: Numa) -> Option<&'static str> {
    (numa.nodes > 1 || !Path::new(NODES).exists()).then(|| NODES.trim_start_matches('/'))
}

/// Returns the files of that directory.
pub(super) fn own_node_files(numa: Numa) -> Vec<(String, String)> {
    let Some(nodes) = own_nodes(numa) else { return Vec::new() };
    let all = if numa.nodes > 1 { format!("0-{}\n", numa.nodes - 1) } else { "0\n".to_owned() };
    let mut files = vec![(format!("{nodes}/online"), all.clone()), (format!("{nodes}/possible"), all)];
    for node in 0..numa.nodes {
        let Near { mask, list, .. } = near(numa, node);
        let to = |other: u32| if other == node { 10 } else { numa.distance };
        let distances: Vec<_> = (0..numa.nodes).map(|other| to(other).to_string()).collect();
        for (name, content) in
            [("cpumap", mask), ("cpulist", list), ("distance", format!("{}\n", distances.join(" ")))]
        {
            files.push((format!("{nodes}/node{node}/{name}"), content));
        }
    }
    files
}

/// Returns a mask of the first processors.
fn mask(count: usize) -> String {
    mask_of(count, 0..count)
}

/// Returns a mask of some of `count` processors, as the kernel prints it: words of 32 bits, the last ones first.
fn mask_of(count: usize, set: Range<usize>) -> String {
    let words = (0..count.div_ceil(32).max(1)).rev().map(|word| {
        let bits = (0..32usize).filter(|bit| set.contains(&(word * 32 + bit))).map(|bit| 1u32 << bit);
        format!("{:08x}", bits.sum::<u32>())
    });
    let text: Vec<String> = words.collect();
    let text = text.join(",");
    // The first word has no leading zeros.
    let text = text.trim_start_matches(['0', ',']);
    if text.is_empty() { "0\n".to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_printed_as_the_kernel_prints_them() {
        for (count, text) in [(1, "1\n"), (2, "3\n"), (32, "ffffffff\n"), (40, "ff,ffffffff\n")] {
            assert_eq!(mask(count), text, "{count}");
        }
        assert_eq!((mask_of(40, 33..35), mask_of(2, 2..2)), ("6,00000000\n".to_owned(), "0\n".to_owned()));
    }

    #[test]
    fn roots_of_devices_are_found_in_links() {
        for (target, root) in [
            ("../../../devices/pci0000:00/0000:00:01.0", Some("pci0000:00")),
            ("../../devices/pci0000:00/pci_bus/0000:00", Some("pci0000:00")),
            ("../../../devices", None),
            ("../../other/pci0000:00", None),
            ("../../../devices/platform/host/pci0000:00/0000:00:01.0", None),
        ] {
            assert_eq!(root_of(Path::new(target)), root, "{target}");
        }
        assert_eq!(whole(Path::new("../../../devices/platform/x")), Path::new("/sys/devices/platform/x"));
    }
}
