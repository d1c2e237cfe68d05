//! The suites of unmodified programs as programs that belfry provides: `hip-suite`, `opencl-suite`, `hsa-suite`,
//! `thunk-suite` and `vulkan-suite`, and programs beside them (`ddp-loop`), in trees without programs of these names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_device::chip::{Generation, Model};
use belfry_guest::Guest;
use belfry_image::rootfs::{self, Root};
use belfry_image::{Cache, Freshness, Progress};
use belfry_isa::inst::WaveSize;
use belfry_suite::guest::Booted;
use belfry_suite::request::is_suite;
use belfry_suite::{Action, Exec, How, Plan, Processor, Ready, Request, Standalone, console, has_program};

use crate::exec::absent;
use crate::output::say;

/// Time limit of one case in a guest, whose machine may translate code and so be slow.
const IN_GUEST: Duration = Duration::from_secs(600);

/// A suite that a command line names: every case, and those to run.
#[derive(Debug, Clone)]
pub struct Suite {
    plan: Plan,
    request: Request,
}

/// A suite whose programs are compiled.
#[derive(Debug)]
pub struct Compiled<'a> {
    suite: &'a Suite,
    ready: Ready,
}

/// Place in which a suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Under `belfry exec`.
    Exec,
    /// In a guest with this many GPUs.
    Guest {
        /// GPUs.
        gpus: u8,
    },
}

/// Meaning of a command line that may name a suite.
#[derive(Debug)]
pub enum Asked {
    /// Nothing: it names another program, or one that the tree has.
    Program,
    /// There was something to print, and no more to do.
    Printed,
    /// Cases to run.
    Suite(Suite),
    /// A program that is compiled in the root file system, and started in place of the name.
    Own(Standalone),
}

impl Asked {
    /// Finds out if `program` is a suite in a root file system, in a guest or under `exec`, before anything is
    /// fetched.
    ///
    /// # Errors
    ///
    /// Arguments that a suite does not have; a suite without a root file system to compile its programs in.
    pub fn new(place: Place, root: Option<&Root>, program: &[OsString]) -> Result<Self> {
        let Some((name, arguments)) = program.split_first() else { return Ok(Self::Program) };
        let Some(name) = name.to_str() else { return Ok(Self::Program) };
        let own = Standalone::named(name);
        if !is_suite(name) && own.is_none() {
            return Ok(Self::Program);
        }
        let theirs = match root {
            // No recipe has a program of this name.
            Some(Root::Named(_)) => false,
            Some(Root::Path(path)) => has_program(path, name),
            None => absent::is_in_path(name.as_ref()),
        };
        if theirs {
            return Ok(Self::Program);
        }
        let needs_root = || {
            let image = match name {
                _ if own.is_some() => "rccl",
                "vulkan-suite" => "mesa",
                _ => "rocm",
            };
            format!(
                "{name} needs --image or --root: its programs are compiled and run in a root file system, for example \
                 `belfry exec --image {image} -- {name}`"
            )
        };
        if let Some(own) = own {
            ensure!(root.is_some(), needs_root());
            return Ok(Self::Own(own));
        }
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let mut plan = Plan::new()?;
        match place {
            Place::Exec => plan.leave_guests_out(),
            Place::Guest { gpus } => plan.keep_those_of_guests(gpus),
        }
        let action = Action::parse(&plan, name, &arguments).context("a suite without cases")?;
        match action.map_err(anyhow::Error::msg)? {
            Action::Print(text) => {
                say!("{text}");
                Ok(Self::Printed)
            }
            Action::Run(request) => {
                ensure!(root.is_some(), needs_root());
                Ok(Self::Suite(Suite { plan, request }))
            }
        }
    }
}

/// The processor that programs are compiled for on a chip.
#[must_use]
pub fn processor(chip: &Model) -> Processor {
    let device = chip.chip(chip.default).identity().device;
    let Generation { arch, shader, .. } = chip.generation;
    // HIP and OpenCL compile for the shortest waves there are.
    let wave = if arch.wave_sizes().contains(&WaveSize::Wave32) { 32 } else { 64 };
    let lds = shader.lds * u32::try_from(shader.cus).unwrap_or(1);
    Processor { name: chip.name, device, wave, lds, images: arch.has_images() }
}

impl Suite {
    /// Sets the chip that the suite runs on.
    pub fn set_chip(&mut self, chip: &Model) {
        self.plan.set_processor(processor(chip));
    }

    /// Compiles the programs that the cases need, in `tree`.
    ///
    /// # Errors
    ///
    /// A tree without compilers, a machine without user namespaces, programs that do not compile.
    pub fn compile(&self, tree: &Path, progress: &Progress) -> Result<Compiled<'_>> {
        let ready = self.plan.prepare(self.request.tests(&self.plan), tree, progress)?;
        Ok(Compiled { suite: self, ready })
    }

    /// Compiles the programs in the tree that a guest's root file system is made of.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::compile`], and a root file system that is no directory here.
    pub fn compile_for(&self, root: &Root, cache: &Cache, progress: &Progress) -> Result<Compiled<'_>> {
        let tree: PathBuf = match root {
            Root::Named(name) => rootfs::obtain(cache, name, Freshness::Cached, progress)?.path,
            Root::Path(path) => path.clone(),
        };
        ensure!(
            tree.is_dir(),
            "{} is a disk, and the suite's programs are compiled in a root file system that is a directory",
            tree.display()
        );
        self.compile(&tree, progress)
    }
}

impl Compiled<'_> {
    /// Runs the cases side by side, each under a `belfry exec OPTIONS` of its own; the exit status.
    ///
    /// # Errors
    ///
    /// When this binary cannot be found.
    pub fn run(&self, tree: &Path, options: Vec<OsString>) -> Result<u8> {
        let belfry = std::env::current_exe().context("cannot find belfry itself")?;
        let runner = Exec::new(belfry, tree).with_options(options);
        let how = How::SideBySide(&runner, self.suite.request.jobs);
        self.tell(how, None, &mut |line| say!("{line}"))
    }

    /// Runs the cases one after the other in a guest; the exit status.
    ///
    /// # Errors
    ///
    /// A guest that does not take the programs.
    pub fn run_in(&self, guest: &mut Guest, line: &mut (dyn FnMut(&str) + Send)) -> Result<u8> {
        let runner = Booted::new(guest, &self.ready.programs())?;
        self.tell(How::InTurn(&runner), Some(IN_GUEST), line)
    }

    fn tell(&self, how: How<'_>, usual: Option<Duration>, line: &mut (dyn FnMut(&str) + Send)) -> Result<u8> {
        let Suite { plan, request } = self.suite;
        let results = console::run(&self.ready, &request.tests(plan), how, request.limit(usual), line);
        if let Some(path) = &request.junit {
            let suite = belfry_junit::Suite { name: request.group().to_owned(), cases: results.cases };
            let file = belfry_junit::file("belfry", &[suite]);
            std::fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(u8::from(results.counts.failed > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(root: Option<&Root>, line: &str) -> Result<Asked> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Asked::new(Place::Exec, root, &words)
    }

    #[test]
    fn suites_of_the_tree_come_before_those_of_belfry() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::Path(tree.path().to_owned());
        assert!(matches!(asked(Some(&root), "hip-suite").unwrap(), Asked::Suite(_)));
        std::fs::create_dir_all(tree.path().join("usr/bin")).unwrap();
        std::fs::write(tree.path().join("usr/bin/hip-suite"), "").unwrap();
        assert!(matches!(asked(Some(&root), "hip-suite").unwrap(), Asked::Program));
        assert!(matches!(asked(Some(&root), "opencl-suite").unwrap(), Asked::Suite(_)));
        assert!(matches!(asked(Some(&root), "ddp-loop 10").unwrap(), Asked::Own(_)));
        std::fs::write(tree.path().join("usr/bin/ddp-loop"), "").unwrap();
        assert!(matches!(asked(Some(&root), "ddp-loop 10").unwrap(), Asked::Program));
        for line in ["", "rocminfo", "./hip-suite", "/usr/bin/hip-suite", "./ddp-loop"] {
            assert!(matches!(asked(Some(&root), line).unwrap(), Asked::Program), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_told_before_anything_is_fetched() {
        let root = Root::Named("rocm".to_owned());
        let unknown = asked(Some(&root), "hip-suite no_such_case").unwrap_err().to_string();
        assert!(unknown.contains("--list"), "{unknown}");
        let without = asked(None, "hip-suite").unwrap_err().to_string();
        assert!(without.contains("--image rocm"), "{without}");
        let without = asked(None, "ddp-loop").unwrap_err().to_string();
        assert!(without.contains("--image rccl"), "{without}");
    }

    #[test]
    fn cases_of_several_gpus_are_for_guests_that_have_them() {
        let root = Root::Named("rocm".to_owned());
        let words = ["hip-suite", "peers_memcpy"].map(OsString::from);
        let asked = |gpus| Asked::new(Place::Guest { gpus }, Some(&root), &words);
        assert!(asked(1).is_err());
        assert!(matches!(asked(2).unwrap(), Asked::Suite(_)));
    }

    #[test]
    fn tree_without_compilers_is_refused_by_name() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("usr/bin")).unwrap();
        std::fs::create_dir_all(tree.path().join("usr/lib/x86_64-linux-gnu")).unwrap();
        let root = Root::Path(tree.path().to_owned());
        for (suite, compiler) in
            [("hip-suite", "has no hipcc"), ("opencl-suite", "has no cc"), ("thunk-suite", "has no cc")]
        {
            let Asked::Suite(suite) = asked(Some(&root), suite).unwrap() else { panic!() };
            let error = suite.compile(tree.path(), &Progress::silent()).unwrap_err().to_string();
            assert!(error.contains(compiler) && error.contains("--rootfs rocm"), "{error}");
        }
        std::fs::write(tree.path().join("usr/bin/hipcc"), "").unwrap();
        let Asked::Own(own) = asked(Some(&Root::Path(tree.path().to_owned())), "ddp-loop").unwrap() else {
            panic!()
        };
        let chip = processor(belfry_device::chip::DEFAULT);
        let error = own.compile(tree.path(), chip, &Progress::silent()).unwrap_err().to_string();
        assert!(error.contains("rccl.h") && error.contains("--image rccl"), "{error}");
    }
}
