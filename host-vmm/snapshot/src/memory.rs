//! Memory on its way into a file: only pages that have been used, and of these only pages that are not all zero.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use vm_memory::{MmapRegion, VolatileMemory as _};

use crate::file::{PAGE, Section, next_data, page_digest};

/// Pages that are written at a time.
const BATCH: usize = 256;
/// `/proc/self/pagemap`, Linux `Documentation/admin-guide/mm/pagemap.rst`: a page is in memory, or swapped out.
const PRESENT: u64 = 3 << 62;

/// Memory in one mapping, and the file that holds its unchanged contents.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The mapping.
    pub region: &'a MmapRegion,
    /// The file behind it, from this offset on.
    pub file: &'a File,
    /// Offset in the file at which the mapping begins.
    pub offset: u64,
    /// True if writes to the mapping do not reach the file.
    pub private: bool,
}

impl Piece<'_> {
    /// Returns, page by page, true if a page may have contents.
    fn used(&self) -> io::Result<Vec<bool>> {
        let pages = self.region.size() / PAGE;
        let mut used = vec![false; pages];
        self.used_in_file(&mut used)?;
        if self.private {
            self.used_in_mapping(&mut used)?;
        }
        Ok(used)
    }

    fn used_in_file(&self, used: &mut [bool]) -> io::Result<()> {
        let end = self.offset + self.region.size() as u64;
        let mut at = self.offset;
        while let Some((data, hole)) = next_data(self.file, at, end)? {
            let page = |at: u64| ((at - self.offset) / PAGE as u64) as usize;
            used[page(data)..page(hole)].fill(true);
            at = hole;
        }
        Ok(())
    }

    fn used_in_mapping(&self, used: &mut [bool]) -> io::Result<()> {
        let map = File::open("/proc/self/pagemap")?;
        let first = self.region.as_ptr().addr() / PAGE;
        let mut entries = vec![0; BATCH * 8];
        for (batch, used) in used.chunks_mut(BATCH).enumerate() {
            let entries = &mut entries[..used.len() * 8];
            map.read_exact_at(entries, ((first + batch * BATCH) * 8) as u64)?;
            for (used, entry) in used.iter_mut().zip(entries.as_chunks::<8>().0) {
                *used |= u64::from_ne_bytes(*entry) & PRESENT != 0;
            }
        }
        Ok(())
    }
}

/// Pages on their way into a new file; those that are all zero stay holes. Once made, it allocates nothing.
#[derive(Debug)]
pub struct Pages {
    out: File,
    section: Section,
    batch: Vec<u8>,
    /// The number of the page after the batch.
    next: u64,
}

impl Pages {
    /// Makes the writer of a section that begins at `at`.
    ///
    /// # Errors
    ///
    /// The system's, of the file.
    pub fn new(out: &File, at: u64) -> io::Result<Self> {
        let section = Section { at, ..Section::default() };
        Ok(Self { out: out.try_clone()?, section, batch: Vec::with_capacity(BATCH * PAGE), next: 0 })
    }

    /// Takes the page of a number, higher than the last one; `fill` writes it into the given bytes.
    ///
    /// # Errors
    ///
    /// The system's, of the file.
    pub fn page(&mut self, number: u64, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
        if number != self.next || self.batch.len() == BATCH * PAGE {
            self.flush()?;
        }
        let from = self.batch.len();
        self.batch.resize(from + PAGE, 0);
        let page = &mut self.batch[from..];
        fill(page)?;
        if page.iter().all(|&byte| byte == 0) {
            self.batch.truncate(from);
            return Ok(());
        }
        self.section.pages += 1;
        self.section.digest = self.section.digest.wrapping_add(page_digest(number, page));
        self.next = number + 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.batch.is_empty() {
            let first = self.next - (self.batch.len() / PAGE) as u64;
            self.out.write_all_at(&self.batch, self.section.at + first * PAGE as u64)?;
            self.batch.clear();
        }
        Ok(())
    }

    /// Writes the rest of a section of `length` bytes.
    ///
    /// # Errors
    ///
    /// The system's, of the file.
    pub fn finish(&mut self, length: u64) -> io::Result<Section> {
        self.flush()?;
        self.section.length = length;
        Ok(self.section)
    }
}

/// Copies a page into the given bytes.
type Fill<'a> = dyn Fn(&mut [u8]) -> io::Result<()> + 'a;

/// Calls `each` for all pages of pieces that may have contents, with their numbers.
fn each_used(
    pieces: &[Piece<'_>],
    each: &mut dyn FnMut(u64, &Fill<'_>) -> io::Result<()>,
) -> io::Result<u64> {
    let mut first = 0;
    for piece in pieces {
        for (inside, _) in piece.used()?.into_iter().enumerate().filter(|&(_, used)| used) {
            let page = piece.region.get_slice(inside * PAGE, PAGE).map_err(io::Error::other)?;
            each(first + inside as u64, &|out| {
                page.copy_to(out);
                Ok(())
            })?;
        }
        first += (piece.region.size() / PAGE) as u64;
    }
    Ok(first * PAGE as u64)
}

/// Writes pieces, one after the other, to a new file from `at` on; holes stay holes.
///
/// # Errors
///
/// The system's, of memory that cannot be read or a file that cannot be written.
pub fn write(out: &File, at: u64, pieces: &[Piece<'_>]) -> io::Result<Section> {
    let mut pages = Pages::new(out, at)?;
    let length = each_used(pieces, &mut |number, fill| pages.page(number, fill))?;
    pages.finish(length)
}

/// Returns the sum of the digests of all pages that are not zero, with their numbers.
///
/// # Errors
///
/// The system's, of memory that cannot be read.
pub fn sum(pieces: &[Piece<'_>]) -> io::Result<u64> {
    let (mut sum, mut page) = (0u64, [0; PAGE]);
    each_used(pieces, &mut |number, fill| {
        fill(&mut page)?;
        if page != [0; PAGE] {
            sum = sum.wrapping_add(page_digest(number, &page));
        }
        Ok(())
    })?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use vm_memory::FileOffset;
    use vm_memory::mmap::MmapRegionBuilder;

    use super::*;

    const PAGES: usize = 1000;

    fn mapping(file: &File, flags: i32) -> MmapRegion {
        MmapRegionBuilder::new(PAGES * PAGE)
            .with_file_offset(FileOffset::new(file.try_clone().unwrap(), 0))
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(flags)
            .build()
            .unwrap()
    }

    fn put(region: &MmapRegion, page: usize, byte: u8) {
        region.get_slice(page * PAGE + 7, 1).unwrap().copy_from(&[byte]);
    }

    #[test]
    fn pages_are_written_sparsely_from_shared_and_private_mappings() {
        let file = tempfile::tempfile().unwrap();
        file.set_len((PAGES * PAGE) as u64).unwrap();
        let shared = mapping(&file, libc::MAP_SHARED);
        let used = [0, 1, 2, 300, 301, 555, PAGES - 1];
        for page in used {
            put(&shared, page, page as u8 | 1);
        }
        put(&shared, 700, 0);
        let private = mapping(&file, libc::MAP_PRIVATE);
        // Over a page, over a hole, and a page that becomes blank.
        put(&private, 2, 0x77);
        put(&private, 400, 0x78);
        put(&private, 555, 0);
        for (region, private, count) in [(&shared, false, used.len()), (&private, true, used.len())] {
            let out = tempfile::tempfile().unwrap();
            let piece = Piece { region, file: &file, offset: 0, private };
            let section = write(&out, 8192, &[piece]).unwrap();
            assert_eq!((section.at, section.length), (8192, (PAGES * PAGE) as u64));
            assert_eq!(section.pages, count as u64);
            out.set_len(8192 + section.length).unwrap();
            let (mut written, mut expected) = (vec![0; PAGES * PAGE], vec![0; PAGES * PAGE]);
            out.read_exact_at(&mut written, 8192).unwrap();
            region.get_slice(0, PAGES * PAGE).unwrap().copy_to(&mut expected[..]);
            assert!(written == expected);
            let blocks = std::os::unix::fs::MetadataExt::blocks(&out.metadata().unwrap()) * 512;
            assert!(blocks <= 64 * PAGE as u64, "{blocks} bytes for {count} pages");
        }
    }

    #[test]
    fn disk_that_is_full_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len((PAGES * PAGE) as u64).unwrap();
        let region = mapping(&file, libc::MAP_SHARED);
        put(&region, 5, 1);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let piece = Piece { region: &region, file: &file, offset: 0, private: false };
        let error = write(&full, 0, &[piece]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
