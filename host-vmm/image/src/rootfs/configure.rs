//! Work of maintainer scripts, as far as running programs need it; all of it as an ordinary user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::alternatives;
use super::error::{RootFsError, io_error};
use super::recipe::Recipe;

/// Directories of the root that a merged `/usr` has as links.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Directories every tree has, with their modes; the first ones are empty, for the machine's own to be put there.
const DIRECTORIES: [(&str, u32); 10] = [
    ("dev", 0o755),
    ("proc", 0o755),
    ("sys", 0o755),
    ("run", 0o755),
    ("root", 0o755),
    ("home", 0o755),
    ("etc/alternatives", 0o755),
    ("usr/local/bin", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
];
/// Absolute links into these stay as they are: they mean the machine's.
const OF_THE_MACHINE: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// Configures the unpacked packages below `root`, which have these scripts for it.
pub(super) fn configure(recipe: &Recipe, scripts: &[String], root: &Path) -> Result<(), RootFsError> {
    for name in MERGED {
        merge_into_usr(root, name)?;
    }
    for (path, mode) in DIRECTORIES {
        let path = root.join(path);
        fs::create_dir_all(&path).map_err(io_error("create", &path))?;
        fs::set_permissions(&path, Permissions::from_mode(mode))
            .map_err(io_error("set the mode of", &path))?;
    }
    accounts(recipe, root)?;
    for (path, content) in &recipe.files {
        write(&root.join(path), content)?;
    }
    for (path, target) in &recipe.links {
        link(target, &root.join(path))?;
    }
    for path in &recipe.drop {
        remove(&root.join(path))?;
    }
    // No link to a file that was dropped, and none in place of the recipe's own.
    alternatives::install(scripts, root)?;
    settle(root, 0)?;
    linker_cache(root)
}

/// Moves the files of `root/NAME` to `root/usr/NAME` and leaves a link there.
fn merge_into_usr(root: &Path, name: &str) -> Result<(), RootFsError> {
    let (path, target) = (root.join(name), root.join("usr").join(name));
    fs::create_dir_all(&target).map_err(io_error("create", &target))?;
    if path.is_symlink() {
        return Ok(());
    }
    if path.is_dir() {
        merge(&path, &target)?;
    }
    link(&format!("usr/{name}"), &path)
}

/// Moves the entries of `from` to `to`, directory by directory, and removes `from`.
fn merge(from: &Path, to: &Path) -> Result<(), RootFsError> {
    for entry in fs::read_dir(from).map_err(io_error("read", from))? {
        let entry = entry.map_err(io_error("read", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let is_dir = |path: &Path| path.is_dir() && !path.is_symlink();
        if is_dir(&path) && is_dir(&target) {
            merge(&path, &target)?;
        } else if target.is_symlink() || target.exists() {
            // A package built for a split `/usr` may link to its file from the other side.
            if path.is_symlink() {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
            } else if target.is_symlink() {
                fs::rename(&path, &target).map_err(io_error("move", &path))?;
            } else {
                return Err(RootFsError::Collision { path });
            }
        } else {
            fs::rename(&path, &target).map_err(io_error("move", &path))?;
        }
    }
    fs::remove_dir(from).map_err(io_error("remove", from))
}

/// `/etc/passwd` and `/etc/group` from `base-passwd`, with the recipe's groups.
fn accounts(recipe: &Recipe, root: &Path) -> Result<(), RootFsError> {
    for name in ["passwd", "group"] {
        let master = root.join(format!("usr/share/base-passwd/{name}.master"));
        let mut content = fs::read_to_string(&master).map_err(io_error("read", &master))?;
        if name == "group" {
            content.extend(recipe.groups.iter().map(|(group, number)| format!("{group}:x:{number}:\n")));
        }
        write(&root.join("etc").join(name), &content)?;
    }
    Ok(())
}

fn write(path: &Path, content: &str) -> Result<(), RootFsError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io_error("create", parent))?;
    }
    fs::write(path, content).map_err(io_error("write", path))
}

/// Makes the link at `path`, in place of a file or link that is there; a directory stays.
fn link(target: &str, path: &Path) -> Result<(), RootFsError> {
    if path.is_symlink() || path.is_file() {
        fs::remove_file(path).map_err(io_error("remove", path))?;
    }
    symlink(target, path).map_err(io_error("link", path))
}

fn remove(path: &Path) -> Result<(), RootFsError> {
    let result = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    result.map_err(io_error("remove", path))
}

/// Makes every absolute link relative and takes setuid and setgid bits away, in `directory`, which lies `depth` levels
/// below the root.
///
/// So a tree means the same from inside and from outside: a program started by the tree's own loader, without a
/// changed root, would else follow `/etc/...` to the machine's files.
fn settle(directory: &Path, depth: usize) -> Result<(), RootFsError> {
    for entry in fs::read_dir(directory).map_err(io_error("read", directory))? {
        let path = entry.map_err(io_error("read", directory))?.path();
        let meta = fs::symlink_metadata(&path).map_err(io_error("look at", &path))?;
        if meta.is_symlink() {
            let target = fs::read_link(&path).map_err(io_error("read", &path))?;
            if let Some(relative) = relative(&target, depth) {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
                symlink(&relative, &path).map_err(io_error("link", &path))?;
            }
            continue;
        }
        let mode = meta.permissions().mode() & 0o7777;
        // The owner can always read, and descend: else the cache could not even be removed.
        let wanted = if meta.is_dir() { mode & !0o6000 | 0o700 } else { mode & !0o6000 | 0o400 };
        if mode != wanted {
            fs::set_permissions(&path, Permissions::from_mode(wanted))
                .map_err(io_error("set the mode of", &path))?;
        }
        if meta.is_dir() {
            settle(&path, depth + 1)?;
        }
    }
    Ok(())
}

/// The absolute `target` as seen from a directory `depth` levels below the root.
fn relative(target: &Path, depth: usize) -> Option<PathBuf> {
    let inside = target.strip_prefix("/").ok()?;
    if OF_THE_MACHINE.iter().any(|path| target.starts_with(path)) {
        return None;
    }
    let up: PathBuf = std::iter::repeat_n("..", depth).collect();
    let path = up.join(inside);
    Some(if path.as_os_str().is_empty() { PathBuf::from(".") } else { path })
}

/// Writes `/etc/ld.so.cache` with the tree's own `ldconfig`, which is static; a tree without one gets none.
fn linker_cache(root: &Path) -> Result<(), RootFsError> {
    // Ubuntu's `ldconfig` is a script that calls the other.
    let programs = ["usr/sbin/ldconfig.real", "usr/sbin/ldconfig"].map(|path| root.join(path));
    let Some(program) = programs.into_iter().find(|program| program.is_file()) else { return Ok(()) };
    let output = Command::new(&program)
        .args(["-i", "-r"])
        .arg(root)
        .stdin(Stdio::null())
        .output()
        .map_err(io_error("run", &program))?;
    if !output.status.success() {
        return Err(RootFsError::LinkerCache {
            program,
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(())
}
