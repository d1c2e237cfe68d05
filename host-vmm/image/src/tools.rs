//! Debian 13's tools in the cache, for machines that have none: mke2fs for disks, passt for networks, LLVM for tests and
//! `cargo xtask`, tmux and GDB for tests, firmware for machines that boot by UEFI; and single packages for `cargo xtask`.
//!
//! The programs run under the loader and the libraries they came with, as the machine's C library may be older.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::cache::{Cache, io_error};
use super::fetch::{Apt, FetchError, Release, TRIXIE};
use super::freshness::Freshness;
use super::obtain::{obtain, obtain_from};
use super::progress::Progress;

/// The package `mke2fs` is in, and the artifact of the cache.
pub const E2FSPROGS: &str = "e2fsprogs";
/// The package `passt` is in, and the artifact of the cache.
pub const PASST: &str = "passt";
/// The package `tmux` is in, and the artifact of the cache.
const TMUX: &str = "tmux";
/// The package of GDB with all architectures, and the artifact of the cache.
const GDB: &str = "gdb-multiarch";
/// A release of LLVM.
struct Llvm {
    number: u32,
    /// The artifact of the cache.
    artifact: &'static str,
    /// The release of Debian that has it.
    debian: &'static str,
    /// Packages to fetch, beside those that these need.
    packages: &'static [&'static str],
    /// The programs by name, and where in its `bin` each is.
    programs: &'static [(&'static str, &'static str)],
}

/// The one that code of the repository is compiled with.
const LLVM: Llvm = Llvm {
    number: 19,
    artifact: "llvm",
    debian: TRIXIE.codename,
    packages: &["clang-19", "lld-19", "llvm-19"],
    programs: &[("clang-19", "clang"), ("ld.lld-19", "lld"), ("ld.lld", "lld"), ("llvm-mc-19", "llvm-mc")],
};
/// The one that the instruction tables are made from and compared with.
const TABLES_LLVM: Llvm = Llvm {
    number: 22,
    artifact: "llvm-22",
    debian: TRIXIE.codename,
    packages: &["llvm-22"],
    programs: &[
        ("llvm-mc-22", "llvm-mc"),
        ("llvm-objcopy-22", "llvm-objcopy"),
        ("llvm-tblgen-22", "llvm-tblgen"),
    ],
};
/// The release that encodes in a newer way.
const NEWER_LLVM: Llvm = Llvm {
    number: 23,
    artifact: "llvm-23",
    debian: "sid",
    packages: &["llvm-23"],
    programs: &[("llvm-mc-23", "llvm-mc")],
};

/// Fetches LLVM 19, some 120 MB, or finds it in the cache: the directory of `clang-19`, `ld.lld-19` and `llvm-mc-19`.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn llvm(cache: &Cache, freshness: Freshness, progress: &Progress) -> Result<PathBuf, FetchError> {
    obtain_llvm(&LLVM, cache, freshness, progress)
}

/// Fetches LLVM 22, some 120 MB, or finds it in the cache: the directory of `llvm-mc-22`, `llvm-objcopy-22` and `llvm-tblgen-22`.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn tables_llvm(cache: &Cache, freshness: Freshness, progress: &Progress) -> Result<PathBuf, FetchError> {
    obtain_llvm(&TABLES_LLVM, cache, freshness, progress)
}

/// Fetches LLVM 23, some 120 MB of Debian sid, or finds it in the cache: the directory of `llvm-mc-23`.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn newer_llvm(cache: &Cache, freshness: Freshness, progress: &Progress) -> Result<PathBuf, FetchError> {
    obtain_llvm(&NEWER_LLVM, cache, freshness, progress)
}

fn obtain_llvm(
    llvm: &Llvm,
    cache: &Cache,
    freshness: Freshness,
    progress: &Progress,
) -> Result<PathBuf, FetchError> {
    let choose = |apt: &Apt| Ok((apt.closure(llvm.packages, None)?, BTreeMap::new()));
    let release = Release::named(llvm.debian).unwrap_or(&TRIXIE);
    let finish = |root: &Path| finish(llvm, root);
    let (root, _) = obtain_from(release, cache, llvm.artifact, (freshness, progress), &choose, &finish)?;
    Ok(root.join("programs"))
}

/// A program, and the arguments that come before any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Program to start.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<String>,
}

/// `mke2fs`: the machine's own, otherwise Debian's in the cache.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn mke2fs(cache: &Cache, progress: &Progress) -> Result<Tool, FetchError> {
    match system_mke2fs() {
        Some(program) => Ok(Tool { program, arguments: Vec::new() }),
        None => packaged_mke2fs(cache, progress),
    }
}

/// The machine's own `mke2fs`.
#[must_use]
pub fn system_mke2fs() -> Option<PathBuf> {
    // Users rarely have these in their PATH.
    find("mke2fs", &["/usr/sbin", "/sbin"])
}

/// A program of the machine: in `PATH`, or in one of `more`.
#[must_use]
pub fn find(name: impl AsRef<Path>, more: &[&str]) -> Option<PathBuf> {
    // Without a `PATH`, the C library searches there.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let folders = std::env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(&name)).find(|program| program.is_file())
}

/// `passt`: the machine's own, otherwise Debian's in the cache.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn passt(cache: &Cache, progress: &Progress) -> Result<Tool, FetchError> {
    match system_passt() {
        Some(program) => Ok(Tool { program, arguments: Vec::new() }),
        None => {
            let root = packaged_passt(cache, progress)?;
            Ok(under_loader(&root, &["--argv0", PASST], "usr/bin/passt"))
        }
    }
}

/// The machine's own `passt`.
#[must_use]
pub fn system_passt() -> Option<PathBuf> {
    find(PASST, &[])
}

/// Debian's `passt`, fetched (some 14 MB with its library) or found in the cache: the root of the unpacked packages.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn packaged_passt(cache: &Cache, progress: &Progress) -> Result<PathBuf, FetchError> {
    let choose = |apt: &Apt| Ok((apt.closure(&[PASST], None)?, BTreeMap::new()));
    let trim = |root: &Path| {
        drop_manuals(root);
        Ok(())
    };
    Ok(obtain(cache, PASST, Freshness::Cached, progress, &choose, &trim)?.0)
}

/// A program of an unpacked tree, under its own loader and libraries.
fn under_loader(root: &Path, options: &[&str], program: &str) -> Tool {
    let path = |sub: &str| root.join(sub).display().to_string();
    let mut arguments = vec!["--library-path".to_owned(), path("usr/lib/x86_64-linux-gnu")];
    arguments.extend(options.iter().map(|&option| option.to_owned()));
    arguments.push(path(program));
    Tool { program: root.join("usr/lib64/ld-linux-x86-64.so.2"), arguments }
}

/// Debian's `mke2fs`, fetched (some 9 MB with its libraries) or found in the cache; it runs under its own loader.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn packaged_mke2fs(cache: &Cache, progress: &Progress) -> Result<Tool, FetchError> {
    let choose = |apt: &Apt| Ok((apt.closure(&[E2FSPROGS], None)?, BTreeMap::new()));
    let trim = |root: &Path| {
        drop_manuals(root);
        Ok(())
    };
    let (root, _) = obtain(cache, E2FSPROGS, Freshness::Cached, progress, &choose, &trim)?;
    Ok(under_loader(&root, &[], "usr/sbin/mke2fs"))
}

/// Debian's `tmux`, fetched (some 11 MB with its libraries) or found in the cache, and the folder of the descriptions of terminals that
/// it is to be told of in `TERMINFO_DIRS`; it runs under its own loader.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn tmux(cache: &Cache, progress: &Progress) -> Result<(Tool, PathBuf), FetchError> {
    // Terminals like tmux's own are described in a package that each Debian system has.
    let choose = |apt: &Apt| Ok((apt.closure(&[TMUX, "ncurses-base"], None)?, BTreeMap::new()));
    let trim = |root: &Path| {
        drop_manuals(root);
        Ok(())
    };
    let (root, _) = obtain(cache, TMUX, Freshness::Cached, progress, &choose, &trim)?;
    Ok((under_loader(&root, &["--argv0", TMUX], "usr/bin/tmux"), root.join("usr/share/terminfo")))
}

/// A UEFI firmware for QEMU's machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uefi {
    /// Its code, for the first flash chip.
    pub code: PathBuf,
    /// Its variables as they are on a new machine, to be copied for the second one.
    pub variables: PathBuf,
}

/// Debian's OVMF without Secure Boot, fetched (some 18 MB) or found in the cache.
///
/// # Errors
///
/// A package that cannot be had, with what to do.
pub fn ovmf(cache: &Cache, progress: &Progress) -> Result<Uefi, FetchError> {
    let files = package(cache, "ovmf", progress)?.join("usr/share/OVMF");
    Ok(Uefi { code: files.join("OVMF_CODE_4M.fd"), variables: files.join("OVMF_VARS_4M.fd") })
}

/// Debian's `gdb-multiarch`, fetched (some 35 MB with its libraries) or found in the cache: a script that starts it under its own loader.
///
/// # Errors
///
/// Packages that cannot be had, with what to do.
pub fn gdb(cache: &Cache, progress: &Progress) -> Result<PathBuf, FetchError> {
    let choose = |apt: &Apt| Ok((apt.closure(&[GDB], None)?, BTreeMap::new()));
    let trim = |root: &Path| {
        drop_manuals(root);
        // Its Python looks for its own modules where the machine would have them.
        let text = "#!/bin/sh\nroot=$(dirname -- \"$(readlink -f -- \"$0\")\")\nexport PYTHONHOME=\"$root/usr\"\n\
                    exec \"$root/usr/lib64/ld-linux-x86-64.so.2\" --library-path \"$root/usr/lib/x86_64-linux-gnu\" \\\n  \
                    \"$root/usr/bin/gdb-multiarch\" --data-directory=\"$root/usr/share/gdb\" \"$@\"\n";
        let path = root.join(GDB);
        fs::write(&path, text).map_err(io_error("write", &path))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(io_error("make executable", &path))?;
        Ok(())
    };
    Ok(obtain(cache, GDB, Freshness::Cached, progress, &choose, &trim)?.0.join(GDB))
}

/// One package of Debian 13 without its dependencies, fetched or found in the cache: the directory of its files.
///
/// # Errors
///
/// A package that cannot be had, with what to do.
pub fn package(cache: &Cache, name: &str, progress: &Progress) -> Result<PathBuf, FetchError> {
    let choose = |apt: &Apt| Ok((apt.exact(&[name])?, BTreeMap::new()));
    let (root, _) = obtain(cache, name, Freshness::Cached, progress, &choose, &|_| Ok(()))?;
    Ok(root)
}

/// Removes files that no program needs from an unpacked tree.
fn drop_manuals(root: &Path) {
    for sub in ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"] {
        let _ = fs::remove_dir_all(root.join(sub));
    }
}

/// Drops manuals and the like, and writes a script for each program.
fn finish(llvm: &Llvm, root: &Path) -> Result<(), FetchError> {
    drop_manuals(root);
    let programs = root.join("programs");
    fs::create_dir(&programs).map_err(io_error("make", &programs))?;
    for (name, program) in llvm.programs {
        let path = programs.join(name);
        fs::write(&path, script(llvm.number, name, program)).map_err(io_error("write", &path))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(io_error("make executable", &path))?;
    }
    Ok(())
}

/// A script that starts a program under its own loader, wherever the tree is.
///
/// Under a loader a program cannot find itself. So the script tells clang where its headers and its linker are, and to
/// start itself by the script, as it does for more than one step. The arguments of such a start (`-cc1`) are left as
/// they are.
fn script(number: u32, name: &str, program: &str) -> String {
    let clang = format!(
        "case \"$1\" in -cc1*) ;; *)\n  set -- -no-canonical-prefixes -resource-dir \
         \"$root/usr/lib/llvm-{number}/lib/clang/{number}\" -B \"$root/programs\" \"$@\";;\nesac\n"
    );
    format!(
        "#!/bin/sh\nroot=$(dirname -- \"$(dirname -- \"$(readlink -f -- \"$0\")\")\")\n{}\
         exec \"$root/usr/lib64/ld-linux-x86-64.so.2\" \\\n  \
         --library-path \"$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/llvm-{number}/lib\" \\\n  \
         --argv0 \"$root/programs/{name}\" \"$root/usr/lib/llvm-{number}/bin/{program}\" \"$@\"\n",
        if program == "clang" { clang.as_str() } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_started_under_the_loader_they_came_with() {
        let root = tempfile::tempdir().unwrap();
        let (loader, programs) = (root.path().join("usr/lib64"), root.path().join("programs"));
        fs::create_dir_all(&loader).unwrap();
        finish(&LLVM, root.path()).unwrap();
        // A loader that prints its arguments.
        let said = loader.join("ld-linux-x86-64.so.2");
        fs::write(&said, "#!/bin/sh\nfor argument; do echo \"$argument\"; done\n").unwrap();
        fs::set_permissions(&said, fs::Permissions::from_mode(0o755)).unwrap();
        let run = |name: &str, argument: &str| {
            let output = std::process::Command::new(programs.join(name)).arg(argument).output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let at = |sub: &str| fs::canonicalize(root.path()).unwrap().join(sub).display().to_string();
        let argv0 = |lines: &[String]| lines[3].clone();
        let mc = run("llvm-mc-19", "a file");
        assert_eq!(
            mc[2..],
            ["--argv0".into(), at("programs/llvm-mc-19"), at("usr/lib/llvm-19/bin/llvm-mc"), "a file".into()]
        );
        assert_eq!(argv0(&run("ld.lld", "-o")), at("programs/ld.lld"));
        let clang = run("clang-19", "-c");
        assert!(
            clang.contains(&"-no-canonical-prefixes".to_owned()) && clang.last().unwrap() == "-c",
            "{clang:?}"
        );
        assert_eq!(run("clang-19", "-cc1").len(), 6, "a start by itself is left alone");
        for llvm in [&TABLES_LLVM, &NEWER_LLVM] {
            let newer = tempfile::tempdir().unwrap();
            finish(llvm, newer.path()).unwrap();
            let number = llvm.number;
            let text = fs::read_to_string(newer.path().join(format!("programs/llvm-mc-{number}"))).unwrap();
            let at = format!("/usr/lib/llvm-{number}");
            assert!(
                text.contains(&format!("{at}/lib\"")) && text.contains(&format!("{at}/bin/llvm-mc\"")),
                "{text}"
            );
        }
    }
}
