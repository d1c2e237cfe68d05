//! Kernel modules as files: which ones a module needs, in load order, decompressed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};

use super::artifacts::Kernel;
use super::cache::{Cache, CacheError, create_dir, io_error, write_atomically};

/// Errors of module files.
#[derive(Debug, thiserror::Error)]
pub enum ModuleFileError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A module names another one the kernel's package does not have.
    #[error("the module {needed_by} needs {name}, which kernel {release} does not have")]
    Missing {
        /// The module not found.
        name: String,
        /// Module that needs it.
        needed_by: String,
        /// Kernel release.
        release: String,
    },
    /// A file is not a kernel module.
    #[error("{path} is not a kernel module: {why}")]
    NotAModule {
        /// The file.
        path: PathBuf,
        /// Reason why it is none.
        why: String,
    },
}

/// A module ready to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFile {
    /// Name as in `/proc/modules`.
    pub name: String,
    /// The uncompressed `.ko`.
    pub path: PathBuf,
}

/// The kernel's own modules of these names with all they need, in an order in which they load.
///
/// # Errors
///
/// A module that the kernel does not have, a file that is no module, or a cache that cannot be written.
pub fn stock_modules(
    cache: &Cache,
    kernel: &Kernel,
    names: &[&str],
) -> Result<Vec<ModuleFile>, ModuleFileError> {
    let directory = cache.root().join(format!("modules-{}", kernel.id));
    create_dir(&directory)?;
    let (mut index, mut order, mut seen) = (None, Vec::new(), BTreeSet::new());
    for name in names {
        let file = decompressed(name, "this guest", kernel, &directory, &mut index)?;
        visit(name, file, kernel, &directory, &mut index, &mut seen, &mut order)?;
    }
    Ok(order)
}

/// Every module `roots` need, roots included and last, in an order in which they load.
///
/// # Errors
///
/// A module that the kernel does not have, a file that is no module, or a cache that cannot be written.
pub fn load_order(
    cache: &Cache,
    kernel: &Kernel,
    roots: &[PathBuf],
) -> Result<Vec<ModuleFile>, ModuleFileError> {
    let directory = cache.root().join(format!("modules-{}", kernel.id));
    create_dir(&directory)?;
    let mut index = None;
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    for root in roots {
        // A built module's file carries its version; the kernel goes by the name inside.
        let name = modinfo(root)?.iter().find_map(|entry| entry.strip_prefix("name=").map(str::to_owned));
        let name = name.or_else(|| module_name(root)).unwrap_or_default();
        visit(&name, root.clone(), kernel, &directory, &mut index, &mut seen, &mut order)?;
    }
    Ok(order)
}

fn visit(
    name: &str,
    path: PathBuf,
    kernel: &Kernel,
    directory: &Path,
    index: &mut Option<BTreeMap<String, PathBuf>>,
    seen: &mut BTreeSet<String>,
    order: &mut Vec<ModuleFile>,
) -> Result<(), ModuleFileError> {
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    for needed in depends(&modinfo(&path)?) {
        let file = decompressed(&needed, name, kernel, directory, index)?;
        visit(&needed, file, kernel, directory, index, seen, order)?;
    }
    order.push(ModuleFile { name: name.to_owned(), path });
    Ok(())
}

/// The uncompressed file of a module of the kernel's package, made on first use.
fn decompressed(
    name: &str,
    needed_by: &str,
    kernel: &Kernel,
    directory: &Path,
    index: &mut Option<BTreeMap<String, PathBuf>>,
) -> Result<PathBuf, ModuleFileError> {
    let target = directory.join(format!("{name}.ko"));
    if target.exists() {
        return Ok(target);
    }
    let index = match index {
        Some(index) => index,
        None => {
            let mut found = BTreeMap::new();
            collect(&kernel.modules.join("kernel"), &mut found).map_err(io_error("list", &kernel.modules))?;
            index.insert(found)
        }
    };
    let source = index.get(name).ok_or_else(|| ModuleFileError::Missing {
        name: name.to_owned(),
        needed_by: needed_by.to_owned(),
        release: kernel.release.clone(),
    })?;
    let compressed = fs::read(source).map_err(io_error("read", source))?;
    let content = if source.extension().is_some_and(|extension| extension == "xz") {
        let mut content = Vec::new();
        lzma_rs::xz_decompress(&mut compressed.as_slice(), &mut content)
            .map_err(|error| ModuleFileError::NotAModule { path: source.clone(), why: error.to_string() })?;
        content
    } else {
        compressed
    };
    write_atomically(&target, &content)?;
    Ok(target)
}

/// Module names by file, below `directory`.
fn collect(directory: &Path, found: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if let Some(name) = module_name(&path) {
            found.insert(name, path);
        }
    }
    Ok(())
}

/// The name the kernel gives a module file: without suffixes, dashes as underscores.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, suffix) = file.split_once(".ko")?;
    matches!(suffix, "" | ".xz").then(|| stem.replace('-', "_"))
}

/// The `KEY=VALUE` entries of a module's `.modinfo` section.
fn modinfo(path: &Path) -> Result<Vec<String>, ModuleFileError> {
    let content = fs::read(path).map_err(io_error("read", path))?;
    let not_a_module = |why: String| ModuleFileError::NotAModule { path: path.to_owned(), why };
    let file = object::File::parse(content.as_slice()).map_err(|error| not_a_module(error.to_string()))?;
    let section =
        file.section_by_name(".modinfo").ok_or_else(|| not_a_module("no .modinfo section".into()))?;
    let data = section.data().map_err(|error| not_a_module(error.to_string()))?;
    Ok(parse_modinfo(data))
}

fn parse_modinfo(data: &[u8]) -> Vec<String> {
    let entries = data.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

/// The modules named by the `depends=` entry.
fn depends(modinfo: &[String]) -> Vec<String> {
    modinfo
        .iter()
        .filter_map(|entry| entry.strip_prefix("depends="))
        .flat_map(|list| list.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_are_read_from_modinfo() {
        let modinfo = parse_modinfo(b"license=GPL\0depends=drm,gpu-sched\0name=x\0\0");
        assert_eq!(modinfo, ["license=GPL", "depends=drm,gpu-sched", "name=x"]);
        assert_eq!(depends(&modinfo), ["drm", "gpu_sched"]);
        assert!(depends(&parse_modinfo(b"depends=\0")).is_empty());
    }

    #[test]
    fn file_names_give_module_names() {
        for (file, name) in [
            ("gpu-sched.ko.xz", Some("gpu_sched")),
            ("drm.ko", Some("drm")),
            ("drm.ko.zst", None),
            ("modules.order", None),
        ] {
            assert_eq!(module_name(Path::new(file)).as_deref(), name, "{file}");
        }
    }

    #[test]
    fn a_file_that_is_no_module_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.ko");
        fs::write(&path, b"not an object").unwrap();
        assert!(matches!(modinfo(&path), Err(ModuleFileError::NotAModule { .. })));
    }
}
