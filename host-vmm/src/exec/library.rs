//! The library that programs are started with; it is embedded in this binary.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use belfry_embedded::PRELOAD as LIBRARY;
pub(super) use belfry_embedded::preload_identity as identity;

use super::ExecError;

/// Puts the library in a place from which the dynamic linker can load it, unless it is there; returns its path.
pub(super) fn publish(directory: &Path) -> Result<PathBuf, ExecError> {
    let identity = identity().ok_or(ExecError::NoLibrary)?;
    let path = directory.join(format!("libbelfry-preload-{identity}.so"));
    if fs::metadata(&path).is_ok_and(|there| there.len() == LIBRARY.len() as u64) {
        return Ok(path);
    }
    let mut file =
        tempfile::NamedTempFile::new_in(directory).map_err(ExecError::io("create in", directory))?;
    file.write_all(LIBRARY).map_err(ExecError::io("write", file.path().to_path_buf()))?;
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(ExecError::io("change the mode of", file.path().to_path_buf()))?;
    // A faster process has put an equal file there.
    file.persist(&path).map_err(|error| ExecError::io("rename to", &path)(error.error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the versions of the C library's symbols that the library asks for: they are strings of its dynamic
    /// string table.
    #[test]
    fn library_needs_no_c_library_newer_than_the_oldest_root() {
        use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
        let file: ElfFile64<'_> = ElfFile64::parse(LIBRARY).unwrap();
        let (header, endian) = (file.elf_header(), file.endian());
        let sections = header.sections(endian, LIBRARY).unwrap();
        let (_, strings) = sections
            .iter()
            .filter_map(|section| section.dynamic(endian, LIBRARY).ok().flatten())
            .next()
            .unwrap();
        let strings = sections.section(strings).unwrap().data(endian, LIBRARY).unwrap();
        let mut versions = 0;
        for name in strings.split(|&byte| byte == 0).filter_map(|name| name.strip_prefix(b"GLIBC_")) {
            let name = std::str::from_utf8(name).unwrap();
            let numbers: Vec<u32> = name.split('.').map(|part| part.parse().unwrap()).collect();
            assert!(numbers <= vec![2, 34], "GLIBC_{name}");
            versions += 1;
        }
        assert!(versions > 3, "{versions} versions");
    }

    /// Checks that the library defines each of these functions, which the dynamic linker looks up first.
    #[test]
    fn library_has_the_functions_programs_call() {
        use object::read::{Object as _, ObjectSymbol as _};
        let file: object::read::elf::ElfFile64<'_> = object::read::elf::ElfFile64::parse(LIBRARY).unwrap();
        let names: Vec<&str> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        for name in [
            "open",
            "open64",
            "openat",
            "__open_2",
            "fopen",
            "freopen",
            "opendir",
            "readdir",
            "stat",
            "fstat",
            "statx",
            "access",
            "faccessat",
            "readlink",
            "realpath",
            "getcwd",
            "chdir",
            "glob",
            "nftw",
            "fts_open",
            "ioctl",
            "lseek",
            "mmap",
            "munmap",
            "mremap",
            "mprotect",
            "sigaction",
            "signal",
            "pthread_create",
            "close",
            "close_range",
            "dup2",
            "execve",
            "execl",
            "execle",
            "execlp",
            "posix_spawn",
            "system",
            "popen",
            "clearenv",
            "_exit",
            "quick_exit",
            "syscall",
            "_Fork",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
