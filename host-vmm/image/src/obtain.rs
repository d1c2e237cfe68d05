//! One artifact of the cache: found there, or fetched, unpacked beside and moved into place when it is whole.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::cache::{Cache, Manifest, PackageRecord, io_error};
use super::fetch::{
    Apt, Archive, Distribution, FetchError, Package, Release, TRIXIE, closure_hash, find_mirror, unpack,
};
use super::freshness::Freshness;
use super::progress::Progress;

/// Raised when the way an artifact is unpacked changes, so that old directories are not taken for new ones.
const RECIPE: u32 = 1;

/// Names the packages an artifact is made of, and facts to keep with it.
pub(super) type Choose<'a> = &'a dyn Fn(&Apt) -> Result<(Vec<Package>, BTreeMap<String, String>), FetchError>;
/// Makes an artifact of its packages' files in an empty directory.
pub(super) type Build<'a, E> = &'a dyn Fn(&[PathBuf], &Path) -> Result<(), E>;

/// Packages of an artifact, and the way to make it of them.
pub(super) struct Plan<'a, E> {
    /// Name of the artifact: its manifest's name, and the first part of its directory's name.
    pub(super) artifact: &'a str,
    /// Release that its packages come from.
    pub(super) release: &'static Release,
    /// Bytes that the directory is named by beside the packages.
    pub(super) recipe: &'a [u8],
    pub(super) choose: Choose<'a>,
    pub(super) build: Build<'a, E>,
}

/// Finds or fetches one artifact of Debian 13; safe against a second process doing the same.
pub(super) fn obtain(
    cache: &Cache,
    artifact: &str,
    freshness: Freshness,
    progress: &Progress,
    choose: Choose<'_>,
    finish: &dyn Fn(&Path) -> Result<(), FetchError>,
) -> Result<(PathBuf, Manifest), FetchError> {
    obtain_from(&TRIXIE, cache, artifact, (freshness, progress), choose, finish)
}

/// As [`obtain`], of any release.
pub(super) fn obtain_from(
    release: &'static Release,
    cache: &Cache,
    artifact: &str,
    (freshness, progress): (Freshness, &Progress),
    choose: Choose<'_>,
    finish: &dyn Fn(&Path) -> Result<(), FetchError>,
) -> Result<(PathBuf, Manifest), FetchError> {
    let build = |debs: &[PathBuf], root: &Path| {
        unpack(artifact, debs, root, progress)?;
        finish(root)
    };
    let plan = Plan { artifact, release, recipe: &RECIPE.to_le_bytes(), choose, build: &build };
    obtain_planned(cache, &plan, freshness, progress)
}

/// Finds or makes the artifact `plan` describes; safe against a second process doing the same.
pub(super) fn obtain_planned<E: From<FetchError>>(
    cache: &Cache,
    plan: &Plan<'_, E>,
    freshness: Freshness,
    progress: &Progress,
) -> Result<(PathBuf, Manifest), E> {
    let found = || {
        let found = cache.find(plan.artifact).filter(|_| freshness == Freshness::Cached);
        found.map(|found| (found.path, found.manifest))
    };
    if let Some(found) = found() {
        return Ok(found);
    }
    let mirror = find_mirror(plan.release.distribution)?;
    let archive = Archive { release: plan.release, mirror, keyring: keyring(cache, plan.release, progress)? };
    let waiting = || progress.line("waiting for another belfry that is fetching packages");
    let _lock = cache.lock(&plan.release.state(), waiting).map_err(FetchError::from)?;
    if let Some(found) = found() {
        return Ok(found);
    }
    let apt = Apt::prepare(cache, archive, progress)?;
    let (packages, facts) = (plan.choose)(&apt)?;
    let records: Vec<PackageRecord> = packages.iter().map(|package| package.record.clone()).collect();
    let directory = format!("{}-{}", plan.artifact, closure_hash(plan.recipe, &records));
    let target = cache.root().join(&directory);
    if !target.is_dir() {
        let debs = apt.download(plan.artifact, &packages, progress)?;
        publish(&target, &|partial| (plan.build)(&debs, partial))?;
        apt.discard(&debs);
    }
    let manifest = Manifest { artifact: plan.artifact.to_owned(), directory, packages: records, facts };
    cache.commit(&manifest).map_err(FetchError::from)?;
    Ok((target, manifest))
}

/// Has `build` fill a directory beside `target` and gives it that name when it is whole.
///
/// Leftovers of a killed process are removed first, as far as they can be: its `tar` may still be writing, so the new
/// directory is another one. The caller holds a lock.
pub(super) fn publish<E: From<FetchError>>(
    target: &Path,
    build: &dyn Fn(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |action| move |error| E::from(FetchError::from(io_error(action, target)(error)));
    let parent = target.parent().unwrap_or(Path::new("."));
    let prefix = format!("{}.partial", target.file_name().unwrap_or_default().to_string_lossy());
    for entry in fs::read_dir(parent).map_err(failed("look beside"))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let partial = tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(parent)
        .map_err(failed("make a directory beside"))?;
    build(partial.path())?;
    fs::rename(partial.path(), target).map_err(failed("give its name to"))?;
    let _ = partial.keep();
    Ok(())
}

/// The keys of the release's archive: the machine's, or Ubuntu's out of a package of Debian's.
fn keyring(cache: &Cache, release: &Release, progress: &Progress) -> Result<PathBuf, FetchError> {
    let path = release.distribution.keyring();
    if path.exists() {
        return Ok(path.to_owned());
    }
    let package = release.distribution.keyring_package();
    if release.distribution == Distribution::Debian {
        return Err(FetchError::NoKeyring { path: path.to_owned(), package });
    }
    let choose = |apt: &Apt| Ok((apt.exact(&[package])?, BTreeMap::new()));
    let (root, _) = obtain(cache, package, Freshness::Cached, progress, &choose, &|_| Ok(()))?;
    Ok(root.join(path.strip_prefix("/").unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_build_is_never_published_and_cleared_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("tree-6.1");
        let failed = publish::<FetchError>(&target, &|partial| {
            fs::write(partial.join("half"), b"").unwrap();
            Err(FetchError::Parse("stopped".into()))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        // As a process leaves it that is killed.
        fs::create_dir(directory.path().join("tree-6.1.partialx")).unwrap();
        fs::write(directory.path().join("tree-6.1.partialx/half"), b"").unwrap();
        publish::<FetchError>(&target, &|partial| {
            assert!(!target.exists(), "not before it is whole");
            fs::write(partial.join("whole"), b"").unwrap();
            Ok(())
        })
        .unwrap();
        let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["whole"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the unfinished directory is gone");
    }
}
