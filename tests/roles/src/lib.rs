//! Small programs that share a GPU in the whole-system tests: a well-behaved one, and some that are not.
//!
//! In a guest a role is a process of its own (`guest-roles ROLE ARGUMENTS`); hosted it is a thread with a driver
//! process of its own. The tests put roles side by side and check that they cannot harm each other.

pub mod bad_ioctls;
pub mod clocks;
pub mod command;
pub mod disk;
pub mod kills;
mod nodes;
mod numbers;
pub mod partitions;
pub mod proc_files;
pub mod processor;
pub mod race;
pub mod render;
pub mod share;
pub mod store;
pub mod suspend;
pub mod svm;
pub mod syncobj;
pub mod system_files;
pub mod unbind;
mod waiting;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_runtime::{Condition, Gpu, Runtime};

pub use waiting::wait_for;

use waiting::{PATIENCE, publish};

/// The code objects of `tests/kernels/probe.cl`.
const PROBES: &[(&str, &[u8])] = &[
    ("gfx1100", include_bytes!("../../kernels/probe.gfx1100.hsaco")),
    ("gfx942", include_bytes!("../../kernels/probe.gfx942.hsaco")),
    ("gfx1201", include_bytes!("../../kernels/probe.gfx1201.hsaco")),
    ("gfx1151", include_bytes!("../../kernels/probe.gfx1151.hsaco")),
    ("gfx950", include_bytes!("../../kernels/probe.gfx950.hsaco")),
];

/// The code object of `tests/kernels/probe.cl` for a GPU.
///
/// # Panics
///
/// The kernel is not compiled for the GPU's processor.
#[must_use]
pub fn probe(gpu: &Gpu) -> &'static [u8] {
    let name = gpu.agent().gfx_name();
    let found = PROBES.iter().find(|(processor, _)| *processor == name);
    found.map_or_else(|| panic!("probe.cl is not compiled for {name}"), |(_, object)| object)
}

/// Words a role's buffers have.
const WORDS: usize = 1024;
/// Words in front of the secret: 16 MiB.
const OUT_OF_REACH: usize = 4 << 20;
/// Word that [`hold`] keeps in its buffer.
pub const SECRET: u32 = 0x5ec2_e701;
/// Runs one role by name; `arguments` are its own.
///
/// # Errors
///
/// When the role does not exist, its arguments are wrong, or a check fails.
pub fn run(name: &str, runtime: &Runtime, arguments: &[String], out: &mut dyn Write) -> Result<()> {
    let argument = |index: usize| {
        arguments
            .get(index)
            .map(String::as_str)
            .with_context(|| format!("{name}: argument {index} is missing"))
    };
    match name {
        "work" => work(runtime, out),
        "clocks" => clocks::run(runtime, argument(0)?.parse()?, out),
        "hold" => hold(runtime, Path::new(argument(0)?), Path::new(argument(1)?)),
        "steal" => steal(runtime, parse_address(argument(0)?)?, out),
        "spin" => spin(runtime, Path::new(argument(0)?)),
        "illegal" => illegal(runtime, out),
        "store" => store::store(runtime, Path::new(argument(0)?), Path::new(argument(1)?)),
        "settled" => store::settled(runtime, Path::new(argument(0)?), out),
        "suspend" => suspend::run(runtime, argument(0)?, out),
        "svm" => svm::run(runtime, out),
        "svm-swap" => svm::swap::run(runtime, out),
        "svm-fault" => svm::fault(runtime, argument(0)?, out),
        "svm-store" => {
            let next = arguments.get(2).map(String::as_str);
            svm::store(runtime, Path::new(argument(0)?), Path::new(argument(1)?), next)
        }
        other => bail!(
            "no role {other:?}: one of work, clocks, hold, steal, spin, illegal, store, settled, suspend, svm, svm-fault, svm-store, svm-swap"
        ),
    }
}

fn parse_address(text: &str) -> Result<u64> {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).with_context(|| format!("{text:?} is no hexadecimal address"))
}

/// A well-behaved program: copies words through the GPU and checks them.
///
/// # Errors
///
/// When anything fails or a word is wrong.
pub fn work(runtime: &Runtime, out: &mut dyn Write) -> Result<()> {
    let gpu = runtime.gpu();
    let from: Vec<u32> = (0..WORDS as u32).map(|word| word.wrapping_mul(0x9e37_79b9)).collect();
    let source = gpu.vram().buffer_from(&from)?;
    let target = gpu.gtt().buffer::<u32>(WORDS)?;
    let queue = gpu.queue()?;
    let peek = gpu.load(probe(gpu))?.kernel("peek")?;
    peek.launch(&queue).grid(WORDS as u32).block(256).arg(&target).arg(source.address()).run()?;
    ensure!(target.to_vec() == from, "the copy differs from what was copied");
    writeln!(out, "work: {WORDS} words verified")?;
    Ok(())
}

/// Keeps a secret in VRAM, writes its address to the file `address`, and holds it until the file `release` exists.
///
/// # Errors
///
/// When anything fails, or the secret was changed.
pub fn hold(runtime: &Runtime, address: &Path, release: &Path) -> Result<()> {
    // Processes hand out the same addresses in the same order: the secret's is one that small programs do not reach.
    let _before = runtime.gpu().vram().buffer::<u32>(OUT_OF_REACH)?;
    let secret = runtime.gpu().vram().buffer_from(&[SECRET; WORDS])?;
    publish(address, &format!("{:#x}", secret.address()))?;
    wait_for(release)?;
    ensure!(secret.to_vec() == [SECRET; WORDS], "somebody wrote to this process's memory");
    Ok(())
}

/// Tries to read and to write another process's memory through the GPU.
///
/// # Errors
///
/// When that does not end in a memory fault at `victim`, or a word of the secret came through.
pub fn steal(runtime: &Runtime, victim: u64, out: &mut dyn Write) -> Result<()> {
    let gpu = runtime.gpu();
    let loot = gpu.gtt().buffer_from(&[0u32; WORDS])?;
    let queue = gpu.queue()?;
    let peek = gpu.load(probe(gpu))?.kernel("peek")?;
    let result = peek.launch(&queue).grid(WORDS as u32).block(256).arg(&loot).arg(victim).run();
    ensure!(!loot.to_vec().contains(&SECRET), "read another process's memory at {victim:#x}");
    let Err(error) = result else { bail!("reading {victim:#x} of another process did not fail") };
    let text = error.to_string();
    ensure!(text.contains("fault"), "expected a memory fault, got: {text}");
    writeln!(out, "steal: refused with {text}")?;
    Ok(())
}

/// Runs a kernel that never ends, and tells by the file `started`; another process has to end this one.
///
/// # Errors
///
/// When the kernel does not start, or ends.
pub fn spin(runtime: &Runtime, started: &Path) -> Result<()> {
    let gpu = runtime.gpu();
    let (stop, begun) = (gpu.gtt().buffer_from(&[0u32])?, gpu.gtt().buffer_from(&[0u32])?);
    let queue = gpu.queue()?;
    let kernel = gpu.load(probe(gpu))?.kernel("spin")?;
    let completion = kernel.launch(&queue).grid(32).block(32).args((&stop, &begun)).submit()?;
    let deadline = Instant::now() + PATIENCE;
    while begun.get(0)? == 0 {
        ensure!(Instant::now() < deadline, "the kernel did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    publish(started, "spinning")?;
    completion.signal().wait(Condition::Equal(0), Some(PATIENCE))?;
    bail!("the endless kernel ended")
}

/// Runs an instruction that does not exist.
///
/// # Errors
///
/// When the queue is not stopped for it, or the kernel went on after it.
pub fn illegal(runtime: &Runtime, out: &mut dyn Write) -> Result<()> {
    let gpu = runtime.gpu();
    let words = gpu.gtt().buffer_from(&[0u32; 2])?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(probe(gpu))?.kernel("illegal")?;
    let Err(error) = kernel.launch(&queue).grid(1).block(1).arg(&words).run() else {
        bail!("an instruction that does not exist was run")
    };
    ensure!(words.to_vec() == [1, 0], "the wave did not stop at the instruction: {:?}", words.to_vec());
    writeln!(out, "illegal: refused with {error}")?;
    Ok(())
}
