//! A PCI function of a Linux kernel.

use belfry_kfd_core::errno::Result;
use belfry_kfd_core::os::{DeviceInfo, DoorbellOffset, Function, OwnPlace};

use crate::ffi;
use crate::results::check;

/// One PCI function of a Linux kernel; holds a reference to it.
pub(crate) struct LinuxFunction {
    dev: *mut ffi::OsDevice,
}

// SAFETY: every function that takes the device may be called from any thread.
unsafe impl Send for LinuxFunction {}
// SAFETY: as above.
unsafe impl Sync for LinuxFunction {}

impl LinuxFunction {
    /// Wraps a device.
    ///
    /// # Safety
    ///
    /// `dev` is valid during the call.
    pub(crate) unsafe fn new(dev: *mut ffi::OsDevice) -> LinuxFunction {
        // SAFETY: as promised by the caller; from here on this reference keeps it valid.
        unsafe { ffi::os_device_get(dev) };
        LinuxFunction { dev }
    }
}

impl Drop for LinuxFunction {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of `new`.
        unsafe { ffi::os_device_put(self.dev) }
    }
}

// The device is valid in all calls below: self holds a reference.
impl Function for LinuxFunction {
    fn device_info(&self) -> DeviceInfo {
        let mut info = ffi::OsDeviceInfo::default();
        // SAFETY: the device is valid and `info` takes the result.
        unsafe { ffi::os_device_info(self.dev, &mut info) };
        DeviceInfo {
            vendor_id: info.vendor_id,
            device_id: info.device_id,
            revision_id: info.revision_id as u8,
            subsystem_vendor_id: info.subsystem_vendor_id,
            subsystem_id: info.subsystem_id,
            domain: info.domain,
            location_id: info.location_id,
            render_minor: info.render_minor,
            partition_minors: info.partition_minors,
            numa_node: 0,
            hive: 0,
        }
    }

    fn reg_read(&self, offset: u32) -> u32 {
        // SAFETY: the device is valid and the shim checks the offset.
        unsafe { ffi::os_reg_read(self.dev, offset) }
    }

    fn reg_write(&self, offset: u32, value: u32) {
        // SAFETY: the device is valid and the shim checks the offset.
        unsafe { ffi::os_reg_write(self.dev, offset, value) }
    }

    fn doorbell_size(&self) -> u64 {
        // SAFETY: the device is valid.
        unsafe { ffi::os_doorbell_size(self.dev) }
    }

    fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        // SAFETY: the device is valid and the shim checks the offset.
        unsafe { ffi::os_doorbell_write(self.dev, offset.bytes(), value) }
    }

    fn own_bus_address(&self, place: OwnPlace) -> u64 {
        let (bar, offset) = match place {
            OwnPlace::Doorbells(offset) => (ffi::BAR_DOORBELLS, offset),
            OwnPlace::Flushes(offset) => (ffi::BAR_REGISTERS, offset),
            OwnPlace::Vram(offset) => (ffi::BAR_VRAM, offset),
        };
        // SAFETY: the device is valid.
        unsafe { ffi::os_own_address(self.dev, bar, offset) }
    }

    fn vram_size(&self) -> u64 {
        // SAFETY: the device is valid.
        unsafe { ffi::os_vram_size(self.dev) }
    }

    fn vram_read(&self, offset: u64, data: &mut [u8]) {
        // SAFETY: the device is valid, the shim checks the range, `data` takes the bytes.
        unsafe { ffi::os_vram_read(self.dev, offset, data.as_mut_ptr(), data.len()) }
    }

    fn vram_write(&self, offset: u64, data: &[u8]) {
        // SAFETY: the device is valid, the shim checks the range, `data` gives the bytes.
        unsafe { ffi::os_vram_write(self.dev, offset, data.as_ptr(), data.len()) }
    }

    fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        // SAFETY: the device is valid and the shim checks the range.
        unsafe { ffi::os_vram_fill(self.dev, offset, len, byte) }
    }

    fn write_barrier(&self) {
        ffi::os_write_barrier();
    }

    fn reset_function(&self) -> Result<()> {
        // SAFETY: the device is valid.
        check(unsafe { ffi::os_reset_function(self.dev) })
    }
}
