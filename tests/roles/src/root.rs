//! A disk's root tree as a place to run programs in.
//!
//! `mount DEVICE TREE` puts the tree, the kernel's file systems and `/suite` together once; `enter TREE PROGRAM
//! ARGUMENTS` becomes a program in it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use rustix::process::{chdir, chroot};

/// Where programs from outside the tree are, on both sides.
const PROGRAMS: &str = "/suite";

/// Mounts the ext4 disk `device` at `tree`, read only, and what programs expect in it.
///
/// # Errors
///
/// Mounts that fail, by their target.
pub fn prepare(device: &str, tree: &Path) -> Result<()> {
    std::fs::create_dir_all(tree).with_context(|| tree.display().to_string())?;
    mount(device, tree, "ext4", MountFlags::RDONLY, None::<&std::ffi::CStr>)
        .with_context(|| format!("mount {device} at {}", tree.display()))?;
    for name in ["proc", "sys", "dev"] {
        let target = tree.join(name);
        mount_bind_recursive(Path::new("/").join(name), &target)
            .with_context(|| format!("bind {}", target.display()))?;
    }
    let temporary = tree.join("tmp");
    mount("tmpfs", &temporary, "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>)
        .with_context(|| format!("mount {}", temporary.display()))?;
    let programs = tree.join("tmp").join(PROGRAMS.trim_start_matches('/'));
    std::fs::create_dir_all(&programs).with_context(|| programs.display().to_string())?;
    mount_bind_recursive(PROGRAMS, &programs).with_context(|| format!("bind {}", programs.display()))
}

/// Becomes the program `argv` in `tree`; returns only if that fails.
///
/// # Errors
///
/// A tree or a program that is not there.
pub fn enter(tree: &Path, argv: &[String]) -> Result<()> {
    let (program, arguments) = argv.split_first().context("usage: enter TREE PROGRAM ARGUMENTS")?;
    chroot(tree).with_context(|| format!("chroot {}", tree.display()))?;
    chdir("/tmp").context("chdir /tmp")?;
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", "/tmp")
        .exec();
    Err(error).with_context(|| format!("cannot start {program}"))
}
