//! Links the compiler's runtime (stack unwinding) into the library, where the compiler has the archive.
//!
//! Every program under `belfry exec` loads this library. With the runtime in it, it asks for the C library alone: programs of
//! roots without `libgcc_s.so.1` start, and no program pays for loading and starting one more library.
//!
//! The standard library names `gcc_s` when it links. A linker script of that name, found first, stands for the archives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const ARCHIVES: [&str; 2] = ["libgcc_eh.a", "libgcc.a"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("HOST") != variable("TARGET") || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return Ok(());
    }
    let Some(archives) = ARCHIVES.iter().map(|name| archive(name)).collect::<Option<Vec<_>>>() else {
        println!(
            "cargo::warning=the compiler's runtime archives are missing, so the library needs libgcc_s.so.1"
        );
        return Ok(());
    };
    let list = archives.iter().map(|path| format!(" \"{}\"", path.display())).collect::<String>();
    let directory = Path::new(&variable("OUT_DIR")).join("archives");
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("libgcc_s.so"), format!("GROUP ({list} )\n"))?;
    println!("cargo::rustc-link-arg-cdylib=-L{}", directory.display());
    Ok(())
}

/// Where the C compiler has an archive of its own.
fn archive(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // A compiler that does not have the file prints its name alone.
    path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten()
}
