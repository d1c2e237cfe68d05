//! Disk images for guests that run the role `disk`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use belfry_machine::DiskConfig;
use belfry_test_roles::disk;
use imago::file::File;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder as _};
use tempfile::TempDir;

/// A qcow2 image and a raw one with the contents the role expects.
#[derive(Debug)]
pub struct Images {
    directory: TempDir,
    /// Contents of the files when they were made.
    before: [Vec<u8>; 2],
}

const NAMES: [&str; 2] = ["qcow2", "raw"];

impl Images {
    /// Makes them.
    ///
    /// # Errors
    ///
    /// Files that cannot be written.
    pub fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let [overlay, raw] = NAMES.map(|name| directory.path().join(name));
        fs::write(&raw, disk::content())?;
        qcow2(&overlay, &disk::content()).with_context(|| overlay.display().to_string())?;
        let before = [fs::read(overlay)?, fs::read(raw)?];
        Ok(Self { directory, before })
    }

    /// The qcow2 image's path, then the raw one's.
    #[must_use]
    pub fn paths(&self) -> [PathBuf; 2] {
        NAMES.map(|name| self.directory.path().join(name))
    }

    /// The disks as the role wants them: the first takes writes, the second does not.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskConfig> {
        let [first, second] = self.paths().map(DiskConfig::new);
        vec![first, DiskConfig { read_only: true, ..second }]
    }

    /// Checks that files, read back from where they were used, are as they were made.
    ///
    /// # Errors
    ///
    /// Files that are not.
    pub fn check(&self, now: [Vec<u8>; 2]) -> Result<()> {
        for ((name, before), now) in NAMES.iter().zip(&self.before).zip(now) {
            ensure!(*before == now, "the {name} image was written to");
        }
        Ok(())
    }
}

fn qcow2(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let file = fs::File::options().read(true).write(true).create_new(true).open(path)?;
    let image = Qcow2::<File>::create_builder(File::try_from(file)?)
        .size(content.len() as u64)
        .create_open(DenyImplicitOpenGate::default(), |file| Ok(Qcow2::builder(file)))?;
    let access = FormatAccess::new(image);
    access.write(content, 0)?;
    access.flush()
}
