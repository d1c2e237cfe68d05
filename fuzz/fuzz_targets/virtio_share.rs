//! A shared folder under a driver that knows no rules, and messages that are nearly those of a client: nothing outside of the
//! folder changes or is read, and after a reset the folder can be mounted.

#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::kvm::driver::{BUFFERS, Driver, NEXT, WRITE};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const MESSAGE: u64 = BUFFERS;
const REPLY: u64 = BUFFERS + 0x1000;
const ROOM: u32 = 0x1800;
const SECRET: &[u8] = b"a secret of the host's";
const HEADER: usize = 7;
const LERROR: u8 = 7;

/// Requests of the protocol, and the fields of each: `f` a fid, `n` a name, `s` a string, and numbers of 1, 2, 4 and 8
/// bytes.
const REQUESTS: [(u8, &str); 22] = [
    (8, "f"),
    (12, "f4"),
    (14, "fn444"),
    (16, "fns4"),
    (18, "fn4444"),
    (22, "f"),
    (24, "f8"),
    (26, "f4444888888"),
    (40, "f84"),
    (50, "f4"),
    (52, "f14884s"),
    (54, "f1884s"),
    (70, "ffn"),
    (72, "fn44"),
    (74, "fnfn"),
    (76, "fn4"),
    (104, "f4ss4"),
    (110, "ff2nn"),
    (116, "f84"),
    (118, "f84"),
    (120, "f"),
    (122, "f"),
];
const NAMES: [&[u8]; 12] =
    [b"file", b"deep", b"out", b"up", b"new", b"pipe", b"..", b".", b"", b"a/b", b"/etc", b"../secret"];

struct Folder {
    around: TempDir,
}

static FOLDER: LazyLock<Folder> = LazyLock::new(|| {
    let around = tempfile::tempdir().expect("a temporary folder");
    fs::write(around.path().join("secret"), SECRET).expect("a file");
    Folder { around }
});

impl Folder {
    fn shared(&self) -> PathBuf {
        self.around.path().join("shared")
    }

    /// The folder as it is to begin with.
    fn fresh(&self) -> PathBuf {
        let shared = self.shared();
        remove(&shared);
        fs::create_dir_all(shared.join("deep")).expect("a folder");
        fs::write(shared.join("file"), b"of the host").expect("a file");
        symlink("../secret", shared.join("out")).expect("a link");
        symlink("..", shared.join("up")).expect("a link");
        shared
    }

    /// Files beside the shared folder are unchanged.
    fn check(&self) {
        let secret = fs::read(self.around.path().join("secret")).expect("the secret");
        assert_eq!(secret, SECRET, "a file outside of the folder was written to");
        let beside = fs::read_dir(self.around.path()).expect("the folder around").count();
        assert_eq!(beside, 2, "something was made or removed outside of the folder");
    }
}

/// Removes a tree, with any permissions that the guest has given its folders.
fn remove(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
            remove(&entry.path());
        }
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(path);
}

fuzz_target!(|input: &[u8]| {
    let read_only = input.first().is_some_and(|byte| byte & 1 != 0);
    let shared = FOLDER.fresh();
    let driver = Driver::share(&shared, read_only);
    mount(&driver);
    for access in accesses(input) {
        match access.kind & 15 {
            10..=13 => request(&driver, &access),
            14 => mount(&driver),
            _ => driver.act(&access),
        }
    }
    FOLDER.check();
    mount(&driver);
    if read_only {
        assert_eq!(
            fs::read(shared.join("file")).expect("the file"),
            b"of the host",
            "a read-only folder changed"
        );
        assert_eq!(fs::read_dir(&shared).expect("the folder").count(), 4, "a read-only folder changed");
    }
});

/// Sends a message; its reply, which has to be one.
fn send(driver: &Driver, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEADER + body.len()) as u32).to_le_bytes().to_vec();
    message.extend([kind, 0x34, 0x12]);
    message.extend(body);
    driver.put(MESSAGE, &message);
    driver.put(REPLY, &[0; HEADER]);
    let before = driver.returned(0);
    driver.describe(0, 0, (MESSAGE, message.len() as u32, NEXT), 1);
    driver.describe(0, 1, (REPLY, ROOM, WRITE), 0);
    driver.offer(0, 0);
    driver.run();
    if driver.returned(0) == before {
        return Vec::new();
    }
    let length = u32::from_le_bytes(*driver.take(REPLY, 4).first_chunk().expect("four bytes"));
    if length == 0 {
        // What came back was another message.
        return Vec::new();
    }
    assert!((HEADER as u32..=ROOM).contains(&length), "a reply of {length} bytes");
    let reply = driver.take(REPLY, length as usize);
    assert!(reply[4] == kind.wrapping_add(1) || reply[4] == LERROR, "reply {} to {kind}", reply[4]);
    assert_eq!(reply[5..7], [0x34, 0x12], "the tag");
    assert!(!reply.windows(SECRET.len()).any(|part| part == SECRET), "a file outside of the folder was read");
    reply
}

/// Brings the device up and attaches to the folder.
fn mount(driver: &Driver) {
    driver.start(u64::MAX);
    let version = send(driver, 100, b"\0\x20\0\0\x08\09P2000.L");
    assert_eq!(version.get(4), Some(&101), "the version is agreed on");
    let attached = send(driver, 104, b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff");
    assert_eq!(attached.get(4), Some(&105), "the folder is attached to");
}

/// A message with fields that are nearly right.
fn request(driver: &Driver, access: &Access) {
    let (kind, layout) = REQUESTS[access.offset as usize % REQUESTS.len()];
    let mut bytes = access.data().iter().copied().chain(access.offset.to_le_bytes()).cycle();
    let mut next = || bytes.next().unwrap_or(0);
    let mut body = Vec::new();
    for field in layout.bytes() {
        match field {
            b'f' => body.extend([next() & 7, 0, 0, 0]),
            b'n' | b's' => {
                let name = NAMES[usize::from(next()) % NAMES.len()];
                body.extend((name.len() as u16).to_le_bytes());
                body.extend(name);
            }
            width => (0..width - b'0').for_each(|_| body.push(next())),
        }
    }
    if kind == 118 {
        // As much data as it says, for small counts.
        let count = body.len() - 4;
        body.truncate(count);
        body.extend(5u32.to_le_bytes());
        body.extend(b"fuzz!");
    }
    let length = match access.kind >> 4 {
        0 => usize::from(next()) % (body.len() + 1),
        _ => body.len(),
    };
    send(driver, kind, &body[..length]);
}
