//! Exceptions that a debugger asks for (`kfd_dbg_ev_query_debug_event`, `kfd_dbg_trap_query_exception_info`).

use alloc::vec::Vec;

use belfry_abi::kfd::debug::{ExceptionCode, RuntimeInfo};
use zerocopy::IntoBytes;

use super::{Debug, Exceptions};
use crate::errno::{Errno, Result};
use crate::os::Os;
use crate::process_device::ProcessNodes;

/// A queue, a device or the process with exceptions that a debugger has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) status: u64,
    pub(crate) queue: u32,
    /// The id of the node; 0 for the process.
    pub(crate) gpu: u32,
}

impl<O: Os> Exceptions<O> {
    /// The exceptions of a queue, of the device, or of the process.
    fn source(&mut self, code: ExceptionCode, source: u32, nodes: &ProcessNodes<O>) -> Result<&mut u64> {
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
    pub(crate) fn query(&self, forget: u64) -> Result<Pending> {
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

    /// Returns what is known of an exception, which is forgotten if `clear` says so.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown exception, queue or GPU, `ENODATA` when there was none.
    pub(crate) fn info(
        &self,
        (code, source): (ExceptionCode, u32),
        nodes: &ProcessNodes<O>,
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
    pub(crate) fn enable(&self, mask: u64) -> Option<alloc::sync::Arc<O::EventFile>> {
        let mut exceptions = self.exceptions.lock();
        exceptions.enabled = mask;
        let queues = exceptions.queues.values().fold(0, |all, queue| all | queue.status);
        let devices = exceptions.devices.values().fold(0, |all, status| all | status);
        let found = exceptions.process | devices | queues;
        exceptions.file.clone().filter(|_| found & mask != 0)
    }

    /// The exceptions of the node with an id; those in `forget` are forgotten.
    pub(crate) fn device_status(&self, gpu: u32, forget: u64) -> u64 {
        let mut exceptions = self.exceptions.lock();
        exceptions.devices.get_mut(&gpu).map_or(0, |all| {
            let status = *all;
            *all &= !forget;
            status
        })
    }
}
