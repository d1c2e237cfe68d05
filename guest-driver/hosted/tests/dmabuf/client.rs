//! A client's calls for shared memory.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    ExportDmabufArgs, GetAvailableMemoryArgs, GetDmabufInfoArgs, ImportDmabufArgs, IpcExportHandleArgs,
    IpcImportHandleArgs,
};
use belfry_kfd_hosted::{Errno, HostedGpu, HostedProcess, Node};

use super::{PATIENCE, SIGNALS, SIZE, TIMES, TOLD};
use crate::common::{Buffer, Client, reserve};

impl Client {
    pub(crate) fn export(&self, handle: u64, flags: i32) -> Result<OwnedFd, Errno> {
        let mut args = ExportDmabufArgs { handle, flags: flags as u32, dmabuf_fd: 0 };
        self.ioctl(nr::EXPORT_DMABUF, &mut args)?;
        // SAFETY: the descriptor is new.
        Ok(unsafe { OwnedFd::from_raw_fd(args.dmabuf_fd as i32) })
    }

    pub(crate) fn info(&self, fd: i32) -> Result<GetDmabufInfoArgs, Errno> {
        let mut args = GetDmabufInfoArgs { dmabuf_fd: fd as u32, ..Default::default() };
        self.ioctl(nr::GET_DMABUF_INFO, &mut args).map(|_| args)
    }

    /// Imports at an address of its own; the processor reaches nothing there.
    pub(crate) fn import(&self, fd: i32) -> Result<Buffer, Errno> {
        let va = reserve(SIZE);
        let mut args =
            ImportDmabufArgs { va_addr: va, gpu_id: self.gpu_id, dmabuf_fd: fd as u32, ..Default::default() };
        self.ioctl(nr::IMPORT_DMABUF, &mut args)?;
        self.map(args.handle)?;
        Ok(Buffer { va, size: SIZE, handle: args.handle })
    }

    /// A client whose process has descriptors of its own, as programs do that know nothing of this driver.
    pub(crate) fn of_program(gpu: &Arc<HostedGpu>) -> Self {
        let process = HostedProcess::open_with(gpu, |_| Some(0)).unwrap();
        let gpu_id = process.sysfs_read("nodes/1/gpu_id").unwrap().trim().parse().unwrap();
        let client = Self { process, gpu_id };
        client.acquire().unwrap();
        client
    }

    pub(crate) fn share(&self, handle: u64) -> Result<[u32; 4], Errno> {
        let mut args = IpcExportHandleArgs { handle, gpu_id: self.gpu_id, flags: TOLD, ..Default::default() };
        self.ioctl(nr::IPC_EXPORT_HANDLE, &mut args).map(|_| args.share_handle)
    }

    /// Imports by a handle, for the GPU and for the processor.
    pub(crate) fn attach(&self, share_handle: [u32; 4]) -> Result<Buffer, Errno> {
        let va = reserve(SIZE);
        let mut args =
            IpcImportHandleArgs { va_addr: va, share_handle, gpu_id: self.gpu_id, ..Default::default() };
        self.ioctl(nr::IPC_IMPORT_HANDLE, &mut args)?;
        assert_eq!(args.flags, TOLD);
        self.map(args.handle)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range was just reserved.
        let mapped = unsafe {
            self.process.mmap(Node::Render, Some(va as usize), SIZE as usize, prot, args.mmap_offset)
        };
        assert_eq!(mapped.unwrap() as u64, va);
        Ok(Buffer { va, size: SIZE, handle: args.handle })
    }

    pub(crate) fn release(&self, buffer: &Buffer) {
        self.unmap(buffer.handle).unwrap();
        self.free(buffer.handle).unwrap();
    }

    pub(crate) fn available(&self) -> u64 {
        let mut args = GetAvailableMemoryArgs { gpu_id: self.gpu_id, ..Default::default() };
        self.ioctl(nr::AVAILABLE_MEMORY, &mut args).unwrap();
        args.available
    }

    /// Has the GPU decrement both signals at an address, [`TIMES`] times each.
    pub(crate) fn decrement(&self, va: u64) {
        let mut queue = self.create_queue().unwrap();
        let deadline = Instant::now() + PATIENCE;
        for at in (0..TIMES).flat_map(|_| SIGNALS) {
            queue.barrier(&self.process, va + at);
            while queue.read_index() != queue.next {
                assert!(Instant::now() < deadline, "the queue stands still");
                std::thread::yield_now();
            }
        }
        self.destroy_queue(queue.args.queue_id).unwrap();
    }
}
