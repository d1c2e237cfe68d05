//! The engine of this machine: as many cells at a time as fit its processors and memory.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use belfry_process::child::die_with_parent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::cells::Cell;
use crate::file::Matrix;
use crate::results::{CellResult, Outcome, Results, ResultsError};

/// Bytes of a program's output that are kept in its log; the rest is read and dropped.
const MOST_LOG: u64 = 64 << 20;
/// Bytes of the end of the output that a result has.
const TAIL: usize = 4096;

/// Variables by which a shell or a scheduler leaves a program a part of the machine's GPUs.
const CHOICES: [&str; 5] = [
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
];

/// Settings of cells that run here.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The `belfry` that runs them.
    pub binary: PathBuf,
    /// Folder that they run in.
    pub base: PathBuf,
    /// Time that each may take.
    pub limit: Duration,
    /// True if a cell that failed is run again with `--record`.
    pub records: bool,
}

/// Returns the number of cells that fit the processors and the free memory of this machine, at least 1.
#[must_use]
pub fn fitting(matrix: &Matrix) -> usize {
    let processors =
        thread::available_parallelism().map_or(1, usize::from) / matrix.processors.max(1) as usize;
    let memory = free_memory()
        .map_or(usize::MAX, |free| usize::try_from(free / matrix.memory.max(1)).unwrap_or(usize::MAX));
    processors.min(memory).max(1)
}

/// Returns the bytes of memory that a new process can have: those of the machine, or of the container.
fn free_memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let line = machine.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)?;
    let container = || -> Option<u64> {
        let of = |name: &str| fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok();
        let most = of("memory.max")?.trim().parse::<u64>().ok()?;
        Some(most.saturating_sub(of("memory.current")?.trim().parse().ok()?))
    };
    Some(container().map_or(machine, |container| machine.min(container)))
}

/// Runs cells, `jobs` at a time, keeps each result as soon as it is there, and tells of it.
///
/// # Errors
///
/// [`ResultsError`] if a result cannot be kept; then no further cell begins, and those that run end first.
pub fn run_all(
    runner: &Runner,
    cells: &[Cell],
    jobs: usize,
    results: &Results,
    tell: &(dyn Fn(&CellResult) + Sync),
) -> Result<(), ResultsError> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed)
                    && let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let kept = runner.run(cell, results).and_then(|result| {
                        results.keep(cell, &result)?;
                        tell(&result);
                        Ok(())
                    });
                    if let Err(error) = kept {
                        stops.store(true, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl Runner {
    /// Runs a cell to its end. One that fails is run again, and recorded.
    ///
    /// # Errors
    ///
    /// [`ResultsError::Io`] if the program's output cannot be kept. A program that cannot be started has failed.
    pub fn run(&self, cell: &Cell, results: &Results) -> Result<CellResult, ResultsError> {
        let mut result = CellResult {
            key: cell.key.clone(),
            name: cell.name(),
            outcome: Outcome::Absent,
            why: cell.absent.clone(),
            seconds: 0.0,
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            output: String::new(),
            record: None,
            kept: false,
        };
        if result.why.is_some() {
            return Ok(result);
        }
        let path = results.file(cell, "log");
        let lost = |error| ResultsError::Io { path: path.clone(), error };
        let mut log = File::create(&path).map_err(lost)?;
        let begun = Instant::now();
        let ended = self.attempt(&cell.arguments, &mut log).map_err(lost)?;
        result.seconds = begun.elapsed().as_secs_f64();
        result.output = ended.tail;
        (result.outcome, result.why) = judge(ended.status, cell.expect, self.limit);
        let option = cell.again.option().filter(|_| self.records && result.outcome != Outcome::Passed);
        let Some(option) = option else { return Ok(result) };
        let record = results.file(cell, "record");
        // Of a run before this one.
        let _ = fs::remove_file(&record).or_else(|_| fs::remove_dir_all(&record));
        let options = [option.to_owned(), record.to_string_lossy().into_owned()];
        writeln!(log, "\n--- once more, with {option} ---").map_err(lost)?;
        let again = self.attempt(&cell.with_options(&options), &mut log).map_err(lost)?;
        let there = if cell.again.is_folder() {
            fs::read_dir(&record).is_ok_and(|mut files| files.next().is_some())
        } else {
            record.is_file()
        };
        let (outcome, _) = judge(again.status, cell.expect, self.limit);
        let said = match (there, outcome) {
            (false, _) => "it could not be recorded",
            (true, Outcome::Passed) => "it passed when it was recorded",
            (true, _) => "it failed again when it was recorded",
        };
        result.why = result.why.map(|why| format!("{why}; {said}"));
        result.record = there.then(|| record.file_name().unwrap_or_default().to_string_lossy().into_owned());
        Ok(result)
    }

    /// Returns the command of a cell. A cell has all of its GPUs, which are not those that a job has been given.
    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(&self.base).stdin(Stdio::null());
        for choice in CHOICES {
            command.env_remove(choice);
        }
        command
    }

    /// Runs `belfry` with arguments, and adds its output to the log.
    fn attempt(&self, arguments: &[String], log: &mut File) -> io::Result<Ended> {
        let (mut output, writer) = io::pipe()?;
        let mut command = self.command(arguments);
        command.stdout(writer.try_clone()?).stderr(writer);
        // A group of its own, which is killed as a whole.
        command.process_group(0);
        die_with_parent(&mut command);
        let started = command.spawn();
        drop(command);
        let mut ended = Ended { status: Err("no end".into()), tail: String::new() };
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                ended.status = Err(format!("{}: {error}", self.binary.display()));
                return Ok(ended);
            }
        };
        let mut group = Group(child);
        let ends = Instant::now() + self.limit;
        let mut kept = Kept { log, bytes: 0, tail: Vec::new() };
        let process = group.handle()?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let mut open = true;
        let timed_out = loop {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break true;
            }
            let mut waits = vec![PollFd::new(&process, PollFlags::IN)];
            if open {
                waits.push(PollFd::new(&output, PollFlags::IN));
            }
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut waits, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has_ended = waits[0].revents().contains(PollFlags::IN);
            drop(waits);
            open = kept.take(&mut output)?;
            if has_ended {
                break false;
            }
        };
        let status = group.end()?;
        kept.take(&mut output)?;
        ended.status = if timed_out { Ok(None) } else { Ok(Some(status)) };
        ended.tail = tail(&kept.tail);
        Ok(ended)
    }
}

/// The end of a process.
struct Ended {
    /// The status; `None` if it took too long; the reason if it never started.
    status: Result<Option<ExitStatus>, String>,
    /// End of its output.
    tail: String,
}

/// A child and its descendants, which end with it.
struct Group(Child);

impl Group {
    fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.0.id().cast_signed())
    }

    fn handle(&self) -> io::Result<OwnedFd> {
        let id = self.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(pidfd_open(id, PidfdFlags::empty())?)
    }

    /// Kills everything that is left of the group. The child is reaped after that: until then the number is its own.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(id) = self.id() {
            let _ = kill_process_group(id, Signal::KILL);
        }
        self.0.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The number of a child that was reaped may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

/// Output that is kept.
struct Kept<'a> {
    log: &'a mut File,
    bytes: u64,
    tail: Vec<u8>,
}

impl Kept<'_> {
    /// Takes everything that is there. Returns false if no more can come.
    fn take(&mut self, output: &mut io::PipeReader) -> io::Result<bool> {
        let mut buffer = [0; 16384];
        loop {
            let bytes = match output.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if self.bytes < MOST_LOG {
                self.log.write_all(bytes)?;
            }
            self.bytes += bytes.len() as u64;
            self.tail.extend_from_slice(bytes);
            let excess = self.tail.len().saturating_sub(TAIL);
            self.tail.drain(..excess);
        }
    }
}

/// Returns the end of an output as text, from the first whole line on.
fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.split_once('\n') {
        Some((_, rest)) if bytes.len() == TAIL => rest.to_owned(),
        _ => text.into_owned(),
    }
}

fn judge(
    status: Result<Option<ExitStatus>, String>,
    expect: u8,
    limit: Duration,
) -> (Outcome, Option<String>) {
    match status {
        Err(error) => (Outcome::Failed, Some(error)),
        Ok(None) => (Outcome::TimedOut, Some(format!("it was killed after {} s", limit.as_secs()))),
        Ok(Some(status)) => match (status.code(), status.signal()) {
            (Some(code), _) if code == i32::from(expect) => (Outcome::Passed, None),
            (Some(code), _) => (Outcome::Failed, Some(format!("exit status {code} instead of {expect}"))),
            (None, signal) => {
                (Outcome::Failed, Some(format!("ended by signal {}", signal.unwrap_or_default())))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::cells::Again;
    use crate::results::tests::cell;

    /// A script in place of `belfry`.
    struct Stage {
        folder: tempfile::TempDir,
        runner: Runner,
        results: Results,
    }

    fn stage(script: &str) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("belfry");
        fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        let base = folder.path().to_owned();
        let runner = Runner { binary, base, limit: Duration::from_secs(60), records: true };
        let results = Results::open(&folder.path().join("out")).unwrap();
        Stage { folder, runner, results }
    }

    fn with_arguments(key: &str, arguments: &[&str]) -> Cell {
        Cell { arguments: arguments.iter().map(|&a| a.to_owned()).collect(), ..cell(key) }
    }

    #[test]
    fn status_decides_and_the_output_is_kept() {
        let Stage { folder: _folder, runner, results } = stage("echo out; echo err >&2; exit $1");
        let passed = runner.run(&with_arguments("a", &["0"]), &results).unwrap();
        assert_eq!(
            (passed.outcome, passed.output.as_str(), passed.record),
            (Outcome::Passed, "out\nerr\n", None)
        );
        let expected = Cell { expect: 3, ..with_arguments("b", &["3"]) };
        assert_eq!(runner.run(&expected, &results).unwrap().outcome, Outcome::Passed);
        let failed = runner.run(&with_arguments("c", &["3"]), &results).unwrap();
        let why = "exit status 3 instead of 0; it could not be recorded";
        assert_eq!((failed.outcome, failed.why.as_deref()), (Outcome::Failed, Some(why)));
        let log = fs::read_to_string(results.file(&cell("c"), "log")).unwrap();
        assert_eq!(log.matches("out\nerr\n").count(), 2, "{log}");
    }

    #[test]
    fn cell_does_not_have_the_choice_of_gpus_that_a_job_has() {
        let command = stage("").runner.command(&[]);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        for choice in CHOICES {
            assert!(removed.iter().any(|(name, _)| *name == choice), "{choice}");
        }
    }

    #[test]
    fn cell_that_fails_leaves_a_record() {
        let Stage { folder: _folder, runner, results } =
            stage("[ $1 = --record ] && echo recorded >$2; kill -9 $$");
        let failed = runner.run(&cell("a"), &results).unwrap();
        let why = "ended by signal 9; it failed again when it was recorded";
        assert_eq!((failed.why.as_deref(), failed.record.as_deref()), (Some(why), Some("a.record")));
        assert!(results.folder().join("a.record").is_file());
        let without = Runner { records: false, ..runner };
        assert_eq!(without.run(&cell("b"), &results).unwrap().record, None);
    }

    #[test]
    fn search_that_finds_something_keeps_its_findings_or_says_its_command() {
        let Stage { folder: _folder, runner, results } =
            stage("[ \"$1\" = --findings ] && mkdir $2 && echo plan >$2/1.json; echo again; exit 1");
        let found = runner.run(&Cell { again: Again::Findings, ..cell("a") }, &results).unwrap();
        assert_eq!((found.outcome, found.record.as_deref()), (Outcome::Failed, Some("a.record")));
        assert!(results.folder().join("a.record/1.json").is_file());
        let told = runner.run(&Cell { again: Again::Command, ..cell("b") }, &results).unwrap();
        assert_eq!((told.output.as_str(), told.record), ("again\n", None));
    }

    #[test]
    fn program_that_takes_too_long_is_killed_with_its_descendants() {
        let Stage { folder, runner, results } = stage("sleep 1000 & echo $! >pid; wait");
        let runner = Runner { limit: Duration::from_millis(500), records: false, ..runner };
        let ended = runner.run(&cell("a"), &results).unwrap();
        assert_eq!(ended.outcome, Outcome::TimedOut);
        let descendant: i32 = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
        let state = || fs::read_to_string(format!("/proc/{descendant}/stat"));
        // Killed is not reaped yet.
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            thread::yield_now();
        }
    }

    #[test]
    fn descendant_that_keeps_the_output_open_does_not_keep_the_cell() {
        let Stage { folder: _folder, runner, results } = stage("setsid sleep 5 & echo done");
        let ended = runner.run(&cell("a"), &results).unwrap();
        assert_eq!((ended.outcome, ended.output.as_str()), (Outcome::Passed, "done\n"));
    }

    #[test]
    fn all_cells_run_and_a_program_that_is_missing_fails_alone() {
        let Stage { folder: _folder, runner, results } = stage("exit $1");
        let cells: Vec<_> =
            (0..20).map(|n| with_arguments(&n.to_string(), &[if n % 5 == 0 { "1" } else { "0" }])).collect();
        let told = Mutex::new(0);
        run_all(&Runner { records: false, ..runner.clone() }, &cells, 3, &results, &|_| {
            *told.lock().unwrap() += 1;
        })
        .unwrap();
        assert_eq!(*told.lock().unwrap(), 20);
        let failed = cells.iter().filter(|cell| results.of(cell).unwrap().outcome == Outcome::Failed).count();
        assert_eq!(failed, 4);
        let missing = Runner { binary: "/nonexistent".into(), ..runner };
        let result = missing.run(&cells[1], &results).unwrap();
        assert!(result.why.unwrap().starts_with("/nonexistent: "));
    }

    #[test]
    fn absent_cell_is_not_run() {
        let Stage { folder: _folder, runner, results } = stage("exit 1");
        let absent = Cell { absent: Some("no images".into()), ..cell("a") };
        let result = runner.run(&absent, &results).unwrap();
        assert_eq!((result.outcome, result.why.as_deref()), (Outcome::Absent, Some("no images")));
        assert!(!results.file(&absent, "log").exists());
    }
}
