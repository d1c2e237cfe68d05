//! Files that hold code for several processors: clang's offload bundles, and programs with such bundles in them.
//!
//! Layout of a bundle: Clang documentation, "Clang Offload Bundler", Bundled Binary File Layout. A HIP program has its
//! bundles in the section `.hip_fatbin`, one behind the other, each at a multiple of a page.

use object::{Object as _, ObjectSection as _};

use super::CodeObjectError;

/// First bytes of a bundle.
const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
/// First bytes of a compressed one.
const COMPRESSED: &[u8] = b"CCOB";
/// First bytes of what LLVM's newer driver makes (`llvm/Object/OffloadBinary.h`).
const OFFLOAD_BINARY: &[u8] = &[0x10, 0xff, 0x10, 0xad];
const SECTION: &str = ".hip_fatbin";
/// What the entries of AMD GPUs have in their names.
const TRIPLE: &str = "amdgcn-amd-amdhsa-";
/// Most entries read of one bundle: there are not that many processors.
const ENTRIES: u64 = 256;
/// Longest name of an entry.
const NAME: u64 = 256;
/// Bundles of a section begin at multiples of this.
const PAGE: usize = 4096;

/// One code object of a bundle.
struct Entry<'a> {
    /// `gfx1100`, or with features as in `gfx90a:xnack-`.
    target: &'a str,
    code: &'a [u8],
}

/// The code objects for `processor` in a file, in their order: the file itself if it is one, or the entries of all its bundles.
/// Without a processor, those of the first one that has code.
///
/// # Errors
///
/// [`CodeObjectError::Bundle`] of a bundle that is damaged, compressed or of another format, and
/// [`CodeObjectError::NotInBundle`] when it has no code for the processor. What is no bundle at all comes back as it is.
pub fn unbundle<'a>(file: &'a [u8], processor: Option<&str>) -> Result<Vec<&'a [u8]>, CodeObjectError> {
    let entries = if file.starts_with(MAGIC) {
        entries(file)?.0
    } else if let Some(section) = section(file) {
        bundles(section)?
    } else {
        refuse_other_formats(file)?;
        return Ok(vec![file]);
    };
    let processor_of = |entry: &Entry<'a>| entry.target.split(':').next().unwrap_or_default();
    let filled = || entries.iter().filter(|entry| !entry.code.is_empty());
    let wanted = processor.or_else(|| filled().next().map(processor_of)).unwrap_or_default();
    let found: Vec<&[u8]> =
        filled().filter(|entry| processor_of(entry) == wanted).map(|entry| entry.code).collect();
    if found.is_empty() {
        let mut targets: Vec<String> = filled().map(|entry| entry.target.to_owned()).collect();
        targets.sort();
        targets.dedup();
        return Err(CodeObjectError::NotInBundle { gpu: wanted.to_owned(), targets });
    }
    Ok(found)
}

/// The section of a program that holds its bundles.
fn section(file: &[u8]) -> Option<&[u8]> {
    let elf: object::read::elf::ElfFile64<'_> = object::read::elf::ElfFile64::parse(file).ok()?;
    elf.section_by_name(SECTION)?.data().ok()
}

fn refuse_other_formats(bytes: &[u8]) -> Result<(), CodeObjectError> {
    let what = if bytes.starts_with(COMPRESSED) {
        "it is compressed; compile with --no-offload-compress"
    } else if bytes.starts_with(OFFLOAD_BINARY) {
        "it is an offload binary of LLVM's new driver; compile with --no-offload-new-driver"
    } else {
        return Ok(());
    };
    Err(CodeObjectError::Bundle(what.to_owned()))
}

/// Entries of all bundles of a section.
fn bundles(section: &[u8]) -> Result<Vec<Entry<'_>>, CodeObjectError> {
    let mut all = Vec::new();
    let mut rest = section;
    while !rest.is_empty() {
        refuse_other_formats(rest)?;
        let size = if rest.starts_with(MAGIC) {
            let (entries, size) = entries(rest)?;
            all.extend(entries);
            size
        } else {
            1
        };
        rest = rest.get(size.next_multiple_of(PAGE)..).unwrap_or_default();
    }
    Ok(all)
}

/// The entries of the bundle that `bytes` begins with, and its size.
fn entries(bytes: &[u8]) -> Result<(Vec<Entry<'_>>, usize), CodeObjectError> {
    let damaged = |what: &str| CodeObjectError::Bundle(format!("it is damaged: {what}"));
    let table = &bytes[MAGIC.len()..];
    let (count, mut table) = table.split_first_chunk::<8>().ok_or_else(|| damaged("it ends in its table"))?;
    let count = u64::from_le_bytes(*count);
    if count > ENTRIES {
        return Err(damaged(&format!("{count} entries")));
    }
    let mut entries = Vec::new();
    let mut end = MAGIC.len() + 8;
    for _ in 0..count {
        let [offset, size, length] = take(&mut table).ok_or_else(|| damaged("it ends in its table"))?;
        if length > NAME || length > table.len() as u64 {
            return Err(damaged(&format!("a name of {length} bytes")));
        }
        let (name, rest) = table.split_at(length as usize);
        table = rest;
        let stop = offset.checked_add(size).and_then(|stop| usize::try_from(stop).ok());
        let code = stop.and_then(|stop| bytes.get(offset as usize..stop));
        let code = code.ok_or_else(|| damaged(&format!("an entry of {size} bytes at {offset:#x}")))?;
        end = end.max(offset as usize + code.len());
        // `KIND-TRIPLE-TARGET`; the triple's environment is empty or left out.
        let name = std::str::from_utf8(name).map_err(|_| damaged("a name is no text"))?;
        if let Some((_, target)) = name.split_once(TRIPLE) {
            entries.push(Entry { target: target.trim_start_matches('-'), code });
        }
    }
    Ok((entries, end))
}

fn take(table: &mut &[u8]) -> Option<[u64; 3]> {
    let (words, rest) = table.split_at_checked(24)?;
    *table = rest;
    let mut words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    Some([words.next()?, words.next()?, words.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bundle with the host's empty entry first, as clang makes it.
    fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut all = vec![("host-x86_64-unknown-linux--", &b""[..])];
        all.extend(entries);
        let table: usize = all.iter().map(|(name, _)| 24 + name.len()).sum();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((all.len() as u64).to_le_bytes());
        let mut at = (bytes.len() + table).next_multiple_of(PAGE);
        let mut codes = Vec::new();
        for (name, code) in all {
            for word in [at, code.len(), name.len()] {
                bytes.extend((word as u64).to_le_bytes());
            }
            bytes.extend(name.as_bytes());
            codes.push((at, code));
            at = (at + code.len()).next_multiple_of(PAGE);
        }
        for (at, code) in codes {
            bytes.resize(at, 0);
            bytes.extend(code);
        }
        bytes
    }

    const OTHER: (&str, &[u8]) = ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"code for another");
    const OURS: (&str, &[u8]) = ("hipv4-amdgcn-amd-amdhsa--gfx1100", b"code for this one");
    const OLD: (&str, &[u8]) = ("hip-amdgcn-amd-amdhsa-gfx1100", b"and more");

    #[test]
    fn code_of_a_processor_is_found_by_its_name() {
        let file = bundle(&[OTHER, OURS]);
        assert_eq!(unbundle(&file, Some("gfx1100")).unwrap(), [OURS.1]);
        assert_eq!(unbundle(&file, Some("gfx90a")).unwrap(), [OTHER.1]);
        assert_eq!(unbundle(&file, None).unwrap(), [OTHER.1], "the first there is");
        let error = unbundle(&file, Some("gfx942")).unwrap_err().to_string();
        assert!(
            error.contains("gfx1100, gfx90a:xnack-") && error.contains("--offload-arch=gfx942"),
            "{error}"
        );
    }

    #[test]
    fn bundles_of_a_section_follow_each_other() {
        let mut section = bundle(&[OURS]);
        section.resize(section.len().next_multiple_of(PAGE), 0);
        section.extend(bundle(&[OTHER, OLD]));
        let all = bundles(&section).unwrap();
        let all: Vec<_> = all.iter().map(|entry| (entry.target, entry.code)).collect();
        assert_eq!(all, [("gfx1100", OURS.1), ("gfx90a:xnack-", OTHER.1), ("gfx1100", OLD.1)]);
    }

    #[test]
    fn what_is_no_bundle_comes_back_as_it_is() {
        for file in [&b""[..], b"text", &[0x7f, b'E', b'L', b'F']] {
            assert_eq!(unbundle(file, Some("gfx1100")).unwrap(), [file]);
        }
    }

    #[test]
    fn other_formats_are_named_with_the_way_round() {
        for (file, said) in
            [(COMPRESSED, "--no-offload-compress"), (OFFLOAD_BINARY, "--no-offload-new-driver")]
        {
            let error = unbundle(file, None).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn damaged_bundles_are_refused() {
        let whole = bundle(&[OURS]);
        let count = MAGIC.len();
        let first = count + 8;
        for (at, value, said) in [
            (count, u64::MAX, "entries"),
            (first + 8, u64::MAX, "an entry of 18446744073709551615 bytes"),
            (first, 1 << 40, "at 0x10000000000"),
            (first + 16, 1 << 20, "a name of 1048576 bytes"),
        ] {
            let mut file = whole.clone();
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let error = unbundle(&file, None).unwrap_err().to_string();
            assert!(error.contains("damaged") && error.contains(said), "{error}");
        }
        for length in MAGIC.len()..whole.len() {
            assert!(unbundle(&whole[..length], None).is_err(), "{length} bytes");
        }
    }
}
