//! Arguments of the linker for a program without shared libraries; a part of build scripts.
//!
//! `-C target-feature=+crt-static` would do the same, but for every crate of a build and never beside procedural macros. So the
//! linker is given scripts, under the names of the shared libraries that the standard library asks for, that name the archives.
//! The result is position-independent as before (`-static-pie`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Libraries that the standard library and the compiler ask the linker for, and the archives that hold them.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("libc.so", &["libc.a"]),
    ("libm.so", &["libm.a"]),
    ("libgcc_s.so", &["libgcc_eh.a", "libgcc.a", "libc.a"]),
    ("libpthread.so", &["libpthread.a"]),
    ("libdl.so", &["libdl.a"]),
    ("librt.so", &["librt.a"]),
    ("libutil.so", &["libutil.a"]),
];

/// Linker's arguments for the build at hand, with the scripts in `OUT_DIR`; none where programs are static anyway, cannot be, or the C
/// library's archives are missing.
pub(crate) fn arguments() -> io::Result<Option<Vec<String>>> {
    let gnu = variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    let already = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    let foreign = variable("HOST") != variable("TARGET");
    if !gnu || already || foreign {
        return Ok(None);
    }
    let Some(scripts) =
        LIBRARIES.iter().map(|(name, archives)| script(name, archives)).collect::<Option<Vec<_>>>()
    else {
        println!(
            "cargo::warning=the C library's archives are missing (libc6-dev), so belfry is linked dynamically"
        );
        return Ok(None);
    };
    let directory = directory();
    fs::create_dir_all(&directory)?;
    for (name, text) in scripts {
        fs::write(directory.join(name), text)?;
    }
    Ok(Some(vec![format!("-L{}", directory.display()), "-static-pie".to_owned()]))
}

/// Compiles the entry of the binary, from `source`, and returns the object: always optimised, as it runs before the functions are there
/// that other code calls.
pub(crate) fn entry(source: &Path) -> io::Result<PathBuf> {
    println!("cargo::rerun-if-changed={}", source.display());
    let object = directory().join("start.o");
    let status = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-name=belfry_start", "--crate-type=lib", "--emit=obj"])
        .args(["-Copt-level=2", "-Cpanic=abort", "--cfg=belfry_entry", "-o"])
        .arg(&object)
        .arg(source.join("lib.rs"))
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the entry of the binary (host-vmm/start) does not compile"));
    }
    Ok(object)
}

/// Arguments with which a binary is entered at `belfry_start` (`host-vmm/start`).
pub(crate) fn entered_at(object: &Path) -> [String; 2] {
    [object.display().to_string(), "-Wl,-e,belfry_start".to_owned()]
}

/// A variable that cargo sets for build scripts; nothing if it does not.
pub(crate) fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn directory() -> PathBuf {
    Path::new(&variable("OUT_DIR")).join("archives")
}

/// The linker script of one library, and its name; nothing if an archive is missing.
fn script(name: &'static str, archives: &[&str]) -> Option<(&'static str, String)> {
    let found = archives.iter().map(|archive| archive_path(archive)).collect::<Option<Vec<_>>>()?;
    let list = found.iter().map(|path| format!(" \"{}\"", path.display())).collect::<String>();
    Some((name, format!("GROUP ({list} )\n")))
}

/// Path of an archive of the C library or of the C compiler itself.
fn archive_path(name: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // A compiler that does not have the file prints its name alone.
    path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten()
}
