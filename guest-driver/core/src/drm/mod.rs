//! The render node: what each ioctl of the amdgpu driver does (`amdgpu_drv.c`, `amdgpu_ioctls_kms`).
//!
//! The operating system's side copies arguments in and out, as the DRM core does: a caller's structure that is shorter
//! than the driver's is extended with zeros. Handles are the operating system's, too: [`RenderFile`].

mod bo_list;
mod client;
mod context;
mod export;
mod gem;
mod hardware;
mod info;
mod last_fault;
mod memory;
mod registers;
mod ring;
mod submit;
mod va;
mod wait;
mod works;

use alloc::sync::Arc;

use belfry_abi::kfd::drm::{
    self as nr, AMDGPU_VM_OP_RESERVE_VMID, AMDGPU_VM_OP_UNRESERVE_VMID, DRM_COMMANDS, DrmAmdgpuInfo, VmIn,
};
use belfry_abi::kfd::ioctl::{ioc_nr, ioc_size};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

pub use crate::fence::Fence;
pub use client::Client;
pub use info::{REFUSED_QUERIES, RefusedQuery};

use crate::errno::{Errno, Result};
use crate::os::{Clock, Os, RenderFile};

/// A command that is refused, with the reason; for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Command word.
    pub command: u32,
    /// Error that a caller gets.
    pub errno: Errno,
    /// Why.
    pub reason: &'static str,
}

/// Commands that are in the interface and not built.
pub const REFUSED: &[Refused] = &[Refused {
    command: nr::SCHED,
    errno: Errno::EACCES,
    reason: "only the master of a display may call it, and there is no display",
}];

/// A command that runs, and what of it is refused or does nothing; for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// The command.
    pub command: u32,
    /// Parts that are missing.
    pub missing: &'static str,
}

/// Commands of which a part is not there.
pub const PARTIAL: &[Partial] = &[
    Partial {
        command: nr::GEM_CREATE,
        missing: "domains GDS, GWS and OA, and flag ENCRYPTED: EINVAL(22), not built; with GFX12_DCC memory is not \
                  compressed, as no page is; memory is asked for once, and system memory takes the place of VRAM only where both were named",
    },
    Partial {
        command: nr::CTX,
        missing: "priorities above the normal one: EACCES(13); the device serves rings of every priority in turn; a \
                  stable state of clocks is kept and told, as clocks never change",
    },
    Partial {
        command: nr::CS,
        missing: "rings of compute and of the copy engines; chunks of graphics: EINVAL(22), not built; work that never \
                  ends is not ended before its file is closed",
    },
    Partial { command: nr::VM, missing: "a reserved VMID is as good as any: the scheduler gives them out" },
    Partial { command: nr::INFO, missing: "questions of the table below" },
    Partial {
        command: nr::GEM_USERPTR,
        missing: "pages are pinned while they are in use, from the first mapping or submission on; a change waits ten \
                  seconds at most for the work that uses them",
    },
    Partial { command: nr::GEM_VA, missing: "tables are written at once in spite of DELAY_UPDATE" },
    Partial { command: nr::GEM_OP, missing: "SET_PLACEMENT is kept and told, and moves nothing" },
];

/// A call of a command: its file, with the handles of the operating system.
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
        nr::INFO => info::answer_query(client, &read::<DrmAmdgpuInfo>(data)?),
        nr::GEM_METADATA => answer(data, |args| gem::metadata(call, args)),
        nr::CTX => answer(data, |args| context::change(call, args)),
        nr::BO_LIST => answer(data, |args| bo_list::change(call, &args)),
        nr::CS => answer(data, |args| submit::submit(call, &args)),
        nr::WAIT_CS => answer(data, |args| wait::wait_cs(call, &args)),
        nr::WAIT_FENCES => answer(data, |args| wait::wait_fences(call, &args)),
        nr::VM => answer(data, |args| vmid(&args)),
        nr::GEM_WAIT_IDLE => answer(data, |args| wait::wait_idle(call, args)),
        nr::GEM_VA => va::change(call, &read(data)?),
        nr::GEM_OP => gem::op(call, &read(data)?),
        nr::GEM_USERPTR => answer(data, |args| gem::userptr(call, args)),
        nr::FENCE_TO_HANDLE => answer(data, |args| export::fence_to_handle(call, &args)),
        _ => Err(REFUSED
            .iter()
            .find(|refused| refused.command == command)
            .map_or(Errno::EINVAL, |refused| refused.errno)),
    }
}

/// VM: which VMID an address space has is the scheduler's to say, and it is as good as a reserved one.
///
/// # Errors
///
/// `EINVAL` for an unknown operation and for flags.
fn vmid(args: &VmIn) -> Result<u64> {
    let known = matches!(args.op, AMDGPU_VM_OP_RESERVE_VMID | AMDGPU_VM_OP_UNRESERVE_VMID);
    if known && args.flags == 0 { Ok(0) } else { Err(Errno::EINVAL) }
}

/// Copies a structure from the calling process.
fn from_user<O: Os, T: FromZeros + FromBytes + IntoBytes>(os: &O, at: u64) -> Result<T> {
    let mut value = T::new_zeroed();
    os.copy_from_user(value.as_mut_bytes(), at)?;
    Ok(value)
}

/// Nanoseconds until a time of `CLOCK_MONOTONIC`; `None` for a time that never comes (`amdgpu_gem_timeout`).
fn until<O: Os>(os: &O, time: u64) -> Option<u64> {
    (time.cast_signed() >= 0).then(|| time.saturating_sub(os.clock_ns(Clock::Monotonic)))
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
