//! List of the programs, as `programs.toml` has them.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The list that belfry carries.
const LIST: &str = include_str!("programs.toml");
/// Sources of belfry's own programs, by name of the file.
const SOURCES: &[(&str, &str)] = &[
    ("attention.hip", include_str!("sources/attention.hip")),
    ("common.h", include_str!("sources/common.h")),
    ("gemm.hip", include_str!("sources/gemm.hip")),
    ("hip.py", include_str!("sources/hip.py")),
    ("keys.hip", include_str!("sources/keys.hip")),
    ("paths.hip", include_str!("sources/paths.hip")),
    ("vadd.hip", include_str!("../../../../examples/vadd.hip")),
];

/// A whole program with everything that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name in the table.
    pub name: String,
    /// One line about its work.
    pub about: String,
    /// The root file system that it runs in.
    pub image: String,
    /// Root file systems for chips that `image` does not know, by the chip.
    #[serde(default)]
    pub newer: std::collections::BTreeMap<String, String>,
    /// Packages that are added to the root file system.
    #[serde(default)]
    pub add: Vec<String>,
    /// A package of Debian 13 that is unpacked alone.
    #[serde(default)]
    pub package: Option<String>,
    /// A source of belfry's own that is compiled for the chip.
    #[serde(default)]
    pub source: Option<String>,
    /// A file of belfry's own that the command names.
    #[serde(default)]
    pub file: Option<String>,
    /// True if the command names the small language model with random weights that belfry makes.
    #[serde(default)]
    pub model: bool,
    /// Chips that the program and `image` have code for.
    pub chips: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The same work on the processor.
    #[serde(default)]
    pub cpu: Option<Vec<String>>,
    /// The figure that it prints itself.
    #[serde(default)]
    pub figure: Option<Printed>,
    /// The package whose version is told.
    #[serde(default)]
    pub version: Option<String>,
}

/// A figure in the output of a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Text in front of the number.
    pub after: String,
    /// Unit of the number.
    pub unit: String,
}

#[derive(Debug, Deserialize)]
struct List {
    program: Vec<Program>,
}

/// The whole list.
///
/// # Errors
///
/// A list that is not of this form, which no released binary has.
pub fn all() -> Result<Vec<Program>> {
    Ok(toml::from_str::<List>(LIST).context("the list of programs")?.program)
}

/// Programs whose names have one of these texts in them, or all; those without code for `chip` come second, by name.
///
/// # Errors
///
/// A text that no name has in it.
pub(super) fn chosen(only: &[String], chip: &str) -> Result<(Vec<Program>, Vec<String>)> {
    let all = all()?;
    for text in only {
        ensure!(
            all.iter().any(|program| program.name.contains(text.as_str())),
            "no program has {text:?} in its name; --list has the names"
        );
    }
    let is_chosen =
        |program: &Program| only.is_empty() || only.iter().any(|text| program.name.contains(text.as_str()));
    let (known, unknown): (Vec<_>, Vec<_>) =
        all.into_iter().filter(is_chosen).partition(|program| program.knows(chip));
    Ok((known, unknown.into_iter().map(|program| program.name).collect()))
}

/// The text of a source, by its name.
pub(super) fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(of, _)| *of == name).map(|(_, text)| *text)
}

impl Program {
    /// Returns true if the program and its root file system have code for the chip.
    #[must_use]
    pub fn knows(&self, chip: &str) -> bool {
        self.newer.contains_key(chip) || self.chips.iter().any(|known| known == chip)
    }

    /// The root file system for a chip.
    #[must_use]
    pub fn image_for(&self, chip: &str) -> &str {
        self.newer.get(chip).unwrap_or(&self.image)
    }
}

impl Printed {
    /// The number in an output; `None` if it has none.
    #[must_use]
    pub fn find(&self, output: &str) -> Option<f64> {
        let (_, rest) = output.split_once(&self.after)?;
        rest.split_whitespace().next()?.trim_end_matches(',').parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_list_can_be_made() {
        let all = all().unwrap();
        assert!(all.len() >= 10);
        let names: std::collections::BTreeSet<_> = all.iter().map(|program| &program.name).collect();
        assert_eq!(names.len(), all.len(), "two programs have one name");
        for program in &all {
            let Program { name, command, cpu, .. } = program;
            for file in [&program.source, &program.file].into_iter().flatten() {
                assert!(source(file).is_some(), "{name}: {file}");
            }
            let words = command.iter().chain(cpu.iter().flatten());
            for (place, has) in [
                ("{program}", program.source.is_some()),
                ("{file}", program.file.is_some()),
                ("{package}", program.package.is_some()),
                ("{model}", program.model),
            ] {
                assert!(has || words.clone().all(|word| !word.contains(place)), "{name} has no {place}");
            }
            assert!(program.knows("gfx1100") && !program.chips.is_empty(), "{name}");
        }
    }

    #[test]
    fn programs_without_code_for_a_chip_are_named() {
        let (known, unknown) = chosen(&[], "gfx1201").unwrap();
        assert!(known.iter().any(|program| program.name == "f64 paths"));
        assert!(unknown.contains(&"rocPRIM radix sort".to_owned()));
        let (known, unknown) = chosen(&["f16 gemm".to_owned()], "gfx942").unwrap();
        assert_eq!((known.len(), unknown.len()), (1, 0));
        assert!(chosen(&["no such program".to_owned()], "gfx942").is_err());
    }

    #[test]
    fn figures_are_the_numbers_after_their_texts() {
        let figure = Printed { after: "work:".to_owned(), unit: "s".to_owned() };
        assert_eq!(figure.find("starting\nwork: 0.25 s\n"), Some(0.25));
        assert_eq!(figure.find("work: none"), None);
        assert_eq!(figure.find("rest"), None);
    }
}
