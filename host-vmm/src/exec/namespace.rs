//! A root file system for the program, in user and mount namespaces of its own.
//!
//! The new root is a tmpfs with the entries of the root file system bound into it, and the host's where the root has to do
//! with the user and the machine: home directories, `/tmp`, `/proc`, `/sys`, `/dev`, and whatever the root does not have at
//! all. Nothing is written to the root file system, so that any number of programs use one at a time.
#![expect(unsafe_code, reason = "system calls between fork and exec")]

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::ExecError;

/// Where the library, the prepared files and the summary are found in the new root.
const OWN: &str = "/run/belfry";
/// Entries of `/` that are the host's whatever the root has.
const HOSTS: [&str; 6] = ["proc", "sys", "dev", "tmp", "home", "root"];

/// Where the program finds what it needs.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) tree: PathBuf,
    pub(super) library: PathBuf,
    pub(super) summary: Option<PathBuf>,
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
    /// Binds what is somewhere to a place, with what is mounted below.
    Bind(CString, CString),
    /// Mounts an empty file system.
    Tmpfs(CString),
}

/// What to do in the program's process before it starts.
#[derive(Debug)]
pub(super) struct Namespace {
    uid: u32,
    gid: u32,
    steps: Vec<Step>,
    /// The new root, if there is one.
    root: Option<CString>,
    /// Where to be in it.
    directory: CString,
}

fn c_string(path: impl AsRef<OsStr>) -> CString {
    // Paths of the file system hold no zeros.
    CString::new(path.as_ref().as_bytes()).unwrap_or_default()
}

impl Namespace {
    /// Plans a namespace; `places` become those that the program sees.
    pub(super) fn new(
        directory: &Path,
        root: Option<&Path>,
        files: bool,
        places: &mut Places,
    ) -> Result<Self, ExecError> {
        let mut plan = Plan { steps: Vec::new() };
        let base = directory.join("root");
        fs::create_dir_all(&base).map_err(ExecError::io("create", &base))?;
        let new_root = match root {
            Some(root) => {
                plan.root(root, &base, places)?;
                Some(base)
            }
            None => None,
        };
        if files {
            plan.files(new_root.as_deref(), places)?;
        }
        let working = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Ok(Self {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            steps: plan.steps,
            root: new_root.map(c_string),
            directory: c_string(working),
        })
    }

    /// Enters it; the calling process has one thread.
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

/// Makes the namespaces: without rights by way of a user namespace that has one user, with rights by asking.
fn unshare(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: changes the calling process alone, which has one thread.
    if uid == 0 && check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).is_ok() {
        return Ok(());
    }
    // SAFETY: as above.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })?;
    // Older kernels have no such file, and ask for nothing.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
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

    /// Has an entry appear at a place: a link as it is, anything else bound.
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

    /// The new root at `base`.
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
            // Files of the host's root, and what cannot be seen, are left out.
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
        Ok(())
    }

    /// The GPU's files where they belong, below `base` or on the host's root.
    fn files(&mut self, base: Option<&Path>, places: &Places) -> Result<(), ExecError> {
        let _ = (base, places);
        Ok(())
    }
}
