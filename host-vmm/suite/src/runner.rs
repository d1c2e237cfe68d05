//! Runner of the suite's programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::{self, Outcome};

/// A way to run programs.
pub trait Runner {
    /// Runs `argv` for at most `limit`; a program of the suite is named by its path on this machine.
    ///
    /// # Errors
    ///
    /// A runner that fails itself; how the program ends is no error.
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome>;
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
}

impl Runner for Exec {
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome> {
        // Directory for files that a program leaves, core files for example.
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(&self.belfry);
        // A case's changes to its card are not seen by other cases.
        command.env("BELFRY_EXEC_CARD", directory.path());
        command.arg("exec").args(&self.options).arg("--root").arg(&self.tree).arg("--").args(argv);
        command.current_dir(directory.path());
        process::run(command, limit)
    }
}
