//! Programs that are run by names of their own, as suites are, and have no cases.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use belfry_image::{Cache, Progress};

use crate::compile::{self, compile};
use crate::processor::Processor;
use crate::sources::{Language, Program};

/// A program that belfry carries as a source and compiles in a root file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standalone {
    /// Name on the command line.
    pub name: &'static str,
    /// File below the root that its compilation needs; a root file system that has it has all of that.
    pub needs: &'static str,
    language: Language,
    /// File name of its source, without extension.
    source: &'static str,
}

/// All of them.
const ALL: [Standalone; 1] =
    [Standalone { name: "ddp-loop", needs: compile::RCCL, language: Language::Rccl, source: "ddp_loop" }];

impl Standalone {
    /// Finds the one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|program| program.name == name)
    }

    /// Compiles it in `tree` unless the cache has it, and returns its path.
    ///
    /// # Errors
    ///
    /// As for [`compile()`], and a program that does not compile.
    pub fn compile(self, tree: &Path, processor: Processor, progress: &Progress) -> Result<PathBuf> {
        let program = Program::without_cases(self.language, self.source, processor);
        let made = compile(&Cache::open()?, tree, &[program], progress)?;
        let made = made.into_iter().next().context("a program without a path")?;
        made.with_context(|| format!("{} does not compile", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::is_suite;

    #[test]
    fn each_is_found_by_its_name_and_has_a_source_and_no_cases() {
        for program in ALL {
            assert_eq!(Standalone::named(program.name), Some(program));
            assert!(!is_suite(program.name));
            let made = Program::without_cases(program.language, program.source, Processor::WRITTEN);
            let files = made.files().unwrap();
            assert!(files[0].1.contains("int main("), "{}", program.name);
        }
        assert_eq!(Standalone::named("ddp_loop"), None);
        let programs = crate::sources::programs().unwrap();
        assert!(programs.iter().all(|program| program.name != "ddp_loop"));
    }
}
