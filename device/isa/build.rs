//! Names the build: code that the engine has compiled is for the build that made it alone (`src/tier1/x86/kept.rs`).
//!
//! The name is a hash of this package's sources, the versions of everything else, the compiler and its options. A
//! change of any of these may change the code, or the layout of the data that it reads.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest as _, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo says where the package is")?);
    let mut files = BTreeSet::from([package.join("Cargo.toml"), package.join("build.rs")]);
    sources(&package.join("src"), &mut files)?;
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    // The versions of dependencies, and the options of profiles; other workspaces have this package in them, too.
    for file in ["../../Cargo.lock", "../../Cargo.toml", "../../rust-toolchain.toml"] {
        let file = package.join(file);
        if file.is_file() {
            println!("cargo::rerun-if-changed={}", file.display());
            files.insert(file);
        }
    }
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for file in files {
        // Not the place of the tree: it changes nothing.
        add(file.strip_prefix(&package).unwrap_or(&file).as_os_str().as_encoded_bytes());
        add(&fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    let rustc = env::var_os("RUSTC").ok_or("cargo names the compiler")?;
    let version = Command::new(rustc).arg("-vV").output()?;
    if !version.status.success() {
        return Err("the compiler does not tell its version".into());
    }
    add(&version.stdout);
    let mut options: Vec<_> = env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            let options = ["TARGET", "PROFILE", "OPT_LEVEL", "CARGO_ENCODED_RUSTFLAGS"];
            options.contains(&&*name) || name.starts_with("CARGO_CFG_") || name.starts_with("CARGO_FEATURE_")
        })
        .collect();
    options.sort();
    for (name, value) in options {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=BELFRY_ISA_BUILD={name}");
    Ok(())
}

/// Adds all files below a folder.
fn sources(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sources(&entry.path(), files)?;
        } else {
            files.insert(entry.path());
        }
    }
    Ok(())
}
