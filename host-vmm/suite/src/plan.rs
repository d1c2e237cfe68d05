//! All cases by name, and the parts that each of them needs to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use belfry_image::{Cache, Progress};

use crate::absent::{self, Absent};
use crate::compile::{Compiled, compile};
use crate::processor::Processor;
use crate::runner::Runner;
use crate::sources::{Program, programs};
use crate::tools::TOOLS;
use crate::verdict::{CaseError, Expected, Verdict, judge};

/// One case.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name, `hip::memcpy_2d` for example.
    pub name: String,
    /// Its rows in the table of absent cases; at most one of them applies in one place.
    pub absent: Vec<Absent>,
    /// GPUs that it needs.
    pub gpus: u8,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// A case of the program of this index.
    Case { program: usize, case: String },
    /// A command of the tree.
    Tool { argv: Vec<String>, expected: Expected },
}

impl Test {
    /// A case that is a command and has to end with 0.
    #[cfg(test)]
    pub(crate) fn of_command(name: &str, argv: &[&str], absent: Vec<Absent>) -> Self {
        let argv = argv.iter().map(|&word| word.to_owned()).collect();
        let what = What::Tool { argv, expected: Expected { says: Vec::new() } };
        Self { name: name.to_owned(), absent, gpus: 1, what }
    }
}

/// Every case there is.
#[derive(Debug, Clone)]
pub struct Plan {
    programs: Vec<Program>,
    processor: Processor,
    /// The cases, by group and as their sources have them.
    pub tests: Vec<Test>,
    /// Rows of the table of absent cases that name no case.
    pub unknown: Vec<String>,
}

/// Programs that cases need to run: where they are, or why there are none, by their index.
#[derive(Debug, Default)]
pub struct Ready {
    places: BTreeMap<usize, Compiled>,
    /// The major version of HIP in the root file system.
    hip: Option<u32>,
    /// True if the GPU has images.
    images: bool,
}

impl Plan {
    /// Has programs compiled for another processor, and tools name that.
    pub fn set_processor(&mut self, processor: Processor) {
        self.processor = processor;
        for program in &mut self.programs {
            program.processor = processor;
        }
        for test in &mut self.tests {
            if let What::Tool { argv, expected } = &mut test.what {
                for text in argv.iter_mut().chain(&mut expected.says) {
                    *text = processor.instead(text);
                }
            }
        }
    }

    /// Leaves out the cases that make no sense in a guest with this many GPUs.
    pub fn keep_those_of_guests(&mut self, gpus: u8) {
        let programs = &self.programs;
        self.tests.retain(|test| match test.what {
            What::Case { program, .. } => programs
                .get(program)
                .is_some_and(|program| program.language.runs_in_guest() && program.gpus <= gpus),
            What::Tool { .. } => true,
        });
    }

    /// Leaves out the cases of programs that image `rocm` cannot run.
    pub fn keep_those_of_rocm(&mut self) {
        let programs = &self.programs;
        self.tests.retain(|test| match test.what {
            What::Case { program, .. } => {
                programs.get(program).is_some_and(|program| program.language.is_of_rocm())
            }
            What::Tool { .. } => true,
        });
    }

    /// Has cases pass that are absent in guests alone.
    pub fn leave_guests_out(&mut self) {
        for test in &mut self.tests {
            test.absent.retain(|absent| !absent.place.guests);
        }
    }

    /// All cases of the sources and the tools.
    ///
    /// # Errors
    ///
    /// Sources or documentation that make no sense.
    pub fn new() -> Result<Self> {
        let programs = programs()?;
        let mut table = absent::table()?;
        let mut tests = Vec::new();
        let mut add = |name: String, gpus: u8, what: What| {
            let absent = table.remove(&name).unwrap_or_default();
            tests.push(Test { name, absent, gpus, what });
        };
        for (index, program) in programs.iter().enumerate() {
            for case in &program.cases {
                let name = format!("{}::{case}", program.language.folder());
                add(name, program.gpus, What::Case { program: index, case: case.clone() });
            }
        }
        for tool in TOOLS {
            let argv = tool.argv.iter().map(|&argument| argument.to_owned()).collect();
            let expected = Expected { says: tool.says.iter().map(|&part| part.to_owned()).collect() };
            add(format!("tools::{}", tool.name), 1, What::Tool { argv, expected });
        }
        let unknown = table.into_keys().collect();
        Ok(Self { programs, processor: Processor::WRITTEN, tests, unknown })
    }

    /// Compiles the programs that `tests` are cases of.
    ///
    /// # Errors
    ///
    /// As for [`compile`].
    pub fn prepare<'a>(
        &self,
        tests: impl IntoIterator<Item = &'a Test>,
        tree: &Path,
        progress: &Progress,
    ) -> Result<Ready> {
        let mut wanted: Vec<usize> = tests
            .into_iter()
            .filter_map(|test| match test.what {
                What::Case { program, .. } => Some(program),
                What::Tool { .. } => None,
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let programs: Vec<Program> = wanted.iter().map(|&index| self.programs[index].clone()).collect();
        let places = compile(&Cache::open()?, tree, &programs, progress)?;
        let places = wanted.into_iter().zip(places).collect();
        Ok(Ready { places, hip: absent::hip_of(tree), images: self.processor.images })
    }
}

impl Ready {
    /// Paths of the programs.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        self.places.values().flatten().cloned().collect()
    }

    /// Runs one case and judges it.
    ///
    /// # Errors
    ///
    /// Report about a case that is not as it should be, or that could not be run.
    pub fn run(&self, test: &Test, runner: &dyn Runner, limit: Duration) -> Result<Verdict, CaseError> {
        let (argv, expected) =
            self.command(test).map_err(|error| CaseError::NoProgram(format!("{error:#}")))?;
        let outcome = runner.run_on(test.gpus, &argv, limit);
        let outcome = outcome.map_err(|error| CaseError::NotRun(format!("{error:#}")))?;
        judge(&outcome, &expected, self.absent(test))
    }

    /// The row of the table of absent cases that is true of a case here.
    pub(crate) fn absent<'a>(&self, test: &'a Test) -> Option<&'a Absent> {
        test.absent.iter().find(|absent| absent.place.holds(self.images, self.hip))
    }

    fn command(&self, test: &Test) -> Result<(Vec<String>, Expected)> {
        match &test.what {
            What::Case { program, case } => {
                let place = self.places.get(program).context("its program was not compiled")?;
                let place =
                    place.as_ref().map_err(|error| anyhow!("its program does not compile: {error}"))?;
                let place = place.to_str().with_context(|| format!("{} is no UTF-8", place.display()))?;
                Ok((vec![place.to_owned(), case.clone()], Expected { says: Vec::new() }))
            }
            What::Tool { argv, expected } => Ok((argv.clone(), expected.clone())),
        }
    }
}
