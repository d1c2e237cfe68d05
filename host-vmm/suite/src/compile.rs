//! The suite's programs, compiled inside a root tree by the tree's own compilers, and kept in the cache.
//!
//! Compiled programs are kept by a hash of everything they were made of: the sources, the commands, and the tree. A
//! program appears in the cache by one rename, so that runs side by side never see a part of one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use belfry_image::{Cache, Progress};
use sha2::{Digest as _, Sha256};

use crate::absent::hip_of;
use crate::process::{self, Ended};
use crate::processor::Processor;
use crate::sources::{self, Language, Program};

/// Time limit of one compiler.
const LIMIT: Duration = Duration::from_secs(600);
/// Folders in which programs of a tree are found; AMD's own packages are below `/opt`.
const PATH: [&str; 7] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/rocm/bin"];
/// Folders of the tree that have the sources, and the programs made of them.
const SOURCES: &str = "/tmp/sources";
const MADE: &str = "/tmp/made";

/// The output of a compiler about a program that does not compile, after the path of the program's source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

/// Path of a program, or the reason why there is none.
pub type Compiled = Result<PathBuf, CompileError>;

/// hipRTC as a library of its own.
const HIPRTC: &str = "/usr/lib/x86_64-linux-gnu/libhiprtc.so";
/// The header of libhsakmt.
const THUNK: &str = "usr/include/hsakmt/hsakmt.h";
/// The header of Vulkan, and the compiler of shaders.
const VULKAN: &str = "usr/include/vulkan/vulkan.h";
const GLSLANG: &str = "glslangValidator";
/// The header of RCCL.
pub(crate) const RCCL: &str = "usr/include/rccl/rccl.h";

/// Enters the tree in a namespace of its own and runs a script there; arguments: tree, sources, output folder, script.
const ENTER: &str = r#"
root=$1 sources=$2 made=$3 script=$4
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mkdir "$root/tmp/sources" "$root/tmp/made"
mount --bind "$sources" "$root/tmp/sources"
mount --bind "$made" "$root/tmp/made"
cd /
exec chroot "$root" /bin/sh -ec "$script"
"#;

/// Compiles programs that are not in the cache yet, as many at once as there are processors.
///
/// Returns the paths of the programs, in their order, or the compiler's output for a program that does not compile.
///
/// # Errors
///
/// A tree without compilers; a machine that does not allow user namespaces.
pub fn compile(
    cache: &Cache,
    tree: &Path,
    programs: &[Program],
    progress: &Progress,
) -> Result<Vec<Compiled>> {
    // It is entered from another directory.
    let tree = &fs::canonicalize(tree).with_context(|| tree.display().to_string())?;
    let places: Vec<PathBuf> =
        programs.iter().map(|program| place(cache, tree, program)).collect::<Result<_>>()?;
    let mut missing: Vec<(&Program, &Path)> = programs
        .iter()
        .zip(&places)
        .filter(|(_, place)| !place.exists())
        .map(|(p, at)| (p, at.as_path()))
        .collect();
    if missing.is_empty() {
        return Ok(places.into_iter().map(Ok).collect());
    }
    let languages: Vec<Language> = missing.iter().map(|(program, _)| program.language).collect();
    check_compilers(tree, &languages)?;
    let folder = cache.root().join("suite");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let sources = tempfile::Builder::new().prefix(".sources-").tempdir_in(&folder)?;
    sources::write(sources.path())?;
    let title = format!("compiling {} programs of the suite, once for this root file system", missing.len());
    let step = progress.count(&title, missing.len() as u64);
    let compiled = AtomicU64::new(0);
    // The longest last, so that they are taken first.
    missing.sort_by_key(|(program, _)| program.cases.len());
    let waiting = Mutex::new(missing);
    let failures = Mutex::new(BTreeMap::new());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop();
                    let Some((program, place)) = next else { break };
                    match compile_one(cache, tree, sources.path(), program, place) {
                        Ok(()) => step.set(compiled.fetch_add(1, Ordering::Relaxed) + 1),
                        Err(error) => {
                            let text = format!("{}: {error:#}", program.source().display());
                            failures.lock().unwrap().insert(place.to_owned(), CompileError(text));
                        }
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    match failures.len() {
        0 => step.done("done"),
        failed => step.done(&format!("{failed} do not compile")),
    }
    Ok(places.into_iter().map(|place| failures.remove(&place).map_or(Ok(place), Err)).collect())
}

/// Refuses a tree without the compilers that programs in these languages need, before anything is compiled.
fn check_compilers(tree: &Path, languages: &[Language]) -> Result<()> {
    for compiler in languages.iter().copied().map(Language::compiler) {
        ensure!(
            has_program(tree, compiler),
            "{} has no {compiler} (in {}), which compiles the suite's programs; image rocm has it: \
             `belfry image --rootfs rocm`",
            tree.display(),
            PATH.join(", ")
        );
    }
    // Later ROCr has the thunk inside of it, and exports no function of it.
    ensure!(
        !languages.contains(&Language::Thunk) || tree.join(THUNK).exists(),
        "{} has no /{THUNK}, which the thunk's cases are compiled with; image rocm has it, and ROCr 6.4 and later keep \
         the thunk to themselves",
        tree.display()
    );
    ensure!(
        !languages.contains(&Language::Vulkan) || (tree.join(VULKAN).exists() && has_program(tree, GLSLANG)),
        "{} has no /{VULKAN} or no {GLSLANG}; image mesa has both: `--image mesa`",
        tree.display()
    );
    ensure!(
        !languages.contains(&Language::Rccl) || tree.join(RCCL).exists(),
        "{} has no /{RCCL}; image rccl has RCCL: `--image rccl`",
        tree.display()
    );
    Ok(())
}

/// Returns true if a root tree has a program of that name in a folder that its shells search; links count, even if
/// their target is not there from outside.
#[must_use]
pub fn has_program(tree: &Path, name: &str) -> bool {
    PATH.iter().any(|folder| tree.join(folder.trim_start_matches('/')).join(name).symlink_metadata().is_ok())
}

/// Path of a program in the cache, once it is compiled.
fn place(cache: &Cache, tree: &Path, program: &Program) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(script(tree, program).as_bytes());
    for (file, text) in program.files()? {
        add(file.as_os_str().as_encoded_bytes());
        add(text.as_bytes());
    }
    // Trees in the cache are named by their content; any other tree changes these folders when packages come or go.
    let tree = fs::canonicalize(tree).with_context(|| tree.display().to_string())?;
    add(tree.as_os_str().as_encoded_bytes());
    for folder in ["usr/bin", "usr/lib/x86_64-linux-gnu"] {
        let path = tree.join(folder);
        let changed = fs::metadata(&path).and_then(|facts| facts.modified());
        let changed = changed.with_context(|| path.display().to_string())?;
        let changed = changed.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        add(&changed.as_nanos().to_le_bytes());
    }
    let id: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(cache.root().join("suite").join(format!("{}-{}-{id}", program.language.folder(), program.name)))
}

/// The commands that make `MADE/program` out of the sources.
fn script(tree: &Path, program: &Program) -> String {
    let source = program.source();
    let source = source.display();
    let Processor { name: processor, device, wave, lds, images: _ } = program.processor;
    let version = program.processor.target_version().unwrap_or(0);
    let (major, minor) = (version / 10_000, version / 100 % 100);
    // What a program may expect the GPU to be.
    let gpu = format!(
        "-DGPU_NAME='\"{processor}\"' -DGPU_MAJOR={major} -DGPU_MINOR={minor} -DGPU_DEVICE={device:#x} -DGPU_WAVE={wave} \
         -DGPU_LDS={lds} -DROCM_MAJOR={}",
        hip_of(tree).unwrap_or(0)
    );
    let mut script = format!("cd {SOURCES}\n");
    for name in &program.embeds {
        let part = sources::kernels(program.language, name);
        let part = part.display();
        script += &match program.language {
            // A code object without the bundle around it that HIP wants, and without a library of device functions.
            Language::Hsa | Language::Thunk => format!(
                "clang -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu={processor} -nogpulib -O2 -Wall {part} \
                 -o {MADE}/{name}.hsaco\n"
            ),
            _ => {
                format!("hipcc --offload-arch={processor} -O2 -Wall --genco {part} -o {MADE}/{name}.hsaco\n")
            }
        };
    }
    script += &match program.language {
        Language::Hip | Language::ProcessHip => {
            // HIP 5.7 has hipRTC in its one library, HIP 7 does not.
            let rtc = if program.names("hiprtc") {
                format!("$(test ! -e {HIPRTC} || echo -lhiprtc)")
            } else {
                String::new()
            };
            format!(
                "hipcc --offload-arch={processor} {gpu} -O2 -Wall -Wa,-I{MADE} {source} -o {MADE}/program {rtc}\n"
            )
        }
        Language::Rccl => format!(
            "hipcc --offload-arch={processor} {gpu} -O2 -Wall {source} -o {MADE}/program -lrccl -lpthread\n"
        ),
        // The processor's side of a comparison contracts nothing that the device's side does not.
        Language::OpenCl => {
            format!("cc {gpu} -O2 -Wall -Wextra -ffp-contract=off {source} -o {MADE}/program -lOpenCL -lm\n")
        }
        Language::LibDrm => {
            format!(
                "cc {gpu} -O1 -Wall -Wextra -I/usr/include/libdrm {source} -o {MADE}/program -ldrm_amdgpu -ldrm\n"
            )
        }
        Language::Hsa => format!(
            "cc {gpu} -O1 -Wall -Wextra -Wa,-I{MADE} {source} -o {MADE}/program -lhsa-runtime64 -lpthread\n"
        ),
        Language::Thunk => format!(
            "cc {gpu} -O1 -Wall -Wextra -Wa,-I{MADE} {source} -o {MADE}/program -lhsakmt -ldrm_amdgpu -ldrm -lpthread\n"
        ),
        // Each shader is a part of the file beside the program that its own name turns on.
        Language::Vulkan => {
            let shaders = sources::kernels(program.language, &program.name);
            let shaders = shaders.display();
            format!(
                "for name in $(sed -n 's/^SHADER(\\(.*\\))$/\\1/p' {source}); do\n\
                 {GLSLANG} -V --quiet --target-env vulkan1.3 -D$name=1 {shaders} --vn $name -o {MADE}/$name.h\n\
                 done\n\
                 cat {MADE}/*.h > {MADE}/shaders.inc\n\
                 cc {gpu} -O2 -Wall -Wextra -ffp-contract=off -I{MADE} {source} -o {MADE}/program -lvulkan -lm -lpthread\n"
            )
        }
        Language::ProcessC => format!("cc {gpu} -O1 -Wall -Wextra {source} -o {MADE}/program -lpthread\n"),
    };
    script
}

fn compile_one(cache: &Cache, tree: &Path, sources: &Path, program: &Program, place: &Path) -> Result<()> {
    let name = place.file_name().context("a program without a name")?.to_string_lossy().into_owned();
    let _lock = cache.lock(&format!("suite-{name}"), || {})?;
    if place.exists() {
        return Ok(()); // another run was faster
    }
    let folder = place.parent().context("a program without a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let made = tempfile::Builder::new().prefix(".compiling-").tempdir_in(folder)?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", ENTER, "sh"]);
    command.arg(tree).arg(sources).arg(made.path()).arg(script(tree, program));
    command.env_clear().env("PATH", PATH.join(":")).env("HOME", "/tmp");
    let outcome = process::run(command, LIMIT)
        .context("unshare, of package util-linux, enters the root tree to compile in it")?;
    if outcome.ended != Ended::Status(0) {
        bail!("{} in {}\n{}{}", outcome.ended, tree.display(), outcome.stdout, outcome.stderr.trim_end());
    }
    fs::rename(made.path().join("program"), place).with_context(|| place.display().to_string())
}
