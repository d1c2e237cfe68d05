//! Whether a qcow2 file holds all that its tables name: a file cut short would read as zeroes where it ends.
//!
//! Layout: QEMU `docs/interop/qcow2.txt`, "Header", "Cluster mapping".

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Fields of the header: offsets.
const VERSION: usize = 4;
const CLUSTER_BITS: usize = 20;
const L1_SIZE: usize = 36;
const L1_TABLE_OFFSET: usize = 40;
/// Bytes of the oldest header.
const HEADER: usize = 72;
/// What a cluster has: 512 bytes to 2 MiB.
const CLUSTERS: std::ops::RangeInclusive<u32> = 9..=21;
/// Entries of the L1 table: what imago opens.
const L1_ENTRIES: u32 = 4 << 20;

const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;

/// Checks that the clusters the tables name are in the file, which has `length` bytes; else says what is not.
pub(super) fn check(file: &File, length: u64) -> Result<(), String> {
    let mut header = [0; HEADER];
    read(file, &mut header, 0, "header", length)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let bits = word(CLUSTER_BITS);
    if !CLUSTERS.contains(&bits) {
        return Err(format!("its clusters have 2^{bits} bytes; must be 2^9 to 2^21"));
    }
    if word(L1_SIZE) > L1_ENTRIES {
        return Err(format!("its first table has {} entries; there can be {L1_ENTRIES}", word(L1_SIZE)));
    }
    let tables = Tables { file, length, bits, zeroes: word(VERSION) >= 3 };
    let l1 = u64::from(word(L1_TABLE_OFFSET)) << 32 | u64::from(word(L1_TABLE_OFFSET + 4));
    let mut seen = HashSet::new();
    for (index, entry) in tables.read(l1, word(L1_SIZE) as usize)?.into_iter().enumerate() {
        let l2 = entry & OFFSET;
        if l2 == 0 || !seen.insert(l2) {
            continue;
        }
        let what = || format!("table {index}");
        tables.check_cluster(l2, what)?;
        for (at, entry) in tables.read(l2, 1 << (bits - 3))?.into_iter().enumerate() {
            tables.check_entry(entry, || format!("cluster {at} of table {index}"))?;
        }
    }
    Ok(())
}

struct Tables<'a> {
    file: &'a File,
    length: u64,
    bits: u32,
    /// Entries have a flag for clusters of zeroes.
    zeroes: bool,
}

impl Tables<'_> {
    fn read(&self, offset: u64, entries: usize) -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; entries * 8];
        read(self.file, &mut bytes, offset, "table", self.length)?;
        let entry = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        Ok(bytes.chunks_exact(8).map(entry).collect())
    }

    fn check_entry(&self, entry: u64, what: impl Fn() -> String) -> Result<(), String> {
        if entry & COMPRESSED != 0 {
            let offset = entry & ((1 << (62 - (self.bits - 8))) - 1);
            return if offset < self.length { Ok(()) } else { Err(self.cut_short(offset, &what())) };
        }
        let offset = entry & OFFSET;
        if offset == 0 || self.zeroes && entry & ZERO != 0 {
            Ok(())
        } else {
            self.check_cluster(offset, what)
        }
    }

    /// The last cluster may be written in part.
    fn check_cluster(&self, offset: u64, what: impl Fn() -> String) -> Result<(), String> {
        if !offset.is_multiple_of(1 << self.bits) {
            return Err(format!(
                "{} is at {offset:#x}, where no cluster starts: its tables are corrupt",
                what()
            ));
        }
        if offset < self.length { Ok(()) } else { Err(self.cut_short(offset, &what())) }
    }

    fn cut_short(&self, offset: u64, what: &str) -> String {
        format!("{what} is at byte {offset:#x}, but the file ends at {:#x}: it is cut short", self.length)
    }
}

fn read(file: &File, bytes: &mut [u8], offset: u64, what: &str, length: u64) -> Result<(), String> {
    file.read_exact_at(bytes, offset).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!(
            "its {what} of {:#x} bytes at {offset:#x} does not fit its {length:#x} bytes: it is cut short",
            bytes.len()
        ),
        _ => format!("its {what} at {offset:#x} cannot be read: {error}"),
    })
}
