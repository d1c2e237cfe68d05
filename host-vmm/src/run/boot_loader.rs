//! Boot loaders of a disk: code in its first sector, as a PC's BIOS wants it, or an EFI system partition.
//!
//! A BIOS does not report a sector of zeroes, and runs it for ever; so this module checks before the machine starts.

use belfry_machine::{DiskConfig, DiskError};

/// Bytes of a sector, the unit of partition tables.
const SECTOR: usize = 512;
/// Bytes at the beginning that are read: as many sectors as a GPT takes with the usual 128 entries.
const BEGINNING: usize = 34 * SECTOR;
/// The end of a first sector that may be run.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// Bytes of code in the first sector: the disk's signature and the partition table follow.
const CODE: usize = 440;
/// The four entries of the first sector's table: offset of the first one, bytes of each, offset of the type in one.
const MBR_ENTRIES: (usize, usize, usize) = (446, 16, 4);
/// The type of an EFI system partition in that table (UEFI specification, section 5.2.2).
const MBR_ESP: u8 = 0xef;
/// The type of an EFI system partition in a GPT, C12A7328-F81F-11D2-BA4B-00A0C93EC93B (section 5.3.3).
const GPT_ESP: [u8; 16] =
    [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];

/// Boot loaders that a disk has; a disk for both firmwares has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BootLoader {
    /// Code in its first sector.
    pub(super) bios: bool,
    /// An EFI system partition.
    pub(super) uefi: bool,
}

impl BootLoader {
    /// Looks at a disk.
    ///
    /// # Errors
    ///
    /// A disk that cannot be read.
    pub(super) fn of(disk: &DiskConfig) -> Result<Self, DiskError> {
        Ok(Self::in_beginning(&disk.beginning(BEGINNING)?))
    }

    fn in_beginning(beginning: &[u8]) -> Self {
        let first = beginning.get(..SECTOR).unwrap_or_default();
        let bios = first.ends_with(&SIGNATURE) && first[..CODE].iter().any(|&byte| byte != 0);
        Self { bios, uefi: has_esp(beginning) }
    }
}

/// Returns true if one of the partition tables has an EFI system partition.
fn has_esp(beginning: &[u8]) -> bool {
    let (start, length, kind) = MBR_ENTRIES;
    let mut entries = (0..4).map(|number| beginning.get(start + number * length + kind));
    beginning.get(SECTOR - 2..SECTOR) == Some(&SIGNATURE) && entries.any(|kind| kind == Some(&MBR_ESP))
        || gpt_has_esp(beginning).unwrap_or(false)
}

/// Looks in a GPT (section 5.3.2), at those of its entries that are in the beginning.
fn gpt_has_esp(beginning: &[u8]) -> Option<bool> {
    let header = beginning.get(SECTOR..2 * SECTOR)?;
    if !header.starts_with(b"EFI PART") {
        return Some(false);
    }
    let word = |at: usize| header[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    // A place within the beginning fits in the low half of the field.
    let (place, entry) = (usize::try_from(word(72)?).ok()?, usize::try_from(word(84)?).ok()?);
    let entries = beginning.get(place.checked_mul(SECTOR)?..)?;
    (entry >= GPT_ESP.len()).then(|| entries.chunks(entry).any(|entry| entry.starts_with(&GPT_ESP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a beginning with these bytes at these places.
    fn beginning(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut beginning = vec![0; BEGINNING];
        for (at, bytes) in parts {
            beginning[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        beginning
    }

    #[test]
    fn boot_loaders_are_told_by_the_first_sectors() {
        let [bios, uefi, both, neither] = [(true, false), (false, true), (true, true), (false, false)]
            .map(|(bios, uefi)| BootLoader { bios, uefi });
        let signed: (usize, &[u8]) = (510, &SIGNATURE);
        let code: (usize, &[u8]) = (0, &[0xeb, 0x63]);
        let gpt: [(usize, &[u8]); 3] =
            [(512, b"EFI PART"), (512 + 72, &[2, 0, 0, 0, 0, 0, 0, 0]), (512 + 84, &[128, 0, 0, 0])];
        let second: (usize, &[u8]) = (1024 + 128, &GPT_ESP);
        let with = |more: &[(usize, &[u8])]| beginning(&[&gpt[..], more].concat());
        let cases = [
            ("code", beginning(&[signed, code]), bios),
            ("code and an ESP", with(&[signed, code, second]), both),
            ("code without a signature", beginning(&[code]), neither),
            ("a partition table alone", beginning(&[signed, (450, &[0x83])]), neither),
            ("a disk's signature is no code", beginning(&[signed, (440, &[1, 2, 3, 4])]), neither),
            ("an ESP in a GPT", with(&[signed, (450, &[0xee]), second]), uefi),
            ("an ESP in an MBR", beginning(&[signed, (446 + 16 + 4, &[0xef])]), uefi),
            ("a GPT without one", with(&[signed, (1024, &[7; 16])]), neither),
            ("an ESP's type outside a table", beginning(&[signed, second]), neither),
            ("entries of no length", with(&[(512 + 84, &[0; 4]), second]), neither),
            ("entries beyond", with(&[(512 + 72, &[0xff; 8]), second]), neither),
            ("nothing", Vec::new(), neither),
            ("less than a table", beginning(&[signed, code])[..300].to_vec(), neither),
            ("a sector alone", beginning(&[signed, code])[..512].to_vec(), bios),
        ];
        for (what, beginning, expected) in cases {
            assert_eq!(BootLoader::in_beginning(&beginning), expected, "{what}");
        }
    }
}
