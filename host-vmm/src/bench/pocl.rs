//! The suite on the processor, through PoCL: the same OpenCL sources, the same launches.
#![expect(unsafe_code, reason = "OpenCL hands data and kernels over by pointer")]

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_PARTITION_BY_COUNTS, CL_DEVICE_TYPE_CPU, Device, SubDevice};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::{CL_TRUE, cl_mem_flags};

use super::cases::{Arg, Case, Data, Kernels};

/// What the sources use of the GPU's own functions, in OpenCL's.
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
    /// No OpenCL, or none of PoCL's.
    #[error(
        "comparing with the processor takes PoCL, which is not installed ({0}): apt install pocl-opencl-icd ocl-icd-libopencl1"
    )]
    Missing(String),
    /// This program cannot load libraries.
    #[error(
        "this belfry is linked without shared libraries and cannot load OpenCL; build one that can: \
         BELFRY_SHARED=1 cargo run --release -- bench isa --vs-cpu"
    )]
    Static,
    /// PoCL offers fewer processors than asked for.
    #[error("PoCL runs on {available} processors, fewer than the {wanted} workers to compare with")]
    Processors {
        /// Processors there are.
        available: usize,
        /// Processors wanted.
        wanted: usize,
    },
    /// A call failed.
    #[error("PoCL: {what} failed: {error}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// What OpenCL says.
        error: String,
    },
}

fn failed(what: &'static str) -> impl FnOnce(ClError) -> PoclError {
    move |error| PoclError::Call { what, error: error.to_string() }
}

/// Some of the processors.
pub(super) struct Processors {
    context: Context,
    queue: CommandQueue,
    /// In the order of [`Kernels::ALL`].
    programs: Vec<Program>,
    /// The devices are given back last.
    _parts: Vec<SubDevice>,
}

impl std::fmt::Debug for Processors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processors").finish_non_exhaustive()
    }
}

/// A kernel and its buffers.
pub(super) struct Prepared<'a> {
    processors: &'a Processors,
    case: &'static Case,
    kernel: Kernel,
    output: Buffer<f32>,
    len: usize,
    _inputs: [Buffer<f32>; 2],
}

impl Processors {
    /// PoCL on `count` processors, with the suite compiled.
    pub(super) fn new(count: usize) -> Result<Self, PoclError> {
        // Without an interpreter there is no base address of one (`getauxval(3)`): `dlopen` would crash in the library.
        // SAFETY: reads the auxiliary vector.
        if unsafe { libc::getauxval(libc::AT_BASE) } == 0 {
            return Err(PoclError::Static);
        }
        let platforms = get_platforms().map_err(|error| match error.0 {
            DLOPEN_RUNTIME_LOAD_FAILED => PoclError::Missing("there is no libOpenCL.so.1".into()),
            CL_PLATFORM_NOT_FOUND_KHR => PoclError::Missing("no OpenCL platform is registered".into()),
            _ => failed("listing the platforms")(error),
        })?;
        let is_pocl = |name: String| name.contains("Portable Computing Language");
        let platform = platforms
            .iter()
            .find(|platform| platform.name().is_ok_and(is_pocl))
            .ok_or_else(|| PoclError::Missing("the OpenCL platforms there are belong to others".into()))?;
        let devices = platform.get_devices(CL_DEVICE_TYPE_CPU).map_err(failed("listing the devices"))?;
        let whole = Device::new(
            *devices.first().ok_or_else(|| PoclError::Missing("PoCL has no processor device".into()))?,
        );
        let available = whole.max_compute_units().map_err(failed("counting the processors"))? as usize;
        if count > available {
            return Err(PoclError::Processors { available, wanted: count });
        }
        let parts = if count == available {
            Vec::new()
        } else {
            whole
                .create_sub_devices(&[CL_DEVICE_PARTITION_BY_COUNTS, count as isize, 0])
                .map_err(failed("taking a part of the processors"))?
        };
        let device = parts.first().map_or(whole, |part| Device::new(part.id()));
        let context = Context::from_device(&device).map_err(failed("creating a context"))?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0)
            .map_err(failed("creating a queue"))?;
        let build = |kernels: Kernels| {
            Program::create_and_build_from_source(&context, &format!("{PRELUDE}{}", kernels.source()), "")
                .map_err(|error| PoclError::Call { what: "compiling the kernels", error })
        };
        let programs = Kernels::ALL.into_iter().map(build).collect::<Result<_, _>>()?;
        Ok(Self { context, queue, programs, _parts: parts })
    }

    pub(super) fn prepare(&self, case: &'static Case, data: &Data) -> Result<Prepared<'_>, PoclError> {
        let program = &self.programs[case.kernels as usize];
        let kernel = Kernel::create(program, case.kernel).map_err(failed("finding a kernel"))?;
        let (a, b) = (self.buffer(&data.a)?, self.buffer(&data.b)?);
        let len = data.expected.len();
        let output = self.buffer(&vec![0.0; len])?;
        for (index, arg) in (0u32..).zip(case.args) {
            // SAFETY: the sources declare a pointer where a buffer is given, and a 32-bit integer where a number is.
            let set = unsafe {
                match arg {
                    Arg::Output => kernel.set_arg(index, &output.get()),
                    Arg::A => kernel.set_arg(index, &a.get()),
                    Arg::B => kernel.set_arg(index, &b.get()),
                    Arg::Number(number) => kernel.set_arg(index, number),
                }
            };
            set.map_err(failed("setting an argument"))?;
        }
        Ok(Prepared { processors: self, case, kernel, output, len, _inputs: [a, b] })
    }

    /// A buffer with these values, or of one value if there are none.
    fn buffer(&self, values: &[f32]) -> Result<Buffer<f32>, PoclError> {
        let mut values = if values.is_empty() { vec![0.0] } else { values.to_vec() };
        let flags: cl_mem_flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        // SAFETY: OpenCL copies as many values as there are, before the call returns.
        let buffer = unsafe {
            Buffer::create(&self.context, flags, values.len(), values.as_mut_ptr().cast::<c_void>())
        };
        buffer.map_err(failed("making a buffer"))
    }
}

impl Prepared<'_> {
    /// One run, as on the GPU: the launches one after the other, then a wait for the last.
    pub(super) fn run(&self) -> Result<Duration, PoclError> {
        let grid = self.case.grid.map(|size| size as usize);
        let block = self.case.block.map(|size| size as usize);
        let started = Instant::now();
        for _ in 0..self.case.repeats {
            // SAFETY: two sizes each, as the number of dimensions says; the kernel stays inside of its buffers.
            let launched = unsafe {
                let queue = &self.processors.queue;
                queue.enqueue_nd_range_kernel(
                    self.kernel.get(),
                    2,
                    ptr::null(),
                    grid.as_ptr(),
                    block.as_ptr(),
                    &[],
                )
            };
            launched.map_err(failed("launching a kernel"))?;
        }
        self.processors.queue.finish().map_err(failed("waiting for a kernel"))?;
        Ok(started.elapsed())
    }

    /// What the last run left in the output.
    pub(super) fn output(&self) -> Result<Vec<f32>, PoclError> {
        let mut values = vec![0.0; self.len];
        if values.is_empty() {
            return Ok(values);
        }
        // SAFETY: the vector is as long as the buffer, and the call returns once it is filled.
        unsafe { self.processors.queue.enqueue_read_buffer(&self.output, CL_TRUE, 0, &mut values, &[]) }
            .map_err(failed("reading the output"))?;
        Ok(values)
    }
}
