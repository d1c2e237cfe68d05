//! Recipes: the packages that a root file system is made of, and the files that it is to have.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;

use super::error::RootFsError;
use crate::fetch::Release;

/// Part that every recipe has: the programs any script expects.
const COMMON: &str = include_str!("recipes/common.toml");
/// Every recipe, the one that is preferred first.
const RECIPES: &[BuiltIn] = &[
    BuiltIn { name: "rocm", text: include_str!("recipes/rocm.toml"), chips: &["gfx1100", "gfx942"] },
    // ROCr 6.4.3 asks for less memory for the waves of a gfx1151 than Linux 6.12 wants, and gets no queue. HIP 6.4 refuses a gfx950.
    BuiltIn {
        name: "rocm-sid",
        text: include_str!("recipes/rocm-sid.toml"),
        chips: &["gfx1100", "gfx942", "gfx1201"],
    },
    BuiltIn {
        name: "rocm-exp",
        text: include_str!("recipes/rocm-exp.toml"),
        chips: &["gfx1100", "gfx942", "gfx1201", "gfx1151", "gfx950"],
    },
    BuiltIn {
        name: "rccl",
        text: include_str!("recipes/rccl.toml"),
        chips: &["gfx1100", "gfx942", "gfx1201", "gfx1151", "gfx950"],
    },
    BuiltIn {
        name: "mesa",
        text: include_str!("recipes/mesa.toml"),
        chips: &["gfx1100", "gfx1201", "gfx1151"],
    },
    BuiltIn { name: "debian12", text: include_str!("recipes/debian12.toml"), chips: &[] },
    BuiltIn { name: "sid", text: include_str!("recipes/sid.toml"), chips: &[] },
    BuiltIn { name: "ubuntu-lts", text: include_str!("recipes/ubuntu-lts.toml"), chips: &[] },
];

/// Folder of root file systems in which Debian's packages of ROCm have programs that are in no `PATH`, such as their
/// tests: a folder for each package.
pub const PROGRAMS_OF_ROCM: &str = "usr/libexec/rocm";

/// A recipe that is built in.
#[derive(Debug)]
struct BuiltIn {
    name: &'static str,
    text: &'static str,
    /// The chips that its ROCm or its Mesa knows, compilers and runtimes, by the name of their instruction sets.
    chips: &'static [&'static str],
}

/// One recipe, joined with what is common to all.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Name of the root file system.
    pub name: String,
    /// Description in a line.
    pub about: String,
    /// Release that its packages come from.
    pub release: &'static Release,
    /// The packages asked for; their dependencies come with them, packages that they recommend do not.
    pub packages: Vec<String>,
    /// Packages that are taken from the release although the one below it has them: names, or `src:` and a source's name.
    pub(super) pins: Vec<String>,
    /// Paths that are removed once everything is unpacked.
    pub(super) drop: Vec<String>,
    /// Symbolic links as `update-alternatives` would make them: path and target.
    pub(super) links: BTreeMap<String, String>,
    /// Files that maintainer scripts would write: path and content.
    pub(super) files: BTreeMap<String, String>,
    /// Groups beside those of `base-passwd`, by name, with their numbers.
    pub(super) groups: BTreeMap<String, u32>,
    /// Paths the finished tree has, links followed.
    pub(super) promises: Vec<String>,
    /// The text it was read from, for its hash.
    pub(super) source: String,
    /// The part of it that is its own.
    pub(super) own: String,
}

/// The form of a recipe's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    about: String,
    release: String,
    /// The recipe that it extends.
    base: Option<String>,
    packages: Vec<String>,
    pins: Vec<String>,
    drop: Vec<String>,
    links: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    groups: BTreeMap<String, u32>,
    promises: Vec<String>,
}

impl Recipe {
    /// The recipe called `name`.
    ///
    /// # Errors
    ///
    /// [`RootFsError::Unknown`], which lists the names there are.
    pub fn named(name: &str) -> Result<Self, RootFsError> {
        let Some(BuiltIn { name, text, .. }) = RECIPES.iter().find(|known| known.name == name) else {
            let known: Vec<&str> = RECIPES.iter().map(|known| known.name).collect();
            return Err(RootFsError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        Self::parse(name, text)
    }

    /// Every recipe that is built in.
    ///
    /// # Errors
    ///
    /// A recipe that cannot be read.
    pub fn all() -> Result<Vec<Self>, RootFsError> {
        RECIPES.iter().map(|BuiltIn { name, text, .. }| Self::parse(name, text)).collect()
    }

    /// The recipe whose tree has `program` in `/usr/bin` or among [`PROGRAMS_OF_ROCM`], and a ROCm that knows all of
    /// `chips`; none if no recipe promises both.
    ///
    /// # Errors
    ///
    /// A recipe that cannot be read.
    pub fn with_program(program: &str, chips: &[&str]) -> Result<Option<Self>, RootFsError> {
        Self::first_promising(chips, |path| {
            let own = path.strip_prefix(PROGRAMS_OF_ROCM).and_then(|rest| rest.strip_prefix('/'));
            let own = own.and_then(|rest| rest.split_once('/')).map(|(_package, name)| name);
            own.or_else(|| path.strip_prefix("usr/bin/")) == Some(program)
        })
    }

    /// The recipe that promises a file of this path below the root, and a ROCm that knows all of `chips`; none if no recipe
    /// does.
    ///
    /// # Errors
    ///
    /// A recipe that cannot be read.
    pub fn with_file(file: &str, chips: &[&str]) -> Result<Option<Self>, RootFsError> {
        Self::first_promising(chips, |path| path == file)
    }

    /// The first recipe for these chips with a promised path that is as wanted.
    fn first_promising(
        chips: &[&str],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, RootFsError> {
        let knows = |known: &&BuiltIn| chips.iter().all(|chip| known.chips.contains(chip));
        for BuiltIn { name, text, .. } in RECIPES.iter().filter(knows) {
            let recipe = Self::parse(name, text)?;
            if recipe.promises.iter().any(|path| is_wanted(path)) {
                return Ok(Some(recipe));
            }
        }
        Ok(None)
    }

    /// Reads a recipe, and joins it with the one that it extends and with the common part.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, RootFsError> {
        let file: File = toml::from_str(text)
            .map_err(|error| RootFsError::Recipe { name: name.to_owned(), reason: error.to_string() })?;
        let base = file.base.as_deref().map(|base| Self::named(base).map(|base| base.own)).transpose()?;
        Self::join(name, text, &[&[COMMON][..], base.as_deref().as_slice()].concat())
    }

    /// Reads a recipe and adds it to others, the last of which counts most.
    pub(super) fn join(name: &str, text: &str, texts: &[&str]) -> Result<Self, RootFsError> {
        let bad = |reason: String| RootFsError::Recipe { name: name.to_owned(), reason };
        let read = |text: &str| toml::from_str::<File>(text).map_err(|error| bad(error.to_string()));
        let (own, mut joined) = (read(text)?, File::default());
        let release = Release::named(&own.release).ok_or_else(|| {
            bad(format!("release {:?} is not one of those in fetch/release.rs", own.release))
        })?;
        let about = own.about.clone();
        let others = texts.iter().map(|text| read(text)).collect::<Result<Vec<File>, _>>()?;
        for part in others.into_iter().chain([own]) {
            joined.packages.extend(part.packages);
            joined.pins.extend(part.pins);
            joined.drop.extend(part.drop);
            joined.links.extend(part.links);
            joined.files.extend(part.files);
            joined.groups.extend(part.groups);
            joined.promises.extend(part.promises);
        }
        joined.packages.sort();
        joined.packages.dedup();
        let paths = joined.drop.iter().chain(joined.links.keys()).chain(joined.files.keys());
        if let Some(path) = paths.chain(&joined.promises).find(|path| !stays_inside(path)) {
            return Err(bad(format!("{path:?} is not a path below the root")));
        }
        // apt would take them for options, or for a package to remove.
        let pinned = joined.pins.iter().map(|pin| pin.strip_prefix("src:").unwrap_or(pin));
        let named = joined.packages.iter().map(String::as_str).chain(pinned);
        if let Some(package) = named.into_iter().find(|package| !is_package_name(package)) {
            return Err(bad(format!("{package:?} is not a package's name")));
        }
        if !joined.pins.is_empty() && !release.is_addition() {
            return Err(bad(format!(
                "{} has no other release below it that packages are pinned against",
                release.codename
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            about,
            release,
            packages: joined.packages,
            pins: joined.pins,
            drop: joined.drop,
            links: joined.links,
            files: joined.files,
            groups: joined.groups,
            promises: joined.promises,
            source: texts.iter().copied().chain([text]).collect::<Vec<_>>().join("\0"),
            own: text.to_owned(),
        })
    }

    /// Returns the first promised path that is not below `root`, links followed.
    #[must_use]
    pub fn broken_promise(&self, root: &Path) -> Option<&str> {
        self.promises.iter().map(String::as_str).find(|path| !root.join(path).exists())
    }
}

/// Relative, not empty, and without `..`.
fn stays_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// A Debian package's name: lower-case letters, digits, `+`, `-` and `.`, beginning with a letter or digit, and without
/// an ending that apt takes for an order to remove or install.
fn is_package_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    name.len() >= 2 && name.chars().all(allowed) && !name.starts_with(['+', '-', '.']) && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_reads_and_has_what_is_common() {
        let recipes = Recipe::all().unwrap();
        assert_eq!(recipes.len(), RECIPES.len());
        for recipe in recipes {
            assert!(recipe.packages.iter().any(|package| package == "libc-bin"), "{}", recipe.name);
            assert!(recipe.promises.iter().any(|path| path == "usr/bin/bash"), "{}", recipe.name);
            assert!(!recipe.about.is_empty(), "{}", recipe.name);
        }
    }

    #[test]
    fn unknown_name_is_answered_with_the_known_ones() {
        let text = Recipe::named("rocky").unwrap_err().to_string();
        assert!(
            text.contains("\"rocky\"") && text.contains("rocm, rocm-sid, rocm-exp, rccl, mesa, debian12"),
            "{text}"
        );
    }

    #[test]
    fn program_is_found_in_the_first_recipe_whose_rocm_knows_the_chip() {
        let found = |program, chip| Recipe::with_program(program, &[chip]).unwrap().map(|recipe| recipe.name);
        for (chip, name) in [
            ("gfx1100", "rocm"),
            ("gfx942", "rocm"),
            ("gfx1201", "rocm-sid"),
            ("gfx1151", "rocm-exp"),
            ("gfx950", "rocm-exp"),
        ] {
            for program in ["rocminfo", "hipcc", "clinfo"] {
                assert_eq!(found(program, chip).as_deref(), Some(name), "{program} on {chip}");
            }
        }
        for chip in ["gfx1100", "gfx942", "gfx1201", "gfx1151", "gfx950"] {
            assert_eq!(found("rccl-UnitTests", chip).as_deref(), Some("rccl"), "a package's own program");
            let file = Recipe::with_file("usr/include/rccl/rccl.h", &[chip]).unwrap();
            assert_eq!(file.map(|recipe| recipe.name).as_deref(), Some("rccl"));
        }
        let all = Recipe::with_program("hipcc", &["gfx1100", "gfx942", "gfx1201"]).unwrap();
        assert_eq!(all.map(|recipe| recipe.name).as_deref(), Some("rocm-sid"));
        for (program, chip) in [("librccl1-tests/rccl-UnitTests", "gfx942"), ("librccl1-tests", "gfx942")] {
            assert_eq!(found(program, chip), None, "{program}");
        }
        for (program, chip) in
            [("rocminfo", "gfx9000"), ("no-such-program", "gfx1100"), ("../bin/cc", "gfx1100")]
        {
            assert_eq!(found(program, chip), None, "{program} on {chip}");
        }
    }

    #[test]
    fn recipe_is_joined_with_the_common_part() {
        let common = "packages = ['bb', 'aa']\npromises = ['etc/x']\n[links]\n'usr/bin/awk' = 'mawk'\n";
        let own = "about = 'x'\nrelease = 'sid'\npackages = ['aa', 'cc']\n[links]\n'usr/bin/awk' = 'gawk'\n";
        let recipe = Recipe::join("x", own, &[common]).unwrap();
        assert_eq!(recipe.packages, ["aa", "bb", "cc"]);
        assert_eq!(recipe.links["usr/bin/awk"], "gawk", "its own word counts");
        assert_eq!(recipe.release.codename, "sid");
        assert_eq!(recipe.promises, ["etc/x"]);
    }

    #[test]
    fn wrong_recipe_is_refused_with_its_name_and_fault() {
        let cases = [
            ("release = 'warty'", "warty"),
            ("release = 'sid'\npackage = ['a']", "package"),
            ("release = 'sid'\npackages = ['--force']", "--force"),
            ("release = 'sid'\npackages = ['bash-']", "bash-"),
            ("release = 'sid'\ndrop = ['../x']", "../x"),
            ("release = 'sid'\n[links]\n'/usr/bin/cc' = 'gcc'", "/usr/bin/cc"),
            ("release = 'sid'\npromises = ['']", "\"\""),
        ];
        for (text, fault) in cases {
            let error = Recipe::join("broken", text, &[]).unwrap_err().to_string();
            assert!(error.contains("broken") && error.contains(fault), "{error}");
        }
    }
}
