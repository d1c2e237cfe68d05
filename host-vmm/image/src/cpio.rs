//! An initramfs, written as the kernel reads it: a cpio archive in the "newc" format.
//!
//! Layout: Linux `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::collections::BTreeSet;

const MODE_DIRECTORY: u32 = 0o040_755;
const MODE_FILE: u32 = 0o100_000;
const MODE_CHARACTER: u32 = 0o020_000;

/// An archive under construction; directories of a file are added by themselves.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    next_inode: u32,
}

impl Archive {
    /// An archive with `/dev/console`, which the kernel opens before init can mount anything.
    #[must_use]
    pub fn new() -> Self {
        let mut archive = Self { next_inode: 1, ..Self::default() };
        archive.parents("dev/console");
        archive.entry("dev/console", MODE_CHARACTER | 0o600, (5, 1), &[]);
        archive
    }

    /// Adds a directory and its parents.
    pub fn directory(&mut self, path: &str) {
        self.parents(&format!("{}/x", path.trim_matches('/')));
    }

    /// Adds a file with permission bits `mode`; a later file of the same path replaces it when unpacked.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        self.parents(path);
        self.entry(path, MODE_FILE | mode, (0, 0), content);
    }

    /// Ends the archive and returns its bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.next_inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        for (index, _) in path.match_indices('/') {
            let parent = &path[..index];
            if !parent.is_empty() && self.directories.insert(parent.to_owned()) {
                self.entry(parent, MODE_DIRECTORY, (0, 0), &[]);
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        let fields = [
            self.next_inode,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            major,
            minor,
            path.len() as u32 + 1,
            0,
        ];
        self.next_inode = self.next_inode.wrapping_add(1);
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back: path, mode and content of each entry.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |index: usize| {
                let start = at + 6 + index * 8;
                let text = std::str::from_utf8(&bytes[start..start + 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = &bytes[at + 110..at + 110 + name_size];
            assert_eq!(name[name_size - 1], 0);
            let content = (at + 110 + name_size).next_multiple_of(4);
            let name = String::from_utf8(name[..name_size - 1].to_vec()).unwrap();
            if name == "TRAILER!!!" {
                assert_eq!(content, bytes.len());
                return found;
            }
            found.push((name, mode as u32, bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
    }

    #[test]
    fn files_come_with_their_directories_once() {
        let mut archive = Archive::new();
        archive.file("/init", 0o755, b"abc");
        archive.file("a/b/one", 0o644, b"12345");
        archive.file("/a/b/two", 0o600, b"");
        archive.directory("/mnt/x/");
        let entries = entries(&archive.finish());
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["dev", "dev/console", "init", "a", "a/b", "a/b/one", "a/b/two", "mnt", "mnt/x"]);
        assert_eq!(entries[2], ("init".into(), 0o100_755, b"abc".to_vec()));
        assert_eq!(entries[5].2, b"12345");
        assert_eq!(entries[3].1, 0o040_755);
    }
}
