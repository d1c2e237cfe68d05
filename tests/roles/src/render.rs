//! Buffer objects of the render node: made, mapped, shared by descriptors and given back, as libdrm's users do.

#![expect(unsafe_code, reason = "raw ioctls and maps of memory are the point")]

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd as _, RawFd};

use anyhow::{Context as _, Result, ensure};
use belfry_abi::kfd::drm::*;

const PAGE: u64 = 4096;
const VA: u64 = 0x4000_0000;

/// Opens the render node.
pub(crate) fn open() -> Result<File> {
    Ok(File::options().read(true).write(true).open("/dev/dri/renderD128")?)
}

/// Issues a command and returns its error number, 0 for success.
pub(crate) fn call<T>(file: RawFd, command: u32, args: &mut T) -> i32 {
    // SAFETY: the structure is the one of the command.
    let result = unsafe { libc::ioctl(file, command.into(), std::ptr::from_mut(args)) };
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

pub(crate) fn succeed<T>(file: RawFd, command: u32, args: &mut T) -> Result<()> {
    let errno = call(file, command, args);
    ensure!(errno == 0, "command {command:#x} failed with {errno}");
    Ok(())
}

pub(crate) fn create(file: RawFd, domains: u64) -> Result<u32> {
    let mut args = GemCreateIn { bo_size: 2 * PAGE, domains, ..Default::default() };
    succeed(file, GEM_CREATE, &mut args)?;
    Ok(args.bo_size as u32)
}

/// Maps a buffer object of two pages for the processor.
pub(crate) fn map(file: RawFd, handle: u32) -> Result<*mut u64> {
    let mut args = GemMmapArgs { value: handle.into() };
    succeed(file, GEM_MMAP, &mut args)?;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new map at a place the kernel chooses.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            2 * PAGE as usize,
            prot,
            libc::MAP_SHARED,
            file,
            args.value.cast_signed(),
        )
    };
    ensure!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    Ok(at.cast())
}

/// Does everything once and checks the results.
///
/// # Errors
///
/// When something is not as amdgpu has it.
pub fn run(out: &mut dyn Write) -> Result<()> {
    let (one, other) = (open()?, open()?);
    let (one, other) = (one.as_raw_fd(), other.as_raw_fd());
    for domain in [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT] {
        share(one, other, domain).with_context(|| format!("domain {domain}"))?;
    }
    for kind in [AMDGPU_HW_IP_COMPUTE, AMDGPU_HW_IP_DMA] {
        submit(one, kind).with_context(|| format!("engine {kind}"))?;
    }
    fault(other)?;
    let refused = refusals(one)?;
    writeln!(
        out,
        "render: memory is shared between files, work is done, {refused} requests refused as amdgpu refuses them"
    )?;
    Ok(())
}

fn share(one: RawFd, other: RawFd, domain: u64) -> Result<()> {
    let handle = create(one, domain)?;
    let memory = map(one, handle)?;
    // SAFETY: the map is two pages long.
    unsafe { memory.add(600).write_volatile(0x1234_5678_9abc) };
    let mut args = GemMetadataArgs { handle, op: 1, data_size_bytes: 4, ..Default::default() };
    args.data[0][0] = 77;
    succeed(one, GEM_METADATA, &mut args)?;
    let mut prime = DrmPrimeHandle { handle, flags: libc::O_CLOEXEC as u32, fd: -1 };
    succeed(one, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime)?;
    let mut here = DrmPrimeHandle { fd: prime.fd, ..Default::default() };
    succeed(one, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut here)?;
    ensure!(here.handle == handle, "memory has two handles in one file: {} and {handle}", here.handle);
    succeed(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut here)?;
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(prime.fd) };
    let mut va = GemVaArgs {
        handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: (GemVaFlags::READABLE | GemVaFlags::WRITEABLE).bits(),
        va_address: VA,
        map_size: 2 * PAGE,
        ..Default::default()
    };
    // Each file has an address space of its own.
    succeed(one, GEM_VA, &mut va)?;
    succeed(other, GEM_VA, &mut GemVaArgs { handle: here.handle, ..va })?;
    ensure!(call(one, GEM_VA, &mut va) == libc::EINVAL, "a range was mapped twice");
    succeed(one, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle, pad: 0 })?;
    ensure!(call(one, GEM_VA, &mut va) == libc::ENOENT, "a closed handle was mapped");
    // The other file has the memory still.
    let again = map(other, here.handle)?;
    // SAFETY: as above; both maps stay.
    let seen = unsafe { [memory.add(600).read_volatile(), again.add(600).read_volatile()] };
    ensure!(seen == [0x1234_5678_9abc; 2], "the memory holds {seen:x?}");
    let mut told = GemMetadataArgs { handle: here.handle, op: 2, ..Default::default() };
    succeed(other, GEM_METADATA, &mut told)?;
    ensure!((told.data_size_bytes, told.data[0][0]) == (4, 77), "metadata got lost: {told:?}");
    succeed(other, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle: here.handle, pad: 0 })
}

/// Maps a buffer object for the GPU.
pub(crate) fn map_gpu(file: RawFd, handle: u32, va: u64) -> Result<()> {
    let mut args = GemVaArgs {
        handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: (GemVaFlags::READABLE | GemVaFlags::WRITEABLE | GemVaFlags::EXECUTABLE).bits(),
        va_address: va,
        map_size: 2 * PAGE,
        ..Default::default()
    };
    succeed(file, GEM_VA, &mut args)
}

/// Writes a word by an engine; returns the error number of the wait.
fn write(file: RawFd, kind: u32, (target, value): (u64, u32)) -> Result<i32> {
    let ib = create(file, AMDGPU_GEM_DOMAIN_GTT)?;
    let place = VA + (1 << 24);
    map_gpu(file, ib, place)?;
    let [low, high] = [target as u32, (target >> 32) as u32];
    // WRITE_DATA to memory, and a linear WRITE of one dword.
    let packets = match kind {
        AMDGPU_HW_IP_COMPUTE => [3 << 30 | 3 << 16 | 0x37 << 8, 5 << 8 | 1 << 20, low, high, value],
        _ => [2, low, high, 0, value],
    };
    let memory = map(file, ib)?.cast::<u32>();
    for (at, packet) in packets.into_iter().enumerate() {
        // SAFETY: the map is two pages long.
        unsafe { memory.add(at).write_volatile(packet) };
    }
    let mut context = CtxIn { op: AMDGPU_CTX_OP_ALLOC_CTX, ..Default::default() };
    succeed(file, CTX, &mut context)?;
    let ctx_id = context.op;
    let chunk = CsChunkIb { va_start: place, ib_bytes: 20, ip_type: kind, ..Default::default() };
    let chunk = CsChunk {
        chunk_id: AMDGPU_CHUNK_ID_IB,
        length_dw: 8,
        chunk_data: std::ptr::from_ref(&chunk).expose_provenance() as u64,
    };
    let chunks = [std::ptr::from_ref(&chunk).expose_provenance() as u64];
    let mut args = CsIn {
        ctx_id,
        num_chunks: 1,
        chunks: chunks.as_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    succeed(file, CS, &mut args)?;
    let handle = u64::from(args.ctx_id) | u64::from(args.bo_list_handle) << 32;
    let mut wait = WaitCsIn { handle, timeout: u64::MAX, ip_type: kind, ctx_id, ..Default::default() };
    let errno = call(file, WAIT_CS, &mut wait);
    succeed(file, CTX, &mut CtxIn { op: AMDGPU_CTX_OP_FREE_CTX, ctx_id, ..Default::default() })?;
    succeed(file, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle: ib, pad: 0 })?;
    Ok(errno)
}

/// Work writes to memory, more than once.
pub(crate) fn submit(file: RawFd, kind: u32) -> Result<()> {
    let target = create(file, AMDGPU_GEM_DOMAIN_VRAM)?;
    map_gpu(file, target, VA)?;
    let memory = map(file, target)?.cast::<u32>();
    for value in [0x1234, 0x5678] {
        let errno = write(file, kind, (VA + 8, value))?;
        // SAFETY: the map is two pages long.
        let found = unsafe { memory.add(2).read_volatile() };
        ensure!((errno, found) == (0, value), "the wait ended with {errno}, the memory holds {found:#x}");
    }
    succeed(file, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle: target, pad: 0 })
}

/// Work that writes where nothing is ends, and the file goes on.
fn fault(file: RawFd) -> Result<()> {
    let errno = write(file, AMDGPU_HW_IP_COMPUTE, (0x7000_0000_0000, 1))?;
    ensure!(errno == libc::ETIME, "work that faults ended with {errno}");
    submit(file, AMDGPU_HW_IP_COMPUTE)
}

fn refusals(file: RawFd) -> Result<usize> {
    let bad = GemVaArgs {
        handle: 99,
        operation: AMDGPU_VA_OP_MAP,
        va_address: VA,
        map_size: PAGE,
        ..Default::default()
    };
    let answers = [
        ("a bad handle", call(file, GEM_VA, &mut bad.clone()), libc::ENOENT),
        ("a low address", call(file, GEM_VA, &mut GemVaArgs { va_address: 0, ..bad }), libc::EINVAL),
        ("no bytes", call(file, GEM_CREATE, &mut GemCreateIn::default()), libc::EINVAL),
        (
            "no such handle",
            call(file, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle: 99, pad: 0 }),
            libc::EINVAL,
        ),
        (
            "no question",
            call(file, INFO, &mut DrmAmdgpuInfo { query: 0x77, ..Default::default() }),
            libc::EINVAL,
        ),
        ("a priority", call(file, SCHED, &mut [0u64; 2]), libc::EACCES),
    ];
    for (what, answer, errno) in answers {
        ensure!(answer == errno, "{what}: answered {answer} instead of {errno}");
    }
    Ok(answers.len())
}
