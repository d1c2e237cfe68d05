//! Tests of disks, with a driver on one side and images on the other.

use std::fs;
use std::path::{Path, PathBuf};

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::raw::Raw;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder as _};
use tempfile::TempDir;

use super::Block;
use super::disk::{DiskConfig, DiskFormat};
use super::testing::{BUFFERS, Driver, RAM, STATUS, WRITE};
use crate::saved::{SavedBlock, SavedDevice, SavedVirtio};

const SECTORS: u64 = 4096;
const HEADER: u64 = BUFFERS;
const STATUS_AT: u64 = BUFFERS + 0x100;
const DATA: u64 = BUFFERS + 0x1000;

const IN: u32 = 0;
const OUT: u32 = 1;
const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPP: u8 = 2;

fn pattern(at: u64) -> u8 {
    (at / 512 * 31 + at * 7) as u8
}

fn content() -> Vec<u8> {
    (0..SECTORS * 512).map(pattern).collect()
}

/// A raw image and a qcow2 image with equal contents, and a directory for them.
struct Images {
    directory: TempDir,
}

impl Images {
    fn new() -> Self {
        let images = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(images.path("raw"), content()).unwrap();
        let access = qcow2(&images.path("qcow2"), SECTORS * 512, None);
        access.write(content().as_slice(), 0).unwrap();
        access.flush().unwrap();
        images
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Makes a qcow2 image, with a backing file if one is given.
fn qcow2(path: &Path, size: u64, backing: Option<&Path>) -> FormatAccess<File> {
    let file = fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
    let mut builder = Qcow2::<File>::create_builder(File::try_from(file).unwrap()).size(size);
    if let Some(backing) = backing {
        builder = builder.backing(backing.display().to_string(), "raw".into());
    }
    let below = backing.map(|path| FormatAccess::new(Raw::open_path(path, false).unwrap()));
    let image = builder
        .create_open(DenyImplicitOpenGate::default(), |file| Ok(Qcow2::builder(file).backing(below)))
        .unwrap();
    FormatAccess::new(image)
}

struct Machine {
    driver: Driver,
    done: u16,
}

impl Machine {
    fn new(config: &DiskConfig) -> Self {
        Self { driver: Driver::started(Block::new(config, 7).unwrap()), done: 0 }
    }

    /// Sends a request; returns its status and the used length.
    fn request(&mut self, kind: u32, sector: u64, data: &[(u64, u32, u16)]) -> (u8, u32) {
        let mut header = Vec::from(kind.to_le_bytes());
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        self.driver.put(HEADER, &header);
        self.driver.put(STATUS_AT, &[0xee]);
        let chain = [&[(HEADER, 16, 0)], data, &[(STATUS_AT, 1, WRITE)]].concat();
        self.driver.add(0, 0, &chain);
        self.done = self.done.wrapping_add(1);
        let (_, length) = self.driver.used(0, self.done);
        (self.driver.take(STATUS_AT, 1)[0], length)
    }

    fn read(&mut self, sector: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.request(IN, sector, &[(DATA, length, WRITE)]), (OK, length + 1));
        self.driver.take(DATA, length as usize)
    }

    fn write(&mut self, sector: u64, data: &[u8]) {
        self.driver.put(DATA, data);
        assert_eq!(self.request(OUT, sector, &[(DATA, data.len() as u32, 0)]), (OK, 1));
    }

    /// Discards, or writes zeroes: kind, sector, sectors, flags.
    fn zero(&mut self, kind: u32, sector: u64, sectors: u32, flags: u32) -> u8 {
        let mut range = Vec::from(sector.to_le_bytes());
        range.extend(sectors.to_le_bytes());
        range.extend(flags.to_le_bytes());
        self.driver.put(DATA, &range);
        self.request(kind, 0, &[(DATA, 16, 0)]).0
    }
}

#[test]
fn sectors_are_read_written_and_forgotten_in_both_formats() {
    let images = Images::new();
    for name in ["raw", "qcow2"] {
        let before = fs::read(images.path(name)).unwrap();
        for _ in 0..2 {
            let mut machine = Machine::new(&DiskConfig::new(images.path(name)));
            assert_eq!(machine.driver.get(0x1000, 8), SECTORS);
            // The second machine reads what the first one read.
            assert_eq!(machine.read(0, 1 << 20), content()[..1 << 20]);
            assert_eq!(machine.read(SECTORS - 1, 512), content()[(SECTORS as usize - 1) * 512..]);
            machine.write(3, &[0xab; 1024]);
            machine.write(SECTORS - 1, &[0xcd; 512]);
            let mut expected = content()[512..512 * 8].to_vec();
            expected[1024..2048].fill(0xab);
            assert_eq!(machine.read(1, 512 * 7), expected);
            assert_eq!(machine.read(SECTORS - 1, 512), [0xcd; 512]);
            assert_eq!(machine.request(4, 0, &[]), (OK, 1), "flush");
        }
        assert!(fs::read(images.path(name)).unwrap() == before, "the {name} image was written to");
    }
}

#[test]
fn requests_in_pieces_of_any_size_are_whole() {
    let images = Images::new();
    let machine = Machine::new(&DiskConfig::new(images.path("qcow2")));
    let content = content();
    machine.driver.put(DATA, &content[..1 << 20]);
    // Header, data and status in pieces; the status follows the last byte of data.
    let mut header = Vec::from(OUT.to_le_bytes());
    header.extend([0; 4]);
    header.extend(100u64.to_le_bytes());
    machine.driver.put(HEADER, &header);
    machine.driver.add(
        0,
        10,
        &[(HEADER, 3, 0), (HEADER + 3, 13, 0), (DATA, 1, 0), (DATA + 1, 1023, 0), (STATUS_AT, 1, WRITE)],
    );
    assert_eq!(machine.driver.used(0, 1), (10, 1));
    machine.driver.put(HEADER, &IN.to_le_bytes());
    machine.driver.add(
        0,
        20,
        &[(HEADER, 16, 0), (DATA + 0x10_0000, 1000, WRITE), (DATA + 0x11_0000, 25, WRITE)],
    );
    assert_eq!(machine.driver.used(0, 2), (20, 1025));
    assert_eq!(machine.driver.take(DATA + 0x10_0000, 1000), content[..1000]);
    assert_eq!(machine.driver.take(DATA + 0x11_0000, 25), [&content[1000..1024], &[OK]].concat());
}

#[test]
fn what_is_discarded_or_zeroed_reads_as_zeroes() {
    let images = Images::new();
    for name in ["raw", "qcow2"] {
        let mut machine = Machine::new(&DiskConfig::new(images.path(name)));
        machine.write(300, &[0xab; 4096]);
        let mut expected = content();
        expected[300 * 512..][..4096].fill(0xab);
        for (kind, sector, sectors, flags) in
            [(11, 128, 128, 0), (13, 300, 3, 0), (13, 1000, 515, 1), (11, 7, 1, 0)]
        {
            assert_eq!(machine.zero(kind, sector, sectors, flags), OK, "{kind} of {sectors} at {sector}");
            expected[sector as usize * 512..][..sectors as usize * 512].fill(0);
        }
        assert!(machine.read(0, (SECTORS * 512) as u32) == expected, "{name}");
        for (kind, sector, sectors, flags, status) in [
            (11, 0, 1, 1, UNSUPP),
            (13, 0, 1, 2, UNSUPP),
            (13, SECTORS, 1, 0, IOERR),
            (11, SECTORS - 1, 2, 0, IOERR),
            (11, u64::MAX, 2, 0, IOERR),
            (11, u64::MAX >> 9, 2, 0, IOERR),
            (13, 0, u32::MAX, 0, IOERR),
        ] {
            assert_eq!(
                machine.zero(kind, sector, sectors, flags),
                status,
                "{kind} of {sectors} at {sector:#x}"
            );
        }
        assert_eq!(machine.request(11, 0, &[(DATA, 15, 0)]).0, IOERR);
        assert_eq!(machine.request(11, 0, &[]).0, IOERR);
        assert_eq!(machine.request(13, 0, &[(DATA, 16 * 33, 0)]).0, IOERR);
    }
}

#[test]
fn requests_out_of_bounds_or_unknown_fail_and_harm_nothing() {
    let images = Images::new();
    let mut machine = Machine::new(&DiskConfig::new(images.path("raw")));
    for (kind, sector, length, status) in [
        (IN, SECTORS, 512, IOERR),
        (IN, SECTORS - 1, 1024, IOERR),
        (IN, u64::MAX, 512, IOERR),
        (IN, u64::MAX / 512, 512, IOERR),
        (IN, 0, 511, IOERR),
        (2, 0, 512, UNSUPP),
        (14, 0, 512, UNSUPP),
        (u32::MAX, 0, 512, UNSUPP),
    ] {
        machine.driver.put(DATA, &[0x77; 1024]);
        assert_eq!(
            machine.request(kind, sector, &[(DATA, length, WRITE)]),
            (status, 0),
            "{kind} at {sector:#x}"
        );
        assert_eq!(machine.driver.take(DATA, 1024), [0x77; 1024]);
    }
    for (sector, length) in [(SECTORS, 512), (SECTORS - 1, 1024), (u64::MAX, 512), (0, 513)] {
        assert_eq!(machine.request(OUT, sector, &[(DATA, length, 0)]).0, IOERR, "write at {sector:#x}");
    }
    // Sixteen times all memory: more bytes than the disk has.
    assert_eq!(machine.request(IN, 0, &[(0, RAM as u32, WRITE); 16]), (IOERR, 0));
    assert_eq!(machine.read(0, 4096), content()[..4096]);
    let mut identity = [0; 20];
    identity[..8].copy_from_slice(b"belfry-7");
    assert_eq!(machine.request(8, 0, &[(DATA, 20, WRITE)]), (OK, 21));
    assert_eq!(machine.driver.take(DATA, 20), identity);
}

#[test]
fn requests_without_header_or_status_put_the_disk_out_of_service() {
    let images = Images::new();
    let machine = Machine::new(&DiskConfig::new(images.path("raw")));
    type Case = (&'static str, &'static [(u64, u32, u16)]);
    let cases: [Case; 3] = [
        ("no status", &[(HEADER, 16, 0)]),
        ("half a header", &[(HEADER, 15, 0), (STATUS_AT, 1, WRITE)]),
        ("no header", &[(STATUS_AT, 512, WRITE)]),
    ];
    for (what, chain) in cases {
        machine.driver.start(!0);
        machine.driver.add(0, 0, chain);
        machine.driver.wait_for_needs_reset(what);
    }
    machine.driver.start(!0);
    let mut machine = Machine { driver: machine.driver, done: 0 };
    assert_eq!(machine.read(1, 512), content()[512..1024]);
}

#[test]
fn disks_that_are_read_only_say_so_and_refuse_writes() {
    let images = Images::new();
    let config = DiskConfig { read_only: true, ..DiskConfig::new(images.path("qcow2")) };
    let mut machine = Machine::new(&config);
    let features = machine.driver.offered();
    assert_eq!((features >> 5 & 1, features >> 13 & 1, features >> 14 & 1), (1, 0, 0));
    assert_eq!(machine.request(OUT, 0, &[(DATA, 512, 0)]), (IOERR, 1));
    assert_eq!(machine.zero(11, 0, 8, 0), UNSUPP);
    assert_eq!(machine.read(0, 512), content()[..512]);
}

#[test]
fn a_reset_interrupts_a_long_request() {
    let images = Images::new();
    let path = images.path("large");
    fs::File::create(&path).unwrap().set_len(8 << 30).unwrap();
    let mut machine = Machine::new(&DiskConfig::new(path));
    for _ in 0..5 {
        // The first request reads 2 GiB.
        let mut header = Vec::from(IN.to_le_bytes());
        header.extend([0; 12]);
        machine.driver.put(HEADER, &header);
        let chain =
            [&[(HEADER, 16, 0)][..], &[(8 << 20, 8 << 20, WRITE); 250], &[(STATUS_AT, 1, WRITE)]].concat();
        machine.driver.add(0, 0, &chain);
        machine.driver.set(STATUS, 1, 0);
        assert_eq!(machine.driver.status(), 0);
        machine.driver.start(!0);
        machine.done = 0;
        assert_eq!(machine.read(1, 512), [0; 512]);
    }
}

#[test]
fn overlays_of_files_the_user_names_are_opened_and_others_are_not() {
    let images = Images::new();
    let secret = images.path("raw");
    let top = qcow2(&images.path("top"), SECTORS * 512, Some(&secret));
    top.write([0x55; 512].as_slice(), 512).unwrap();
    drop(top);
    let config = DiskConfig::new(images.path("top"));
    let error = Block::new(&config, 0).unwrap_err().to_string();
    assert!(
        error.contains("/top is an overlay of")
            && error.contains("backing=")
            && error.contains(secret.to_str().unwrap()),
        "{error}"
    );

    let named = DiskConfig { backing: vec![images.path("raw")], ..config.clone() };
    let mut machine = Machine::new(&named);
    let content = content();
    assert!(machine.read(0, 2048) == [&content[..512], &[0x55; 512], &content[1024..2048]].concat());
    drop(machine);

    // The user's file is opened, not the one that the image names.
    fs::write(images.path("other"), [0x11; 512]).unwrap();
    let mut machine = Machine::new(&DiskConfig { backing: vec![images.path("other")], ..config.clone() });
    assert!(machine.read(128, 512) == [0; 512], "what is behind the end of the smaller file");
    drop(machine);

    let deeper = DiskConfig { backing: vec![images.path("raw"), images.path("qcow2")], ..config };
    let error = Block::new(&deeper, 0).unwrap_err().to_string();
    assert!(error.contains("/raw is no overlay"), "{error}");
    let error = Block::new(&DiskConfig { path: images.path("qcow2"), ..named }, 0).unwrap_err().to_string();
    assert!(error.contains("/qcow2 is no overlay"), "{error}");
}

fn error(path: &Path, format: DiskFormat) -> String {
    let config = DiskConfig { format, ..DiskConfig::new(path) };
    match Block::new(&config, 0) {
        Ok(_) => panic!("{} is a disk", path.display()),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains(path.file_name().unwrap().to_str().unwrap()),
                "does not name the file: {text}"
            );
            text
        }
    }
}

#[test]
fn files_that_are_no_images_are_refused_with_what_is_wrong() {
    let images = Images::new();
    let make = |name: &str, bytes: &[u8]| {
        fs::write(images.path(name), bytes).unwrap();
        images.path(name)
    };
    let whole = fs::read(images.path("qcow2")).unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut image = whole.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let cases: [(PathBuf, DiskFormat, &str); 17] = [
        (images.path("absent"), DiskFormat::Auto, "cannot read"),
        (images.directory.path().to_owned(), DiskFormat::Auto, "neither a file nor a block device"),
        ("/dev/null".into(), DiskFormat::Auto, "neither a file nor a block device"),
        (make("empty", &[]), DiskFormat::Auto, "it is empty"),
        (make("odd", &[0; 1000]), DiskFormat::Raw, "whole sectors"),
        (make("not-qcow2", &[0; 1024]), DiskFormat::Qcow2, "magic number"),
        (make("magic-only", b"QFI\xfb"), DiskFormat::Auto, "cut short"),
        (make("header-only", &whole[..104]), DiskFormat::Auto, "cut short"),
        (make("no-data", &whole[..whole.len() / 2]), DiskFormat::Auto, "cut short"),
        (make("version", &patched(4, &[0, 0, 0, 9])), DiskFormat::Auto, "v9"),
        (make("clusters", &patched(20, &[0, 0, 0, 40])), DiskFormat::Auto, "2^40"),
        (make("huge-table", &patched(36, &[0xff; 4])), DiskFormat::Auto, "4294967295 entries"),
        (make("table-away", &patched(40, &[0, 0, 0xff, 0, 0, 0, 0, 0])), DiskFormat::Auto, "cut short"),
        (make("huge-disk", &patched(24, &[0x7f; 8])), DiskFormat::Auto, "64 TiB"),
        (make("no-disk", &patched(24, &[0; 8])), DiskFormat::Auto, "empty"),
        (make("feature", &patched(72, &[0x10; 8])), DiskFormat::Auto, "incompatible feature"),
        (make("data-file", &patched(79, &[4])), DiskFormat::Auto, "in another file"),
    ];
    for (path, format, part) in &cases {
        let error = error(path, *format);
        assert!(error.contains(part), "{}: {error}", path.display());
    }
    // Every cut loses data, except in the last cluster, which may be written in part.
    for length in (0..whole.len() - (128 << 10)).step_by(whole.len() / 23) {
        error(&make("cut", &whole[..length]), DiskFormat::Qcow2);
    }
}

#[test]
fn corrupt_images_are_refused_or_fail_reads_and_never_more() {
    let images = Images::new();
    let whole = fs::read(images.path("qcow2")).unwrap();
    let word = |at: usize| u64::from_be_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let l1 = word(40);
    let l2 = word(l1) & 0x00ff_ffff_ffff_fe00;
    let mut places: Vec<usize> = (4..112).collect();
    places.extend(l1..l1 + 8);
    places.extend(l2..l2 + 32);
    let (mut refused, mut opened) = (0, 0);
    for at in places {
        for value in [0, 1, 0x40, 0x80, 0xff] {
            let mut image = whole.clone();
            image[at] = value;
            let path = images.path("corrupt");
            fs::write(&path, image).unwrap();
            let Ok(disk) = super::disk::image::Disk::open(&DiskConfig::new(&path)) else {
                refused += 1;
                continue;
            };
            opened += 1;
            let mut data = vec![0; 64 << 10];
            for offset in [0, 1 << 20] {
                // Any answer is fine; it must not panic.
                let _ = disk.read(&mut data, offset);
                let _ = disk.write(&data, offset);
            }
        }
    }
    assert!(refused > 100 && opened > 100, "{refused} images refused, {opened} opened");
}

#[test]
fn disk_goes_on_with_what_was_written_to_it() {
    let images = Images::new();
    for format in ["raw", "qcow2"] {
        let config = DiskConfig::new(images.path(format));
        let mut first = Machine::new(&config);
        first.write(3, &[0xaa; 1024]);
        first.driver.function.hold(true);
        let saved = first.driver.function.save(3).unwrap();
        let SavedDevice::Block(block) = &saved.device else { panic!("it is a disk") };
        assert_eq!(DiskConfig::from(block), config);
        let restored = |saved: &SavedVirtio| {
            Driver::restored(Block::new(&config, 7).unwrap(), first.driver.memory.clone(), saved)
        };
        let mut second = Machine { driver: restored(&saved).unwrap(), done: first.done };
        assert_eq!(second.read(3, 1024), [0xaa; 1024], "{format}");
        assert_eq!(second.read(5, 512), content()[5 * 512..6 * 512], "{format}");
        second.write(SECTORS - 1, &[0xbb; 512]);
        assert_eq!(second.read(SECTORS - 1, 512), [0xbb; 512], "{format}");
        let refused = |change: &dyn Fn(&mut SavedBlock)| {
            let mut bad = saved.clone();
            let SavedDevice::Block(block) = &mut bad.device else { panic!("it is a disk") };
            change(block);
            restored(&bad).err().expect("a disk that is refused").to_string()
        };
        assert!(refused(&|block| block.overlay.clear()).contains("cannot be had again"), "{format}");
        assert!(
            refused(&|block| block.overlay.truncate(0x1_0000)).contains("cannot be had again"),
            "{format}"
        );
        assert!(refused(&|block| block.overlay[0] ^= 1).contains("cannot be had again"), "{format}");
        let grown = refused(&|block| block.length += 512);
        assert!(grown.contains("has changed since") && grown.contains(format), "{grown}");
    }
    let config = DiskConfig { read_only: true, ..DiskConfig::new(images.path("raw")) };
    let first = Machine::new(&config);
    first.driver.function.hold(true);
    let saved = first.driver.function.save(3).unwrap();
    let driver = Driver::restored(Block::new(&config, 7).unwrap(), first.driver.memory.clone(), &saved);
    let mut second = Machine { driver: driver.unwrap(), done: 0 };
    assert_eq!(second.read(9, 512), content()[9 * 512..10 * 512]);
}
