//! `IPC_EXPORT_HANDLE` and `IPC_IMPORT_HANDLE`: commands of AMD's own kernel module, for programs that ask for them.
//!
//! They are here and not in the driver core, because each process of such programs has a device of its own. For
//! processes whose descriptors are invented, as those of tests, the commands do not exist, as on Linux.

use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use belfry_abi::kfd::ioctl::{
    EXPORT_DMABUF, FREE_MEMORY_OF_GPU, IMPORT_DMABUF, IPC_EXPORT_HANDLE, IPC_IMPORT_HANDLE, ioc_nr, ioc_size,
};
use belfry_abi::kfd::memory::{
    ExportDmabufArgs, FreeMemoryOfGpuArgs, ImportDmabufArgs, IpcExportHandleArgs, IpcImportHandleArgs,
};
use belfry_kfd_core::os::Os as _;
use belfry_kfd_core::{Errno, Result};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::HostedProcess;
use super::render::File;
use crate::gems::Mappable;
use crate::node::RenderFiles;

impl HostedProcess {
    /// Answers a command that has to do with handles; `None` for all others.
    pub(super) fn ipc_ioctl(&self, request: u32, arg: u64) -> Option<Result<()>> {
        if !matches!(self.render, RenderFiles::Real(_)) {
            return None;
        }
        match ioc_nr(request) {
            nr if nr == ioc_nr(IPC_EXPORT_HANDLE) => {
                Some(self.with_args(request, arg, |args| self.ipc_export(args)))
            }
            nr if nr == ioc_nr(IPC_IMPORT_HANDLE) => {
                Some(self.with_args(request, arg, |args| self.ipc_import(args)))
            }
            nr if nr == ioc_nr(FREE_MEMORY_OF_GPU) && !self.handles.is_empty() => {
                // Read before: the program may change it meanwhile.
                let mut args = FreeMemoryOfGpuArgs::default();
                Some(self.os().copy_from_user(args.as_mut_bytes(), arg).and_then(|()| {
                    self.core(FREE_MEMORY_OF_GPU, &mut args)?;
                    self.handles.forget(args.handle);
                    Ok(())
                }))
            }
            _ => None,
        }
    }

    /// Runs a function over the caller's structure, which is of exactly its size: these commands have no older forms.
    fn with_args<T: FromBytes + FromZeros + IntoBytes + Immutable>(
        &self,
        request: u32,
        arg: u64,
        run: impl FnOnce(&mut T) -> Result<()>,
    ) -> Result<()> {
        if ioc_size(request) != size_of::<T>() {
            return Err(Errno::EINVAL);
        }
        let os = self.os();
        let mut args = T::new_zeroed();
        os.copy_from_user(args.as_mut_bytes(), arg)?;
        run(&mut args)?;
        os.copy_to_user(arg, args.as_bytes())
    }

    /// Runs a command of the core for this process.
    fn core<T>(&self, command: u32, args: &mut T) -> Result<()> {
        self.kfd.ioctl(&self.process, self.key, command, std::ptr::from_mut(args) as u64).map(|_| ())
    }

    /// The render node of what the topology names like this.
    fn render_of(&self, gpu_id: u32) -> Result<&File> {
        self.files.iter().find(|file| file.gpu_id == gpu_id).ok_or(Errno::EINVAL)
    }

    fn ipc_export(&self, args: &mut IpcExportHandleArgs) -> Result<()> {
        self.render_of(args.gpu_id)?;
        if let Some(words) = self.handles.exported(args.handle) {
            args.share_handle = words;
            return Ok(());
        }
        let mut export =
            ExportDmabufArgs { handle: args.handle, flags: libc::O_CLOEXEC as u32, ..Default::default() };
        self.core(EXPORT_DMABUF, &mut export)?;
        let owner = self.render_of((args.handle >> 32) as u32)?;
        let (kept, words) = owner.gpu.exports().handle(export.dmabuf_fd as i32, args.flags)?;
        self.handles.insert_exported(args.handle, kept, words);
        args.share_handle = words;
        Ok(())
    }

    fn ipc_import(&self, args: &mut IpcImportHandleArgs) -> Result<()> {
        let render = self.render_of(args.gpu_id)?;
        let exports = render.gpu.exports();
        let (file, descriptor) = exports.open_handle(args.share_handle)?;
        let shared = exports.shared_file(&descriptor)?;
        let mut import = ImportDmabufArgs {
            va_addr: args.va_addr,
            gpu_id: args.gpu_id,
            dmabuf_fd: file.as_raw_fd() as u32,
            ..Default::default()
        };
        self.core(IMPORT_DMABUF, &mut import)?;
        let gem = render.gpu.gems().insert(render.client.id(), Mappable::File(shared.into()));
        args.handle = import.handle;
        args.mmap_offset = belfry_kfd_core::os::Gem::mmap_offset(&gem);
        args.flags = descriptor.ipc_flags();
        self.handles.insert_imported(import.handle, gem);
        Ok(())
    }
}
