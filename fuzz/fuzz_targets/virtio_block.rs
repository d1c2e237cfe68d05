//! A disk under a driver that knows no rules: after anything it did, a reset gives a disk that works, and the
//! image stays.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::kvm::driver::{BUFFERS, Driver, NEXT, WRITE};
use libfuzzer_sys::fuzz_target;
use tempfile::NamedTempFile;

const SECTORS: u64 = 512;
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
const OK: u8 = 0;

const HEADER: u64 = BUFFERS;
const STATUS: u64 = BUFFERS + 0x10;
const DATA: u64 = BUFFERS + 0x100;

static IMAGE: LazyLock<(NamedTempFile, Vec<u8>)> = LazyLock::new(|| {
    let content: Vec<u8> = (0..SECTORS * 512).map(|at| (at / 512 * 31 + at * 7) as u8).collect();
    let file = NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), &content).expect("an image");
    (file, content)
});

fuzz_target!(|input: &[u8]| {
    let (image, content) = &*IMAGE;
    let driver = Driver::block(image.path());
    driver.start(u64::MAX);
    for access in accesses(input) {
        match access.kind & 15 {
            10 => reads_what_it_wrote(&driver, &access),
            11 => reads_zeroes(&driver, &access),
            12 => is_refused(&driver, &access),
            _ => driver.act(&access),
        }
    }
    driver.start(0);
    assert_eq!(request(&driver, FLUSH, 0, 0, 0), OK, "a disk that was reset works");
    assert!(unchanged(image.path(), content), "the image was written to");
});

fn unchanged(image: &Path, content: &[u8]) -> bool {
    std::fs::read(image).is_ok_and(|found| found == content)
}

/// A request by the rules; its status.
fn request(driver: &Driver, kind: u32, sector: u64, length: u32, write: u16) -> u8 {
    driver.put(HEADER, &u64::from(kind).to_le_bytes());
    driver.put(HEADER + 8, &sector.to_le_bytes());
    driver.put(STATUS, &[0xff]);
    let before = driver.returned(0);
    driver.describe(0, 0, (HEADER, 16, NEXT), if length == 0 { 2 } else { 1 });
    driver.describe(0, 1, (DATA, length, NEXT | write), 2);
    driver.describe(0, 2, (STATUS, 1, WRITE), 0);
    driver.offer(0, 0);
    driver.run();
    assert_eq!(driver.returned(0), before.wrapping_add(1), "the request comes back");
    driver.take(STATUS, 1)[0]
}

fn sectors(access: &Access) -> (u64, u32) {
    let count = 1 + u64::from(access.kind >> 4) % 4;
    (access.offset % (SECTORS - count), count as u32 * 512)
}

fn reads_what_it_wrote(driver: &Driver, access: &Access) {
    let (sector, length) = sectors(access);
    driver.start(access.offset);
    let data: Vec<u8> = access.data().iter().copied().chain([1]).cycle().take(length as usize).collect();
    driver.put(DATA, &data);
    assert_eq!(request(driver, OUT, sector, length, 0), OK, "writing");
    driver.put(DATA, &vec![0; length as usize]);
    assert_eq!(request(driver, IN, sector, length, WRITE), OK, "reading");
    assert!(driver.take(DATA, length as usize) == data, "sector {sector} differs from what was written");
}

fn reads_zeroes(driver: &Driver, access: &Access) {
    let (sector, length) = sectors(access);
    driver.start(access.offset);
    let kind = if access.kind & 0x80 == 0 { DISCARD } else { WRITE_ZEROES };
    driver.put(DATA, &sector.to_le_bytes());
    driver.put(DATA + 8, &(length / 512).to_le_bytes());
    driver.put(DATA + 12, &[0; 4]);
    assert_eq!(request(driver, kind, 0, 16, 0), OK, "zeroing");
    driver.put(DATA, &vec![0xee; length as usize]);
    assert_eq!(request(driver, IN, sector, length, WRITE), OK, "reading");
    assert!(driver.take(DATA, length as usize).iter().all(|&byte| byte == 0), "sector {sector} is not zero");
}

/// A request beyond the disk, or of a part of a sector, is an error of the request and of nothing else.
fn is_refused(driver: &Driver, access: &Access) {
    driver.start(access.offset);
    let distance = access.offset & 0xffff_ffff;
    let (sector, length) = match access.kind >> 4 & 3 {
        0 => (SECTORS + distance, 512),
        1 => (SECTORS - 1, 1024),
        2 => (u64::MAX - distance, 512),
        _ => (0, 1 + access.offset as u32 % 511),
    };
    for (kind, write) in [(IN, WRITE), (OUT, 0)] {
        assert_ne!(request(driver, kind, sector, length, write), OK, "{length} bytes at sector {sector:#x}");
    }
    assert_eq!(request(driver, FLUSH, 0, 0, 0), OK, "the disk works on");
}
