//! The record of a start. With it, the next start with these options is done before this binary has begun
//! (`host-vmm/start`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use belfry_start::record;

/// Conditions of a start, and the environment that the program got.
#[derive(Debug)]
pub(super) struct Again<'a> {
    /// Words of the command line between `exec` and `--`.
    pub(super) options: &'a [OsString],
    /// Text that was written to standard error.
    pub(super) notice: &'a str,
    /// Paths that must be there.
    pub(super) present: &'a [&'a Path],
    /// Paths that must not be there.
    pub(super) absent: &'a [PathBuf],
    /// Variables of the program.
    pub(super) variables: &'a [(&'a str, &'a OsStr)],
    /// Variables that the program does not get.
    pub(super) without: &'a [&'a str],
}

/// A record in the making.
struct Content(Vec<u8>);

impl Content {
    fn add(&mut self, kind: u8, value: &[u8]) {
        // Values are paths and small files, so their lengths fit.
        let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.0.push(kind);
        self.0.extend(size.to_le_bytes());
        self.0.extend(value);
        self.0.push(0);
    }
}

impl Again<'_> {
    /// Writes the record. Without a record, or if it cannot be written, the next start is as long as this one.
    pub(super) fn write(&self, directory: &Path) {
        if let Err(error) = self.try_write(directory) {
            log::debug!("no record of this start in {}: {error}", directory.display());
        }
    }

    fn try_write(&self, directory: &Path) -> io::Result<()> {
        let options: Vec<u8> =
            self.options.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect();
        let binary = record::identity_bytes(&identity()?);
        let groups = fs::read("/proc/self/cgroup").unwrap_or_default();
        if groups.is_empty() || groups.len() > record::MAX_CGROUP {
            return Ok(());
        }
        let mut content = Content(record::MAGIC.to_vec());
        content.add(record::OPTIONS, &options);
        content.add(record::BINARY, &binary);
        content.add(record::MEMORY, &memory().to_le_bytes());
        content.add(record::PROCESSORS, &processors()?);
        content.add(record::CGROUP, &groups);
        for path in self.present {
            content.add(record::PRESENT, path.as_os_str().as_bytes());
        }
        for path in self.absent {
            content.add(record::ABSENT, path.as_os_str().as_bytes());
        }
        if !self.notice.is_empty() {
            content.add(record::NOTICE, self.notice.as_bytes());
        }
        for (name, value) in self.variables {
            content.add(record::VARIABLE, &[name.as_bytes(), b"=", value.as_bytes()].concat());
        }
        for name in self.without {
            content.add(record::WITHOUT, format!("{name}=").as_bytes());
        }
        content.add(record::END, &[]);
        if content.0.len() > record::MAX_SIZE {
            return Ok(());
        }
        let hash =
            options.iter().chain(&binary).fold(record::FNV_START, |so_far, &byte| record::hash(so_far, byte));
        let path = directory.join(format!("{}{hash:016x}", record::NAME));
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&content.0)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Identifies the file of this binary.
fn identity() -> io::Result<record::Identity> {
    let stat = fs::metadata("/proc/self/exe")?;
    Ok([stat.dev(), stat.ino(), stat.size(), stat.mtime() as u64, stat.mtime_nsec() as u64])
}

/// Returns the bytes of memory, as the kernel reports them.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).wrapping_mul(info.mem_unit.into())
}

/// Returns the processors that this process may use, as the kernel reports them.
fn processors() -> io::Result<Vec<u8>> {
    let mut mask = vec![0u8; record::MAX_CGROUP];
    // SAFETY: the kernel writes no more than the size that it is given.
    let have = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len(), mask.as_mut_ptr()) };
    mask.truncate(usize::try_from(have).map_err(|_| io::Error::last_os_error())?);
    Ok(mask)
}

#[cfg(test)]
mod tests {
    /// Checks the calls of the entry, which runs before the binary is relocated: a call of any other function, such
    /// as `memcpy`, would go nowhere.
    #[test]
    fn entry_calls_nothing_but_the_start_of_the_c_library() {
        use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
        let Some(path) = option_env!("BELFRY_START_OBJECT") else {
            return;
        };
        let bytes = std::fs::read(path).unwrap();
        let file: object::read::elf::ElfFile64<'_> = object::read::elf::ElfFile64::parse(&*bytes).unwrap();
        let undefined: Vec<&str> = file
            .symbols()
            .filter(|symbol| symbol.is_undefined())
            .filter_map(|symbol| symbol.name().ok().filter(|name| !name.is_empty()))
            .collect();
        assert_eq!(undefined, ["_start"]);
        let relocated: Vec<&str> = file
            .sections()
            .filter(|section| {
                section.name().is_ok_and(|name| name.starts_with(".data")) && section.size() > 0
            })
            .filter_map(|section| section.name().ok())
            .collect();
        assert_eq!(relocated, [""; 0], "initialised pointers are not there yet");
    }
}
