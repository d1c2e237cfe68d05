//! The driver as a package for Debian guests that have a kernel of their own: DKMS builds it there, for each kernel.
//!
//! The package has the Rust half as one object, which depends on no version of the kernel, and the C half as source. A
//! guest needs the headers of its kernel and a C compiler, and no Rust.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fetch::{FetchError, run_command};
use super::parts::{AbsentPart, Parts};

/// The package's name.
pub const PACKAGE: &str = "belfry-amdgpu-dkms";
/// Name of the driver in DKMS.
const MODULE: &str = "belfry-amdgpu";
/// The version of package and driver.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The time of every file of the package, in seconds since 1970: the same parts make the same package.
const TIME: &str = "1700000000";

/// Why the package could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DkmsError {
    /// This binary lacks the driver.
    #[error(transparent)]
    Absent(#[from] AbsentPart),
    /// dpkg-deb is missing, or failed.
    #[error(transparent)]
    Deb(#[from] FetchError),
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes the package into `directory`, in place of one that is there, and answers its path.
///
/// # Errors
///
/// A binary without the driver, a machine without dpkg, a directory that cannot be written.
pub fn package(parts: &Parts, directory: &Path) -> Result<PathBuf, DkmsError> {
    let core = parts.driver.core.content("the guest's driver")?;
    let scratch = tempfile::tempdir().map_err(failed(&std::env::temp_dir()))?;
    let root = scratch.path().join(PACKAGE);
    let source = format!("usr/src/{MODULE}-{VERSION}");
    let conf = dkms_conf();
    let control = control();
    let (postinst, prerm) = (postinst(), prerm());
    let shim = parts.driver.shim.iter().map(|(name, content)| (format!("{source}/{name}"), *content, 0o644));
    let own: [(String, &[u8], u32); 6] = [
        (format!("{source}/core.rs.o"), core, 0o644),
        (format!("{source}/dkms.conf"), conf.as_bytes(), 0o644),
        ("DEBIAN/control".into(), control.as_bytes(), 0o644),
        ("DEBIAN/postinst".into(), postinst.as_bytes(), 0o755),
        ("DEBIAN/prerm".into(), prerm.as_bytes(), 0o755),
        (format!("usr/share/doc/{PACKAGE}/copyright"), COPYRIGHT.as_bytes(), 0o644),
    ];
    for (name, content, mode) in shim.chain(own) {
        let path = root.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::write(&path, content).map_err(failed(&path))?;
        fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed(&path))?;
    }
    // Temporary directories are their owner's alone.
    fs::set_permissions(&root, Permissions::from_mode(0o755)).map_err(failed(&root))?;
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let package = directory.join(format!("{PACKAGE}_{VERSION}_amd64.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    command.env("SOURCE_DATE_EPOCH", TIME);
    run_command(command, "dpkg-deb", "--build", &mut || ())?;
    Ok(package)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DkmsError + use<> {
    let path = path.to_owned();
    move |source| DkmsError::Io { path, source }
}

fn control() -> String {
    format!(
        "Package: {PACKAGE}
Version: {VERSION}
Architecture: amd64
Maintainer: The Belfry developers <belfry@localhost>
Depends: dkms (>= 3), gcc, make
Recommends: linux-headers-amd64
Section: kernel
Priority: optional
Description: kernel driver of Belfry's GPU, built by DKMS
 Belfry is an AMD GPU that exists only in software. This driver, amdgpu.ko, exposes
 the KFD interface over it in a guest. It takes the place of the kernel's own amdgpu:
 do not install it on a machine with a real AMD GPU.
"
    )
}

/// `dkms(8)`, "DKMS.CONF". DKMS puts the kernel's own `amdgpu` aside, as the module has the same name.
fn dkms_conf() -> String {
    format!(
        r#"PACKAGE_NAME="{MODULE}"
PACKAGE_VERSION="{VERSION}"
BUILT_MODULE_NAME[0]="amdgpu"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
BUILD_EXCLUSIVE_ARCH="x86_64"
BUILD_EXCLUSIVE_KERNEL_MIN="6.12"
BUILD_EXCLUSIVE_CONFIG="CONFIG_DRM"
# The headers' packages have no vmlinux with type information that pahole could use.
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/${{PACKAGE_NAME}}/${{PACKAGE_VERSION}}/build CONFIG_DEBUG_INFO_BTF_MODULES= modules"
CLEAN="true"
"#
    )
}

fn postinst() -> String {
    format!(
        r#"#!/bin/sh
set -e
if [ "$1" = configure ]; then
    /usr/lib/dkms/common.postinst {MODULE} {VERSION} /usr/share/{PACKAGE} "" "$2"
fi
"#
    )
}

fn prerm() -> String {
    format!(
        r#"#!/bin/sh
set -e
case "$1" in
remove|upgrade|deconfigure)
    if dkms status -m {MODULE} -v {VERSION} | grep -q .; then
        dkms remove -m {MODULE} -v {VERSION} --all
    fi
    ;;
esac
"#
    )
}

const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Belfry

Files: *
Copyright: The Belfry developers
License: MIT or GPL-2
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{Driver, Part};

    fn parts() -> Parts {
        let shim: &[(&str, &[u8])] = &[("main.c", b"int main;\n"), ("Kbuild", b"obj-m := amdgpu.o\n")];
        let core = Part::Present(b"an object");
        let driver = Driver { core, shim };
        Parts { driver, init: b"", examples: b"", bare_metal: Part::Absent("not asked for") }
    }

    fn dpkg_deb(arguments: &[&str], package: &Path) -> String {
        let output = Command::new("dpkg-deb").args(arguments).arg(package).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn package_has_sources_object_and_scripts_and_is_the_same_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let made = package(&parts(), &directory.path().join("new")).unwrap();
        assert_eq!(made.file_name().unwrap().to_str().unwrap(), "belfry-amdgpu-dkms_0.1.0_amd64.deb");
        assert_eq!(dpkg_deb(&["--field"], &made).lines().next().unwrap(), "Package: belfry-amdgpu-dkms");
        let content = dpkg_deb(&["--contents"], &made);
        for name in ["main.c", "Kbuild", "core.rs.o", "dkms.conf"] {
            let path = format!("./usr/src/belfry-amdgpu-0.1.0/{name}\n");
            let line = content.lines().find(|line| path.trim_end() == line.rsplit(' ').next().unwrap());
            let line = line.unwrap_or_else(|| panic!("no {name}: {content}"));
            assert!(line.starts_with("-rw-r--r-- root/root"), "{line}");
        }
        let first = fs::read(&made).unwrap();
        assert_eq!(fs::read(package(&parts(), directory.path()).unwrap()).unwrap(), first);
    }

    #[test]
    fn scripts_are_scripts() {
        for script in [postinst(), prerm(), dkms_conf()] {
            let path = tempfile::NamedTempFile::new().unwrap();
            fs::write(&path, &script).unwrap();
            let status = Command::new("sh").arg("-n").arg(path.path()).status().unwrap();
            // dkms.conf is bash: sh takes its arrays for commands, and still reads it whole.
            assert!(status.success(), "{script}");
        }
    }

    #[test]
    fn binary_without_the_driver_makes_none() {
        let absent = Driver { core: Part::Absent("no rust-src"), shim: &[] };
        let error = package(&Parts { driver: absent, ..parts() }, Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("no rust-src"), "{error}");
    }
}
