//! The directory that a process has in sysfs while it has the KFD node open, with one for each of its queues.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use belfry_runtime::Runtime;

const PROC: &str = "/sys/class/kfd/kfd/proc";
const GPU_ID: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id";
/// Bytes that the process allocates.
const SIZE: usize = 3 << 20;

struct Directory {
    path: PathBuf,
    gpu_id: String,
}

impl Directory {
    fn number(&self, name: &str) -> Result<u64> {
        let path = self.path.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.trim_end().parse()?)
    }

    /// The queues it lists: their sizes and types.
    fn queues(&self) -> Result<Vec<(u64, u64)>> {
        let mut queues = Vec::new();
        for entry in fs::read_dir(self.path.join("queues"))? {
            let name = format!("queues/{}", entry?.file_name().display());
            ensure!(self.number(&format!("{name}/gpuid"))?.to_string() == self.gpu_id, "{name}: another GPU");
            queues.push((self.number(&format!("{name}/size"))?, self.number(&format!("{name}/type"))?));
        }
        Ok(queues)
    }
}

/// Uses the GPU and checks its directory meanwhile.
///
/// # Errors
///
/// When the directory differs from the process's use of the GPU, or stays when the process is done.
pub fn run(out: &mut dyn Write) -> Result<()> {
    let path = PathBuf::from(PROC).join(std::process::id().to_string());
    ensure!(!path.exists(), "{} is there before the process uses the GPU", path.display());
    let gpu_id = fs::read_to_string(GPU_ID)?.trim_end().to_owned();
    let directory = Directory { path, gpu_id };
    {
        let runtime = Runtime::open()?;
        let gpu = runtime.gpu();
        ensure!(directory.number("pasid")? > 0, "no PASID");
        let vram = format!("vram_{}", directory.gpu_id);
        let before = directory.number(&vram)?;
        let memory = gpu.vram().buffer::<u8>(SIZE)?;
        let grown = directory.number(&vram)? - before;
        ensure!(grown >= SIZE as u64, "{vram} grew by {grown} bytes instead of {SIZE}");
        drop(memory);
        ensure!(directory.number(&vram)? == before, "{vram} is not what it was");
        let stats = format!("stats_{}/evicted_ms", directory.gpu_id);
        ensure!(directory.number(&stats)? == 0, "nothing was evicted");
        let others = directory.queues()?.len();
        let queue = gpu.queue()?;
        let queues = directory.queues()?;
        ensure!(queues.len() == others + 1, "{queues:?} beside {others}");
        // Compute queues: their format is no part of the type.
        ensure!(queues.iter().all(|&(size, kind)| size >= 4096 && kind == 0), "{queues:?}");
        drop(queue);
        ensure!(directory.queues()?.len() == others, "the queue's directory stays");
    }
    ensure!(!directory.path.exists(), "{} stays", directory.path.display());
    writeln!(out, "proc-files: verified")?;
    Ok(())
}
