//! Messages of 9P2000.L as bytes: numbers and layouts of Linux's `include/net/9p/9p.h` and `net/9p/protocol.c`.

use rustix::io::Errno;

/// Size, kind and tag: the header of every message.
pub(super) const HEADER: usize = 7;

/// The largest message; belfry's init asks for this size.
pub(super) const LONGEST: u32 = 256 << 10;
/// The smallest size of messages that a client may ask for.
pub(super) const SHORTEST: u32 = 4096;
/// Bytes of a reply to `Tread` or `Treaddir` before the data: the header, and a count.
pub(super) const DATA: usize = HEADER + 4;
/// Largest number of names of one walk (`P9_MAXWELEM`).
pub(super) const WALK: u16 = 16;
/// The longest name Linux has.
const NAME: usize = 255;
/// Number that stands for no fid and no user (`P9_NOFID`, `P9_NONUNAME`).
pub(super) const NONE: u32 = !0;
/// The protocol.
pub(super) const VERSION: &[u8] = b"9P2000.L";

/// Requests; the reply to one has the next number (`enum p9_msg_t`).
pub(super) mod request {
    pub(in super::super) const STATFS: u8 = 8;
    pub(in super::super) const LOPEN: u8 = 12;
    pub(in super::super) const LCREATE: u8 = 14;
    pub(in super::super) const SYMLINK: u8 = 16;
    pub(in super::super) const MKNOD: u8 = 18;
    pub(in super::super) const READLINK: u8 = 22;
    pub(in super::super) const GETATTR: u8 = 24;
    pub(in super::super) const SETATTR: u8 = 26;
    pub(in super::super) const READDIR: u8 = 40;
    pub(in super::super) const FSYNC: u8 = 50;
    pub(in super::super) const LOCK: u8 = 52;
    pub(in super::super) const GETLOCK: u8 = 54;
    pub(in super::super) const LINK: u8 = 70;
    pub(in super::super) const MKDIR: u8 = 72;
    pub(in super::super) const RENAMEAT: u8 = 74;
    pub(in super::super) const UNLINKAT: u8 = 76;
    pub(in super::super) const VERSION: u8 = 100;
    pub(in super::super) const ATTACH: u8 = 104;
    pub(in super::super) const FLUSH: u8 = 108;
    pub(in super::super) const WALK: u8 = 110;
    pub(in super::super) const READ: u8 = 116;
    pub(in super::super) const WRITE: u8 = 118;
    pub(in super::super) const CLUNK: u8 = 120;
    pub(in super::super) const REMOVE: u8 = 122;
}

/// Number of the reply to a request that failed.
const LERROR: u8 = 7;

/// Identity of a file: 13 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Qid {
    /// `P9_QTDIR`, `P9_QTSYMLINK` or neither.
    pub(super) kind: u8,
    pub(super) path: u64,
}

impl Qid {
    pub(super) const DIRECTORY: u8 = 0x80;
    pub(super) const SYMLINK: u8 = 0x02;
    pub(super) const SIZE: usize = 13;
}

/// The name of a file in a directory: one component, which is neither the directory nor the one above it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    pub(super) fn new(name: &'a [u8]) -> Result<Self, Errno> {
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|&byte| matches!(byte, b'/' | 0)) {
            return Err(Errno::INVAL);
        }
        if name.len() > NAME { Err(Errno::NAMETOOLONG) } else { Ok(Self(name)) }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The fields of a request, one after the other; a missing field is [`Errno::PROTO`].
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::PROTO)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Errno> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Errno> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Errno::PROTO)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn string(&mut self) -> Result<&'a [u8], Errno> {
        let length = self.u16()?;
        self.bytes(length.into())
    }

    pub(super) fn name(&mut self) -> Result<Name<'a>, Errno> {
        Name::new(self.string()?)
    }
}

/// A reply that is being made.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    pub(super) fn new(kind: u8, tag: u16) -> Self {
        let mut reply = Self(vec![0; 4]);
        reply.u8(kind);
        reply.u16(tag);
        reply
    }

    /// Returns the reply to a request that failed.
    pub(super) fn error(tag: u16, error: Errno) -> Vec<u8> {
        let mut reply = Self::new(LERROR, tag);
        reply.u32(error.raw_os_error().cast_unsigned());
        reply.finish()
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn qid(&mut self, qid: Qid) {
        self.u8(qid.kind);
        // No client of 9P2000.L reads the version.
        self.u32(0);
        self.u64(qid.path);
    }

    /// Writes a string; its length has to fit 16 bits.
    pub(super) fn string(&mut self, text: &[u8]) -> Result<(), Errno> {
        self.u16(u16::try_from(text.len()).map_err(|_| Errno::NAMETOOLONG)?);
        self.0.extend(text);
        Ok(())
    }

    /// Lets `fill` make up to `most` bytes of data; their count precedes them.
    pub(super) fn data(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let start = self.0.len() + 4;
        self.0.resize(start + most, 0);
        let count = fill(&mut self.0[start..])?;
        self.0.truncate(start + count);
        self.0[start - 4..start].copy_from_slice(&(count as u32).to_le_bytes());
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let size = self.0.len() as u32;
        self.0[..4].copy_from_slice(&size.to_le_bytes());
        self.0
    }
}
