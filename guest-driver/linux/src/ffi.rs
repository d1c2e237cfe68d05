//! `os_interface.h`, declared for Rust: change both.

use core::ffi::c_void;

use belfry_kfd_core::os::MAX_PARTITIONS;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[repr(C)] pub(crate) struct $name { _opaque: [u8; 0] })*
    };
}

opaque! {
    /// `struct os_device`: the PCI function.
    OsDevice;
    /// `struct os_lock`.
    OsLock;
    /// `struct os_wait_queue`.
    OsWaitQueue;
    /// `struct os_pages`.
    OsPages;
    /// `struct os_pin`.
    OsPin;
    /// `struct os_mirror`.
    OsMirror;
    /// `struct os_drm_file`.
    OsDrmFile;
    /// `struct os_render_file`.
    OsRenderFile;
    /// `struct os_gem`.
    OsGem;
    /// `struct os_dmabuf`.
    OsDmabuf;
    /// `struct os_work`.
    OsWork;
    /// `struct os_smi`.
    OsSmi;
    /// `struct os_target`.
    OsTarget;
    /// `struct os_event_file`.
    OsEventFile;
    /// `struct os_fence`.
    OsFence;
    /// `struct os_await`.
    OsAwait;
    /// `struct os_sync_target`.
    OsSyncTarget;
}

/// `struct os_device_info`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct OsDeviceInfo {
    pub(crate) vendor_id: u16,
    pub(crate) device_id: u16,
    pub(crate) subsystem_vendor_id: u16,
    pub(crate) subsystem_id: u16,
    pub(crate) revision_id: u32,
    pub(crate) domain: u32,
    pub(crate) location_id: u32,
    pub(crate) render_minor: u32,
    pub(crate) partition_minors: [u32; MAX_PARTITIONS - 1],
}

/// `struct os_cpu_info`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct OsCpuInfo {
    pub(crate) cores: u32,
    pub(crate) max_clock_mhz: u32,
    pub(crate) memory_bytes: u64,
}

/// An offset that `os_move_to_vram` has taken over.
pub(crate) const BELFRY_FRAME_TAKEN: u64 = u64::MAX;

/// `enum belfry_mapping_kind`.
pub(crate) const BELFRY_MAP_DOORBELLS: u32 = 0;
/// `enum belfry_mapping_kind`.
pub(crate) const BELFRY_MAP_REGISTERS: u32 = 1;

/// `struct belfry_mapping`.
#[repr(C)]
pub(crate) struct BelfryMapping {
    pub(crate) kind: u32,
    pub(crate) device: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// `struct belfry_client_memory`.
#[repr(C)]
pub(crate) struct BelfryClientMemory {
    pub(crate) pasid: u32,
    pub(crate) reserved: u32,
    pub(crate) vram: u64,
    pub(crate) gtt: u64,
}

/// `struct belfry_page`.
#[repr(C)]
pub(crate) struct BelfryPage {
    pub(crate) vram: u64,
    pub(crate) cpu: *mut c_void,
}

/// Numbers of the BARs (`shim.h`).
pub(crate) const BAR_VRAM: u32 = 0;
pub(crate) const BAR_DOORBELLS: u32 = 2;
pub(crate) const BAR_REGISTERS: u32 = 5;

unsafe extern "C" {
    pub(crate) fn os_device_get(dev: *mut OsDevice);
    pub(crate) fn os_device_put(dev: *mut OsDevice);
    pub(crate) fn os_device_info(dev: *mut OsDevice, info: *mut OsDeviceInfo);
    pub(crate) fn os_reset_function(dev: *mut OsDevice) -> i32;
    pub(crate) fn os_topology_changed(dev: *mut OsDevice);

    pub(crate) fn os_reg_read(dev: *mut OsDevice, offset: u32) -> u32;
    pub(crate) fn os_reg_write(dev: *mut OsDevice, offset: u32, value: u32);
    pub(crate) fn os_doorbell_size(dev: *mut OsDevice) -> u64;
    pub(crate) fn os_own_address(dev: *mut OsDevice, bar: u32, offset: u64) -> u64;
    pub(crate) fn os_doorbell_write(dev: *mut OsDevice, offset: u64, value: u64);
    pub(crate) fn os_vram_size(dev: *mut OsDevice) -> u64;
    pub(crate) fn os_vram_read(dev: *mut OsDevice, offset: u64, data: *mut u8, len: usize);
    pub(crate) fn os_vram_write(dev: *mut OsDevice, offset: u64, data: *const u8, len: usize);
    pub(crate) fn os_vram_fill(dev: *mut OsDevice, offset: u64, len: u64, byte: u8);
    pub(crate) safe fn os_write_barrier();

    pub(crate) fn os_pages_alloc(dev: *mut OsDevice, count: usize, pages: *mut *mut OsPages) -> i32;
    pub(crate) fn os_pages_free(pages: *mut OsPages);
    pub(crate) fn os_pages_cpu(pages: *mut OsPages) -> *mut u8;
    pub(crate) fn os_pages_bus(pages: *mut OsPages, index: usize) -> u64;

    pub(crate) fn os_pin_user(
        dev: *mut OsDevice,
        mm: u64,
        va: u64,
        count: usize,
        writable: bool,
        invalidate: *mut c_void,
        pin: *mut *mut OsPin,
    ) -> i32;
    pub(crate) fn os_unpin_user(pin: *mut OsPin);
    pub(crate) fn os_pin_renew(old: *mut OsPin, pin: *mut *mut OsPin) -> i32;
    pub(crate) fn os_pin_is_current(pin: *mut OsPin) -> bool;
    pub(crate) fn os_pin_bus(pin: *mut OsPin, index: usize) -> u64;
    pub(crate) fn os_copy_from_user(dst: *mut u8, src: u64, len: usize) -> i32;
    pub(crate) fn os_copy_to_user(dst: u64, src: *const u8, len: usize) -> i32;
    pub(crate) safe fn os_user_range_ok(va: u64, len: u64) -> bool;

    pub(crate) safe fn os_has_peers() -> bool;
    pub(crate) safe fn os_has_svm() -> bool;
    pub(crate) fn os_user_area(mm: u64, va: u64, end: *mut u64, writable: *mut bool, file: *mut bool) -> i32;
    pub(crate) fn os_mirror_user(
        dev: *mut OsDevice,
        mm: u64,
        va: u64,
        count: usize,
        writable: bool,
        invalidate: *mut c_void,
        mirror: *mut *mut OsMirror,
    ) -> i32;
    pub(crate) fn os_watch_user(
        dev: *mut OsDevice,
        mm: u64,
        va: u64,
        count: usize,
        invalidate: *mut c_void,
        mirror: *mut *mut OsMirror,
    ) -> i32;
    pub(crate) fn os_mirror_release(mirror: *mut OsMirror);
    pub(crate) fn os_mirror_is_current(mirror: *mut OsMirror) -> bool;
    pub(crate) fn os_mirror_page(mirror: *mut OsMirror, index: usize, vram: *mut bool) -> u64;

    pub(crate) fn os_has_vram_pages(dev: *mut OsDevice) -> bool;
    pub(crate) fn os_move_to_vram(
        dev: *mut OsDevice,
        mm: u64,
        va: u64,
        count: usize,
        offsets: *mut u64,
        moved: *mut usize,
    ) -> i32;
    pub(crate) fn os_move_to_system(
        dev: *mut OsDevice,
        mm: u64,
        va: u64,
        count: usize,
        moved: *mut usize,
    ) -> i32;

    pub(crate) fn os_drm_acquire(dev: *mut OsDevice, fd: i32, file: *mut *mut OsDrmFile) -> i32;
    pub(crate) fn os_drm_release(file: *mut OsDrmFile);
    pub(crate) fn os_drm_id(file: *mut OsDrmFile) -> u64;
    pub(crate) fn os_gem_create(
        file: *mut OsDrmFile,
        backing: *mut c_void,
        size: u64,
        gem: *mut *mut OsGem,
    ) -> i32;
    pub(crate) fn os_gem_release(gem: *mut OsGem);
    pub(crate) fn os_gem_mmap_offset(gem: *mut OsGem) -> u64;
    pub(crate) fn os_handle_create(
        file: *mut OsRenderFile,
        backing: *mut c_void,
        size: u64,
        handle: *mut u32,
    ) -> i32;
    pub(crate) fn os_handle_lookup(file: *mut OsRenderFile, handle: u32, gem: *mut *mut OsGem) -> i32;
    pub(crate) fn os_handle_put(gem: *mut OsGem);
    pub(crate) fn os_gem_backing(gem: *mut OsGem) -> *mut c_void;

    pub(crate) safe fn os_caller() -> u64;
    pub(crate) fn os_fence_new(fence: *mut *mut OsFence) -> i32;
    pub(crate) fn os_fence_signal(fence: *mut OsFence, error: i32);
    pub(crate) fn os_fence_put(fence: *mut OsFence);
    pub(crate) fn os_sync_await(
        file: *mut OsRenderFile,
        handle: u32,
        point: u64,
        flags: u32,
        kick: *mut c_void,
        out: *mut *mut OsAwait,
    ) -> i32;
    pub(crate) fn os_await_is_over(wait: *mut OsAwait) -> bool;
    pub(crate) fn os_await_put(wait: *mut OsAwait);
    pub(crate) fn os_sync_target(
        file: *mut OsRenderFile,
        handle: u32,
        point: u64,
        out: *mut *mut OsSyncTarget,
    ) -> i32;
    pub(crate) fn os_sync_target_put(target: *mut OsSyncTarget, fence: *mut OsFence);
    pub(crate) fn os_sync_target_release(target: *mut OsSyncTarget);
    pub(crate) fn os_sync_export(file: *mut OsRenderFile, fence: *mut OsFence, to: u32, out: *mut u32)
    -> i32;

    pub(crate) fn os_dmabuf_export(gem: *mut OsGem, dmabuf: *mut *mut OsDmabuf) -> i32;
    pub(crate) fn os_dmabuf_fd(dmabuf: *mut OsDmabuf, flags: u32) -> i32;
    pub(crate) fn os_dmabuf_get(fd: i32, dmabuf: *mut *mut OsDmabuf) -> i32;
    pub(crate) fn os_dmabuf_release(dmabuf: *mut OsDmabuf);
    pub(crate) fn os_dmabuf_backing(dmabuf: *mut OsDmabuf) -> *mut c_void;

    pub(crate) fn os_lock_new(lock: *mut *mut OsLock, rank: u32) -> i32;
    pub(crate) fn os_lock_free(lock: *mut OsLock);
    pub(crate) fn os_lock_acquire(lock: *mut OsLock);
    pub(crate) fn os_lock_release(lock: *mut OsLock);
    pub(crate) fn os_wait_queue_new(queue: *mut *mut OsWaitQueue) -> i32;
    pub(crate) fn os_wait_queue_free(queue: *mut OsWaitQueue);
    pub(crate) fn os_wait_queue_ticket(queue: *mut OsWaitQueue) -> u64;
    pub(crate) fn os_wait_queue_wait(queue: *mut OsWaitQueue, ticket: u64, timeout_ns: u64) -> i32;
    pub(crate) fn os_wait_queue_wake_all(queue: *mut OsWaitQueue);
    pub(crate) safe fn os_clock_ns() -> u64;
    pub(crate) safe fn os_clock_raw_ns() -> u64;
    pub(crate) safe fn os_clock_boot_ns() -> u64;
    pub(crate) safe fn os_sleep_us(us: u64);

    pub(crate) fn os_work_new(dev: *mut OsDevice, core: *mut c_void, work: *mut *mut OsWork) -> i32;
    pub(crate) fn os_work_release(work: *mut OsWork);
    pub(crate) fn os_work_queue(work: *mut OsWork);

    pub(crate) fn os_smi_open(client: *mut c_void, smi: *mut *mut OsSmi, fd: *mut i32) -> i32;
    pub(crate) fn os_smi_wake(smi: *mut OsSmi);
    pub(crate) fn os_smi_release(smi: *mut OsSmi);
    pub(crate) fn os_task(id: *mut u32, name: *mut u8);

    pub(crate) fn os_target_get(dev: *mut OsDevice, pid: u32, target: *mut *mut OsTarget) -> i32;
    pub(crate) fn os_target_key(target: *mut OsTarget) -> u64;
    pub(crate) fn os_target_is_traced(target: *mut OsTarget) -> bool;
    pub(crate) fn os_target_hold(target: *mut OsTarget) -> i32;
    pub(crate) fn os_target_put(target: *mut OsTarget);
    pub(crate) safe fn os_may_checkpoint() -> bool;
    pub(crate) fn os_event_file_get(fd: i32) -> *mut OsEventFile;
    pub(crate) fn os_event_file_notify(event: *mut OsEventFile);
    pub(crate) fn os_event_file_put(event: *mut OsEventFile);
    pub(crate) fn os_access_user(mm: u64, va: u64, data: *mut c_void, len: usize, write: bool) -> i32;

    pub(crate) fn os_alloc(size: usize, zeroed: bool) -> *mut u8;
    pub(crate) fn os_free(memory: *mut u8);
    pub(crate) fn os_log(dev: *mut OsDevice, level: u32, line: *const u8, len: usize);
    pub(crate) fn os_cpu_info(info: *mut OsCpuInfo);
    pub(crate) fn os_panic(line: *const u8, len: usize) -> !;
}
