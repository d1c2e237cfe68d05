//! Parts of a guest that are no packages: Belfry's own sources give them, and they travel in the binary.

use std::fs;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::cache::{Cache, CacheError, create_dir, io_error, mark_used, remove_unused};

/// Everything of a guest that is no package.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The guest's driver.
    pub driver: Driver,
    /// The guest's first process, a static program.
    pub init: &'static [u8],
    /// All bundled examples in one static program.
    pub examples: &'static [u8],
    /// The bare-metal guest, a kernel of its own.
    pub bare_metal: Part,
}

/// The guest's driver, up to the step that needs the headers of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The Rust half: one object, which refers to nothing of the kernel but the shim.
    pub core: Part,
    /// The C half: names and contents of its sources, its headers and its `Kbuild`.
    pub shim: &'static [(&'static str, &'static [u8])],
}

/// A part that takes more to build than a compiler, so that a binary may lack it.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The part's content, which is in the binary.
    Present(&'static [u8]),
    /// Requirement that was missing when the binary was built.
    Absent(&'static str),
}

/// A binary that lacks a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this belfry was built without {what}: {why}; see to that and build belfry again")]
pub struct AbsentPart {
    /// The part.
    pub what: &'static str,
    /// Requirement that was missing.
    pub why: &'static str,
}

impl Part {
    /// A part as the build left it: `content`, or where that is empty the reason `why`.
    #[must_use]
    pub const fn built(content: &'static [u8], why: &'static str) -> Self {
        if content.is_empty() { Self::Absent(why) } else { Self::Present(content) }
    }

    /// Its content; `what` names it in the error.
    ///
    /// # Errors
    ///
    /// This binary was built without the part; the error says why.
    pub fn content(self, what: &'static str) -> Result<&'static [u8], AbsentPart> {
        match self {
            Self::Present(content) => Ok(content),
            Self::Absent(why) => Err(AbsentPart { what, why }),
        }
    }
}

/// Writes `content` into the cache as an executable file whose name has its hash, unless it is there. Returns its path.
///
/// A file with other bytes than its name says is replaced. Two processes may call this at once.
pub(super) fn publish(cache: &Cache, name: &str, content: &[u8]) -> Result<PathBuf, CacheError> {
    let directory = cache.root().join("programs");
    create_dir(&directory)?;
    let id: String = Sha256::digest(content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{name}-{id}"));
    if fs::read(&path).is_ok_and(|there| there == content) {
        mark_used(&path);
        return Ok(path);
    }
    remove_unused(&directory, &format!("{name}-"));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempfile_in(&directory)
        .map_err(io_error("create a file in", &directory))?;
    std::io::Write::write_all(&mut file, content).map_err(io_error("write", file.path()))?;
    file.persist(&path).map_err(|error| io_error("rename to", &path)(error.error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_file_has_its_content_again_after_damage() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let path = publish(&cache, "init", b"one").unwrap();
        assert_eq!(publish(&cache, "init", b"one").unwrap(), path);
        fs::write(&path, b"0ne").unwrap();
        assert_eq!(publish(&cache, "init", b"one").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn absent_part_is_refused_with_what_the_build_lacked() {
        let part = Part::built(b"", "no Rust library sources");
        let error = part.content("the driver").unwrap_err().to_string();
        assert!(error.contains("without the driver: no Rust library sources"), "{error}");
        assert_eq!(Part::built(b"x", "").content("it"), Ok(b"x".as_slice()));
    }
}
