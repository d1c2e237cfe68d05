//! `cargo xtask package`: what people install, made from the tree at hand without root.
//!
//! Each file has the time of the commit, no owner but root, and a fixed order. So the same commit, toolchain and `dpkg-deb`
//! give the same bytes. `--again` proves it by a second build from nothing.

mod debian;
mod oci;
mod sbom;
mod stage;
mod tarball;
mod trial;
mod wheel;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use stage::Stage;

/// Folder of the packages, and checks of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder that the packages are written to (`target/package` when absent).
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Write an image for containers with this root file system as well: `rocm`, for example.
    #[arg(long, value_name = "NAME")]
    rootfs: Option<String>,
    /// Build everything from nothing and make them a second time; fail if any byte differs.
    #[arg(long)]
    again: bool,
    /// Install each in a folder of its own and in a root file system without Rust, and run what was installed; try the recipes of
    /// docs/ci.md. Makes the root file system `rocm` if it is not there.
    #[arg(long)]
    r#try: bool,
}

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Artefact {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Makes the packages in the options' folder.
///
/// # Errors
///
/// A build that fails, a machine without `dpkg-deb`, packages that differ with `--again` or do not work with `--try`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let into = options.into.clone().unwrap_or_else(|| root.join("target/package"));
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let stage = Stage::build(root, &target)?;
    let tree = options
        .rootfs
        .as_deref()
        .map(|name| oci::tree(&stage.belfry, name).map(|tree| (name, tree)))
        .transpose()?;
    let base = tree.as_ref().map(|(name, tree)| oci::Base { name, tree });
    let made = make(root, &stage, base.as_ref(), &into)?;
    for Artefact { name, bytes, sha256 } in &made {
        say!("{:>6.1} MB  {sha256}  {name}", *bytes as f64 / 1e6);
    }
    if options.again {
        let second = tempfile::tempdir_in(&target)?;
        let other = make(
            root,
            &Stage::build(root, &second.path().join("build"))?,
            base.as_ref(),
            &second.path().join("packages"),
        )?;
        ensure!(made == other, "the second time gave other bytes: {other:#?}");
        say!("again: the same bytes");
    }
    if options.r#try {
        let rocm = oci::tree(&stage.belfry, "rocm")?;
        trial::all(root, &into, &made, &rocm, &stage.version)?;
    }
    Ok(())
}

/// Writes all packages and the list of their hashes to `into`, and returns them.
fn make(root: &Path, stage: &Stage, base: Option<&oci::Base<'_>>, into: &Path) -> Result<Vec<Artefact>> {
    fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let mut files = vec![
        tarball::write(stage, into)?,
        debian::write(stage, into)?,
        debian::write_driver(stage, into)?,
        wheel::write(stage, into)?,
        oci::write(stage, None, into)?,
    ];
    if base.is_some() {
        files.push(oci::write(stage, base, into)?);
    }
    files.push(sbom::write(root, stage, into)?);
    let made: Vec<Artefact> = files.iter().map(|path| artefact(path)).collect::<Result<_>>()?;
    let sums: String =
        made.iter().map(|Artefact { name, sha256, .. }| format!("{sha256}  {name}\n")).collect();
    fs::write(into.join("SHA256SUMS"), sums).context("writing SHA256SUMS")?;
    Ok(made)
}

fn artefact(path: &Path) -> Result<Artefact> {
    let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let name = path.file_name().context("a package without a name")?.to_string_lossy().into_owned();
    Ok(Artefact { name, bytes: content.len() as u64, sha256: sha256(&content) })
}

/// SHA-256 of `content`, in hexadecimal.
fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
