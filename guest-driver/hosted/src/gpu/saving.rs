//! Saving the device of this process together with the memory that it reaches, at one moment.
//!
//! The driver's accesses are held back, the device comes to its quiet point, and then all threads of the process stand
//! still until memory has been read. Stores that a program has made by then are saved; later ones are not.
#![expect(unsafe_code, reason = "asks the kernel for the holes of its own files")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use belfry_device::{SavedGpu, SnapshotError};
use belfry_kfd_core::os::PAGE_SIZE;
use vm_memory::{GuestAddressSpace as _, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use super::HostedGpu;
use crate::config::Reach;
use crate::standstill::Standstill;
use crate::user_memory::copy_user;

/// Number of attempts if the device's memory map changes meanwhile.
const TRIES: usize = 16;

/// Why a hosted device cannot be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// A device of a configuration that cannot be saved; the reason.
    #[error("the hosted GPU cannot be saved: {0}")]
    Refused(&'static str),
    /// The device cannot be saved.
    #[error("the hosted GPU cannot be saved: {0}")]
    Device(#[from] SnapshotError),
    /// The memory or the threads of the process.
    #[error("the hosted GPU cannot be saved: {what}: {source}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operation.
        source: io::Error,
    },
    /// Its memory is mapped and unmapped all the time.
    #[error("the hosted GPU cannot be saved: what it reaches changed {TRIES} times while it was about to be")]
    Moving,
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// VRAM, by its offsets.
    Vram,
    /// System memory, by the device's addresses.
    System,
}

/// The memory of a device while everything stands still. Nothing may be allocated meanwhile, and no lock be taken.
#[derive(Debug)]
pub struct StoodStill<'a> {
    file: &'a File,
    vram: u64,
    /// Addresses of the driver's memory, which comes after VRAM in the file.
    driver: Range<u64>,
}

/// Consumer of a device that is saved.
pub trait Saving {
    /// Error of the consumer.
    type Error: From<SaveError>;

    /// Takes the device and the ranges of system memory that it reaches, lowest first; may be called again with others. The process's
    /// threads run, the device stands still.
    ///
    /// # Errors
    ///
    /// Nothing is saved then.
    fn prepare(&mut self, saved: &SavedGpu, ranges: &[Range<u64>]) -> Result<(), Self::Error>;

    /// Takes the memory, while nothing moves: it must neither allocate nor take a lock.
    ///
    /// # Errors
    ///
    /// Nothing is saved then.
    fn write(&mut self, memory: &StoodStill<'_>) -> io::Result<()>;
}

impl StoodStill<'_> {
    /// Offset of an address in the file of memory, and the bytes from there on; `None` for memory that
    /// programs have pinned.
    fn in_file(&self, part: Part, at: u64) -> Option<(u64, u64)> {
        match part {
            Part::Vram => Some((at, self.vram.checked_sub(at)?)),
            Part::System => {
                let inside = at.checked_sub(self.driver.start)?;
                let left = self.driver.end.checked_sub(at).filter(|&left| left > 0)?;
                Some((self.vram + inside, left))
            }
        }
    }

    /// The next pages of a range that may have something in them, if there are any.
    ///
    /// # Errors
    ///
    /// Memory that cannot be looked at.
    pub fn next_used(&self, part: Part, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        if range.is_empty() {
            return Ok(None);
        }
        let Some((place, left)) = self.in_file(part, range.start) else {
            // Up to where the driver's memory begins, if that is in the range.
            let pinned = self.driver.start > range.start && self.driver.start < range.end;
            let end = if pinned { self.driver.start } else { range.end };
            return Ok(Some(range.start..end));
        };
        let end = range.end.min(range.start + left);
        let whence = |at: u64, whence: libc::c_int| {
            // SAFETY: looks for data in a file whose position no other code has.
            let found = unsafe { libc::lseek(self.file.as_raw_fd(), at as libc::off_t, whence) };
            u64::try_from(found).map_err(|_| io::Error::last_os_error())
        };
        let data = match whence(place, libc::SEEK_DATA) {
            Ok(data) => data - place + range.start,
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => end,
            Err(error) => return Err(error),
        };
        if data >= end {
            return self.next_used(part, end..range.end);
        }
        let hole = whence(data - range.start + place, libc::SEEK_HOLE)? - place + range.start;
        let hole = hole.next_multiple_of(PAGE_SIZE).min(end);
        Ok(Some(data & !(PAGE_SIZE - 1)..hole))
    }

    /// Reads memory, all of which is in one range.
    ///
    /// # Errors
    ///
    /// Memory that is not there.
    pub fn read(&self, part: Part, at: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some((place, _)) = self.in_file(part, at) {
            return self.file.read_exact_at(out, place);
        }
        copy_user(out.as_mut_ptr(), out.len(), at, false)
            .map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))
    }
}

/// Returns true if the ranges of a map are those in `ranges`.
fn is_same(map: &GuestMemoryMmap, ranges: &[Range<u64>]) -> bool {
    map.num_regions() == ranges.len()
        && map.iter().zip(ranges).all(|(region, range)| {
            (region.start_addr().0, region.start_addr().0 + region.len()) == (range.start, range.end)
        })
}

impl HostedGpu {
    /// Reason why the GPU cannot be saved: its reach is not limited to its memory map, or an explorer decides
    /// when it works.
    fn cannot_be_saved(&self) -> Option<&'static str> {
        match self.reach {
            _ if self.exploring.is_some() => Some("its schedule is explored"),
            Reach::Process => Some("it reaches all of its process's memory"),
            Reach::Pinned => None,
        }
    }

    /// Saves the device with the memory that it reaches. Returns the time for which the process stood still. The device
    /// must not be recorded.
    ///
    /// # Errors
    ///
    /// A device that reaches all memory of its process, or that is explored, recorded or stopped; an error of
    /// [`Saving`]. The process goes on in any case.
    pub fn save<S: Saving>(&self, saving: &mut S) -> Result<Duration, S::Error> {
        if let Some(why) = self.cannot_be_saved() {
            return Err(SaveError::Refused(why).into());
        }
        let system = |what| move |source| SaveError::System { what, source };
        let file = self.exports().memory().map_err(system("opening its memory"))?;
        let driver = self.arena().memory();
        let memory = StoodStill {
            file: &file,
            vram: self.device().config().vram_size,
            driver: driver.address()..driver.address() + driver.size() as u64,
        };
        let map = self.pins().system();
        let _access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        let keep = |saved: SavedGpu| {
            for _ in 0..TRIES {
                let ranges: Vec<Range<u64>> = {
                    let map = map.memory();
                    let range = |start: u64, len: u64| start..start + len;
                    map.iter().map(|region| range(region.start_addr().0, region.len())).collect()
                };
                saving.prepare(&saved, &ranges)?;
                let begun = Instant::now();
                let still = Standstill::begin().map_err(system("having its threads stand still"))?;
                let written = is_same(&map.memory(), &ranges).then(|| saving.write(&memory));
                drop(still);
                if let Some(written) = written {
                    written.map_err(system("writing its memory"))?;
                    return Ok(begun.elapsed());
                }
            }
            Err(SaveError::Moving.into())
        };
        self.device().save_beside(keep).map_err(SaveError::from)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use belfry_device::GpuConfig;

    use super::*;

    /// Two words that a thread counts up, one after the other.
    struct Pair([AtomicU64; 2]);

    #[derive(Default)]
    struct Reader {
        pair: u64,
        ranges: Vec<Range<u64>>,
        seen: Vec<[u64; 2]>,
        pages: [usize; 2],
    }

    impl Saving for Reader {
        type Error = SaveError;

        fn prepare(&mut self, saved: &SavedGpu, ranges: &[Range<u64>]) -> Result<(), SaveError> {
            assert!(!saved.has_vram() && !ranges.is_empty());
            self.ranges = ranges.to_vec();
            self.seen.reserve(1);
            Ok(())
        }

        fn write(&mut self, memory: &StoodStill<'_>) -> io::Result<()> {
            let mut bytes = [0; 16];
            memory.read(Part::System, self.pair, &mut bytes)?;
            let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            self.seen.push([word(0), word(8)]);
            self.pages = [0; 2];
            let mut count = |part, range: Range<u64>, number: usize| -> io::Result<()> {
                let mut at = range.start;
                while let Some(used) = memory.next_used(part, at..range.end)? {
                    assert!(used.start >= at && used.end <= range.end && !used.is_empty());
                    self.pages[number] += ((used.end - used.start) / PAGE_SIZE) as usize;
                    at = used.end;
                }
                Ok(())
            };
            count(Part::Vram, 0..memory.vram, 0)?;
            for range in &self.ranges {
                count(Part::System, range.clone(), 1)?;
            }
            Ok(())
        }
    }

    #[test]
    fn memory_is_read_while_all_threads_stand_still() {
        let gpu = HostedGpu::new(GpuConfig::default()).expect("a GPU");
        let (pair, over) = (Arc::new(Pair([AtomicU64::new(0), AtomicU64::new(0)])), AtomicBool::new(false));
        let address = std::ptr::from_ref(&*pair) as u64;
        let mut reader = Reader { pair: address, ..Reader::default() };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        // In the allocator most of the time, as programs may be.
                        drop(std::hint::black_box(vec![0u8; 100]));
                    }
                });
            }
            scope.spawn(|| {
                for number in 1.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    pair.0[0].store(number, Ordering::SeqCst);
                    pair.0[1].store(number, Ordering::SeqCst);
                }
            });
            for _ in 0..20 {
                gpu.save(&mut reader).expect("a device that can be saved");
            }
            over.store(true, Ordering::Relaxed);
        });
        for [first, second] in &reader.seen {
            assert!(first - second <= 1, "{:?}", reader.seen);
        }
        assert!(reader.seen[19][0] > reader.seen[0][0], "the threads go on in between: {:?}", reader.seen);
        // The driver's tables are in both, and most of both is not there.
        let [vram, system] = reader.pages;
        assert!((1..10_000).contains(&vram) && (1..10_000).contains(&system), "{:?}", reader.pages);
    }

    #[test]
    fn devices_that_reach_everything_are_refused() {
        let config = crate::HostedConfig { reach: Reach::Process, ..GpuConfig::default().into() };
        let gpu = HostedGpu::new(config).expect("a GPU");
        let error = gpu.save(&mut Reader::default()).expect_err("no snapshot").to_string();
        assert!(error.contains("all of its process's memory"), "{error}");
    }
}
