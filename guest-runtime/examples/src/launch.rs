//! `launch`: any kernel of any code object, from the command line.
//!
//! ```text
//! launch FILE --kernel NAME --grid X,Y,Z --block X,Y,Z [--shared BYTES] --arg SPEC...
//! ```

mod carry;
mod command;
mod element;
mod spec;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use belfry_runtime::code_object::{CodeObject, unbundle};
use belfry_runtime::queue::QueueError;
use belfry_runtime::{Buffer, Gpu, KernelArg, Runtime};

use crate::numbers::Random;
use command::Command;
use element::Element;
use spec::{BufferSpec, Contents, Spec};

pub use carry::{Carried, FileUse, GUEST_DIRECTORY, files};
pub use command::{USAGE, wants_help};

/// Bytes filled or written at once.
const PIECE: usize = 1 << 20;
/// Elements shown of each buffer.
const SHOWN: usize = 8;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Largest code object read.
const MAX_FILE: u64 = 256 << 20;

/// Checks a command line as far as that goes without a GPU: syntax, the code object, the kernel's name, input files.
///
/// # Errors
///
/// The first mistake, in one line.
pub fn check(args: &[String]) -> anyhow::Result<()> {
    if wants_help(args) {
        return Ok(());
    }
    let command = Command::parse(args)?;
    let file = read(&command.file)?;
    let objects = unbundle(&file, None).with_context(|| command.file.display().to_string())?;
    CodeObject::with_kernel(&objects, &command.kernel).with_context(|| command.file.display().to_string())?;
    for spec in &command.args {
        spec.check_files()?;
    }
    Ok(())
}

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    if wants_help(args) {
        writeln!(out, "{USAGE}")?;
        return Ok(());
    }
    let command = Command::parse(args)?;
    let gpu = runtime.gpu();
    let module = gpu
        .load_with_kernel(&read(&command.file)?, &command.kernel)
        .with_context(|| command.file.display().to_string())?;
    let kernel = module.kernel(&command.kernel)?;
    let mut buffers = Vec::new();
    let mut values = Vec::new();
    for (index, spec) in command.args.iter().enumerate() {
        let value =
            argument(gpu, index, spec, &mut buffers).with_context(|| format!("--arg {}", spec.text()))?;
        values.push(value);
    }
    let queue = gpu.queue()?;
    let completion = kernel
        .launch(&queue)
        .grid(command.grid)
        .block(command.block)
        .shared(command.shared)
        .args(values)
        .submit()?;
    completion.wait().map_err(|error| explain(error, &buffers))?;
    let time = completion.gpu_time().map(|time| format!(" in {time:.1?} of GPU time")).unwrap_or_default();
    writeln!(out, "launch: {} done{time}", command.kernel)?;
    for buffer in &buffers {
        buffer.report(out)?;
    }
    Ok(())
}

/// A buffer argument, to be shown and written when the kernel is done.
struct Output<'a> {
    index: usize,
    spec: &'a BufferSpec,
    memory: Buffer<u8>,
}

impl Output<'_> {
    fn report(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let element = self.spec.element;
        let shown = SHOWN.min(self.spec.count);
        let mut bytes = vec![0; shown * element.size()];
        self.memory.read(0, &mut bytes)?;
        let mut texts: Vec<String> = bytes.chunks(element.size()).map(|bytes| element.show(bytes)).collect();
        if shown < self.spec.count {
            texts.push("...".to_owned());
        }
        writeln!(out, "  argument {}: {element}[{}] = {}", self.index, self.spec.count, texts.join(", "))?;
        if let Some(path) = &self.spec.output {
            self.write(path).with_context(|| format!("cannot write {}", path.display()))?;
            writeln!(
                out,
                "  argument {}: {} bytes written to {}",
                self.index,
                self.memory.len(),
                path.display()
            )?;
        }
        Ok(())
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut file = std::fs::File::create(path)?;
        for start in (0..self.memory.len()).step_by(PIECE) {
            let mut piece = vec![0; PIECE.min(self.memory.len() - start)];
            self.memory.read(start, &mut piece)?;
            file.write_all(&piece)?;
        }
        Ok(file.sync_all()?)
    }
}

/// Makes one argument; a buffer is filled and remembered.
fn argument<'a>(
    gpu: &Gpu,
    index: usize,
    spec: &'a Spec,
    buffers: &mut Vec<Output<'a>>,
) -> anyhow::Result<KernelArg> {
    let spec = match spec {
        Spec::Scalar { value, .. } => return Ok((*value).into()),
        Spec::Struct { bytes, .. } => return Ok(KernelArg::Bytes(bytes.clone())),
        Spec::Local { bytes, .. } => return Ok(KernelArg::Local(*bytes)),
        Spec::Buffer(spec) => spec,
    };
    // The GPU's memory first: a count that is out of all proportion ends here.
    let memory = gpu.vram().buffer::<u8>(spec.bytes())?;
    fill(spec, &memory)?;
    let arg = KernelArg::from(&memory);
    buffers.push(Output { index, spec, memory });
    Ok(arg)
}

fn fill(spec: &BufferSpec, memory: &Buffer<u8>) -> anyhow::Result<()> {
    let element: Element = spec.element;
    let step = PIECE / element.size();
    let mut random = Random::new(match spec.contents {
        Contents::Random(seed) => seed,
        _ => 0,
    });
    let mut file = match &spec.contents {
        Contents::Zero => return Ok(()),
        Contents::File(path) => {
            spec.check_file(path)?;
            Some(std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?)
        }
        Contents::Iota | Contents::Random(_) => None,
    };
    for start in (0..spec.count).step_by(step) {
        let count = step.min(spec.count - start);
        let piece = match &mut file {
            Some(file) => {
                let mut piece = vec![0; count * element.size()];
                std::io::Read::read_exact(file, &mut piece).context("the file is shorter than it was")?;
                piece
            }
            None => (start..start + count)
                .flat_map(|index| match spec.contents {
                    Contents::Random(_) => element.random(&mut random),
                    _ => element.at_index(index as u64),
                })
                .collect(),
        };
        memory.write(start * element.size(), &piece)?;
    }
    Ok(())
}

/// Names the argument after which a memory fault lies, if it does.
fn explain(error: QueueError, buffers: &[Output<'_>]) -> anyhow::Error {
    let (QueueError::MemoryFault(fault) | QueueError::Stopped { fault: Some(fault), .. }) = &error else {
        return error.into();
    };
    let near = buffers.iter().find(|buffer| {
        // The page after each buffer's last one cannot be accessed.
        let end = (buffer.memory.address() + buffer.memory.len() as u64).next_multiple_of(PAGE);
        (end..end + PAGE).contains(&fault.address)
    });
    match near {
        Some(Output { index, spec, .. }) => {
            let what = format!("{}[{}]", spec.element, spec.count);
            anyhow::Error::new(error)
                .context(format!("the kernel went past the end of argument {index} ({what})"))
        }
        None => error.into(),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let describe = || format!("cannot read the code object {}", path.display());
    let metadata = std::fs::metadata(path).with_context(describe)?;
    ensure!(metadata.is_file(), "{}: it is not a file", describe());
    if metadata.len() > MAX_FILE {
        bail!("{}: it has {} bytes, more than any code object", describe(), metadata.len());
    }
    std::fs::read(path).with_context(describe)
}
