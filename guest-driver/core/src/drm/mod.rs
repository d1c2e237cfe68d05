//! The render node: what each ioctl of the amdgpu driver does (`amdgpu_drv.c`, `amdgpu_ioctls_kms`).
//!
//! The operating system's side copies arguments in and out, as the DRM core does: a caller's structure that is shorter
//! than the driver's is extended with zeros. Handles are the operating system's, too: [`RenderFile`].

mod client;
mod gem;
mod info;
mod va;

use alloc::sync::Arc;

use belfry_abi::kfd::drm::{self as nr, DRM_COMMANDS, DrmAmdgpuInfo};
use belfry_abi::kfd::ioctl::{ioc_nr, ioc_size};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use client::Client;
pub use info::{REFUSED_QUERIES, RefusedQuery};

use crate::errno::{Errno, Result};
use crate::os::{Os, RenderFile};

/// A command that is refused, with the reason; for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Command word.
    pub command: u32,
    /// What a caller gets.
    pub errno: Errno,
    /// Why.
    pub reason: &'static str,
}

const fn absent(command: u32, reason: &'static str) -> Refused {
    Refused { command, errno: Errno::EINVAL, reason }
}

/// Commands that are in the interface and not built. `EINVAL` is what DRM answers for a number it does not know.
pub const REFUSED: &[Refused] = &[
    absent(nr::CTX, "not built: no contexts"),
    absent(nr::BO_LIST, "not built: no submissions"),
    absent(nr::CS, "not built: no submissions"),
    absent(nr::WAIT_CS, "not built: no submissions"),
    absent(nr::GEM_USERPTR, "not built: KFD gives the GPU memory of programs"),
    absent(nr::WAIT_FENCES, "not built: no submissions"),
    absent(nr::VM, "not built: the scheduler gives out VMIDs"),
    absent(nr::FENCE_TO_HANDLE, "not built: no submissions"),
    Refused {
        command: nr::SCHED,
        errno: Errno::EACCES,
        reason: "for the master of a display, which nobody is",
    },
];

/// A command that runs, and what of it is refused or does nothing; for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// The command.
    pub command: u32,
    /// What is missing.
    pub missing: &'static str,
}

/// Commands of which a part is not there.
pub const PARTIAL: &[Partial] = &[
    Partial {
        command: nr::GEM_CREATE,
        missing: "domains GDS, GWS and OA, and flags ENCRYPTED and GFX12_DCC: EINVAL(22), not built; memory is asked \
                  for once, and system memory takes the place of VRAM only where both were named",
    },
    Partial { command: nr::INFO, missing: "questions of the table below" },
    Partial {
        command: nr::GEM_VA,
        missing: "flag PRT: EINVAL(22), not built; tables are written at once in spite of DELAY_UPDATE",
    },
    Partial { command: nr::GEM_OP, missing: "SET_PLACEMENT is kept and told, and moves nothing" },
    Partial { command: nr::GEM_METADATA, missing: "memory of another process under belfry exec: EINVAL(22)" },
];

/// What a command works with.
struct Call<'a, O: Os> {
    client: &'a Arc<Client<O>>,
    file: &'a dyn RenderFile,
}

/// Runs a command over `data`, which is at least as long as the driver's structure of it and gets the answer.
///
/// # Errors
///
/// `EINVAL` for a number outside the table, else the command's.
pub(crate) fn dispatch<O: Os>(
    client: &Arc<Client<O>>,
    file: &dyn RenderFile,
    command: u32,
    data: &mut [u8],
) -> Result<()> {
    let known = |&&(_, known): &&(&str, u32)| ioc_nr(known) == ioc_nr(command);
    let command = DRM_COMMANDS.iter().find(known).ok_or(Errno::EINVAL)?.1;
    let data = data.get_mut(..ioc_size(command)).ok_or(Errno::EINVAL)?;
    let call = &Call { client, file };
    match command {
        nr::GEM_CREATE => answer(data, |args| gem::create(call, args)),
        nr::GEM_MMAP => answer(data, |args| gem::mmap(call, args)),
        nr::INFO => client.device().amdgpu_info(&read::<DrmAmdgpuInfo>(data)?),
        nr::GEM_METADATA => answer(data, |args| gem::metadata(call, args)),
        nr::GEM_WAIT_IDLE => answer(data, |args| gem::wait_idle(call, args)),
        nr::GEM_VA => va::change(call, &read(data)?),
        nr::GEM_OP => gem::op(call, &read(data)?),
        _ => Err(REFUSED
            .iter()
            .find(|refused| refused.command == command)
            .map_or(Errno::EINVAL, |refused| refused.errno)),
    }
}

/// The structure at the front of `data`.
fn read<T: FromBytes>(data: &[u8]) -> Result<T> {
    T::read_from_prefix(data).map(|(args, _)| args).map_err(|_| Errno::EINVAL)
}

/// Runs a function over the structure in `data`, and puts its answer there with zeros behind, as the unions' are.
fn answer<A: FromBytes, R: IntoBytes + Immutable>(
    data: &mut [u8],
    run: impl FnOnce(A) -> Result<R>,
) -> Result<()> {
    let result = run(read(data)?)?;
    data.fill(0);
    result.write_to_prefix(data).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests;
