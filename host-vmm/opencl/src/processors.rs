//! PoCL's processors and the kernels on them.
#![expect(unsafe_code, reason = "OpenCL hands data and kernels over by pointer")]

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use belfry_opencl::{Arg, Failure, Kernel};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_PARTITION_BY_COUNTS, CL_DEVICE_TYPE_CPU, Device, SubDevice};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::{CL_TRUE, cl_mem_flags};

fn failed(what: &'static str) -> impl FnOnce(ClError) -> Failure {
    move |error| Failure::Call { what: what.into(), error: error.to_string() }
}

/// Some of the processors.
pub(crate) struct Processors {
    context: Context,
    queue: CommandQueue,
    programs: Vec<Program>,
    /// The devices are given back last.
    _parts: Vec<SubDevice>,
}

/// A kernel and its buffers.
pub(crate) struct Prepared<'a> {
    processors: &'a Processors,
    kernel: opencl3::kernel::Kernel,
    grid: [usize; 2],
    block: [usize; 2],
    repeats: u32,
    output: Buffer<f32>,
    len: usize,
    _inputs: Vec<Buffer<f32>>,
}

impl Processors {
    /// PoCL on `count` processors, with the sources compiled.
    pub(crate) fn new(count: usize, sources: &[String]) -> Result<Self, Failure> {
        let platforms = get_platforms().map_err(|error| match error.0 {
            DLOPEN_RUNTIME_LOAD_FAILED => Failure::Missing("there is no libOpenCL.so.1".into()),
            CL_PLATFORM_NOT_FOUND_KHR => Failure::Missing("no OpenCL platform is registered".into()),
            _ => failed("listing the platforms")(error),
        })?;
        let is_pocl = |name: String| name.contains("Portable Computing Language");
        let platform = platforms
            .iter()
            .find(|platform| platform.name().is_ok_and(is_pocl))
            .ok_or_else(|| Failure::Missing("the OpenCL platforms there are belong to others".into()))?;
        let devices = platform.get_devices(CL_DEVICE_TYPE_CPU).map_err(failed("listing the devices"))?;
        let whole = Device::new(
            *devices.first().ok_or_else(|| Failure::Missing("PoCL has no processor device".into()))?,
        );
        let available = whole.max_compute_units().map_err(failed("counting the processors"))? as usize;
        if count == 0 || count > available {
            return Err(Failure::Processors { available, wanted: count });
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
        let build = |source: &String| {
            Program::create_and_build_from_source(&context, source, "")
                .map_err(|error| Failure::Call { what: "compiling the kernels".into(), error })
        };
        let programs = sources.iter().map(build).collect::<Result<_, _>>()?;
        Ok(Self { context, queue, programs, _parts: parts })
    }

    pub(crate) fn prepare(&self, asked: &Kernel) -> Result<Prepared<'_>, Failure> {
        let program = self.programs.get(asked.source);
        let program =
            program.ok_or_else(|| Failure::Order(format!("there is no source {}", asked.source)))?;
        let kernel =
            opencl3::kernel::Kernel::create(program, &asked.name).map_err(failed("finding a kernel"))?;
        let inputs = asked.inputs.iter().map(|values| self.buffer(values)).collect::<Result<Vec<_>, _>>()?;
        let output = self.buffer(&vec![0.0; asked.output])?;
        for (index, arg) in (0u32..).zip(&asked.args) {
            // SAFETY: the sources declare a pointer where a buffer is given, and a 32-bit integer where a number is.
            let set = unsafe {
                match arg {
                    Arg::Output => kernel.set_arg(index, &output.get()),
                    Arg::Input(at) => {
                        let input = inputs.get(*at);
                        let input = input.ok_or_else(|| Failure::Order(format!("there is no input {at}")))?;
                        kernel.set_arg(index, &input.get())
                    }
                    Arg::Number(number) => kernel.set_arg(index, number),
                }
            };
            set.map_err(failed("setting an argument"))?;
        }
        let Kernel { grid, block, repeats, output: len, .. } = *asked;
        Ok(Prepared { processors: self, kernel, grid, block, repeats, output, len, _inputs: inputs })
    }

    /// A buffer with these values, or of one value if there are none.
    fn buffer(&self, values: &[f32]) -> Result<Buffer<f32>, Failure> {
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
    pub(crate) fn run(&self) -> Result<Duration, Failure> {
        let queue = &self.processors.queue;
        let started = Instant::now();
        for _ in 0..self.repeats {
            // SAFETY: two sizes each, as the number of dimensions says; the kernel stays inside of its buffers.
            let launched = unsafe {
                queue.enqueue_nd_range_kernel(
                    self.kernel.get(),
                    2,
                    ptr::null(),
                    self.grid.as_ptr(),
                    self.block.as_ptr(),
                    &[],
                )
            };
            launched.map_err(failed("launching a kernel"))?;
        }
        queue.finish().map_err(failed("waiting for a kernel"))?;
        Ok(started.elapsed())
    }

    /// Reads the output of the last run.
    pub(crate) fn output(&self) -> Result<Vec<f32>, Failure> {
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
