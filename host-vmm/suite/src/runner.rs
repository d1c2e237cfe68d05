//! Runner of the suite's programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::process::{self, Outcome};

/// A way to run programs.
pub trait Runner {
    /// Runs `argv` for at most `limit`; a program of the suite is named by its path on this machine.
    ///
    /// # Errors
    ///
    /// A runner that fails itself; how the program ends is no error.
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome>;

    /// Does so on as many GPUs.
    ///
    /// # Errors
    ///
    /// The same, and several GPUs for a runner that has one.
    fn run_on(&self, gpus: u8, argv: &[String], limit: Duration) -> Result<Outcome> {
        ensure!(gpus == 1, "the case needs {gpus} GPUs, and there is one");
        self.run(argv, limit)
    }
}

/// `belfry exec --root TREE`: a process of this machine; several may run side by side.
#[derive(Debug)]
pub struct Exec {
    belfry: PathBuf,
    tree: PathBuf,
    options: Vec<OsString>,
}

impl Exec {
    /// With this binary of belfry.
    #[must_use]
    pub fn new(belfry: PathBuf, tree: &Path) -> Self {
        Self { belfry, tree: tree.to_owned(), options: Vec::new() }
    }

    /// Adds options of `belfry exec`, for the device for example.
    #[must_use]
    pub fn with_options(self, options: Vec<OsString>) -> Self {
        Self { options, ..self }
    }

    /// The options, with no fewer GPUs than these.
    fn options_with(&self, gpus: u8) -> Vec<OsString> {
        let mut options = self.options.clone();
        if gpus == 1 {
            return options;
        }
        let given = options.iter().position(|word| word == "--gpus").and_then(|at| options.get_mut(at + 1));
        match given {
            Some(given) => {
                let before = given.to_str().and_then(|text| text.parse().ok()).unwrap_or(1);
                *given = gpus.max(before).to_string().into();
            }
            None => options.extend(["--gpus".into(), gpus.to_string().into()]),
        }
        options
    }
}

impl Runner for Exec {
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome> {
        self.run_on(1, argv, limit)
    }

    fn run_on(&self, gpus: u8, argv: &[String], limit: Duration) -> Result<Outcome> {
        // Directory for files that a program leaves, core files for example.
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(&self.belfry);
        // A case's changes to its card are not seen by other cases.
        command.env("BELFRY_EXEC_CARD", directory.path());
        command.arg("exec").args(self.options_with(gpus)).arg("--root").arg(&self.tree).arg("--").args(argv);
        command.current_dir(directory.path());
        process::run(command, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_several_gpus_get_as_many_as_they_need() {
        let exec = |words: &[&str]| {
            let options = words.iter().map(Into::into).collect();
            Exec::new("belfry".into(), Path::new("/tree")).with_options(options)
        };
        assert_eq!(exec(&["--cus", "4"]).options_with(1), ["--cus", "4"]);
        assert_eq!(exec(&["--cus", "4"]).options_with(2), ["--cus", "4", "--gpus", "2"]);
        assert_eq!(exec(&["--gpus", "1", "--quiet"]).options_with(2), ["--gpus", "2", "--quiet"]);
        assert_eq!(exec(&["--gpus", "4"]).options_with(2), ["--gpus", "4"]);
    }
}
