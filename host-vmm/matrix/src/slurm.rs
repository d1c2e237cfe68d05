//! The engine of a Slurm cluster: the cells that have no result yet are a job array, each of whose tasks runs one cell.
//!
//! The folder of results is one that all nodes see. A task writes its result there itself, so that a node that dies takes its own
//! cell with it and no other; cells without a result are submitted again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::cells::Cell;
use crate::file::Matrix;
use crate::results::{CellResult, Results};

/// Cells of one job array: Slurm's own limit (`MaxArraySize`) is 1001 unless a cluster sets it.
const MOST_TASKS: usize = 1000;
/// Arrays that cells without a result are submitted in.
const SUBMISSIONS: u32 = 3;

/// Errors of the Slurm engine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// Slurm's program cannot be run.
    #[error("sbatch: {0}; install Slurm's client (slurm-client), or take --engine local")]
    Missing(io::Error),
    /// Slurm refused the job.
    #[error("sbatch has refused the job: {0}")]
    Refused(String),
    /// The job's script cannot be written.
    #[error("{}: {error}", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// A job array that runs cells.
#[derive(Debug, Clone)]
pub struct Slurm {
    /// The `belfry` of the nodes.
    pub binary: PathBuf,
    /// The matrix file.
    pub file: PathBuf,
    /// Options of `belfry matrix` that each task has.
    pub options: Vec<String>,
    /// Options of `sbatch`.
    pub sbatch: Vec<String>,
    /// Tasks at a time; all that fit the cluster if it is 0.
    pub jobs: usize,
}

impl Slurm {
    /// Submits cells, waits for their tasks, and tells of each result. Cells that have no result after that, because their
    /// nodes died or their tasks were cancelled, are submitted again; those that never have one are left without.
    ///
    /// # Errors
    ///
    /// [`SlurmError`]: Slurm is not there, or refuses the job.
    pub fn run_all(
        &self,
        matrix: &Matrix,
        cells: &[Cell],
        results: &Results,
        tell: &dyn Fn(&CellResult),
    ) -> Result<(), SlurmError> {
        for chunk in cells.chunks(MOST_TASKS) {
            // Results of before are not taken for those of these tasks.
            let before: Vec<_> = chunk.iter().map(|cell| written(results, cell)).collect();
            let is_new =
                |at: usize| written(results, &chunk[at]).filter(|now| Some(now) != before[at].as_ref());
            let mut left: Vec<usize> = (0..chunk.len()).collect();
            for _ in 0..SUBMISSIONS {
                if left.is_empty() {
                    break;
                }
                let indices: Vec<usize> = left.iter().map(|&at| chunk[at].index).collect();
                self.submit(matrix, &indices, results.folder())?;
                left.retain(|&at| {
                    let done = is_new(at).is_some();
                    if done && let Some(result) = results.of(&chunk[at]) {
                        tell(&CellResult { kept: false, ..result });
                    }
                    !done
                });
            }
        }
        Ok(())
    }

    /// Submits the cells of these numbers, and waits for the end of their tasks.
    fn submit(&self, matrix: &Matrix, indices: &[usize], folder: &Path) -> Result<(), SlurmError> {
        let path = folder.join("array.sh");
        fs::write(&path, self.script(matrix, indices, folder))
            .map_err(|error| SlurmError::Script { path: path.clone(), error })?;
        let mut command = Command::new("sbatch");
        // `--wait` ends with the last task, with the highest status of all: that of a cell that failed is no refusal.
        command.arg("--wait").args(&self.sbatch).arg(&path).stdin(Stdio::null()).stdout(Stdio::piped());
        let output = command.stderr(Stdio::piped()).output().map_err(SlurmError::Missing)?;
        if !String::from_utf8_lossy(&output.stdout).contains("Submitted batch job") {
            return Err(SlurmError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(())
    }

    /// Returns the script of a job array.
    fn script(&self, matrix: &Matrix, indices: &[usize], folder: &Path) -> String {
        let list: Vec<String> = indices.iter().map(usize::to_string).collect();
        let most = if self.jobs == 0 { String::new() } else { format!("%{}", self.jobs) };
        let megabytes = matrix.memory.div_ceil(1 << 20);
        // A cell may run twice, the second time for its record.
        let minutes = (matrix.limit.as_secs() * 2).div_ceil(60) + 1;
        let options: String = self.options.iter().map(|option| format!(" {}", quoted(option))).collect();
        format!(
            "#!/bin/sh\n#SBATCH --job-name=belfry-matrix\n#SBATCH --array={}{most}\n#SBATCH --cpus-per-task={}\n\
             #SBATCH --mem={megabytes}M\n#SBATCH --time={minutes}\n#SBATCH --requeue\n#SBATCH --output=/dev/null\n\
             exec {} matrix {} --out {} --cell \"$SLURM_ARRAY_TASK_ID\"{options}\n",
            list.join(","),
            matrix.processors,
            quoted(&self.binary.to_string_lossy()),
            quoted(&self.file.to_string_lossy()),
            quoted(&folder.to_string_lossy()),
        )
    }
}

/// Returns the bytes of a cell's result and the moment at which they were written.
fn written(results: &Results, cell: &Cell) -> Option<(std::time::SystemTime, u64)> {
    let data = fs::metadata(results.file(cell, "json")).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// Returns a text as one word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn script_asks_for_what_a_cell_needs_and_quotes_paths() {
        let matrix = Matrix {
            title: "m".into(),
            base: "/".into(),
            limit: Duration::from_secs(90),
            memory: (1 << 30) + 1,
            processors: 2,
            programs: Vec::new(),
            text: String::new(),
        };
        let slurm = Slurm {
            binary: "/opt/belfry".into(),
            file: "/a b/it's.toml".into(),
            options: vec!["--no-records".into()],
            sbatch: Vec::new(),
            jobs: 4,
        };
        let script = slurm.script(&matrix, &[0, 7], Path::new("/out"));
        for line in [
            "#SBATCH --array=0,7%4",
            "#SBATCH --cpus-per-task=2",
            "#SBATCH --mem=1025M",
            "#SBATCH --time=4",
            "#SBATCH --requeue",
            "exec '/opt/belfry' matrix '/a b/it'\\''s.toml' --out '/out' --cell \"$SLURM_ARRAY_TASK_ID\" '--no-records'",
        ] {
            assert!(script.lines().any(|said| said == line), "{line} is not in {script}");
        }
    }
}
