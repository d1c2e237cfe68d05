//! Programs and their cases, as the sources in `tests/programs` have them, which this library carries.
//!
//! A case is a line that begins with `CASE(name)`; a source without one is a code object that others embed. Reading the
//! sources needs no compiler, so that cases can be listed on any machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::processor::Processor;

/// The sources and headers, by their paths below `tests/programs`.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Language of a program, which is also the group that its cases are named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// C++ with kernels, for `hipcc`.
    Hip,
    /// C that brings its kernels as text.
    OpenCl,
    /// C over libdrm_amdgpu, which brings packets and machine code.
    LibDrm,
    /// C over ROCr's own interface, with kernels of OpenCL C that are compiled with it.
    Hsa,
    /// C over libhsakmt, the library below ROCr, with packets of its own and kernels of OpenCL C.
    Thunk,
    /// C without any library of ROCm: a process's view of `belfry exec` itself.
    ProcessC,
    /// C++ with kernels: a process's view of `belfry exec` itself.
    ProcessHip,
    /// C++ with kernels and RCCL.
    Rccl,
    /// C over Vulkan, with compute shaders of GLSL beside it that are compiled with it.
    Vulkan,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Hip,
        Self::OpenCl,
        Self::LibDrm,
        Self::Hsa,
        Self::Thunk,
        Self::ProcessC,
        Self::ProcessHip,
        Self::Rccl,
        Self::Vulkan,
    ];

    /// The folder of `tests/programs`, and the group in the names of cases.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Hip => "hip",
            Self::OpenCl => "opencl",
            Self::LibDrm => "libdrm",
            Self::Hsa => "hsa",
            Self::Thunk => "thunk",
            Self::ProcessC | Self::ProcessHip => "process",
            Self::Rccl => "rccl",
            Self::Vulkan => "vulkan",
        }
    }

    /// Returns true if its cases make sense in a guest, whose processes have a kernel's driver.
    #[must_use]
    pub fn runs_in_guest(self) -> bool {
        matches!(self, Self::Hip | Self::OpenCl | Self::Hsa | Self::Thunk | Self::LibDrm)
    }

    /// Returns true if image `rocm` has what its programs are compiled with and run on.
    #[must_use]
    pub fn is_of_rocm(self) -> bool {
        !matches!(self, Self::Rccl | Self::Vulkan)
    }

    /// The compiler its programs need.
    pub(crate) fn compiler(self) -> &'static str {
        match self {
            Self::Hip | Self::ProcessHip | Self::Rccl => "hipcc",
            Self::OpenCl | Self::LibDrm | Self::Hsa | Self::Thunk | Self::ProcessC | Self::Vulkan => "cc",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Hip | Self::ProcessHip | Self::Rccl => "hip",
            Self::OpenCl | Self::LibDrm | Self::Hsa | Self::Thunk | Self::ProcessC | Self::Vulkan => "c",
        }
    }

    /// Ending of the names of code objects' sources.
    fn kernel_extension(self) -> &'static str {
        match self {
            Self::Hsa | Self::Thunk => "cl",
            Self::Vulkan => "comp",
            other => other.extension(),
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
    /// GPUs that its cases need: those of a line `// GPUS N`, otherwise one.
    pub gpus: u8,
    /// The processor that its kernels are compiled for.
    pub processor: Processor,
}

impl Program {
    /// Its source, below `tests/programs`.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        source(self.language, &self.name)
    }

    /// The program of a source that has no cases and is run by a name of its own.
    pub(crate) fn without_cases(language: Language, name: &str, processor: Processor) -> Self {
        let (cases, embeds) = (Vec::new(), Vec::new());
        Self { language, name: name.to_owned(), cases, embeds, gpus: 1, processor }
    }

    /// Says whether its source has a word.
    pub(crate) fn names(&self, word: &str) -> bool {
        text(&self.source()).is_ok_and(|text| text.contains(word))
    }

    /// Every file it is made of, with its text: its source, the code objects' sources, and all headers.
    ///
    /// # Errors
    ///
    /// A source that there is not.
    pub fn files(&self) -> Result<Vec<(PathBuf, &'static str)>> {
        let mut files = vec![self.source()];
        if self.language == Language::Vulkan {
            files.push(kernels(self.language, &self.name));
        }
        files.extend(self.embeds.iter().map(|name| kernels(self.language, name)));
        // Other programs with kernels share the HIP programs' header.
        let shared = matches!(self.language, Language::ProcessHip | Language::Rccl).then_some("hip");
        for directory in ["", self.language.folder()].into_iter().chain(shared) {
            let names = names_with_extension(directory, "h");
            files.extend(names.iter().map(|name| Path::new(directory).join(format!("{name}.h"))));
        }
        files.into_iter().map(|file| text(&file).map(|text| (file, text))).collect()
    }
}

/// Writes all sources into a folder, as `tests/programs` has them.
///
/// # Errors
///
/// A folder that cannot be written to.
pub fn write(folder: &Path) -> Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// A file's text, by its path below `tests/programs`.
fn text(file: &Path) -> Result<&'static str> {
    let found = FILES.iter().find(|(name, _)| Path::new(name) == file);
    found.map(|(_, text)| *text).with_context(|| format!("there is no source {}", file.display()))
}

/// `NAME`'s source, below `tests/programs`.
#[must_use]
pub fn source(language: Language, name: &str) -> PathBuf {
    Path::new(language.folder()).join(format!("{name}.{}", language.extension()))
}

/// The source of code object `NAME`, below `tests/programs`.
#[must_use]
pub fn kernels(language: Language, name: &str) -> PathBuf {
    Path::new(language.folder()).join(format!("{name}.{}", language.kernel_extension()))
}

/// Every program, by language and name.
///
/// # Errors
///
/// Case names that are there twice in one group.
pub fn programs() -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for language in Language::ALL {
        let names = names_with_extension(language.folder(), language.extension());
        for name in &names {
            let path = source(language, name);
            let text = text(&path)?;
            let cases = cases(text);
            if cases.is_empty() {
                continue;
            }
            for case in &cases {
                let case = format!("{}::{case}", language.folder());
                ensure!(!taken.contains(&case), "{}: case {case} is there twice", path.display());
                taken.push(case);
            }
            let kernels = names_with_extension(language.folder(), language.kernel_extension());
            let parts = included(language, text)?;
            let embeds = kernels.iter().filter(|other| {
                let embedded = format!("\"{other}.hsaco\\\"");
                parts.iter().any(|part| part.contains(&embedded))
            });
            let embeds = embeds.cloned().collect();
            let (gpus, processor) = (gpus(text), Processor::WRITTEN);
            programs.push(Program { language, name: name.clone(), cases, embeds, gpus, processor });
        }
    }
    Ok(programs)
}

/// A source's text and the text of the headers beside it that it names itself.
fn included(language: Language, source: &'static str) -> Result<Vec<&'static str>> {
    let mut texts = vec![source];
    for name in names_with_extension(language.folder(), "h") {
        if source.contains(&format!("#include \"{name}.h\"")) {
            texts.push(text(&Path::new(language.folder()).join(format!("{name}.h")))?);
        }
    }
    Ok(texts)
}

/// The GPUs that the cases of one source need.
fn gpus(text: &str) -> u8 {
    text.lines().find_map(|line| line.strip_prefix("// GPUS ")?.parse().ok()).unwrap_or(1)
}

/// The cases of one source, in its order.
fn cases(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("CASE(")?.split_once(')'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Names, without extension, of the files of one kind in a folder; sorted.
fn names_with_extension(directory: &str, extension: &str) -> Vec<String> {
    let mut names: Vec<String> = FILES
        .iter()
        .map(|(path, _)| Path::new(path))
        .filter(|path| path.parent() == Some(Path::new(directory)))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
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
    fn programs_say_how_many_gpus_they_need() {
        assert_eq!((gpus("// one\nGPUS 3\n"), gpus("// one\n// GPUS 3\nx")), (1, 3));
        let programs = programs().unwrap();
        let several: Vec<_> = programs.iter().filter(|program| program.gpus > 1).collect();
        let of_hip = several.iter().filter(|program| program.language == Language::Hip);
        let cases: usize = of_hip.map(|program| program.cases.len()).sum();
        assert!(cases >= 50, "{cases} cases of HIP for several GPUs");
        assert!(several.iter().any(|program| program.language == Language::Hsa));
        for program in several {
            assert!(program.name.starts_with("peers"), "{}", program.name);
            assert!(program.cases.iter().all(|case| case.starts_with("peers_")), "{}", program.name);
        }
    }

    #[test]
    fn modules_embed_their_code_object_and_code_objects_are_no_programs() {
        let programs = programs().unwrap();
        let modules = programs.iter().find(|program| program.name == "modules").unwrap();
        assert_eq!(modules.embeds, ["module_kernels"]);
        assert!(programs.iter().all(|program| program.name != "module_kernels"));
        let files = modules.files().unwrap();
        for file in ["hip/modules.hip", "hip/module_kernels.hip", "hip/hip_cases.h", "cases.h"] {
            assert!(files.iter().any(|(path, text)| path == Path::new(file) && !text.is_empty()), "{file}");
        }
        // The header that embeds it is included by one of them.
        let thunk = |name| programs.iter().find(|p| p.language == Language::Thunk && p.name == name).unwrap();
        assert_eq!(thunk("queues").embeds, ["thunk_kernels"]);
        assert!(thunk("topology").embeds.is_empty());
    }
}
