//! Attributes of files: `struct p9_stat_dotl` and `struct p9_iattr_dotl` of Linux's `include/net/9p/9p.h`.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::wire::{Fields, Qid, Reply};

/// Attributes that are reported: all that `stat` has (`P9_STATS_BASIC`).
const BASIC: u64 = 0x7ff;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Attributes that a request sets (`P9_ATTR_*` of `fs/9p/vfs_inode_dotl.c`).
const MODE: u32 = 1 << 0;
const UID: u32 = 1 << 1;
const GID: u32 = 1 << 2;
const SIZE: u32 = 1 << 3;
const ATIME: u32 = 1 << 4;
const MTIME: u32 = 1 << 5;
const CTIME: u32 = 1 << 6;
const ATIME_SET: u32 = 1 << 7;
const MTIME_SET: u32 = 1 << 8;
const ALL: u32 = (1 << 9) - 1;

/// A time to set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Time {
    Now,
    At(u64, u64),
}

/// Attributes of a file to set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Changes {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<Time>,
    pub(super) modified: Option<Time>,
    /// True to set the time of the last change of attributes to now; other changes do that by themselves.
    pub(super) changed: bool,
}

impl Changes {
    /// Reads the fields of `Tsetattr` after the fid.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Errno> {
        let which = fields.u32()?;
        let (mode, uid, gid, size) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u64()?);
        let (accessed, modified) = ([fields.u64()?, fields.u64()?], [fields.u64()?, fields.u64()?]);
        if which & !ALL != 0 {
            return Err(Errno::INVAL);
        }
        let time = |bit, given, [seconds, nanoseconds]: [u64; 2]| match which & (bit | given) {
            both if both == bit | given && nanoseconds < SECOND => Ok(Some(Time::At(seconds, nanoseconds))),
            0 => Ok(None),
            only if only == bit => Ok(Some(Time::Now)),
            _ => Err(Errno::INVAL),
        };
        let has = |bit| which & bit != 0;
        Ok(Self {
            mode: has(MODE).then_some(mode),
            uid: has(UID).then_some(uid),
            gid: has(GID).then_some(gid),
            size: has(SIZE).then_some(size),
            accessed: time(ATIME, ATIME_SET, accessed)?,
            modified: time(MTIME, MTIME_SET, modified)?,
            changed: has(CTIME),
        })
    }
}

/// Writes the reply to `Tgetattr`; it has no times of birth, no generations and no versions.
pub(super) fn write(reply: &mut Reply, qid: Qid, stat: &Stat) {
    reply.u64(BASIC);
    reply.qid(qid);
    for word in [stat.st_mode, stat.st_uid, stat.st_gid] {
        reply.u32(word);
    }
    for word in [stat.st_nlink, stat.st_rdev, stat.st_size.cast_unsigned()] {
        reply.u64(word);
    }
    reply.u64(stat.st_blksize.cast_unsigned());
    reply.u64(stat.st_blocks.cast_unsigned());
    for (seconds, nanoseconds) in [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
        (0, 0),
    ] {
        reply.u64(seconds.cast_unsigned());
        reply.u64(nanoseconds);
    }
    reply.u64(0);
    reply.u64(0);
}

/// Returns the kind of a file as a qid has it.
pub(super) fn qid_kind(kind: FileType) -> u8 {
    match kind {
        FileType::Directory => Qid::DIRECTORY,
        FileType::Symlink => Qid::SYMLINK,
        _ => 0,
    }
}
