//! The root file system: the initramfs at first, and a disk once the host says so.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use belfry_channel::path::writable;

use crate::{annotate, sys, volumes};

/// Directory on which a disk is mounted before it becomes the root.
const PLACE: &str = "/new-root";
/// Longest time a disk may take to appear once its driver is loaded.
const PATIENCE: Duration = Duration::from_secs(10);
/// Mounts that every program finds: kind, place, and options.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/run", "mode=755"),
];

/// Links that devtmpfs does not make: shells open files by them.
const LINKS: [(&str, &str); 4] =
    [("/proc/self/fd", "/dev/fd"), ("fd/0", "/dev/stdin"), ("fd/1", "/dev/stdout"), ("fd/2", "/dev/stderr")];

/// The root that programs have.
#[derive(Debug, Default)]
pub(crate) struct Root {
    /// The initramfs, once another root lies over it.
    initramfs: Option<File>,
}

impl Root {
    /// The path under which a file of the initramfs is found now.
    pub(crate) fn in_initramfs(&self, path: &str) -> String {
        match &self.initramfs {
            Some(directory) => format!("/proc/self/fd/{}{path}", directory.as_raw_fd()),
            None => path.to_owned(),
        }
    }

    /// Makes the disk with this serial number the root, with everything mounted in it that programs expect.
    pub(crate) fn enter(&mut self, serial: &str) -> io::Result<()> {
        let device = wait_for_disk(serial)?;
        self.enter_device(&device, &format!("disk {serial} ({device})"))
    }

    /// Enters the root file system of the system on a disk, which may be in a partition.
    ///
    /// The disk's driver must have been loaded, as the kernel looks for partitions when a disk appears.
    pub(crate) fn enter_system(&mut self, serial: &str) -> io::Result<()> {
        let disk = wait_for_disk(serial)?;
        let device = volumes::with_a_system(&disk, PLACE)?;
        self.enter_device(&device, &device)
    }

    /// Mounts a device, which errors call by a name.
    fn enter_device(&mut self, device: &str, name: &str) -> io::Result<()> {
        if self.initramfs.is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a disk is the root already"));
        }
        let mounting = format!("mount {name} as the root file system");
        sys::mount_disk(device, PLACE).map_err(|error| annotate(&mounting, &error))?;
        let initramfs = File::open("/")?;
        sys::switch_root(PLACE).map_err(|error| annotate("enter the root file system", &error))?;
        self.initramfs = Some(initramfs);
        for (kind, target, options) in MOUNTS {
            sys::mount(kind, target, options)
                .map_err(|error| annotate(&format!("mount {target}"), &error))?;
        }
        for (to, path) in LINKS {
            match symlink(to, path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(annotate(path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Mounts a folder of the host.
pub(crate) fn mount_share(tag: &str, path: &str, read_only: bool) -> io::Result<()> {
    // The host has looked already; init does not rely on that for the files it lives from.
    let path = &writable(path).map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
    sys::mount_share(tag, path, read_only)
        .map_err(|error| annotate(&format!("mount the shared {path}"), &error))
}

/// The device of the disk with this serial number.
fn wait_for_disk(serial: &str) -> io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let device = Path::new("/dev").join(entry.file_name());
            let found = fs::read_to_string(entry.path().join("serial")).unwrap_or_default();
            if found.trim() == serial && device.exists() {
                return Ok(device.display().to_string());
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no disk has the serial number {serial}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
