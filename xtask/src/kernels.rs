//! `cargo xtask kernels`: compiles the OpenCL sources into the code objects the examples embed, and assembles the driver's
//! trap handler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The compiler whose output is committed.
const CLANG: &str = "clang-19";
/// The one for processors that [`CLANG`] does not know.
const NEWER_CLANG: &str = "clang-22";
/// The linkers that they run for amdgcn.
const LINKERS: [&str; 2] = ["ld.lld-19", "ld.lld-22"];
/// Directory in which Debian's `rocm-device-libs` installs its bitcode.
const BITCODE: &str = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";

/// The device libraries `ocml.cl` links, beside those of its processor.
const OCML: &[&str] = &[
    "ocml",
    "ockl",
    "oclc_abi_version_500",
    "oclc_correctly_rounded_sqrt_on",
    "oclc_daz_opt_off",
    "oclc_finite_only_off",
    "oclc_unsafe_math_off",
];

/// A processor that kernels are compiled for.
struct Processor {
    name: &'static str,
    /// The compiler.
    clang: &'static str,
    /// The target with the features that its programs count on, as ROCr names them.
    target: &'static str,
    /// The device libraries that know it. The 1030 variant is the nearest that Debian packages for gfx11 and gfx12, and the 940
    /// variant for gfx942 and gfx950: they say only which instructions exist (FMA, no daz), and they are the same there.
    libraries: [&'static str; 2],
}

/// The processors that kernels are compiled for.
const PROCESSORS: &[Processor] = &[
    Processor {
        name: "gfx1100",
        clang: CLANG,
        target: "gfx1100",
        libraries: ["oclc_isa_version_1030", "oclc_wavefrontsize64_off"],
    },
    Processor {
        name: "gfx942",
        clang: CLANG,
        target: "gfx942:sramecc+:xnack-",
        libraries: ["oclc_isa_version_940", "oclc_wavefrontsize64_on"],
    },
    Processor {
        name: "gfx950",
        clang: NEWER_CLANG,
        target: "gfx950:sramecc+:xnack-",
        libraries: ["oclc_isa_version_940", "oclc_wavefrontsize64_on"],
    },
    Processor {
        name: "gfx1151",
        clang: CLANG,
        target: "gfx1151",
        libraries: ["oclc_isa_version_1030", "oclc_wavefrontsize64_off"],
    },
    Processor {
        name: "gfx1201",
        clang: CLANG,
        target: "gfx1201",
        libraries: ["oclc_isa_version_1030", "oclc_wavefrontsize64_off"],
    },
];

/// Programs whose results are compared, bit by bit, with the results of their source on the processor.
const PROGRAMS: &str = "tests/programs";

/// Programs for debuggers: with debug information, in which no path is this machine's, and without optimisation.
const DEBUGGED: &str = "host-vmm/tests/kernels";

/// The folders of sources: the examples', and the tests'.
const FOLDERS: &[&str] =
    &["guest-runtime/kernels", "tests/kernels", PROGRAMS, DEBUGGED, "device/tests/fixtures"];

/// The source of the driver's trap handlers, which includes other files of its folder.
const TRAP_HANDLER: &str = "guest-driver/core/src/asic/trap_handler/trap_handler.s";
/// The code that it is assembled to, by assembler and processor.
const TRAP_HANDLERS: &[(&str, &str, &str)] = &[
    (CLANG, "gfx1100", "guest-driver/core/src/asic/gfx11/trap_handler.bin"),
    (CLANG, "gfx942", "guest-driver/core/src/asic/gfx9/trap_handler.bin"),
    (NEWER_CLANG, "gfx950", "guest-driver/core/src/asic/gfx9_5/trap_handler.bin"),
    (CLANG, "gfx1201", "guest-driver/core/src/asic/gfx12/trap_handler.bin"),
];
/// Program that takes the code out of an object.
const OBJCOPY: &str = "llvm-objcopy-19";

/// Compiles every `*.cl` of [`FOLDERS`] for each of the [`PROCESSORS`], and assembles the [`TRAP_HANDLERS`].
///
/// With `check`, nothing is written: the committed objects must be byte for byte the compiler's output for the sources.
///
/// # Errors
///
/// When the compiler or the device libraries are missing (with the packages to install), when a source does not
/// compile, or when a committed object differs from its source.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    for tool in [CLANG, NEWER_CLANG, OBJCOPY].into_iter().chain(LINKERS) {
        Command::new(tool).arg("--version").output().with_context(|| {
            format!("cannot run {tool}: install it with `apt-get install clang-19 lld-19 llvm-19 clang-22 lld-22 rocm-device-libs`")
        })?;
    }
    let scratch = std::env::temp_dir().join(format!("belfry-kernels-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let result = FOLDERS
        .iter()
        .try_for_each(|folder| compile_all(&root, folder, &scratch, check))
        .and_then(|()| assemble_all(&root, &scratch, check));
    std::fs::remove_dir_all(&scratch)?;
    result
}

fn compile_all(root: &Path, name: &str, scratch: &Path, check: bool) -> anyhow::Result<()> {
    let folder = &root.join(name);
    let up = "../".repeat(name.split('/').count());
    let mut options = vec!["-I".to_owned(), format!("{up}guest-runtime/kernels")];
    if name == PROGRAMS {
        options.extend(["-ffp-contract=off", "-cl-fp32-correctly-rounded-divide-sqrt"].map(str::to_owned));
    }
    if name == DEBUGGED {
        options.extend(["-g", "-O0", "-fdebug-compilation-dir=."].map(str::to_owned));
    }
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("no kernel folder at {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cl"));
    sources.sort();
    ensure!(!sources.is_empty(), "no .cl file in {}", folder.display());
    let mut stale = Vec::new();
    for source in &sources {
        let stem =
            source.file_stem().and_then(|stem| stem.to_str()).context("a source's name is not UTF-8")?;
        for processor in PROCESSORS {
            let name = format!("{stem}.{}.hsaco", processor.name);
            let built = scratch.join(&name);
            compile(folder, stem, (processor, &options), &built)?;
            let fresh = std::fs::read(&built)?;
            if !is_kept(&folder.join(&name), &fresh, check)? {
                stale.push(name);
            }
        }
    }
    refuse_stale(&stale)
}

fn assemble_all(root: &Path, scratch: &Path, check: bool) -> anyhow::Result<()> {
    let folder = Path::new(TRAP_HANDLER).parent().context("the trap handler's source is in no folder")?;
    let mut stale = Vec::new();
    for &(clang, processor, committed) in TRAP_HANDLERS {
        let (object, code) = (scratch.join("trap_handler.o"), scratch.join("trap_handler.bin"));
        let mut assemble = Command::new(clang);
        assemble.current_dir(root).args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa"]);
        assemble.arg(format!("-mcpu={processor}")).arg("-mcode-object-version=5");
        assemble.arg("-I").arg(folder).arg("-c").arg(TRAP_HANDLER).arg("-o").arg(&object);
        let status = assemble.status().with_context(|| format!("cannot run {clang}"))?;
        ensure!(status.success(), "{clang} failed on {TRAP_HANDLER} for {processor} ({status})");
        let mut copy = Command::new(OBJCOPY);
        copy.args(["-O", "binary", "-j", ".text"]).args([&object, &code]);
        let status = copy.status().with_context(|| format!("cannot run {OBJCOPY}"))?;
        ensure!(status.success(), "{OBJCOPY} failed on {TRAP_HANDLER} for {processor} ({status})");
        if !is_kept(&root.join(committed), &std::fs::read(&code)?, check)? {
            stale.push(committed);
        }
    }
    refuse_stale(&stale)
}

/// Compares a committed file with the compiler's output for its source, and writes the file unless `check` is set.
/// Returns true if the file is as it should be afterwards.
fn is_kept(committed: &Path, fresh: &[u8], check: bool) -> anyhow::Result<bool> {
    let same = std::fs::read(committed).is_ok_and(|old| old == fresh);
    let state = match (check, same) {
        (_, true) => "unchanged",
        (true, false) => "STALE",
        (false, false) => {
            std::fs::write(committed, fresh)?;
            "written"
        }
    };
    let name = committed.file_name().unwrap_or_default().to_string_lossy();
    say!("{name}: {} bytes, {state}", fresh.len());
    Ok(same || !check)
}

fn refuse_stale<T: AsRef<str>>(stale: &[T]) -> anyhow::Result<()> {
    let names: Vec<&str> = stale.iter().map(AsRef::as_ref).collect();
    ensure!(names.is_empty(), "{} differ from their sources: run `cargo xtask kernels`", names.join(", "));
    Ok(())
}

/// Runs clang on one source. It is given relative names, so that no path of this machine gets into the object.
fn compile(
    folder: &Path,
    stem: &str,
    (processor, options): (&Processor, &[String]),
    output: &Path,
) -> anyhow::Result<()> {
    let clang = processor.clang;
    let mut command = Command::new(clang);
    command.current_dir(folder);
    command.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa"]);
    command.arg(format!("-mcpu={}", processor.target));
    command.args(["-mcode-object-version=5", "-O2", "-nogpulib"]);
    if stem != "bench" {
        command.args(options).args(["-include", "hdr.h"]);
    }
    if stem == "ocml" {
        for library in OCML.iter().chain(&processor.libraries) {
            let path = format!("{BITCODE}/{library}.bc");
            ensure!(
                Path::new(&path).exists(),
                "{path} is missing: install it with `apt-get install rocm-device-libs`"
            );
            command.args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &path]);
        }
    }
    command.arg(format!("{stem}.cl")).arg("-o").arg(output);
    let status = command.status().with_context(|| format!("cannot run {clang}"))?;
    ensure!(status.success(), "{clang} failed on {stem}.cl ({status})");
    Ok(())
}
