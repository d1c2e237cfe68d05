//! Uses of memory that the GPU shares, and requests that the driver refuses.
#![expect(unsafe_code, reason = "maps, changes and unmaps its own memory, which a GPU uses meanwhile")]

use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::svm::*;

use super::{Area, Bench, FILL, RW, attribute, beside_a_child, get, set, svm};
use crate::nodes::{Nodes, PAGE};

pub(super) type Case = fn(&Bench<'_>) -> Result<()>;

pub(super) const CASES: [(&str, Case); 11] = [
    ("both sides see each other's writes", both_ways),
    ("attributes come back", attributes),
    ("pages that the processor has only read", zero_pages),
    ("memory given back and anew", given_back),
    ("memory that may not be written for a while", protected),
    ("a page that moves away at a fork under a running kernel", forked),
    ("a running kernel beside memory that changes and goes", beside_changes),
    ("memory that moves to another address", moved),
    ("large pages, divided and joined", large_pages),
    ("a file's pages", file_pages),
    ("ranges without access that go", forgotten),
];

fn both_ways(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(64)?;
    area.fill();
    bench.share(&area)?;
    for page in [0, 1, 31, 63] {
        let seen = bench.reads(&area, page)?;
        ensure!(seen == FILL + page as u32, "page {page}: the GPU reads {seen:#x}");
    }
    bench.check(&area, &[0, 17, 63], "touched")?;
    // Memory that was never touched, in several areas of different rights.
    let fresh = Area::new(2048)?;
    fresh.protect(1000..1001, libc::PROT_READ);
    bench.share(&fresh)?;
    bench.check(&fresh, &[0, 999, 1001, 2047], "fresh")?;
    ensure!(bench.reads(&fresh, 1000)? == 0, "fresh memory is not zero");
    // A queue that was made after it.
    Ok(())
}

fn attributes(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(8)?;
    let gpu = bench.nodes.gpu_id;
    let undefined = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
    let ask = |first: usize, pages: usize| {
        let kinds = [
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
            KFD_IOCTL_SVM_ATTR_ACCESS,
            KFD_IOCTL_SVM_ATTR_SET_FLAGS,
            KFD_IOCTL_SVM_ATTR_GRANULARITY,
        ];
        let answers =
            get(&bench.nodes, area.page(first), pages * PAGE, &kinds.map(|kind| attribute(kind, gpu)))?;
        Ok::<_, io::Error>(answers.iter().map(|one| (one.kind, one.value)).collect::<Vec<_>>())
    };
    let none = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
    let defaults = vec![(0, undefined), (1, undefined), (none, gpu), (5, 3), (7, 9)];
    ensure!(ask(0, 8)? == defaults, "defaults: {:?}", ask(0, 8)?);
    let list = [
        attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu),
        attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0),
        attribute(KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu),
        attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO),
        attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 4),
    ];
    set(&bench.nodes, area.page(2), 2 * PAGE, &list)?;
    let in_place = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
    let those = vec![(0, gpu), (1, 0), (in_place, gpu), (5, 0xb), (7, 4)];
    ensure!(ask(2, 2)? == those, "set: {:?}", ask(2, 2)?);
    set(&bench.nodes, area.page(0), 8 * PAGE, &[bench.access()])?;
    let mixed = vec![(0, undefined), (1, undefined), (KFD_IOCTL_SVM_ATTR_ACCESS, gpu), (5, 3), (7, 4)];
    ensure!(ask(0, 8)? == mixed, "mixed: {:?}", ask(0, 8)?);
    Ok(())
}

fn zero_pages(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(4)?;
    ensure!((0..4).all(|page| area.word(page).load(Ordering::Relaxed) == 0));
    bench.share(&area)?;
    for page in 0..4 {
        bench.writes(&area, page, 77)?;
        ensure!(area.word(page).load(Ordering::Acquire) == 77, "page {page}: the GPU's write is lost");
    }
    Ok(())
}

fn given_back(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(16)?;
    bench.share(&area)?;
    for round in 0..5 {
        bench.check(&area, &[3, 4], "before")?;
        area.advise(2..5, libc::MADV_DONTNEED)?;
        // Who asks first gets the new page.
        if round % 2 == 0 {
            let seen = bench.reads(&area, 3)?;
            ensure!(seen == 0, "the GPU reads {seen:#x} from a page that was given back");
        }
        let seen = area.word(3).load(Ordering::Acquire);
        ensure!(seen == 0, "the processor reads {seen:#x} from a page that was given back");
        bench.check(&area, &[2, 3, 4, 5], "after")?;
    }
    Ok(())
}

fn protected(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(8)?;
    bench.share(&area)?;
    bench.check(&area, &[5], "before")?;
    for _ in 0..5 {
        area.protect(4..8, libc::PROT_READ);
        let seen = bench.reads(&area, 5)?;
        ensure!(seen == 0x2222_0005, "read-only: the GPU reads {seen:#x}");
        bench.check(&area, &[1], "beside")?;
        area.protect(4..8, RW);
        bench.check(&area, &[5], "after")?;
    }
    Ok(())
}

fn forked(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(4)?;
    bench.share(&area)?;
    for _ in 0..3 {
        let running = bench.spin(&area)?;
        // The child keeps the old page, and the processor writes to a copy of it: the GPU has to follow.
        beside_a_child(|| bench.stop(&area, &running, "after a fork"))?;
        // And with the child still there, the GPU is the first to write.
        beside_a_child(|| bench.check(&area, &[2, 3], "beside a child"))?;
    }
    Ok(())
}

fn beside_changes(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(256)?;
    area.fill();
    bench.share(&area)?;
    let running = bench.spin(&area)?;
    for round in 0..10 {
        area.advise(16..32, libc::MADV_DONTNEED)?;
        area.protect(64..128, if round % 2 == 0 { libc::PROT_READ } else { RW });
        area.unmap(200 - round..201 - round);
        std::thread::sleep(Duration::from_millis(3));
    }
    // Pages wander, in all of memory.
    let _ = fs::write("/proc/sys/vm/compact_memory", "1");
    bench.stop(&area, &running, "beside changes")?;
    bench.check(&area, &[2, 20, 100, 190, 255], "after changes")?;
    let seen = bench.reads(&area, 3)?;
    ensure!(seen == FILL + 3, "page 3 has changed: {seen:#x}");
    Ok(())
}

fn moved(bench: &Bench<'_>) -> Result<()> {
    let mut area = Area::new(16)?;
    bench.share(&area)?;
    bench.check(&area, &[0, 15], "before")?;
    let old = area.address;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let place = Area::new(16)?;
    // SAFETY: both ranges are this function's own.
    let new = unsafe {
        libc::mremap(old as *mut libc::c_void, area.len, area.len, flags, place.address as *mut libc::c_void)
    };
    ensure!(new as u64 == place.address, "mremap: {}", io::Error::last_os_error());
    std::mem::forget(place);
    area.address = new as u64;
    let gone = get(&bench.nodes, old, PAGE, &[bench.access()]).err().and_then(|error| error.raw_os_error());
    ensure!(gone == Some(libc::EFAULT), "the old place answers {gone:?}");
    let new = get(&bench.nodes, area.page(0), PAGE, &[bench.access()])?;
    ensure!(new[0].kind == KFD_IOCTL_SVM_ATTR_NO_ACCESS, "attributes have moved as well: {new:?}");
    bench.share(&area)?;
    let seen = bench.reads(&area, 15)?;
    ensure!(seen == 0x2222_000f, "the GPU reads {seen:#x} at the new place");
    bench.check(&area, &[0, 7, 15], "after")
}

fn large_pages(bench: &Bench<'_>) -> Result<()> {
    const HUGE: usize = 512;
    let area = Area::new(3 * HUGE)?;
    // Without them the kernel refuses, and the rest goes on with small ones.
    let _ = area.advise(0..3 * HUGE, libc::MADV_HUGEPAGE);
    area.fill();
    bench.share(&area)?;
    let pages = [0, HUGE - 1, HUGE, 2 * HUGE + 7, 3 * HUGE - 1];
    bench.check(&area, &pages, "whole")?;
    area.protect(HUGE + 5..HUGE + 6, libc::PROT_READ);
    area.protect(HUGE + 5..HUGE + 6, RW);
    bench.check(&area, &pages, "divided")?;
    bench.check(&area, &[HUGE + 4, HUGE + 5, HUGE + 6], "divided here")?;
    area.advise(2 * HUGE..2 * HUGE + 100, libc::MADV_DONTNEED)?;
    bench.check(&area, &pages, "with a hole")?;
    let running = bench.spin(&area)?;
    /// Joins small pages now (`MADV_COLLAPSE`).
    const COLLAPSE: i32 = 25;
    let _ = area.advise(0..3 * HUGE, COLLAPSE);
    bench.stop(&area, &running, "joined")?;
    bench.check(&area, &pages, "joined")
}

fn file_pages(bench: &Bench<'_>) -> Result<()> {
    let path = "/tmp/svm-file";
    fs::write(path, vec![0; 4 * PAGE])?;
    let file = File::options().read(true).write(true).open(path)?;
    let area = Area::of_file(&file, 4)?;
    bench.share(&area)?;
    bench.check(&area, &[0, 3], "shared")?;
    bench.writes(&area, 2, 0x3333_3333)?;
    ensure!(fs::read(path)?[2 * PAGE..2 * PAGE + 4] == [0x33; 4], "the file has not what the GPU wrote");
    fs::remove_file(path)?;
    Ok(())
}

/// Ranges that the GPU has no access to go with their memory all the same.
fn forgotten(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(8)?;
    let preferred = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, bench.nodes.gpu_id);
    set(&bench.nodes, area.page(0), area.len(), &[preferred])?;
    area.unmap(2..4);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping where there is none.
    let new = unsafe { libc::mmap(area.page(2) as *mut libc::c_void, 2 * PAGE, RW, flags, -1, 0) };
    ensure!(new as u64 == area.page(2), "the place is taken");
    let ask = |page: usize| get(&bench.nodes, area.page(page), PAGE, &[attribute(preferred.kind, 0)]);
    ensure!(ask(1)?[0] == preferred && ask(4)?[0] == preferred, "neighbours have lost their attributes");
    let seen = ask(2)?[0];
    ensure!(seen.value == KFD_IOCTL_SVM_LOCATION_UNDEFINED, "new memory has old attributes: {seen:?}");
    Ok(())
}

/// Makes requests that must be refused, and checks each error.
pub(super) fn refused(bench: &Bench<'_>) -> Result<()> {
    let area = Area::new(8)?;
    area.unmap(5..6);
    area.protect(7..8, libc::PROT_NONE);
    let gpu = bench.nodes.gpu_id;
    let good = [bench.access()];
    let buffer = bench.seen.address();
    let one = |kind, value| vec![attribute(kind, value)];
    for (what, (start, size, op, nattr), list, error) in [
        ("more attributes than there are", (area.page(0), PAGE as u64, 0, 2), good.to_vec(), libc::EINVAL),
        ("an unknown operation", (area.page(0), PAGE as u64, 2, 1), good.to_vec(), libc::EINVAL),
        ("not a page", (area.page(0) + 8, PAGE as u64, 0, 1), good.to_vec(), libc::EINVAL),
        ("no page", (area.page(0), 0, 0, 1), good.to_vec(), libc::EINVAL),
        ("another GPU", (area.page(0), PAGE as u64, 0, 1), one(2, gpu + 1), libc::EINVAL),
        ("an unknown attribute", (area.page(0), PAGE as u64, 0, 1), one(8, 0), libc::EINVAL),
        ("a prefetch to nowhere", (area.page(0), PAGE as u64, 0, 1), one(1, u32::MAX), libc::EINVAL),
        ("a hole", (area.page(4), 3 * PAGE as u64, 0, 1), good.to_vec(), libc::EFAULT),
        ("a hole, asked about", (area.page(4), 3 * PAGE as u64, 1, 1), good.to_vec(), libc::EFAULT),
        ("the kernel's memory", (1 << 63, PAGE as u64, 0, 1), good.to_vec(), libc::EFAULT),
        (
            "memory of a buffer object",
            (buffer & !(PAGE as u64 - 1), PAGE as u64, 0, 1),
            good.to_vec(),
            libc::EFAULT,
        ),
        ("memory that may not be touched", (area.page(7), PAGE as u64, 0, 1), good.to_vec(), libc::EFAULT),
        ("a question about access in place", (area.page(0), PAGE as u64, 1, 1), one(3, gpu), libc::EINVAL),
    ] {
        let args = SvmArgs { start_addr: start, size, op, nattr };
        let answer = svm(&bench.nodes, args, &mut list.clone()).err().and_then(|error| error.raw_os_error());
        ensure!(answer == Some(error), "{what}: answered {answer:?} instead of {error}");
    }
    let mut bare = SvmArgs { start_addr: area.page(0), size: PAGE as u64, op: 0, nattr: 1 };
    let answer = bench.nodes.ioctl(nr::SVM, &mut bare).err().and_then(|error| error.raw_os_error());
    ensure!(answer == Some(libc::EINVAL), "no room for attributes: answered {answer:?}");
    Ok(())
}

/// The GPU works in memory that other threads change all the time.
pub(super) fn churn(bench: &Bench<'_>, rounds: usize) -> Result<()> {
    let area = Area::new(256)?;
    bench.share(&area)?;
    let (done, checks, failures) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicU32::new(0));
    let ignore = |_: i32| {};
    let nodes = Nodes::open(&ignore)?;
    std::thread::scope(|scope| {
        // Queues that rest with every change would rest for ever: each thread changes once while the GPU does one thing.
        let until_done = |change: &(dyn Fn(usize) + Sync)| {
            for round in 0.. {
                let before = checks.load(Ordering::Acquire);
                change(round);
                while checks.load(Ordering::Acquire) == before {
                    std::thread::sleep(Duration::from_micros(200));
                }
                if done.load(Ordering::Acquire) {
                    break;
                }
            }
        };
        let (area, nodes, failures, access) = (&area, &nodes, &failures, bench.access());
        scope.spawn(move || {
            until_done(&|round| {
                area.protect(64 + round % 64..192, if round % 3 == 0 { RW } else { libc::PROT_READ });
            });
        });
        scope.spawn(move || until_done(&|_| drop(area.advise(192..256, libc::MADV_DONTNEED))));
        scope.spawn(move || {
            until_done(&|round| {
                let shared = Area::new(1 + round % 7)
                    .and_then(|other| Ok(set(nodes, other.page(0), other.len(), &[access])?));
                failures.fetch_add(u32::from(shared.is_err()), Ordering::Relaxed);
            });
        });
        let checked = (0..rounds).try_for_each(|round| {
            if round % 10 == 9 {
                beside_a_child(|| ());
            }
            let checked = bench.check(area, &[round % 64, 63 - round % 64], "in the churn");
            checks.fetch_add(1, Ordering::Release);
            checked
        });
        done.store(true, Ordering::Release);
        checks.fetch_add(1, Ordering::Release);
        checked
    })?;
    let failures = failures.load(Ordering::Relaxed);
    ensure!(failures == 0, "{failures} ranges were refused");
    Ok(())
}
