//! The file of a matrix, in TOML.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// Bytes that a matrix file may have.
const MOST_BYTES: u64 = 16 << 20;
/// Cells that a matrix may have.
pub(crate) const MOST_CELLS: usize = 1_000_000;

/// Errors of matrix files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file is larger than any matrix.
    #[error("{}: {bytes} bytes are more than a matrix may have ({MOST_BYTES})", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The text is no TOML, or has other keys.
    #[error("{}: {error}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Error with its line.
        error: Box<toml::de::Error>,
    },
    /// A value means nothing, or contradicts another one.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The value and the fix.
        reason: String,
    },
}

/// Places in which a program can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `belfry exec`: any program of the machine or of an image.
    #[default]
    Exec,
    /// `belfry run --mode hosted`: a bundled example in one process.
    Hosted,
    /// `belfry run --mode qemu`: a guest in QEMU.
    Qemu,
    /// `belfry run --mode kvm`: a guest on Belfry's own machine.
    Kvm,
    /// `belfry torture`: a bundled example under many plans of faults.
    Torture,
    /// `belfry explore`: a bundled example under many schedules.
    Explore,
}

impl Mode {
    /// Returns true for commands that run a program many times, under plans or schedules of their own.
    pub(crate) fn is_search(self) -> bool {
        matches!(self, Self::Torture | Self::Explore)
    }
}

/// Combinations that are left out, with the reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The chip, as in `chip`; all chips if it is missing.
    pub chip: Option<String>,
    /// The image, as in `image`; all images if it is missing.
    pub image: Option<String>,
    /// The number of GPUs, as in `gpus`; all numbers if it is missing.
    pub gpus: Option<u32>,
    /// The reason, for reports.
    pub why: String,
}

/// A program, and the values of each axis that it is run with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Name in reports.
    pub name: String,
    /// The program and its arguments. A program with a slash in its name is a file: relative to the matrix file.
    pub run: Vec<String>,
    /// Place in which it runs.
    #[serde(default)]
    pub mode: Mode,
    /// Chips, as for `--chip`.
    #[serde(default = "gfx1100")]
    pub chip: Vec<String>,
    /// Images, as for `--image`.
    #[serde(default)]
    pub image: Vec<String>,
    /// Numbers of GPUs, as for `--gpus`.
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// Schedules, as for `--deterministic`; for `torture` and `explore` the numbers that `--seed` takes.
    #[serde(default, deserialize_with = "seeds")]
    pub seed: Vec<u64>,
    /// Plans of faults: rules as for `--fault`, with blanks between them; an empty plan has none.
    #[serde(default)]
    pub fault: Vec<String>,
    /// Seeds of chance faults, as for `--chaos`.
    #[serde(default)]
    pub chaos: Vec<String>,
    /// Further options of `belfry exec` or `belfry run`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Further files whose contents the result depends on.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Exit status of a run that passed.
    #[serde(default)]
    pub expect: u8,
    /// Combinations that are left out.
    #[serde(default)]
    pub absent: Vec<Absent>,
}

/// Reads numbers: a list, or the text `A..B` for those from A to B less 1.
fn seeds<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seeds {
        List(Vec<u64>),
        Range(String),
    }
    match Seeds::deserialize(deserializer)? {
        Seeds::List(list) => Ok(list),
        Seeds::Range(text) => {
            let ends =
                text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
            let range = ends.filter(|range: &Range<u64>| range.start < range.end);
            let few = range.filter(|range| range.end - range.start <= MOST_CELLS as u64);
            let most = MOST_CELLS;
            few.map(Iterator::collect).ok_or_else(|| {
                D::Error::custom(format_args!(
                    "{text:?} is no range of numbers \"A..B\" with 1 to {most} of them"
                ))
            })
        }
    }
}

fn gfx1100() -> Vec<String> {
    vec!["gfx1100".into()]
}

/// A matrix file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: Option<String>,
    limit: Option<String>,
    memory: Option<String>,
    processors: Option<u32>,
    program: Vec<Program>,
}

/// A matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Title of reports.
    pub title: String,
    /// Folder that files are relative to.
    pub base: PathBuf,
    /// Time that a cell may take.
    pub limit: Duration,
    /// Bytes of memory that a cell needs.
    pub memory: u64,
    /// Processors that a cell needs.
    pub processors: u32,
    /// The programs.
    pub programs: Vec<Program>,
    /// The file's text.
    pub text: String,
}

impl Matrix {
    /// Reads a matrix file.
    ///
    /// # Errors
    ///
    /// [`FileError`]: a file that cannot be read, is no TOML, has unknown keys, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let unreadable = |error| FileError::Unreadable { path: path.to_owned(), error };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > MOST_BYTES {
            return Err(FileError::TooLarge { path: path.to_owned(), bytes });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let base = path.canonicalize().map_err(unreadable)?;
        let base = base.parent().unwrap_or(Path::new("/")).to_owned();
        let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(text, title, base).map_err(|wrong| match wrong {
            Wrong::Toml(error) => FileError::Toml { path: path.to_owned(), error },
            Wrong::Invalid(reason) => FileError::Invalid { path: path.to_owned(), reason },
        })
    }

    fn parse(text: String, title: String, base: PathBuf) -> Result<Self, Wrong> {
        let written: Written = toml::from_str(&text).map_err(|error| Wrong::Toml(Box::new(error)))?;
        let limit = written.limit.as_deref().map_or(Ok(Duration::from_secs(600)), duration)?;
        let memory = written.memory.as_deref().map_or(Ok(1 << 30), size)?;
        let processors = written.processors.unwrap_or(1);
        if processors == 0 {
            return Err(Wrong::Invalid("processors = 0: a cell needs at least 1".into()));
        }
        if written.program.is_empty() {
            return Err(Wrong::Invalid("there is no [[program]]".into()));
        }
        let mut names = BTreeSet::new();
        for program in &written.program {
            check(program)?;
            if !names.insert(&program.name) {
                return Err(Wrong::Invalid(format!("two programs are named {:?}", program.name)));
            }
        }
        let title = written.title.unwrap_or(title);
        Ok(Self { title, base, limit, memory, processors, programs: written.program, text })
    }
}

/// A reason without the file's path.
#[derive(Debug)]
enum Wrong {
    Toml(Box<toml::de::Error>),
    Invalid(String),
}

fn check(program: &Program) -> Result<(), Wrong> {
    let name = &program.name;
    let wrong = |reason: String| Err(Wrong::Invalid(format!("program {name:?}: {reason}")));
    if name.is_empty() || name.chars().any(|c| c.is_control() || c == '/') {
        return wrong("a name has at least one character, and neither slashes nor control characters".into());
    }
    if program.run.is_empty() || program.run[0].is_empty() {
        return wrong("`run` names no program".into());
    }
    if program.chip.is_empty() {
        return wrong("`chip` is empty: leave it out for gfx1100".into());
    }
    let search = program.mode.is_search();
    if (program.mode == Mode::Hosted || search) && !program.image.is_empty() {
        return wrong("this `mode` has no root file system: take \"exec\" for `image`".into());
    }
    if search && !(program.fault.is_empty() && program.chaos.is_empty() && program.gpus.is_empty()) {
        return wrong("`torture` and `explore` choose faults and schedules themselves, on one GPU: `seed` is their axis".into());
    }
    if let Some(zero) = program.gpus.iter().find(|gpus| !(1..=8).contains(*gpus)) {
        return wrong(format!("`gpus` has {zero}: a machine has 1 to 8"));
    }
    for (axis, twice) in [
        ("chip", twice(&program.chip)),
        ("image", twice(&program.image)),
        ("gpus", twice(&program.gpus)),
        ("seed", twice(&program.seed)),
        ("fault", twice(&program.fault)),
        ("chaos", twice(&program.chaos)),
    ] {
        if let Some(value) = twice {
            return wrong(format!("`{axis}` has {value} twice"));
        }
    }
    for absent in &program.absent {
        let chip = absent.chip.as_ref().is_none_or(|chip| program.chip.contains(chip));
        let image = absent.image.as_ref().is_none_or(|image| program.image.contains(image));
        let gpus = absent.gpus.is_none_or(|gpus| program.gpus.contains(&gpus));
        if !(chip && image && gpus) {
            return wrong(format!("`absent` names a value that no axis has ({:?})", absent.why));
        }
    }
    Ok(())
}

/// Returns a value that is there twice.
fn twice<T: Ord + std::fmt::Debug>(values: &[T]) -> Option<String> {
    let mut seen = BTreeSet::new();
    values.iter().find(|value| !seen.insert(*value)).map(|value| format!("{value:?}"))
}

/// Returns the time that a text names: a number and `s`, `m` or `h`.
fn duration(text: &str) -> Result<Duration, Wrong> {
    let seconds = number(text, &[("s", 1), ("m", 60), ("h", 3600)]);
    match seconds {
        Some(seconds @ 1..=604_800) => Ok(Duration::from_secs(seconds)),
        _ => Err(Wrong::Invalid(format!(
            "limit = {text:?}: say it as \"90s\", \"10m\" or \"2h\", a week at most"
        ))),
    }
}

/// Returns the bytes that a text names: a number and `M` or `G`.
fn size(text: &str) -> Result<u64, Wrong> {
    match number(text, &[("M", 1 << 20), ("G", 1 << 30)]) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Wrong::Invalid(format!("memory = {text:?}: say it as \"512M\" or \"2G\""))),
    }
}

fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Matrix, String> {
        Matrix::parse(text.into(), "m".into(), "/".into()).map_err(|wrong| match wrong {
            Wrong::Toml(error) => error.to_string(),
            Wrong::Invalid(reason) => reason,
        })
    }

    #[test]
    fn values_that_are_left_out_have_their_defaults() {
        let matrix = parse("[[program]]\nname = \"a\"\nrun = [\"b\"]\n").unwrap();
        assert_eq!(
            (matrix.title.as_str(), matrix.limit.as_secs(), matrix.memory, matrix.processors),
            ("m", 600, 1 << 30, 1)
        );
        let program = &matrix.programs[0];
        assert_eq!(
            (program.mode, &program.chip[..], program.expect),
            (Mode::Exec, &["gfx1100".to_owned()][..], 0)
        );
    }

    #[test]
    fn each_mistake_is_named() {
        let program = "[[program]]\nname = \"a\"\nrun = [\"b\"]\n";
        for (text, part) in [
            ("", "missing field `program`"),
            ("program = []", "no [[program]]"),
            ("speed = 1\nprogram = []", "unknown field `speed`"),
            (&format!("{program}chips = []"), "unknown field `chips`"),
            (&format!("{program}chip = []"), "`chip` is empty"),
            (&format!("{program}gpus = [9]"), "1 to 8"),
            (&format!("{program}seed = [1, 1]"), "`seed` has 1 twice"),
            (&format!("{program}seed = \"5..5\""), "\"5..5\" is no range"),
            (&format!("{program}seed = \"0..9999999\""), "no range"),
            (&format!("{program}mode = \"explore\"\nchaos = [\"1\"]"), "`seed` is their axis"),
            (&format!("{program}mode = \"torture\"\ngpus = [2]"), "`seed` is their axis"),
            (&format!("{program}mode = \"hosted\"\nimage = [\"rocm\"]"), "no root file system"),
            (&format!("{program}absent = [{{ chip = \"gfx942\", why = \"x\" }}]"), "no axis has"),
            (&format!("{program}{program}"), "two programs are named"),
            (&format!("limit = \"1w\"\n{program}"), "limit = \"1w\""),
            (&format!("limit = \"99999999999999999999s\"\n{program}"), "limit = "),
            (&format!("memory = \"0G\"\n{program}"), "memory = \"0G\""),
            (&format!("processors = 0\n{program}"), "processors = 0"),
            ("[[program]]\nname = \"a/b\"\nrun = [\"b\"]\n", "neither slashes"),
            ("[[program]]\nname = \"a\"\nrun = []\n", "names no program"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
