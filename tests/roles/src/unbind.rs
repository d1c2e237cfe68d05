//! State that a process keeps of a device that was unbound under it: files that refuse, mappings without
//! pages.
#![expect(unsafe_code, reason = "has the kernel read memory that may not be there, and count faults")]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_abi::kfd::event::{CreateEventArgs, EventData, WaitEventsArgs};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::misc::GetVersionArgs;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::nodes::{Mapping, Nodes, PAGE, function, write_driver};
use crate::share::export;
use crate::svm::migrate;

/// Unbinds the function under doorbells, the flush page, buffer objects and a thread that waits, and binds it again.
///
/// # Errors
///
/// When something of the device is left, or something that should be there was not.
pub fn run(out: &mut dyn Write) -> Result<()> {
    let nodes = Nodes::open(&|_| {})?;
    nodes.acquire_vm()?;
    let slice = KFD_DOORBELL_PROCESS_SLICE as usize;
    let map = |file: &File, len: usize, offset: u64| Mapping::new(file, len, offset).context("mapping");
    let mut mappings = vec![
        ("doorbells", map(&nodes.kfd, slice, nodes.doorbells())?),
        ("untouched doorbells", map(&nodes.kfd, slice, nodes.doorbells())?),
        ("flush page", map(&nodes.kfd, PAGE, nodes.flush_page())?),
    ];
    for (what, kind, va) in
        [("VRAM", AllocFlags::VRAM, 0x10_0000_0000), ("system memory", AllocFlags::GTT, 0x20_0000_0000)]
    {
        let memory = nodes.alloc(va, 2 * PAGE, kind, 0)?;
        mappings.push((what, map(&nodes.render, 2 * PAGE, memory.mmap_offset)?));
        if kind == AllocFlags::VRAM {
            let shared = File::from(export(&nodes, memory.handle)?);
            mappings.push(("DMA-buf", map(&shared, 2 * PAGE, 0)?));
        }
    }
    // A mapping that has no page before it is touched has none that an unbind could miss, however late it is made.
    for (what, mapping) in mappings.iter().filter(|(what, _)| !what.contains("untouched")) {
        ensure!(faults(mapping), "{what}: a page is mapped before it was touched");
        ensure!(!faults(mapping), "{what}: no page is mapped although it was touched");
        ensure!(readable(mapping)?, "{what}: not readable");
    }
    let shared = migrate::in_vram_for(&nodes, 700)?;
    let mut event = CreateEventArgs::default();
    nodes.ioctl(nr::CREATE_EVENT, &mut event)?;
    let function = function()?;
    thread::scope(|scope| -> Result<()> {
        let sleeper = scope.spawn(|| wait_for_ever(&event));
        // The thread sleeps by then, or is about to: its wait ends in either case.
        thread::sleep(Duration::from_millis(100));
        write_driver("unbind", &function)?;
        let errno = sleeper.join().map_err(|_| anyhow::anyhow!("the sleeper panicked"))??;
        ensure!([libc::EIO, libc::EINVAL, libc::ENODEV].contains(&errno), "a wait ended with {errno}");
        Ok(())
    })?;
    for (what, mapping) in &mappings {
        ensure!(!readable(mapping)?, "{what}: readable without a device");
    }
    // The program's own pages have left VRAM.
    migrate::expect_all(&shared).context("memory that was in VRAM")?;
    let refused = nodes.ioctl(nr::GET_VERSION, &mut GetVersionArgs::default());
    ensure!(
        refused.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV)),
        "a request after the unbind: {refused:?}"
    );
    write_driver("bind", &function)?;
    for (what, mapping) in &mappings {
        ensure!(!readable(mapping)?, "{what}: the next device's page is there");
    }
    ensure!(Mapping::new(&nodes.kfd, slice, nodes.doorbells()).is_none(), "the old file maps doorbells");
    writeln!(out, "unbind: nothing of the device was left in {} mappings", mappings.len())?;
    Ok(())
}

/// Waits for an event that never comes, on a file of its own; returns the error number.
fn wait_for_ever(event: &CreateEventArgs) -> Result<i32> {
    let nodes = Nodes::open(&|_| {})?;
    let mut data = EventData { event_id: event.event_id, ..Default::default() };
    let mut wait = WaitEventsArgs {
        events_ptr: &raw mut data as u64,
        num_events: 1,
        wait_for_all: 1,
        timeout: u32::MAX,
        wait_result: 0,
    };
    let result = nodes.ioctl(nr::WAIT_EVENTS, &mut wait);
    Ok(result.err().and_then(|error| error.raw_os_error()).unwrap_or(0))
}

/// Page faults of this thread.
fn fault_count() -> libc::c_long {
    // SAFETY: all zeros is a value of the structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_minflt
}

/// Touches the first word of a mapping; returns whether the kernel had to bring its page in.
fn faults(mapping: &Mapping) -> bool {
    // The first call may bring in pages that the calls themselves need.
    fault_count();
    let word = mapping.word(0);
    let before = fault_count();
    word.store(0, Ordering::Relaxed);
    fault_count() != before
}

/// Returns true if the kernel can read the first word of a mapping: where a program would get SIGBUS, it gets
/// an error.
fn readable(mapping: &Mapping) -> Result<bool> {
    let (_reader, writer) = std::io::pipe()?;
    let address = mapping.address() as *const libc::c_void;
    // SAFETY: the kernel checks the address, and nothing is written to it.
    Ok(unsafe { libc::write(writer.as_raw_fd(), address, 8) } == 8)
}
