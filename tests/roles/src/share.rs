//! Memory that two processes share by a descriptor: the same pages, for as long as one of them has it.
#![expect(unsafe_code, reason = "makes a second process, and takes descriptors from the driver")]

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    AllocFlags, ExportDmabufArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs, GetDmabufInfoArgs,
    ImportDmabufArgs,
};

use crate::nodes::{Mapping, Nodes, PAGE};
use crate::waiting::PATIENCE;

/// Bytes that are shared.
const SIZE: usize = 5 * PAGE;
const VA: u64 = 0x10_0000_0000;
const ELSEWHERE: u64 = 0x20_0000_0000;
/// A word in the last page.
const WORD: usize = SIZE - 8;

/// Makes a descriptor of a buffer object.
pub(crate) fn export(nodes: &Nodes<'_>, handle: u64) -> io::Result<OwnedFd> {
    let mut args = ExportDmabufArgs { handle, flags: libc::O_CLOEXEC as u32, dmabuf_fd: 0 };
    nodes.ioctl(nr::EXPORT_DMABUF, &mut args)?;
    // SAFETY: the driver has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(args.dmabuf_fd as i32) })
}

fn info(nodes: &Nodes<'_>, fd: i32) -> io::Result<GetDmabufInfoArgs> {
    let mut args = GetDmabufInfoArgs { dmabuf_fd: fd as u32, ..Default::default() };
    nodes.ioctl(nr::GET_DMABUF_INFO, &mut args).map(|()| args)
}

fn import(nodes: &Nodes<'_>, fd: i32) -> io::Result<u64> {
    let mut args = ImportDmabufArgs {
        va_addr: ELSEWHERE,
        gpu_id: nodes.gpu_id,
        dmabuf_fd: fd as u32,
        ..Default::default()
    };
    nodes.ioctl(nr::IMPORT_DMABUF, &mut args).map(|()| args.handle)
}

fn free(nodes: &Nodes<'_>, handle: u64) -> io::Result<()> {
    nodes.ioctl(nr::FREE_MEMORY_OF_GPU, &mut FreeMemoryOfGpuArgs { handle })
}

fn available(nodes: &Nodes<'_>) -> io::Result<u64> {
    let mut args = GetAvailableMemoryArgs { gpu_id: nodes.gpu_id, ..Default::default() };
    nodes.ioctl(nr::AVAILABLE_MEMORY, &mut args).map(|()| args.available)
}

/// Shares memory of both kinds with a second process, and hands in descriptors of other things.
///
/// # Errors
///
/// When a side does not see the other one's writes, memory goes too early or too late, or an answer is not Linux's.
pub fn run(out: &mut dyn Write) -> Result<()> {
    for kind in [AllocFlags::VRAM, AllocFlags::GTT] {
        share(kind).with_context(|| format!("{kind:?}"))?;
    }
    refused()?;
    writeln!(out, "share: two processes had the same pages")?;
    Ok(())
}

fn share(kind: AllocFlags) -> Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let nodes = Nodes::open(&|_| {})?;
    nodes.acquire_vm()?;
    let before = available(&nodes)?;
    let memory = nodes.alloc(VA, SIZE, kind, 0)?;
    nodes.map(nr::MAP_MEMORY_TO_GPU, memory.handle)?;
    let mapping = Mapping::new(&nodes.render, SIZE, memory.mmap_offset).context("mapping")?;
    mapping.word(WORD).store(1, Ordering::Release);
    let fd = export(&nodes, memory.handle)?;
    // SAFETY: this program has one thread here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ours);
        let status = i32::from(second(kind, fd, theirs).map_err(|error| eprintln!("{error:#}")).is_err());
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(status) };
    }
    drop((theirs, fd));
    let mut said = [0];
    let first = ours.read_exact(&mut said);
    let word = mapping.word(WORD).load(Ordering::Acquire);
    // The first process gives the memory up while the second one has it.
    drop(mapping);
    nodes.map(nr::UNMAP_MEMORY_FROM_GPU, memory.handle)?;
    free(&nodes, memory.handle)?;
    let held = available(&nodes)?;
    let told = ours.write_all(b"f");
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(status == 0, "the second process ended with {status:#x}");
    first.and(told)?;
    ensure!(word == 2, "the second process has written 2, and the first one sees {word}");
    if kind == AllocFlags::VRAM {
        ensure!(held < before, "memory that a process had was free: {held} of {before}");
    }
    // The kernel tears the second process down when it has ended.
    let deadline = Instant::now() + PATIENCE;
    while available(&nodes)? != before {
        ensure!(Instant::now() < deadline, "memory is missing: {} of {before}", available(&nodes)?);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The second process: it has the descriptor, and its own files of the nodes.
fn second(kind: AllocFlags, fd: OwnedFd, mut other: UnixStream) -> Result<()> {
    let nodes = Nodes::open(&|_| {})?;
    nodes.acquire_vm()?;
    let told = info(&nodes, fd.as_raw_fd())?;
    ensure!(told.size == SIZE as u64 && told.flags == kind.bits() && told.gpu_id == nodes.gpu_id, "{told:?}");
    let handle = import(&nodes, fd.as_raw_fd())?;
    nodes.map(nr::MAP_MEMORY_TO_GPU, handle)?;
    let file = File::from(fd);
    let mapping = Mapping::new(&file, SIZE, 0).context("the descriptor cannot be mapped")?;
    ensure!(Mapping::new(&file, SIZE + PAGE, 0).is_none(), "more was mapped than there is");
    let tail = Mapping::new(&file, PAGE, (SIZE - PAGE) as u64).context("its tail cannot be mapped")?;
    ensure!(tail.word(PAGE - 8).load(Ordering::Acquire) == 1, "the tail is somewhere else");
    ensure!(mapping.word(WORD).swap(2, Ordering::AcqRel) == 1, "what the first process wrote is not there");
    drop(export(&nodes, handle)?);
    drop((file, tail));
    other.write_all(b"w")?;
    other.read_exact(&mut [0])?;
    // The first process has freed it.
    ensure!(mapping.word(WORD).load(Ordering::Acquire) == 2, "the pages are somebody else's");
    Ok(())
}

fn refused() -> Result<()> {
    let nodes = Nodes::open(&|_| {})?;
    let null = File::open("/dev/null")?;
    let expect = |what: &str, result: io::Result<()>, errno: i32| match result {
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        other => bail!("{what}: {other:?} instead of error {errno}"),
    };
    let answers = |fd: i32| (info(&nodes, fd).map(|_| ()), import(&nodes, fd).map(|_| ()));
    expect("import without a VM", answers(null.as_raw_fd()).1, libc::ENODEV)?;
    nodes.acquire_vm()?;
    for (what, fd, errno) in [
        ("no descriptor", -1, libc::EBADF),
        ("a file", null.as_raw_fd(), libc::EINVAL),
        ("a render node", nodes.render.as_raw_fd(), libc::EINVAL),
    ] {
        let (info, import) = answers(fd);
        expect(what, info, errno)?;
        expect(what, import, errno)?;
    }
    let page = Mapping::new(&File::options().read(true).write(true).open("/dev/zero")?, PAGE, 0);
    let user = nodes.alloc(VA, PAGE, AllocFlags::USERPTR, page.as_ref().context("memory")?.address())?;
    expect("memory of the process's own", export(&nodes, user.handle).map(drop), libc::EPERM)?;
    expect("no buffer object", export(&nodes, user.handle + 1).map(drop), libc::EINVAL)?;
    expect("another GPU", export(&nodes, user.handle ^ 1 << 32).map(drop), libc::EINVAL)?;
    Ok(())
}
