//! Compiling the programs of cases in an image, once for each set of sources and options.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::manifest::{CHIPS, Object, Program};

/// Seconds that a compiler may take.
const LIMIT: u32 = 600;

/// Compiler of the cases' programs.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) belfry: &'a Path,
    /// The image that the compilers and the programs run in.
    pub(super) image: &'a str,
    /// The header that all programs may include.
    pub(super) shared: PathBuf,
    /// Directory in which programs are kept.
    pub(super) work: PathBuf,
}

/// A program that has been compiled.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) program: PathBuf,
    folder: PathBuf,
}

impl Made {
    /// The folder with a chip's code objects, in which the program runs.
    pub(super) fn objects(&self, chip: &str) -> PathBuf {
        self.folder.join(chip)
    }
}

impl Builder<'_> {
    /// `belfry exec` in the image, which is killed after `limit` seconds.
    pub(super) fn exec(&self, limit: u32, options: &[&str], more: &[String]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &limit.to_string()]).arg(self.belfry);
        command.args(["exec", "--quiet", "--image", self.image]).args(options).args(more).arg("--");
        command
    }

    /// Compiles a program and its code objects, unless that has been done with the same files and options.
    pub(super) fn program(&self, case: &str, folder: &Path, program: &Program) -> Result<Made> {
        let made = self.work.join(format!("{case}-{:016x}", self.identity(folder, program)?));
        let done = made.join("done");
        let file = made.join("program");
        if !done.exists() {
            for chip in &program.chips {
                let objects = made.join(chip);
                fs::create_dir_all(&objects).with_context(|| format!("creating {}", objects.display()))?;
                for object in &program.objects {
                    self.object(folder, object, chip, &objects)?;
                }
            }
            self.compile(&mut self.compiler(folder, program, &file), &program.source)?;
            fs::write(&done, "").with_context(|| format!("writing {}", done.display()))?;
        }
        Ok(Made { program: file, folder: made })
    }

    /// Hashes the parts that a program is made of: the files beside it, the shared header, options, the image.
    fn identity(&self, folder: &Path, program: &Program) -> Result<u64> {
        let mut files = vec![self.shared.clone()];
        for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
            files.push(entry?.path());
        }
        files.sort();
        let mut hasher = DefaultHasher::new();
        for file in files.iter().filter(|file| file.is_file()) {
            let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            (file, bytes).hash(&mut hasher);
        }
        (self.image, &program.source, &program.options, &program.chips).hash(&mut hasher);
        program.objects.iter().for_each(|object| (&object.source, &object.options).hash(&mut hasher));
        Ok(hasher.finish())
    }

    fn compiler(&self, folder: &Path, program: &Program, to: &Path) -> Command {
        let source = folder.join(&program.source);
        let mut command = self.exec(LIMIT, &[], &[]);
        if program.source.ends_with(".c") {
            command.args(["cc", "-O2", "-w"]);
        } else {
            command.args(["hipcc", "-O2", "-w"]);
            // Chips that a program is not for may lack the instructions it is written with.
            let chips = CHIPS.iter().filter(|chip| program.chips.iter().any(|named| named == *chip));
            command.args(chips.map(|chip| format!("--offload-arch={chip}")));
        }
        command.args(&program.options).arg(source).arg("-o").arg(to);
        command
    }

    /// Compiles a source for the GPU alone, as `clang` does it.
    fn object(&self, folder: &Path, object: &Object, chip: &str, into: &Path) -> Result<()> {
        let source = Path::new(&object.source);
        let mut command = self.exec(LIMIT, &[], &[]);
        command.args(["clang", "-target", "amdgcn-amd-amdhsa", &format!("-mcpu={chip}"), "-w"]);
        match source.extension().and_then(|extension| extension.to_str()) {
            Some("cl") => command.args(["-x", "cl", "-cl-std=CL2.0", "-O2"]),
            Some("ll") => command.args(["-x", "ir", "-O2", "-nogpulib"]),
            Some("s") => command.args(["-x", "assembler", "-nogpulib"]),
            _ => bail!("{}: a code object is made of .cl, .ll or .s", object.source),
        };
        let name = source.with_extension("hsaco");
        command.args(&object.options).arg(folder.join(source)).arg("-o").arg(into.join(name));
        self.compile(&mut command, &object.source)
    }

    fn compile(&self, command: &mut Command, source: &str) -> Result<()> {
        let output = command.stdin(Stdio::null()).output().context("running timeout")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{said}compiling {source} in {}: {}", self.image, output.status);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Manifest;
    use super::*;

    #[test]
    fn program_is_made_anew_when_a_file_beside_it_changes() {
        let from = tempfile::tempdir().unwrap();
        let folder = from.path().join("case");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.hip"), "int main(){}").unwrap();
        let builder = Builder {
            belfry: Path::new("belfry"),
            image: "rocm-sid",
            shared: from.path().join("t.h"),
            work: from.path().join("work"),
        };
        let identity = || builder.identity(&folder, &Manifest::of(&folder).unwrap().programs[0]).unwrap();
        let first = identity();
        assert_eq!(identity(), first);
        fs::write(folder.join("model.h"), "").unwrap();
        let second = identity();
        assert_ne!(second, first);
        fs::write(from.path().join("t.h"), "").unwrap();
        assert_ne!(identity(), second);
    }

    #[test]
    fn program_that_does_not_compile_is_an_error() {
        let from = tempfile::tempdir().unwrap();
        let folder = from.path().join("case");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.hip"), "").unwrap();
        let builder = Builder {
            belfry: Path::new("false"),
            image: "rocm-sid",
            shared: from.path().join("t.h"),
            work: from.path().join("work"),
        };
        for _ in 0..2 {
            let program = &Manifest::of(&folder).unwrap().programs[0];
            let error = builder.program("case", &folder, program).unwrap_err();
            assert!(error.to_string().contains("compiling a.hip"), "{error}");
        }
    }
}
