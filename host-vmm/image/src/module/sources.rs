//! The identity of a module: a hash over everything it is made of.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{ModuleError, ModuleInputs, RECIPE, io_error, rust};

/// What of the workspace goes into the module.
const SOURCES: [&str; 7] = [
    "Cargo.toml",
    "abi/Cargo.toml",
    "abi/src",
    "guest-driver/core/Cargo.toml",
    "guest-driver/core/src",
    "guest-driver/linux/Cargo.lock",
    "guest-driver/linux",
];

/// Returns the hash, in hexadecimal, of the sources, the compiler, its flags and the kernel's configuration.
pub(super) fn identity(inputs: &ModuleInputs) -> Result<String, ModuleError> {
    let mut files = Vec::new();
    for source in SOURCES {
        let path = inputs.workspace.join(source);
        if !path.exists() {
            return Err(ModuleError::MissingInput {
                what: source.to_owned(),
                path: inputs.workspace.clone(),
            });
        }
        collect(&path, &mut files)?;
    }
    let headers = inputs.headers.join(format!("usr/src/linux-headers-{}", inputs.release));
    for file in [".config", "Module.symvers"] {
        files.push(headers.join(file));
    }
    files.sort();
    files.dedup();

    let mut hash = Sha256::new();
    for text in [&RECIPE.to_string(), rust::RUSTC, &inputs.release, &rust::FLAGS.join(" ")] {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    for file in files {
        let content = fs::read(&file).map_err(io_error("read", &file))?;
        // The place of the checkout is no part of what is built.
        let name = file.strip_prefix(&inputs.workspace).unwrap_or(Path::new("kernel"));
        hash.update(name.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(&content);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Adds the files below `path`, build results left out.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), ModuleError> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(io_error("list", path))?.flatten() {
        if entry.file_name() != "target" {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}
