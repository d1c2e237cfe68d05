//! Root file systems by name, made of packages without root: the files that a program needs and that are not this
//! machine's.
//!
//! A tree is its packages unpacked, and then configured as far as running programs need (`configure.rs`): no maintainer
//! script runs. The list of packages is data, `recipes/NAME.toml`. Trees lie in the cache under a name made of the
//! recipe and of every package's version and hash. `docs/rootfs.md` tells what they have and what they lack. Guests
//! have them on disks (`disk.rs`).

mod alternatives;
mod configure;
mod disk;
mod error;
mod own;
mod recipe;
mod survey;
mod transfer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use disk::{MODULES as DISK_MODULES, ROOM as DISK_ROOM, Root, RootDisk};
pub use error::RootFsError;
pub use own::{Wish, build};
pub use recipe::{PROGRAMS_OF_ROCM, Recipe};
pub use transfer::{TransferError, export, import};

use super::cache::{Cache, Found, PackageRecord};
use super::fetch::{self, Apt, recipe_hash};
use super::freshness::Freshness;
use super::obtain::{Plan, obtain_planned};
use super::progress::Progress;

/// Raised when the result of [`configure`] changes, so that old trees are not taken for new ones.
const FORMAT: u32 = 2;

/// A complete tree in the cache. It is shared: copy it before writing into it.
#[derive(Debug, Clone)]
pub struct RootFs {
    /// Its root directory.
    pub path: PathBuf,
    /// Every package in it.
    pub packages: Vec<PackageRecord>,
}

/// Debian 13 with ROCr, HIP, OpenCL, their compilers and Python: the root directory of image `rocm`.
///
/// Makes it from some 210 MB of packages if the cache does not have it.
///
/// # Errors
///
/// As for [`obtain`].
pub fn rocm(progress: &Progress) -> Result<PathBuf, RootFsError> {
    let cache = Cache::open().map_err(fetch::FetchError::from)?;
    Ok(obtain(&cache, "rocm", Freshness::Cached, progress)?.path)
}

/// The tree `name`, made when the cache does not have it.
///
/// Safe if other processes do the same: one makes it, the others wait.
///
/// # Errors
///
/// An unknown name, packages that cannot be fetched, and a tree that lacks files its recipe promises. The
/// cache then has no new tree.
pub fn obtain(
    cache: &Cache,
    name: &str,
    freshness: Freshness,
    progress: &Progress,
) -> Result<RootFs, RootFsError> {
    obtain_recipe(cache, &own::find(cache, name)?, freshness, progress)
}

/// All recipes: the ones that are built in, and the cache's.
///
/// # Errors
///
/// A recipe that cannot be read.
pub fn recipes(cache: &Cache) -> Result<Vec<Recipe>, RootFsError> {
    let mut recipes = Recipe::all()?;
    for name in own::names(cache)? {
        recipes.push(own::find(cache, &name)?);
    }
    Ok(recipes)
}

fn obtain_recipe(
    cache: &Cache,
    recipe: &Recipe,
    freshness: Freshness,
    progress: &Progress,
) -> Result<RootFs, RootFsError> {
    let artifact = artifact(recipe);
    let packages: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
    let choose = |apt: &Apt| Ok((apt.closure_of_pins(&packages, &recipe.pins)?, BTreeMap::new()));
    let build = |debs: &[PathBuf], root: &Path| assemble(recipe, debs, root, progress);
    let plan = Plan {
        artifact: &artifact,
        release: recipe.release,
        recipe: &FORMAT.to_le_bytes(),
        choose: &choose,
        build: &build,
    };
    let (path, manifest) = obtain_planned(cache, &plan, freshness, progress)?;
    if let Some(missing) = recipe.broken_promise(&path) {
        return Err(RootFsError::Damaged { missing: missing.to_owned(), path });
    }
    Ok(RootFs { path, packages: manifest.packages })
}

/// The tree of `recipe` in the cache, without making anything.
#[must_use]
pub fn cached(cache: &Cache, recipe: &Recipe) -> Option<RootFs> {
    let Found { path, manifest } = cache.find(&artifact(recipe))?;
    Some(RootFs { path, packages: manifest.packages })
}

/// The artifact's name holds the recipe, so that a changed one is never answered with the old one's tree.
fn artifact(recipe: &Recipe) -> String {
    let mut content = FORMAT.to_le_bytes().to_vec();
    content.extend_from_slice(recipe.source.as_bytes());
    format!("rootfs-{}-{}", recipe.name, recipe_hash(&content))
}

/// Unpacks and configures a tree in the empty directory `root`, and checks that it has the files that the recipe
/// promises.
fn assemble(recipe: &Recipe, debs: &[PathBuf], root: &Path, progress: &Progress) -> Result<(), RootFsError> {
    fetch::unpack(&recipe.name, &base_first(debs), root, progress)?;
    let step = progress.spinner(&format!("configuring {}", recipe.name));
    let scratch = root.join("DEBIAN");
    let scripts = fetch::scripts(debs, "postinst", &scratch)?;
    std::fs::remove_dir_all(&scratch).map_err(error::io_error("remove", &scratch))?;
    configure::configure(recipe, &scripts, root)?;
    if let Some(missing) = recipe.broken_promise(root) {
        return Err(RootFsError::Promise { name: recipe.name.clone(), missing: missing.to_owned() });
    }
    step.done("done");
    Ok(())
}

/// `base-files` may hold the links of a merged `/usr`, which cannot be unpacked over another package's directories.
fn base_first(debs: &[PathBuf]) -> Vec<PathBuf> {
    let is_base = |deb: &&PathBuf| {
        deb.file_name().is_some_and(|name| name.to_string_lossy().starts_with("base-files_"))
    };
    let (base, rest): (Vec<&PathBuf>, Vec<&PathBuf>) = debs.iter().partition(is_base);
    base.into_iter().chain(rest).cloned().collect()
}

#[cfg(test)]
mod tests;
