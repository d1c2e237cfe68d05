//! Guests that have booted and loaded their driver, kept as snapshots; later runs go on from them.
//!
//! They are in the cache's folder `warm`, each under the digest of everything that it was booted from: this program,
//! the kernel, the initramfs with driver and init, the machine and the GPU.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use belfry_device::{GpuConfig, record};
use belfry_guest::{Guest, GuestConfig};
use belfry_image::{Cache, GuestImage, ImageError};
use belfry_machine::DoorbellMode;
use belfry_machine::snapshot::Snapshot;
use sha2::{Digest as _, Sha256};

use super::RunError;
use crate::snapshot::describe;

/// Number of snapshots that are kept: the last used ones.
const KEPT: usize = 4;
/// Bytes of the disk that all of them may take.
const MOST: u64 = 4 << 30;

/// Returns the path of the snapshot of such a guest.
pub(super) fn place(
    image: &GuestImage,
    config: &GuestConfig,
    doorbell: DoorbellMode,
    cache: &Cache,
) -> Result<PathBuf, RunError> {
    let identity = |path: &Path| -> Result<String, RunError> {
        let metadata = fs::metadata(path).map_err(|source| RunError::File {
            action: "look at",
            path: path.to_owned(),
            source,
        })?;
        let (device, inode, bytes) = (metadata.dev(), metadata.ino(), metadata.len());
        Ok(format!("{device} {inode} {bytes} {}.{}", metadata.mtime(), metadata.mtime_nsec()))
    };
    let GpuConfig { chip, xccs, partition, cus, vram_size, deterministic, quantum, .. } =
        config.gpus.first().cloned().unwrap_or_default();
    // The program itself: another build may save other state, or read the saved state in another way.
    let program = identity(Path::new("/proc/self/exe"))?;
    let kernel = identity(&image.kernel.image)?;
    let initramfs = record::digest(&image.initramfs().map_err(ImageError::from).map_err(RunError::Image)?);
    let parts = format!(
        "{program}; {} {kernel}; {initramfs:x}; {} {xccs} {partition:?} {cus} {vram_size} {deterministic:?} {quantum:?}; {} {} {doorbell:?} {:?}",
        image.kernel.id, chip.name, config.cpus, config.memory, config.append
    );
    let digest = Sha256::digest(parts.as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(cache.root().join("warm").join(name))
}

/// Goes on from a kept snapshot; `None` if there is none.
pub(super) fn resume(place: &Path, gpu: GpuConfig, cache: &Cache) -> Result<Option<Guest>, RunError> {
    if !place.exists() {
        return Ok(None);
    }
    let snapshot = Snapshot::open(place)?;
    let (guest, _) = Guest::resume(&snapshot, gpu, cache)?;
    // A use updates the file's time, so that the file is removed last.
    if let Ok(file) = fs::File::options().append(true).open(place) {
        let _ = file.set_modified(SystemTime::now());
    }
    Ok(Some(guest))
}

/// Keeps a guest that runs no program yet; returns a description of the snapshot.
pub(super) fn keep(guest: &Guest, place: &Path) -> Result<String, RunError> {
    let Some(saver) = guest.saver() else { return Err(RunError::WrongGuest("its machine cannot be saved")) };
    let failed = |source| RunError::File { action: "make", path: place.to_owned(), source };
    let folder = place.parent().unwrap_or(place);
    fs::create_dir_all(folder).map_err(failed)?;
    guest.keep(None);
    let saved = saver.save(place)?;
    bound(folder, place).map_err(failed)?;
    Ok(format!("kept for the next run: {}", describe(&saved)))
}

/// Removes the snapshots that were not used for longest, but never `place`.
fn bound(folder: &Path, place: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        files.push((metadata.modified()?, metadata.blocks() * 512, entry.path()));
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.0));
    let mut bytes = 0;
    for (at, (_, size, path)) in files.into_iter().enumerate() {
        bytes += size;
        if (at >= KEPT || bytes > MOST) && path != place {
            // Machines that go on from it have it mapped, and keep it until they end.
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..KEPT as u64 + 3 {
            let file = fs::File::create(folder.path().join(number.to_string())).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number)).unwrap();
        }
        bound(folder.path(), &folder.path().join("0")).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0", "3", "4", "5", "6"]);
    }
}
