//! The Rust half: `core` and `alloc` with the kernel's flags, and the driver core as one object.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ModuleError, create_dir, gate, io_error, remove_starting_with, run, short_hash, strip};

/// The version of the library sources, and so of the compiler.
const RUSTC: &str = "1.95.0";
const TARGET: &str = "x86_64-unknown-none";

/// Flags by which code meets the kernel's demands: no red zone, its code model, its mitigations, room for its tracer.
///
/// All crates of the object must agree on them, so that `core` and `alloc` are compiled from source. Without `plt` and
/// with relro `memcpy` would be reached through a GOT, which the kernel's loader does not have.
const FLAGS: [&str; 21] = [
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Crelocation-model=static",
    "-Ccode-model=kernel",
    "-Cno-redzone=y",
    "-Cforce-unwind-tables=n",
    "-Csymbol-mangling-version=v0",
    "-Ctarget-cpu=x86-64",
    "-Ztune-cpu=generic",
    "-Zretpoline-external-thunk",
    "-Zindirect-branch-cs-prefix",
    "-Zfunction-return=thunk-extern",
    "-Zcf-protection=branch",
    "-Cjump-tables=n",
    "-Ctarget-feature=+harden-sls-ijmp,+harden-sls-ret",
    "-Zpatchable-function-entry=16,16",
    "-Zmin-function-alignment=16",
    "-Zplt=yes",
    "-Crelro-level=off",
    "-Zdirect-access-external-data=yes",
    "-Zfunction-sections=n",
];

/// Accesses to memory are checked against KASAN's shadow, by calls, as [`super::kasan`]'s kernel has its own checked.
const ADDRESS_SANITIZER: [&str; 6] = [
    "-Zsanitizer=kernel-address",
    "-Zsanitizer-recover=kernel-address",
    "-Cllvm-args=-asan-mapping-offset=0xdffffc0000000000",
    "-Cllvm-args=-asan-instrumentation-with-call-threshold=0",
    "-Cllvm-args=-asan-stack=0",
    "-Cllvm-args=-asan-globals=0",
];

/// Stands in for compiler-builtins, as in the kernel: nothing of that crate may be used.
const NO_BUILTINS: &str = "#![feature(compiler_builtins)]\n#![compiler_builtins]\n#![no_std]\n";

/// Sources and tools that the object is compiled from.
#[derive(Debug, Clone)]
pub struct CoreInputs {
    /// The program cargo.
    pub cargo: PathBuf,
    /// The program rustc.
    pub rustc: PathBuf,
    /// Rust's library sources: the directory that holds `core/` and `alloc/`.
    pub rust_src: PathBuf,
    /// Root of Belfry's own sources.
    pub workspace: PathBuf,
    /// Directory for the result and intermediate files, of this call alone.
    pub directory: PathBuf,
    /// True if accesses to memory are checked; the kernel then has to have KASAN.
    pub address_sanitizer: bool,
}

impl CoreInputs {
    fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitizer: &[&str] = if self.address_sanitizer { &ADDRESS_SANITIZER } else { &[] };
        FLAGS.into_iter().chain(sanitizer.iter().copied())
    }
}

/// An object that may go into a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreObject {
    /// The object, without debug sections.
    pub object: PathBuf,
    /// The list of sources it was compiled from, as cargo writes it for `make`.
    pub sources: PathBuf,
}

/// Compiles the driver core and checks it by the kernel's rules.
///
/// # Errors
///
/// [`ModuleError::WrongRustc`] for a compiler of another version than the library sources; the compiler's messages for
/// sources that do not compile; [`ModuleError::Gate`].
pub fn compile(inputs: &CoreInputs) -> Result<CoreObject, ModuleError> {
    let rustc = check_compiler(inputs)?;
    create_dir(&inputs.directory)?;
    let sysroot = library(inputs, &rustc)?;
    let compiled = driver(inputs, &sysroot)?;
    let interface = inputs.workspace.join("guest-driver/linux/os_interface.h");
    let declared = fs::read_to_string(&interface).map_err(io_error("read", &interface))?;
    gate::check_core_object(&compiled.object, &declared, inputs.address_sanitizer)?;
    strip(&compiled.object)?;
    Ok(compiled)
}

/// Returns the compiler's description of itself, when it is the right one.
fn check_compiler(inputs: &CoreInputs) -> Result<String, ModuleError> {
    let found = run("rustc --version", Command::new(&inputs.rustc).arg("-vV"))?;
    if found.starts_with(&format!("rustc {RUSTC} ")) {
        return Ok(found);
    }
    let found = found.lines().next().unwrap_or_default().to_owned();
    Err(ModuleError::WrongRustc { wanted: RUSTC, found })
}

/// Compiles `core` and `alloc` once and returns the sysroot they are in.
fn library(inputs: &CoreInputs, rustc: &str) -> Result<PathBuf, ModuleError> {
    let directory = inputs.directory.as_path();
    let core = inputs.rust_src.join("core/src/lib.rs");
    if !core.is_file() {
        return Err(ModuleError::MissingInput {
            what: "core/src/lib.rs".into(),
            path: inputs.rust_src.clone(),
        });
    }
    let flags: Vec<&str> = inputs.flags().collect();
    let id =
        short_hash(&[rustc, &flags.join(" "), "bitcode", NO_BUILTINS, &inputs.rust_src.to_string_lossy()]);
    let sysroot = directory.join(format!("rust-library-{id}"));
    if sysroot.is_dir() {
        return Ok(sysroot);
    }

    remove_starting_with(directory, "rust-library-")?;
    let partial = directory.join("rust-library.partial");
    let _ = fs::remove_dir_all(&partial);
    let out = partial.join("lib/rustlib").join(TARGET).join("lib");
    create_dir(&out)?;
    let builtins = partial.join("compiler_builtins.rs");
    fs::write(&builtins, NO_BUILTINS).map_err(io_error("write", &builtins))?;
    for (name, source) in
        [("core", core), ("compiler_builtins", builtins), ("alloc", inputs.rust_src.join("alloc/src/lib.rs"))]
    {
        let mut command = Command::new(&inputs.rustc);
        bootstrap(&mut command)
            .current_dir(&inputs.workspace)
            .args(["--target", TARGET, "--crate-type", "rlib", "--edition", "2024", "--cap-lints", "allow"])
            // Bitcode alone: the driver core is optimised together with it, and takes no machine code from here.
            .args(["--crate-name", name, "-Copt-level=2", "-Clinker-plugin-lto"])
            .args(inputs.flags())
            .arg("--sysroot")
            .arg(&partial)
            .arg("--out-dir")
            .arg(&out)
            .arg(remap(&inputs.rust_src, "/rust"))
            .arg(&source);
        run("compiling Rust's core library", &mut command)?;
    }
    fs::rename(&partial, &sysroot).map_err(io_error("rename", &partial))?;
    Ok(sysroot)
}

/// Compiles the driver core with the library in `sysroot`.
fn driver(inputs: &CoreInputs, sysroot: &Path) -> Result<CoreObject, ModuleError> {
    let directory = inputs.directory.as_path();
    let crate_dir = inputs.workspace.join("guest-driver/linux");
    let target_dir = directory.join("rust-target");
    let mut flags = vec!["--sysroot".to_owned(), sysroot.display().to_string()];
    flags.extend(inputs.flags().map(str::to_owned));
    flags.push(remap(&inputs.workspace, "/belfry"));
    flags.push(remap(&inputs.rust_src, "/rust"));
    let mut command = Command::new(&inputs.cargo);
    bootstrap(&mut command)
        .current_dir(&crate_dir)
        .args(["build", "--release", "--target", TARGET, "--target-dir"])
        .arg(&target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run("compiling the driver core", &mut command)?;

    // Of the archive exactly one member is ours: link-time optimisation has put everything into it.
    let release = target_dir.join(TARGET).join("release");
    let archive = release.join("libbelfry_kmod.a");
    let members = run("ar t", Command::new("ar").arg("t").arg(&archive))?;
    let ours: Vec<&str> = members
        .lines()
        .filter(|name| name.starts_with("belfry_kmod") || name.starts_with("libbelfry_kmod"))
        .collect();
    let [member] = ours.as_slice() else {
        return Err(ModuleError::MissingInput {
            what: format!("a single member of the driver core (there are {})", ours.len()),
            path: archive,
        });
    };
    let object = directory.join("core.rs.o");
    let content = Command::new("ar").arg("p").arg(&archive).arg(member).output();
    let content = content.map_err(io_error("read", &archive))?.stdout;
    fs::write(&object, content).map_err(io_error("write", &object))?;
    Ok(CoreObject { object, sources: release.join("libbelfry_kmod.d") })
}

/// Lets a stable compiler take the kernel's flags, and keeps an outer cargo's settings away from it.
fn bootstrap(command: &mut Command) -> &mut Command {
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        command.env_remove(name);
    }
    // An incremental build has many small units, so other functions are inlined: one has a frame that no kernel stack has room for.
    command.env("CARGO_INCREMENTAL", "0").env("RUSTC_BOOTSTRAP", "1")
}

/// Keeps the place of a directory out of panic messages and debug information.
fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}
