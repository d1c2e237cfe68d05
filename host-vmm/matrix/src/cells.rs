//! Cells: one program on one chip, with one image, number of GPUs, schedule and plan of faults.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::file::{MOST_CELLS, Matrix, Mode, Program};

/// Errors of making cells.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CellsError {
    /// There are more cells than a matrix may have.
    #[error("the matrix has more than {MOST_CELLS} cells: split it")]
    TooMany,
    /// A file that a cell depends on cannot be read.
    #[error("program {program:?}: {}: {error}", path.display())]
    Unreadable {
        /// The program.
        program: String,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Everything that a result depends on beside the matrix itself.
#[derive(Debug, Clone, Default)]
pub struct Build {
    /// Hash of the binary that runs the cells.
    pub binary: String,
    /// Name of the contents of each image.
    pub images: BTreeMap<String, String>,
}

/// One combination of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Place in the matrix, from 0.
    pub index: usize,
    /// The program's name.
    pub program: String,
    /// The chip, as for `--chip`.
    pub chip: String,
    /// The values of the other axes, as `gpus=2 seed=1`; empty if the program has no other axis.
    pub rest: String,
    /// Arguments of `belfry`.
    pub arguments: Vec<String>,
    /// Place in `arguments` before which options go.
    pub options_end: usize,
    /// The way in which a failure of it is kept.
    pub again: Again,
    /// Exit status of a run that passed.
    pub expect: u8,
    /// Reason for which it is left out.
    pub absent: Option<String>,
    /// Hash of everything that its result depends on.
    pub key: String,
}

/// The way in which a failure is kept, so that it can be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// A second run with `--record` writes a file.
    Record,
    /// A second run with `--record` writes a folder.
    Folder,
    /// A second run with `--findings` writes a folder.
    Findings,
    /// The output has the command.
    Command,
}

impl Again {
    /// Returns the option of the second run.
    #[must_use]
    pub(crate) const fn option(self) -> Option<&'static str> {
        match self {
            Self::Record | Self::Folder => Some("--record"),
            Self::Findings => Some("--findings"),
            Self::Command => None,
        }
    }

    /// Returns true if the second run writes a folder.
    #[must_use]
    pub(crate) const fn is_folder(self) -> bool {
        matches!(self, Self::Folder | Self::Findings)
    }
}

impl Cell {
    /// Returns the cell's name: program, chip and the values of its other axes.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { program, chip, rest, .. } = self;
        if rest.is_empty() { format!("{program} {chip}") } else { format!("{program} {chip} {rest}") }
    }

    /// Returns the arguments with further options of `run` or `exec`.
    #[must_use]
    pub fn with_options(&self, options: &[String]) -> Vec<String> {
        let (before, after) = self.arguments.split_at(self.options_end);
        [before, options, after].concat()
    }
}

/// Makes the cells of a matrix, in the order of its programs and axes.
///
/// # Errors
///
/// [`CellsError`]: too many cells; a file that a program depends on cannot be read.
pub fn cells(matrix: &Matrix, build: &Build) -> Result<Vec<Cell>, CellsError> {
    let mut cells = Vec::new();
    for program in &matrix.programs {
        let files = contents(matrix, program)?;
        let images = axis(&program.image, Clone::clone);
        let gpus = axis(&program.gpus, u32::to_string);
        let seeds = axis(&program.seed, u64::to_string);
        let faults = axis(&program.fault, Clone::clone);
        let chaos = axis(&program.chaos, Clone::clone);
        let count = [program.chip.len(), images.len(), gpus.len(), seeds.len(), faults.len(), chaos.len()];
        let count = count.into_iter().try_fold(1usize, usize::checked_mul).ok_or(CellsError::TooMany)?;
        if count > MOST_CELLS - cells.len() {
            return Err(CellsError::TooMany);
        }
        for chip in &program.chip {
            for image in &images {
                for gpus in &gpus {
                    for seed in &seeds {
                        for fault in &faults {
                            for chaos in &chaos {
                                let values = Values { chip, image, gpus, seed, fault, chaos };
                                cells.push(values.cell(cells.len(), matrix, program, &files, build));
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// Returns the values of an axis as texts; one `None` for an axis that is left out.
fn axis<T>(values: &[T], text: impl Fn(&T) -> String) -> Vec<Option<String>> {
    if values.is_empty() { vec![None] } else { values.iter().map(|value| Some(text(value))).collect() }
}

/// One value of each axis.
struct Values<'a> {
    chip: &'a str,
    image: &'a Option<String>,
    gpus: &'a Option<String>,
    seed: &'a Option<String>,
    fault: &'a Option<String>,
    chaos: &'a Option<String>,
}

impl Values<'_> {
    fn cell(&self, index: usize, matrix: &Matrix, program: &Program, files: &str, build: &Build) -> Cell {
        let (arguments, options_end) = self.arguments(matrix, program);
        let image = self.image.as_ref().and_then(|image| build.images.get(image));
        let mut hash = Sha256::new();
        let fixed = [build.binary.as_str(), files, image.map_or("", String::as_str)];
        for part in fixed.into_iter().chain(arguments.iter().map(String::as_str)) {
            // With their lengths: two lists of parts are never one text.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update([program.expect]);
        hash.update(matrix.limit.as_secs().to_le_bytes());
        Cell {
            index,
            program: program.name.clone(),
            chip: self.chip.to_owned(),
            rest: self.rest(),
            arguments,
            options_end,
            again: match program.mode {
                Mode::Exec => Again::Folder,
                Mode::Hosted | Mode::Qemu | Mode::Kvm => Again::Record,
                Mode::Torture => Again::Findings,
                Mode::Explore => Again::Command,
            },
            expect: program.expect,
            absent: self.absent(program),
            key: hex(&hash.finalize()),
        }
    }

    /// Returns the arguments of `belfry`, and the place before which options go.
    fn arguments(&self, matrix: &Matrix, program: &Program) -> (Vec<String>, usize) {
        let mut arguments: Vec<String> = match program.mode {
            // Nothing but the program's own output is in the result.
            Mode::Exec => vec!["exec".into(), "--quiet".into()],
            Mode::Hosted => vec!["run".into(), "--mode".into(), "hosted".into()],
            Mode::Qemu => vec!["run".into(), "--mode".into(), "qemu".into()],
            Mode::Kvm => vec!["run".into(), "--mode".into(), "kvm".into()],
            Mode::Torture => vec!["torture".into()],
            Mode::Explore => vec!["explore".into()],
        };
        let seed = if program.mode.is_search() { "--seed" } else { "--deterministic" };
        let mut option = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        option("--chip", self.chip);
        for (name, value) in
            [("--image", self.image), ("--gpus", self.gpus), (seed, self.seed), ("--chaos", self.chaos)]
        {
            if let Some(value) = value {
                option(name, value);
            }
        }
        for rule in self.fault.iter().flat_map(|plan| plan.split_whitespace()) {
            option("--fault", rule);
        }
        arguments.extend(program.options.iter().cloned());
        let options_end = arguments.len();
        arguments.push("--".into());
        arguments.push(match file_of(matrix, program) {
            Some(path) => path.to_string_lossy().into_owned(),
            None => program.run[0].clone(),
        });
        arguments.extend(program.run[1..].iter().cloned());
        (arguments, options_end)
    }

    fn rest(&self) -> String {
        let values = [
            ("", self.image),
            ("gpus=", self.gpus),
            ("seed=", self.seed),
            ("fault=", self.fault),
            ("chaos=", self.chaos),
        ];
        let texts = values.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            // A plan has blanks; an empty one is a value as well.
            let value = if value.is_empty() {
                "none".to_owned()
            } else {
                value.split_whitespace().collect::<Vec<_>>().join("+")
            };
            Some(format!("{name}{value}"))
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    fn absent(&self, program: &Program) -> Option<String> {
        let matches =
            |wanted: &Option<String>, value: Option<&str>| wanted.as_deref().is_none_or(|w| value == Some(w));
        let absent = program.absent.iter().find(|absent| {
            matches(&absent.chip, Some(self.chip))
                && matches(&absent.image, self.image.as_deref())
                && absent.gpus.is_none_or(|gpus| self.gpus.as_deref() == Some(gpus.to_string().as_str()))
        });
        absent.map(|absent| absent.why.clone())
    }
}

/// Returns the path of a program that is a file of this machine: it has a slash, and is relative to the matrix file.
fn file_of(matrix: &Matrix, program: &Program) -> Option<PathBuf> {
    let name = &program.run[0];
    (name.contains('/') && !Path::new(name).is_absolute()).then(|| matrix.base.join(name))
}

/// Returns a hash of the files that a program depends on.
fn contents(matrix: &Matrix, program: &Program) -> Result<String, CellsError> {
    let own = file_of(matrix, program);
    let named = program.files.iter().map(|path| matrix.base.join(path));
    let mut hash = Sha256::new();
    for path in own.into_iter().chain(named) {
        let digest = digest(&path).map_err(|error| CellsError::Unreadable {
            program: program.name.clone(),
            path: path.clone(),
            error,
        })?;
        hash.update(digest);
    }
    Ok(hex(&hash.finalize()))
}

/// Returns the hash of a file's contents.
///
/// # Errors
///
/// The operating system's.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(text: &str) -> (tempfile::TempDir, Matrix) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.toml"), text).unwrap();
        std::fs::write(folder.path().join("prog"), "one").unwrap();
        let matrix = Matrix::read(&folder.path().join("m.toml")).unwrap();
        (folder, matrix)
    }

    #[test]
    fn each_combination_is_a_cell_with_its_own_key() {
        let (folder, matrix) = matrix(
            "[[program]]\nname = \"p\"\nrun = [\"./prog\", \"x\"]\nchip = [\"gfx1100\", \"gfx942\"]\nimage = [\"rocm\"]\ngpus = [1, 2]\n\
             seed = [7]\nfault = [\"\", \"a@2 b\"]\nabsent = [{ chip = \"gfx942\", gpus = 2, why = \"no\" }]\n",
        );
        let cells = cells(&matrix, &Build::default()).unwrap();
        assert_eq!(cells.len(), 8);
        let last = &cells[7];
        assert_eq!(last.name(), "p gfx942 rocm gpus=2 seed=7 fault=a@2+b");
        let file = folder.path().canonicalize().unwrap().join("./prog");
        let expected = format!(
            "exec --quiet --chip gfx942 --image rocm --gpus 2 --deterministic 7 --fault a@2 --fault b --record r -- {} x",
            file.display()
        );
        assert_eq!(last.with_options(&["--record".into(), "r".into()]).join(" "), expected);
        assert_eq!(cells.iter().filter(|cell| cell.absent.is_some()).count(), 2);
        let keys: std::collections::BTreeSet<_> = cells.iter().map(|cell| &cell.key).collect();
        assert_eq!(keys.len(), 8);
    }

    #[test]
    fn searches_run_with_seeds_of_a_range() {
        let (_folder, matrix) = matrix(
            "[[program]]\nname = \"t\"\nrun = [\"vector-add\"]\nmode = \"torture\"\nseed = \"3..6\"\noptions = [\"--plans\", \"50\"]\n\
             [[program]]\nname = \"e\"\nrun = [\"peers\"]\nmode = \"explore\"\n",
        );
        let cells = cells(&matrix, &Build::default()).unwrap();
        let commands: Vec<String> = cells.iter().map(|cell| cell.arguments.join(" ")).collect();
        assert_eq!(commands[..3].iter().filter(|c| c.contains("--seed")).count(), 3);
        assert_eq!(commands[2], "torture --chip gfx1100 --seed 5 --plans 50 -- vector-add");
        assert_eq!(commands[3..], ["explore --chip gfx1100 -- peers"]);
        assert_eq!((cells[0].again, cells[3].again), (Again::Findings, Again::Command));
    }

    #[test]
    fn the_matrix_of_the_documentation_has_24_cells_and_leaves_one_out() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/matrix.toml");
        let cells = cells(&Matrix::read(&file).unwrap(), &Build::default()).unwrap();
        assert_eq!((cells.len(), cells.iter().filter(|cell| cell.absent.is_some()).count()), (24, 1));
    }

    #[test]
    fn key_follows_the_program_the_image_and_the_build() {
        let (folder, matrix) = matrix("[[program]]\nname = \"p\"\nrun = [\"./prog\"]\nimage = [\"rocm\"]\n");
        let key = |build: &Build| cells(&matrix, build).unwrap()[0].key.clone();
        let image = |name: &str| BTreeMap::from([("rocm".to_owned(), name.to_owned())]);
        let first = Build { binary: "1".into(), images: image("a") };
        let keys = [
            key(&first),
            key(&Build { binary: "2".into(), ..first.clone() }),
            key(&Build { images: image("b"), ..first.clone() }),
        ];
        assert_eq!(keys[0], key(&first));
        std::fs::write(folder.path().join("prog"), "two").unwrap();
        let all: std::collections::BTreeSet<_> = keys.into_iter().chain([key(&first)]).collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn a_matrix_of_too_many_cells_and_a_missing_program_are_errors() {
        let seeds = (0..1001).map(|seed| seed.to_string()).collect::<Vec<_>>().join(",");
        let chaos = (0..1000).map(|seed| format!("\"{seed}\"")).collect::<Vec<_>>().join(",");
        let (_folder, many) = matrix(&format!(
            "[[program]]\nname = \"p\"\nrun = [\"p\"]\nseed = [{seeds}]\nchaos = [{chaos}]\n"
        ));
        assert!(matches!(cells(&many, &Build::default()), Err(CellsError::TooMany)));
        let (_folder, missing) = matrix("[[program]]\nname = \"p\"\nrun = [\"./other\"]\n");
        let error = cells(&missing, &Build::default()).unwrap_err().to_string();
        assert!(error.contains("program \"p\"") && error.contains("other"), "{error}");
    }
}
