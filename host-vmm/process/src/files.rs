//! Files whose names others give: an open never waits for a pipe, and no file is read beyond a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file for reading. The open does not wait for a pipe without a writer.
///
/// # Errors
///
/// A file that cannot be opened, or that is a folder, a device, a pipe or a socket.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(file),
        (_, true) => Err(io::Error::other("it is a folder")),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// As for [`open`]; `FileTooLarge`.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = || {
        let text = format!("it has more than {limit} bytes, which is the most that is read of such a file");
        io::Error::new(io::ErrorKind::FileTooLarge, text)
    };
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large());
    }
    // Files of /proc have more than they say.
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large()) } else { Ok(content) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap(), [7; 100]);
        assert_eq!(read(&path, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&folder.path().join("none"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A hole costs nothing, and is refused before it is read.
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&path, 1 << 30).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // It says that it has no bytes.
        assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 100);
        assert!(read(Path::new("/proc/self/status"), 10).is_err());
    }

    #[test]
    fn others_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket, Path::new("/dev/zero"), folder.path()] {
            assert!(read(path, 10).is_err() && open(path).is_err(), "{}", path.display());
        }
        assert!(open(&pipe).unwrap_err().to_string().contains("not a regular file"));
    }
}
