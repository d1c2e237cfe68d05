//! Tests of kernels made by hand: their addresses, their boot parameters, and kernels that are refused. They need no
//! machine.

use std::path::{Path, PathBuf};

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::handmade::elf;
use super::{Entry, load};
use crate::config::{Config, Initramfs};
use crate::error::KernelError;

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 64 * MIB;

/// Fields of the setup header, by their offset in the file.
struct BzImage {
    bytes: Vec<u8>,
}

impl BzImage {
    /// Makes a kernel of four sectors of setup and 64 KiB of code, that needs 1 MiB at 16 MiB.
    fn new() -> Self {
        let mut image = Self { bytes: vec![0; 5 * 512] };
        image.bytes.extend((0..65536u32).map(|at| at as u8));
        image.put(0x1f1, &[4]);
        image.put(0x1f4, &4096u32.to_le_bytes());
        image.put(0x1fe, &[0x55, 0xaa]);
        image.put(0x202, b"HdrS");
        image.put(0x206, &0x020fu16.to_le_bytes());
        image.put(0x211, &[1]);
        image.put(0x22c, &0x7fff_ffffu32.to_le_bytes());
        image.put(0x236, &1u16.to_le_bytes());
        image.put(0x238, &100u32.to_le_bytes());
        image.put(0x258, &(16 * MIB).to_le_bytes());
        image.put(0x260, &(MIB as u32).to_le_bytes());
        image
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.put(at, bytes);
        self
    }
}

/// Makes an ELF file with one segment of code at 1 MiB, and a note with a PVH entry point.
fn pvh(entry: u32) -> Vec<u8> {
    elf(&[0xf4; 32], Some(entry))
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn kernel(&self, content: &[u8]) -> PathBuf {
        let path = self.0.path().join("kernel");
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY as usize)]).unwrap()
}

fn read<const N: usize>(memory: &GuestMemoryMmap, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
    bytes
}

fn word(memory: &GuestMemoryMmap, at: u64) -> u64 {
    u32::from_le_bytes(read(memory, at)).into()
}

fn quad(memory: &GuestMemoryMmap, at: u64) -> u64 {
    u64::from_le_bytes(read(memory, at))
}

fn error(config: &Config) -> KernelError {
    load(&memory(), config).expect_err("this was to be refused")
}

fn config(kernel: &Path) -> Config {
    Config { memory: MEMORY, ..Config::new(kernel) }
}

#[test]
fn bzimage_is_where_it_wants_to_be_and_is_told_what_there_is() {
    let files = Files::new();
    let config = Config {
        initramfs: Some(Initramfs::Bytes(vec![7; 5000])),
        command_line: "console=ttyS0 quiet".into(),
        ..config(&files.kernel(&BzImage::new().bytes))
    };
    let memory = memory();
    let Entry::Long { rip, rsi } = load(&memory, &config).unwrap() else { panic!("not in long mode") };
    assert_eq!(rip, 16 * MIB + 0x200);
    assert_eq!(read(&memory, rip), [0, 1, 2, 3]);
    // The header is unchanged, except the fields that the loader has to fill in.
    assert_eq!(read(&memory, rsi + 0x202), *b"HdrS");
    assert_eq!(read(&memory, rsi + 0x210), [0xff]);
    let text = word(&memory, rsi + 0x228);
    assert_eq!(read(&memory, text), *b"console=ttyS0 quiet\0");
    let (at, size) = (word(&memory, rsi + 0x218), word(&memory, rsi + 0x21c));
    assert_eq!((at, size), (MEMORY - 8192, 5000));
    assert_eq!((read(&memory, at), read(&memory, at + 4999), read(&memory, at + 5000)), ([7], [7], [0]));
    assert_eq!(quad(&memory, rsi + 0x70), super::ACPI);
    let [count] = read(&memory, rsi + 0x1e8);
    let ram: u64 = (0..u64::from(count))
        .map(|entry| rsi + 0x2d0 + entry * 20)
        .filter(|&entry| word(&memory, entry + 16) == 1)
        .map(|entry| quad(&memory, entry + 8))
        .sum();
    assert_eq!(ram, MEMORY - MIB + 0x9_fc00);
}

#[test]
fn initramfs_is_below_the_highest_address_the_kernel_takes() {
    let files = Files::new();
    let kernel = files.kernel(&BzImage::new().with(0x22c, &(0x1ff_ffffu32).to_le_bytes()).bytes);
    let memory = memory();
    let initramfs = Some(Initramfs::Bytes(vec![7; 4096]));
    let entry = load(&memory, &Config { initramfs, ..config(&kernel) }).unwrap();
    let Entry::Long { rsi, .. } = entry else { panic!("not in long mode") };
    assert_eq!(word(&memory, rsi + 0x218), 32 * MIB - 4096);
}

#[test]
fn initramfs_without_room_is_refused_from_a_file_and_from_memory() {
    let files = Files::new();
    let kernel = files.kernel(&BzImage::new().bytes);
    // After the kernel's 1 MiB at 16 MiB.
    let room = MEMORY - 17 * MIB;
    let path = files.0.path().join("initramfs");
    for (size, fits) in [(room, true), (room + 1, false), (MEMORY * 2, false)] {
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        for initramfs in [Initramfs::File(path.clone()), Initramfs::Bytes(vec![0; size as usize])] {
            let config = Config { initramfs: Some(initramfs), ..config(&kernel) };
            match load(&memory(), &config) {
                Ok(_) => assert!(fits, "{size}"),
                Err(KernelError::InitramfsTooLarge { room: said }) => {
                    assert!(!fits && said == room, "{size}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn initramfs_that_cannot_be_read_is_named() {
    let files = Files::new();
    let kernel = files.kernel(&BzImage::new().bytes);
    for path in [files.0.path().join("missing"), files.0.path().to_owned(), "/dev/zero".into()] {
        let config = Config { initramfs: Some(Initramfs::File(path.clone())), ..config(&kernel) };
        let error = error(&config);
        assert!(
            matches!(&error, KernelError::ReadInitramfs { path: named, .. } if *named == path),
            "{error}"
        );
    }
}

#[test]
fn command_line_has_the_kernels_limit_and_linuxs() {
    let files = Files::new();
    let kernel = files.kernel(&BzImage::new().bytes);
    let with = |length| Config { command_line: "x".repeat(length), ..config(&kernel) };
    load(&memory(), &with(100)).unwrap();
    assert!(matches!(error(&with(101)), KernelError::CommandLineTooLong { length: 101, limit: 100 }));
    let kernel = files.kernel(&BzImage::new().with(0x238, &u32::MAX.to_le_bytes()).bytes);
    let with = |length| Config { command_line: "x".repeat(length), ..config(&kernel) };
    load(&memory(), &with(2047)).unwrap();
    assert!(matches!(error(&with(2048)), KernelError::CommandLineTooLong { length: 2048, limit: 2047 }));
    let config = Config { command_line: "a\0b".into(), ..config(&kernel) };
    assert!(matches!(error(&config), KernelError::CommandLineZero));
}

#[test]
fn bzimages_that_cannot_be_started_say_why() {
    let files = Files::new();
    let whole = BzImage::new().bytes;
    let cases = [
        ("header cut short", whole[..0x260].to_vec(), "neither an ELF file nor a bzImage"),
        ("cut short", whole[..whole.len() - 1].to_vec(), "cut short: 68095 of 68096 bytes"),
        ("no boot flag", BzImage::new().with(0x1fe, &[0, 0]).bytes, "neither an ELF file nor a bzImage"),
        ("no magic", BzImage::new().with(0x202, b"HdrZ").bytes, "neither an ELF file nor a bzImage"),
        ("old", BzImage::new().with(0x206, &[0x0b, 2]).bytes, "boot protocol 2.11"),
        ("32 bits", BzImage::new().with(0x236, &[0, 0]).bytes, "no 64-bit entry point"),
        ("zImage", BzImage::new().with(0x211, &[0]).bytes, "zImage"),
        ("more sectors", BzImage::new().with(0x1f1, &[0xff]).bytes, "cut short"),
        ("more code", BzImage::new().with(0x1f4, &[0xff; 4]).bytes, "cut short"),
        ("tiny", BzImage::new().with(0x260, &4096u32.to_le_bytes()).bytes, "less memory than"),
    ];
    for (what, content, expected) in cases {
        let error = error(&config(&files.kernel(&content)));
        assert!(matches!(error, KernelError::NotAKernel { .. }), "{what}: {error}");
        assert!(error.to_string().contains(expected), "{what}: {error}");
    }
}

#[test]
fn bzimages_without_room_are_refused() {
    let files = Files::new();
    for (at, size) in [(MEMORY, 1 << 20), (u64::MAX - 0xfff, 1 << 20), (16 * MIB, u32::MAX), (0, 1 << 20)] {
        let kernel = BzImage::new().with(0x258, &at.to_le_bytes()).with(0x260, &size.to_le_bytes());
        let error = error(&config(&files.kernel(&kernel.bytes)));
        assert!(matches!(error, KernelError::NoRoom { .. }), "{at:#x} {size:#x}: {error}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let files = Files::new();
    for path in [files.0.path().join("missing"), files.0.path().to_owned(), "/dev/zero".into()] {
        let error = error(&config(&path));
        assert!(matches!(&error, KernelError::Read { path: named, .. } if *named == path), "{error}");
    }
}

#[test]
fn pvh_kernels_are_told_by_the_start_info() {
    let files = Files::new();
    let config = Config {
        initramfs: Some(Initramfs::Bytes(vec![7; 100])),
        command_line: "quiet".into(),
        ..config(&files.kernel(&pvh(MIB as u32 + 8)))
    };
    let memory = memory();
    let Entry::Protected { eip, ebx } = load(&memory, &config).unwrap() else { panic!("not by PVH") };
    let info = u64::from(ebx);
    assert_eq!(eip, MIB as u32 + 8);
    assert_eq!((word(&memory, info), word(&memory, info + 4)), (0x336e_c578, 1));
    assert_eq!(word(&memory, info + 12), 1);
    let module = quad(&memory, info + 16);
    assert_eq!((quad(&memory, module), quad(&memory, module + 8)), (MEMORY - 4096, 100));
    assert_eq!(read(&memory, quad(&memory, info + 24)), *b"quiet\0");
    assert_eq!(quad(&memory, info + 32), super::ACPI);
    let (map, count) = (quad(&memory, info + 40), word(&memory, info + 48));
    let ram: u64 = (0..count)
        .map(|entry| map + entry * 24)
        .filter(|&entry| word(&memory, entry + 16) == 1)
        .map(|entry| quad(&memory, entry + 8))
        .sum();
    assert_eq!(ram, MEMORY - MIB + 0x9_fc00);
}

#[test]
fn pvh_entry_points_outside_of_the_kernel_are_refused() {
    let files = Files::new();
    for entry in [0, 0x7000, MIB as u32 + 32] {
        let error = error(&config(&files.kernel(&pvh(entry))));
        assert!(error.to_string().contains("PVH entry point"), "{entry:#x}: {error}");
    }
    let cut = pvh(MIB as u32);
    let error = error(&config(&files.kernel(&cut[..cut.len() - 1])));
    assert!(error.to_string().contains("cut short"), "{error}");
}

#[test]
fn kernels_of_any_contents_are_survived() {
    let files = Files::new();
    let memory = memory();
    // Every byte of the headers, with values that are extremes of fields.
    for (whole, until) in [(BzImage::new().bytes, 0x270), (pvh(MIB as u32), 220)] {
        for at in 0..until {
            for value in [0u8, 0x7f, 0xff] {
                let mut content = whole.clone();
                content[at] = value;
                let _ = load(&memory, &config(&files.kernel(&content)));
            }
        }
    }
}
