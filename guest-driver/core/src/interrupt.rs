//! Interrupts: actions for the entries of the rings (`kfd_interrupt.c`).

use belfry_abi::ih::IhEntry;
use belfry_abi::kfd::debug::ExceptionCode;
use belfry_abi::kfd::event::{MemoryExceptionData, MemoryExceptionFailure};

use crate::asic::Interrupt;
use crate::device::Device;
use crate::ih::{BATCH, BATCHES};
use crate::os::{DriverEvent, LogLevel, Os, PAGE_SIZE};
use crate::processes::Processes;

/// Fields of context words (`KFD_CTXID0_DOORBELL_ID`, `KFD_CTXID0_TRAP_CODE`), and the message of a wave.
const DOORBELL_ID: u32 = 0x3ff;
const TRAP_CODE_SHIFT: u32 = 10;
const TRAP_CODE: u32 = 0x3fff;
const MESSAGE: u32 = 0xff_ffff;

/// Handles as many entries as the ring has; returns whether it was not seen empty.
///
/// A device can write as fast as this reads, and must not have the thread for ever.
pub(crate) fn handle_all<O: Os>(processes: &Processes<O>, device: &Device<O>) -> bool {
    let mut entries = [IhEntry::default(); BATCH];
    for _ in 0..BATCHES {
        let (count, overflow) = match device.ih.lock().as_mut() {
            Some(ring) => ring.take(&mut entries),
            None => return false,
        };
        if overflow {
            let line = format_args!("IH ring buffer overflow: looking at all signals");
            device.limits.overflow.log(&device.hw, LogLevel::Warn, line);
            look_at_all(processes, device);
            retry_interrupts(processes, device);
        }
        if count == 0 {
            return false;
        }
        for entry in &entries[..count] {
            handle(processes, device, entry);
        }
    }
    true
}

/// Looks at all signals and all work of a device, of which interrupts may have told that were lost.
pub(crate) fn look_at_all<O: Os>(processes: &Processes<O>, device: &Device<O>) {
    for process in processes.all() {
        process.events.scan();
    }
    for client in processes.files_of(device) {
        client.kick();
    }
}

fn handle<O: Os>(processes: &Processes<O>, device: &Device<O>, entry: &IhEntry) {
    let (client, source) = (entry.client().0.into(), entry.source().0.into());
    device.trace(entry.pasid(), DriverEvent::Handled { client, source });
    let asic = device.hw.asic();
    if u32::from(entry.vmid()) < asic.first_kfd_vmid || entry.pasid() == 0 {
        match (asic.interrupt)(entry) {
            Interrupt::RingOne => retry_interrupts(processes, device),
            _ => processes.count_unhandled(&device.hw, entry),
        }
        return;
    }
    let Some(process) = processes.get(entry.pasid()) else {
        // Otherwise the process went while its interrupt was in the ring.
        let interrupt = (asic.interrupt)(entry);
        if let Interrupt::PageRetry { told, .. } = interrupt {
            device.retried(told);
        }
        if let Some(client) = processes.worker(entry.pasid()) {
            client.interrupt(interrupt, entry.timestamp());
        }
        return;
    };
    let Some(node) = process.nodes.raised(device, entry) else {
        // The process was there before the device.
        if let Interrupt::PageRetry { told, .. } = (asic.interrupt)(entry) {
            device.retried(told);
        }
        processes.count_unhandled(&device.hw, entry);
        return;
    };
    match (asic.interrupt)(entry) {
        Interrupt::Signal(event) => {
            process.events.interrupt(event, || {
                device.trace(entry.pasid(), DriverEvent::EventSet { event });
            });
        }
        Interrupt::HandlerMessage(word) => {
            let (doorbell, exceptions) = (word & DOORBELL_ID, word >> TRAP_CODE_SHIFT & TRAP_CODE);
            if !process.debug.raise_queue((node.gpu_id.into(), doorbell), exceptions.into()) {
                process.events.interrupt(word & MESSAGE, || ());
            }
        }
        Interrupt::ShaderError(word) => {
            let line = format_args!("pasid {}: shader error {word:#x}", entry.pasid());
            device.limits.shader_error.log(&device.hw, LogLevel::Warn, line);
        }
        Interrupt::Poison => process.poison_consumed(node),
        Interrupt::BadPacket(word) => {
            let line = format_args!("pasid {}: bad packet, doorbell and code {word:#x}", entry.pasid());
            device.limits.bad_packet.log(&device.hw, LogLevel::Warn, line);
            let code = ExceptionCode(word >> TRAP_CODE_SHIFT & 0xffff).mask();
            let told = ExceptionCode::MASK_PACKET | ExceptionCode::QUEUE_PREEMPTION_ERROR.mask();
            process.debug.raise_queue((node.gpu_id.into(), word & DOORBELL_ID), code & told);
        }
        Interrupt::PageFault { page, not_present, write } => {
            process.memory_fault(
                node,
                MemoryExceptionData {
                    failure: MemoryExceptionFailure {
                        not_present: u32::from(not_present),
                        read_only: u32::from(write),
                        no_execute: 0,
                        imprecise: 0,
                    },
                    va: page * PAGE_SIZE,
                    gpu_id: u32::from(node.gpu_id),
                    error_type: 0,
                },
            );
        }
        Interrupt::PageRetry { page, told } => {
            if !process.page_wanted(node, page * PAGE_SIZE, told) {
                device.retried(told);
            }
        }
        Interrupt::Quiet => {}
        Interrupt::RingOne | Interrupt::Unknown => processes.count_unhandled(&device.hw, entry),
    }
}

/// Handles what is in ring 1.
fn retry_interrupts<O: Os>(processes: &Processes<O>, device: &Device<O>) {
    let mut entries = [IhEntry::default(); BATCH];
    for _ in 0..BATCHES {
        let count = match device.ih.lock().as_mut().and_then(|ring| ring.take_retries(&mut entries)) {
            Some(count) => count,
            None => return,
        };
        if count == 0 {
            return;
        }
        for entry in &entries[..count] {
            handle(processes, device, entry);
        }
    }
}

#[cfg(test)]
mod tests;
