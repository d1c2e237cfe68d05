//! Builds the parts that the binary carries: the guest's driver core and programs, the bare-metal guest, the program that
//! loads OpenCL. The library of `belfry exec` is a dependency of this package, with the profile and the crates of the build at hand.
//!
//! Each part is a package of this repository. Cargo builds it in a directory of its own, always optimised and always in the
//! same way: the profile of the build at hand and its flags (instrumentation of fuzzers, static linking) are not for
//! them. Cargo lists the sources of each part, so that no change of a source leaves an old part in the binary.

#[path = "src/toolchain.rs"]
mod toolchain;

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::{Mutex, PoisonError};
use std::thread;

use belfry_image::artifacts::rust_sources;
use belfry_image::module::ModuleError;
use belfry_image::module::core_object::{self, CoreInputs};
use belfry_image::{Cache, Freshness, Progress};
use miniz_oxide::deflate::compress_to_vec_zlib;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Effort of compression, of 0 to 10: from here on, the parts grow no smaller.
const EFFORT: u8 = 8;
const HOST: &str = "x86_64-unknown-linux-gnu";
const BARE: &str = "x86_64-unknown-none";

fn main() {
    // Not by returning it: that would be printed in the form for debugging, on one line.
    if let Err(error) = Build::from_environment().and_then(|build| build.everything()) {
        eprintln!("{error}");
        exit(1);
    }
}

/// One run of this program.
struct Build {
    cargo: PathBuf,
    rustc: PathBuf,
    workspace: PathBuf,
    /// Directory in which the parts are built.
    directory: PathBuf,
    /// Directory from which the crate takes them.
    out: PathBuf,
    /// Files that the parts were made of.
    watched: Mutex<BTreeSet<PathBuf>>,
}

/// A part that could be built, or the requirement that is missing.
enum Built {
    Part(PathBuf),
    Lacks(String),
}

impl Build {
    fn from_environment() -> Result<Self> {
        let path = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
        let manifest = path("CARGO_MANIFEST_DIR")?;
        let workspace = manifest.ancestors().nth(2).ok_or("this package lies in no workspace")?.to_owned();
        let out = path("OUT_DIR")?;
        let directory =
            target_directory(&out, &workspace)?.join("embedded").join(identity(workspace.as_os_str()));
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let (cargo, rustc) = (path("CARGO")?, path("RUSTC")?);
        Ok(Self { cargo, rustc, workspace, directory, out, watched: Mutex::default() })
    }

    fn everything(&self) -> Result<()> {
        // Builds of other profiles run this at the same time, in the same directory.
        let lock = File::create(self.directory.join("lock"))?;
        lock.lock()?;
        for file in ["host-vmm/embedded/build.rs", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            self.watch(&self.workspace.join(file));
        }
        self.preload()?;
        // The driver core is one unit after the other, on one processor: the other parts take the rest.
        thread::scope(|scope| {
            let core = scope.spawn(|| self.keep("core.rs.o", self.driver_core()?));
            self.programs()?;
            self.opencl()?;
            self.keep("bare-metal", self.bare_metal()?)?;
            core.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        self.shim()?;
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let list: String = watched.iter().map(|path| format!("{}\n", path.display())).collect();
        for path in list.lines() {
            println!("cargo::rerun-if-changed={path}");
        }
        Ok(fs::write(self.out.join("sources.txt"), list)?)
    }

    /// The library that programs of `belfry exec` are started with.
    ///
    /// Cargo makes it before it compiles this package, which depends on it. `cargo check` compiles this package without it, so there
    /// is an empty file until the first build.
    fn preload(&self) -> Result<()> {
        let profile = self.out.ancestors().nth(3).ok_or("the output lies in no profile")?;
        let library = profile.join("deps/libbelfry_preload.so");
        match File::create_new(&library) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("{}: {error}", library.display()).into());
            }
            _ => println!("cargo::rustc-env=BELFRY_PRELOAD={}", library.display()),
        }
        Ok(())
    }

    /// The program that loads OpenCL, with shared libraries.
    fn opencl(&self) -> Result<()> {
        let target = self.directory.join("opencl");
        let arguments = ["-p", "belfry-opencl", "--features", "program", "--profile", "guest"];
        self.cargo_build(&self.workspace, &target, None, &arguments)?;
        let program = target.join(HOST).join("guest/belfry-opencl");
        self.watch_sources(&program.with_extension("d"))?;
        self.keep("belfry-opencl", Built::Part(program))
    }

    /// The guest's init and the examples, which run without any library.
    fn programs(&self) -> Result<()> {
        let target = self.directory.join("programs");
        let arguments = ["-p", "belfry-init", "-p", "belfry-examples", "--bins", "--profile", "guest"];
        self.cargo_build(&self.workspace, &target, Some("-Ctarget-feature=+crt-static"), &arguments)?;
        let built = target.join(HOST).join("guest");
        for (part, name) in [("init", "belfry-init"), ("examples", "belfry-examples")] {
            self.watch_sources(&built.join(format!("{name}.d")))?;
            self.keep(part, Built::Part(built.join(name)))?;
        }
        Ok(())
    }

    fn bare_metal(&self) -> Result<Built> {
        let package = self.workspace.join("guests/bare-metal");
        self.watch(&package.join("Cargo.lock"));
        self.watch(&package.join(".cargo/config.toml"));
        let print = ["--print", "target-libdir", "--target", BARE];
        let library = Command::new(&self.rustc).args(print).output()?;
        let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
        if !library.is_dir() {
            self.watch_components(&library);
            let lacks = format!("Rust's library for {BARE} is not installed (rustup target add {BARE})");
            return Ok(Built::Lacks(lacks));
        }
        let target = self.directory.join("bare-metal");
        // It names no place of the build. The package's own flags, which its configuration has, are joined with this one.
        let remap = format!("--remap-path-prefix={}=/belfry", self.workspace.display());
        let remap = format!("target.{BARE}.rustflags=[{remap:?}]");
        self.cargo_build(&package, &target, None, &["--release", "--target", BARE, "--config", &remap])?;
        let built = target.join(BARE).join("release");
        self.watch_sources(&built.join("belfry-bare-metal.d"))?;
        Ok(Built::Part(built.join("belfry-bare-metal")))
    }

    /// The Rust half of the guest's driver. It takes Rust's library sources, which are in the cache or fetched into it.
    fn driver_core(&self) -> Result<Built> {
        self.watch(&self.workspace.join("guest-driver/linux/Cargo.lock"));
        println!("cargo::rerun-if-env-changed=BELFRY_CACHE");
        println!("cargo::rerun-if-env-changed=BELFRY_DEBIAN_MIRROR");
        let sources = Cache::open()
            .map_err(Box::<dyn Error + Send + Sync>::from)
            .and_then(|cache| Ok(rust_sources(&cache, Freshness::Cached, &Progress::silent())?));
        let rust_src = match sources {
            Ok(sources) => sources.library,
            Err(error) => {
                // The component of the toolchain would do, too.
                let print = ["--print", "target-libdir"];
                let library = Command::new(&self.rustc).args(print).output()?;
                self.watch_components(Path::new(String::from_utf8_lossy(&library.stdout).trim()));
                return Ok(Built::Lacks(format!("Rust's library sources cannot be had ({error})")));
            }
        };
        let compiled = core_object::compile(&CoreInputs {
            cargo: self.cargo.clone(),
            rustc: self.rustc.clone(),
            rust_src,
            workspace: self.workspace.clone(),
            directory: self.directory.join("driver"),
            address_sanitizer: false,
        });
        match compiled {
            Ok(compiled) => {
                self.watch_sources(&compiled.sources)?;
                Ok(Built::Part(compiled.object))
            }
            Err(error @ ModuleError::WrongRustc { .. }) => Ok(Built::Lacks(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// The C half: the expression of its files' names and contents.
    fn shim(&self) -> Result<()> {
        let directory = self.workspace.join("guest-driver/linux");
        // For files that are new.
        self.watch(&directory);
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "c" || e == "h") || path.ends_with("Kbuild") {
                files.insert(path);
            }
        }
        let mut text = String::from("&[\n");
        for path in files {
            let name = path.file_name().unwrap_or_default();
            text.push_str(&format!("    ({name:?}, include_bytes!({path:?})),\n"));
        }
        text.push_str("]\n");
        Ok(fs::write(self.out.join("shim.rs"), text)?)
    }

    /// Has cargo build packages of `workspace`, for this machine unless `arguments` say otherwise.
    fn cargo_build(
        &self,
        workspace: &Path,
        target: &Path,
        flags: Option<&str>,
        arguments: &[&str],
    ) -> Result<()> {
        let mut command = Command::new(&self.cargo);
        command.args(["build", "--quiet", "--locked", "--target-dir"]).arg(target).args(arguments);
        if !arguments.contains(&"--target") {
            command.args(["--target", HOST]);
        }
        // Settings of the build at hand.
        for name in
            ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS"]
        {
            command.env_remove(name);
        }
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        if let Some(flags) = flags {
            command.env("CARGO_ENCODED_RUSTFLAGS", flags);
        }
        let status = command.current_dir(workspace).status()?;
        if !status.success() {
            return Err(format!("cargo {} in {}: {status}", arguments.join(" "), workspace.display()).into());
        }
        Ok(())
    }

    /// Puts a part where the crate takes it from. One that is missing is an empty file, with the reason beside it.
    fn keep(&self, name: &str, built: Built) -> Result<()> {
        let (to, why) = (self.out.join(name), self.out.join(format!("{name}.lacks")));
        match built {
            Built::Part(from) => {
                let content = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
                fs::write(to, compress_to_vec_zlib(&content, EFFORT))?;
                fs::write(why, "")?;
            }
            Built::Lacks(reason) => {
                println!("cargo::warning=belfry is built without a part of guests ({name}): {reason}");
                fs::write(to, "")?;
                fs::write(why, reason)?;
            }
        }
        Ok(())
    }

    /// Has the build run again when the toolchain of a library has got another component. What is watched has to be there: with a path
    /// that is not, cargo would build this package and all that has it anew each time.
    fn watch_components(&self, library: &Path) {
        if let Some(path) = toolchain::changes_with_components(library) {
            self.watch(&path);
        }
    }

    fn watch(&self, path: &Path) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Watches every source that cargo lists in `list`, in the form of `make`, and the manifests of their packages.
    fn watch_sources(&self, list: &Path) -> Result<()> {
        let text = fs::read_to_string(list).map_err(|error| format!("{}: {error}", list.display()))?;
        let (_, sources) =
            text.split_once(": ").ok_or_else(|| format!("{} lists nothing", list.display()))?;
        for source in sources.trim().replace("\\ ", "\0").split_whitespace() {
            let source = PathBuf::from(source.replace('\0', " "));
            if let Some(manifest) =
                source.ancestors().map(|d| d.join("Cargo.toml")).find(|path| path.exists())
            {
                self.watch(&manifest);
            }
            self.watch(&source);
        }
        Ok(())
    }
}

/// The directory for everything that cargo builds here, so that each profile finds the parts built. It is the
/// workspace's own, or the one of `out`, which cargo names `TARGET/[TRIPLE/]PROFILE/build/PACKAGE/out`.
fn target_directory(out: &Path, workspace: &Path) -> Result<PathBuf> {
    let own = workspace.join("target");
    if out.starts_with(&own) {
        return Ok(own);
    }
    let above = out.ancestors().nth(4).ok_or_else(|| format!("{} lies in no profile", out.display()))?;
    let triple = above.ends_with(env::var("TARGET")?);
    Ok(above.parent().filter(|_| triple).unwrap_or(above).to_owned())
}

/// Tells apart checkouts that share a target directory: cargo knows sources by their paths and by their age.
fn identity(of: impl std::hash::Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
