//! A machine that is saved while it runs, and machines that go on from the file.
//!
//! Needs a /dev/kvm that can be used; without one these tests fail and say so.

#[path = "../src/boot/handmade.rs"]
mod handmade;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use belfry_machine::snapshot::{FileError, Snapshot, SnapshotError};
use belfry_machine::{Config, DiskConfig, DiskFormat, End, KvmError, Machine, Running};
use handmade::elf;

const MIB: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// Code that counts typed keys in a register and in memory, and writes both numbers as letters, up to a `!`.
const COUNT: [u8; 47] = [
    0xb9, b'A', 0, 0, 0, // mov ecx, 'A'
    0xbf, 0x00, 0x00, 0x50, 0x00, // mov edi, 0x500000
    0xc6, 0x07, b'a', // mov byte [rdi], 'a'
    0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74,
    0xf7, // 1: mov dx, 0x3fd; in al, dx; test al, 1; jz 1b
    0x66, 0xba, 0xf8, 0x03, 0xec, // mov dx, 0x3f8; in al, dx
    0x3c, b'!', 0x74, 0x0c, // cmp al, '!'; je 2f
    0x88, 0xc8, 0xee, // mov al, cl; out dx, al
    0x8a, 0x07, 0xee, // mov al, [rdi]; out dx, al
    0xff, 0xc1, 0xfe, 0x07, // inc ecx; inc byte [rdi]
    0xeb, 0xe2, // jmp 1b
    0x88, 0xc8, // 2: mov al, cl
    0xe6, 0xf4, // out 0xf4, al
];

/// A machine with its keyboard and its output.
struct Typed {
    machine: Running,
    saver: std::sync::Arc<belfry_machine::snapshot::Saver>,
    keys: UnixStream,
    said: Receiver<Vec<u8>>,
    text: String,
}

fn keyboard() -> (UnixStream, Option<File>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours, Some(File::from(OwnedFd::from(theirs))))
}

impl Typed {
    fn start(machine: Machine, keys: UnixStream) -> Self {
        let (sender, said) = channel();
        let saver = machine.saver();
        let machine = machine.start(LIMIT, move |data| {
            let _ = sender.send(data.to_vec());
        });
        Self { machine: machine.unwrap(), saver, keys, said, text: String::new() }
    }

    /// Makes a new machine, with a kernel of its own.
    fn new(folder: &Path, cpus: u8) -> Self {
        Self::with_disks(folder, cpus, Vec::new())
    }

    /// Makes a new machine that has disks, too.
    fn with_disks(folder: &Path, cpus: u8, disks: Vec<DiskConfig>) -> Self {
        let kernel = folder.join("kernel");
        std::fs::write(&kernel, elf(&COUNT, None)).unwrap();
        let (keys, input) = keyboard();
        let config = Config { memory: 8 * MIB, cpus, input, disks, ..Config::new(kernel) };
        Self::start(Machine::new(config).unwrap(), keys)
    }

    /// Makes a machine that goes on from a file.
    fn resumed(file: &Path) -> Self {
        let snapshot = Snapshot::open(file).unwrap();
        snapshot.check_memory().unwrap();
        let (keys, input) = keyboard();
        let config = Config { input, ..snapshot.config() };
        Self::start(Machine::resume(&snapshot, config).unwrap(), keys)
    }

    /// Types a key, and waits for the output.
    fn types(&mut self, key: u8) -> &str {
        let before = self.text.len();
        self.keys.write_all(&[key]).unwrap();
        while self.text.len() < before + 2 {
            self.text += &String::from_utf8(self.said.recv_timeout(LIMIT).unwrap()).unwrap();
        }
        &self.text[before..]
    }

    fn end(mut self) -> End {
        self.keys.write_all(b"!").unwrap();
        self.machine.wait().unwrap().end
    }
}

#[test]
fn machines_go_on_from_a_file_each_with_memory_of_its_own() {
    for cpus in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snapshot");
        let mut first = Typed::new(folder.path(), cpus);
        assert_eq!((first.types(b'x').to_owned(), first.types(b'x')), ("Aa".to_owned(), "Bb"));
        let saved = first.saver.save(&file).unwrap();
        assert_eq!((saved.head.cpus, saved.head.ram.length, saved.head.chip.as_str()), (cpus, 8 * MIB, ""));
        assert!(saved.head.ram.pages < 100 && saved.bytes < MIB, "{saved:?}");
        let (mut one, mut other) = (Typed::resumed(&file), Typed::resumed(&file));
        assert_eq!((one.types(b'x').to_owned(), one.types(b'x')), ("Cc".to_owned(), "Dd"));
        assert_eq!(other.types(b'x'), "Cc", "what another one does is not seen");
        // A machine that was resumed is saved again, over the file that others run from.
        one.saver.save(&file).unwrap();
        let mut third = Typed::resumed(&file);
        assert_eq!(third.types(b'x'), "Ee");
        assert_eq!(first.types(b'x'), "Cc", "and the first one does not know of any of that");
        assert_eq!(other.types(b'x'), "Dd");
        let ends = [first, one, other, third].map(Typed::end);
        assert_eq!(ends, [b'D', b'E', b'E', b'F'].map(End::Exit));
    }
}

/// A guest without a channel has no talk with the host, so that no note of one is kept.
#[test]
fn machine_with_disks_and_without_a_channel_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (image, file) = (folder.path().join("image"), folder.path().join("snapshot"));
    std::fs::write(&image, [7; 4096]).unwrap();
    let disk = DiskConfig { format: DiskFormat::Raw, ..DiskConfig::new(&image) };
    let mut first = Typed::with_disks(folder.path(), 1, vec![disk]);
    assert_eq!(first.types(b'x'), "Aa");
    first.saver.save(&file).unwrap();
    assert!(!Snapshot::open(&file).unwrap().has_channel());
    let mut second = Typed::resumed(&file);
    assert_eq!((first.types(b'x'), second.types(b'x')), ("Bb", "Bb"));
    assert_eq!([first, second].map(Typed::end), [b'C', b'C'].map(End::Exit));
}

#[test]
fn saver_of_a_machine_that_has_ended_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let first = Typed::new(folder.path(), 1);
    let saver = std::sync::Arc::clone(&first.saver);
    first.end();
    assert!(matches!(saver.save(&file), Err(SnapshotError::Ended)));
    assert!(!file.exists());
}

#[test]
fn what_cannot_be_written_leaves_the_machine_and_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let mut first = Typed::new(folder.path(), 1);
    first.types(b'x');
    first.saver.save(&file).unwrap();
    let before = std::fs::read(&file).unwrap();
    for path in ["/no/such/folder/snapshot", "/proc/snapshot"] {
        let error = first.saver.save(Path::new(path)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("goes on"), "{error}");
    }
    assert_eq!(first.types(b'x'), "Bb");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    first.end();
}

fn refusal(file: &Path) -> String {
    match Snapshot::open(file) {
        Err(error) => error.to_string(),
        Ok(snapshot) => snapshot.check_memory().unwrap_err().to_string(),
    }
}

#[test]
fn damaged_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let first = Typed::new(folder.path(), 1);
    let saved = first.saver.save(&file).unwrap();
    first.end();
    let whole = std::fs::read(&file).unwrap();
    let damaged = |name: &str, change: &dyn Fn(&File)| -> String {
        let path: PathBuf = folder.path().join(name);
        std::fs::write(&path, &whole).unwrap();
        change(&File::options().write(true).open(&path).unwrap());
        let error = refusal(&path);
        assert!(error.contains(name), "{error}");
        error
    };
    let write = |at: u64, bytes: &'static [u8]| move |file: &File| file.write_all_at(bytes, at).unwrap();
    assert!(damaged("other", &write(0, b"x")).contains("no snapshot of a machine"));
    assert!(damaged("later", &write(8, &[77])).contains("version 77"));
    assert!(damaged("head", &write(40, &[0x55])).contains("head is damaged"));
    assert!(damaged("long", &write(16, &[0xff; 8])).contains("length of the head"));
    assert!(damaged("state", &write(saved.head.state.at + 9, &[0x99; 3])).contains("state is damaged"));
    assert!(
        damaged("memory", &write(saved.head.ram.at + 0x20_0000, b"x")).contains("guest memory is damaged")
    );
    let has = whole.len() as u64;
    for length in [0, 7, 8, 31, 32, 100, 4096, saved.head.ram.at, has - 1, has + 1] {
        let error = damaged("cut", &|file| file.set_len(length).unwrap());
        let expected = if length < 8 { "no snapshot" } else { "cut off" };
        assert!(error.contains(expected), "{length}: {error}");
    }
    assert!(refusal(folder.path()).contains("no snapshot"));
    assert!(refusal(Path::new("/dev/zero")).contains("no snapshot"));
    assert!(refusal(Path::new("/no/such/file")).contains("No such file"));
    assert!(matches!(
        Snapshot::open(Path::new("/no/such/file")),
        Err(SnapshotError::File { source: FileError::Read(_), .. })
    ));
}

#[test]
fn machines_with_more_than_a_snapshot_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    std::fs::write(&kernel, elf(&COUNT, None)).unwrap();
    let network = || Some(UnixStream::pair().unwrap().0);
    let machine =
        Machine::new(Config { memory: 8 * MIB, network: network(), ..Config::new(&kernel) }).unwrap();
    let error = machine.saver().save(&folder.path().join("snapshot")).unwrap_err().to_string();
    assert!(error.contains("a network card"), "{error}");
    let file = folder.path().join("snapshot");
    let first = Typed::new(folder.path(), 1);
    first.saver.save(&file).unwrap();
    first.end();
    let snapshot = Snapshot::open(&file).unwrap();
    let resumed = Machine::resume(&snapshot, Config { network: network(), ..snapshot.config() });
    assert!(matches!(resumed, Err(KvmError::Snapshot(SnapshotError::NotResumed("a network card")))));
}
