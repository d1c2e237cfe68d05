//! Device nodes: files that stand in for them, recognised by their inode.
//!
//! A stand-in is an empty file of the prepared directory. Its identity survives `dup`, `fork` and descriptors
//! that are passed on, and a bind mount of it is recognised as well. It is opened for reading even if writing
//! was asked for, so that it stays empty.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_kfd_hosted::Node;

use crate::identity::{DrmNodes, Identity, card_minor};
use crate::inside::is_inside;
use crate::real::raw;
use crate::settings::{Settings, settings};

/// Major number of DRM devices.
const DRM_MAJOR: u32 = 226;
/// Major number `/dev/kfd` has here; the kernel gives it any that is free.
const KFD_MAJOR: u32 = 235;

/// A device node as the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Kfd,
    /// The render node of the partition with this number among those of all GPUs, and its node for displays.
    Render(u32),
    Card(u32),
}

impl Which {
    fn of(settings: &Settings, device: u64, inode: u64) -> Option<Self> {
        let identity = Identity { device, inode };
        if settings.kfd == identity {
            return Some(Self::Kfd);
        }
        let mut partitions = (0u32..).zip(&settings.drm);
        partitions.find_map(|(number, nodes)| match identity {
            known if known == nodes.render => Some(Self::Render(number)),
            known if known == nodes.card => Some(Self::Card(number)),
            _ => None,
        })
    }

    /// The interface that answers.
    pub(crate) fn node(self) -> Node {
        match self {
            Self::Kfd => Node::Kfd,
            Self::Render(number) | Self::Card(number) => Node::Partition(number),
        }
    }

    /// Device number.
    pub(crate) fn rdev(self, settings: &Settings) -> (u32, u32) {
        // Made for a node of the list, whose number is in range.
        let minor = |number: u32| settings.drm.get(number as usize).map_or(0, |nodes| nodes.minor);
        match self {
            Self::Kfd => (KFD_MAJOR, 0),
            Self::Render(number) => (DRM_MAJOR, minor(number)),
            Self::Card(number) => (DRM_MAJOR, card_minor(minor(number))),
        }
    }
}

/// Set once a stand-in was opened: until then, no descriptor is one.
static OPENED: AtomicBool = AtomicBool::new(false);

/// Notes that a descriptor may be a stand-in.
pub(crate) fn opened() {
    OPENED.store(true, Ordering::Relaxed);
}

/// The node a descriptor stands in for, whether this process or an earlier one has opened it.
pub(crate) fn node_of(fd: i32) -> Option<Which> {
    let stat = raw::fstat(fd)?;
    Which::of(settings()?, stat.st_dev, stat.st_ino)
}

/// Does as [`node_of`], for calls that are made often: returns `None` at once while this process has opened no node.
pub(crate) fn opened_node_of(fd: i32) -> Option<Which> {
    if fd < 0 || !OPENED.load(Ordering::Relaxed) { None } else { node_of(fd) }
}

/// The partition whose render node a descriptor is.
pub(crate) fn partition_of(fd: i32) -> Option<u32> {
    match node_of(fd)? {
        Which::Kfd => None,
        Which::Render(number) | Which::Card(number) => Some(number),
    }
}

/// The settings, for a call of the program's: reading them makes calls of its own.
fn outside() -> Option<&'static Settings> {
    if is_inside() { None } else { settings() }
}

/// Replaces the result of `stat` for a stand-in by that for its node.
pub(crate) fn disguise(stat: &mut libc::stat) {
    let Some(settings) = outside() else { return };
    if let Some(which) = Which::of(settings, stat.st_dev, stat.st_ino) {
        let (major, minor) = which.rdev(settings);
        stat.st_mode = libc::S_IFCHR | 0o666;
        stat.st_rdev = libc::makedev(major, minor);
    }
}

/// Does the work of [`disguise`] for `statx`.
pub(crate) fn disguise_x(stat: &mut libc::statx) {
    let Some(settings) = outside() else { return };
    let device = libc::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    if let Some(which) = Which::of(settings, device, stat.stx_ino) {
        (stat.stx_rdev_major, stat.stx_rdev_minor) = which.rdev(settings);
        stat.stx_mode = (libc::S_IFCHR | 0o666) as u16;
    }
}

/// Returns true if a file stands in for a node.
pub(crate) fn is_stand_in(identity: Identity) -> bool {
    settings().is_some_and(|settings| Which::of(settings, identity.device, identity.inode).is_some())
}

/// A link that leads to a stand-in through another process's prepared directory, as a program is to see it.
///
/// `link` is the link's path from the directory `at`, `leads_to` the kernel's text of it. Monitors find the processes that use
/// a GPU by the links in their `/proc/PID/fd`.
pub(crate) fn shown_elsewhere<'t>(at: i32, link: &CStr, leads_to: &'t [u8]) -> Option<&'t [u8]> {
    let starts = leads_to.windows(5).rposition(|name| name == b"/dev/")?;
    let name = leads_to.get(starts..)?;
    if name != b"/dev/kfd" && !name.starts_with(b"/dev/dri/") {
        return None;
    }
    let stat = raw::stat_at(at, link)?;
    is_stand_in(Identity { device: stat.st_dev, inode: stat.st_ino }).then_some(name)
}

/// Returns the kind of file that a directory's entry is, if it is a stand-in.
pub(crate) fn kind_of_entry(inode: u64, name: &[u8]) -> Option<u8> {
    // The file system is not told: a name that is a node's, and its number, are enough.
    if name != b"kfd" && !name.starts_with(b"renderD") && !name.starts_with(b"card") {
        return None;
    }
    let settings = outside()?;
    let is_one = |nodes: &DrmNodes| [nodes.render.inode, nodes.card.inode].contains(&inode);
    (settings.kfd.inode == inode || settings.drm.iter().any(is_one)).then_some(libc::DT_CHR)
}
