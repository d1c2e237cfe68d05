//! The folder of sockets: `$XDG_RUNTIME_DIR/belfry`, or `/tmp/belfry-UID`.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::InspectError;

/// First part of the names of sockets for GDB.
const FOR_GDB: &str = "gdb-";

/// A process whose GPU can be inspected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
}

/// The folder's path; the folder may not be there yet.
fn place() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => PathBuf::from(path).join("belfry"),
        None => PathBuf::from(format!("/tmp/belfry-{user}")),
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> InspectError {
    let path = path.to_owned();
    move |source| InspectError::Socket { path, source }
}

/// Checks that the folder is this user's alone; an error if it belongs to another user.
fn check(path: &Path) -> Result<(), InspectError> {
    let found = fs::symlink_metadata(path).map_err(failed(path))?;
    let refused = |why| Err(InspectError::Folder { path: path.to_owned(), why });
    if !found.is_dir() {
        return refused("it is no folder");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("it is another user's");
    }
    if found.mode() & 0o077 != 0 {
        return refused("others may enter it");
    }
    Ok(())
}

/// The folder of this user's sockets, which is made if it is not there.
///
/// # Errors
///
/// A folder that cannot be made, or is not this user's alone.
pub fn folder() -> Result<PathBuf, InspectError> {
    let folder = place();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&folder)(error)),
    }
    check(&folder)?;
    Ok(folder)
}

/// The socket of a process in a folder, in which there is none of an earlier process of the same number any more.
///
/// # Errors
///
/// A folder that is not this user's alone, or one that nothing can be removed from.
pub fn socket_of(folder: &Path, pid: u32) -> Result<PathBuf, InspectError> {
    vacant(folder, &format!("{pid}.sock"))
}

/// Path of the socket that GDB connects to.
///
/// # Errors
///
/// As for the other socket.
pub fn gdb_socket_of(folder: &Path, pid: u32) -> Result<PathBuf, InspectError> {
    vacant(folder, &format!("{FOR_GDB}{pid}.sock"))
}

fn vacant(folder: &Path, name: &str) -> Result<PathBuf, InspectError> {
    check(folder)?;
    let path = folder.join(name);
    // A process of the same number that was killed has left it.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&path)(error)),
        _ => Ok(path),
    }
}

/// The processes of this user whose GPUs can be inspected, by their numbers. Sockets of processes that were killed are removed.
///
/// # Errors
///
/// A folder that is not this user's alone, or cannot be read.
pub fn running() -> Result<Vec<Running>, InspectError> {
    let folder = place();
    match check(&folder) {
        Err(InspectError::Socket { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        checked => checked?,
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed(&folder))?.flatten() {
        let (name, socket) = (entry.file_name(), entry.path());
        let name = name.to_str().and_then(|name| name.strip_suffix(".sock")).unwrap_or_default();
        let (name, is_for_gdb) = name.strip_prefix(FOR_GDB).map_or((name, false), |name| (name, true));
        let Ok(pid) = name.parse() else { continue };
        match UnixStream::connect(&socket) {
            // The stub drops a client that says nothing.
            Ok(_) if is_for_gdb => {}
            Ok(_) => found.push(Running { pid, socket }),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&socket);
            }
            Err(_) => {}
        }
    }
    found.sort_by_key(|running| running.pid);
    Ok(found)
}

/// A process, or the only one that there is.
///
/// # Errors
///
/// None, several, or one that does not listen.
pub fn only(pid: Option<u32>) -> Result<Running, InspectError> {
    let mut all = running()?;
    if let Some(pid) = pid {
        all.retain(|running| running.pid == pid);
        return all.pop().ok_or(InspectError::NoProcess(pid));
    }
    if all.len() > 1 {
        let pids: Vec<String> = all.iter().map(|running| running.pid.to_string()).collect();
        return Err(InspectError::Several(pids.join(", ")));
    }
    all.pop().ok_or(InspectError::None)
}
