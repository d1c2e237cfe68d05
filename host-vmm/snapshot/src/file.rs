//! The file of a snapshot: a head, the state of a machine or of a device alone, and memory that is mapped as it lies there.
//!
//! | from | contents |
//! | --- | --- |
//! | 0 | `belfrySN`, version (32 bits), bytes of a page (32 bits), bytes of the head (64 bits), its digest (64 bits), all little endian |
//! | 32 | the head ([`Head`]), in the format of postcard |
//! | next page | the state |
//! | next page | guest memory, lowest address first; of a device alone, the memory of its process that the device
//! reaches |
//! | next page | VRAM |
//!
//! Pages of zeros are holes of the file. Digests find damage; they do not stop an attacker who makes them match, so
//! every reader of the contents checks the values itself. Memory is checked only on request: it is mapped, not read.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use belfry_device::record::digest;
use serde::{Deserialize, Serialize};

/// First bytes of every file.
const MAGIC: [u8; 8] = *b"belfrySN";
/// Version of head and state. It changes whenever a type in them changes; a program reads only its own version.
const VERSION: u32 = 4;
/// Bytes of a page.
pub const PAGE: usize = 4096;
const FIXED: usize = 32;
/// Longest head, and longest state: those of a machine are far shorter.
const MAX_HEAD: u64 = 64 << 10;
const MAX_STATE: u64 = 1 << 30;
/// Most memory, of the guest or of the GPU.
const MAX_MEMORY: u64 = 1 << 40;

/// Reason why a file is no usable snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The file is no snapshot.
    #[error("it is no snapshot of a machine or a GPU")]
    Magic,
    /// The file is of another version.
    #[error(
        "it has version {found}, and this program reads {VERSION}: resume it with the release that wrote it"
    )]
    Version {
        /// Version of the file.
        found: u32,
    },
    /// The snapshot is of something else.
    #[error("it is a snapshot of {found}, and not of {wanted}: {fix}", fix = .found.fix())]
    Kind {
        /// Kind of the snapshot.
        found: Kind,
        /// Kind that the caller wants.
        wanted: Kind,
    },
    /// The snapshot is of another release, which may have another device.
    #[error("release {found} of belfry wrote it, and this is {}: resume it with that one", env!("CARGO_PKG_VERSION"))]
    Release {
        /// Release that wrote it.
        found: String,
    },
    /// The file ends too early, or goes on after its end.
    #[error("it has {has} bytes, and should have {needs}: it was cut off, or is not written to its end")]
    Length {
        /// Bytes there are.
        has: u64,
        /// Bytes there should be.
        needs: u64,
    },
    /// A part of it is not as it was written.
    #[error("its {part} is damaged")]
    Damaged {
        /// Name of the part.
        part: &'static str,
    },
    /// A value that no snapshot has.
    #[error("its {what} is {value}, which cannot be")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: u64,
    },
}

/// Kind of a snapshot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Kind {
    /// A machine with its GPU.
    Machine,
    /// The GPU of a hosted program, alone.
    Hosted,
}

impl Kind {
    /// Returns the way to use such a snapshot.
    fn fix(self) -> &'static str {
        match self {
            Self::Machine => "go on from it with --mode kvm",
            Self::Hosted => "go on from it with --mode hosted",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Machine => "a machine",
            Self::Hosted => "the GPU of a hosted program",
        })
    }
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Section {
    /// Offset of its first byte.
    pub at: u64,
    /// Length in bytes.
    pub length: u64,
    /// For memory: number of pages that are not all zero.
    pub pages: u64,
    /// For memory: sum of the digests of these pages and their numbers.
    pub digest: u64,
}

/// Kind of a snapshot, and the places of its parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Head {
    /// Release that wrote it.
    pub release: String,
    /// Kind.
    pub kind: Kind,
    /// Name of the GPU's chip; empty without a GPU.
    pub chip: String,
    /// vCPUs; a device alone has none.
    pub cpus: u8,
    /// Waves that had begun and not ended.
    pub waves: u64,
    /// Place of the state.
    pub state: Section,
    /// Place of guest memory, or of the memory of a hosted program's process that its device reaches.
    pub ram: Section,
    /// Place of VRAM; empty without a GPU.
    pub vram: Section,
}

impl Head {
    /// Returns the offset of the first byte after everything.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.vram.at + self.vram.length
    }

    /// Refuses a snapshot of another kind.
    ///
    /// # Errors
    ///
    /// [`FileError::Kind`] for a snapshot of another kind.
    pub fn expect(&self, wanted: Kind) -> Result<(), FileError> {
        if self.kind == wanted { Ok(()) } else { Err(FileError::Kind { found: self.kind, wanted }) }
    }

    fn check(&self) -> Result<(), FileError> {
        let page = PAGE as u64;
        let parts = [
            ("place of the state", self.state, MAX_STATE, false),
            ("place of guest memory", self.ram, MAX_MEMORY, true),
            ("place of VRAM", self.vram, MAX_MEMORY, true),
        ];
        let mut end = FIXED as u64;
        for (what, section, most, pages) in parts {
            let aligned = section.at.is_multiple_of(page) && (!pages || section.length.is_multiple_of(page));
            if !aligned || section.at < end || section.at > 4 * MAX_MEMORY || section.length > most {
                return Err(FileError::Value { what, value: section.at });
            }
            end = section.at + section.length;
        }
        Ok(())
    }
}

/// Returns the digest of a page of memory, as part of a sum.
pub fn page_digest(number: u64, page: &[u8]) -> u64 {
    digest(page) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the beginning of a file: everything up to the state.
///
/// # Errors
///
/// A head that is too long.
pub fn first_bytes(head: &Head) -> io::Result<Vec<u8>> {
    let encoded = postcard::to_allocvec(head).map_err(io::Error::other)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((PAGE as u32).to_le_bytes());
    bytes.extend((encoded.len() as u64).to_le_bytes());
    bytes.extend(digest(&encoded).to_le_bytes());
    bytes.extend(encoded);
    Ok(bytes)
}

/// Reads the head, which is not trusted, and checks it against the length of the file.
///
/// # Errors
///
/// The errors of [`FileError`].
pub fn read_head(file: &File) -> Result<Head, FileError> {
    let has = length(&file.metadata()?)?;
    let mut fixed = [0; FIXED];
    let begun = usize::try_from(has).unwrap_or(FIXED).min(FIXED);
    file.read_exact_at(&mut fixed[..begun], 0)?;
    if fixed[..8] != MAGIC {
        return Err(FileError::Magic);
    }
    if begun < FIXED {
        return Err(FileError::Length { has, needs: FIXED as u64 });
    }
    let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
    if word(8) != VERSION {
        return Err(FileError::Version { found: word(8) });
    }
    if word(12) as usize != PAGE {
        return Err(FileError::Value { what: "size of pages", value: word(12).into() });
    }
    let bytes = long(16);
    if bytes > MAX_HEAD {
        return Err(FileError::Value { what: "length of the head", value: bytes });
    }
    if has < FIXED as u64 + bytes {
        return Err(FileError::Length { has, needs: FIXED as u64 + bytes });
    }
    let mut encoded = vec![0; bytes as usize];
    file.read_exact_at(&mut encoded, FIXED as u64)?;
    if digest(&encoded) != long(24) {
        return Err(FileError::Damaged { part: "head" });
    }
    let damaged = |_| FileError::Damaged { part: "head" };
    let (head, rest): (Head, _) = postcard::take_from_bytes(&encoded).map_err(damaged)?;
    if !rest.is_empty() {
        return Err(FileError::Damaged { part: "head" });
    }
    head.check()?;
    if head.state.at < FIXED as u64 + bytes {
        return Err(FileError::Value { what: "place of the state", value: head.state.at });
    }
    if has != head.end() {
        return Err(FileError::Length { has, needs: head.end() });
    }
    if head.release != env!("CARGO_PKG_VERSION") {
        return Err(FileError::Release { found: head.release });
    }
    Ok(head)
}

fn length(metadata: &Metadata) -> Result<u64, FileError> {
    if !metadata.is_file() {
        return Err(FileError::Magic);
    }
    Ok(metadata.len())
}

/// Opens a file and reads its head.
///
/// # Errors
///
/// The errors of [`read_head`].
pub fn open(path: &Path) -> Result<(File, Head), FileError> {
    // Opening a pipe would wait here for a writer.
    length(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    let head = read_head(&file)?;
    Ok((file, head))
}

/// Reads the bytes of the state.
///
/// # Errors
///
/// A state that is not as it was written.
pub fn read_state(file: &File, head: &Head) -> Result<Vec<u8>, FileError> {
    // The file was found to be that long.
    let mut bytes = vec![0; head.state.length as usize];
    file.read_exact_at(&mut bytes, head.state.at)?;
    if digest(&bytes) != head.state.digest {
        return Err(FileError::Damaged { part: "state" });
    }
    Ok(bytes)
}

/// Finds the next part of a file that is no hole, in whole pages: returns the offsets of its first byte, and of the
/// byte after it.
///
/// # Errors
///
/// The system's, of a file that cannot be searched.
pub fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= end {
        return Ok(None);
    }
    let data = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) if data < end => data / PAGE as u64 * PAGE as u64,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(data))?;
    Ok(Some((data, hole.next_multiple_of(PAGE as u64).min(end))))
}

/// Checks memory against its digests; reads all of it.
///
/// # Errors
///
/// Memory that is not as it was written.
pub fn check_memory(file: &File, head: &Head) -> Result<(), FileError> {
    for (part, section) in [("guest memory", head.ram), ("VRAM", head.vram)] {
        let (mut pages, mut sum, mut page) = (0, 0u64, [0; PAGE]);
        let (mut at, end) = (section.at, section.at + section.length);
        // Holes are pages of zeros.
        while let Some((data, hole)) = next_data(file, at, end)? {
            let mut reader = BufReader::with_capacity(1 << 20, file);
            reader.seek(SeekFrom::Start(data))?;
            for at in (data..hole).step_by(PAGE) {
                reader.read_exact(&mut page)?;
                if page != [0; PAGE] {
                    pages += 1;
                    sum = sum.wrapping_add(page_digest((at - section.at) / PAGE as u64, &page));
                }
            }
            at = hole;
        }
        if (pages, sum) != (section.pages, section.digest) {
            return Err(FileError::Damaged { part });
        }
    }
    Ok(())
}
