//! Tests of the table of ranges, and of the regions that it publishes.

use super::*;
use vm_memory::{Bytes as _, GuestAddress, GuestAddressSpace as _, GuestMemoryBackend as _};

struct Bench {
    table: DmaTable,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
}

impl Bench {
    fn new() -> Self {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        Self { table: DmaTable::new(memory.clone(), Arc::new(wake)), memory }
    }

    fn map(&mut self, offset: u64, start: u64, size: u64, file: &OwnedFd) -> Result<(), i32> {
        let file = file.try_clone().unwrap();
        self.table.map(RW, offset, start, size, Some(file)).map_err(|error| error.errno())
    }

    fn unmap(&mut self, start: u64, size: u64) -> Result<(), i32> {
        self.table.unmap(0, start, size).map_err(|error| error.errno())
    }

    /// Returns first address and size of every region that the device sees.
    fn regions(&mut self) -> Vec<(u64, u64)> {
        use vm_memory::GuestMemoryRegion as _;
        self.table.publish(|| ());
        let memory = self.memory.memory();
        memory.iter().map(|region| (region.start_addr().0, region.len())).collect()
    }
}

fn memory_file(size: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, size).unwrap();
    fd
}

const RW: u32 = MAP_READ | MAP_WRITE;

#[test]
fn map_publishes_shared_memory_and_unmap_takes_it_back() {
    let mut bench = Bench::new();
    let fd = memory_file(0x4000);
    bench.map(0x1000, 0x10_0000, 0x2000, &fd).unwrap();
    assert_eq!(bench.regions(), [(0x10_0000, 0x2000)]);
    bench.memory.memory().write_obj(0x1122_3344u32, GuestAddress(0x10_0004)).unwrap();
    let mut bytes = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&File::from(fd), &mut bytes, 0x1004).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 0x1122_3344);
    bench.unmap(0x10_0000, 0x2000).unwrap();
    assert_eq!(bench.regions(), []);
    assert!(bench.table.retired.is_empty() && bench.table.files.is_empty(), "nothing stays mapped");
}

#[test]
fn bad_ranges_are_refused_and_change_nothing() {
    let mut bench = Bench::new();
    bench.map(0, 0x2000, 0x2000, &memory_file(0x2000)).unwrap();
    let cases: [(u64, u64, u64, u64, i32); 8] = [
        (0, 0x1000, 0x2000, 0x2000, libc::EEXIST),
        (0, 0x3000, 0x1000, 0x1000, libc::EEXIST),
        (0, 0x8000, 0, 0x1000, libc::EINVAL),
        (0, 0x8001, 0x1000, 0x1000, libc::EINVAL),
        (0, 0x8000, 0x1001, 0x2000, libc::EINVAL),
        (0x10, 0x8000, 0x1000, 0x2000, libc::EINVAL),
        (0, 0x8000, 0x3000, 0x2000, libc::EINVAL),
        (0, u64::MAX - 0xfff, 0x2000, 0x2000, libc::EINVAL),
    ];
    for (offset, start, size, file, errno) in cases {
        let result = bench.map(offset, start, size, &memory_file(file));
        assert_eq!(result, Err(errno), "{offset:#x} {start:#x} {size:#x}");
    }
    assert_eq!(bench.unmap(0x2000, 0x1000), Err(libc::EINVAL), "would cut the range");
    assert_eq!(bench.unmap(0x3000, 0x1000), Err(libc::EINVAL), "would cut the range");
    assert_eq!(bench.unmap(0x9000, 0x1000), Err(libc::ENOENT));
    assert_eq!(bench.table.unmap(UNMAP_DIRTY, 0x2000, 0x2000).unwrap_err().errno(), libc::ENOTSUP);
    assert_eq!(bench.regions(), [(0x2000, 0x2000)]);
}

#[test]
fn files_that_are_no_memory_are_refused_with_the_remedy() {
    let mut bench = Bench::new();
    // A read-only file is wrong by its kind if it is on a disk, and otherwise by the way it was opened.
    let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let error = bench.table.map(RW, 0, 0, 0x1000, Some(file.into())).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    let proc = File::open("/proc/self/maps").unwrap();
    bench.table.map(RW, 0, 0, 0x1000, Some(proc.into())).unwrap_err();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("memory");
    fs::write(&path, [0; 0x1000]).unwrap();
    let error = bench.table.map(RW, 0, 0, 0x1000, Some(File::open(&path).unwrap().into())).unwrap_err();
    assert!(error.to_string().contains("not open for reading and writing"), "{error}");
    assert!(FileError::Kind(0xef53).to_string().contains("memory-backend-memfd"));
    assert_eq!(bench.regions(), []);
}

#[test]
fn ranges_without_writable_memory_are_accepted_but_not_published() {
    let mut bench = Bench::new();
    bench.table.map(RW, 0, 0, 0x1000, None).unwrap();
    bench.table.map(MAP_READ, 0, 0x1000, 0x1000, Some(memory_file(0x1000))).unwrap();
    assert!(!bench.table.is_changed());
    assert_eq!(bench.regions(), []);
    bench.unmap(0, 0x2000).unwrap();
    assert!(!bench.table.is_changed());
}

#[test]
fn ranges_of_one_file_are_one_region_until_one_of_them_goes() {
    let mut bench = Bench::new();
    let (file, other) = (memory_file(0x8000), memory_file(0x8000));
    for page in [0, 2, 1, 4, 3] {
        bench.map(page * 0x1000, 0x10_0000 + page * 0x1000, 0x1000, &file).unwrap();
    }
    // Neither another file nor a jump in this one continues a region.
    bench.map(0x5000, 0x10_5000, 0x1000, &other).unwrap();
    bench.map(0x7000, 0x10_6000, 0x1000, &file).unwrap();
    assert_eq!(bench.regions(), [(0x10_0000, 0x5000), (0x10_5000, 0x1000), (0x10_6000, 0x1000)]);
    let memory = bench.memory.memory().clone();
    bench.unmap(0x10_2000, 0x1000).unwrap();
    bench.unmap(0x10_0000, 0x1000).unwrap();
    bench.unmap(0x10_4000, 0x2000).unwrap();
    assert_eq!(bench.regions(), [(0x10_1000, 0x1000), (0x10_3000, 0x1000), (0x10_6000, 0x1000)]);
    bench.memory.memory().write_obj(0x55u8, GuestAddress(0x10_3008)).unwrap();
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&File::from(file), &mut byte, 0x3008).unwrap();
    assert_eq!(byte, [0x55]);
    // A thread that has the earlier map may go on using it.
    bench.unmap(0, 1 << 40).unwrap();
    assert_eq!(bench.regions(), []);
    assert_eq!(memory.read_obj::<u8>(GuestAddress(0x10_3008)).unwrap(), 0x55);
    drop(memory);
    bench.table.publish(|| ());
    assert!(bench.table.retired.is_empty() && bench.table.files.is_empty(), "nothing stays mapped");
}

#[test]
fn file_that_has_grown_is_mapped_anew() {
    let mut bench = Bench::new();
    let file = memory_file(0x1000);
    bench.map(0, 0x1000, 0x1000, &file).unwrap();
    assert_eq!(bench.map(0x1000, 0x2000, 0x1000, &file), Err(libc::EINVAL));
    rustix::fs::ftruncate(&file, 0x2000).unwrap();
    bench.map(0x1000, 0x2000, 0x1000, &file).unwrap();
    assert_eq!(bench.regions(), [(0x1000, 0x1000), (0x2000, 0x1000)]);
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn as_many_maps_as_are_advertised_hold_and_take_no_descriptors() {
    let limit = max_mappings() as u64;
    let mut bench = Bench::new();
    let file = memory_file(limit * 0x1000);
    let before = descriptors();
    for page in 0..limit {
        // Backwards, with a gap after each: there are as many regions as ranges.
        let offset = (limit - 1 - page) * 0x1000;
        bench.map(offset, offset * 2, 0x1000, &file).unwrap();
    }
    assert_eq!(bench.map(0, 1 << 40, 0x1000, &file), Err(libc::ENOSPC));
    assert_eq!(bench.regions().len() as u64, limit);
    // Other tests open some meanwhile, but not so many.
    assert!(descriptors() < before + 500, "{before} descriptors have become {}", descriptors());
    bench.table.unmap(UNMAP_ALL, 0, 0).unwrap();
    assert_eq!(bench.regions(), []);
}

#[test]
fn thousands_of_files_take_no_descriptors() {
    let mut bench = Bench::new();
    let before = descriptors();
    for number in 0..5000u64 {
        bench.map(0, number * 0x1000, 0x1000, &memory_file(0x1000)).unwrap();
    }
    assert_eq!(bench.regions().len(), 5000);
    assert!(descriptors() < before + 500, "{before} descriptors have become {}", descriptors());
    bench.table.clear();
    assert_eq!(bench.regions(), []);
    assert!(bench.table.files.is_empty(), "nothing stays mapped");
}
