//! Disks as a guest's kernel sees them: one that takes writes and one that does not.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate};

/// Bytes of each disk, and of a piece read at a time.
pub const SIZE: u64 = 6 << 20;
const PIECE: usize = 1 << 20;

/// A disk's contents before anything is written.
#[must_use]
pub fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at / 512 * 31 + at * 7) as u8).collect()
}

/// Reads, writes and zeroes `/dev/vda`, and is refused writes to `/dev/vdb`.
///
/// # Errors
///
/// A disk that is not there, or whose content is not as expected.
pub fn run(output: &mut dyn Write) -> Result<()> {
    let disk = File::options().read(true).write(true).open("/dev/vda").context("/dev/vda")?;
    let mut expected = content();
    compare(&disk, &expected, "vda")?;
    for (at, length, byte) in [(512, 4096, 0x11), (1 << 20, 1 << 20, 0x22), (SIZE - 512, 512, 0x33)] {
        let data = vec![byte; length];
        disk.write_all_at(&data, at)?;
        expected[at as usize..at as usize + length].copy_from_slice(&data);
    }
    disk.sync_all().context("flushing vda")?;
    let flags = FallocateFlags::KEEP_SIZE;
    for (what, flags, at, length) in [
        ("punching a hole", flags | FallocateFlags::PUNCH_HOLE, 3 << 19, 1 << 20),
        ("zeroing", flags | FallocateFlags::ZERO_RANGE, (4 << 20) + 4096, 12288),
    ] {
        fallocate(&disk, flags, at, length).context(what)?;
        expected[at as usize..(at + length) as usize].fill(0);
    }
    // The kernel's copies in memory would hide the content of the disks.
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches")?;
    compare(&disk, &expected, "vda after writes")?;

    let read_only = fs::read_to_string("/sys/block/vdb/ro").context("/sys/block/vdb")?;
    ensure!(read_only.trim() == "1", "vdb is not read only");
    compare(&File::open("/dev/vdb")?, &content(), "vdb")?;
    let writable = File::options().write(true).open("/dev/vdb");
    let refused = writable.and_then(|disk| disk.write_all_at(&[0; 512], 0).and_then(|()| disk.sync_all()));
    ensure!(refused.is_err(), "vdb takes writes");

    let serial = |name: &str| fs::read_to_string(format!("/sys/block/{name}/serial"));
    writeln!(output, "disks {} and {}: verified", serial("vda")?.trim(), serial("vdb")?.trim())?;
    Ok(())
}

fn compare(disk: &File, expected: &[u8], what: &str) -> Result<()> {
    let mut data = vec![0; PIECE];
    for (number, expected) in expected.chunks(PIECE).enumerate() {
        let at = (number * PIECE) as u64;
        disk.read_exact_at(&mut data[..expected.len()], at).with_context(|| format!("{what} at {at:#x}"))?;
        let wrong = data.iter().zip(expected).position(|(found, expected)| found != expected);
        ensure!(wrong.is_none(), "{what} differs at {:#x}", at + wrong.unwrap_or_default() as u64);
    }
    let end = disk.read_at(&mut data, expected.len() as u64)?;
    ensure!(end == 0, "{what} goes on for {end} bytes behind its end");
    Ok(())
}
