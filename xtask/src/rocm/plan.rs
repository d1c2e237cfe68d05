//! Steps that run in each image.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::verdict::Expected;
use super::{Options, debugger, guest, monitors};

/// Place where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Under `belfry exec`.
    Exec,
    /// Under `belfry exec --debuggable`, with programs that are made for it first.
    Debuggable,
    /// In a guest, with programs that are made for it first.
    DebuggableInGuest,
    /// In a guest.
    Guest,
    /// Under `belfry exec`, beside a program that keeps the card busy.
    BesideLoad,
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    /// Seconds after which it hangs; of steps of the long form, the command line decides.
    pub(super) limit: u32,
    pub(super) place: Place,
    /// Result that it must have, if that is known.
    pub(super) expected: Option<Expected>,
}

impl Step {
    fn new(name: impl Into<String>, command: &[&str]) -> Self {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        Self { name: name.into(), command, limit: 600, place: Place::Exec, expected: None }
    }
}

/// Finds steps in an image.
pub(super) type Find = fn(&Places<'_>) -> Result<Vec<Step>>;

/// Places where steps are found.
pub(super) struct Places<'a> {
    pub(super) output: Output<'a>,
    /// The folder of [`Image::alone`], and the first word of the names of its steps.
    pub(super) alone: Option<(PathBuf, &'static str)>,
}

/// Runs a program in the image and returns its output.
pub(super) type Output<'a> = &'a dyn Fn(&[&str]) -> Result<String>;

/// A root file system, and the steps that run there.
pub(super) struct Image {
    pub(super) name: &'static str,
    /// The image it is made of, and the packages added; `None` of one that belfry has by itself.
    pub(super) packages: Option<(&'static str, &'static str)>,
    /// A package of Debian 13 that is unpacked beside the image, and the first word of the names of its steps.
    pub(super) alone: Option<(&'static str, &'static str)>,
    pub(super) steps: Vec<Step>,
    /// Steps that the image itself knows.
    pub(super) lists: Option<Find>,
}

impl Image {
    /// Returns true if its steps are those of the long form.
    pub(super) fn is_long(&self) -> bool {
        self.packages.is_some() || self.alone.is_some()
    }

    /// Returns true if a step that is still to be found can have `only` in its name.
    pub(super) fn may_have(&self, only: &str) -> bool {
        let header_library = HEADERS.iter().find(|(_, name)| only.starts_with(name));
        self.lists.is_some() && header_library.is_none_or(|library| self.alone == Some(*library))
    }
}

/// The tests of header libraries in Debian 13. They have code for ten chips and come to five gigabytes, so each package is
/// unpacked alone, beside the image.
const HEADERS: [(&str, &str); 3] =
    [("librocprim-tests", "rocPRIM"), ("libhipcub-tests", "hipCUB"), ("librocthrust-tests", "rocThrust")];
/// Debian 13's other ROCm libraries with their tests.
const LIBRARIES: &str = "
    librocrand1-tests libhiprand1-tests librocfft0-tests libhipfft0-tests librocblas0-tests librocblas0-tests-data
    libhipblas0-tests librocsparse0-tests librocsparse0-tests-data libhipsparse0-tests librocsolver0-tests
    libhipsolver0-tests librocalution0-tests
";
/// Directory of these libraries' tests.
const TESTS: &str = "/usr/libexec/rocm";
/// Of these, the cases that their authors run most often. hipSPARSE's have no such group.
const QUICK: [(&str, &str); 5] = [
    ("rocblas-test", "*quick*"),
    ("hipblas-test", "*quick*"),
    ("rocsparse-test", "*quick*"),
    ("rocsolver-test", "checkin_*"),
    ("hipsolver-test", "checkin_*"),
];

/// Debian sid's llama.cpp with ggml's HIP back end, and the tests of both.
const LLAMA: &str = "llama.cpp-tests libggml0-backend-hip";
const OPERATIONS: &str = "/usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops";
const ARCHITECTURES: &str = "/usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-llama-archs";
/// Models with random weights whose results on the GPU are compared with those on the processor.
const MODELS: [&str; 6] = ["llama", "qwen3", "gemma3", "phi3", "mamba", "bert"];

/// The chip that all images know.
pub(super) const USUAL: &str = "gfx1100";
/// Another one that Debian 13's runtimes and compilers know.
const OLD: &str = "gfx942";

/// The images of the short or of the long form. Those of guests and of the debugger are of both if their steps are asked for by name.
pub(super) fn images(options: &Options) -> Vec<Image> {
    let (long, only) = (options.long, options.only.as_deref());
    let tools =
        [&["rocminfo"][..], &["clinfo"], &["rocm-smi"], &["amd-smi", "list"], &["rocm_agent_enumerator"]];
    let suites = [&["hip-suite"][..], &["opencl-suite"], &["hsa-suite"]];
    // Debian sid's ROCr keeps the thunk to itself.
    let thunk = &["thunk-suite"][..];
    let own = |name, more: &[&[&str]]| Image {
        name,
        packages: None,
        alone: None,
        steps: tools
            .iter()
            .chain(&suites)
            .chain(more)
            .map(|command| Step::new(command.join(" "), command))
            .collect(),
        lists: None,
    };
    let mut images = vec![own("rocm", &[thunk]), own("rocm-sid", &[]), own("rocm-exp", &[])];
    if long || only.is_some_and(guest::has) {
        images.push(guest::image(&options.chip));
    }
    if long || only.is_some_and(debugger::has) {
        images.push(debugger::image());
    }
    if long || only.is_some_and(monitors::has) {
        images.push(monitors::image());
    }
    if long {
        images.push(Image {
            name: "rocm-tests",
            packages: Some(("rocm", LIBRARIES)),
            alone: None,
            steps: Vec::new(),
            lists: Some(libraries),
        });
        images.extend(HEADERS.map(|library| Image {
            name: "rocm",
            packages: None,
            alone: Some(library),
            steps: Vec::new(),
            lists: Some(headers),
        }));
        images.push(Image {
            name: "llama",
            packages: Some(("rocm-sid", LLAMA)),
            alone: None,
            steps: MODELS
                .iter()
                .map(|model| {
                    Step::new(format!("llama.cpp {model}"), &[ARCHITECTURES, "-a", &format!("^{model}$")])
                })
                .collect(),
            lists: Some(operations),
        });
    }
    if options.chip != USUAL {
        // Debian 13's libraries have no code for other chips, or their tests do not.
        let is_known =
            |image: &Image| image.name == "rocm" && !image.is_long() && options.chip.starts_with(OLD);
        let is_new = |image: &Image| {
            ["rocm-sid", "rocm-exp"].contains(&image.packages.map_or(image.name, |(base, _)| base))
        };
        images.retain(|image| is_new(image) || is_known(image));
    }
    images
}

/// A step for each test program of ROCm's libraries.
fn libraries(places: &Places<'_>) -> Result<Vec<Step>> {
    let found = (places.output)(&["find", TESTS, "-type", "f", "-perm", "-u+x"])?;
    let mut programs: Vec<&str> = found
        .lines()
        .filter(|path| {
            path.rsplit('/').next().is_some_and(|name| name.starts_with("test_") || name.ends_with("-test"))
        })
        .collect();
    programs.sort_unstable();
    let step = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let filter = QUICK.iter().find(|(of, _)| *of == name);
        let filter = filter.map(|(_, cases)| format!("--gtest_filter={cases}"));
        let command: Vec<&str> = [*path].into_iter().chain(filter.as_deref()).collect();
        Step::new(name, &command)
    };
    Ok(programs.iter().map(step).collect())
}

/// A step for each test program of a header library, small programs first.
fn headers(places: &Places<'_>) -> Result<Vec<Step>> {
    let Some((folder, library)) = &places.alone else { return Ok(Vec::new()) };
    let folder = folder.join(TESTS.trim_start_matches('/'));
    let mut programs = Vec::new();
    for package in read_dir(&folder)? {
        for program in read_dir(&package)? {
            let meta = program.metadata().with_context(|| format!("looking at {}", program.display()))?;
            if meta.is_file() && meta.permissions().mode() & 0o100 != 0 {
                programs.push((meta.len(), program));
            }
        }
    }
    programs.sort_unstable();
    let step = |(_, path): &(u64, PathBuf)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".hip").unwrap_or(&name);
        Step::new(format!("{library} {name}"), &[&*path.to_string_lossy()])
    };
    Ok(programs.iter().map(step).collect())
}

fn read_dir(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()
    });
    entries.with_context(|| format!("listing {}", folder.display()))
}

/// A step for each operation that ggml knows.
fn operations(places: &Places<'_>) -> Result<Vec<Step>> {
    let listed = (places.output)(&[OPERATIONS, "--list-ops"])?;
    let is_name = |word: &&str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let step = |name| Step::new(format!("ggml {name}"), &[OPERATIONS, "test", "-o", name, "-b", "ROCm0"]);
    Ok(listed.lines().map(str::trim).filter(is_name).map(step).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions, write};

    use super::*;

    #[test]
    fn programs_of_header_libraries_are_found_small_ones_first() {
        let folder = tempfile::tempdir().unwrap();
        let tests = folder.path().join("usr/libexec/rocm/librocthrust-tests");
        create_dir_all(&tests).unwrap();
        for (name, size, mode) in [("large", 9, 0o755), ("small.hip", 1, 0o755), ("data", 0, 0o644)] {
            write(tests.join(name), vec![0; size]).unwrap();
            set_permissions(tests.join(name), Permissions::from_mode(mode)).unwrap();
        }
        let nothing: Output<'_> = &|_| Ok(String::new());
        let places = Places { output: nothing, alone: Some((folder.path().to_owned(), "rocThrust")) };
        let steps = headers(&places).unwrap();
        let names: Vec<_> = steps.iter().map(|step| &*step.name).collect();
        assert_eq!(names, ["rocThrust small", "rocThrust large"]);
        assert_eq!(steps[0].command, [tests.join("small.hip").display().to_string()]);
    }

    #[test]
    fn names_of_header_libraries_leave_the_other_images_out() {
        let image = |alone| Image {
            name: "rocm",
            packages: None,
            alone,
            steps: Vec::new(),
            lists: Some(|_| Ok(Vec::new())),
        };
        let (cub, other) = (image(Some(HEADERS[1])), image(None));
        assert!(cub.is_long() && cub.may_have("hipCUB test_hipcub_basic") && !other.may_have("hipCUB"));
        assert!(!cub.may_have("rocPRIM") && cub.may_have("basic") && other.may_have("rocblas"));
    }
}
