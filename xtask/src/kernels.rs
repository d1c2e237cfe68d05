//! `cargo xtask kernels`: compiles the OpenCL sources into the code objects the examples embed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// The compiler whose output is committed.
const CLANG: &str = "clang-19";
/// Its linker, which clang runs for amdgcn.
const LINKER: &str = "ld.lld-19";
/// Where Debian's `rocm-device-libs` installs its bitcode.
const BITCODE: &str = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";

/// The device libraries `ocml.cl` links. The 1030 variant is the nearest that Debian packages for gfx11: it says
/// only which instructions exist (FMA, no daz), and they are the same here.
const OCML: &[&str] = &[
    "ocml",
    "ockl",
    "oclc_abi_version_500",
    "oclc_correctly_rounded_sqrt_on",
    "oclc_daz_opt_off",
    "oclc_finite_only_off",
    "oclc_isa_version_1030",
    "oclc_unsafe_math_off",
    "oclc_wavefrontsize64_off",
];

/// Programs whose results are compared, bit by bit, with those of the same source on the processor.
const PROGRAMS: &str = "tests/programs";

/// The folders of sources: those of the examples, and those of the tests.
const FOLDERS: &[&str] = &["guest-runtime/kernels", "tests/kernels", PROGRAMS, "device/tests/fixtures"];

/// Compiles every `*.cl` of [`FOLDERS`] for gfx1100.
///
/// With `check`, nothing is written: the committed objects must be byte for byte what the sources compile to.
///
/// # Errors
///
/// When the compiler or the device libraries are missing (with the packages to install), when a source does not
/// compile, or when a committed object differs from its source.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    for tool in [CLANG, LINKER] {
        Command::new(tool).arg("--version").output().with_context(|| {
            format!("cannot run {tool}: install it with `apt-get install clang-19 lld-19 rocm-device-libs`")
        })?;
    }
    let scratch = std::env::temp_dir().join(format!("belfry-kernels-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let result = FOLDERS.iter().try_for_each(|folder| compile_all(&root, folder, &scratch, check));
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
        let name = format!("{stem}.gfx1100.hsaco");
        let built = scratch.join(&name);
        compile(folder, stem, &options, &built)?;
        let fresh = std::fs::read(&built)?;
        let committed = folder.join(&name);
        let same = std::fs::read(&committed).is_ok_and(|old| old == fresh);
        let state = match (check, same) {
            (_, true) => "unchanged",
            (true, false) => {
                stale.push(name.clone());
                "STALE"
            }
            (false, false) => {
                std::fs::write(&committed, &fresh)?;
                "written"
            }
        };
        say!("{name}: {} bytes, {state}", fresh.len());
    }
    if !stale.is_empty() {
        bail!("{} differ from their sources: run `cargo xtask kernels`", stale.join(", "));
    }
    Ok(())
}

/// Runs clang on one source. It is given relative names, so that no path of this machine gets into the object.
fn compile(folder: &Path, stem: &str, options: &[String], output: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(CLANG);
    command.current_dir(folder);
    command.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100"]);
    command.args(["-mcode-object-version=5", "-O2", "-nogpulib"]);
    if stem != "bench" {
        command.args(options).args(["-include", "hdr.h"]);
    }
    if stem == "ocml" {
        for library in OCML {
            let path = format!("{BITCODE}/{library}.bc");
            ensure!(
                Path::new(&path).exists(),
                "{path} is missing: install it with `apt-get install rocm-device-libs`"
            );
            command.args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &path]);
        }
    }
    command.arg(format!("{stem}.cl")).arg("-o").arg(output);
    let status = command.status().with_context(|| format!("cannot run {CLANG}"))?;
    ensure!(status.success(), "{CLANG} failed on {stem}.cl ({status})");
    Ok(())
}
