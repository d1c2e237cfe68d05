//! Root file systems of a user's own list of packages: their recipes are in the cache, beside the trees made of them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{RootFsError, io_error};
use super::recipe::Recipe;
use super::{Freshness, RootFs, obtain_recipe};
use crate::cache::{Cache, create_dir, write_atomically};
use crate::fetch::{FetchError, Release};
use crate::progress::Progress;

/// The release of lists that name none and extend nothing.
const RELEASE: &str = "trixie";
/// The directory of the cache.
const DIRECTORY: &str = "recipes";

/// A user's wish for a root file system.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// Name of the root file system.
    pub name: &'a str,
    /// Packages, divided by blanks or lines; `#` begins a comment.
    pub list: &'a str,
    /// The root file system to which they are added, by its name: one that is built in.
    pub base: Option<&'a str>,
    /// Code name of the release they are taken from; the base's release, or trixie, if there is none.
    pub release: Option<&'a str>,
}

/// Makes the wished root file system, and keeps the wish: from then on its name is as good as one that is built in.
///
/// # Errors
///
/// A name that is taken or is none, a list without packages or with a word that is no package's name, and the errors of
/// [`obtain`](super::obtain); an earlier root file system of that name then stays unchanged.
pub fn build(
    cache: &Cache,
    wish: &Wish<'_>,
    freshness: Freshness,
    progress: &Progress,
) -> Result<RootFs, RootFsError> {
    let recipe = recipe(wish)?;
    let tree = obtain_recipe(cache, &recipe, freshness, progress)?;
    keep(cache, &recipe)?;
    Ok(tree)
}

/// Keeps a recipe in the cache.
pub(super) fn keep(cache: &Cache, recipe: &Recipe) -> Result<(), RootFsError> {
    let directory = cache.root().join(DIRECTORY);
    create_dir(&directory).map_err(FetchError::from)?;
    Ok(write_atomically(&place(cache.root(), &recipe.name), recipe.own.as_bytes())
        .map_err(FetchError::from)?)
}

/// Reads a recipe that was kept under `name`, on this machine or on another.
pub(super) fn parse(name: &str, text: &str) -> Result<Recipe, RootFsError> {
    check_name(name)?;
    Recipe::parse(name, text)
}

fn recipe(wish: &Wish<'_>) -> Result<Recipe, RootFsError> {
    let bad = |reason: &str| RootFsError::Recipe { name: wish.name.to_owned(), reason: reason.to_owned() };
    check_name(wish.name)?;
    if Recipe::named(wish.name).is_ok() {
        return Err(bad("a root file system of this name is built in"));
    }
    let base = wish.base.map(Recipe::named).transpose()?;
    let lines = wish.list.lines().map(|line| line.split('#').next().unwrap_or_default());
    let packages: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    if packages.is_empty() {
        return Err(bad("the list names no package"));
    }
    let release =
        wish.release.or(base.as_ref().map(|base| base.release.codename)).unwrap_or(RELEASE).to_owned();
    let count = packages.len();
    let about = match wish.base {
        Some(base) => format!("{base} and {count} packages of a list"),
        None => format!("{count} packages of a list"),
    };
    let mut text = String::new();
    // Strings are written as TOML writes them; writing to a string does not fail.
    for (key, value) in [("about", &about), ("release", &release)] {
        let _ = writeln!(text, "{key} = {}", toml::Value::String(value.clone()));
    }
    if let Some(base) = wish.base {
        let _ = writeln!(text, "base = {}", toml::Value::String(base.to_owned()));
    }
    let packages = packages.into_iter().map(|name| toml::Value::String(name.to_owned())).collect();
    let packages = toml::Value::Array(packages);
    let _ = writeln!(text, "packages = {packages}");
    if Release::named(&release).is_some_and(Release::is_addition) {
        // Packages on the list are wanted from that release; the rest comes from the release below.
        let _ = writeln!(text, "pins = {packages}");
    }
    Recipe::parse(wish.name, &text)
}

/// The recipe called `name`: one that is built in, or one of the cache.
///
/// # Errors
///
/// [`RootFsError::Unknown`], which lists all names there are; a recipe of the cache that cannot be read.
pub(super) fn find(cache: &Cache, name: &str) -> Result<Recipe, RootFsError> {
    match Recipe::named(name) {
        Err(RootFsError::Unknown { name, known }) if is_name(&name) => {
            for path in cache.roots().map(|root| place(root, &name)) {
                match fs::read_to_string(&path) {
                    Ok(text) => return Recipe::parse(&name, &text),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(io_error("read", &path)(error)),
                }
            }
            let known = std::iter::once(known).chain(names(cache)?).collect::<Vec<_>>().join(", ");
            Err(RootFsError::Unknown { name, known })
        }
        found => found,
    }
}

/// Names of all recipes of the cache.
pub(super) fn names(cache: &Cache) -> Result<Vec<String>, RootFsError> {
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".toml").map(str::to_owned).filter(|name| is_name(name))
    };
    let mut names = Vec::new();
    for directory in cache.roots().map(|root| root.join(DIRECTORY)) {
        match fs::read_dir(&directory) {
            Ok(entries) => names.extend(entries.filter_map(|entry| name(entry.ok()?))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("read", &directory)(error)),
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the file of a recipe below the directory of a cache.
fn place(root: &Path, name: &str) -> PathBuf {
    root.join(DIRECTORY).join(format!("{name}.toml"))
}

fn check_name(name: &str) -> Result<(), RootFsError> {
    if is_name(name) {
        return Ok(());
    }
    let reason = "names are made of a to z, 0 to 9, and - and . between them".to_owned();
    Err(RootFsError::Recipe { name: name.to_owned(), reason })
}

/// Such a name is a file's name, and no option's.
fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= 64
        && name.chars().all(inner)
        && outer(name.chars().next())
        && outer(name.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish<'static> = Wish { name: "mine", list: "", base: None, release: None };

    #[test]
    fn lists_become_recipes_that_read_the_same_again() {
        let list = "# tools\nstrace python3-numpy   # and numbers\n\n  less\n";
        let made = recipe(&Wish { list, base: Some("rocm-sid"), ..WISH }).unwrap();
        assert_eq!(made.release.codename, "sid");
        for package in ["strace", "python3-numpy", "less", "rocminfo", "bash"] {
            assert!(made.packages.iter().any(|name| name == package), "{package}");
        }
        assert!(made.links.contains_key("usr/bin/cc"), "links of the base");
        let again = Recipe::parse("mine", &made.own).unwrap();
        assert_eq!((again.packages, again.source), (made.packages, made.source));
        let plain = recipe(&Wish { list: "less", ..WISH }).unwrap();
        assert_eq!((plain.release.codename, &*plain.about), ("trixie", "1 packages of a list"));
        assert!(!plain.packages.iter().any(|name| name == "rocminfo"));
        let of_sid = recipe(&Wish { list: "less", release: Some("sid"), ..WISH }).unwrap();
        assert_eq!(of_sid.release.codename, "sid");
    }

    #[test]
    fn wishes_that_cannot_be_are_refused_by_name() {
        for (wish, fault) in [
            (Wish { list: " # nothing\n", ..WISH }, "names no package"),
            (Wish { list: "less --force", ..WISH }, "--force"),
            (Wish { list: "less Bash", ..WISH }, "Bash"),
            (Wish { list: "less", name: "rocm", ..WISH }, "built in"),
            (Wish { list: "less", name: "../x", ..WISH }, "names are made of"),
            (Wish { list: "less", name: "", ..WISH }, "names are made of"),
            (Wish { list: "less", name: "-x", ..WISH }, "names are made of"),
            (Wish { list: "less", base: Some("rocky"), ..WISH }, "rocky"),
            (Wish { list: "less", release: Some("warty"), ..WISH }, "warty"),
        ] {
            let error = recipe(&wish).unwrap_err().to_string();
            assert!(error.contains(fault), "{fault} in {error}");
        }
    }

    #[test]
    fn recipes_of_the_cache_are_found_by_name_and_listed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        assert!(names(&cache).unwrap().is_empty());
        create_dir(&cache.root().join(DIRECTORY)).unwrap();
        let made = recipe(&Wish { list: "less", ..WISH }).unwrap();
        write_atomically(&place(cache.root(), "mine"), made.own.as_bytes()).unwrap();
        fs::write(cache.root().join(DIRECTORY).join("..toml"), "").unwrap();
        assert_eq!(names(&cache).unwrap(), ["mine"]);
        assert_eq!(find(&cache, "mine").unwrap().packages, made.packages);
        assert_eq!(find(&cache, "rocm").unwrap().name, "rocm");
        let unknown = find(&cache, "other").unwrap_err().to_string();
        assert!(unknown.contains("ubuntu-lts, mine"), "{unknown}");
        let unknown = find(&cache, "../recipes/mine").unwrap_err().to_string();
        assert!(unknown.contains("no root file system is called"), "{unknown}");
        let other = tempfile::tempdir().unwrap();
        let other = Cache::at(other.path()).unwrap().with_shared(cache.root()).unwrap();
        assert_eq!(
            (names(&other).unwrap(), find(&other, "mine").unwrap().packages),
            (vec!["mine".to_owned()], made.packages)
        );
        fs::write(place(cache.root(), "mine"), "packages = 3").unwrap();
        assert!(find(&cache, "mine").unwrap_err().to_string().contains("mine"));
    }
}
