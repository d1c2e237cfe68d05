//! What a debugger asks for: exceptions, and devices (`kfd_dbg_ev_query_debug_event`, `kfd_dbg_trap_query_exception_info`,
//! `kfd_dbg_trap_device_snapshot`).

use alloc::vec::Vec;

use belfry_abi::kfd::debug::{DbgDeviceInfoEntry, ExceptionCode, RuntimeInfo};
use zerocopy::IntoBytes;

use super::{Debug, Exceptions};
use crate::aperture::apertures;
use crate::errno::{Errno, Result};
use crate::node::{Node, Nodes};
use crate::os::Os;
use crate::process::Process;
use crate::topology;

/// What has exceptions that a debugger has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) status: u64,
    pub(super) queue: u32,
    /// The id of the node; 0 for the process.
    pub(super) gpu: u32,
}

impl<O: Os> Exceptions<O> {
    /// The exceptions of a queue, of the device, or of the process.
    fn source(&mut self, code: ExceptionCode, source: u32, nodes: &Nodes) -> Result<&mut u64> {
        match code.mask() {
            mask if mask & ExceptionCode::MASK_QUEUE != 0 => {
                self.queues.get_mut(&source).map(|queue| &mut queue.status).ok_or(Errno::EINVAL)
            }
            mask if mask & ExceptionCode::MASK_DEVICE != 0 && nodes.named(source).is_ok() => {
                Ok(self.devices.entry(source).or_insert(0))
            }
            mask if mask & ExceptionCode::MASK_PROCESS != 0 => Ok(&mut self.process),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl<O: Os> Debug<O> {
    /// The next source with an exception that is asked for; those in `forget` are forgotten of it.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when there is none.
    pub(super) fn query(&self, forget: u64) -> Result<Pending> {
        let mut exceptions = self.exceptions.lock();
        let exceptions = &mut *exceptions;
        let enabled = exceptions.enabled;
        let mut queues = exceptions.queues.iter_mut();
        let mut devices = exceptions.devices.iter_mut();
        let (status, queue, gpu) =
            if let Some((&id, queue)) = queues.find(|(_, queue)| queue.status & enabled != 0) {
                (&mut queue.status, id, queue.doorbell.0)
            } else if let Some((&gpu, status)) = devices.find(|(_, status)| **status & enabled != 0) {
                (status, 0, gpu)
            } else if exceptions.process & enabled != 0 {
                (&mut exceptions.process, 0, 0)
            } else {
                return Err(Errno::EAGAIN);
            };
        let pending = Pending { status: *status, queue, gpu };
        *status &= !forget;
        Ok(pending)
    }

    /// What is known of an exception, which is forgotten if `clear` says so.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown exception, queue or GPU, `ENODATA` when there was none.
    pub(super) fn info(
        &self,
        (code, source): (ExceptionCode, u32),
        nodes: &Nodes,
        runtime: RuntimeInfo,
        clear: bool,
    ) -> Result<Vec<u8>> {
        let mut exceptions = self.exceptions.lock();
        let status = exceptions.source(code, source, nodes)?;
        if *status & code.mask() == 0 {
            return Err(Errno::ENODATA);
        }
        if clear {
            *status &= !code.mask();
        }
        Ok(match code {
            ExceptionCode::DEVICE_MEMORY_VIOLATION => {
                let data = if clear { exceptions.fault.take() } else { exceptions.fault };
                data.unwrap_or_default().as_bytes().to_vec()
            }
            ExceptionCode::PROCESS_RUNTIME => runtime.as_bytes().to_vec(),
            _ => Vec::new(),
        })
    }

    /// Chooses exceptions; whether some of them have come already.
    pub(super) fn enable(&self, mask: u64) -> Option<alloc::sync::Arc<O::EventFile>> {
        let mut exceptions = self.exceptions.lock();
        exceptions.enabled = mask;
        let queues = exceptions.queues.values().fold(0, |all, queue| all | queue.status);
        let devices = exceptions.devices.values().fold(0, |all, status| all | status);
        let found = exceptions.process | devices | queues;
        exceptions.file.clone().filter(|_| found & mask != 0)
    }

    /// The exceptions of the node with an id; those in `forget` are forgotten.
    pub(super) fn device_status(&self, gpu: u32, forget: u64) -> u64 {
        let mut exceptions = self.exceptions.lock();
        exceptions.devices.get_mut(&gpu).map_or(0, |all| {
            let status = *all;
            *all &= !forget;
            status
        })
    }
}

impl<O: Os> Process<O> {
    /// What a debugger is told of a node.
    pub(super) fn debug_info(&self, node: &Node, exception_status: u64) -> DbgDeviceInfoEntry {
        let device = &self.device;
        let (info, config, asic) = (device.hw.os().device_info(), &node.config, device.hw.asic());
        let apertures = apertures(node.gpu_id, &asic.apertures);
        DbgDeviceInfoEntry {
            exception_status,
            lds_base: apertures.lds_base,
            lds_limit: apertures.lds_limit,
            scratch_base: apertures.scratch_base,
            scratch_limit: apertures.scratch_limit,
            gpuvm_base: apertures.gpuvm_base,
            gpuvm_limit: apertures.gpuvm_limit,
            gpu_id: u32::from(node.gpu_id),
            location_id: self.nodes.location_id(node, &info),
            vendor_id: u32::from(info.vendor_id),
            device_id: u32::from(info.device_id),
            revision_id: u32::from(info.revision_id),
            subsystem_vendor_id: u32::from(info.subsystem_vendor_id),
            subsystem_device_id: u32::from(info.subsystem_id),
            fw_version: asic.product.fw_version,
            gfx_target_version: asic.gfx_target_version,
            simd_count: config.cus * asic.simds_per_cu,
            max_waves_per_simd: config.waves_per_simd,
            array_count: config.xccs.max(1) * config.shader_engines * config.arrays_per_engine,
            simd_arrays_per_engine: config.arrays_per_engine,
            num_xcc: config.xccs,
            capability: topology::capability(device),
            debug_prop: asic.product.debug_prop,
            capability2: 0,
            pad: 0,
        }
    }
}
