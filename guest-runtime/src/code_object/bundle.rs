//! Files that hold code for several processors: clang's offload bundles, and programs with such bundles in them.
//!
//! Layout of a bundle: Clang documentation, "Clang Offload Bundler", Bundled Binary File Layout. A HIP program has its
//! bundles in the section `.hip_fatbin`, one after the other, each at a multiple of a page.

mod compressed;

use std::borrow::Cow;

use object::{Object as _, ObjectSection as _};

use super::CodeObjectError;
use super::processors::runs_on;

/// First bytes of a bundle.
const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
/// First bytes of an offload binary of LLVM's newer driver (`llvm/Object/OffloadBinary.h`).
const OFFLOAD_BINARY: &[u8] = &[0x10, 0xff, 0x10, 0xad];
const SECTION: &str = ".hip_fatbin";
/// Text in the names of entries of AMD GPUs.
const TRIPLE: &str = "amdgcn-amd-amdhsa-";
/// Most entries read of one bundle: there are not that many processors.
const ENTRIES: u64 = 256;
/// Longest name of an entry.
const NAME: u64 = 256;
/// Bundles of a section begin at multiples of this.
const PAGE: usize = 4096;

/// One code object of a bundle.
#[derive(Debug)]
struct Entry<'a> {
    /// Number of the bundle.
    bundle: usize,
    /// `gfx1100`, or with features as in `gfx90a:xnack-`.
    target: String,
    code: Cow<'a, [u8]>,
}

impl Entry<'_> {
    fn processor(&self) -> &str {
        self.target.split(':').next().unwrap_or_default()
    }
}

/// The code objects for `processor` in a file, in their order: the file itself if it is one, or the entries of all its
/// bundles, which may be compressed. A bundle without code for just that processor gives its code for processors of its
/// kind (`gfx11-generic`). Without a processor, the code objects of the first processor that has code.
///
/// # Errors
///
/// [`CodeObjectError::Bundle`] of a bundle that is damaged, too large when unpacked, or of another format, and
/// [`CodeObjectError::NotInBundle`] when it has no code for the processor. What is no bundle at all comes back as it is.
pub fn unbundle<'a>(file: &'a [u8], processor: Option<&str>) -> Result<Vec<Cow<'a, [u8]>>, CodeObjectError> {
    let mut entries = if file.starts_with(MAGIC) {
        entries(file, 0)?.0
    } else if file.starts_with(compressed::MAGIC) {
        unpacked(file, 0, compressed::MOST)?.0
    } else if let Some(section) = section(file) {
        bundles(section)?
    } else {
        refuse_other_formats(file)?;
        return Ok(vec![Cow::Borrowed(file)]);
    };
    entries.retain(|entry| !entry.code.is_empty());
    let first = || entries.first().map(Entry::processor).unwrap_or_default();
    let wanted = processor.unwrap_or_else(first).to_owned();
    let exact: Vec<usize> =
        entries.iter().filter(|entry| entry.processor() == wanted).map(|entry| entry.bundle).collect();
    let targets =
        || entries.iter().map(|entry| entry.target.clone()).collect::<std::collections::BTreeSet<_>>();
    let targets: Vec<String> = targets().into_iter().collect();
    let found: Vec<Cow<'a, [u8]>> = entries
        .into_iter()
        .filter(|entry| {
            entry.processor() == wanted
                || !exact.contains(&entry.bundle) && runs_on(entry.processor(), &wanted)
        })
        .map(|entry| entry.code)
        .collect();
    if found.is_empty() {
        return Err(CodeObjectError::NotInBundle { gpu: wanted, targets });
    }
    Ok(found)
}

/// The section of a program that holds its bundles.
fn section(file: &[u8]) -> Option<&[u8]> {
    let elf: object::read::elf::ElfFile64<'_> = object::read::elf::ElfFile64::parse(file).ok()?;
    elf.section_by_name(SECTION)?.data().ok()
}

fn refuse_other_formats(bytes: &[u8]) -> Result<(), CodeObjectError> {
    if !bytes.starts_with(OFFLOAD_BINARY) {
        return Ok(());
    }
    let what = "it is an offload binary of LLVM's new driver; compile with --no-offload-new-driver";
    Err(CodeObjectError::Bundle(what.to_owned()))
}

/// Entries of all bundles of a section.
fn bundles(section: &[u8]) -> Result<Vec<Entry<'_>>, CodeObjectError> {
    let mut all = Vec::new();
    let (mut rest, mut number, mut room) = (section, 0, compressed::MOST);
    while !rest.is_empty() {
        refuse_other_formats(rest)?;
        let size = if rest.starts_with(MAGIC) {
            let (entries, size) = entries(rest, number)?;
            all.extend(entries);
            size
        } else if rest.starts_with(compressed::MAGIC) {
            let (entries, size, bytes) = unpacked(rest, number, room)?;
            room -= bytes;
            all.extend(entries);
            size
        } else {
            1
        };
        number += 1;
        rest = rest.get(size.next_multiple_of(PAGE)..).unwrap_or_default();
    }
    Ok(all)
}

/// The entries of the compressed bundle that `bytes` begins with, its size, and the bytes that came out of it.
fn unpacked(
    bytes: &[u8],
    number: usize,
    most: u64,
) -> Result<(Vec<Entry<'static>>, usize, u64), CodeObjectError> {
    let damaged = |what: &str| CodeObjectError::Bundle(format!("it is compressed: {what}"));
    let (bundle, size) = compressed::unpack(bytes, most).map_err(|error| damaged(&error.to_string()))?;
    if !bundle.starts_with(MAGIC) {
        return Err(damaged("what comes out is no bundle"));
    }
    let (entries, _) = entries(&bundle, number)?;
    let own = |entry: Entry<'_>| Entry {
        bundle: number,
        target: entry.target,
        code: Cow::Owned(entry.code.into_owned()),
    };
    Ok((entries.into_iter().map(own).collect(), size, bundle.len() as u64))
}

/// The entries of the bundle that `bytes` begins with, and its size.
fn entries(bytes: &[u8], number: usize) -> Result<(Vec<Entry<'_>>, usize), CodeObjectError> {
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
            let target = target.trim_start_matches('-').to_owned();
            entries.push(Entry { bundle: number, target, code: Cow::Borrowed(code) });
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
mod tests;
