//! The search path for programs in another root.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use belfry_image::rootfs::PROGRAMS_OF_ROCM;

use super::namespace;

/// Folders that every search has.
const SYSTEM: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Makes the search path: directories of that root first, then those that it shares with this machine, and last the
/// folders of the programs that packages of ROCm have outside of any `PATH`.
///
/// A `~/.local/bin` has programs for this machine, which stand first in many a `PATH`.
pub(super) fn search_path(root: &Path, own: Option<&OsStr>) -> OsString {
    let own: Vec<PathBuf> = own.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let (shared, mut path): (Vec<PathBuf>, Vec<PathBuf>) =
        own.into_iter().partition(|directory| namespace::is_shared(directory));
    let missing = SYSTEM.map(PathBuf::from).into_iter().filter(|directory| !path.contains(directory));
    path.extend(missing.collect::<Vec<_>>());
    path.extend(shared);
    path.extend(folders_of_rocm(root));
    // A directory that was split from a list can be joined into one.
    std::env::join_paths(path).unwrap_or_default()
}

/// Lists the folders of packages' own programs, as programs in the root name them; sorted.
fn folders_of_rocm(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = root.join(PROGRAMS_OF_ROCM).read_dir() else { return Vec::new() };
    let is_folder = |entry: &std::fs::DirEntry| entry.path().is_dir();
    // A list of paths has no way to name one with a colon.
    let names = entries.flatten().filter(is_folder).map(|entry| entry.file_name());
    let names = names.filter(|name| !name.as_encoded_bytes().contains(&b':'));
    let mut folders: Vec<PathBuf> =
        names.map(|name| Path::new("/").join(PROGRAMS_OF_ROCM).join(name)).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_another_root_come_before_those_of_homes() {
        let own = OsStr::new("/home/me/bin:/opt/rocm/bin:/usr/bin:relative:/root/.local/bin:/bin");
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            search_path(root.path(), Some(own)),
            "/opt/rocm/bin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/home/me/bin:relative:/root/.local/bin"
        );
        assert_eq!(
            search_path(root.path(), None),
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        );
    }

    #[test]
    fn packages_own_programs_are_found_last() {
        let root = tempfile::tempdir().unwrap();
        for name in ["librccl1-tests", "amd-x", "with:colon"] {
            std::fs::create_dir_all(root.path().join("usr/libexec/rocm").join(name)).unwrap();
        }
        std::fs::write(root.path().join("usr/libexec/rocm/file"), "").unwrap();
        assert_eq!(
            search_path(root.path(), Some(OsStr::new("/usr/bin:/root/bin"))),
            "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:/root/bin:/usr/libexec/rocm/amd-x:/usr/libexec/rocm/librccl1-tests"
        );
    }
}
