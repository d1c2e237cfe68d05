//! Check that a qcow2 file holds all that its tables name: a file that was cut short would read as zeroes after its
//! end.
//!
//! Layout: QEMU `docs/interop/qcow2.txt`, "Header", "Cluster mapping".

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Offsets of the header's fields.
const VERSION: usize = 4;
const CLUSTER_BITS: usize = 20;
const L1_SIZE: usize = 36;
const L1_TABLE_OFFSET: usize = 40;
/// Bytes of the oldest header.
const HEADER: usize = 72;
/// Range of a cluster's size, as the power of two: 512 bytes to 2 MiB.
const CLUSTERS: std::ops::RangeInclusive<u32> = 9..=21;
/// Largest number of entries of the L1 table: imago opens no larger one.
const L1_ENTRIES: u32 = 4 << 20;

/// Largest number of bytes of second tables that are read: those of a full disk of 32 TiB with clusters of the usual
/// size.
const MOST: u64 = 4 << 30;
/// Bytes of these tables that are read at a time.
const PIECE: u64 = 1 << 16;

const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;

/// Reasons why the tables are refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    /// Clusters have another size than the format allows.
    #[error("its clusters have 2^{0} bytes; must be 2^9 to 2^21")]
    ClusterSize(u32),
    /// The first table is larger than is opened.
    #[error("its first table has {0} entries; there can be {L1_ENTRIES}")]
    FirstTable(u32),
    /// The second tables are larger than is read.
    #[error("its tables have more than {} GiB, which is more than is read of them", MOST >> 30)]
    Tables,
    /// Data and holes cannot be told apart.
    #[error("its holes cannot be found: {0}")]
    Holes(Errno),
    /// A table or cluster begins within a cluster.
    #[error("{what} is at {offset:#x}, where no cluster starts: its tables are corrupt")]
    Unaligned {
        /// The table or cluster.
        what: String,
        /// Its offset in the file.
        offset: u64,
    },
    /// A table or cluster begins after the file's end.
    #[error("{what} is at byte {offset:#x}, but the file ends at {length:#x}: it is cut short")]
    Outside {
        /// The table or cluster.
        what: String,
        /// Its offset in the file.
        offset: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// The header or a table ends after the file's end.
    #[error(
        "its {what} of {bytes:#x} bytes at {offset:#x} does not fit its {length:#x} bytes: it is cut short"
    )]
    DoesNotFit {
        /// `header` or `table`.
        what: &'static str,
        /// Its bytes.
        bytes: u64,
        /// Its offset in the file.
        offset: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// The header or a table cannot be read.
    #[error("its {what} at {offset:#x} cannot be read: {source}")]
    Read {
        /// `header` or `table`.
        what: &'static str,
        /// Its offset in the file.
        offset: u64,
        /// Error of the system.
        source: io::Error,
    },
}

/// Checks that the clusters in the tables are in the file, which has `length` bytes; the error names one that is not.
pub(super) fn check(file: &File, length: u64) -> Result<(), TableError> {
    let mut header = [0; HEADER];
    read(file, &mut header, 0, "header", length)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let bits = word(CLUSTER_BITS);
    if !CLUSTERS.contains(&bits) {
        return Err(TableError::ClusterSize(bits));
    }
    if word(L1_SIZE) > L1_ENTRIES {
        return Err(TableError::FirstTable(word(L1_SIZE)));
    }
    let tables = Tables { file, length, bits, zeroes: word(VERSION) >= 3 };
    let l1 = u64::from(word(L1_TABLE_OFFSET)) << 32 | u64::from(word(L1_TABLE_OFFSET + 4));
    let (mut seen, mut left) = (HashSet::new(), MOST);
    for (index, entry) in tables.read(l1, word(L1_SIZE) as usize)?.into_iter().enumerate() {
        let l2 = entry & OFFSET;
        if l2 == 0 || !seen.insert(l2) {
            continue;
        }
        tables.check_cluster(l2, || format!("table {index}"))?;
        tables.check_table(index, l2, &mut left)?;
    }
    Ok(())
}

struct Tables<'a> {
    file: &'a File,
    length: u64,
    bits: u32,
    /// True if entries have a flag for clusters of zeroes.
    zeroes: bool,
}

impl Tables<'_> {
    fn read(&self, offset: u64, entries: usize) -> Result<Vec<u64>, TableError> {
        let mut bytes = vec![0; entries * 8];
        read(self.file, &mut bytes, offset, "table", self.length)?;
        let entry = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        Ok(bytes.chunks_exact(8).map(entry).collect())
    }

    /// Checks a second table; only its parts that are no holes of the file are read, as entries in holes are zero.
    /// `left` is the number of bytes of tables that may still be read.
    fn check_table(&self, index: usize, at: u64, left: &mut u64) -> Result<(), TableError> {
        let end = at + (1 << self.bits);
        if end > self.length {
            let (bytes, length) = (1 << self.bits, self.length);
            return Err(TableError::DoesNotFit { what: "table", bytes, offset: at, length });
        }
        let mut next = self.data_from(at)?;
        while next < end {
            let length = PIECE.min(end - next);
            *left = left.checked_sub(length).ok_or(TableError::Tables)?;
            let first = (next - at) / 8;
            for (number, entry) in (first..).zip(self.read(next, (length / 8) as usize)?) {
                self.check_entry(entry, || format!("cluster {number} of table {index}"))?;
            }
            next = self.data_from(next + length)?;
        }
        Ok(())
    }

    /// Returns the first offset from `at` on at which the file has data, rounded down to an entry; an offset after
    /// the file's end if there is none.
    fn data_from(&self, at: u64) -> Result<u64, TableError> {
        match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
            Ok(found) => Ok((found & !7).max(at)),
            Err(Errno::NXIO) => Ok(u64::MAX),
            // A device, or a file system that knows of no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(at),
            Err(error) => Err(TableError::Holes(error)),
        }
    }

    fn check_entry(&self, entry: u64, what: impl Fn() -> String) -> Result<(), TableError> {
        if entry & COMPRESSED != 0 {
            let offset = entry & ((1 << (62 - (self.bits - 8))) - 1);
            return if offset < self.length { Ok(()) } else { Err(self.outside(offset, what())) };
        }
        let offset = entry & OFFSET;
        if offset == 0 || self.zeroes && entry & ZERO != 0 {
            Ok(())
        } else {
            self.check_cluster(offset, what)
        }
    }

    /// Checks one cluster; the last cluster of the file may be written in part.
    fn check_cluster(&self, offset: u64, what: impl Fn() -> String) -> Result<(), TableError> {
        if !offset.is_multiple_of(1 << self.bits) {
            return Err(TableError::Unaligned { what: what(), offset });
        }
        if offset < self.length { Ok(()) } else { Err(self.outside(offset, what())) }
    }

    fn outside(&self, offset: u64, what: String) -> TableError {
        TableError::Outside { what, offset, length: self.length }
    }
}

fn read(
    file: &File,
    bytes: &mut [u8],
    offset: u64,
    what: &'static str,
    length: u64,
) -> Result<(), TableError> {
    file.read_exact_at(bytes, offset).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => {
            TableError::DoesNotFit { what, bytes: bytes.len() as u64, offset, length }
        }
        _ => TableError::Read { what, offset, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a file with clusters of 64 KiB, whose first table is at 64 KiB and has `tables` entries.
    fn image(length: u64, tables: u32) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        let mut header = [0; HEADER];
        header[VERSION + 3] = 3;
        header[CLUSTER_BITS + 3] = 16;
        header[L1_SIZE..L1_SIZE + 4].copy_from_slice(&tables.to_be_bytes());
        header[L1_TABLE_OFFSET..L1_TABLE_OFFSET + 8].copy_from_slice(&0x1_0000_u64.to_be_bytes());
        file.write_all_at(&header, 0).unwrap();
        file
    }

    fn put(file: &File, at: u64, entry: u64) {
        file.write_all_at(&entry.to_be_bytes(), at).unwrap();
    }

    /// Checks a file whose tables are all holes; together they have as many bytes as the file.
    #[test]
    fn tables_in_holes_are_not_read() {
        let (length, tables) = (64 << 30, (1 << 20) - 16);
        let file = image(length, tables);
        let first: Vec<u8> = (0..u64::from(tables)).flat_map(|n| ((n + 16) << 16).to_be_bytes()).collect();
        file.write_all_at(&first, 0x1_0000).unwrap();
        // The first second tables lie in the first table, whose entries are valid there, too.
        let before = read_bytes();
        check(&file, length).unwrap();
        let read = read_bytes() - before;
        assert!(read < 64 << 20, "{read} bytes");
        // A part that is no hole is checked.
        put(&file, (40 << 16) + 0x208, length + 0x1_0000);
        let error = check(&file, length).unwrap_err().to_string();
        assert!(error.contains("cluster 65 of table") && error.contains("cut short"), "{error}");
    }

    /// Returns the bytes that this thread has read (`proc_pid_io(5)`).
    fn read_bytes() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap()
    }

    #[test]
    fn entries_behind_holes_are_numbered_as_in_the_table() {
        let file = image(16 << 20, 1);
        put(&file, 0x1_0000, 0x10_0000);
        put(&file, 0x10_8000, 0x20_0000);
        check(&file, 16 << 20).unwrap();
        put(&file, 0x10_fff8, 0x20_0200);
        let error = check(&file, 16 << 20).unwrap_err().to_string();
        assert!(error.starts_with("cluster 8191 of table 0 is at 0x200200"), "{error}");
        // A table that ends after the file's end.
        put(&file, 0x1_0000, (16 << 20) - 0x1_0000);
        check(&file, 16 << 20).unwrap();
        let error = check(&file, (16 << 20) - 8).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
    }
}
