//! Tests of the server with a client that speaks the protocol and also sends requests that no kernel would.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use rustix::io::Errno;
use tempfile::TempDir;

use super::server::Server;
use super::tree::Tree;
use super::wire::{NONE, request as r};

/// The fid of the root, and others.
const ROOT: u32 = 0;
const A: u32 = 1;
const B: u32 = 2;
const REPLY: u64 = 256 << 10;

/// Fields of a message.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, text: &[u8]) -> Self {
        let mut body = self.u16(text.len() as u16);
        body.0.extend(text);
        body
    }
}

fn body() -> Body {
    Body::default()
}

struct Client {
    server: Server,
    /// A folder around the shared one, so that there is a place to escape to.
    around: TempDir,
}

impl Client {
    fn new(read_only: bool, files: usize) -> Self {
        let around = tempfile::tempdir().unwrap();
        let shared = around.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::create_dir(shared.join("deep")).unwrap();
        fs::write(shared.join("file"), b"of the host").unwrap();
        fs::write(around.path().join("secret"), b"secret").unwrap();
        symlink("../secret", shared.join("out")).unwrap();
        symlink("..", shared.join("up")).unwrap();
        symlink("file", shared.join("in")).unwrap();
        symlink("deep", shared.join("down")).unwrap();
        let server = Server::new(Tree::open(&shared, read_only).unwrap(), files);
        let mut client = Self { server, around };
        let agreed = client.call(r::VERSION, body().u32(1 << 20).text(b"9P2000.L")).unwrap();
        assert_eq!(agreed, body().u32(256 << 10).text(b"9P2000.L").0);
        client.call(r::ATTACH, body().u32(ROOT).u32(NONE).text(b"root").text(b"").u32(0)).unwrap();
        client
    }

    fn open() -> Self {
        Self::new(false, 16)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.around.path().join("shared").join(name)
    }

    /// Returns the reply to a request: its fields, or an error.
    fn call(&mut self, kind: u8, body: Body) -> Result<Vec<u8>, Errno> {
        let Body(body) = body;
        let reply = self.server.answer(kind, 0x1234, &body, REPLY);
        assert_eq!(u32::from_le_bytes(*reply.first_chunk().unwrap()) as usize, reply.len());
        assert_eq!(reply[5..7], [0x34, 0x12]);
        if reply[4] == 7 {
            let number = u32::from_le_bytes(*reply[7..].first_chunk().unwrap());
            return Err(Errno::from_raw_os_error(number as i32));
        }
        assert_eq!(reply[4], kind + 1);
        Ok(reply[7..].to_vec())
    }

    fn walk(&mut self, from: u32, to: u32, names: &[&[u8]]) -> Result<u16, Errno> {
        let head = body().u32(from).u32(to).u16(names.len() as u16);
        let reply = self.call(r::WALK, names.iter().fold(head, |body, name| body.text(name)))?;
        let count = u16::from_le_bytes([reply[0], reply[1]]);
        assert_eq!(reply.len(), 2 + 13 * usize::from(count));
        Ok(count)
    }

    fn open_fid(&mut self, fid: u32, flags: u32) -> Result<Vec<u8>, Errno> {
        self.call(r::LOPEN, body().u32(fid).u32(flags))
    }

    fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>, Errno> {
        let reply = self.call(r::READ, body().u32(fid).u64(offset).u32(count))?;
        let length = u32::from_le_bytes(*reply.first_chunk().unwrap()) as usize;
        assert_eq!(reply.len(), 4 + length);
        Ok(reply[4..].to_vec())
    }

    fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let mut message = body().u32(fid).u64(offset).u32(data.len() as u32);
        message.0.extend(data);
        Ok(u32::from_le_bytes(*self.call(r::WRITE, message)?.first_chunk().unwrap()))
    }

    fn clunk(&mut self, fid: u32) {
        self.call(r::CLUNK, body().u32(fid)).unwrap();
    }

    fn create(&mut self, name: &[u8], flags: u32, mode: u32) -> Result<Vec<u8>, Errno> {
        assert_eq!(self.walk(ROOT, A, &[]), Ok(0));
        let done = self.call(r::LCREATE, body().u32(A).text(name).u32(flags).u32(mode).u32(0));
        if done.is_err() {
            self.clunk(A);
        }
        done
    }

    /// Sends `Tsetattr` of one attribute.
    fn set(&mut self, fid: u32, which: u32, mode: u32, size: u64) -> Result<Vec<u8>, Errno> {
        let message = body().u32(fid).u32(which).u32(mode).u32(0).u32(0).u64(size);
        self.call(r::SETATTR, message.u64(1).u64(2).u64(3).u64(4))
    }

    /// Reads the names of an open directory, a few bytes of entries at a time.
    fn names(&mut self, fid: u32, count: u32) -> Vec<String> {
        let (mut names, mut offset) = (Vec::new(), 0u64);
        loop {
            let reply = self.call(r::READDIR, body().u32(fid).u64(offset).u32(count)).unwrap();
            assert!(reply.len() <= 4 + count as usize);
            let mut rest = &reply[4..];
            if rest.is_empty() {
                return names;
            }
            while !rest.is_empty() {
                offset = u64::from_le_bytes(*rest[13..].first_chunk().unwrap());
                let length = usize::from(u16::from_le_bytes([rest[22], rest[23]]));
                names.push(String::from_utf8(rest[24..24 + length].to_vec()).unwrap());
                rest = &rest[24 + length..];
            }
        }
    }
}

#[test]
fn files_are_read_written_made_and_listed() {
    let mut client = Client::open();
    assert_eq!(client.walk(ROOT, A, &[b"file"]), Ok(1));
    client.open_fid(A, 2).unwrap();
    assert_eq!(client.read(A, 3, 100).unwrap(), b"the host");
    assert_eq!(client.write(A, 11, b" and of the guest"), Ok(17));
    client.call(r::FSYNC, body().u32(A).u32(0)).unwrap();
    assert_eq!(fs::read(client.path("file")).unwrap(), b"of the host and of the guest");
    client.clunk(A);
    // O_RDWR | O_CREAT | O_EXCL
    client.create(b"new", 0o302, 0o640).unwrap();
    assert_eq!(client.write(A, 0, b"x"), Ok(1));
    assert_eq!(fs::metadata(client.path("new")).unwrap().permissions().mode() & 0o7777, 0o640);
    client.clunk(A);
    assert_eq!(client.create(b"new", 0o302, 0o640), Err(Errno::EXIST));
    // Without O_EXCL it is opened, and O_TRUNC makes it empty.
    client.create(b"new", 0o1102, 0o600).unwrap();
    assert_eq!(fs::metadata(client.path("new")).unwrap().len(), 0);
    client.clunk(A);
    client.call(r::MKDIR, body().u32(ROOT).text(b"made").u32(0o750).u32(0)).unwrap();
    client.call(r::SYMLINK, body().u32(ROOT).text(b"link").text(b"/etc/passwd").u32(0)).unwrap();
    client.call(r::MKNOD, body().u32(ROOT).text(b"pipe").u32(0o01_0600).u32(0).u32(0).u32(0)).unwrap();
    client.walk(ROOT, A, &[b"file"]).unwrap();
    client.call(r::LINK, body().u32(ROOT).u32(A).text(b"same")).unwrap();
    client.walk(ROOT, B, &[b"made"]).unwrap();
    client.call(r::RENAMEAT, body().u32(ROOT).text(b"new").u32(B).text(b"moved")).unwrap();
    assert!(client.path("made/moved").exists());
    assert_eq!(fs::metadata(client.path("same")).unwrap().nlink(), 2);
    client.walk(ROOT, 5, &[b"link"]).unwrap();
    assert_eq!(client.call(r::READLINK, body().u32(5)).unwrap(), body().text(b"/etc/passwd").0);
    client.walk(ROOT, 6, &[]).unwrap();
    client.open_fid(6, 0).unwrap();
    let expected = [".", "..", "deep", "down", "file", "in", "link", "made", "out", "pipe", "same", "up"];
    for count in [60, 4096] {
        let names = client.names(6, count);
        assert_eq!(names.len(), expected.len(), "{names:?}");
        assert_eq!(names.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    }
    // No entry fits: that is not the end of the directory.
    assert_eq!(client.call(r::READDIR, body().u32(6).u64(0).u32(10)), Err(Errno::INVAL));
    client.call(r::UNLINKAT, body().u32(B).text(b"moved").u32(0)).unwrap();
    assert_eq!(client.call(r::UNLINKAT, body().u32(ROOT).text(b"made").u32(0)), Err(Errno::ISDIR));
    client.call(r::UNLINKAT, body().u32(ROOT).text(b"made").u32(0x200)).unwrap();
    assert!(!client.path("made").exists());
}

#[test]
fn attributes_are_told_and_set() {
    let mut client = Client::open();
    client.walk(ROOT, A, &[b"file"]).unwrap();
    let told = client.call(r::GETATTR, body().u32(A).u64(!0)).unwrap();
    let found = fs::metadata(client.path("file")).unwrap();
    let word = |at: usize| u32::from_le_bytes(*told[at..].first_chunk().unwrap());
    let long = |at: usize| u64::from_le_bytes(*told[at..].first_chunk().unwrap());
    assert_eq!(told.len(), 8 + 13 + 12 + 15 * 8);
    assert_eq!((word(21), word(25), word(29)), (found.mode(), found.uid(), found.gid()));
    assert_eq!((long(33), long(49)), (1, 11), "links and size");
    assert_eq!((told[8], long(13)), (0, found.ino()), "the qid");
    client.set(A, 1, 0o604, 0).unwrap();
    client.set(A, 8, 0, 2).unwrap();
    // Both times are set as given: 1 s and 2 ns, 3 s and 4 ns.
    client.set(A, 0x1b0, 0, 0).unwrap();
    let found = fs::metadata(client.path("file")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.len()), (0o604, 2));
    assert_eq!((found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec()), (1, 2, 3, 4));
    client.set(A, 0x20, 0, 0).unwrap();
    assert!(fs::metadata(client.path("file")).unwrap().mtime() > 1_000_000_000, "now");
    for wrong in [0x80, 0x200, !0] {
        assert_eq!(client.set(A, wrong, 0, 0), Err(Errno::INVAL), "{wrong:#x}");
    }
    client.walk(ROOT, B, &[b"file"]).unwrap();
    client.clunk(A);
    // Programs that would run with this user's rights.
    for mode in [0o4755, 0o2755] {
        assert_eq!(client.set(B, 1, mode, 0), Err(Errno::PERM));
        assert_eq!(client.create(b"program", 0o302, mode), Err(Errno::PERM));
    }
    let told = client.call(r::STATFS, body().u32(B)).unwrap();
    assert_eq!(told.len(), 4 + 4 + 6 * 8 + 4);
}

/// Checks this even if the process is root's, for which the kernel keeps the bits.
#[test]
fn a_file_that_is_changed_has_its_owners_rights_no_more() {
    let set_mode = |client: &Client, mode: u32| {
        fs::set_permissions(client.path("file"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |client: &Client| fs::metadata(client.path("file")).unwrap().mode() & 0o7777;
    let mut client = Client::open();
    client.walk(ROOT, A, &[b"file"]).unwrap();
    client.walk(ROOT, B, &[b"file"]).unwrap();
    client.open_fid(B, 2).unwrap();
    // The bits go by writing, by a new size, by opening, and by a new owner, even if it is the old one.
    set_mode(&client, 0o6755);
    client.read(B, 0, 4).unwrap();
    assert_eq!(mode(&client), 0o6755);
    client.write(B, 0, b"x").unwrap();
    assert_eq!(mode(&client), 0o755);
    set_mode(&client, 0o6755);
    client.set(A, 8, 0, 3).unwrap();
    assert_eq!(mode(&client), 0o755);
    set_mode(&client, 0o4755);
    client.open_fid(A, 0o1001).unwrap();
    assert_eq!(mode(&client), 0o755);
    // If the group may not execute the file, the bit is no right.
    set_mode(&client, 0o6745);
    client.write(B, 0, b"x").unwrap();
    assert_eq!(mode(&client), 0o2745);
    set_mode(&client, 0o6755);
    let found = fs::metadata(client.path("file")).unwrap();
    let owner = body().u32(B).u32(6).u32(0).u32(found.uid()).u32(found.gid()).u64(0);
    client.call(r::SETATTR, owner.u64(1).u64(2).u64(3).u64(4)).unwrap();
    assert_eq!(mode(&client), 0o755);
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let mut client = Client::open();
    for name in [&b".."[..], b".", b"", b"deep/..", b"/", b"/etc/passwd", b"../secret", b"a\0b"] {
        assert_eq!(client.walk(ROOT, A, &[name]), Err(Errno::INVAL), "{name:?}");
        assert_eq!(client.create(name, 0o302, 0o600), Err(Errno::INVAL), "{name:?}");
        for (kind, message) in [
            (r::MKDIR, body().u32(ROOT).text(name).u32(0o700).u32(0)),
            (r::SYMLINK, body().u32(ROOT).text(name).text(b"x").u32(0)),
            (r::MKNOD, body().u32(ROOT).text(name).u32(0o10_0600).u32(0).u32(0).u32(0)),
            (r::UNLINKAT, body().u32(ROOT).text(name).u32(0)),
            (r::RENAMEAT, body().u32(ROOT).text(name).u32(ROOT).text(b"x")),
            (r::RENAMEAT, body().u32(ROOT).text(b"file").u32(ROOT).text(name)),
            (r::LINK, body().u32(ROOT).u32(ROOT).text(name)),
        ] {
            assert_eq!(client.call(kind, message), Err(Errno::INVAL), "{kind} {name:?}");
        }
    }
    assert_eq!(client.walk(ROOT, A, &[&[b'x'; 256]]), Err(Errno::NAMETOOLONG));
    // The second name is not allowed, and the target of the first one is not kept.
    assert_eq!(client.walk(ROOT, A, &[b"deep", b".."]), Ok(1));
    assert_eq!(client.call(r::CLUNK, body().u32(A)), Err(Errno::BADF));
    // A link is a file of its own: it has no children, and cannot be opened.
    for link in [&b"out"[..], b"up", b"in", b"down"] {
        assert_eq!(client.walk(ROOT, A, &[link, b"secret"]), Ok(1));
        assert_eq!(client.walk(ROOT, A, &[link]), Ok(1));
        for flags in 0..4 {
            assert_eq!(client.open_fid(A, flags), Err(Errno::LOOP));
        }
        assert_eq!(client.set(A, 8, 0, 0), Err(Errno::INVAL));
        assert_eq!(client.set(A, 1, 0o777, 0), Err(Errno::OPNOTSUPP));
        client.clunk(A);
        let made = client.create(link, 0o102, 0o600);
        assert!(matches!(made, Err(Errno::LOOP)), "{made:?}");
    }
    // A second name for a link is one for the link, not for its target.
    client.walk(ROOT, A, &[b"out"]).unwrap();
    client.call(r::LINK, body().u32(ROOT).u32(A).text(b"out2")).unwrap();
    assert!(client.path("out2").is_symlink());
    client.set(A, 0x1b0, 0, 0).unwrap();
    let secret = fs::metadata(client.around.path().join("secret")).unwrap();
    assert_eq!(fs::read(client.around.path().join("secret")).unwrap(), b"secret");
    assert!(secret.mtime() > 3, "the times are the link's");
    assert_eq!(fs::read_dir(client.around.path()).unwrap().count(), 2, "nothing was made outside");
}

#[test]
fn a_read_only_folder_stays_as_it_is() {
    let mut client = Client::new(true, 16);
    let before = fs::metadata(client.path("")).unwrap().mtime_nsec();
    client.walk(ROOT, A, &[b"file"]).unwrap();
    for flags in [1, 2, 3, 0o1000, 0o1001, 0o2001] {
        assert_eq!(client.open_fid(A, flags), Err(Errno::ROFS), "{flags:#o}");
    }
    for (which, size) in [(1, 0), (2, 0), (4, 0), (8, 0), (0x10, 0), (0x20, 0), (0x40, 0), (0x1b0, 0)] {
        assert_eq!(client.set(A, which, 0o777, size), Err(Errno::ROFS), "{which:#x}");
    }
    for (kind, message) in [
        (r::LCREATE, body().u32(ROOT).text(b"x").u32(0o302).u32(0o600).u32(0)),
        (r::LCREATE, body().u32(ROOT).text(b"file").u32(0o100).u32(0o600).u32(0)),
        (r::MKDIR, body().u32(ROOT).text(b"x").u32(0o700).u32(0)),
        (r::SYMLINK, body().u32(ROOT).text(b"x").text(b"x").u32(0)),
        (r::MKNOD, body().u32(ROOT).text(b"x").u32(0o10_0600).u32(0).u32(0).u32(0)),
        (r::LINK, body().u32(ROOT).u32(A).text(b"x")),
        (r::RENAMEAT, body().u32(ROOT).text(b"file").u32(ROOT).text(b"x")),
        (r::UNLINKAT, body().u32(ROOT).text(b"file").u32(0)),
        (r::UNLINKAT, body().u32(ROOT).text(b"deep").u32(0x200)),
    ] {
        assert_eq!(client.call(kind, message), Err(Errno::ROFS), "{kind}");
    }
    client.open_fid(A, 0).unwrap();
    assert_eq!(client.write(A, 0, b"x"), Err(Errno::ROFS));
    assert_eq!(client.read(A, 0, 100).unwrap(), b"of the host");
    assert_eq!(fs::metadata(client.path("")).unwrap().mtime_nsec(), before);
}

#[test]
fn what_could_make_belfry_wait_is_not_opened() {
    let mut client = Client::open();
    client.call(r::MKNOD, body().u32(ROOT).text(b"pipe").u32(0o01_0600).u32(0).u32(0).u32(0)).unwrap();
    client.call(r::MKNOD, body().u32(ROOT).text(b"socket").u32(0o14_0600).u32(0).u32(0).u32(0)).unwrap();
    for name in [&b"pipe"[..], b"socket"] {
        client.walk(ROOT, A, &[name]).unwrap();
        for flags in 0..4 {
            assert_eq!(client.open_fid(A, flags), Err(Errno::NXIO));
        }
        client.clunk(A);
        assert_eq!(client.create(name, 0o102, 0o600), Err(Errno::NXIO));
    }
    for device in [0o02_0666, 0o06_0666] {
        let message = body().u32(ROOT).text(b"device").u32(device).u32(1).u32(3).u32(0);
        assert_eq!(client.call(r::MKNOD, message), Err(Errno::PERM));
    }
}

#[test]
fn fids_are_bounded_and_belong_to_one_session() {
    let mut client = Client::new(false, 8);
    for fid in 1..8 {
        assert_eq!(client.walk(ROOT, fid, &[]), Ok(0));
    }
    assert_eq!(client.walk(ROOT, 8, &[]), Err(Errno::MFILE));
    assert_eq!(client.call(r::ATTACH, body().u32(9).u32(NONE).text(b"").text(b"").u32(0)), Err(Errno::MFILE));
    assert_eq!(client.walk(ROOT, 3, &[]), Err(Errno::INVAL), "in use");
    client.clunk(3);
    assert_eq!(client.walk(ROOT, NONE, &[]), Err(Errno::INVAL));
    assert_eq!(client.walk(ROOT, 3, &[b"deep"]), Ok(1));
    // A fid can walk itself, unless it is open.
    assert_eq!(client.walk(3, 3, &[]), Ok(0));
    client.open_fid(3, 0).unwrap();
    assert_eq!(client.open_fid(3, 0), Err(Errno::BADF));
    assert_eq!(client.walk(3, 3, &[]), Err(Errno::INVAL));
    // `Tremove` is not served, but ends the fid all the same.
    assert_eq!(client.call(r::REMOVE, body().u32(3)), Err(Errno::OPNOTSUPP));
    assert_eq!(client.call(r::CLUNK, body().u32(3)), Err(Errno::BADF));
    client.call(r::VERSION, body().u32(8192).text(b"9P2000.u")).unwrap();
    assert_eq!(client.walk(ROOT, 20, &[]), Err(Errno::PROTO), "no version is agreed on");
    client.call(r::VERSION, body().u32(8192).text(b"9P2000.L")).unwrap();
    assert_eq!(client.walk(ROOT, 20, &[]), Err(Errno::BADF));
    assert_eq!(client.call(r::VERSION, body().u32(4095).text(b"9P2000.L")), Err(Errno::MSGSIZE));
}

#[test]
fn an_open_file_outlives_its_name() {
    let mut client = Client::open();
    client.create(b"brief", 0o302, 0o600).unwrap();
    client.call(r::UNLINKAT, body().u32(ROOT).text(b"brief").u32(0)).unwrap();
    assert_eq!(client.write(A, 0, b"still there"), Ok(11));
    client.set(A, 8, 0, 5).unwrap();
    assert_eq!(client.walk(A, B, &[]), Ok(0));
    client.open_fid(B, 0).unwrap();
    assert_eq!(client.read(B, 0, 100).unwrap(), b"still");
}

/// Sends every request, cut off at every length and with fields of all kinds. Each gets an error or an answer, and
/// the folder keeps its state, except for changes that a request names.
#[test]
fn messages_that_are_none_are_errors() {
    let mut client = Client::open();
    for kind in 0..=255u8 {
        for fill in [0, 1, 0x7f, 0xff] {
            for length in 0..64 {
                if kind == r::VERSION {
                    continue;
                }
                let message = Body(vec![fill; length]);
                let _ = client.call_any(kind, message);
            }
        }
    }
    assert_eq!(client.walk(ROOT, 9, &[b"file"]).map(drop), Err(Errno::BADF), "its fid was clunked");
    client.call(r::ATTACH, body().u32(ROOT).u32(NONE).text(b"").text(b"").u32(NONE)).unwrap();
    assert_eq!(client.walk(ROOT, 9, &[b"file"]), Ok(1));
    client.open_fid(9, 2).unwrap();
    // More data than the message has; a count that no reply could carry.
    let short = body().u32(9).u64(0).u32(!0).u8(1);
    assert_eq!(client.call(r::WRITE, short), Err(Errno::PROTO));
    assert_eq!(client.read(9, 0, !0).unwrap(), b"of the host");
    assert_eq!(client.read(9, u64::MAX, 1), Err(Errno::INVAL));
    assert_eq!(client.write(9, u64::MAX, b"x").map_err(|error| error != Errno::PROTO), Err(true));
    assert_eq!(fs::read(client.path("file")).unwrap(), b"of the host");
}

impl Client {
    fn call_any(&mut self, kind: u8, body: Body) -> Vec<u8> {
        let Body(body) = body;
        let reply = self.server.answer(kind, 0, &body, REPLY);
        assert!(reply.len() as u64 <= REPLY);
        reply
    }
}
