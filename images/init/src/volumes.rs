//! A disk with a system of its own: the contents of its partitions, and the choice of the one with the root file
//! system.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::sys;

/// Bytes at the beginning of a volume that tell its content.
const BEGINNING: u64 = 68 << 10;
/// A file that names the operating system (`os-release(5)`); the first is a link to the second as a rule.
const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// Content of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A file system that the kernel's ext4 driver mounts.
    Ext,
    /// Anything else, by its name.
    Other(&'static str),
    /// No content that is known here.
    Unknown,
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ext => "ext4",
            Self::Other(name) => name,
            Self::Unknown => "nothing that is known",
        })
    }
}

/// Bytes that tell a kind of volume, with their offsets: `include/uapi/linux/magic.h` and each format's own
/// description.
const SIGNATURES: [(usize, &[u8], Content); 10] = [
    // `s_magic` of the superblock, which is at 1024.
    (0x438, &[0x53, 0xef], Content::Ext),
    (0, b"LUKS\xba\xbe", Content::Other("LUKS, which is encrypted")),
    // The label of a physical volume is in one of the first four sectors, by default in the second.
    (0x200, b"LABELONE", Content::Other("LVM")),
    (0, b"LABELONE", Content::Other("LVM")),
    (0x1_0040, b"_BHRfS_M", Content::Other("btrfs")),
    (0, b"XFSB", Content::Other("xfs")),
    (0xff6, b"SWAPSPACE2", Content::Other("swap")),
    (3, b"NTFS    ", Content::Other("NTFS")),
    (0x52, b"FAT32", Content::Other("FAT")),
    (0x36, b"FAT1", Content::Other("FAT")),
];

/// Content of a volume with this beginning.
fn content(beginning: &[u8]) -> Content {
    let has = |at: usize, bytes: &[u8]| beginning.get(at..at + bytes.len()) == Some(bytes);
    let found = SIGNATURES.iter().find(|(at, bytes, _)| has(*at, bytes));
    found.map_or(Content::Unknown, |(_, _, content)| *content)
}

/// The device with the root file system of the system on `disk` (`/dev/vdb`); `place` is where it may be mounted to look.
pub(crate) fn with_a_system(disk: &str, place: &str) -> io::Result<String> {
    let (mut systems, mut seen) = (Vec::new(), Vec::new());
    for device in volumes(disk)? {
        let mut beginning = Vec::new();
        File::open(&device)?.take(BEGINNING).read_to_end(&mut beginning)?;
        let content = content(&beginning);
        let mut what = content.to_string();
        if content == Content::Ext {
            match look(&device, place) {
                Ok(true) => systems.push(device.clone()),
                Ok(false) => what.push_str(" without /etc/os-release"),
                Err(error) => what = format!("ext4 that cannot be mounted: {error}"),
            }
        }
        let name = device.trim_start_matches(disk);
        seen.push(if name.is_empty() { what } else { format!("partition {name}: {what}") });
    }
    choose(systems, &seen)
}

/// The only system there is.
fn choose(mut systems: Vec<String>, seen: &[String]) -> io::Result<String> {
    let refusal = match (systems.pop(), systems.is_empty()) {
        (Some(system), true) => return Ok(system),
        (Some(_), false) => "several ext4 file systems with an /etc/os-release",
        (None, _) => "no ext4 file system with an /etc/os-release",
    };
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{refusal} (the disk has {})", seen.join(", "))))
}

/// The partitions of a disk in their order, or the disk itself where it has none.
fn volumes(disk: &str) -> io::Result<Vec<String>> {
    let name = disk.trim_start_matches("/dev/");
    let mut partitions = Vec::new();
    for entry in fs::read_dir(Path::new("/sys/block").join(name))?.flatten() {
        if let Ok(number) = fs::read_to_string(entry.path().join("partition")) {
            let number: u32 = number.trim().parse().unwrap_or(u32::MAX);
            partitions.push((number, format!("/dev/{}", entry.file_name().to_string_lossy())));
        }
    }
    partitions.sort();
    let partitions: Vec<String> = partitions.into_iter().map(|(_, device)| device).collect();
    Ok(if partitions.is_empty() { vec![disk.to_owned()] } else { partitions })
}

/// Returns true if the ext4 file system of `device` has an operating system.
fn look(device: &str, place: &str) -> io::Result<bool> {
    sys::mount_disk(device, place)?;
    // A link that leads out of the file system counts by being there.
    let there = OS_RELEASE.iter().any(|name| fs::symlink_metadata(Path::new(place).join(name)).is_ok());
    sys::unmount(place)?;
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_told_by_their_beginnings() {
        for (at, bytes, expected) in SIGNATURES {
            let mut beginning = vec![0; BEGINNING as usize];
            beginning[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(content(&beginning), expected, "{at:#x}");
            // A volume that ends before its signature does has none.
            assert_eq!(content(&beginning[..at + bytes.len() - 1]), Content::Unknown, "{at:#x}");
        }
        assert_eq!(content(&[]), Content::Unknown);
    }

    #[test]
    fn one_system_is_chosen_and_any_other_number_is_refused_with_what_there_is() {
        let seen = ["partition 1: FAT".to_owned(), "partition 2: LVM".to_owned()];
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(names(&["/dev/vda2"]), &seen).unwrap(), "/dev/vda2");
        let error = choose(Vec::new(), &seen).unwrap_err().to_string();
        assert!(error.starts_with("no ext4") && error.contains("partition 2: LVM"), "{error}");
        let error = choose(names(&["/dev/vda1", "/dev/vda2"]), &seen).unwrap_err().to_string();
        assert!(error.starts_with("several"), "{error}");
    }
}
