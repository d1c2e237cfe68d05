//! Files of the shared folder: every access starts at its root, goes down by one name at a time and follows no link.
//!
//! A descriptor holds each file, with `O_PATH` if the file is not open. The descriptor stays with the file when the
//! file is moved or removed. To open the file, or for a change that needs its path, the entry of `/proc/self/fd` is
//! used, which leads to that file and to no other.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat, StatFs, Timespec,
    Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::attributes::{Changes, Time, qid_kind};
use super::wire::{Name, Qid};

/// Largest number of file systems in the folder, beside its own, that are told apart.
const DEVICES: usize = 1 << 12;
/// Lowest bit of the file system's number in a qid's path.
const DEVICE_SHIFT: u32 = 48;
/// Bytes of entries that are read at a time.
const ENTRIES: usize = 32 << 10;
/// Permission bits, and those of them that give a program its file's owner.
const PERMISSIONS: u32 = 0o7777;
const SET_ID: u32 = 0o6000;
/// `P9_DOTL_AT_REMOVEDIR`
const REMOVE_DIRECTORY: u32 = 0x200;

/// Flags of `Tlopen` and `Tlcreate` (`P9_DOTL_*`), which have the numbers of Linux on x86-64. Other flags have no
/// effect here, or are ignored on purpose.
const ACCESS: u32 = 0o3;
const READ_ONLY: u32 = 0;
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;
const APPEND: u32 = 0o2000;
const DSYNC: u32 = 0o1_0000;
const SYNC: u32 = 0o400_0000;

/// A file of the folder.
#[derive(Debug)]
pub(super) struct Node {
    fd: OwnedFd,
    kind: FileType,
    qid: Qid,
    open: bool,
}

impl Node {
    pub(super) fn qid(&self) -> Qid {
        self.qid
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the descriptor, if it can be read and written.
    fn opened(&self) -> Result<&OwnedFd, Errno> {
        if self.open { Ok(&self.fd) } else { Err(Errno::BADF) }
    }
}

/// Owner of a new file, as far as this user may give files away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) user: Option<u32>,
    pub(super) group: u32,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// `/proc/self/fd`
    handles: OwnedFd,
    read_only: bool,
    /// Numbers of the known file systems, the folder's own first.
    devices: Vec<u64>,
    /// Largest size of a file for this process; a write beyond it would raise a signal.
    limit: u64,
}

impl Tree {
    pub(super) fn open(path: &Path, read_only: bool) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty())?;
        let handles = fs::open("/proc/self/fd", flags, Mode::empty())?;
        // A kernel before 5.6 does not have this call.
        fs::openat2(&root, ".", flags, Mode::empty(), ResolveFlags::BENEATH)?;
        let devices = vec![fs::fstat(&root)?.st_dev];
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Ok(Self { root, handles, read_only, devices, limit })
    }

    fn check_writable(&self) -> Result<(), Errno> {
        if self.read_only { Err(Errno::ROFS) } else { Ok(()) }
    }

    fn check_end(&self, end: u64) -> Result<(), Errno> {
        if end > self.limit { Err(Errno::FBIG) } else { Ok(()) }
    }

    /// Returns the path number of a qid: the inode's number, with the number of its file system above it.
    fn qid_path(&mut self, device: u64, inode: u64) -> Result<u64, Errno> {
        let at = match self.devices.iter().position(|&known| known == device) {
            Some(at) => at,
            None if self.devices.len() < DEVICES => {
                self.devices.push(device);
                self.devices.len() - 1
            }
            None => return Err(Errno::XDEV),
        };
        Ok(inode ^ (at as u64) << DEVICE_SHIFT)
    }

    fn node(&mut self, fd: OwnedFd, open: bool) -> Result<Node, Errno> {
        let stat = fs::fstat(&fd)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let path = self.qid_path(stat.st_dev, stat.st_ino)?;
        Ok(Node { fd, kind, qid: Qid { kind: qid_kind(kind), path }, open })
    }

    pub(super) fn root(&mut self) -> Result<Node, Errno> {
        let root = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        self.node(root, false)
    }

    /// Returns the file of that name in a directory; it may be of any kind.
    pub(super) fn child(&mut self, directory: &Node, name: Name<'_>) -> Result<Node, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let child = fs::openat2(&directory.fd, name.bytes(), flags, Mode::empty(), resolve)?;
        self.node(child, false)
    }

    /// Returns this file again, not open.
    pub(super) fn again(&mut self, node: &Node) -> Result<Node, Errno> {
        let fd = if node.open {
            self.reopen(node, OFlags::PATH)?
        } else {
            rustix::io::fcntl_dupfd_cloexec(&node.fd, 0)?
        };
        self.node(fd, false)
    }

    /// Opens the file of a descriptor once more.
    fn reopen(&self, node: &Node, flags: OFlags) -> Result<OwnedFd, Errno> {
        fs::openat(&self.handles, handle(node), flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Opens a file or a directory, with flags of `Tlopen`.
    pub(super) fn opened(&mut self, node: &Node, flags: u32) -> Result<Node, Errno> {
        let access = match flags & ACCESS {
            READ_ONLY => OFlags::RDONLY,
            1 => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        if access != OFlags::RDONLY || flags & TRUNCATE != 0 {
            self.check_writable()?;
        }
        let mut open = access | OFlags::NONBLOCK | OFlags::NOCTTY;
        open.set(OFlags::APPEND, flags & APPEND != 0);
        open.set(OFlags::TRUNC, flags & TRUNCATE != 0);
        if flags & SYNC != 0 {
            open |= OFlags::SYNC;
        } else if flags & DSYNC != 0 {
            open |= OFlags::DSYNC;
        }
        match node.kind {
            FileType::RegularFile if open.contains(OFlags::TRUNC) => self.drop_set_id(node)?,
            FileType::RegularFile => {}
            FileType::Directory => open |= OFlags::DIRECTORY,
            FileType::Symlink => return Err(Errno::LOOP),
            // The guest's kernel serves these kinds itself; here they could make belfry wait.
            _ => return Err(Errno::NXIO),
        }
        let fd = self.reopen(node, open)?;
        self.node(fd, true)
    }

    /// Makes and opens a file; an existing file is opened unless the flags exclude that.
    pub(super) fn create(
        &mut self,
        directory: &Node,
        name: Name<'_>,
        flags: u32,
        mode: u32,
        owner: Owner,
    ) -> Result<Node, Errno> {
        self.check_writable()?;
        let mode = permissions(mode, FileType::RegularFile)?;
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&directory.fd, name.bytes(), new, Mode::RUSR | Mode::WUSR, resolve) {
            Ok(fd) => {
                let made = self.node(fd, true)?;
                // The file is opened while its permissions still allow that.
                let opened = self.opened(&made, flags & !TRUNCATE)?;
                give(&made, owner)?;
                fs::fchmod(&made.fd, mode)?;
                Ok(opened)
            }
            Err(Errno::EXIST) if flags & EXCLUSIVE == 0 => {
                let there = self.child(directory, name)?;
                if there.kind == FileType::Directory {
                    return Err(Errno::ISDIR);
                }
                self.opened(&there, flags)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn make_directory(
        &mut self,
        directory: &Node,
        name: Name<'_>,
        mode: u32,
        owner: Owner,
    ) -> Result<Node, Errno> {
        self.check_writable()?;
        let mode = permissions(mode, FileType::Directory)?;
        fs::mkdirat(&directory.fd, name.bytes(), Mode::RWXU)?;
        self.finish(directory, name, Some(mode), owner)
    }

    /// Makes a symbolic link; this server never follows links.
    pub(super) fn make_symlink(
        &mut self,
        directory: &Node,
        name: Name<'_>,
        target: &[u8],
        owner: Owner,
    ) -> Result<Node, Errno> {
        self.check_writable()?;
        fs::symlinkat(target, &directory.fd, name.bytes())?;
        self.finish(directory, name, None, owner)
    }

    /// Makes a file, a pipe or a socket; devices stay with the host.
    pub(super) fn make_special(
        &mut self,
        directory: &Node,
        name: Name<'_>,
        mode: u32,
        owner: Owner,
    ) -> Result<Node, Errno> {
        self.check_writable()?;
        let kind = FileType::from_raw_mode(mode);
        let mode = permissions(mode, kind)?;
        match kind {
            FileType::RegularFile | FileType::Fifo | FileType::Socket => {
                fs::mknodat(&directory.fd, name.bytes(), kind, Mode::RUSR | Mode::WUSR, 0)?;
            }
            _ => return Err(Errno::PERM),
        }
        self.finish(directory, name, Some(mode), owner)
    }

    fn finish(
        &mut self,
        directory: &Node,
        name: Name<'_>,
        mode: Option<Mode>,
        owner: Owner,
    ) -> Result<Node, Errno> {
        let made = self.child(directory, name)?;
        give(&made, owner)?;
        if let Some(mode) = mode.filter(|_| made.kind != FileType::Symlink) {
            fs::chmodat(&self.handles, handle(&made), mode, AtFlags::empty())?;
        }
        Ok(made)
    }

    /// Gives a file another name.
    pub(super) fn link(&self, node: &Node, directory: &Node, name: Name<'_>) -> Result<(), Errno> {
        self.check_writable()?;
        fs::linkat(&self.handles, handle(node), &directory.fd, name.bytes(), AtFlags::SYMLINK_FOLLOW)
    }

    pub(super) fn rename(&self, from: (&Node, Name<'_>), to: (&Node, Name<'_>)) -> Result<(), Errno> {
        self.check_writable()?;
        fs::renameat(&from.0.fd, from.1.bytes(), &to.0.fd, to.1.bytes())
    }

    pub(super) fn unlink(&self, directory: &Node, name: Name<'_>, flags: u32) -> Result<(), Errno> {
        self.check_writable()?;
        let flags = match flags {
            0 => AtFlags::empty(),
            REMOVE_DIRECTORY => AtFlags::REMOVEDIR,
            _ => return Err(Errno::INVAL),
        };
        fs::unlinkat(&directory.fd, name.bytes(), flags)
    }

    pub(super) fn link_target(&self, node: &Node) -> Result<Vec<u8>, Errno> {
        if node.kind != FileType::Symlink {
            return Err(Errno::INVAL);
        }
        Ok(fs::readlinkat(&node.fd, "", Vec::new())?.into_bytes())
    }

    pub(super) fn attributes(&self, node: &Node) -> Result<Stat, Errno> {
        fs::fstat(&node.fd)
    }

    pub(super) fn file_system(&self, node: &Node) -> Result<StatFs, Errno> {
        fs::fstatfs(&node.fd)
    }

    pub(super) fn change(&self, node: &Node, changes: &Changes) -> Result<(), Errno> {
        self.check_writable()?;
        let mode = changes.mode.map(|mode| permissions(mode, node.kind)).transpose()?;
        if mode.is_some() && node.kind == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        if let Some(size) = changes.size {
            self.resize(node, size)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() || changes.changed {
            let (user, group) = (changes.uid.map(user).transpose()?, changes.gid.map(group).transpose()?);
            fs::chownat(&node.fd, "", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = mode {
            fs::chmodat(&self.handles, handle(node), mode, AtFlags::empty())?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            fs::utimensat(&self.handles, handle(node), &times, AtFlags::empty())?;
        }
        Ok(())
    }

    fn resize(&self, node: &Node, size: u64) -> Result<(), Errno> {
        match node.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.check_end(size)?;
        self.drop_set_id(node)?;
        // A client that has the file open for writing may do this even if the permissions have changed since.
        if node.open && fs::ftruncate(&node.fd, size).is_ok() {
            return Ok(());
        }
        fs::ftruncate(self.reopen(node, OFlags::WRONLY | OFlags::NONBLOCK)?, size)
    }

    pub(super) fn read(&self, node: &Node, data: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| rustix::io::pread(node.opened()?, &mut *data, offset))
    }

    pub(super) fn write(&self, node: &Node, data: &[u8], offset: u64) -> Result<usize, Errno> {
        self.check_writable()?;
        self.check_end(offset.saturating_add(data.len() as u64))?;
        node.opened()?;
        self.drop_set_id(node)?;
        rustix::io::retry_on_intr(|| rustix::io::pwrite(node.opened()?, data, offset))
    }

    /// Removes the set-user-ID and set-group-ID bits of a file that is about to be changed, as Linux does for every
    /// user but root (`should_remove_suid`, `fs/attr.c`). A guest writes with this process's rights, which may be
    /// root's.
    fn drop_set_id(&self, node: &Node) -> Result<(), Errno> {
        if node.kind != FileType::RegularFile {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(fs::fstat(&node.fd)?.st_mode) & Mode::from_raw_mode(PERMISSIONS);
        let mut kept = mode - Mode::SUID;
        // Without execution for the group, the bit used to mean something else: mandatory locks.
        if mode.contains(Mode::XGRP) {
            kept -= Mode::SGID;
        }
        if kept == mode {
            return Ok(());
        }
        match fs::chmodat(&self.handles, handle(node), kept, AtFlags::empty()) {
            // The file is another user's; then the kernel removes the bits.
            Err(Errno::PERM) => Ok(()),
            changed => changed,
        }
    }

    pub(super) fn sync(&self, node: &Node, data_only: bool) -> Result<(), Errno> {
        let fd = node.opened()?;
        if data_only { fs::fdatasync(fd) } else { fs::fsync(fd) }
    }

    /// Passes the entries of an open directory to `each` from a position on, until there are no more or `each`
    /// refuses one: the entry's qid path, the position after it, its kind as `getdents64` has it, and its name.
    pub(super) fn entries(
        &mut self,
        node: &Node,
        position: u64,
        mut each: impl FnMut(Qid, u64, u8, &[u8]) -> bool,
    ) -> Result<(), Errno> {
        let device = fs::fstat(node.opened()?)?.st_dev;
        fs::seek(&node.fd, SeekFrom::Start(position))?;
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
        let mut entries = RawDir::new(&node.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let kind = entry.file_type();
            let path = self.qid_path(device, entry.ino())?;
            let number = match kind {
                FileType::Unknown => 0,
                // The values of DT_* are the bits of the mode.
                kind => (kind.as_raw_mode() >> 12) as u8,
            };
            let qid = Qid { kind: qid_kind(kind), path };
            if !each(qid, entry.next_entry_cookie(), number, entry.file_name().to_bytes()) {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the name of a file's descriptor in `/proc/self/fd`.
fn handle(node: &Node) -> String {
    node.fd.as_raw_fd().to_string()
}

/// Returns the permissions to set, or an error: a program with its owner's rights would let the guest act as this
/// user on the host.
fn permissions(mode: u32, kind: FileType) -> Result<Mode, Errno> {
    if mode & SET_ID != 0 && kind != FileType::Directory {
        return Err(Errno::PERM);
    }
    Ok(Mode::from_raw_mode(mode & PERMISSIONS))
}

/// Gives a new file to its owner; a user that may not do that keeps it.
fn give(node: &Node, owner: Owner) -> Result<(), Errno> {
    let user = owner.user.map(user).transpose()?;
    match fs::chownat(&node.fd, "", user, Some(group(owner.group)?), AtFlags::EMPTY_PATH) {
        Err(Errno::PERM) => Ok(()),
        given => given,
    }
}

/// Returns a user's number; the kernel takes the largest one as none.
fn user(number: u32) -> Result<Uid, Errno> {
    if number == !0 { Err(Errno::INVAL) } else { Ok(Uid::from_raw(number)) }
}

fn group(number: u32) -> Result<Gid, Errno> {
    if number == !0 { Err(Errno::INVAL) } else { Ok(Gid::from_raw(number)) }
}

fn timespec(time: Option<Time>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(Time::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(Time::At(seconds, nanoseconds)) => {
            Timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanoseconds.cast_signed() }
        }
    }
}
