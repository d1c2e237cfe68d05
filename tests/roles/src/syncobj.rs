//! Syncobjs of the kernel's DRM core with work of the driver's, and memory of the program as a buffer object.

#![expect(unsafe_code, reason = "raw ioctls and maps of memory are the point")]

use std::io::Write;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use belfry_abi::kfd::drm::*;

use crate::render::{call, create, map, map_gpu, open, succeed};

const PAGE: u64 = 4096;
const VA: u64 = 0x8000_0000;
const WORDS: usize = 2 * PAGE as usize / 4;

/// A buffer object of two pages that both sides have mapped.
struct Memory {
    va: u64,
    words: &'static [AtomicU32],
}

impl Memory {
    fn new(file: RawFd, va: u64) -> Result<Self> {
        let handle = create(file, AMDGPU_GEM_DOMAIN_GTT)?;
        map_gpu(file, handle, va)?;
        // SAFETY: two pages, which stay mapped.
        let words = unsafe { std::slice::from_raw_parts(map(file, handle)?.cast::<AtomicU32>(), WORDS) };
        Ok(Self { va, words })
    }
}

fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

/// WRITE_DATA of one dword.
fn write(at: u64, value: u32) -> Vec<u32> {
    let [low, high] = halves(at);
    vec![3 << 30 | 3 << 16 | 0x37 << 8, 5 << 8 | 1 << 20, low, high, value]
}

/// WAIT_REG_MEM until a dword is 1.
fn wait(at: u64) -> Vec<u32> {
    let [low, high] = halves(at);
    vec![3 << 30 | 5 << 16 | 0x3c << 8, 3 | 1 << 4, low, high, 1, u32::MAX, 4]
}

/// Submits packets to a ring of compute, with another chunk; returns the error number.
fn submit(file: RawFd, context: u32, ring: u32, ib: &Memory, packets: &[u32], with: (u32, &[u32])) -> i32 {
    ib.words.iter().zip(packets).for_each(|(word, packet)| word.store(*packet, Ordering::Relaxed));
    let ib = CsChunkIb {
        va_start: ib.va,
        ib_bytes: packets.len() as u32 * 4,
        ip_type: AMDGPU_HW_IP_COMPUTE,
        ring,
        ..Default::default()
    };
    let chunk = |chunk_id, length_dw, data: *const u32| CsChunk {
        chunk_id,
        length_dw,
        chunk_data: data.expose_provenance() as u64,
    };
    let chunks = [
        chunk(AMDGPU_CHUNK_ID_IB, 8, std::ptr::from_ref(&ib).cast()),
        chunk(with.0, with.1.len() as u32, with.1.as_ptr()),
    ];
    let addresses =
        [&chunks[0], &chunks[1]].map(|chunk| std::ptr::from_ref(chunk).expose_provenance() as u64);
    let mut args = CsIn {
        ctx_id: context,
        num_chunks: 2,
        chunks: addresses.as_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    call(file, CS, &mut args)
}

fn syncobj(file: RawFd) -> Result<u32> {
    let mut args = DrmSyncobjCreate::default();
    succeed(file, DRM_IOCTL_SYNCOBJ_CREATE, &mut args)?;
    Ok(args.handle)
}

/// Waits for a syncobj until a time; returns the error number.
fn sync_wait(file: RawFd, handle: u32, timeout_nsec: i64) -> i32 {
    let mut args = DrmSyncobjWait {
        handles: std::ptr::from_ref(&handle).expose_provenance() as u64,
        timeout_nsec,
        count_handles: 1,
        ..Default::default()
    };
    call(file, DRM_IOCTL_SYNCOBJ_WAIT, &mut args)
}

/// Does everything once and checks the results.
///
/// # Errors
///
/// When something is not as amdgpu has it.
pub fn run(out: &mut dyn Write) -> Result<()> {
    let (one, other) = (open()?, open()?);
    order(one.as_raw_fd(), other.as_raw_fd()).context("work in order")?;
    program(one.as_raw_fd()).context("memory of the program")?;
    writeln!(out, "syncobj: verified")?;
    Ok(())
}

fn context(file: RawFd) -> Result<u32> {
    let mut args = CtxIn { op: AMDGPU_CTX_OP_ALLOC_CTX, ..Default::default() };
    succeed(file, CTX, &mut args)?;
    Ok(args.op)
}

/// Work of one file waits for work of the other, by a syncobj that both have.
fn order(one: RawFd, other: RawFd) -> Result<()> {
    let (first, second) = (context(one)?, context(other)?);
    let [ib, gate] = [Memory::new(one, VA)?, Memory::new(one, VA + (1 << 24))?];
    let [next, data] = [Memory::new(other, VA)?, Memory::new(other, VA + (1 << 24))?];
    let last = Memory::new(other, VA + (2 << 24))?;
    let handle = syncobj(one)?;
    let packets = wait(gate.va);
    let errno = submit(one, first, 0, &ib, &packets, (AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &[handle]));
    ensure!(errno == 0, "a submission into a syncobj: {errno}");
    let mut shared = DrmSyncobjHandle { handle, fd: -1, ..Default::default() };
    succeed(one, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut shared)?;
    let mut there = DrmSyncobjHandle { fd: shared.fd, ..Default::default() };
    succeed(other, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &mut there)?;
    let file_flag = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE;
    let mut sync_file = DrmSyncobjHandle { handle, flags: file_flag, fd: -1, pad: 0 };
    succeed(one, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut sync_file)?;
    let done = syncobj(other)?;
    // A timeline of the second file: the work in the first syncobj, and then its own.
    let mut transfer =
        DrmSyncobjTransfer { src_handle: there.handle, dst_handle: done, dst_point: 3, ..Default::default() };
    succeed(other, DRM_IOCTL_SYNCOBJ_TRANSFER, &mut transfer)?;
    let after = [done, 0, 3, 0];
    let packets = write(data.va, 7);
    let errno = submit(other, second, 1, &next, &packets, (AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &after));
    ensure!(errno == 0, "a submission after a syncobj: {errno}");
    let errno = submit(
        other,
        second,
        1,
        &last,
        &write(data.va + 4, 8),
        (AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &[done, 0, 9, 0]),
    );
    ensure!(errno == 0, "a submission into a timeline: {errno}");
    let early = [sync_wait(one, handle, 0), sync_wait(other, done, 0)];
    ensure!(early == [libc::ETIME; 2], "work was over before its gate was open: {early:?}");
    ensure!(data.words[0].load(Ordering::Acquire) == 0, "work did not wait");
    let mut poll = libc::pollfd { fd: sync_file.fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which is this function's own.
    ensure!(unsafe { libc::poll(&raw mut poll, 1, 0) } == 0, "the sync file is ready");
    gate.words[0].store(1, Ordering::Release);
    let errno = sync_wait(other, done, i64::MAX);
    ensure!(errno == 0, "the wait for the timeline ended with {errno}");
    let found = [0, 1].map(|at| data.words[at].load(Ordering::Acquire));
    ensure!(found == [7, 8], "the memory holds {found:?}");
    // SAFETY: as above.
    ensure!(unsafe { libc::poll(&raw mut poll, 1, 10_000) } == 1, "the sync file is not ready");
    let bad = submit(one, first, 0, &ib, &packets, (AMDGPU_CHUNK_ID_SYNCOBJ_IN, &[99]));
    let none = submit(one, first, 0, &ib, &packets, (AMDGPU_CHUNK_ID_SYNCOBJ_IN, &[syncobj(one)?]));
    let target = submit(one, first, 0, &ib, &packets, (AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &[99]));
    ensure!([bad, none, target] == [libc::ENOENT, libc::EINVAL, libc::EINVAL], "{bad} {none} {target}");
    for fd in [shared.fd, sync_file.fd] {
        // SAFETY: the descriptors are this function's own.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Work writes to memory of the program, also after a page of it was replaced.
fn program(file: RawFd) -> Result<()> {
    let context = context(file)?;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at a place the kernel chooses.
    let own = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE as usize, prot, anonymous, -1, 0) };
    ensure!(own != libc::MAP_FAILED, "no memory");
    let addr = own.expose_provenance() as u64;
    let flags = GemUserptrFlags::REGISTER | GemUserptrFlags::VALIDATE | GemUserptrFlags::ANONONLY;
    let good = GemUserptrArgs { addr, size: 2 * PAGE, flags: flags.bits(), handle: 0 };
    let mut args = good;
    succeed(file, GEM_USERPTR, &mut args)?;
    let va = VA + (4 << 24);
    map_gpu(file, args.handle, va)?;
    let [ib, next] = [Memory::new(file, VA + (5 << 24))?, Memory::new(file, VA + (6 << 24))?];
    let done = syncobj(file)?;
    let word = |at: usize| {
        // SAFETY: inside the two pages.
        unsafe { own.cast::<u32>().add(at).read_volatile() }
    };
    for (round, value) in [11, 12].into_iter().enumerate() {
        let entry = BoListEntry { bo_handle: args.handle, bo_priority: 0 };
        let list = std::ptr::from_ref(&entry).expose_provenance() as u64;
        let [low, high] = halves(list);
        // A list that names the memory is looked at before the work begins.
        let named = submit(
            file,
            context,
            0,
            &ib,
            &write(va + PAGE, value),
            (AMDGPU_CHUNK_ID_BO_HANDLES, &[0, 0, 1, 8, low, high]),
        );
        ensure!(named == 0, "round {round}: {named}");
        let errno =
            submit(file, context, 0, &next, &write(va, value), (AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &[done]));
        ensure!(errno == 0 && sync_wait(file, done, i64::MAX) == 0, "round {round}: {errno}");
        ensure!([word(0), word(1024)] == [value; 2], "round {round}: {} {}", word(0), word(1024));
        if round == 0 {
            // SAFETY: the second page alone, which no code uses meanwhile.
            let again = unsafe {
                let page = own.cast::<u8>().add(PAGE as usize).cast();
                libc::mmap(page, PAGE as usize, prot, anonymous | libc::MAP_FIXED, -1, 0)
            };
            ensure!(again != libc::MAP_FAILED, "the page was not replaced");
        }
    }
    let refused = [
        ("an odd address", GemUserptrArgs { addr: addr + 4, ..good }, libc::EINVAL),
        ("no notice", GemUserptrArgs { flags: 0, ..good }, libc::EACCES),
        ("no bytes", GemUserptrArgs { size: 0, ..good }, libc::EOVERFLOW),
        ("nothing", GemUserptrArgs { addr: 1 << 46, ..good }, libc::EFAULT),
    ];
    for (what, mut args, errno) in refused {
        let answer = call(file, GEM_USERPTR, &mut args);
        ensure!(answer == errno, "{what}: answered {answer} instead of {errno}");
    }
    let mut mmap = GemMmapArgs { value: args.handle.into() };
    ensure!(call(file, GEM_MMAP, &mut mmap) == libc::EPERM, "the memory can be mapped");
    let mut prime = DrmPrimeHandle { handle: args.handle, flags: 0, fd: -1 };
    ensure!(call(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime) == libc::EPERM, "it can be shared");
    succeed(file, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle: args.handle, pad: 0 })
}
