//! Symbols of code objects: source lines, functions and variables, from DWARF.
//!
//! | part | file |
//! | --- | --- |
//! | a file: its segments, lines, functions, variables | `read.rs` |
//! | what a file says, as plain values | `model.rs` |
//! | where a variable is, and its value as text | `variables.rs` |
//! | a copy of a file that stock GDB understands | `for_gdb.rs` |
//!
//! Debug information is not loaded into a GPU's memory, so it comes from files: the ones that the user names, and the
//! file of `launch`. A code object in memory and a file belong together if their machine code is the same, byte by
//! byte.

mod for_gdb;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod variables;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use belfry_device::chip;
use belfry_process::files;
use belfry_runtime::code_object::unbundle;
pub use read::{FileError, SymbolFile};
pub use variables::{Place, Register, State, ValueError};

/// Bytes of a file at most.
const MAX_FILE: u64 = 256 << 20;
/// Files of a folder that are looked at, at most.
const MAX_FILES: usize = 4096;

/// Why there are no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// A path that cannot be read.
    #[error("--symbols {path}: {source}")]
    Path {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file that is no code object, or whose debug information is broken.
    #[error("--symbols {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        why: String,
    },
}

/// A code object in a process's memory whose file is known.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its process.
    pub pasid: u16,
    /// Base address, which is added to its file's addresses.
    pub base: u64,
    /// Its file.
    pub file: Arc<SymbolFile>,
}

/// A code object that was found elsewhere than in a file that the user named.
#[derive(Clone, Debug)]
pub struct CodeObject {
    /// Name: a URI.
    pub name: String,
    /// Its ELF file.
    pub data: Vec<u8>,
}

/// Tells of code objects that it has not told of before.
pub type Finder = Arc<dyn Fn() -> Vec<CodeObject> + Send + Sync>;

#[derive(Clone, Default)]
struct Found(Option<Finder>);

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Found").field(&self.0.is_some()).finish()
    }
}

/// The files that are known, and the code objects that were found to be theirs.
#[derive(Debug, Default)]
pub struct Symbols {
    files: Vec<Arc<SymbolFile>>,
    finder: Found,
    /// Code objects in memory, in the order in which they were found.
    pub loaded: Vec<Loaded>,
}

/// Alignment of the base addresses of code objects, in bytes.
const PAGE: u64 = 4096;

/// Code objects that are remembered at most.
const MAX_LOADED: usize = 4096;

/// A place in a source file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceLine<'a> {
    /// The file's path, as its compiler had it.
    pub file: &'a str,
    /// The line, from 1 on.
    pub line: u32,
    /// The function around it.
    pub function: Option<&'a str>,
}

impl std::fmt::Display for SourceLine<'_> {
    /// `vecadd.cl:14`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Path::new(self.file).file_name().and_then(|name| name.to_str()).unwrap_or(self.file);
        write!(f, "{name}:{}", self.line)
    }
}

impl Symbols {
    /// Reads files, and all files of folders: code objects, bundles of such, and programs with bundles in them.
    ///
    /// # Errors
    ///
    /// Paths that cannot be read, and files that have no code objects; others of a folder are left out.
    pub fn of(paths: &[PathBuf]) -> Result<Self, SymbolError> {
        let mut symbols = Self::default();
        for path in paths {
            let failed = |source| SymbolError::Path { path: path.clone(), source };
            if fs::metadata(path).map_err(failed)?.is_dir() {
                let entries = fs::read_dir(path).map_err(failed)?.flatten().take(MAX_FILES);
                let found = entries.filter_map(|entry| read_files(&entry.path()).ok());
                symbols.files.extend(found.flatten());
            } else {
                symbols.files.append(&mut read_files(path)?);
            }
        }
        Ok(symbols)
    }

    /// Adds a finder of code objects, which is asked when a code object is on the GPU whose file is not known.
    #[must_use]
    pub fn with_finder(mut self, finder: Finder) -> Self {
        self.finder = Found(Some(finder));
        self
    }

    /// Returns true if there are no files, and none can come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.finder.0.is_none()
    }

    /// Returns true if code of a source line can come: a file has some, or more files may come.
    #[must_use]
    pub fn may_have(&self, file: &str, line: u32) -> bool {
        self.finder.0.is_some() || self.files.iter().any(|known| !known.addresses(file, line).is_empty())
    }

    /// The file of a code object in memory; code objects that have come meanwhile are looked at, too.
    fn file_at(
        &mut self,
        base: u64,
        read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    ) -> Option<Arc<SymbolFile>> {
        let known = self.files.iter().find(|file| file.is_at(base, read)).cloned();
        if known.is_some() {
            return known;
        }
        let new = self.finder.0.as_ref().map(|finder| finder()).unwrap_or_default();
        let from = self.files.len();
        // What is broken has no symbols, and is not the user's fault.
        self.files.extend(
            new.into_iter()
                .filter_map(|object| SymbolFile::read(object.name, object.data).map(Arc::new).ok()),
        );
        self.files[from..].iter().find(|file| file.is_at(base, read)).cloned()
    }

    /// Takes note of a code object in memory. Returns true if it was not known and has a file. `read` reads memory of
    /// its process, and returns the number of bytes read.
    pub fn found(&mut self, pasid: u16, base: u64, read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> bool {
        let known = |loaded: &Loaded| (loaded.pasid, loaded.base) == (pasid, base);
        // A known code object may have gone, and another one may have come to its place.
        if let Some(index) = self.loaded.iter().position(known) {
            if self.loaded[index].file.is_at(base, read) {
                return false;
            }
            self.loaded.remove(index);
        }
        let Some(file) = self.file_at(base, read).filter(|_| self.loaded.len() < MAX_LOADED) else {
            return false;
        };
        self.loaded.push(Loaded { pasid, base, file });
        true
    }

    /// Takes note of a code object by a kernel that is dispatched from it: its name, and the address of its descriptor.
    pub fn dispatched(&mut self, kernel: &str, descriptor: u64) {
        let base = |file: &SymbolFile| {
            let base = descriptor.checked_sub(file.descriptor(kernel)?)?;
            (base % PAGE == 0).then_some(base)
        };
        let found = self.files.iter().find_map(|file| Some((base(file)?, Arc::clone(file))));
        let Some((base, file)) = found else { return };
        self.loaded.retain(|loaded| loaded.base != base);
        if self.loaded.len() < MAX_LOADED {
            self.loaded.push(Loaded { pasid: 0, base, file });
        }
    }

    /// The code object around an address, and the address in its file.
    #[must_use]
    pub fn around(&self, address: u64) -> Option<(Arc<SymbolFile>, u64)> {
        self.near(address).map(|(file, own)| (Arc::clone(file), own))
    }

    fn near(&self, address: u64) -> Option<(&Arc<SymbolFile>, u64)> {
        self.loaded.iter().find_map(|loaded| {
            let own = address.checked_sub(loaded.base)?;
            loaded.file.has_code(own).then_some((&loaded.file, own))
        })
    }

    /// The source line of an instruction.
    #[must_use]
    pub fn line(&self, address: u64) -> Option<SourceLine<'_>> {
        let (file, own) = self.near(address)?;
        file.line(own)
    }

    /// Addresses of the instructions with which a source line begins, in each code object; `file` is a path or the end of one.
    #[must_use]
    pub fn addresses(&self, file: &str, line: u32) -> Vec<u64> {
        let each = self.loaded.iter().flat_map(|loaded| {
            loaded.file.addresses(file, line).into_iter().map(|own| own.wrapping_add(loaded.base))
        });
        each.collect()
    }
}

/// The code objects of a file: the file itself, or those of the bundles in it.
fn read_files(path: &Path) -> Result<Vec<Arc<SymbolFile>>, SymbolError> {
    let failed = |source| SymbolError::Path { path: path.to_owned(), source };
    let wrong = |why: String| SymbolError::File { path: path.to_owned(), why };
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE {
        return Err(wrong(format!("{size} bytes are more than a code object's {MAX_FILE}")));
    }
    let bytes = files::read(path, MAX_FILE).map_err(failed)?;
    // What is no bundle comes back as it is, for each chip.
    let mut objects: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut refused = None;
    for model in chip::MODELS {
        match unbundle(&bytes, Some(model.name)) {
            Ok(found) => {
                for object in found {
                    // A plain code object, and code for a kind of processors, come once for each chip.
                    if !objects.contains(&object) {
                        objects.push(object);
                    }
                }
            }
            Err(error) => refused = Some(error.to_string()),
        }
    }
    if let (true, Some(why)) = (objects.is_empty(), refused) {
        return Err(wrong(why));
    }
    let read = |object: Cow<'_, [u8]>| {
        SymbolFile::read(path.display().to_string(), object.into_owned()).map(Arc::new)
    };
    objects.into_iter().map(read).collect::<Result<_, FileError>>().map_err(|error| wrong(error.to_string()))
}

/// A copy for GDB that is made on first use.
#[derive(Debug, Default)]
struct Copy(OnceLock<Vec<u8>>);
