//! The library that programs are started with: it travels in this binary.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::ExecError;

/// The library, as `build.rs` has built it.
static LIBRARY: &[u8] = include_bytes!(env!("BELFRY_PRELOAD"));

/// What tells this library from those of other versions.
pub(super) fn identity() -> &'static str {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let build_id = build_id(LIBRARY).unwrap_or(LIBRARY);
        let mut hash = Sha256::new();
        hash.update((LIBRARY.len() as u64).to_le_bytes());
        hash.update(build_id);
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    })
}

/// The linker's hash of what an ELF file holds (`NT_GNU_BUILD_ID`): reading it takes no time, hashing the file would.
fn build_id(file: &[u8]) -> Option<&[u8]> {
    use object::read::Object as _;
    use object::read::elf::ElfFile64;
    let file: ElfFile64<'_> = ElfFile64::parse(file).ok()?;
    file.build_id().ok().flatten()
}

/// Puts the library where the dynamic linker can load it, unless it is there; its path.
pub(super) fn publish(directory: &Path) -> Result<PathBuf, ExecError> {
    let path = directory.join(format!("libbelfry-preload-{}.so", identity()));
    if fs::metadata(&path).is_ok_and(|there| there.len() == LIBRARY.len() as u64) {
        return Ok(path);
    }
    let mut file =
        tempfile::NamedTempFile::new_in(directory).map_err(ExecError::io("create in", directory))?;
    file.write_all(LIBRARY).map_err(ExecError::io("write", file.path().to_path_buf()))?;
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(ExecError::io("change the mode of", file.path().to_path_buf()))?;
    // Whoever was faster has put the same file there.
    file.persist(&path).map_err(|error| ExecError::io("rename to", &path)(error.error))?;
    Ok(path)
}
