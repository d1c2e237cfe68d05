//! Functions that the C files of the shim call: the `belfry_*` half of `os_interface.h`.
//!
//! A `struct belfry_gpu *` is an `Arc<KfdDevice>` turned raw, a `struct belfry_process *` an `Arc<Process>`; backings and
//! invalidation callbacks are boxes of their fat `Arc`s.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::c_void;
use core::mem::ManuallyDrop;

use belfry_kfd_core::errno::Result;
use belfry_kfd_core::os::{Backing, BoPage, Change, Invalidate, ProcessKey, SmiClient, Work};
use belfry_kfd_core::process::{ClientMemory, Process};
use belfry_kfd_core::{Kfd, KfdDevice, MmapTarget};

use crate::ffi::{
    BELFRY_MAP_DOORBELLS, BELFRY_MAP_REGISTERS, BelfryClientMemory, BelfryMapping, BelfryPage, OsDevice,
};
use crate::function::LinuxFunction;
use crate::os::LinuxOs;

/// `struct belfry_gpu`.
pub(crate) type Gpu = KfdDevice<LinuxOs>;
/// `struct belfry_process`.
pub(crate) type KfdProcess = Process<LinuxOs>;

/// Turns a result into 0 or a negative errno.
pub(crate) fn status(result: Result<()>) -> i32 {
    result.map_or_else(|error| -error.raw(), |()| 0)
}

/// Turns a length into itself or a negative errno.
pub(crate) fn length(result: Result<usize>) -> isize {
    result.map_or_else(|error| -(error.raw() as isize), |len| len as isize)
}

/// Brings a device up, beside those of the machine that `peer` is one of, if it is no null pointer.
///
/// # Safety
///
/// `dev` and `gpu` are valid during the call, and so is `peer` or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_probe(
    dev: *mut OsDevice,
    peer: *const Gpu,
    gpu: *mut *const Gpu,
) -> i32 {
    // SAFETY: as promised by the caller.
    let (os, function, peer) = unsafe { (LinuxOs::new(dev), LinuxFunction::new(dev), peer.as_ref()) };
    let kfd = peer.map_or_else(|| Kfd::new(&os), |peer| Ok(peer.kfd().clone()));
    status(kfd.and_then(|kfd| kfd.probe(os, function)).map(|device| {
        // SAFETY: as promised by the caller.
        unsafe { gpu.write(Arc::into_raw(device)) }
    }))
}

/// Tells the number of a device, which no other one of the machine has.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_gpu_number(gpu: *const Gpu) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.number()
}

/// Tells whether a process has a device.
///
/// # Safety
///
/// `process` and `gpu` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_process_has(process: *const KfdProcess, gpu: *const Gpu) -> bool {
    // SAFETY: as promised by the caller.
    let (process, gpu) = unsafe { (&*process, &*gpu) };
    process.has(gpu.number())
}

/// Stops a device.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_remove(gpu: *const Gpu) {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.remove();
}

/// Suspends a device.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_suspend(gpu: *const Gpu) -> i32 {
    // SAFETY: as promised by the caller.
    status(unsafe { &*gpu }.suspend())
}

/// Resumes a device that was suspended.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_resume(gpu: *const Gpu) -> i32 {
    // SAFETY: as promised by the caller.
    status(unsafe { &*gpu }.resume())
}

/// Takes a reference.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_gpu_get(gpu: *const Gpu) -> *const Gpu {
    // SAFETY: as promised by the caller, and it came from Arc::into_raw.
    unsafe { Arc::increment_strong_count(gpu) };
    gpu
}

/// Gives a reference back.
///
/// # Safety
///
/// `gpu` is valid and the caller owns one reference.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_gpu_put(gpu: *const Gpu) {
    // SAFETY: as promised by the caller, and it came from Arc::into_raw.
    unsafe { Arc::decrement_strong_count(gpu) }
}

/// Handles an interrupt, and returns whether there may be more to do.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_interrupt(gpu: *const Gpu) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.interrupt()
}

/// Opens the KFD node for an address space.
///
/// # Safety
///
/// `gpu` and `process` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_open(
    gpu: *const Gpu,
    mm: u64,
    process: *mut *const KfdProcess,
) -> i32 {
    // SAFETY: as promised by the caller.
    let opened = unsafe { &*gpu }.kfd().open(ProcessKey(mm));
    status(opened.map(|opened| {
        // SAFETY: as promised by the caller.
        unsafe { process.write(Arc::into_raw(opened)) }
    }))
}

/// Closes one open of the KFD node.
///
/// # Safety
///
/// `gpu` is valid and `process` is the caller's reference from [`belfry_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_close(gpu: *const Gpu, process: *const KfdProcess) {
    // SAFETY: as promised by the caller.
    let (gpu, process) = unsafe { (&*gpu, Arc::from_raw(process)) };
    gpu.kfd().close(&process);
}

/// Tears the process of an address space down.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_exit(gpu: *const Gpu, mm: u64) {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.kfd().exit(ProcessKey(mm));
}

/// Runs an ioctl for the calling process.
///
/// # Safety
///
/// `gpu` and `process` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_ioctl(
    gpu: *const Gpu,
    process: *const KfdProcess,
    mm: u64,
    command: u32,
    arg: u64,
) -> isize {
    // SAFETY: as promised by the caller; the reference stays the caller's.
    let (gpu, process) = unsafe { (&*gpu, ManuallyDrop::new(Arc::from_raw(process))) };
    match gpu.kfd().ioctl(&process, ProcessKey(mm), command, arg) {
        Ok(value) => value as isize,
        Err(error) => -(error.raw() as isize),
    }
}

/// Tells the memory that a mapping of the KFD node maps.
///
/// # Safety
///
/// `gpu`, `process` and `mapping` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_mmap(
    gpu: *const Gpu,
    process: *const KfdProcess,
    mm: u64,
    offset: u64,
    len: u64,
    mapping: *mut BelfryMapping,
) -> i32 {
    // SAFETY: as promised by the caller; the reference stays the caller's.
    let (gpu, process) = unsafe { (&*gpu, ManuallyDrop::new(Arc::from_raw(process))) };
    let target = gpu.kfd().mmap(&process, ProcessKey(mm), offset, len);
    status(target.map(|target| {
        let target = match target {
            MmapTarget::Doorbells { device, offset, len } => {
                BelfryMapping { kind: BELFRY_MAP_DOORBELLS, device, offset, len }
            }
            MmapTarget::MmioRemap { device, offset, len } => {
                BelfryMapping { kind: BELFRY_MAP_REGISTERS, device, offset, len }
            }
        };
        // SAFETY: as promised by the caller.
        unsafe { mapping.write(target) }
    }))
}

/// Tells the memory of the process that acquired its address space with a file of the render node; `false` if there is
/// none.
///
/// # Safety
///
/// `gpu` and `memory` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_client_memory(
    gpu: *const Gpu,
    drm_id: u64,
    memory: *mut BelfryClientMemory,
) -> bool {
    // SAFETY: as promised by the caller.
    let found = unsafe { &*gpu }.kfd().client_memory(drm_id);
    let is_some = found.is_some();
    if let Some(ClientMemory { pasid, vram, gtt }) = found {
        // SAFETY: as promised by the caller.
        unsafe { memory.write(BelfryClientMemory { pasid: pasid.into(), reserved: 0, vram, gtt }) }
    }
    is_some
}

/// Tells whether memory belongs to one address space.
///
/// # Safety
///
/// `backing` was passed to `os_gem_create` or `os_handle_create` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_backing_is_exclusive(backing: *const Arc<dyn Backing>) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { &*backing }.is_exclusive()
}

/// Tells whether it is memory of a program, which is not mapped through the render node.
///
/// # Safety
///
/// As [`belfry_backing_is_exclusive`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_backing_is_user(backing: *const Arc<dyn Backing>) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { &*backing }.is_user()
}

/// Tells where a page of a buffer object is.
///
/// # Safety
///
/// `backing` was passed to `os_gem_create` and not dropped, `page` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_backing_page(
    backing: *const Arc<dyn Backing>,
    index: u64,
    page: *mut BelfryPage,
) -> bool {
    // SAFETY: as promised by the caller.
    let found = unsafe { &*backing }.page(index).and_then(|found| match found {
        BoPage::Vram(vram) => Some(BelfryPage { vram, cpu: core::ptr::null_mut() }),
        BoPage::System { cpu, .. } => Some(BelfryPage { vram: 0, cpu: cpu as *mut c_void }),
        BoPage::User(_) => None,
    });
    let is_some = found.is_some();
    if let Some(found) = found {
        // SAFETY: as promised by the caller.
        unsafe { page.write(found) }
    }
    is_some
}

/// Makes another reference to memory, for a file of the render node; null for memory that no file of it may have.
///
/// # Safety
///
/// `gpu` is valid, and `backing` was passed to `os_gem_create` or `os_handle_create` and not dropped. The result is given back by
/// [`belfry_backing_drop`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_backing_import(
    gpu: *const Gpu,
    backing: *const Arc<dyn Backing>,
) -> *mut Arc<dyn Backing> {
    // SAFETY: as promised by the caller.
    let (gpu, backing) = unsafe { (&*gpu, &*backing) };
    if gpu.imports(&**backing) { Box::into_raw(Box::new(backing.clone())) } else { core::ptr::null_mut() }
}

/// Gives a backing back.
///
/// # Safety
///
/// `backing` was passed to `os_gem_create`, and this is called once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_backing_drop(backing: *mut Arc<dyn Backing>) {
    // SAFETY: it came from Box::into_raw.
    drop(unsafe { Box::from_raw(backing) });
}

/// Tells the core that a pinned range changed.
///
/// # Safety
///
/// `invalidate` was passed to `os_pin_user` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_invalidated(invalidate: *const Arc<dyn Invalidate>) {
    // SAFETY: as promised by the caller.
    let invalidate = unsafe { &*invalidate };
    // What changed is not passed on: pins are renewed as a whole.
    invalidate.invalidated(&Change { start: 0, end: u64::MAX, unmapped: false, held: false });
}

/// Tells the core that part of an address space is about to change, in which a mirrored range lies.
///
/// # Safety
///
/// `invalidate` was passed to `os_mirror_user` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_changing(
    invalidate: *const Arc<dyn Invalidate>,
    start: u64,
    end: u64,
    unmapped: bool,
) {
    // SAFETY: as promised by the caller.
    unsafe { &*invalidate }.invalidated(&Change { start, end, unmapped, held: true });
}

/// Tells the core that frames of VRAM are free which it gave for pages of programs.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_frames_freed(gpu: *const Gpu, offset: u64, len: u64) {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.frames_freed(offset, len);
}

/// The processor touches a page in VRAM: asks for the range that moves to system memory. `false` if no process registered it.
///
/// # Safety
///
/// `gpu`, `start` and `end` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_touched(
    gpu: *const Gpu,
    mm: u64,
    va: u64,
    start: *mut u64,
    end: *mut u64,
) -> bool {
    // SAFETY: as promised by the caller.
    let piece = unsafe { &*gpu }.kfd().touched(ProcessKey(mm), va);
    let is_some = piece.is_some();
    if let Some(piece) = piece {
        // SAFETY: as promised by the caller.
        unsafe {
            start.write(piece.start);
            end.write(piece.end);
        }
    }
    is_some
}

/// Tells the core that this has moved.
///
/// # Safety
///
/// `gpu` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_touched_end(gpu: *const Gpu, mm: u64, start: u64, end: u64) {
    // SAFETY: as promised by the caller.
    unsafe { &*gpu }.kfd().touched_end(ProcessKey(mm), start..end);
}

/// Gives an invalidation callback back.
///
/// # Safety
///
/// `invalidate` was passed to `os_pin_user` or `os_mirror_user`, and this is called once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_invalidate_drop(invalidate: *mut Arc<dyn Invalidate>) {
    // SAFETY: it came from Box::into_raw.
    drop(unsafe { Box::from_raw(invalidate) });
}

/// Runs work that the core has put off.
///
/// # Safety
///
/// `work` was passed to `os_work_new` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_work_run(work: *const Arc<dyn Work>) {
    // SAFETY: as promised by the caller.
    unsafe { &*work }.run();
}

/// Gives work back.
///
/// # Safety
///
/// `work` was passed to `os_work_new`, and this is called once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_work_drop(work: *mut Arc<dyn Work>) {
    // SAFETY: it came from Box::into_raw.
    drop(unsafe { Box::from_raw(work) });
}

/// Takes bytes that a program has written to a descriptor that gives events; returns their number, or a negative errno.
///
/// # Safety
///
/// `client` was passed to `os_smi_open` and not dropped, `bytes` is valid for `len`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_smi_write(
    client: *const Arc<dyn SmiClient>,
    bytes: *const u8,
    len: usize,
) -> isize {
    // SAFETY: as promised by the caller.
    let (client, bytes) = unsafe { (&*client, core::slice::from_raw_parts(bytes, len)) };
    length(client.write(bytes))
}

/// Gives a program the bytes that wait for it; returns their number, or a negative errno.
///
/// # Safety
///
/// `client` was passed to `os_smi_open` and not dropped, `bytes` is valid for `len` and holds values.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_smi_read(
    client: *const Arc<dyn SmiClient>,
    bytes: *mut u8,
    len: usize,
) -> isize {
    // SAFETY: as promised by the caller.
    let (client, bytes) = unsafe { (&*client, core::slice::from_raw_parts_mut(bytes, len)) };
    length(client.read(bytes))
}

/// Tells whether anything waits for a program.
///
/// # Safety
///
/// `client` was passed to `os_smi_open` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_smi_ready(client: *const Arc<dyn SmiClient>) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { &*client }.ready()
}

/// Gives a client back: its descriptor is closed.
///
/// # Safety
///
/// `client` was passed to `os_smi_open`, and this is called once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_smi_drop(client: *mut Arc<dyn SmiClient>) {
    // SAFETY: it came from Box::into_raw.
    drop(unsafe { Box::from_raw(client) });
}
