//! A root file system for the program, in user and mount namespaces of its own.
//!
//! The new root is a tmpfs with the entries of the root file system bound into it. The host's own entries are bound
//! for everything of the user and the machine: home directories, `/tmp`, `/proc`, `/sys`, `/dev`, and entries that
//! the root does not have at all. Nothing is written to the root file system, so that any number of programs can use
//! one at a time.
#![expect(unsafe_code, reason = "system calls between fork and exec")]

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::ExecError;

/// Directory of the library, the prepared files and the summary in the new root.
const OWN: &str = "/run/belfry";
/// Entries of `/` that are always the host's, even if the root has them.
const HOSTS: [&str; 6] = ["proc", "sys", "dev", "tmp", "home", "root"];

/// Returns true if a directory is this machine's in every root; a relative one may be.
pub(super) fn is_shared(directory: &Path) -> bool {
    match directory.strip_prefix("/") {
        Ok(inside) => HOSTS.iter().any(|host| inside.starts_with(host)),
        Err(_) => true,
    }
}

/// Paths of the files that the program needs.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) tree: PathBuf,
    pub(super) library: PathBuf,
    pub(super) summary: Option<PathBuf>,
    /// The directory of a trace's rings.
    pub(super) trace: Option<PathBuf>,
    /// The directory of records.
    pub(super) record: Option<PathBuf>,
    /// The folder of the inspector's sockets.
    pub(super) inspect: Option<PathBuf>,
}

/// One step on the way to the new root.
#[derive(Debug)]
enum Step {
    /// Makes a directory.
    Directory(CString),
    /// Makes an empty file, to bind a file to.
    File(CString),
    /// Makes a link to a target.
    Link(CString, CString),
    /// Binds the first path to the second, with all mounts below it.
    Bind(CString, CString),
    /// Mounts an empty file system.
    Tmpfs(CString),
}

/// Steps of the program's process before the program starts.
#[derive(Debug)]
pub(super) struct Namespace {
    uid: u32,
    gid: u32,
    steps: Vec<Step>,
    /// The new root, if there is one.
    root: Option<CString>,
    /// Working directory in the new root.
    directory: CString,
}

fn c_string(path: impl AsRef<OsStr>) -> CString {
    // Paths of the file system hold no zeros.
    CString::new(path.as_ref().as_bytes()).unwrap_or_default()
}

impl Namespace {
    /// Plans a namespace, with a new root or the host's. With `files`, these paths of the GPU are there for every
    /// program.
    ///
    /// `places` are changed to the paths that the program sees.
    pub(super) fn new(
        directory: &Path,
        root: Option<&Path>,
        files: Option<&[String]>,
        places: &mut Places,
    ) -> Result<Self, ExecError> {
        let mut plan = Plan { steps: Vec::new() };
        let (base, stage) = (directory.join("root"), directory.join("files"));
        for place in [&base, &stage] {
            fs::create_dir_all(place).map_err(ExecError::io("create", place))?;
        }
        if let Some(paths) = files {
            plan.files(&stage, &places.tree, paths)?;
        }
        let new_root = match root {
            Some(root) => {
                plan.root(root, &base, places)?;
                Some(base)
            }
            None => None,
        };
        let working = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Ok(Self {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            steps: plan.steps,
            root: new_root.map(c_string),
            directory: c_string(working),
        })
    }

    /// Enters the namespace; the calling process has one thread.
    pub(super) fn enter(&self) -> io::Result<()> {
        let named = |what: &'static str| {
            move |source: io::Error| io::Error::other(ExecError::Namespace { what, source }.to_string())
        };
        unshare(self.uid, self.gid).map_err(named("no user namespace"))?;
        mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE).map_err(named("no mount namespace"))?;
        for step in &self.steps {
            step.take()?;
        }
        if let Some(root) = &self.root {
            // SAFETY: C strings.
            check(unsafe { libc::chroot(root.as_ptr()) }).map_err(named("no new root"))?;
            // SAFETY: as above.
            if check(unsafe { libc::chdir(self.directory.as_ptr()) }).is_err() {
                // SAFETY: as above.
                check(unsafe { libc::chdir(c"/".as_ptr()) })?;
            }
        }
        Ok(())
    }
}

/// Makes the namespaces. A user without rights gets them in a user namespace that has one user; a user with rights
/// directly.
fn unshare(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: changes the calling process alone, which has one thread.
    if uid == 0 && check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).is_ok() {
        return Ok(());
    }
    // SAFETY: as above.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })?;
    // Older kernels do not have this file, and do not need the write.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Makes the namespaces of this user, and returns the error if that fails.
pub(super) fn try_unshare() -> io::Result<()> {
    unshare(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn mount(
    from: Option<&std::ffi::CStr>,
    to: &std::ffi::CStr,
    kind: Option<&std::ffi::CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let pointer = |text: Option<&std::ffi::CStr>| text.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: C strings or null, as the call takes them.
    check(unsafe { libc::mount(pointer(from), to.as_ptr(), pointer(kind), flags, std::ptr::null()) })
}

impl Step {
    fn take(&self) -> io::Result<()> {
        let result = match self {
            // SAFETY: C strings.
            Self::Directory(path) => check(unsafe { libc::mkdir(path.as_ptr(), 0o755) }),
            Self::File(path) => {
                // SAFETY: as above.
                check(unsafe { libc::mknod(path.as_ptr(), libc::S_IFREG | 0o644, 0) })
            }
            // SAFETY: as above.
            Self::Link(path, target) => check(unsafe { libc::symlink(target.as_ptr(), path.as_ptr()) }),
            Self::Bind(from, to) => mount(Some(from), to, None, libc::MS_BIND | libc::MS_REC),
            Self::Tmpfs(path) => mount(Some(c"tmpfs"), path, Some(c"tmpfs"), libc::MS_NOSUID),
        };
        result.map_err(|error| io::Error::new(error.kind(), format!("{self:?}: {error}")))
    }
}

/// Steps in the making.
struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    fn directory(&mut self, path: &Path) {
        self.steps.push(Step::Directory(c_string(path)));
    }

    /// Puts an entry at a place: a link as it is, anything else bound.
    fn entry(&mut self, from: &Path, to: &Path) -> Result<(), ExecError> {
        let kind = fs::symlink_metadata(from).map_err(ExecError::io("stat", from))?;
        if kind.is_symlink() {
            let target = fs::read_link(from).map_err(ExecError::io("read the link", from))?;
            self.steps.push(Step::Link(c_string(to), c_string(target)));
            return Ok(());
        }
        if kind.is_dir() {
            self.directory(to);
        } else {
            self.steps.push(Step::File(c_string(to)));
        }
        self.steps.push(Step::Bind(c_string(from), c_string(to)));
        Ok(())
    }

    /// Plans the new root at `base`.
    fn root(&mut self, root: &Path, base: &Path, places: &mut Places) -> Result<(), ExecError> {
        let root = fs::canonicalize(root).map_err(ExecError::io("open", root))?;
        if !root.join("usr/lib").is_dir() {
            return Err(ExecError::NoRoot(root));
        }
        self.steps.push(Step::Tmpfs(c_string(base)));
        let names = |path: &Path| -> Result<Vec<_>, ExecError> {
            let entries = fs::read_dir(path).map_err(ExecError::io("list", path))?;
            Ok(entries.flatten().map(|entry| entry.file_name()).collect())
        };
        let hosts = |name: &OsStr| HOSTS.iter().any(|host| *host == name);
        let theirs = names(&root)?;
        for name in theirs.iter().filter(|name| !hosts(name) && *name != "run") {
            self.entry(&root.join(name), &base.join(name))?;
        }
        for name in names(Path::new("/"))? {
            let ours = !theirs.contains(&name) && name != "run";
            // Files of the host's root, and entries that cannot be read, are left out.
            let from = Path::new("/").join(&name);
            if (ours || hosts(&name)) && fs::symlink_metadata(&from).is_ok_and(|kind| kind.is_dir()) {
                self.entry(&from, &base.join(&name))?;
            }
        }
        let run = base.join("run");
        self.directory(&run);
        let own = base.join(OWN.trim_start_matches('/'));
        self.directory(&own);
        let mut bring = |path: &mut PathBuf, name: &str| -> Result<(), ExecError> {
            self.entry(path, &own.join(name))?;
            *path = Path::new(OWN).join(name);
            Ok(())
        };
        bring(&mut places.tree, "tree")?;
        bring(&mut places.library, "libbelfry-preload.so")?;
        if let Some(summary) = &mut places.summary {
            bring(summary, "summary")?;
        }
        if let Some(trace) = &mut places.trace {
            bring(trace, "trace")?;
        }
        if let Some(record) = &mut places.record {
            bring(record, "record")?;
        }
        if let Some(inspect) = &mut places.inspect {
            bring(inspect, "inspect")?;
        }
        Ok(())
    }

    /// Puts the GPU's files in their usual places: `/sys` and `/dev` are built anew of the host's entries and of
    /// Belfry's.
    fn files(&mut self, stage: &Path, tree: &Path, paths: &[String]) -> Result<(), ExecError> {
        self.steps.push(Step::Tmpfs(c_string(stage)));
        let ours: BTreeSet<&Path> = paths.iter().map(Path::new).collect();
        let above: BTreeSet<&Path> = ours.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        for top in ["/sys", "/dev"] {
            self.put_together(Path::new(top), stage, tree, (&ours, &above))?;
            let place = stage.join(top.trim_start_matches('/'));
            self.steps.push(Step::Bind(c_string(place), c_string(top)));
        }
        Ok(())
    }

    /// Makes a directory that holds some of Belfry's entries beside the host's.
    fn put_together(
        &mut self,
        directory: &Path,
        stage: &Path,
        tree: &Path,
        (ours, above): (&BTreeSet<&Path>, &BTreeSet<&Path>),
    ) -> Result<(), ExecError> {
        let below = |root: &Path, path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        self.directory(&below(stage, directory));
        // A directory that the host does not have holds Belfry's entries alone.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if !above.contains(path.as_path()) && !ours.contains(path.as_path()) {
                self.entry(&path, &below(stage, &path))?;
            }
        }
        for path in above.iter().filter(|path| path.parent() == Some(directory)) {
            self.put_together(path, stage, tree, (ours, above))?;
        }
        for path in ours.iter().filter(|path| path.parent() == Some(directory)) {
            self.entry(&below(tree, path), &below(stage, path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_entries_stand_beside_the_hosts() {
        let tree = tempfile::tempdir().unwrap();
        for path in ["sys/class/kfd", "dev/dri"] {
            fs::create_dir_all(tree.path().join(path)).unwrap();
        }
        fs::write(tree.path().join("dev/kfd"), "").unwrap();
        let mut plan = Plan { steps: Vec::new() };
        let paths = ["/sys/class/kfd", "/dev/kfd", "/dev/dri"].map(str::to_owned);
        plan.files(Path::new("/stage"), tree.path(), &paths).unwrap();
        let steps = format!("{:?}", plan.steps);
        for place in ["/stage/sys/class/kfd", "/stage/dev/kfd", "/stage/dev/null", "/stage/sys/kernel"] {
            assert!(steps.contains(&format!("{place}\"")), "{place}");
        }
        // A directory that holds Belfry's entries is built anew, and not bound as it is.
        for place in ["/stage/sys/class", "/stage/dev", "/stage/sys"] {
            let bound =
                plan.steps.iter().any(|step| matches!(step, Step::Bind(_, to) if **to == *c_string(place)));
            assert!(!bound, "{place}");
        }
    }

    #[test]
    fn a_directory_without_libraries_is_no_root() {
        let root = tempfile::tempdir().unwrap();
        let mut places = Places {
            tree: "/t".into(),
            library: "/l".into(),
            summary: None,
            trace: None,
            record: None,
            inspect: None,
        };
        let plan = Plan { steps: Vec::new() }.root(root.path(), Path::new("/b"), &mut places);
        assert!(matches!(plan, Err(ExecError::NoRoot(_))));
    }
}
