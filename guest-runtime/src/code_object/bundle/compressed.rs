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

fn header(bytes: &[u8]) -> Result<Header, String> {
    let number = |at: usize, size: usize| {
        let bytes = bytes.get(at..at + size).ok_or_else(|| "it ends in its header".to_owned())?;
        Ok::<u64, String>(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (version, method) = (number(4, 2)?, number(6, 2)? as u16);
    let (whole, unpacked, len) = match version {
        1 => (bytes.len() as u64, number(8, 4)?, 20),
        2 => (number(8, 4)?, number(12, 4)?, 24),
        3 => (number(8, 8)?, number(16, 8)?, 32),
        other => return Err(format!("version {other} of compressed bundles is not known")),
    };
    if whole < len as u64 || whole > bytes.len() as u64 {
        return Err(format!("it says that it has {whole} bytes, of {} that there are", bytes.len()));
    }
    Ok(Header { method, whole: whole as usize, unpacked, len })
}

/// The bundle that `bytes` begins with, unpacked to at most `most` bytes, and its packed length.
///
/// # Errors
///
/// The fault in a few words.
pub(super) fn unpack(bytes: &[u8], most: u64) -> Result<(Vec<u8>, usize), String> {
    let Header { method, whole, unpacked, len } = header(bytes)?;
    if unpacked > most {
        return Err(format!(
            "{unpacked} bytes when unpacked are more than the {most} that are read of a file"
        ));
    }
    let contents = &bytes[len..whole];
    let found = match method {
        ZLIB => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(contents, unpacked as usize)
            .map_err(|error| format!("zlib: {error}"))?,
        ZSTD => zstd(contents, unpacked).map_err(|error| format!("zstd: {error}"))?,
        other => return Err(format!("compression method {other} is not known")),
    };
    if found.len() as u64 != unpacked {
        return Err(format!("{} bytes come out, and it says {unpacked}", found.len()));
    }
    Ok((found, whole))
}

fn zstd(contents: &[u8], unpacked: u64) -> Result<Vec<u8>, String> {
    // A window is memory that is allocated before anything is read.
    let window = unpacked.next_power_of_two().max(WINDOW);
    let decoder =
        StreamingDecoder::new_with_max_window_size(contents, window).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    decoder.take(unpacked + 1).read_to_end(&mut found).map_err(|error| error.to_string())?;
    Ok(found)
}
