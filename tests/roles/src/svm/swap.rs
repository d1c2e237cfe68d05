//! Shared virtual memory while the kernel is short of memory: it swaps pages that the GPU uses.
#![expect(unsafe_code, reason = "gives the kernel a disk to swap to")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use belfry_runtime::Runtime;

use super::{Area, Bench, FILL};
use crate::nodes::PAGE;

/// Bytes of the disk that is swapped to, and of the memory asked for beside the shared memory: more than the guest has.
pub const DISK: u64 = 768 << 20;
const HOG: usize = 480 << 20;
/// Bytes of memory a guest for this has.
pub const MEMORY: u64 = 512 << 20;
/// Pages that are shared.
const PAGES: usize = 8192;

/// Has the kernel swap to `/dev/vda`.
fn swap_on() -> Result<()> {
    let disk = File::options().read(true).write(true).open("/dev/vda").context("/dev/vda")?;
    // `union swap_header`: version, last page, bad pages.
    let mut header = vec![0u8; PAGE];
    for (at, value) in [(1024, 1), (1028, DISK as u32 / PAGE as u32 - 1), (1032, 0u32)] {
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    header[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    disk.write_all_at(&header, 0)?;
    disk.sync_all()?;
    // SAFETY: the path is a string that ends with zero.
    let result = unsafe { libc::swapon(c"/dev/vda".as_ptr(), 0) };
    ensure!(result == 0, "swapon: {}", io::Error::last_os_error());
    Ok(())
}

/// Pages that were swapped out and in, ever.
fn swapped() -> Result<[u64; 2]> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let count = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok([count("pswpout ").context("pswpout")?, count("pswpin ").context("pswpin")?])
}

/// Works in shared memory while it is swapped.
///
/// # Errors
///
/// When the content of a page is wrong, or nothing was swapped.
pub fn run(runtime: &Runtime, out: &mut dyn Write) -> Result<()> {
    swap_on()?;
    let bench = Bench::new(runtime, &|_| {})?;
    let area = Area::new(PAGES)?;
    area.fill();
    bench.share(&area)?;
    // By the program's own wish.
    let before = swapped()?;
    area.advise(0..PAGES, libc::MADV_PAGEOUT)?;
    for page in [0, 1, PAGES / 2, PAGES - 1] {
        let seen = bench.reads(&area, page)?;
        ensure!(seen == FILL + page as u32, "page {page} came back as {seen:#x}");
    }
    let [asked, _] = swapped()?;
    ensure!(asked > before[0], "nothing was swapped out for the asking");
    // And because others need memory, while queues come and go.
    let done = AtomicBool::new(false);
    let (rounds, queues) = std::thread::scope(|scope| {
        let hog = scope.spawn(|| {
            let hog = Area::new(HOG / PAGE)?;
            hog.fill();
            done.store(true, Ordering::Release);
            anyhow::Ok(())
        });
        let (mut rounds, mut queues) = (0usize, 0usize);
        while !done.load(Ordering::Acquire) && !hog.is_finished() {
            let page = rounds * 37 % PAGES;
            // The driver may have no memory for one, now; it tries, and asks for some.
            let queue = runtime.gpu().queue();
            let expected = if rounds < PAGES { FILL + page as u32 } else { 0x2222_0000 + page as u32 };
            let seen = bench.reads(&area, page)?;
            ensure!(seen == expected, "page {page}: the GPU reads {seen:#x}");
            bench.check(&area, &[page], "short of memory")?;
            if let Ok(queue) = queue {
                queue.destroy()?;
                queues += 1;
            }
            rounds += 1;
        }
        hog.join().map_err(|_| anyhow::anyhow!("the hog panicked"))??;
        anyhow::Ok((rounds, queues))
    })?;
    let [after, back] = swapped()?;
    ensure!(after > asked && back > before[1], "nothing was swapped for want of memory");
    for round in 0..rounds.min(PAGES) {
        let page = round * 37 % PAGES;
        let seen = area.word(page).load(Ordering::Acquire);
        ensure!(seen == 0x2222_0000 + page as u32, "page {page} is {seen:#x} in the end");
    }
    writeln!(
        out,
        "svm-swap: {rounds} rounds with {queues} queues verified, {} pages swapped out",
        after - before[0]
    )?;
    Ok(())
}
