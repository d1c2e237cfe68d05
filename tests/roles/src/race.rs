//! Everything a process can do with the driver's files, while the function is unbound and bound again.
//!
//! Supervisors start children, and kill most of them in the middle of something; the main thread unbinds and binds. A
//! child may get any error that a removed device gives. The kernel must complain of nothing, and the GPU must work
//! afterwards.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_abi::kfd::event::{CreateEventArgs, EventData, EventIdArgs, WaitEventsArgs};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, FreeMemoryOfGpuArgs};
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;
use belfry_abi::kfd::svm::KFD_IOCTL_SVM_ATTR_ACCESS;
use belfry_runtime::Runtime;

use crate::nodes::{Mapping, Nodes, PAGE, function, write_driver};
use crate::numbers::{COUNTERS, Numbers};
use crate::svm::{Area, attribute, set};

/// Threads of one child.
const THREADS: u64 = 3;

/// One in this many rounds leaves the function bound until work was done.
const ROUNDS_PER_WORK: u64 = 3;
/// Longest time that may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Counters by index.
const OPENED: usize = 0;
const MAPPED: usize = 1;
const TOUCHED: usize = 2;
const ANSWERED: usize = 3;
const REFUSED: usize = 4;
const WORKED: usize = 5;
const NAMES: [&str; 6] = ["opened", "mapped", "touched", "answered", "refused", "worked"];

fn counters() -> Result<Mapping> {
    let file = File::options().read(true).write(true).open(COUNTERS).context(COUNTERS)?;
    Mapping::new(&file, PAGE, 0).context("mapping the counters")
}

fn count(counters: &Mapping, index: usize) {
    counters.word(index * 8).fetch_add(1, Ordering::Relaxed);
}

/// Unbinds and binds `rounds` times beside children that use the driver.
///
/// # Errors
///
/// When a round does not come to its end, a child ended as it should not, or nothing happened that could go wrong.
pub fn run(rounds: u64, out: &mut dyn Write) -> Result<()> {
    fs::write(COUNTERS, [0; PAGE])?;
    let counters = counters()?;
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        let supervisors: Vec<_> = ["files", "work", "files"]
            .into_iter()
            .zip(1..)
            .map(|(kind, seed)| {
                let stop = &stop;
                scope.spawn(move || supervise(kind, seed, stop))
            })
            .collect();
        let rebound = rebind(rounds, &counters);
        stop.store(true, Ordering::Relaxed);
        let ends: Vec<_> = supervisors.into_iter().map(thread::ScopedJoinHandle::join).collect();
        rebound?;
        for end in ends {
            end.map_err(|_| anyhow::anyhow!("a supervisor panicked"))??;
        }
        anyhow::Ok(())
    });
    let found: Vec<u64> =
        (0..NAMES.len()).map(|index| counters.word(index * 8).load(Ordering::Relaxed)).collect();
    let text: Vec<_> = NAMES.iter().zip(&found).map(|(name, count)| format!("{count} {name}")).collect();
    result.with_context(|| text.join(", "))?;
    ensure!(!found.contains(&0), "something never happened: {}", text.join(", "));
    writeln!(out, "race: {rounds} rounds survived: {}", text.join(", "))?;
    Ok(())
}

fn rebind(rounds: u64, counters: &Mapping) -> Result<()> {
    let mut numbers = Numbers::new(0x9e37_79b9_7f4a_7c15);
    let function = function()?;
    for round in 0..rounds {
        numbers.sleep_ms(300);
        if round % ROUNDS_PER_WORK == 0 {
            wait_for_work(counters).with_context(|| format!("round {round}"))?;
        }
        write_driver("unbind", &function).with_context(|| format!("round {round}"))?;
        numbers.sleep_ms(20);
        write_driver("bind", &function).with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

/// Waits until a child has got work done since the call, however slow the machine is: a race in which the GPU never works
/// shows little.
fn wait_for_work(counters: &Mapping) -> Result<()> {
    let worked = || counters.word(WORKED * 8).load(Ordering::Relaxed);
    let (before, end) = (worked(), Instant::now() + PATIENCE);
    while worked() == before {
        ensure!(Instant::now() < end, "no child got any work done in {PATIENCE:?}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Starts one child after the other, and kills those that last; every other child that works may take its time.
fn supervise(kind: &str, seed: u64, stop: &AtomicBool) -> Result<()> {
    let mut numbers = Numbers::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut unhurried = false;
    while !stop.load(Ordering::Relaxed) {
        unhurried = kind == "work" && !unhurried;
        let mut child = Command::new("/proc/self/exe")
            .args(["race-child", kind, &numbers.below(u64::MAX).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a child")?;
        let life = Duration::from_millis(100 + numbers.below(1500));
        let end = Instant::now() + if unhurried { PATIENCE } else { life };
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= end || stop.load(Ordering::Relaxed) {
                child.kill()?;
                break child.wait()?;
            }
            thread::sleep(Duration::from_millis(2));
        };
        ensure!(expected(status), "a child of kind {kind} ended with {status}");
    }
    Ok(())
}

/// Children end by themselves, with an error, at a mapping that was revoked, or because they were killed.
fn expected(status: ExitStatus) -> bool {
    match status.signal() {
        Some(signal) => [libc::SIGBUS, libc::SIGKILL].contains(&signal),
        None => matches!(status.code(), Some(0 | 1)),
    }
}

/// One child of a kind.
///
/// # Errors
///
/// When the device goes.
pub fn child(kind: &str, seed: u64) -> Result<()> {
    let counters = counters()?;
    match kind {
        "work" => {
            let runtime = Runtime::open()?;
            loop {
                crate::work(&runtime, &mut std::io::sink())?;
                count(&counters, WORKED);
            }
        }
        "files" => {
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let counters = &counters;
                    scope.spawn(move || {
                        let mut numbers = Numbers::new(seed.wrapping_add(thread * 0x1234_5677) | 1);
                        for _ in 0..20 {
                            // An error ends one go, not the child.
                            let _ = use_files(&mut numbers, counters);
                        }
                    });
                }
            });
            Ok(())
        }
        other => bail!("no kind {other:?} of child"),
    }
}

/// Maps a part of a node and touches every page of it.
fn touch(counters: &Mapping, file: &File, len: usize, offset: u64, write: bool) -> Option<Mapping> {
    let mapping = Mapping::new(file, len, offset)?;
    count(counters, MAPPED);
    for page in (0..len).step_by(PAGE) {
        let word = mapping.word(page);
        if write {
            word.store(0, Ordering::Relaxed);
        } else {
            word.load(Ordering::Relaxed);
        }
        count(counters, TOUCHED);
    }
    Some(mapping)
}

/// One round: opens the nodes, uses them in several ways, closes them in any order.
fn use_files(numbers: &mut Numbers, counters: &Mapping) -> Result<()> {
    let told = |errno| match errno {
        0 => count(counters, ANSWERED),
        libc::ENODEV => count(counters, REFUSED),
        _ => {}
    };
    let nodes = Nodes::open(&told)?;
    count(counters, OPENED);
    // Another thread's file may have been first.
    let _ = nodes.acquire_vm();
    let mut kept = Vec::new();
    for _ in 0..20 {
        match numbers.below(7) {
            0 => kept.extend(touch(
                counters,
                &nodes.kfd,
                KFD_DOORBELL_PROCESS_SLICE as usize,
                nodes.doorbells(),
                numbers.below(2) == 0,
            )),
            1 => kept.extend(touch(counters, &nodes.kfd, PAGE, nodes.flush_page(), true)),
            2 | 3 => {
                let kind = if numbers.below(2) == 0 { AllocFlags::VRAM } else { AllocFlags::GTT };
                let va = 0x10_0000_0000 + numbers.below(1 << 20) * 0x10_0000;
                let size = (1 + numbers.below(40) as usize) * PAGE;
                let memory = nodes.alloc(va, size, kind, 0)?;
                nodes.map(nr::MAP_MEMORY_TO_GPU, memory.handle)?;
                kept.extend(touch(counters, &nodes.render, size, memory.mmap_offset, numbers.below(2) == 0));
                if numbers.below(2) == 0 {
                    nodes.map(nr::UNMAP_MEMORY_FROM_GPU, memory.handle)?;
                    nodes
                        .ioctl(nr::FREE_MEMORY_OF_GPU, &mut FreeMemoryOfGpuArgs { handle: memory.handle })?;
                }
            }
            4 => {
                // Memory of its own, which goes while the GPU has it.
                let own = vec![1u8; 4 * PAGE];
                let address = (own.as_ptr() as u64).next_multiple_of(PAGE as u64);
                let memory = nodes.alloc(address, 2 * PAGE, AllocFlags::USERPTR, address)?;
                nodes.map(nr::MAP_MEMORY_TO_GPU, memory.handle)?;
            }
            5 => {
                // Does the same without a pin: the memory changes, and goes, while the GPU has it.
                let own = Area::new(4)?;
                let access = attribute(KFD_IOCTL_SVM_ATTR_ACCESS, nodes.gpu_id);
                let shared = set(&nodes, own.page(0), own.len(), &[access]);
                let errno = shared.as_ref().err().and_then(|error| error.raw_os_error()).unwrap_or(0);
                told(errno);
                // Without shared virtual memory in the kernel, other ways are left.
                if errno != libc::EPERM {
                    shared?;
                }
                own.advise(1..3, libc::MADV_DONTNEED)?;
                numbers.sleep_ms(3);
            }
            _ => {
                let mut event = CreateEventArgs::default();
                nodes.ioctl(nr::CREATE_EVENT, &mut event)?;
                let mut data = EventData { event_id: event.event_id, ..Default::default() };
                let mut wait = WaitEventsArgs {
                    events_ptr: &raw mut data as u64,
                    num_events: 1,
                    wait_for_all: 1,
                    // Some wait until they are killed, or the device goes.
                    timeout: if numbers.below(50) == 0 { u32::MAX } else { numbers.below(20) as u32 },
                    wait_result: 0,
                };
                nodes.ioctl(nr::WAIT_EVENTS, &mut wait)?;
                let id = &mut EventIdArgs { event_id: event.event_id, pad: 0 };
                nodes.ioctl(nr::DESTROY_EVENT, id)?;
            }
        }
        if numbers.below(3) == 0 {
            kept.clear();
        }
    }
    // Mappings outlive their files in half of the goes.
    if numbers.below(2) == 0 {
        drop(nodes);
    }
    Ok(())
}
