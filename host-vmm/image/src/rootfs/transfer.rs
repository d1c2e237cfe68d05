//! Root file systems as files: for machines without a mirror, and for users who share them.
//!
//! Such a file is a compressed archive that `tar` makes and unpacks: a label that names the packages and the recipe, then the tree.
//! An imported tree is as good as one that was made here, as long as this belfry has the same recipe.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::error::RootFsError;
use super::recipe::Recipe;
use super::{RootFs, artifact, cached, own};
use crate::cache::{Cache, CacheError, Found, Manifest, io_error};
use crate::fetch::FetchError;
use crate::obtain::publish;

/// Name of the label in the archive.
const LABEL: &str = "belfry-root-file-system.json";
/// Largest label that is read, in bytes.
const MOST_LABEL: u64 = 16 << 20;
/// Raised when files of before cannot be read any more.
const FORMAT: u32 = 1;

/// Errors of files that hold a root file system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The recipe, or the cache.
    #[error(transparent)]
    RootFs(#[from] RootFsError),
    /// The root file system was never made here.
    #[error("root file system {name} is not in the cache; `belfry image --rootfs {name}` makes it")]
    NotMade {
        /// Its name.
        name: String,
    },
    /// The file holds no root file system.
    #[error("{}: {why}", path.display())]
    NoImage {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        why: String,
    },
    /// The program `tar` failed.
    #[error("tar could not {action} {}: {error}", path.display())]
    Tar {
        /// Action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Output of the program, or the reason why it did not run.
        error: String,
    },
}

impl From<CacheError> for TransferError {
    fn from(error: CacheError) -> Self {
        Self::RootFs(FetchError::from(error).into())
    }
}

impl From<FetchError> for TransferError {
    fn from(error: FetchError) -> Self {
        Self::RootFs(error.into())
    }
}

/// A file's label, which tells of the tree in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    format: u32,
    name: String,
    /// Recipe of a list of packages; empty for one that is built in.
    recipe: String,
    manifest: Manifest,
}

/// Writes the root file system `name` into a file.
///
/// # Errors
///
/// [`TransferError::NotMade`], and errors of the file or of `tar`. An earlier file of that path then stays as it was.
pub fn export(cache: &Cache, name: &str, to: &Path) -> Result<(), TransferError> {
    let recipe = own::find(cache, name)?;
    let found = cache.find(&artifact(&recipe));
    let Found { path: tree, manifest } =
        found.ok_or_else(|| TransferError::NotMade { name: name.to_owned() })?;
    let is_built_in = Recipe::named(name).is_ok();
    let directory = manifest.directory.clone();
    let text = if is_built_in { String::new() } else { recipe.own };
    let label = Label { format: FORMAT, name: name.to_owned(), recipe: text, manifest };
    let label = serde_json::to_vec_pretty(&label).map_err(CacheError::from)?;
    let scratch = tempfile::tempdir().map_err(io_error("make", &std::env::temp_dir()))?;
    let path = scratch.path().join(LABEL);
    fs::write(&path, label).map_err(io_error("write", &path))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(parent).map_err(io_error("write into", parent))?;
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--use-compress-program=gzip -1",
        "--sort=name",
        "--owner=root:0",
        "--group=root:0",
    ]);
    tar.arg("-C")
        .arg(scratch.path())
        .arg(LABEL)
        .arg("-C")
        .arg(tree.parent().unwrap_or(cache.root()))
        .arg("--")
        .arg(&directory);
    tar.stdout(file.as_file().try_clone().map_err(io_error("write", to))?);
    run(tar, "write", to)?;
    file.persist(to).map_err(|error| io_error("write", to)(error.error))?;
    // A temporary file is its owner's alone; this one is to be shared.
    let shared = fs::Permissions::from_mode(0o644);
    Ok(fs::set_permissions(to, shared).map_err(io_error("share", to))?)
}

/// Takes a root file system out of a file into the cache. Returns its name and its tree.
///
/// # Errors
///
/// [`TransferError::NoImage`] for a file that is none, that another version of belfry made, or whose tree is not whole. The cache is as it
/// was then.
pub fn import(cache: &Cache, from: &Path) -> Result<(String, RootFs), TransferError> {
    let refused = |why: String| TransferError::NoImage { path: from.to_owned(), why };
    let label: Label = serde_json::from_slice(&label_of(from)?)
        .map_err(|error| refused(format!("its label cannot be read ({error})")))?;
    let Label { format, name, recipe: text, manifest } = label;
    if format != FORMAT {
        return Err(refused(format!("it has the format {format}, and this belfry reads {FORMAT}")));
    }
    let is_built_in = Recipe::named(&name).is_ok();
    let recipe = if is_built_in { Recipe::named(&name)? } else { own::parse(&name, &text)? };
    let expected = artifact(&recipe);
    let hash = manifest.directory.strip_prefix(&format!("{expected}-"));
    let is_hash = |hash: &str| !hash.is_empty() && hash.chars().all(|c| c.is_ascii_hexdigit());
    if manifest.artifact != expected || !hash.is_some_and(is_hash) {
        return Err(refused(format!(
            "it holds {}, and the root file system {name} of this belfry is {expected}: export it with this version",
            manifest.artifact
        )));
    }
    let _lock = cache.lock(&recipe.release.state(), || {})?;
    let target = cache.root().join(&manifest.directory);
    if !target.is_dir() {
        publish(&target, &|partial| {
            let mut tar = Command::new("tar");
            tar.args(["--extract", "--gzip", "--no-same-owner", "--strip-components=1", "--file"]).arg(from);
            tar.arg("-C").arg(partial).arg("--").arg(&manifest.directory).stdout(Stdio::null());
            run(tar, "unpack", from)?;
            match recipe.broken_promise(partial) {
                Some(missing) => Err(refused(format!("its tree has no {missing}"))),
                None => Ok(()),
            }
        })?;
    }
    if !is_built_in {
        own::keep(cache, &recipe)?;
    }
    cache.commit(&manifest)?;
    let tree = cached(cache, &recipe).ok_or_else(|| refused("its tree is gone".to_owned()))?;
    Ok((name, tree))
}

/// Reads the label of a file, which is its first part.
fn label_of(from: &Path) -> Result<Vec<u8>, TransferError> {
    File::open(from).map_err(io_error("open", from))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--to-stdout", "--occurrence=1", "--file"])
        .arg(from)
        .args(["--", LABEL]);
    tar.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: io::Error| TransferError::Tar {
        action: "read",
        path: from.to_owned(),
        error: error.to_string(),
    };
    let mut child = tar.spawn().map_err(failed)?;
    let mut label = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MOST_LABEL + 1).read_to_end(&mut label).map_err(failed)?;
    }
    child.wait().map_err(failed)?;
    let why = match label.len() as u64 {
        0 => "it holds no root file system that `belfry image export` has written",
        size if size > MOST_LABEL => "its label is too large",
        _ => return Ok(label),
    };
    Err(TransferError::NoImage { path: from.to_owned(), why: why.to_owned() })
}

fn run(mut tar: Command, action: &'static str, path: &Path) -> Result<(), TransferError> {
    let failed = |error: String| TransferError::Tar { action, path: path.to_owned(), error };
    let output = tar
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{}: {}", output.status, said.lines().next().unwrap_or("it says nothing"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    const LIST: &str = "about = \"a tree\"\nrelease = \"trixie\"\npackages = [\"bash\"]\n";

    /// A cache that has the root file system `mine`, of one file, a link and a directory.
    fn with_tree() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache")).unwrap();
        let recipe = own::parse("mine", LIST).unwrap();
        own::keep(&cache, &recipe).unwrap();
        let artifact = artifact(&recipe);
        let directory = format!("{artifact}-0123456789abcdef");
        let tree = cache.root().join(&directory);
        for promised in &recipe.promises {
            let path = tree.join(promised.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "promised").unwrap();
        }
        fs::create_dir_all(tree.join("etc")).unwrap();
        fs::write(tree.join("etc/motto"), "ring").unwrap();
        std::os::unix::fs::symlink("/etc/motto", tree.join("link")).unwrap();
        let manifest = Manifest { artifact, directory, packages: Vec::new(), facts: Default::default() };
        cache.commit(&manifest).unwrap();
        (folder, cache)
    }

    #[test]
    fn tree_goes_through_a_file_into_another_cache() {
        let (folder, cache) = with_tree();
        let file = folder.path().join("mine.tar.gz");
        export(&cache, "mine", &file).unwrap();
        let other = Cache::at(folder.path().join("other")).unwrap();
        let (name, tree) = import(&other, &file).unwrap();
        assert_eq!(name, "mine");
        assert_eq!(fs::read(tree.path.join("etc/motto")).unwrap(), b"ring");
        assert_eq!(fs::read_link(tree.path.join("link")).unwrap(), Path::new("/etc/motto"));
        // From now on its name is as good as one that was made there.
        let found =
            super::super::obtain(&other, "mine", crate::Freshness::Cached, &Progress::silent()).unwrap();
        assert_eq!(found.path, tree.path);
        assert!(import(&other, &file).is_ok(), "a second time");
    }

    #[test]
    fn only_trees_that_were_made_are_written() {
        let (folder, cache) = with_tree();
        let file = folder.path().join("file");
        fs::write(&file, "before").unwrap();
        assert!(matches!(export(&cache, "rocm", &file), Err(TransferError::NotMade { .. })));
        assert!(matches!(
            export(&cache, "none", &file),
            Err(TransferError::RootFs(RootFsError::Unknown { .. }))
        ));
        assert_eq!(fs::read(&file).unwrap(), b"before");
    }

    #[test]
    fn files_that_hold_something_else_leave_the_cache_as_it_was() {
        let (folder, cache) = with_tree();
        let file = folder.path().join("mine.tar.gz");
        export(&cache, "mine", &file).unwrap();
        let whole = fs::read(&file).unwrap();
        let other = Cache::at(folder.path().join("other")).unwrap();
        let cut = &whole[..whole.len() - 40];
        for content in [&b""[..], b"no archive", cut] {
            fs::write(&file, content).unwrap();
            assert!(import(&other, &file).is_err(), "{} bytes", content.len());
        }
        assert!(import(&other, &folder.path().join("missing")).is_err());
        let left: Vec<_> =
            fs::read_dir(other.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "locks"), "{left:?}");
    }

    #[test]
    fn label_that_names_another_place_or_recipe_is_refused() {
        let (folder, cache) = with_tree();
        let recipe = own::parse("mine", LIST).unwrap();
        let other = Cache::at(folder.path().join("other")).unwrap();
        let good = cache.own(&artifact(&recipe)).unwrap();
        let climbing = format!("{}-../../there", good.artifact);
        for (name, manifest) in [
            ("mine", Manifest { directory: climbing, ..good.clone() }),
            ("mine", Manifest { artifact: "rootfs-mine-0".into(), ..good.clone() }),
            ("../mine", good.clone()),
        ] {
            let label = Label { format: FORMAT, name: name.into(), recipe: LIST.into(), manifest };
            let scratch = tempfile::tempdir().unwrap();
            fs::write(scratch.path().join(LABEL), serde_json::to_vec(&label).unwrap()).unwrap();
            let file = scratch.path().join("file");
            let mut tar = Command::new("tar");
            tar.arg("-czf").arg(&file).arg("-C").arg(scratch.path()).arg(LABEL);
            run(tar, "write", &file).unwrap();
            assert!(import(&other, &file).is_err(), "{label:?}");
        }
        assert!(!folder.path().join("there").exists());
    }
}
