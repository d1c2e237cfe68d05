//! Paths in the guest at which the host may put files.

/// Paths that init lives from: its own program, the modules it loads, and the kernel's file systems.
const RESERVED: [&str; 5] = ["/init", "/lib/modules", "/proc", "/sys", "/dev"];
/// The part of these that is for files all the same.
const SHARED_MEMORY: &str = "/dev/shm";

/// Why a file cannot be put somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// The path does not begin at the guest's root.
    Relative(String),
    /// The path has more `..` than folders.
    Outside(String),
    /// The path is a folder, or holds a NUL.
    NoFile(String),
    /// The path would replace something of init's.
    Reserved {
        /// The path.
        path: String,
        /// The file or folder it is or is in.
        reserved: &'static str,
    },
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Relative(path) => write!(f, "{path:?} is not an absolute path"),
            Self::Outside(path) => write!(f, "{path:?} leaves the guest's root"),
            Self::NoFile(path) => write!(f, "{path:?} is no file's path"),
            Self::Reserved { path, reserved } => {
                write!(f, "{path:?} is reserved for the guest's init, like all of {reserved}")
            }
        }
    }
}

impl std::error::Error for PathError {}

/// The path without `.`, `..` and double slashes, if the host may put a file there.
///
/// # Errors
/// Those of [`PathError`].
pub fn writable(path: &str) -> Result<String, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::Relative(path.to_owned()));
    }
    if path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..") || path.contains('\0') {
        return Err(PathError::NoFile(path.to_owned()));
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop().ok_or_else(|| PathError::Outside(path.to_owned()))?;
            }
            name => names.push(name),
        }
    }
    let clean = format!("/{}", names.join("/"));
    let within = |folder: &str| {
        clean.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match RESERVED.into_iter().find(|reserved| within(reserved)) {
        Some(reserved) if !(within(SHARED_MEMORY) && clean != SHARED_MEMORY) => {
            Err(PathError::Reserved { path: path.to_owned(), reserved })
        }
        _ => Ok(clean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_root_or_replace_what_init_needs_are_refused() {
        for (path, expected) in [
            ("/root/a", Ok("/root/a")),
            ("/root//./x/../a", Ok("/root/a")),
            ("/root/../tmp/a", Ok("/tmp/a")),
            ("/initial", Ok("/initial")),
            ("/dev/shm/a", Ok("/dev/shm/a")),
            ("/root/../../init", Err("leaves the guest's root")),
            ("/..", Err("no file's path")),
            ("/../a", Err("leaves the guest's root")),
            ("/root/../init", Err("reserved for the guest's init")),
            ("/init", Err("reserved for the guest's init")),
            ("/init/a", Err("reserved for the guest's init")),
            ("/lib/modules/amdgpu.ko", Err("reserved for the guest's init")),
            ("/lib/../lib/modules/boot.list", Err("reserved for the guest's init")),
            ("/proc/self/mem", Err("reserved for the guest's init")),
            ("/dev/shm/../kfd", Err("reserved for the guest's init")),
            ("/dev/shm", Err("reserved for the guest's init")),
            ("a", Err("not an absolute path")),
            ("", Err("not an absolute path")),
            ("/", Err("no file's path")),
            ("/root/", Err("no file's path")),
            ("/a\0b", Err("no file's path")),
        ] {
            match (writable(path), expected) {
                (Ok(clean), Ok(expected)) => assert_eq!(clean, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{path:?}: {error}"),
                (result, _) => panic!("{path:?}: {result:?}"),
            }
        }
    }
}
