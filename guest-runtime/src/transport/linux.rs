//! The transport of a real guest: `/dev/kfd`, `/dev/dri/renderD*` and sysfs.
#![expect(unsafe_code, reason = "ioctl and mmap are foreign calls")]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Errno, Node, Protection, Transport};

/// Directory in which the kernel publishes KFD's topology.
const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// Why the device files could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A device file could not be opened.
    #[error("cannot open {}: {error}{}", path.display(), hint(error))]
    Device {
        /// The device file.
        path: PathBuf,
        /// Error of the open.
        error: io::Error,
    },
    /// The topology could not be read.
    #[error("cannot read the KFD topology at {}: {error}", path.display())]
    Topology {
        /// The file or directory.
        path: PathBuf,
        /// Error of the read.
        error: io::Error,
    },
    /// The topology lists CPU nodes only.
    #[error("the KFD topology lists no GPU")]
    NoGpu,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => " (is the amdgpu module loaded?)",
        io::ErrorKind::PermissionDenied => " (is this user in the `render` group?)",
        _ => "",
    }
}

/// `/dev/kfd`, the render nodes of the GPUs, and sysfs.
#[derive(Debug)]
pub struct LinuxTransport {
    kfd: File,
    /// Open render nodes by the ids of the GPUs; GPUs that share a node share its file.
    render: Vec<(u32, Arc<File>)>,
    topology: PathBuf,
}

impl LinuxTransport {
    /// Opens `/dev/kfd` and the render nodes that the topology names for GPUs; those after the first GPU's that cannot be opened
    /// are left out.
    ///
    /// # Errors
    ///
    /// [`OpenError`] with the path and, for a missing driver or missing rights, the way to mend it.
    pub fn open() -> Result<Self, OpenError> {
        let kfd_path = Path::new("/dev/kfd");
        let kfd = open_read_write(kfd_path)?;
        let topology = PathBuf::from(TOPOLOGY);
        let mut minors: Vec<(u32, Arc<File>)> = Vec::new();
        let mut render: Vec<(u32, Arc<File>)> = Vec::new();
        for (gpu_id, minor) in render_nodes(&topology)? {
            let known = minors.iter().find(|(other, _)| *other == minor).map(|(_, file)| Arc::clone(file));
            let file = match known.map_or_else(|| open_read_write(&render_path(minor)).map(Arc::new), Ok) {
                Ok(file) => file,
                Err(_) if !render.is_empty() => continue,
                Err(error) => return Err(error),
            };
            minors.push((minor, Arc::clone(&file)));
            render.push((gpu_id, file));
        }
        Ok(Self { kfd, render, topology })
    }

    fn fd(&self, node: Node) -> i32 {
        match node {
            Node::Kfd => self.kfd.as_raw_fd(),
            Node::Render(gpu_id) => self.render_fd(gpu_id),
        }
    }
}

fn open_read_write(path: &Path) -> Result<File, OpenError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| OpenError::Device { path: path.to_owned(), error })
}

fn render_path(minor: u32) -> PathBuf {
    PathBuf::from(format!("/dev/dri/renderD{minor}"))
}

/// Ids of the topology nodes that have SIMDs, of which there is at least one, and the minor numbers of their render nodes.
fn render_nodes(topology: &Path) -> Result<Vec<(u32, u32)>, OpenError> {
    let nodes = topology.join("nodes");
    let entries =
        std::fs::read_dir(&nodes).map_err(|error| OpenError::Topology { path: nodes.clone(), error })?;
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        let id = std::fs::read_to_string(nodes.join(number.to_string()).join("gpu_id"));
        let Some(gpu_id) = id.ok().and_then(|id| id.trim().parse().ok()) else { continue };
        let path = nodes.join(number.to_string()).join("properties");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let value = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u32>().ok()).unwrap_or(0)
        };
        if value("simd_count ") > 0 {
            found.push((gpu_id, value("drm_render_minor ")));
        }
    }
    if found.is_empty() { Err(OpenError::NoGpu) } else { Ok(found) }
}

// SAFETY: every method is the kernel call of the same name, which has exactly the asked-for effect.
unsafe impl Transport for LinuxTransport {
    unsafe fn ioctl(&self, node: Node, request: u32, arg: *mut c_void) -> Result<i32, Errno> {
        // The request's type differs between C libraries (glibc c_ulong, musl c_int).
        // SAFETY: the caller vouches for `arg`.
        let result = unsafe { libc::ioctl(self.fd(node), request as _, arg) };
        if result < 0 { Err(Errno::last()) } else { Ok(result) }
    }

    unsafe fn mmap(
        &self,
        node: Node,
        addr: Option<usize>,
        len: usize,
        prot: Protection,
        offset: u64,
    ) -> Result<*mut u8, Errno> {
        let fixed = if addr.is_some() { libc::MAP_FIXED } else { 0 };
        let hint = std::ptr::without_provenance_mut(addr.unwrap_or(0));
        // KFD's offsets use bits 63:62, so they are negative as an off_t; only the bits matter.
        let offset = offset.cast_signed();
        // SAFETY: the caller reserved the range when it gives one; otherwise the kernel picks a free one.
        let map =
            unsafe { libc::mmap(hint, len, prot.bits(), libc::MAP_SHARED | fixed, self.fd(node), offset) };
        if map == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(map.cast()) }
    }

    unsafe fn munmap(&self, addr: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller vouches that nothing uses the range any more.
        if unsafe { libc::munmap(addr.cast(), len) } < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    fn render_fd(&self, gpu_id: u32) -> i32 {
        let file = self.render.iter().find(|(other, _)| *other == gpu_id);
        file.map_or(-1, |(_, file)| file.as_raw_fd())
    }

    fn sysfs_read(&self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(self.topology.join(path))
    }

    fn sysfs_list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.topology.join(path))? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }
}
