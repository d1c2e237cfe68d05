//! Sizes, tiers and sums of matrices on the command line.

use belfry_device::{Matrices, Tier};
use belfry_kfd_hosted::prepared::Wait;

/// Reads a number of bytes with an optional K, M or G.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let trimmed = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match trimmed.char_indices().last() {
        Some((at, 'K')) => (&trimmed[..at], 10),
        Some((at, 'M')) => (&trimmed[..at], 20),
        Some((at, 'G')) => (&trimmed[..at], 30),
        _ => (trimmed, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is not a size like 256M or 1G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is too large"))
}

/// Reads the choice of matrix instructions' sums.
pub(super) fn parse_matrices(text: &str) -> Result<Matrices, String> {
    Matrices::named(text).ok_or_else(|| format!("there are no matrices {text}: choose from fast, exact"))
}

/// Reads the choice of code that is compiled.
pub(super) fn parse_tier(text: &str) -> Result<Tier, String> {
    Tier::named(text).ok_or_else(|| format!("there is no tier {text}: choose from 0, 1, auto"))
}

/// Reads the choice of threads' waiting.
pub(super) fn parse_wait(text: &str) -> Result<Wait, String> {
    Wait::named(text)
        .ok_or_else(|| format!("there is no way to wait called {text}: choose from auto, spin, block"))
}

/// Reads a guest's memory: a size that both QEMU and Belfry's own machine take.
pub(super) fn parse_memory(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    match size {
        0x400_0000..=0x40_0000_0000 if size % (1 << 20) == 0 => Ok(size),
        _ => Err(format!("{text}: a guest has whole megabytes of memory, from 64M to 256G")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_suffixes() {
        for (text, size) in [
            ("4096", Some(4096)),
            ("64k", Some(64 << 10)),
            ("256M", Some(256 << 20)),
            ("256MiB", Some(256 << 20)),
            ("16G", Some(16 << 30)),
            ("", None),
            ("M", None),
            ("-1M", None),
            ("99999999999G", None),
        ] {
            assert_eq!(parse_size(text).ok(), size, "{text}");
        }
    }
}
