//! Memory that moves to VRAM and back, while both sides use it.
#![expect(unsafe_code, reason = "maps, changes and unmaps its own memory, which a GPU uses meanwhile")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, ensure};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::smi::SmiEventsArgs;
use belfry_abi::kfd::svm::*;

use super::cases::Case;
use super::{Area, Bench, FILL, attribute, beside_a_child, set};
use crate::kills;
use crate::nodes::{Nodes, PAGE};

pub(super) const CASES: [(&str, Case); 9] = [
    ("pages in VRAM and back", there_and_back),
    ("untouched memory in VRAM", untouched),
    ("a part that moves, and rights that differ", parts),
    ("memory that does not move", unmovable),
    ("a running kernel beside memory that moves", running),
    ("copies of children", children),
    ("large pages in VRAM", large_pages),
    ("memory that ends in VRAM", ends),
    ("more than VRAM has room for", pressure),
];

/// Memory whose pages are in VRAM, of a process that has acquired an address space.
///
/// # Errors
///
/// When they are not.
pub(crate) fn in_vram_for(nodes: &Nodes<'_>, pages: usize) -> Result<Area> {
    let area = Area::new(pages)?;
    area.fill();
    let list = [
        attribute(KFD_IOCTL_SVM_ATTR_ACCESS, nodes.gpu_id),
        attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, nodes.gpu_id),
    ];
    set(nodes, area.page(0), area.len(), &list)?;
    expect_in_vram(pages as u64, "all")?;
    Ok(area)
}

/// Checks that memory has the values that [`in_vram_for`] gave it.
///
/// # Errors
///
/// When it has not.
pub(crate) fn expect_all(area: &Area) -> Result<()> {
    expect_filled(area, 0..area.len() / PAGE, "all")
}

/// Pages of programs that are in VRAM.
fn in_vram() -> Result<u64> {
    let text = fs::read_to_string(kills::usage_file()?)?;
    let line = text.lines().find_map(|line| line.strip_prefix("vram_pages "));
    Ok(line.context("belfry_usage has no vram_pages")?.parse()?)
}

fn expect_in_vram(count: u64, what: &str) -> Result<()> {
    let there = in_vram()?;
    ensure!(there == count, "{what}: {there} pages are in VRAM, not {count}");
    Ok(())
}

/// Asks for a part of an area to be on the GPU, or in system memory.
fn prefetch(bench: &Bench<'_>, area: &Area, pages: std::ops::Range<usize>, to_gpu: bool) -> Result<()> {
    let to = if to_gpu { bench.nodes.gpu_id } else { KFD_IOCTL_SVM_LOCATION_SYSMEM };
    let list = [attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, to)];
    set(&bench.nodes, area.page(pages.start), pages.len() * PAGE, &list).context("a prefetch")
}

fn expect_filled(area: &Area, pages: impl Iterator<Item = usize>, what: &str) -> Result<()> {
    for page in pages {
        let seen = area.word(page).load(Ordering::Acquire);
        ensure!(seen == FILL + page as u32, "{what}: page {page}: the processor reads {seen:#x}");
    }
    Ok(())
}

/// Returns true if the processor reads VRAM in place: this kernel has no memory of devices that it must not
/// touch.
///
/// The test touches a page, then looks if it has moved back.
fn is_coherent(bench: &Bench<'_>) -> Result<bool> {
    let area = Area::new(1)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..1, true)?;
    expect_in_vram(1, "a page")?;
    expect_filled(&area, 0..1, "a page")?;
    Ok(in_vram()? == 1)
}

fn there_and_back(bench: &Bench<'_>) -> Result<()> {
    const PAGES: usize = 1500;
    let area = Area::new(PAGES)?;
    let used = || -> Result<u64> {
        let text = fs::read_to_string("/sys/class/drm/card0/device/mem_info_vram_used")?;
        Ok(text.trim().parse()?)
    };
    let coherent = is_coherent(bench)?;
    let mut events = events(bench)?;
    area.fill();
    bench.share(&area)?;
    let before = used()?;
    prefetch(bench, &area, 0..PAGES, true)?;
    expect_in_vram(PAGES as u64, "all")?;
    ensure!(used()? >= before + (PAGES * PAGE) as u64, "mem_info_vram_used does not show them");
    for page in [0, 511, 512, PAGES - 1] {
        let seen = bench.reads(&area, page)?;
        ensure!(seen == FILL + page as u32, "page {page}: the GPU reads {seen:#x} in VRAM");
        bench.writes(&area, page, 0x7777_0000 + page as u32)?;
    }
    expect_in_vram(PAGES as u64, "used by the GPU")?;
    expect_filled(&area, (0..PAGES).filter(|page| ![0, 511, 512, PAGES - 1].contains(page)), "in VRAM")?;
    expect_in_vram(if coherent { PAGES as u64 } else { 0 }, "read by the processor")?;
    for page in [0, 511, 512, PAGES - 1] {
        let seen = area.word(page).load(Ordering::Acquire);
        ensure!(seen == 0x7777_0000 + page as u32, "page {page}: the processor reads {seen:#x}");
    }
    bench.check(&area, &[0, 5, 511, 512, 1024, PAGES - 1], "both sides")?;
    prefetch(bench, &area, 0..PAGES, false)?;
    expect_in_vram(0, "moved back")?;
    bench.check(&area, &[0, 5, 511, 512, 1024, PAGES - 1], "moved back")?;
    let mut said = vec![0; 4096];
    let len = events.read(&mut said)?;
    let said = String::from_utf8_lossy(&said[..len]).into_owned();
    let first = said.lines().next().unwrap_or_default();
    let gpu = bench.nodes.gpu_id;
    let place = format!("@{:x}(", area.page(0) / PAGE as u64);
    ensure!(
        first.starts_with("5 ") && first.contains(&place) && first.contains(&format!("0->{gpu:x} ")),
        "events: {said}"
    );
    ensure!(said.lines().any(|line| line.starts_with("6 ")), "events: {said}");
    // The processor's touch is reported if it moves memory.
    let touched = said.lines().any(|line| line.starts_with("6 ") && line.ends_with(" 2"));
    ensure!(touched != coherent, "events: {said}");
    Ok(())
}

/// A descriptor that gives events of migration.
fn events(bench: &Bench<'_>) -> Result<fs::File> {
    use std::os::fd::FromRawFd as _;
    let mut args = SmiEventsArgs { gpuid: bench.nodes.gpu_id, ..Default::default() };
    bench.nodes.ioctl(nr::SMI_EVENTS, &mut args)?;
    // SAFETY: the kernel has just made the descriptor, and nothing else owns it.
    let mut file = unsafe { fs::File::from_raw_fd(args.anon_fd as i32) };
    file.write_all(&0x30u64.to_le_bytes())?;
    Ok(file)
}

fn untouched(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(600)?;
    bench.share(&area)?;
    let fresh = Area::new(600)?;
    // A page that the kernel holds for a moment stays where it is. It moves when it is asked for again.
    for _ in 0..3 {
        prefetch(bench, &area, 0..600, true)?;
        prefetch(bench, &fresh, 0..600, true)?;
        if in_vram()? == 1200 {
            break;
        }
    }
    expect_in_vram(1200, "fresh")?;
    bench.share(&fresh)?;
    for page in [0, 300, 599] {
        ensure!(bench.reads(&area, page)? == 0 && bench.reads(&fresh, page)? == 0, "page {page} is not zero");
    }
    bench.check(&fresh, &[0, 300, 599], "fresh")
}

fn parts(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(64)?;
    area.fill();
    bench.share(&area)?;
    area.protect(20..30, libc::PROT_READ);
    prefetch(bench, &area, 10..40, true)?;
    expect_in_vram(30, "a part")?;
    for page in [0, 10, 25, 39, 40] {
        let seen = bench.reads(&area, page)?;
        ensure!(seen == FILL + page as u32, "page {page}: the GPU reads {seen:#x}");
    }
    area.protect(20..30, libc::PROT_READ | libc::PROT_WRITE);
    bench.check(&area, &[9, 10, 20, 29, 39, 40], "a part")?;
    // Memory that is given back is in VRAM no more, and memory that comes in its place is new.
    area.advise(12..14, libc::MADV_DONTNEED)?;
    ensure!(bench.reads(&area, 13)? == 0, "a page that was given back");
    bench.check(&area, &[11, 12, 13, 14], "given back")
}

fn unmovable(bench: &Bench<'_>) -> Result<()> {
    let path = "/tmp/svm-migrate";
    let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(8 * PAGE as u64)?;
    let area = Area::of_file(&file, 8)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..8, true)?;
    expect_in_vram(0, "pages of a file")?;
    let result = bench.check(&area, &[0, 7], "pages of a file");
    fs::remove_file(path)?;
    result
}

fn running(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(4)?;
    let other = Area::new(1024)?;
    bench.share(&area)?;
    bench.share(&other)?;
    other.fill();
    let running = bench.spin(&area)?;
    for _ in 0..4 {
        prefetch(bench, &area, 0..4, true)?;
        prefetch(bench, &other, 0..1024, true)?;
        prefetch(bench, &area, 0..4, false)?;
        prefetch(bench, &other, 100..900, false)?;
    }
    prefetch(bench, &area, 0..4, true)?;
    bench.stop(&area, &running, "in VRAM")?;
    expect_filled(&other, 0..1024, "beside")
}

fn children(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(16)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..16, true)?;
    beside_a_child(|| bench.check(&area, &[1, 2], "beside a child"))?;
    prefetch(bench, &area, 0..16, true)?;
    // SAFETY: the child reads and writes memory, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let right = (3..16).all(|page| area.word(page).load(Ordering::Acquire) == FILL + page as u32);
        (3..16).for_each(|page| area.word(page).store(1, Ordering::Release));
        // SAFETY: ends the child, and nothing of it runs any more.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's own, and `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    ensure!(status == 0, "a child sees other data: {status:#x}");
    for page in 3..16 {
        let seen = bench.reads(&area, page)?;
        ensure!(
            seen == FILL + page as u32,
            "page {page}: the GPU reads {seen:#x} after a child wrote to its own"
        );
    }
    expect_filled(&area, 3..16, "after a child")
}

fn large_pages(bench: &Bench<'_>) -> Result<()> {
    const LARGE: usize = (2 << 20) / PAGE;
    let area = Area::new(3 * LARGE)?;
    area.advise(0..3 * LARGE, libc::MADV_HUGEPAGE)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..3 * LARGE, true)?;
    expect_in_vram(3 * LARGE as u64, "large pages")?;
    bench.check(&area, &[0, 1, LARGE, 2 * LARGE - 1, 3 * LARGE - 1], "large pages")
}

fn ends(bench: &Bench<'_>) -> Result<()> {
    let before = in_vram()?;
    let area = Area::new(700)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..700, true)?;
    area.unmap(0..300);
    drop(area);
    // Frames are given back a moment later.
    let gone = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        in_vram().is_ok_and(|count| count == before)
    });
    ensure!(gone, "{} pages are left in VRAM, of {before} before", in_vram()?);
    Ok(())
}

fn pressure(bench: &Bench<'_>) -> Result<()> {
    let total: u64 = fs::read_to_string("/sys/class/drm/card0/device/mem_info_vram_total")?.trim().parse()?;
    let pages = usize::try_from(total)? * 3 / 4 / PAGE;
    let area = Area::new(pages)?;
    area.fill();
    bench.share(&area)?;
    prefetch(bench, &area, 0..pages, true)?;
    expect_in_vram(pages as u64, "three quarters of VRAM")?;
    // A buffer object that only finds room where some of that goes.
    let size = usize::try_from(total)? / 2;
    let memory = bench.nodes.alloc(0x30_0000_0000, size, AllocFlags::VRAM, 0)?;
    let left = in_vram()?;
    ensure!(left < pages as u64, "nothing has left VRAM");
    bench.check(&area, &[0, pages / 2, pages - 1], "moved out")?;
    expect_filled(&area, (1..pages / 2).step_by(37), "moved out")?;
    // No more than VRAM has fits into it; the rest is used where it is.
    prefetch(bench, &area, 0..pages, true)?;
    ensure!(in_vram()? < pages as u64, "more is in VRAM than it has room for");
    bench.check(&area, &[0, pages / 2, pages - 1], "partly moved")?;
    bench.nodes.free(memory.handle)?;
    Ok(())
}
