//! Sizes, tiers and sums of matrices on the command line.

use belfry_device::{Matrices, Tier};
use belfry_kfd_hosted::prepared::Wait;

/// Values of options that are refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    /// The text is no size.
    #[error("{0} is not a size like 256M or 1G")]
    Size(String),
    /// The size has more than 64 bits.
    #[error("{0} is too large")]
    TooLarge(String),
    /// The size is none that a guest can have.
    #[error("{0}: a guest has whole megabytes of memory, from 64M to 256G")]
    Memory(String),
    /// The text names no sums of matrices.
    #[error("there are no matrices {0}: choose from fast, exact")]
    Matrices(String),
    /// The text names no tier.
    #[error("there is no tier {0}: choose from 0, 1, auto")]
    Tier(String),
    /// The text names no way to wait.
    #[error("there is no way to wait called {0}: choose from auto, spin, block")]
    Wait(String),
    /// The text names no links.
    #[error(
        "there are no links {0}: choose from xgmi, pcie, none, mi300x-8, 7900xtx-2, or the path of a file, with a slash or ending in .toml"
    )]
    Links(String),
}

/// Reads a number of bytes with an optional K, M or G.
pub(super) fn parse_size(text: &str) -> Result<u64, ValueError> {
    let upper = text.to_ascii_uppercase();
    let trimmed = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match trimmed.char_indices().last() {
        Some((at, 'K')) => (&trimmed[..at], 10),
        Some((at, 'M')) => (&trimmed[..at], 20),
        Some((at, 'G')) => (&trimmed[..at], 30),
        _ => (trimmed, 0),
    };
    let number: u64 = digits.parse().map_err(|_| ValueError::Size(text.to_owned()))?;
    number.checked_mul(1 << shift).ok_or_else(|| ValueError::TooLarge(text.to_owned()))
}

/// Reads the choice of matrix instructions' sums.
pub(super) fn parse_matrices(text: &str) -> Result<Matrices, ValueError> {
    Matrices::named(text).ok_or_else(|| ValueError::Matrices(text.to_owned()))
}

/// Reads the choice of code that is compiled.
pub(super) fn parse_tier(text: &str) -> Result<Tier, ValueError> {
    Tier::named(text).ok_or_else(|| ValueError::Tier(text.to_owned()))
}

/// Reads the choice of threads' waiting.
pub(super) fn parse_wait(text: &str) -> Result<Wait, ValueError> {
    Wait::named(text).ok_or_else(|| ValueError::Wait(text.to_owned()))
}

/// Reads a guest's memory: a size that both QEMU and Belfry's own machine take.
pub(super) fn parse_memory(text: &str) -> Result<u64, ValueError> {
    let size = parse_size(text)?;
    match size {
        0x400_0000..=0x40_0000_0000 if size % (1 << 20) == 0 => Ok(size),
        _ => Err(ValueError::Memory(text.to_owned())),
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
