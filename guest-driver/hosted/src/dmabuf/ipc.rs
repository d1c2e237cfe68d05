//! Handles of shared memory without a descriptor: two commands of AMD's own kernel module that Linux does not have.
//!
//! ROCr asks for them first. A handle says where in `/proc` the exporter's file of memory is, and where in that the record
//! is. It is valid while the exporter has the buffer object, as with that module, and for processes of the same user.

use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;

use belfry_kfd_core::os::PAGE_SIZE;
use belfry_kfd_core::{Errno, Result};

use super::descriptor::LINK;
use super::{Descriptor, Exports, SharedFile, errno};
use crate::keeper::Kept;
use crate::ofd;

/// The part of a record's key that a handle has room for.
fn short(key: u32) -> u32 {
    key & 0xffff
}

/// Takes over a descriptor that the driver has just made.
#[expect(unsafe_code, reason = "takes over a descriptor")]
fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: the driver has made it for the caller alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Exports {
    /// Makes a handle of the memory of `fd`, a new descriptor. The handle is valid until the value returned with it is
    /// dropped.
    pub(crate) fn handle(&self, fd: RawFd, flags: u32) -> Result<(Kept, [u32; 4])> {
        let fd = owned(fd);
        let descriptor = Descriptor::of(fd.as_raw_fd())?;
        let at = descriptor.place();
        let kept = self.keeper.keep_record(fd.as_raw_fd(), at).map_err(|error| errno(&error))?;
        let (task, number) = kept.place();
        let number = u16::try_from(number).map_err(|_| Errno::EMFILE)?;
        let page = u32::try_from(at / PAGE_SIZE).map_err(|_| Errno::ENOMEM)?;
        self.set_ipc_flags(&descriptor, flags);
        let words =
            [std::process::id(), task as u32, u32::from(number) << 16 | short(descriptor.record().key), page];
        Ok((kept, words))
    }

    /// Opens the memory of a handle: a descriptor, and the flags that the exporter has given.
    pub(crate) fn open_handle(&self, [process, task, number, page]: [u32; 4]) -> Result<(File, Descriptor)> {
        let path = format!("/proc/{process}/task/{task}/fd/{}", number >> 16);
        // A handle that was made up may lead anywhere, and opening some files does something.
        if !std::fs::read_link(&path).is_ok_and(|link| link.as_os_str() == LINK) {
            return Err(Errno::EINVAL);
        }
        let file = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path);
        let file = file.map_err(|_| Errno::EINVAL)?;
        ofd::hold(&file, u64::from(page) * PAGE_SIZE).map_err(|_| Errno::EINVAL)?;
        let descriptor = Descriptor::of(file.as_raw_fd())?;
        if short(descriptor.record().key) != short(number) {
            return Err(Errno::EINVAL);
        }
        Ok((file, descriptor))
    }

    /// The file of a descriptor's memory, for maps through the render node.
    pub(crate) fn shared_file(&self, descriptor: &Descriptor) -> Result<SharedFile> {
        SharedFile::new(descriptor, &self.keeper).map_err(|error| errno(&error))
    }
}
