//! The files and arguments that a program takes into a guest, and the files that are brought back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belfry_examples::launch;
use belfry_guest::{Guest, GuestError};
use belfry_image::guest::EXAMPLES;
use belfry_process::files;

use super::{PROGRAM_DIRECTORY, RunError, RunOptions};

/// A program on its way into a guest.
#[derive(Debug)]
pub(super) struct Errand {
    /// Command line in the guest.
    pub(super) argv: Vec<String>,
    /// Files to put there: path, permission bits, content.
    files: Vec<(String, u32, Vec<u8>)>,
    /// Files to fetch from the guest when the program has succeeded: the guest's path, and the path here.
    outputs: Vec<(String, PathBuf)>,
}

impl Errand {
    /// Collects everything before the boot, so that a missing file is reported early.
    pub(super) fn new(options: &RunOptions, program: &str, arguments: &[String]) -> Result<Self, RunError> {
        let mut files = Vec::new();
        let mut outputs = Vec::new();
        let mut argv = vec![EXAMPLES.to_owned(), program.to_owned()];
        if options.root.is_some() {
            argv = vec![program.to_owned()];
            if let Some((path, content)) = carried(program)? {
                argv = vec![path.clone()];
                files.push((path, 0o755, content));
            }
            argv.extend_from_slice(arguments);
        } else if program == "launch" {
            let carried = launch::files(arguments).map_err(RunError::Arguments)?;
            for file in carried.inputs {
                files.push((guest_path(&file.guest), 0o644, read(&file.host)?));
            }
            outputs =
                carried.outputs.iter().map(|file| (guest_path(&file.guest), file.host.clone())).collect();
            argv.extend(carried.args);
        } else if belfry_examples::NAMES.contains(&program) {
            argv.extend_from_slice(arguments);
        } else {
            let content = read(Path::new(program))?;
            check_static(program, &content)?;
            let name = Path::new(program).file_name().unwrap_or_default();
            let path = guest_path(&Path::new("/bin").join(name));
            argv = vec![path.clone()];
            argv.extend_from_slice(arguments);
            files.push((path, 0o755, content));
        }
        for mapping in &options.files {
            let path = mapping.path().map_err(|error| RunError::Arguments(error.into()))?;
            files.push((path, 0o755, read(&mapping.host)?));
        }
        Ok(Self { argv, files, outputs })
    }

    /// Puts the files into the guest.
    pub(super) fn send(&self, guest: &mut Guest) -> Result<(), GuestError> {
        for (path, mode, content) in &self.files {
            guest.put_file(path, *mode, content)?;
        }
        // Directories of outputs must be there before the program writes.
        for (path, _) in &self.outputs {
            guest.put_file(path, 0o644, b"")?;
        }
        Ok(())
    }

    /// Brings the outputs back.
    pub(super) fn fetch(&self, guest: &mut Guest) -> Result<(), RunError> {
        for (path, host) in &self.outputs {
            let content = guest.get_file(path)?;
            fs::write(host, content).map_err(|source| file_error("write", host, source))?;
        }
        Ok(())
    }
}

/// Returns the path and content of a program that a root file system does not have: one named by a relative path with
/// a slash.
///
/// The program goes to the program directory. Names and absolute paths are looked up in the root.
fn carried(program: &str) -> Result<Option<(String, Vec<u8>)>, RunError> {
    let path = Path::new(program);
    if path.is_absolute() || !program.contains('/') {
        return Ok(None);
    }
    let name = path.file_name().filter(|_| path.is_file());
    let name = name.ok_or_else(|| RunError::NoFile(program.to_owned()))?;
    Ok(Some((guest_path(&Path::new(PROGRAM_DIRECTORY).join(name)), read(path)?)))
}

/// Refuses a program that needs a loader or libraries, for a guest that has none.
fn check_static(program: &str, content: &[u8]) -> Result<(), RunError> {
    use object::read::elf::{FileHeader as _, ProgramHeader as _};
    let bad = |why| RunError::BadProgram { program: program.to_owned(), why };
    let header = object::elf::FileHeader64::<object::Endianness>::parse(content)
        .map_err(|_| bad("not a 64-bit ELF program"))?;
    let endian = header.endian().map_err(|_| bad("not a 64-bit ELF program"))?;
    if header.e_machine(endian) != object::elf::EM_X86_64 {
        return Err(bad("not an x86-64 program"));
    }
    let segments =
        header.program_headers(endian, content).map_err(|_| bad("its program headers are damaged"))?;
    if segments.iter().any(|segment| segment.p_type(endian) == object::elf::PT_INTERP) {
        return Err(bad("dynamically linked, and the guest has no libraries; link it statically"));
    }
    Ok(())
}

/// Returns the path in the guest for a path here.
fn guest_path(path: &Path) -> String {
    path.display().to_string()
}

/// Largest program that is put into a guest, in bytes.
const MAX_FILE: u64 = 1 << 30;

fn read(path: &Path) -> Result<Vec<u8>, RunError> {
    files::read(path, MAX_FILE).map_err(|source| file_error("read", path, source))
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> RunError {
    RunError::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_have_their_programs_and_get_those_named_by_a_path_of_this_machine() {
        let options = RunOptions {
            root: Some(belfry_image::rootfs::Root::Named("rocm".into())),
            ..RunOptions::default()
        };
        let errand = |program: &str| Errand::new(&options, program, &["-x".to_owned()]);
        for program in ["rocminfo", "/usr/bin/env", "launch", "vector-add"] {
            let errand = errand(program).unwrap();
            assert_eq!((errand.argv, errand.files.len()), (vec![program.to_owned(), "-x".into()], 0));
        }
        let errand_of_file = errand("src/../Cargo.toml").unwrap();
        assert_eq!(errand_of_file.argv, ["/root/Cargo.toml", "-x"]);
        let [(path, mode, content)] = &errand_of_file.files[..] else { panic!("one file") };
        assert_eq!((path.as_str(), *mode), ("/root/Cargo.toml", 0o755));
        assert_eq!(*content, fs::read("Cargo.toml").unwrap());
        for missing in ["./no-such-file", "./", "src/"] {
            let error = errand(missing).unwrap_err().to_string();
            assert!(error.contains(missing) && error.contains("absolute path"), "{error}");
        }
    }

    #[test]
    fn programs_that_cannot_run_are_named() {
        assert!(matches!(check_static("x", b"#!/bin/sh\n"), Err(RunError::BadProgram { .. })));
        let own = fs::read("/proc/self/exe").unwrap();
        let error = check_static("self", &own).unwrap_err();
        assert!(error.to_string().contains("dynamically linked"), "{error}");
    }
}
