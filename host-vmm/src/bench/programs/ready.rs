//! Programs made ready: their root file systems, packages, and belfry's own sources compiled.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_image::rootfs::{self, Wish};
use belfry_image::{Cache, Freshness, Progress, tools};

use super::list::{self, Program};
use super::model;

/// A program that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ready {
    /// Name of its root file system.
    pub image: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The same work on the processor.
    pub cpu: Option<Vec<String>>,
    /// Version of its package.
    pub version: Option<String>,
}

/// Place of everything that is made.
#[derive(Debug)]
pub(super) struct Kitchen<'a> {
    /// The belfry that makes it.
    pub belfry: &'a Path,
    /// Cache of images and packages.
    pub cache: &'a Cache,
    /// Name of the chip.
    pub chip: &'a str,
    /// Folder of compiled programs and files.
    pub folder: &'a Path,
    /// Bar of what is fetched.
    pub progress: &'a Progress,
}

impl Kitchen<'_> {
    /// Makes a program ready; what is there already is used.
    ///
    /// # Errors
    ///
    /// Packages that cannot be had, with what to do; a source that does not compile, with the compiler's output.
    pub(super) fn ready(&self, program: &Program) -> Result<Ready> {
        let image = self.image(program)?;
        let mut places = Vec::new();
        if let Some(package) = &program.package {
            let root = tools::package(self.cache, package, self.progress)?;
            places.push(("{package}", root.to_string_lossy().into_owned()));
        }
        if let Some(file) = &program.file {
            places.push(("{file}", self.write(file)?.to_string_lossy().into_owned()));
        }
        if let Some(source) = &program.source {
            let made = self.compile(&image, source)?;
            places.push(("{program}", made.to_string_lossy().into_owned()));
        }
        if program.model {
            places.push(("{model}", self.model()?.to_string_lossy().into_owned()));
        }
        let filled = |words: &[String]| -> Vec<String> {
            let fill = |word: &String| {
                places.iter().fold(word.clone(), |word, (place, path)| word.replace(place, path))
            };
            words.iter().map(fill).collect()
        };
        Ok(Ready {
            version: self.version(program, &image),
            command: filled(&program.command),
            cpu: program.cpu.as_deref().map(filled),
            image,
        })
    }

    /// Name of the program's root file system, which is made if there is none.
    fn image(&self, program: &Program) -> Result<String> {
        let base = program.image_for(self.chip);
        if program.add.is_empty() {
            rootfs::obtain(self.cache, base, Freshness::Cached, self.progress)?;
            return Ok(base.to_owned());
        }
        // Programs of the same packages share it.
        let name = format!("bench-{}", program.add.join("-"));
        let wish = Wish { name: &name, list: &program.add.join(" "), base: Some(base), release: None };
        rootfs::build(self.cache, &wish, Freshness::Cached, self.progress)?;
        Ok(name)
    }

    /// Version of the program's package, in its root file system or of its own.
    fn version(&self, program: &Program, image: &str) -> Option<String> {
        let package = program.version.as_deref()?;
        if program.package.as_deref() == Some(package) {
            let found = self.cache.find(package)?;
            return found.manifest.packages.first().map(|found| format!("{package} {}", found.version));
        }
        let tree = rootfs::obtain(self.cache, image, Freshness::Cached, self.progress).ok()?;
        let found = tree.packages.iter().find(|found| found.name == package)?;
        Some(format!("{package} {}", found.version))
    }

    fn write(&self, name: &str) -> Result<PathBuf> {
        let text = list::source(name).with_context(|| format!("belfry carries no {name}"))?;
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Makes the language model.
    fn model(&self) -> Result<PathBuf> {
        let path = self.folder.join("model.gguf");
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let mut file = BufWriter::new(file);
        model::SMALL
            .write(&mut file)
            .and_then(|()| file.flush())
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Compiles a source inside the root file system.
    fn compile(&self, image: &str, source: &str) -> Result<PathBuf> {
        self.write("common.h")?;
        let path = self.write(source)?;
        let made = path.with_extension(self.chip);
        let output = Command::new(self.belfry)
            .args(["exec", "--quiet", "--image", image, "--", "hipcc", "-O2", "-pthread"])
            .arg(format!("--offload-arch={}", self.chip))
            .arg("-o")
            .args([&made, &path])
            .stdin(Stdio::null())
            .output()
            .context("running hipcc")?;
        if !output.status.success() {
            bail!("{source} does not compile in {image}:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(made)
    }
}

/// Version of another belfry, which also shows that it is one.
///
/// # Errors
///
/// A file that is no belfry.
pub(super) fn version_of(belfry: &Path) -> Result<String> {
    let output = Command::new(belfry)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", belfry.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        output.status.success() && text.starts_with("belfry"),
        "{} is no belfry: --version gives {text:?}, status {}",
        belfry.display(),
        output.status.code().unwrap_or(128 + output.status.signal().unwrap_or_default())
    );
    Ok(text)
}
