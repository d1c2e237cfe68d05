//! Launches: geometry and arguments, checked, made into a dispatch packet.

use std::sync::Arc;

use belfry_abi::aql::{FENCE_SCOPE_SYSTEM, KernelDispatchPacket, PacketHeader, PacketType};
use zerocopy::{FromZeros, transmute};

use super::Kernel;
use crate::error::Error;
use crate::kernarg::{Arguments, Geometry, HiddenValues, KernelArg, lay_out};
use crate::queue::{Completion, Queue};
use crate::signal::Signal;

pub use crate::launch_error::LaunchError;

/// Bytes of LDS a workgroup may have where the topology does not say.
const DEFAULT_LDS: u64 = 64 << 10;
/// Workgroup of a launch that names none, if the kernel does not require one.
const DEFAULT_BLOCK: u32 = 256;
/// Stack of kernels whose need the compiler could not tell, in bytes per work-item.
const DYNAMIC_STACK: u32 = 4096;

/// Work-items in up to three dimensions: a number, a pair, a triple or an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent(pub [u32; 3]);

impl From<u32> for Extent {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Extent {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Extent {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 1]> for Extent {
    fn from([x]: [u32; 1]) -> Self {
        Self([x, 1, 1])
    }
}

impl From<[u32; 2]> for Extent {
    fn from([x, y]: [u32; 2]) -> Self {
        Self([x, y, 1])
    }
}

impl From<[u32; 3]> for Extent {
    fn from(extent: [u32; 3]) -> Self {
        Self(extent)
    }
}

/// A launch being put together.
///
/// ```no_run
/// # fn main() -> Result<(), belfry_runtime::Error> {
/// # let code: &[u8] = &[];
/// let runtime = belfry_runtime::Runtime::open()?;
/// let gpu = runtime.gpu();
/// let queue = gpu.queue()?;
/// let kernel = gpu.load(code)?.kernel("scale")?;
/// let data = gpu.vram().buffer_from(&[1.0f32; 1024])?;
/// kernel.launch(&queue).grid(1024).block(256).args((&data, 2.0f32)).run()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a launch does nothing until `run` or `submit`"]
#[derive(Debug)]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    queue: &'a Queue,
    grid: [u32; 3],
    block: Option<[u32; 3]>,
    shared: u32,
    args: Vec<KernelArg>,
    concurrent: bool,
}

impl<'a> Launch<'a> {
    pub(crate) fn new(kernel: &'a Kernel, queue: &'a Queue) -> Self {
        let args = Vec::new();
        Self { kernel, queue, grid: [1; 3], block: None, shared: 0, args, concurrent: false }
    }

    /// Work-items of the whole grid (not workgroups); one by default.
    pub fn grid(mut self, grid: impl Into<Extent>) -> Self {
        self.grid = grid.into().0;
        self
    }

    /// Work-items of a workgroup; by default the size that the kernel requires, or 256 in one dimension.
    pub fn block(mut self, block: impl Into<Extent>) -> Self {
        self.block = Some(block.into().0);
        self
    }

    /// Adds bytes of LDS to those that the kernel declares.
    pub fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl Into<KernelArg>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments: a tuple or a vector.
    pub fn args(mut self, args: impl Arguments) -> Self {
        self.args.extend(args.into_args());
        self
    }

    /// Lets the kernel start before earlier ones of this queue are done.
    pub fn concurrent(mut self) -> Self {
        self.concurrent = true;
        self
    }

    /// Submits the launch and waits until it is done.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit), and [`Error::Queue`] when the GPU stops on it.
    pub fn run(self) -> Result<(), Error> {
        Ok(self.submit()?.wait()?)
    }

    /// Submits the launch.
    ///
    /// # Errors
    ///
    /// [`Error::Launch`] and [`Error::Argument`] for a geometry or an argument that does not fit the kernel,
    /// [`Error::Memory`] when memory for arguments or scratch runs out, [`Error::Queue`] when the queue was stopped.
    pub fn submit(self) -> Result<Completion, Error> {
        let info = self.kernel.info();
        let gpu = self.queue.gpu();
        if !Arc::ptr_eq(gpu, self.kernel.gpu()) {
            return Err(LaunchError::ForeignQueue { kernel: info.name.clone() }.into());
        }
        let geometry = self.geometry()?;
        let values = HiddenValues {
            queue: self.queue.control_address(),
            private_base_hi: (gpu.apertures.scratch_base >> 32) as u32,
            shared_base_hi: (gpu.apertures.lds_base >> 32) as u32,
            shared: self.shared,
        };
        let segment = lay_out(info, &self.args, &geometry, &values)?;
        let limit = match u64::from(gpu.agent.lds_kib) << 10 {
            0 => DEFAULT_LDS,
            limit => limit,
        };
        if segment.group_size > limit {
            let bytes = segment.group_size;
            return Err(LaunchError::Lds { kernel: info.name.clone(), bytes, limit }.into());
        }
        let kernarg = gpu.kernargs.place(&segment.bytes)?;
        let signal = Signal::new(&gpu.process, 1)?;
        let private =
            if info.dynamic_stack { info.private_size.max(DYNAMIC_STACK) } else { info.private_size };

        let mut packet = KernelDispatchPacket::new_zeroed();
        let barrier = !self.concurrent;
        let header =
            PacketHeader::new(PacketType::KERNEL_DISPATCH, barrier, FENCE_SCOPE_SYSTEM, FENCE_SCOPE_SYSTEM);
        packet.header = header.bits();
        packet.setup = geometry.dimensions();
        // Blocks were checked against the kernel's limit, which is far below 65536.
        [packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z] =
            geometry.block.map(|size| size as u16);
        [packet.grid_size_x, packet.grid_size_y, packet.grid_size_z] = geometry.grid;
        packet.private_segment_size = private;
        packet.group_segment_size = segment.group_size as u32;
        packet.kernel_object = self.kernel.object();
        packet.kernarg_address = kernarg.address();
        packet.completion_signal = signal.handle();

        let mut uses = vec![Arc::new(kernarg) as _, self.kernel.code()];
        uses.extend(self.args.into_iter().filter_map(|arg| match arg {
            KernelArg::Buffer { memory, .. } => Some(memory),
            _ => None,
        }));
        Ok(self.queue.dispatch(&transmute!(packet), signal, private, info.wavefront, uses)?)
    }

    fn geometry(&self) -> Result<Geometry, LaunchError> {
        let info = self.kernel.info();
        let default = info.required_workgroup.unwrap_or([DEFAULT_BLOCK.min(info.max_workgroup), 1, 1]);
        let geometry = Geometry { grid: self.grid, block: self.block.unwrap_or(default) };
        check_geometry(&info.name, &geometry, info.required_workgroup, info.max_workgroup)?;
        Ok(geometry)
    }
}

fn check_geometry(
    kernel: &str,
    geometry: &Geometry,
    required: Option<[u32; 3]>,
    limit: u32,
) -> Result<(), LaunchError> {
    let kernel = || kernel.to_owned();
    for (what, extent) in [("grid", geometry.grid), ("block", geometry.block)] {
        if extent.contains(&0) {
            return Err(LaunchError::Empty { kernel: kernel(), what, extent });
        }
    }
    let block = geometry.block;
    if let Some(required) = required.filter(|required| *required != block) {
        return Err(LaunchError::BlockRequired { kernel: kernel(), block, required });
    }
    // No hardware runs more than 1024 work-items in a workgroup, even if the metadata allows it.
    let limit = limit.min(1024);
    let items =
        block.iter().map(|size| u64::from(*size)).try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
    if items > u64::from(limit) {
        return Err(LaunchError::BlockTooLarge { kernel: kernel(), block, items, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_is_checked_before_anything_is_sent() {
        type Case = ([u32; 3], [u32; 3], Option<[u32; 3]>, fn(LaunchError) -> bool);
        let cases: [Case; 5] = [
            ([0, 1, 1], [1, 1, 1], None, |error| matches!(error, LaunchError::Empty { what: "grid", .. })),
            ([1, 1, 1], [1, 0, 1], None, |error| matches!(error, LaunchError::Empty { what: "block", .. })),
            ([512, 1, 1], [512, 1, 1], None, |error| matches!(error, LaunchError::BlockTooLarge { .. })),
            ([1, 1, 1], [u32::MAX; 3], None, |error| matches!(error, LaunchError::BlockTooLarge { .. })),
            ([64, 1, 1], [64, 1, 1], Some([32, 1, 1]), |error| {
                matches!(error, LaunchError::BlockRequired { .. })
            }),
        ];
        for (grid, block, required, check) in cases {
            let error = check_geometry("k", &Geometry { grid, block }, required, 256).unwrap_err();
            assert!(check(error.clone()), "{error}");
        }
        check_geometry("k", &Geometry { grid: [100, 3, 1], block: [64, 4, 1] }, None, 256).unwrap();
    }
}
