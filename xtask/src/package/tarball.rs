//! The tarball, which is unpacked below `/usr/local` or any other prefix, and the archives inside other packages.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

use super::stage::{Stage, tool};

pub(super) fn write(stage: &Stage, into: &Path) -> Result<PathBuf> {
    let name = format!("belfry-{}-x86_64-linux", stage.version);
    let scratch = tempfile::tempdir()?;
    stage.unpack(scratch.path(), &name)?;
    let path = into.join(format!("{name}.tar.gz"));
    fs::write(&path, packed(&archive(scratch.path(), &name, stage.time)?)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Archive of `name` in `directory`, with times and owners that are the same everywhere.
pub(super) fn archive(directory: &Path, name: &str, time: u64) -> Result<Vec<u8>> {
    let scratch = tempfile::NamedTempFile::new()?;
    archive_into(scratch.path(), directory, name, time)?;
    fs::read(scratch.path()).context("reading an archive")
}

/// Writes such an archive into a file. All users may read its files, and only their owner may write.
pub(super) fn archive_into(file: &Path, directory: &Path, name: &str, time: u64) -> Result<()> {
    archive_of_modes(file, directory, name, (time, "u=rwX,go=rX"))
}

/// Writes such an archive into a file, with the time and the modes of everything in it.
pub(super) fn archive_of_modes(
    file: &Path,
    directory: &Path,
    name: &str,
    (time, modes): (u64, &str),
) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--format=gnu",
        "--sort=name",
        "--owner=root:0",
        "--group=root:0",
        "--numeric-owner",
    ]);
    tar.args([format!("--mode={modes}"), format!("--mtime=@{time}")]);
    tar.arg("--directory").arg(directory).arg("--file").arg(file).arg(name);
    tool(&mut tar).with_context(|| format!("writing {}", file.display()))
}

/// `content` as gzip compresses it, without a name and a time.
pub(super) fn packed(content: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(content)?;
    Ok(writer.finish()?)
}
