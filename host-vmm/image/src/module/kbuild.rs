//! The kernel's own build: a tree of headers that works where it was unpacked, and the link of the module.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    GateError, ModuleError, ModuleInputs, create_dir, io_error, leave_outer_make, need_tool,
    remove_starting_with, run, short_hash,
};

/// Raised when [`prepare`] changes, so that an old tree is not taken for a new one.
const TREE: &str = "tree 2";

const FIX: &str = "install a C compiler and make (Debian: apt install gcc libc6-dev make)";

/// Fails when a program that kbuild or the gate starts is missing.
pub(super) fn check_tools() -> Result<(), ModuleError> {
    for program in ["gcc", "ld", "nm", "objdump", "objcopy"] {
        need_tool(program, FIX)?;
    }
    Ok(())
}

/// The machine's `make`, or the one that came with the headers.
fn make(inputs: &ModuleInputs, tree: &Path) -> Result<PathBuf, ModuleError> {
    let missing = match need_tool("make", FIX) {
        Ok(()) => return Ok("make".into()),
        Err(missing) => missing,
    };
    let real = inputs.headers.join("usr/bin/make");
    if !real.is_file() {
        return Err(missing);
    }
    let path = tree.join("make");
    script(&path, &under_own_loader(inputs, "\"$0\"", &format!("'{}'", real.display()))?)?;
    Ok(path)
}

/// Links shim and object into `amdgpu.ko` and returns its path.
pub(super) fn link(inputs: &ModuleInputs, directory: &Path) -> Result<PathBuf, ModuleError> {
    let tree = prepare(inputs, directory)?;
    let work = directory.join("kbuild");
    let _ = fs::remove_dir_all(&work);
    create_dir(&work)?;
    for (name, content) in inputs.shim.iter().copied().chain([("core.rs.o", inputs.core)]) {
        let path = work.join(name);
        fs::write(&path, content).map_err(io_error("write", &path))?;
    }

    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new(make(inputs, &tree)?);
    command
        .arg("-C")
        .arg(tree.join(format!("usr/src/linux-headers-{}", inputs.release)))
        .arg(format!("M={}", work.display()))
        .arg(format!("CC={}", tree.join("cc").display()))
        .arg(format!("-j{jobs}"))
        // The packages ship no vmlinux with type information that pahole could use.
        .arg("CONFIG_DEBUG_INFO_BTF_MODULES=")
        .arg("modules");
    leave_outer_make(&mut command);
    let output = run("kbuild", &mut command)?;
    // objtool checks the linked module, Rust half included: its complaints are about unwinding and mitigations.
    let complaints: Vec<String> = output
        .lines()
        .filter(|line| line.contains("objtool") || line.contains("modpost:"))
        .map(str::to_owned)
        .collect();
    if !complaints.is_empty() {
        return Err(GateError::Kbuild { complaints }.into());
    }
    Ok(work.join("amdgpu.ko"))
}

/// Makes a copy of the header tree that builds where it is and with this machine's compiler; once per kernel.
fn prepare(inputs: &ModuleInputs, directory: &Path) -> Result<PathBuf, ModuleError> {
    let release = &inputs.release;
    let base = release.strip_suffix("-amd64").unwrap_or(release);
    // Absolute paths go into it: a cache that moved needs another one.
    let places = [inputs.headers.as_path(), inputs.kbuild_libs.as_path(), directory]
        .map(|path| path.display().to_string());
    let tree = directory.join(format!("kbuild-{release}-{}", short_hash(&[TREE, &places.join(":")])));
    if tree.is_dir() {
        return Ok(tree);
    }
    remove_starting_with(directory, &format!("kbuild-{release}-"))?;
    let partial = directory.join("kbuild-tree.partial");
    let _ = fs::remove_dir_all(&partial);
    create_dir(&partial.join("usr/lib"))?;
    let kbuild = format!("usr/lib/linux-kbuild-{base}");
    for (source, into) in [("usr/src", "usr"), (kbuild.as_str(), "usr/lib")] {
        let source = inputs.headers.join(source);
        if !source.is_dir() {
            return Err(ModuleError::MissingInput { what: format!("headers of {release}"), path: source });
        }
        run("copying kernel headers", Command::new("cp").arg("-a").arg(&source).arg(partial.join(into)))?;
    }

    // The packages assume to be installed: their Makefiles include one another by absolute path.
    let headers = partial.join(format!("usr/src/linux-headers-{release}"));
    let makefile = headers.join("Makefile");
    fs::write(
        &makefile,
        format!("include {}/usr/src/linux-headers-{base}-common/Makefile\n", tree.display()),
    )
    .map_err(io_error("write", &makefile))?;
    let variables = headers.join(".kernelvariables");
    fs::write(&variables, format!("override ARCH = x86\noverride KERNELRELEASE = {release}\n"))
        .map_err(io_error("write", &variables))?;

    // Debian's dispatchers choose a program per architecture by a path that does not exist here.
    let kbuild = partial.join(&kbuild);
    for (program, real) in [
        ("scripts/mod/modpost", "scripts/mod/modpost.real-lsb-64"),
        ("tools/objtool/objtool", "tools/objtool/objtool.real-x86"),
        ("scripts/basic/fixdep", "scripts/basic/fixdep"),
        ("scripts/genksyms/genksyms", "scripts/genksyms/genksyms"),
    ] {
        wrap(inputs, &kbuild.join(program), &kbuild.join(real))?;
    }
    let compiler = partial.join("cc");
    script(&compiler, COMPILER)?;
    fs::rename(&partial, &tree).map_err(io_error("rename", &partial))?;
    Ok(tree)
}

/// gcc before version 14 knows one flag of the kernel's configuration by another name.
const COMPILER: &str = r#"#!/bin/sh
for argument do
    shift
    case $argument in
    -fmin-function-alignment=*) argument=-falign-functions=${argument#*=} ;;
    esac
    set -- "$@" "$argument"
done
exec gcc "$@"
"#;

/// Replaces `program` by a script that runs `real` under the C library it was built against, which may be newer than
/// the machine's.
fn wrap(inputs: &ModuleInputs, program: &Path, real: &Path) -> Result<(), ModuleError> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let moved = program.with_file_name(format!("{name}.elf"));
    copy(real, &moved)?;
    // The tree is renamed when it is complete: find the program beside the script.
    script(program, &under_own_loader(inputs, &name, &format!("\"$(dirname \"$0\")/{name}.elf\""))?)
}

/// A script that starts `program` under the C library it was built against; both are words of the shell.
fn under_own_loader(inputs: &ModuleInputs, argv0: &str, program: &str) -> Result<String, ModuleError> {
    let libraries = inputs.kbuild_libs.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    if !loader.is_file() {
        return Err(ModuleError::MissingInput {
            what: "the loader of kbuild's programs".into(),
            path: libraries,
        });
    }
    let (loader, libraries) = (loader.display(), libraries.display());
    Ok(format!("#!/bin/sh\nexec '{loader}' --library-path '{libraries}' --argv0 {argv0} {program} \"$@\"\n"))
}

fn script(path: &Path, content: &str) -> Result<(), ModuleError> {
    let _ = fs::remove_file(path);
    fs::write(path, content).map_err(io_error("write", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(io_error("mark executable", path))
}

fn copy(from: &Path, to: &Path) -> Result<(), ModuleError> {
    fs::copy(from, to).map(drop).map_err(io_error("copy", from))
}
