//! The main loop of the machine's own thread while vCPUs run. It waits for the end, output, input, signals and the
//! time limit.

use std::io;
use std::time::{Duration, Instant};

use event_manager::{EventManager, EventOps, Events, MutEventSubscriber, SubscriberOps as _};
use vmm_sys_util::epoll::EventSet;

use super::board::Board;
use super::console::Console;
use super::input::Input;
use super::signals::{Signals, interrupted};
use crate::ending::{End, Ending};
use crate::error::KvmError;

const ENDED: u32 = 0;
const OUTPUT: u32 = 1;
const INPUT: u32 = 2;
const WANTED: u32 = 3;
const SIGNAL: u32 = 4;

/// Sources and targets of the loop's events.
pub(super) struct Host<'a> {
    pub(super) board: &'a Board,
    pub(super) console: &'a Console,
    pub(super) ending: &'a Ending,
    pub(super) input: Option<Input>,
    pub(super) signals: Option<Signals>,
    pub(super) output: &'a mut dyn FnMut(&[u8]),
}

/// Waits until the machine has a reason to end; a run longer than `limit` is one.
pub(super) fn run(host: Host<'_>, limit: Duration) -> Result<(), KvmError> {
    let started = Instant::now();
    let failed = |error: event_manager::Error| KvmError::Setup {
        what: "wait for the machine",
        source: io::Error::other(error.to_string()),
    };
    let ending = host.ending;
    let mut manager = EventManager::new().map_err(failed)?;
    manager.add_subscriber(host);
    while ending.reason().is_none() {
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            ending.end(End::Timeout(limit));
            break;
        }
        let milliseconds = left.as_millis().clamp(1, 1_000_000) as i32;
        manager.run_with_timeout(milliseconds).map_err(failed)?;
    }
    Ok(())
}

impl Host<'_> {
    /// Passes on typed input, if there is some to read; input waits while the port has no room for it.
    fn feed(&mut self, ready: bool, ops: &mut EventOps<'_>) {
        let Some(input) = &mut self.input else { return };
        let ready = ready || input.is_always_ready();
        let fed = self.board.typed(|room| if ready { input.read(room) } else { Vec::new() });
        let Some(room) = fed else { return self.feed_again() };
        if input.quit() {
            self.ending.end(End::Stopped);
        }
        let waits = !input.is_done() && room > 0 && !input.is_always_ready();
        if waits != input.is_waited_for() {
            let events = Events::with_data(input.file(), INPUT, EventSet::IN);
            let result = if waits { ops.add(events) } else { ops.remove(events) };
            match result {
                Ok(()) => input.set_waited_for(waits),
                // A file cannot be waited for.
                Err(_) if waits => input.set_always_ready(),
                Err(error) => log::error!(target: "kvm", "input stays waited for: {error}"),
            }
        }
        if input.is_done() {
            self.input = None;
        } else if input.is_always_ready() && room > 0 {
            self.feed_again();
        }
    }

    fn feed_again(&self) {
        std::thread::yield_now();
        // If the counter is full, it has been signalled.
        let _ = self.board.wanted.write(1);
    }
}

impl MutEventSubscriber for Host<'_> {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let mut sources =
            vec![(&self.ending.event, ENDED), (&self.console.ready, OUTPUT), (&self.board.wanted, WANTED)];
        if let Some(signals) = &self.signals {
            sources.push((signals.event(), SIGNAL));
        }
        for (source, data) in sources {
            if let Err(error) = ops.add(Events::with_data(source, data, EventSet::IN)) {
                log::error!(target: "kvm", "an event is not waited for: {error}");
            }
        }
        self.feed(false, ops);
    }

    fn process(&mut self, events: Events, ops: &mut EventOps<'_>) {
        match events.data() {
            OUTPUT => {
                let _ = self.console.ready.read();
                let data = self.console.take();
                (self.output)(&data);
            }
            INPUT => self.feed(true, ops),
            WANTED => {
                let _ = self.board.wanted.read();
                self.feed(false, ops);
            }
            SIGNAL => {
                if let Some(number) = interrupted() {
                    self.ending.end(End::Signal(number));
                }
            }
            // The loop reads the reason.
            _ => {
                let _ = self.ending.event.read();
            }
        }
    }
}
