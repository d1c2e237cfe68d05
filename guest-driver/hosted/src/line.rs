//! Interrupts of a hosted GPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_device::{InterruptSink, look_out};
use belfry_lock::{Condvar, Mutex, rank};

use crate::sync::lock;

/// Destination of the device's interrupts: a thread that runs the driver's handler.
#[derive(Default)]
pub(crate) struct Line {
    pending: AtomicBool,
    /// Set once the device is gone and raises no more interrupts.
    closed: AtomicBool,
    /// The thread has to be woken. It is set, and waited for, with `handlers` locked.
    sleeps: AtomicBool,
    handlers: Mutex<Handlers, rank::Line>,
    raised: Condvar,
}

#[derive(Default)]
struct Handlers {
    /// Handles interrupts while a driver is loaded.
    driver: Option<Handler>,
    /// Handles them instead.
    instead: Option<Handler>,
}

/// A handler of interrupts. It returns true if it is to be called again.
pub type Handler = Arc<dyn Fn() -> bool + Send + Sync>;

impl InterruptSink for Line {
    fn raise(&self, _vector: u16) {
        self.pending.store(true, Ordering::SeqCst);
        self.wake();
    }
}

impl Line {
    /// Wakes the thread, if it sleeps: the raising thread may be the program's own, which is waiting for its signal.
    fn wake(&self) {
        // This load, the thread's own store and its look at `pending` are in one order.
        if self.sleeps.load(Ordering::SeqCst) {
            drop(lock(&self.handlers));
            self.raised.notify_one();
        }
    }

    /// Has a driver's handler run, or none.
    pub(crate) fn belongs_to(&self, driver: Option<Handler>) {
        lock(&self.handlers).driver = driver;
    }

    /// Has another handler run, or the driver's again.
    pub(crate) fn handle_instead(&self, handler: Option<Handler>) {
        lock(&self.handlers).instead = handler;
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true if an interrupt waits and there is a handler for it.
    pub(crate) fn is_pending(&self) -> bool {
        let handlers = lock(&self.handlers);
        let has_handler = handlers.instead.is_some() || handlers.driver.is_some();
        has_handler && self.pending.load(Ordering::SeqCst)
    }

    /// Handles an interrupt on this thread.
    pub(crate) fn handle(&self) {
        let (driver, instead) = {
            let handlers = lock(&self.handlers);
            self.pending.store(false, Ordering::SeqCst);
            (handlers.driver.clone(), handlers.instead.clone())
        };
        let again = match instead {
            Some(handler) => handler(),
            None => driver.is_some_and(|driver| driver()),
        };
        if again {
            self.pending.store(true, Ordering::SeqCst);
        }
    }

    fn is_news(&self) -> bool {
        self.pending.load(Ordering::SeqCst) || self.closed.load(Ordering::SeqCst)
    }

    /// Handles interrupts until the line is closed. After each one it looks out for the next before it sleeps.
    pub(crate) fn serve(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            if self.pending.load(Ordering::SeqCst) {
                self.handle();
                look_out(|| self.is_news());
                continue;
            }
            let mut handlers = lock(&self.handlers);
            self.sleeps.store(true, Ordering::SeqCst);
            while !self.is_news() {
                handlers = self.raised.wait(handlers).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleeps.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_interrupt_is_handled_whether_the_thread_sleeps_or_looks_out() {
        let line = Arc::new(Line::default());
        let handled = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&handled);
        line.handle_instead(Some(Arc::new(move || {
            counts.fetch_add(1, Ordering::SeqCst);
            false
        })));
        assert!(!line.is_pending());
        let serving = Arc::clone(&line);
        let thread = thread::spawn(move || serving.serve());
        for round in 1..=2000 {
            if round % 100 == 0 {
                // Longer than it looks out.
                thread::sleep(Duration::from_millis(1));
            }
            line.raise(0);
            while handled.load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
        }
        assert_eq!(handled.load(Ordering::SeqCst), 2000, "each is handled once");
        thread::sleep(Duration::from_millis(1));
        line.close();
        thread.join().expect("it ends");
    }

    #[test]
    fn handler_that_wants_to_be_called_again_is() {
        let line = Arc::new(Line::default());
        let left = Arc::new(AtomicU32::new(3));
        let (counts, closing) = (Arc::clone(&left), Arc::downgrade(&line));
        line.handle_instead(Some(Arc::new(move || {
            let again = counts.fetch_sub(1, Ordering::SeqCst) > 1;
            if let (false, Some(line)) = (again, closing.upgrade()) {
                line.close();
            }
            again
        })));
        line.raise(0);
        assert!(line.is_pending());
        line.serve();
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }
}
