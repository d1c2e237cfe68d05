//! Programs with a race, `racy:NAME`, and their repaired twins, `racy:NAME-repaired`: examples for `belfry explore`.
//!
//! Each does what programs and drivers do, in an order that is wrong only if another part goes on at a certain
//! moment.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use belfry_abi::pci;
use belfry_abi::regs::{Ip, Offset, Register as _, osssys};
use belfry_examples::kernels::RACY;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Completion, Queue, Runtime};

/// Beginning of all names.
pub const PREFIX: &str = "racy:";
/// End of the names of repaired twins.
const REPAIRED: &str = "-repaired";
/// Bytes of the driver's interrupt ring, and of an entry.
const RING: u32 = 64 << 10;
const ENTRY: u32 = 32;

/// GPU, runtime and queue that a program works with.
struct Bench<'a> {
    gpu: &'a Arc<HostedGpu>,
    runtime: &'a Runtime,
    queue: Queue,
    repaired: bool,
}

type Run = fn(&Bench<'_>) -> anyhow::Result<()>;

/// The programs, and the mistake of each.
const PROGRAMS: &[(&str, &str, Run)] = &[
    ("missing-barrier", "waves read LDS that others of their workgroup store, without a barrier", barrier),
    ("missing-fence", "a workgroup stores data and a flag, without a release between them", fence),
    ("lost-wakeup", "a thread looks at a signal, clears its event, and waits for the event", wakeup),
    ("early-doorbell", "a doorbell is rung before the input of the kernel is written", doorbell),
    ("ih-ack", "an interrupt handler acknowledges entries that it has not looked at", acknowledge),
];

/// Returns the names of all of them, twins included.
pub fn names() -> impl Iterator<Item = String> {
    PROGRAMS.iter().flat_map(|(name, ..)| [format!("{PREFIX}{name}"), format!("{PREFIX}{name}{REPAIRED}")])
}

/// Returns a line for each: its name, and its mistake.
pub fn summaries() -> impl Iterator<Item = (String, &'static str)> {
    PROGRAMS.iter().map(|(name, summary, _)| (format!("{PREFIX}{name}"), *summary))
}

/// Returns true if the name is one of these programs.
#[must_use]
pub fn is_one(program: &str) -> bool {
    names().any(|name| name == program)
}

/// Runs a bundled program: one of these, or an example.
///
/// # Errors
///
/// The errors of the program; an unknown name.
pub fn run(
    gpu: &Arc<HostedGpu>,
    runtime: &Runtime,
    (program, arguments): (&str, &[String]),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Some(name) = program.strip_prefix(PREFIX) else {
        return belfry_examples::run(program, runtime, arguments, out);
    };
    let (name, repaired) = name.strip_suffix(REPAIRED).map_or((name, false), |name| (name, true));
    let known = PROGRAMS.iter().find(|(known, ..)| *known == name);
    let (.., run) = known.with_context(|| format!("there is no {program}"))?;
    ensure!(arguments.is_empty(), "{program} takes no arguments");
    let queue = runtime.gpu().queue()?;
    run(&Bench { gpu, runtime, queue, repaired })?;
    writeln!(out, "{program}: well")?;
    Ok(())
}

fn compare(what: &str, found: &[u32], expected: &[u32]) -> anyhow::Result<()> {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let Some(at) = differs else { return Ok(()) };
    anyhow::bail!("wrong result: {what} {at} is {}, and should be {}", found[at], expected[at])
}

impl Bench<'_> {
    fn kernel(&self, broken: &str, repaired: &str) -> anyhow::Result<belfry_runtime::Kernel> {
        let gpu = self.runtime.gpu();
        Ok(gpu.load(RACY.on(gpu)?)?.kernel(if self.repaired { repaired } else { broken })?)
    }

    /// Submits a kernel of one workgroup that writes twice its input.
    fn submit_twice(
        &self,
        input: &belfry_runtime::Buffer<u32>,
        output: &belfry_runtime::Buffer<u32>,
    ) -> anyhow::Result<Completion> {
        let kernel = self.kernel("twice", "twice")?;
        Ok(kernel.launch(&self.queue).grid(input.len() as u32).block(32).args((input, output)).submit()?)
    }
}

fn barrier(bench: &Bench<'_>) -> anyhow::Result<()> {
    const ITEMS: u32 = 256;
    let out = bench.runtime.gpu().gtt().buffer::<u32>(ITEMS as usize)?;
    let kernel = bench.kernel("missing_barrier", "with_barrier")?;
    kernel.launch(&bench.queue).grid(ITEMS).block(ITEMS).arg(&out).run()?;
    let square = |item: u32| (item + 1) * (item + 1);
    let expected: Vec<u32> =
        (0..ITEMS).map(|item| square(if item < 64 { item } else { item - 64 })).collect();
    compare("work-item", &out.to_vec(), &expected)
}

fn fence(bench: &Bench<'_>) -> anyhow::Result<()> {
    // Workgroups of one wave, on all chips.
    const ITEMS: u32 = 32;
    let memory = bench.runtime.gpu().gtt();
    let (data, out) = (memory.buffer_from(&[0u32; ITEMS as usize])?, memory.buffer::<u32>(ITEMS as usize)?);
    let flag = memory.buffer_from(&[0u32])?;
    let kernel = bench.kernel("missing_fence", "with_fence")?;
    kernel.launch(&bench.queue).grid(2 * ITEMS).block(ITEMS).args((&data, &flag, &out)).run()?;
    compare("work-item", &out.to_vec(), &(0..ITEMS).map(|item| item * 3 + 1).collect::<Vec<_>>())
}

fn wakeup(bench: &Bench<'_>) -> anyhow::Result<()> {
    let memory = bench.runtime.gpu().gtt();
    let (input, output) = (memory.buffer_from(&[21u32; 32])?, memory.buffer::<u32>(32)?);
    let completion = bench.submit_twice(&input, &output)?;
    let signal = completion.signal();
    loop {
        if bench.repaired {
            signal.reset_event()?;
        }
        if completion.is_done() {
            break;
        }
        // The mistake: if the signal has set the event by now, this forgets it.
        if !bench.repaired {
            signal.reset_event()?;
        }
        signal.wait_event(None)?;
    }
    compare("work-item", &output.to_vec(), &[42; 32])
}

fn doorbell(bench: &Bench<'_>) -> anyhow::Result<()> {
    let memory = bench.runtime.gpu().gtt();
    let (input, output) = (memory.buffer_from(&[0u32; 32])?, memory.buffer::<u32>(32)?);
    if bench.repaired {
        input.write(0, &[21; 32])?;
    }
    let completion = bench.submit_twice(&input, &output)?;
    if !bench.repaired {
        input.write(0, &[21; 32])?;
    }
    completion.wait()?;
    compare("work-item", &output.to_vec(), &[42; 32])
}

/// The registers of the interrupt ring, as a driver's handler uses them.
struct Ring {
    rptr: u64,
    wptr: u64,
}

impl Ring {
    fn of(gpu: &HostedGpu) -> anyhow::Result<Self> {
        let config = gpu.device().config();
        let chip = config.chip.chip(config.shape());
        let place = |at: Offset| {
            let dword = chip.dword(Ip::OSSSYS, 0, at).context("the chip has no interrupt ring")?;
            anyhow::Ok(u64::from(dword) * 4)
        };
        Ok(Self { rptr: place(osssys::IH_RB_RPTR::AT)?, wptr: place(osssys::IH_RB_WPTR::AT)? })
    }

    fn read(gpu: &HostedGpu, at: u64) -> u32 {
        let mut bytes = [0; 4];
        gpu.point();
        match gpu.device().bar_read(pci::BAR_REGISTERS, at, &mut bytes) {
            Ok(()) => u32::from_le_bytes(bytes) & (RING - 1) & !(ENTRY - 1),
            Err(_) => 0,
        }
    }

    /// Handles the entries of the ring; returns the number of entries that it looked at.
    fn handle(&self, gpu: &HostedGpu, repaired: bool) -> u32 {
        let (first, end) = (Self::read(gpu, self.rptr), Self::read(gpu, self.wptr));
        let entries = (end.wrapping_sub(first) & (RING - 1)) / ENTRY;
        // The mistake: entries that have come since are acknowledged as well, and never handled.
        let acknowledged = if repaired { end } else { Self::read(gpu, self.wptr) };
        if let Err(error) = gpu.device().bar_write(pci::BAR_REGISTERS, self.rptr, &acknowledged.to_le_bytes())
        {
            log::error!("the read pointer cannot be written: {error}");
        }
        gpu.point();
        entries
    }
}

/// Gives interrupts back to the driver.
struct Taken<'a>(&'a HostedGpu);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.handle_interrupts(None);
    }
}

fn acknowledge(bench: &Bench<'_>) -> anyhow::Result<()> {
    const DISPATCHES: u32 = 3;
    let memory = bench.runtime.gpu().gtt();
    let (input, output) = (memory.buffer_from(&[21u32; 32])?, memory.buffer::<u32>(32)?);
    let (ring, repaired) = (Ring::of(bench.gpu)?, bench.repaired);
    let seen = Arc::new(AtomicU32::new(0));
    let (counts, gpu) = (Arc::clone(&seen), Arc::downgrade(bench.gpu));
    bench.gpu.handle_interrupts(Some(Arc::new(move || {
        if let Some(gpu) = gpu.upgrade() {
            counts.fetch_add(ring.handle(&gpu, repaired), Ordering::SeqCst);
        }
        false
    })));
    let _taken = Taken(bench.gpu);
    let work: Vec<Completion> =
        (0..DISPATCHES).map(|_| bench.submit_twice(&input, &output)).collect::<anyhow::Result<_>>()?;
    bench.gpu.wait_until(&|| seen.load(Ordering::SeqCst) >= DISPATCHES, None);
    ensure!(work.iter().all(Completion::is_done), "the interrupts came before the work was done");
    compare("work-item", &output.to_vec(), &[42; 32])
}
