//! Compressed offload bundles: a header, and a bundle that zlib or Zstandard has packed.
//!
//! Layout: Clang documentation, "Clang Offload Bundler", Compressed Bundle Header. Version 2 has sizes of 32 bits,
//! version 3 of 64; version 1 does not give the bundle's length.

use std::io::Read as _;

use ruzstd::decoding::StreamingDecoder;

/// First bytes.
pub(super) const MAGIC: &[u8] = b"CCOB";
/// Bytes of a bundle that is unpacked, at most: a file names its size in a few bytes.
pub(super) const MOST: u64 = 512 << 20;
/// Methods, as `llvm::compression::Format` numbers them.
const ZLIB: u16 = 0;
const ZSTD: u16 = 1;
/// Smallest limit of a window: one that encoders use for the shortest contents.
const WINDOW: u64 = 1 << 20;

/// Reasons why a compressed bundle is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompressedError {
    /// The bytes end before the header does.
    #[error("it ends in its header")]
    Header,
    /// The header has another version.
    #[error("version {0} of compressed bundles is not known")]
    Version(u64),
    /// The header says more bytes than there are, or fewer than itself.
    #[error("it says that it has {said} bytes, of {all} that there are")]
    Length {
        /// Bytes that the header says.
        said: u64,
        /// Bytes that there are.
        all: usize,
    },
    /// The bundle would be larger than what may still be read of its file.
    #[error("{unpacked} bytes when unpacked are more than the {most} that are read of a file")]
    TooLarge {
        /// Bytes that the header says.
        unpacked: u64,
        /// Bytes that may still be read.
        most: u64,
    },
    /// The header names another method.
    #[error("compression method {0} is not known")]
    Method(u16),
    /// The contents are damaged, or packed by another method.
    #[error("zlib: {0}")]
    Zlib(miniz_oxide::inflate::DecompressError),
    /// The contents are damaged, or packed by another method.
    #[error("zstd: {0}")]
    Zstd(String),
    /// The contents have another size than the header says.
    #[error("{found} bytes come out, and it says {unpacked}")]
    Size {
        /// Bytes of the contents.
        found: usize,
        /// Bytes that the header says.
        unpacked: u64,
    },
}

/// The header.
struct Header {
    method: u16,
    /// Bytes of header and contents; all there are in version 1.
    whole: usize,
    /// Bytes of the bundle.
    unpacked: u64,
    /// Bytes of the header.
    len: usize,
}

fn header(bytes: &[u8]) -> Result<Header, CompressedError> {
    let number = |at: usize, size: usize| {
        let bytes = bytes.get(at..at + size).ok_or(CompressedError::Header)?;
        Ok::<u64, CompressedError>(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (version, method) = (number(4, 2)?, number(6, 2)? as u16);
    let (whole, unpacked, len) = match version {
        1 => (bytes.len() as u64, number(8, 4)?, 20),
        2 => (number(8, 4)?, number(12, 4)?, 24),
        3 => (number(8, 8)?, number(16, 8)?, 32),
        other => return Err(CompressedError::Version(other)),
    };
    if whole < len as u64 || whole > bytes.len() as u64 {
        return Err(CompressedError::Length { said: whole, all: bytes.len() });
    }
    Ok(Header { method, whole: whole as usize, unpacked, len })
}

/// The bundle that `bytes` begins with, unpacked to at most `most` bytes, and its packed length.
///
/// # Errors
///
/// A header that makes no sense, contents that are damaged, or more than `most` bytes.
pub(super) fn unpack(bytes: &[u8], most: u64) -> Result<(Vec<u8>, usize), CompressedError> {
    let Header { method, whole, unpacked, len } = header(bytes)?;
    if unpacked > most {
        return Err(CompressedError::TooLarge { unpacked, most });
    }
    let contents = &bytes[len..whole];
    let found = match method {
        ZLIB => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(contents, unpacked as usize)
            .map_err(CompressedError::Zlib)?,
        ZSTD => zstd(contents, unpacked)?,
        other => return Err(CompressedError::Method(other)),
    };
    if found.len() as u64 != unpacked {
        return Err(CompressedError::Size { found: found.len(), unpacked });
    }
    Ok((found, whole))
}

fn zstd(contents: &[u8], unpacked: u64) -> Result<Vec<u8>, CompressedError> {
    // A window is memory that is allocated before anything is read.
    let window = unpacked.next_power_of_two().max(WINDOW);
    let decoder = StreamingDecoder::new_with_max_window_size(contents, window)
        .map_err(|error| CompressedError::Zstd(error.to_string()))?;
    let mut found = Vec::new();
    let read = decoder.take(unpacked + 1).read_to_end(&mut found);
    read.map_err(|error| CompressedError::Zstd(error.to_string()))?;
    Ok(found)
}
