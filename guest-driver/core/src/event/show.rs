//! A process's events in words.

use core::fmt;

use belfry_abi::kfd::event::{
    KFD_IOC_EVENT_DEBUG_EVENT, KFD_IOC_EVENT_DEVICESTATECHANGE, KFD_IOC_EVENT_HW_EXCEPTION,
    KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_NODECHANGE, KFD_IOC_EVENT_PROFILE_EVENT, KFD_IOC_EVENT_QUEUE_EVENT,
    KFD_IOC_EVENT_SIGNAL, KFD_IOC_EVENT_SYSTEM_EVENT,
};

use super::{Event, Events};
use crate::os::Os;
use crate::show::Few;

/// Names of the types, `KFD_IOC_EVENT_*`.
const TYPES: &[(u32, &str)] = &[
    (KFD_IOC_EVENT_SIGNAL, "signal"),
    (KFD_IOC_EVENT_NODECHANGE, "node change"),
    (KFD_IOC_EVENT_DEVICESTATECHANGE, "device state change"),
    (KFD_IOC_EVENT_HW_EXCEPTION, "hardware exception"),
    (KFD_IOC_EVENT_SYSTEM_EVENT, "system event"),
    (KFD_IOC_EVENT_DEBUG_EVENT, "debug event"),
    (KFD_IOC_EVENT_PROFILE_EVENT, "profile event"),
    (KFD_IOC_EVENT_QUEUE_EVENT, "queue event"),
    (KFD_IOC_EVENT_MEMORY, "memory exception"),
];

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TYPES.iter().find(|(kind, _)| *kind == self.kind).map_or("unknown", |(_, name)| name);
        f.debug_struct("Event")
            .field("type", &format_args!("{name}"))
            .field("set", &self.signaled)
            .field("auto_reset", &self.auto_reset)
            .field("age", &format_args!("{}", self.age))
            .field("waits", &format_args!("{}", self.waiters.len()))
            .finish_non_exhaustive()
    }
}

impl<O: Os> fmt::Debug for Events<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        f.debug_struct("Events")
            .field("count", &format_args!("{}", table.events.len()))
            .field("signals", &format_args!("{}", table.signals))
            .field("waits", &format_args!("{}", table.waits.len()))
            .field("has_signal_page", &table.page.is_some())
            .field("shut_down", &table.closed)
            .field("events", &Few(table.events.iter()))
            .finish_non_exhaustive()
    }
}
