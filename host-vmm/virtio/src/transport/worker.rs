//! The thread that works for a device: it waits for notifications and for the host's side, and lets resets come in
//! between.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::Shared;
use crate::broken::Broken;
use crate::device::Progress;

/// Source of an event; a queue has its number.
const HOST: u64 = 1 << 32;
const STOP: u64 = 1 << 33;

/// The thread; stopped and joined when dropped.
#[derive(Debug)]
pub(super) struct Worker {
    stop: EventFd,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread of a device.
    pub(super) fn start(shared: Arc<Shared>, name: &str) -> io::Result<Self> {
        let stop = EventFd::new(EFD_NONBLOCK)?;
        let epoll = Epoll::new()?;
        for (number, kick) in (0..).zip(&shared.kicks) {
            epoll.ctl(ControlOperation::Add, kick.as_raw_fd(), EpollEvent::new(EventSet::IN, number))?;
        }
        epoll.ctl(ControlOperation::Add, stop.as_raw_fd(), EpollEvent::new(EventSet::IN, STOP))?;
        let mut events = Events { epoll, shared, host: None };
        // A thread's name has 15 bytes.
        let thread =
            std::thread::Builder::new().name(name.chars().take(15).collect()).spawn(move || events.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // If the counter is full, it has been signalled.
        let _ = self.stop.write(1);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "kvm", "the thread of a device panicked; this is a bug in belfry");
        }
    }
}

struct Events {
    epoll: Epoll,
    shared: Arc<Shared>,
    host: Option<(RawFd, EventSet)>,
}

impl Events {
    fn run(&mut self) {
        let mut events = vec![EpollEvent::default(); 16];
        loop {
            self.watch_host();
            let count = match self.epoll.wait(-1, &mut events) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.shared.fail(&Broken(format!("its events cannot be waited for: {error}")));
                    return;
                }
            };
            let mut stop = false;
            for event in &events[..count] {
                match event.data() {
                    STOP => stop = true,
                    HOST => {}
                    queue => self.shared.take_kick(queue as usize),
                }
            }
            // Requests that the guest made before its end are still carried out.
            self.work();
            if stop {
                return;
            }
        }
    }

    fn work(&self) {
        loop {
            let worked = std::panic::catch_unwind(AssertUnwindSafe(|| self.shared.work()));
            match worked {
                Ok(Progress::More) => {}
                Ok(Progress::Idle) => return,
                Err(_) => {
                    self.shared.fail(&Broken("its thread panicked; this is a bug in belfry".into()));
                    return;
                }
            }
        }
    }

    /// Waits for the host events that the device now wants. Without any, the host's file is not watched, since a
    /// closed end is reported even if no event is asked for.
    fn watch_host(&mut self) {
        let wanted = self.shared.host();
        if wanted == self.host {
            return;
        }
        let event = |set| EpollEvent::new(set, HOST);
        let changed = match (self.host, wanted) {
            (Some((old, _)), Some((new, set))) if old == new => {
                self.epoll.ctl(ControlOperation::Modify, new, event(set))
            }
            (old, new) => {
                if let Some((old, _)) = old {
                    // A file that the device has closed is not watched any more.
                    let _ = self.epoll.ctl(ControlOperation::Delete, old, EpollEvent::default());
                }
                new.map_or(Ok(()), |(new, set)| self.epoll.ctl(ControlOperation::Add, new, event(set)))
            }
        };
        self.host = wanted;
        if let Err(error) = changed {
            self.shared.fail(&Broken(format!("its host side cannot be waited for: {error}")));
        }
    }
}
