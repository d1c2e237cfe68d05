//! A kernel that stores into its process's own memory for ever, and the content of those pages when the process is
//! gone.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_runtime::Runtime;

use crate::nodes::{Mapping, Nodes};
use crate::waiting::{PATIENCE, publish};
use crate::{probe, work};

/// Words that a kernel stores: enough for it to take its time.
const WORDS: usize = 1 << 20;
/// Bytes of them.
const SIZE: usize = WORDS * 4;
/// Kernels in the queue at a time: unless stopped, they store for seconds.
const DEPTH: u32 = 16;

/// Stores into the pages of the file `shared` for ever, and tells by the file `started`; another process has
/// to end this one.
///
/// # Errors
///
/// When the kernel does not start, or ends.
pub fn store(runtime: &Runtime, shared: &Path, started: &Path) -> Result<()> {
    fs::write(shared, vec![0; SIZE])?;
    let file = File::options().read(true).write(true).open(shared)?;
    let memory = Mapping::new(&file, SIZE, 0).context("mapping the file")?;
    // The process has one address space on the GPU, whichever of its files asks.
    let nodes = Nodes::open(&|_| {})?;
    let address = memory.address();
    let user = nodes.alloc(address, SIZE, AllocFlags::USERPTR | AllocFlags::COHERENT, address)?;
    nodes.map(nr::MAP_MEMORY_TO_GPU, user.handle)?;
    let queue = runtime.gpu().queue()?;
    let kernel = runtime.gpu().load(probe(runtime.gpu()))?.kernel("poke")?;
    for first in (1u32..).step_by(DEPTH as usize) {
        let submitted: Vec<_> = (first..first + DEPTH)
            .map(|value| kernel.launch(&queue).grid(WORDS as u32).block(256).args((address, value)).submit())
            .collect::<Result<_, _>>()?;
        if first == 1 {
            let deadline = Instant::now() + PATIENCE;
            while memory.word(0).load(Ordering::Relaxed) == 0 {
                ensure!(Instant::now() < deadline, "the kernel did not start");
                std::thread::sleep(Duration::from_millis(1));
            }
            publish(started, "storing")?;
        }
        for completion in submitted {
            completion.wait()?;
        }
    }
    bail!("nobody ended the process")
}

/// Checks that the pages of the file `shared` are not stored to any more, while the GPU does other work.
///
/// # Errors
///
/// When a page changes, or nothing was ever stored.
pub fn settled(runtime: &Runtime, shared: &Path, out: &mut dyn Write) -> Result<()> {
    let before = fs::read(shared)?;
    ensure!(before.first_chunk() != Some(&[0u8; 4]), "nothing was stored");
    for _ in 0..3 {
        work(runtime, out)?;
        ensure!(fs::read(shared)? == before, "a queue of a process that is gone goes on storing");
    }
    writeln!(out, "settled: nothing changed")?;
    Ok(())
}
