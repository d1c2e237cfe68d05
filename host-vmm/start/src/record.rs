//! The record of a start: conditions, and the arguments and environment that the program gets.
//!
//! A file is [`MAGIC`] and a list of entries: [kind](self#constants) (one byte), length of the value (four bytes, little-endian), the
//! value, and a zero byte, so that a path is a C string where it lies. The last entry is [`END`].

/// First bytes of the file; the number is the version of its layout.
pub const MAGIC: &[u8; 8] = b"belfry01";
/// Bytes that a record has at most: a longer one is not read.
pub const MAX_SIZE: usize = 16 << 10;
/// Bytes of `/proc/self/cgroup` that are compared: a longer one is not recorded.
pub const MAX_CGROUP: usize = 2048;

/// Options of the command line, each followed by a zero byte: the same.
pub const OPTIONS: u8 = b'o';
/// Identity of the binary's file ([`Identity`]): the same.
pub const BINARY: u8 = b'b';
/// Bytes of memory that the machine has, as eight bytes: the same.
pub const MEMORY: u8 = b'm';
/// Result of `sched_getaffinity`: the same.
pub const PROCESSORS: u8 = b'p';
/// Content of `/proc/self/cgroup`, on which the number of processors depends, too: the same.
pub const CGROUP: u8 = b'g';
/// A path that is there.
pub const PRESENT: u8 = b'+';
/// A path that is not there.
pub const ABSENT: u8 = b'-';
/// Text for standard error.
pub const NOTICE: u8 = b'n';
/// A variable of the environment, `NAME=value`, which replaces one of that name.
pub const VARIABLE: u8 = b'v';
/// A variable that the program does not get, `NAME=`.
pub const WITHOUT: u8 = b'w';
/// The end.
pub const END: u8 = b'.';

/// Identity of a binary's file: device, inode, size, seconds and nanoseconds of its last change.
pub type Identity = [u64; 5];

/// The bytes of an identity in a record.
#[must_use]
pub const fn identity_bytes(identity: &Identity) -> [u8; 40] {
    let mut bytes = [0; 40];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (identity[at / 8] >> (at % 8 * 8)) as u8;
        at += 1;
    }
    bytes
}

/// A hash of options and binary, which the file is named by (FNV-1a of 64 bits; [`FNV_START`] first).
#[must_use]
pub const fn hash(so_far: u64, byte: u8) -> u64 {
    (so_far ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

/// First value of [`hash`].
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// First part of a record's name, in the directory of `belfry exec`; 16 hexadecimal digits of the hash follow.
pub const NAME: &str = "start-";

/// One hexadecimal digit.
#[must_use]
pub const fn digit(value: u8) -> u8 {
    let value = value & 0xf;
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}
