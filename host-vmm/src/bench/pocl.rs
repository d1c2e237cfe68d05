//! The suite on the processor, through PoCL: the same OpenCL sources, the same launches.
//!
//! OpenCL is a shared library, which a binary without any cannot load: a program of its own does (`host-vmm/opencl`). It travels
//! in this binary.

use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use belfry_embedded::OPENCL;
use belfry_opencl::{Answer, Failure, Kernel, Request, receive, send};
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_process::scratch::Scratch;

use super::cases::{Arg, Case, Data, Kernels};

/// Definitions, in OpenCL, of the GPU's own functions that the sources use.
const PRELUDE: &str = "
#define __builtin_amdgcn_workitem_id_x() ((int)get_local_id(0))
#define __builtin_amdgcn_workitem_id_y() ((int)get_local_id(1))
#define __builtin_amdgcn_workgroup_id_x() ((int)get_group_id(0))
#define __builtin_amdgcn_workgroup_id_y() ((int)get_group_id(1))
#define __builtin_amdgcn_fence(order, scope)
#define __builtin_amdgcn_s_barrier() barrier(CLK_LOCAL_MEM_FENCE)
";

/// Why the processor could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PoclError {
    /// The program that loads OpenCL cannot be started.
    #[error("the program that loads OpenCL cannot be started: {0}")]
    Start(io::Error),
    /// The program has ended, or its answer does not fit the request.
    #[error("the program that loads OpenCL has failed: {0}")]
    Lost(io::Error),
    /// A request that the program cannot fulfil.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Some of the processors, with the suite compiled for them.
#[derive(Debug)]
pub(super) struct Processors {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    _program: KillOnDrop,
    /// Folder of the program.
    _folder: Scratch,
}

/// A kernel and its buffers.
#[derive(Debug)]
pub(super) struct Prepared<'a>(&'a mut Processors);

impl Processors {
    /// Starts PoCL on `count` processors, with the suite compiled.
    pub(super) fn new(count: usize) -> Result<Self, PoclError> {
        let folder = Scratch::new().map_err(PoclError::Start)?;
        let path = folder.path().join("belfry-opencl");
        fs::write(&path, *OPENCL).map_err(PoclError::Start)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(PoclError::Start)?;
        let mut command = Command::new(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        Self::with(command.spawn().map_err(PoclError::Start)?, folder, count)
    }

    fn with(mut program: Child, folder: Scratch, count: usize) -> Result<Self, PoclError> {
        let lost = || PoclError::Lost(io::ErrorKind::BrokenPipe.into());
        let requests = program.stdin.take().ok_or_else(lost)?;
        let answers = BufReader::new(program.stdout.take().ok_or_else(lost)?);
        let mut processors = Self { requests, answers, _program: KillOnDrop(program), _folder: folder };
        let sources = Kernels::ALL.map(|kernels| format!("{PRELUDE}{}", kernels.source())).to_vec();
        processors.ask(&Request::Open { processors: count, sources })?;
        Ok(processors)
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, PoclError> {
        let sent = send(&mut self.requests, request);
        let answer = sent.and_then(|()| receive(&mut self.answers));
        match answer.map_err(PoclError::Lost)? {
            Some(Answer::Failed(failure)) => Err(failure.into()),
            Some(answer) => Ok(answer),
            None => Err(PoclError::Lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Prepares a kernel in place of the last one.
    pub(super) fn prepare(&mut self, case: &'static Case, data: &Data) -> Result<Prepared<'_>, PoclError> {
        let args = case.args.iter().map(|arg| match arg {
            Arg::Output => belfry_opencl::Arg::Output,
            Arg::A => belfry_opencl::Arg::Input(0),
            Arg::B => belfry_opencl::Arg::Input(1),
            Arg::Number(number) => belfry_opencl::Arg::Number(*number),
        });
        self.ask(&Request::Prepare(Kernel {
            source: case.kernels as usize,
            name: case.kernel.into(),
            grid: case.grid.map(|size| size as usize),
            block: case.block.map(|size| size as usize),
            repeats: case.repeats,
            args: args.collect(),
            inputs: [data.a.clone(), data.b.clone()],
            output: data.expected.len(),
        }))?;
        Ok(Prepared(self))
    }
}

fn unexpected() -> PoclError {
    PoclError::Lost(io::Error::other("it answers what it was not asked"))
}

impl Prepared<'_> {
    /// Does one run, as on the GPU: the launches one after the other, then a wait for the last. The time is the
    /// program's.
    pub(super) fn run(&mut self) -> Result<Duration, PoclError> {
        match self.0.ask(&Request::Run)? {
            Answer::Took(nanoseconds) => Ok(Duration::from_nanos(nanoseconds)),
            _ => Err(unexpected()),
        }
    }

    /// Returns the output of the last run.
    pub(super) fn output(&mut self) -> Result<Vec<f32>, PoclError> {
        match self.0.ask(&Request::Output)? {
            Answer::Output(values) => Ok(values),
            _ => Err(unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(script: &str) -> PoclError {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        Processors::with(child, Scratch::new().unwrap(), 1).unwrap_err()
    }

    #[test]
    fn program_that_fails_is_an_error() {
        assert!(matches!(with("exit 3"), PoclError::Lost(_)));
        let error = with(r"printf '\001\000\000\000\177'");
        assert!(matches!(error, PoclError::Lost(_)), "{error}");
    }

    #[test]
    fn missing_libraries_come_with_the_fix() {
        let failure = Failure::Missing("there is no libOpenCL.so.1".into());
        let mut bytes = Vec::new();
        send(&mut bytes, &Answer::Failed(failure.clone())).unwrap();
        let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let error = with(&format!("printf '{octal}'; cat > /dev/null"));
        assert!(matches!(&error, PoclError::Failed(said) if *said == failure), "{error}");
        assert!(error.to_string().contains("apt install pocl-opencl-icd"), "{error}");
    }
}
