//! Parts that a guest needs from Debian, each a directory of the cache: QEMU, kernel, its headers, Rust's sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::cache::{Cache, Manifest};
use super::fetch::{Apt, BACKPORTS, FetchError};
use super::freshness::Freshness;
use super::obtain::obtain;
use super::progress::Progress;

/// The version of Rust's sources the kernel module is built from; `rust-toolchain.toml` has this version, too.
const RUST_VERSION: &str = "1.95.0";

/// The stock kernel of Debian 13.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Release string, `6.12.107+deb13-amd64` for example.
    pub release: String,
    /// Compressed kernel image.
    pub image: PathBuf,
    /// Directory of its modules, below which `kernel/` lies.
    pub modules: PathBuf,
    /// Identity of the packages it came from.
    pub id: String,
}

/// Files needed to build a module for [`Kernel`].
#[derive(Debug, Clone)]
pub struct KernelHeaders {
    /// Release string of the kernel they belong to.
    pub release: String,
    /// Root of the unpacked packages: `usr/src/linux-headers-*`, `usr/lib/linux-kbuild-*`, `make`, and Debian 13's C
    /// library and loader below `usr/lib/x86_64-linux-gnu`, for tools built against it.
    pub root: PathBuf,
    /// Identity of the packages it came from.
    pub id: String,
}

/// Rust's library sources of the version the module needs.
#[derive(Debug, Clone)]
pub struct RustSources {
    /// The directory that holds `core/`, `alloc/`, `stdarch/` and `portable-simd/`.
    pub library: PathBuf,
    /// Identity of the package, or of the toolchain it came with.
    pub id: String,
}

/// A QEMU that has `vfio-user-pci`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The program to start.
    pub program: PathBuf,
    /// Arguments that come before any other.
    pub arguments: Vec<String>,
    /// First line that `--version` prints.
    pub version: String,
}

/// Debian 13's stock kernel with DRM (the cloud flavour has none), and its modules.
///
/// # Errors
///
/// No archive is known, apt or dpkg is missing or fails, a package is not in the release or has the wrong
/// hash, or the cache cannot be written.
pub fn kernel(cache: &Cache, freshness: Freshness, progress: &Progress) -> Result<Kernel, FetchError> {
    let choose = |apt: &Apt| {
        let image = apt.first_dependency("linux-image-amd64")?;
        let release = image
            .strip_prefix("linux-image-")
            .ok_or_else(|| FetchError::Parse(format!("kernel image package {image}")))?
            .to_owned();
        Ok((apt.exact(&[&image])?, [("release".to_owned(), release)].into()))
    };
    let (root, manifest) = obtain(cache, "kernel", freshness, progress, &choose, &|_| Ok(()))?;
    let release = fact(&manifest, "release")?;
    let modules = [format!("usr/lib/modules/{release}"), format!("lib/modules/{release}")]
        .iter()
        .map(|path| root.join(path))
        .find(|path| path.is_dir())
        .ok_or_else(|| FetchError::NoPackage(format!("modules of kernel {release}")))?;
    Ok(Kernel {
        image: root.join(format!("boot/vmlinuz-{release}")),
        modules,
        release,
        id: manifest.directory,
    })
}

/// Headers, kbuild and the libraries kbuild's programs run with, for `kernel`.
///
/// # Errors
///
/// No archive is known, apt or dpkg is missing or fails, a package is not in the release or has the wrong
/// hash, or the cache cannot be written.
pub fn kernel_headers(
    cache: &Cache,
    kernel: &Kernel,
    freshness: Freshness,
    progress: &Progress,
) -> Result<KernelHeaders, FetchError> {
    let release = kernel.release.as_str();
    let base = release.strip_suffix("-amd64").unwrap_or(release);
    // A cached tree of another release is of no use to this kernel.
    let freshness = match cache.find("headers") {
        Some(found) if found.manifest.facts.get("release").is_some_and(|have| have == release) => freshness,
        _ => Freshness::Update,
    };
    let choose = |apt: &Apt| {
        let names = [
            format!("linux-headers-{release}"),
            format!("linux-headers-{base}-common"),
            format!("linux-kbuild-{base}"),
            "libc6".to_owned(),
            "libelf1t64".to_owned(),
            "libssl3t64".to_owned(),
            "zlib1g".to_owned(),
            "libzstd1".to_owned(),
            // For machines that have a compiler alone.
            "make".to_owned(),
        ];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok((apt.exact(&names)?, [("release".to_owned(), release.to_owned())].into()))
    };
    let (root, manifest) = obtain(cache, "headers", freshness, progress, &choose, &|_| Ok(()))?;
    Ok(KernelHeaders { release: release.to_owned(), root, id: manifest.directory })
}

/// Rust's library sources: Debian's `rust-src`, or the rustup component's if it is installed.
///
/// Only the build of belfry itself needs them, for the guest's driver.
///
/// # Errors
///
/// The package cannot be had, and the toolchain has no such component either: no archive is known, apt or
/// dpkg is missing or fails, a package is not in the release or has the wrong hash, or the cache cannot be
/// written.
pub fn rust_sources(
    cache: &Cache,
    freshness: Freshness,
    progress: &Progress,
) -> Result<RustSources, FetchError> {
    let choose = |apt: &Apt| Ok((vec![apt.with_prefix("rust-src", RUST_VERSION)?], BTreeMap::new()));
    match obtain(cache, "rust-src", freshness, progress, &choose, &keep_library) {
        Ok((root, manifest)) => match find_library(&root) {
            Some(library) => Ok(RustSources { library, id: manifest.directory }),
            None => Err(FetchError::NoPackage(format!("rust-src {RUST_VERSION} (no library/core in it)"))),
        },
        Err(error) => {
            let Some(library) = toolchain_library() else { return Err(error) };
            progress.line(&format!("rust-src from the toolchain's own component ({error})"));
            Ok(RustSources { library, id: format!("toolchain-{RUST_VERSION}") })
        }
    }
}

/// Drops the compiler's own sources, nine tenths of the package.
fn keep_library(root: &Path) -> Result<(), FetchError> {
    let Some(library) = find_library(root) else { return Ok(()) };
    for entry in library.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten()
    {
        let path = entry.path();
        if path != library && path.is_dir() {
            let _ = fs::remove_dir_all(path);
        }
    }
    Ok(())
}

fn find_library(root: &Path) -> Option<PathBuf> {
    let source = root.join("usr/src");
    let candidates = fs::read_dir(source).ok()?.flatten().map(|entry| entry.path().join("library"));
    candidates.into_iter().find(|path| path.join("core/src/lib.rs").is_file())
}

fn toolchain_library() -> Option<PathBuf> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    library.join("core/src/lib.rs").is_file().then_some(library)
}

/// A QEMU with `vfio-user-pci`: the machine's own when it is 10.1 or newer, otherwise Debian's backport in the cache.
///
/// # Errors
///
/// No archive is known, apt or dpkg is missing or fails, a package is not in the release or has the wrong
/// hash, or the cache cannot be written. A fetched QEMU that does not start.
pub fn qemu(cache: &Cache, freshness: Freshness, progress: &Progress) -> Result<Qemu, FetchError> {
    if let Some(own) = system_qemu() {
        return Ok(own);
    }
    let choose = |apt: &Apt| Ok((apt.closure(&["qemu-system-x86"], Some(BACKPORTS))?, BTreeMap::new()));
    let finish = |root: &Path| {
        for sub in ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"] {
            let _ = fs::remove_dir_all(root.join(sub));
        }
        Ok(())
    };
    let (root, _) = obtain(cache, "qemu", freshness, progress, &choose, &finish)?;
    let mut qemu = packaged_qemu(&root);
    qemu.version = qemu_version(&qemu).ok_or_else(|| FetchError::Command {
        command: "qemu-system-x86_64 --version".into(),
        status: "no version".into(),
        stderr: format!("the unpacked QEMU below {} does not start", root.display()),
    })?;
    Ok(qemu)
}

/// The cached QEMU, when there is one, without fetching anything.
#[must_use]
pub fn cached_qemu(cache: &Cache) -> Option<Qemu> {
    let mut qemu = packaged_qemu(&cache.find("qemu")?.path);
    qemu.version = qemu_version(&qemu)?;
    Some(qemu)
}

/// Runs an unpacked QEMU under its own loader and libraries: the machine's C library may be older.
fn packaged_qemu(root: &Path) -> Qemu {
    let path = |sub: &str| root.join(sub).display().to_string();
    // Under the loader /proc/self/exe is the loader, so QEMU cannot find its data by itself.
    let arguments = [
        "--library-path",
        &path("usr/lib/x86_64-linux-gnu"),
        "--argv0",
        "qemu-system-x86_64",
        &path("usr/bin/qemu-system-x86_64"),
        "-L",
        &path("usr/share/qemu"),
        "-L",
        &path("usr/share/seabios"),
        "-L",
        &path("usr/lib/ipxe/qemu"),
    ]
    .map(str::to_owned)
    .to_vec();
    let loader = root.join("usr/lib64/ld-linux-x86-64.so.2");
    Qemu { program: loader, arguments, version: String::new() }
}

/// The machine's own QEMU, when it is new enough and was built with the device.
#[must_use]
pub fn system_qemu() -> Option<Qemu> {
    let mut qemu =
        Qemu { program: "qemu-system-x86_64".into(), arguments: Vec::new(), version: String::new() };
    qemu.version = qemu_version(&qemu)?;
    let help = std::process::Command::new(&qemu.program)
        .args(["-device", "vfio-user-pci,help"])
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    (version_at_least(&qemu.version, (10, 1)) && help.status.success()).then_some(qemu)
}

/// `major.minor.patch` of a QEMU.
fn qemu_version(qemu: &Qemu) -> Option<String> {
    let output = std::process::Command::new(&qemu.program)
        .args(&qemu.arguments)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

fn parse_version(text: &str) -> Option<String> {
    let rest = text.split_once("version ")?.1;
    let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    (!version.is_empty()).then_some(version)
}

fn version_at_least(version: &str, (major, minor): (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
}

fn fact(manifest: &Manifest, name: &str) -> Result<String, FetchError> {
    manifest
        .facts
        .get(name)
        .cloned()
        .ok_or_else(|| FetchError::Parse(format!("{}.json has no {name}", manifest.artifact)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_and_compare() {
        let text = "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)\nCopyright";
        assert_eq!(parse_version(text).as_deref(), Some("11.1.3"));
        assert_eq!(parse_version("nothing"), None);
        for (version, enough) in [("10.1.0", true), ("11.0.0", true), ("10.0.13", false), ("7.2.22", false)] {
            assert_eq!(version_at_least(version, (10, 1)), enough, "{version}");
        }
    }

    #[test]
    fn cached_artifact_is_used_without_the_network() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        fs::create_dir_all(directory.path().join("kernel-1/usr/lib/modules/6.12-x")).unwrap();
        let manifest = Manifest {
            artifact: "kernel".into(),
            directory: "kernel-1".into(),
            packages: Vec::new(),
            facts: [("release".to_owned(), "6.12-x".to_owned())].into(),
        };
        cache.commit(&manifest).unwrap();
        let kernel = kernel(&cache, Freshness::Cached, &Progress::silent()).unwrap();
        assert_eq!(kernel.release, "6.12-x");
        assert!(kernel.image.ends_with("kernel-1/boot/vmlinuz-6.12-x"));
        assert!(!directory.path().join("apt").exists(), "no apt state was made");
    }
}
