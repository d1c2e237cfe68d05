//! Programs and their cases, as the sources in `tests/programs` have them.
//!
//! A case is a line that begins with `CASE(name)`; a source without one is a code object that others embed. Reading the
//! sources needs no compiler, so that cases can be listed on any machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// What a program is written in, which is also the group its cases are named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// C++ with kernels, for `hipcc`.
    Hip,
    /// C that brings its kernels as text.
    OpenCl,
    /// C without any library of ROCm: what a process sees of `belfry exec` itself.
    ProcessC,
    /// The same in C++ with kernels.
    ProcessHip,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hip, Self::OpenCl, Self::ProcessC, Self::ProcessHip];

    /// The folder of `tests/programs`, and the group in the names of cases.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Hip => "hip",
            Self::OpenCl => "opencl",
            Self::ProcessC | Self::ProcessHip => "process",
        }
    }

    /// Whether its cases make sense in a guest, whose processes have a kernel's driver.
    #[must_use]
    pub fn runs_in_guest(self) -> bool {
        matches!(self, Self::Hip | Self::OpenCl)
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Hip | Self::ProcessHip => "hip",
            Self::OpenCl | Self::ProcessC => "c",
        }
    }
}

/// One source that becomes a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// Its language.
    pub language: Language,
    /// File name without extension.
    pub name: String,
    /// Names of its cases.
    pub cases: Vec<String>,
    /// Sources, beside it and without extension, whose code objects it embeds as `NAME.hsaco`.
    pub embeds: Vec<String>,
}

impl Program {
    /// Its source, relative to [`folder`].
    #[must_use]
    pub fn source(&self) -> PathBuf {
        source(self.language, &self.name)
    }

    /// Every file it is made of, relative to [`folder`]: its source, the code objects' sources, and all headers.
    ///
    /// # Errors
    ///
    /// Folders that cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = vec![self.source()];
        files.extend(self.embeds.iter().map(|name| source(self.language, name)));
        // Probes with kernels share the HIP programs' header.
        let shared = (self.language == Language::ProcessHip).then_some("hip");
        for directory in ["", self.language.folder()].into_iter().chain(shared) {
            let names = names_with_extension(&folder().join(directory), "h")?;
            files.extend(names.iter().map(|name| Path::new(directory).join(format!("{name}.h"))));
        }
        Ok(files)
    }
}

/// Where the sources are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// `NAME`'s source, relative to [`folder`].
#[must_use]
pub fn source(language: Language, name: &str) -> PathBuf {
    Path::new(language.folder()).join(format!("{name}.{}", language.extension()))
}

/// Every program, by language and name.
///
/// # Errors
///
/// Sources that cannot be read, and case names that are there twice in one language.
pub fn programs() -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for language in Language::ALL {
        let directory = folder().join(language.folder());
        let names = names_with_extension(&directory, language.extension())?;
        for name in &names {
            let path = folder().join(source(language, name));
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let cases = cases(&text);
            if cases.is_empty() {
                continue;
            }
            for case in &cases {
                let case = format!("{}::{case}", language.folder());
                ensure!(!taken.contains(&case), "{}: case {case} is there twice", path.display());
                taken.push(case);
            }
            let embeds = names.iter().filter(|other| text.contains(&format!("\"{other}.hsaco\\\""))).cloned();
            programs.push(Program { language, name: name.clone(), cases, embeds: embeds.collect() });
        }
    }
    Ok(programs)
}

/// The cases of one source, in its order.
fn cases(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("CASE(")?.split_once(')'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Names, without extension, of the files of one kind in a folder; sorted.
fn names_with_extension(directory: &Path, extension: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension)
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_the_lines_that_define_them() {
        let text = "#define CASE(name) void name()\nCASE(one) {\n}\n  CASE(indented) {}\n// CASE(comment)\nCASE(two) { x(); }\n";
        assert_eq!(cases(text), ["one", "two"]);
    }

    #[test]
    fn modules_embed_their_code_object_and_code_objects_are_no_programs() {
        let programs = programs().unwrap();
        let modules = programs.iter().find(|program| program.name == "modules").unwrap();
        assert_eq!(modules.embeds, ["module_kernels"]);
        assert!(programs.iter().all(|program| program.name != "module_kernels"));
        let files = modules.files().unwrap();
        for file in ["hip/modules.hip", "hip/module_kernels.hip", "hip/hip_cases.h", "cases.h"] {
            assert!(files.contains(&PathBuf::from(file)), "{file} of {files:?}");
        }
    }
}
