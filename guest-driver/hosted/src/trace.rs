//! Events of the driver, in the trace of the device of the same process.

use std::sync::atomic::{AtomicU64, Ordering};

use belfry_device::trace::{Engine, Kind, Owner, TraceEvent, Tracer};
use belfry_kfd_core::os::DriverEvent;

/// Number of this thread among those that have called the driver.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static THREAD: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    THREAD.with(|thread| *thread)
}

/// Records an event of a process.
pub(crate) fn record(tracer: &Tracer, pasid: u16, event: DriverEvent) {
    if !tracer.is_on() {
        return;
    }
    let process = u64::from(pasid);
    let (kind, arguments, text) = match event {
        DriverEvent::IoctlEnter { name, number } => {
            (Kind::IoctlEnter, [process, thread(), number.into(), 0], name)
        }
        DriverEvent::IoctlLeave { number, errno } => {
            (Kind::IoctlLeave, [process, thread(), number.into(), errno.into()], "")
        }
        DriverEvent::EventSet { event } => (Kind::EventSet, [process, event.into(), 0, 0], ""),
        DriverEvent::EventWake { event } => (Kind::EventWake, [process, event.into(), 0, 0], ""),
        DriverEvent::QueueCreated { queue } => (Kind::QueueCreated, [process, queue.into(), 0, 0], ""),
        DriverEvent::QueueDestroyed { queue } => (Kind::QueueDestroyed, [process, queue.into(), 0, 0], ""),
        DriverEvent::Mapped { address, size } => (Kind::MemoryMapped, [process, address, size, 0], ""),
        DriverEvent::Unmapped { address, size } => (Kind::MemoryUnmapped, [process, address, size, 0], ""),
        DriverEvent::Handled { client, source } => {
            (Kind::InterruptHandled, [process, client.into(), source.into(), 0], "")
        }
        DriverEvent::Evicted => (Kind::Evicted, [process, 0, 0, 0], ""),
        DriverEvent::Restored => (Kind::Restored, [process, 0, 0, 0], ""),
        DriverEvent::ProcessOpened { ref task } => {
            (Kind::ProcessOpened, [process, task.id.into(), 0, 0], task.name())
        }
        DriverEvent::ProcessClosed => (Kind::ProcessClosed, [process, 0, 0, 0], ""),
    };
    let owner = Owner { pasid: pasid.into(), ..Owner::of(Engine::Driver) };
    tracer.event(owner, TraceEvent::Driver { kind, arguments, text });
}
