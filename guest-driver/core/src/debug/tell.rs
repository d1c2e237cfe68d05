//! Exceptions on their way to the debugger and to the runtime.

use belfry_abi::kfd::debug::ExceptionCode;
use belfry_abi::kfd::queue::ContextSaveAreaHeader;
use zerocopy::{FromZeros as _, IntoBytes as _};

use crate::errno::{Errno, Result};
use crate::os::{EventFile as _, Os, WaitQueue as _};
use crate::process::Process;
use crate::queue_manager;

/// Tells debugger and runtime what is on its way to them.
pub(crate) fn tell<O: Os>(process: &Process<O>) {
    let (file, to_runtime) = {
        let mut exceptions = process.debug.exceptions.lock();
        let told = core::mem::take(&mut exceptions.to_debugger);
        let file = exceptions.file.clone().filter(|_| told);
        (file, core::mem::take(&mut exceptions.to_runtime))
    };
    file.iter().for_each(|file| file.notify());
    for (queue, mask) in to_runtime {
        tell_runtime(process, queue, mask);
    }
}

/// Adds exceptions of a queue to the runtime's word, and sets its event (`send_exception_work_handler`).
fn tell_runtime<O: Os>(process: &Process<O>, queue: u32, mask: u64) {
    // While the lock is held, the process is not torn down, and its key is its own.
    let state = process.state.lock();
    let place = state.queues.get(&queue).map(|queue| (queue.node, queue.user.save_area));
    let (node, area) = place.map_or((0, None), |(node, area)| (node, Some(area)));
    let Some(area) = area.filter(|area| *area != 0) else { return };
    let os = process.os();
    let mut header = ContextSaveAreaHeader::new_zeroed();
    let mut word = [0; 8];
    let key = process.key();
    let told = os.read_user(key, header.as_mut_bytes(), area).and_then(|()| {
        os.read_user(key, &mut word, header.err_payload_addr)?;
        let all = u64::from_le_bytes(word) | mask;
        os.write_user(key, header.err_payload_addr, &all.to_le_bytes())?;
        process.events.set(header.err_event_id)
    });
    drop(state);
    if let Err(error) = told {
        let line = format_args!(
            "pasid {}: the runtime does not hear of exceptions {mask:#x} of queue {queue}: its context save area does not lead to a word and an event ({error})",
            process.pasid
        );
        let device = &process.nodes.get(node).device;
        device.limits.shader_error.log(&device.hw, crate::os::LogLevel::Warn, line);
    }
}

/// SEND_RUNTIME_EVENT (`kfd_dbg_send_exception_to_runtime`).
pub(crate) fn send_to_runtime<O: Os>(process: &Process<O>, mask: u64, gpu: u32, queue: u32) -> Result<()> {
    let violation = ExceptionCode::DEVICE_MEMORY_VIOLATION.mask();
    if mask & violation != 0 {
        let node = process.nodes.named(gpu).map_err(|_| Errno::ENODEV)?;
        let data = process.debug.exceptions.lock().fault.unwrap_or_default();
        queue_manager::evict(process, node.bit());
        process.events.memory_exception(data);
    }
    let runtime = ExceptionCode::PROCESS_RUNTIME.mask();
    if mask & runtime != 0 {
        process.debug.exceptions.lock().acknowledged += 1;
        process.debug.wake.wake_all();
    }
    let rest = mask & !violation & !runtime;
    if rest != 0 {
        tell_runtime(process, queue, rest);
    }
    Ok(())
}
