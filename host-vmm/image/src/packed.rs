//! A guest packed into one directory: the files that a boot needs, for machines without the sources and tools that make
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::artifacts::Kernel;
use super::cache::{CacheError, create_dir, io_error};
use super::guest::{GuestImage, InitramfsFile};
use super::module_files::ModuleFile;
use super::programs::Programs;

/// The environment variable that names a packed guest, used instead of the cache's.
pub const VARIABLE: &str = "BELFRY_IMAGE";

const INDEX: &str = "image.json";
const KERNEL: &str = "kernel";
const INIT: &str = "init";
const EXAMPLES: &str = "examples";
const BARE_METAL: &str = "bare-metal";
/// Raised when the directory's layout changes.
const LAYOUT: u32 = 1;

/// Why a directory is no packed guest, or none could be written.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] CacheError),
    /// The index makes no sense.
    #[error("{path} is not the index of a packed guest: {why}; `belfry image --pack` writes them")]
    Index {
        /// The index.
        path: PathBuf,
        /// Reason why it is none.
        why: String,
    },
    /// The guest has no bare-metal kernel.
    #[error("the packed guest in {0} has no bare-metal kernel")]
    NoBareMetal(PathBuf),
}

/// Contents of the directory, beside the files of fixed names.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    layout: u32,
    release: String,
    modules: Vec<String>,
}

/// The directory [`VARIABLE`] names.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The bare-metal guest of the packed guest in use, where there is one in use.
///
/// # Errors
///
/// A packed guest without it.
pub fn bare_metal() -> Option<Result<PathBuf, PackedError>> {
    let directory = directory()?;
    let kernel = directory.join(BARE_METAL);
    Some(if kernel.is_file() { Ok(kernel) } else { Err(PackedError::NoBareMetal(directory)) })
}

/// The files of a packed guest, below `root`, with or without the bare-metal guest.
pub fn files(image: &GuestImage, bare_metal: Option<&Path>, root: &str) -> Vec<InitramfsFile> {
    let file = |name: &str, mode, host: &Path| InitramfsFile {
        guest: format!("{root}/{name}"),
        mode,
        host: host.to_owned(),
    };
    let mut files = vec![
        file(KERNEL, 0o644, &image.kernel.image),
        file(INIT, 0o755, &image.programs.init),
        file(EXAMPLES, 0o755, &image.programs.examples),
    ];
    files.extend(image.modules.iter().map(|module| file(&module_file(&module.name), 0o644, &module.path)));
    files.extend(bare_metal.map(|kernel| file(BARE_METAL, 0o644, kernel)));
    files
}

/// The index that goes with [`files`]: its name and its content.
#[must_use]
pub fn index(image: &GuestImage) -> (&'static str, String) {
    let index = Index {
        layout: LAYOUT,
        release: image.kernel.release.clone(),
        modules: image.modules.iter().map(|module| module.name.clone()).collect(),
    };
    (INDEX, serde_json::json!(index).to_string())
}

/// Writes a packed guest into a directory, which is made when missing.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn write(image: &GuestImage, bare_metal: Option<&Path>, directory: &Path) -> Result<(), PackedError> {
    for file in files(image, bare_metal, &directory.display().to_string()) {
        let to = Path::new(&file.guest);
        create_dir(to.parent().unwrap_or(directory))?;
        fs::copy(&file.host, to).map_err(io_error("copy", &file.host))?;
    }
    let (name, content) = index(image);
    let path = directory.join(name);
    Ok(fs::write(&path, content).map_err(io_error("write", &path))?)
}

/// Opens a packed guest.
///
/// # Errors
///
/// An index that cannot be read or makes no sense, or files it promises that are not there.
pub fn open(directory: &Path) -> Result<GuestImage, PackedError> {
    let path = directory.join(INDEX);
    let bad = |why: String| PackedError::Index { path: path.clone(), why };
    let text = fs::read(&path).map_err(io_error("read", &path))?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    if index.layout != LAYOUT {
        return Err(bad(format!("layout {}, not {LAYOUT}", index.layout)));
    }
    if let Some(name) = index.modules.iter().find(|name| name.contains('/')) {
        return Err(bad(format!("module {name:?}")));
    }
    let image = GuestImage {
        kernel: Kernel {
            image: directory.join(KERNEL),
            modules: directory.join("modules"),
            release: index.release,
            id: "packed".to_owned(),
        },
        modules: index
            .modules
            .into_iter()
            .map(|name| ModuleFile { path: directory.join(module_file(&name)), name })
            .collect(),
        programs: Programs { init: directory.join(INIT), examples: directory.join(EXAMPLES) },
        files: Vec::new(),
    };
    for file in files(&image, None, "") {
        fs::metadata(&file.host).map_err(io_error("find", &file.host))?;
    }
    Ok(image)
}

fn module_file(name: &str) -> String {
    format!("modules/{name}.ko")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(directory: &Path) -> GuestImage {
        let file = |name: &str| {
            let path = directory.join(name);
            fs::write(&path, name).unwrap();
            path
        };
        GuestImage {
            kernel: Kernel {
                release: "6.12-x".into(),
                image: file("vmlinuz"),
                modules: directory.to_owned(),
                id: "kernel-1".into(),
            },
            modules: ["drm", "amdgpu"]
                .map(|name| ModuleFile { name: name.into(), path: file(name) })
                .to_vec(),
            programs: Programs { init: file("belfry-init"), examples: file("belfry-examples") },
            files: Vec::new(),
        }
    }

    #[test]
    fn packed_guest_opens_with_the_same_initramfs() {
        let directory = tempfile::tempdir().unwrap();
        let image = image(directory.path());
        let packed = directory.path().join("packed");
        write(&image, None, &packed).unwrap();
        let opened = open(&packed).unwrap();
        assert_eq!(opened.kernel.release, "6.12-x");
        assert_eq!(fs::read(&opened.kernel.image).unwrap(), b"vmlinuz");
        assert_eq!(opened.initramfs().unwrap(), image.initramfs().unwrap());
    }

    #[test]
    fn damaged_packed_guests_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let image = image(directory.path());
        let packed = directory.path().join("packed");
        assert!(open(&packed).unwrap_err().to_string().contains("image.json"));
        write(&image, None, &packed).unwrap();
        fs::remove_file(packed.join("modules/drm.ko")).unwrap();
        assert!(open(&packed).unwrap_err().to_string().contains("modules/drm.ko"));
        for (text, why) in [
            ("{", "EOF"),
            (r#"{"layout": 9, "release": "x", "modules": []}"#, "layout 9"),
            (r#"{"layout": 1, "release": "x", "modules": ["../x"]}"#, "../x"),
        ] {
            fs::write(packed.join(INDEX), text).unwrap();
            let error = open(&packed).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
