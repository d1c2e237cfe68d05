//! Packages of an archive: apt's records of them, and the hashes they are known by.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::FetchError;
use crate::cache::PackageRecord;

/// One downloadable package of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name, version and hash.
    pub record: PackageRecord,
    /// File name of the `.deb`, as apt writes it.
    pub file: String,
    /// Size of the `.deb` in bytes.
    pub size: u64,
}

/// Reads `Inst NAME (VERSION SUITE [ARCH])` lines of `apt-get -s install`.
pub(super) fn parse_simulation(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix("Inst ")?;
            let (name, rest) = rest.split_once(' ')?;
            let version = rest.split_once('(')?.1.split(' ').next()?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// Reads `'URI' FILE SIZE SHA256:HASH` lines of `apt-get --print-uris download`.
pub(super) fn parse_uris(text: &str) -> Result<Vec<Package>, FetchError> {
    let bad = |line: &str| {
        // The URI names the machine's mirror; the rest of the line says enough.
        FetchError::Parse(line.rsplit('\'').next().unwrap_or_default().trim().to_owned())
    };
    text.lines()
        .filter(|line| line.starts_with('\''))
        .map(|line| {
            let rest = line.rsplit_once('\'').ok_or_else(|| bad(line))?.1;
            let mut fields = rest.split_whitespace();
            let (file, size, hash) = match (fields.next(), fields.next(), fields.next()) {
                (Some(file), Some(size), Some(hash)) => (file, size, hash),
                _ => return Err(bad(line)),
            };
            let sha256 = hash.strip_prefix("SHA256:").ok_or_else(|| bad(line))?.to_owned();
            let mut parts = file.split('_');
            let (Some(name), Some(version)) = (parts.next(), parts.next()) else {
                return Err(bad(line));
            };
            if file.contains('/') || file.starts_with('.') {
                return Err(bad(line));
            }
            Ok(Package {
                record: PackageRecord { name: name.to_owned(), version: version.replace("%3a", ":"), sha256 },
                file: file.to_owned(),
                size: size.parse().map_err(|_| bad(line))?,
            })
        })
        .collect()
}

/// SHA-256 of a file's content in lower-case hexadecimal.
///
/// # Errors
///
/// A file that cannot be read.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// One hash over a set of packages and the way they are unpacked: the name an artifact is cached by.
#[must_use]
pub fn closure_hash(recipe: &[u8], packages: &[PackageRecord]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(recipe);
    for package in packages {
        hasher.update(format!("{} {} {}\n", package.name, package.version, package.sha256));
    }
    hex(&hasher.finalize()[..8])
}

/// The hash of the way an artifact is made, short enough for a file name.
#[must_use]
pub fn recipe_hash(recipe: &[u8]) -> String {
    hex(&Sha256::digest(recipe)[..4])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulation_lists_names_and_versions() {
        let text = "Reading package lists...\nInst gcc-14-base (14.2.0-19 Debian:13 [amd64])\n\
                    Inst libc6 [2.36] (2.41-12+deb13u4 Debian:13 [amd64]) []\nConf libc6 (2.41 x [amd64])\n";
        assert_eq!(
            parse_simulation(text),
            [("gcc-14-base".into(), "14.2.0-19".into()), ("libc6".into(), "2.41-12+deb13u4".into())]
        );
    }

    #[test]
    fn uris_give_file_size_and_hash() {
        let text = "Reading...\n'http://h.example/q_1%3a2.deb' q_1%3a2_amd64.deb 42 SHA256:ab\n";
        let packages = parse_uris(text).unwrap();
        assert_eq!(packages[0].record.version, "1:2");
        assert_eq!((packages[0].file.as_str(), packages[0].size), ("q_1%3a2_amd64.deb", 42));
        let cases = [
            "'http://h.example/q' q_1_amd64.deb 42",
            "'http://h.example/q' q_1_amd64.deb 42 MD5Sum:00",
            "'http://h.example/q' ../q_1_amd64.deb 42 SHA256:00",
            "'http://h.example/q' q_1_amd64.deb many SHA256:00",
        ];
        for case in cases {
            let error = parse_uris(case).unwrap_err();
            assert!(!error.to_string().contains("h.example"), "{error}");
        }
    }

    #[test]
    fn closure_hash_depends_on_recipe_and_every_field() {
        let record =
            |version: &str| PackageRecord { name: "a".into(), version: version.into(), sha256: "00".into() };
        let base = closure_hash(b"1", &[record("1")]);
        assert_eq!(base, closure_hash(b"1", &[record("1")]));
        assert_ne!(base, closure_hash(b"2", &[record("1")]));
        assert_ne!(base, closure_hash(b"1", &[record("2")]));
        assert_eq!(base.len(), 16);
    }
}
