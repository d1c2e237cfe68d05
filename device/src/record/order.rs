//! One operation after the other, over all devices of a record.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use belfry_lock::{Mutex, MutexGuard, rank};

/// The order of the operations of all devices of a record.
#[derive(Default)]
pub(crate) struct Order {
    operation: Mutex<(), rank::RecordOrder>,
    /// Calls that wait for their operation: the devices' own threads let them pass.
    visitors: AtomicUsize,
    /// Devices that wait for their turn.
    waiting: AtomicUsize,
    /// Turns that have begun.
    turns: AtomicU64,
}

/// Time of one operation: no other one of any device of the record begins meanwhile.
pub(crate) type Operation<'a> = MutexGuard<'a, (), rank::RecordOrder>;

impl Order {
    fn lock(&self) -> Operation<'_> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the operation of a call.
    pub(crate) fn call(&self) -> Operation<'_> {
        self.visitors.fetch_add(1, Ordering::SeqCst);
        let operation = self.lock();
        self.visitors.fetch_sub(1, Ordering::SeqCst);
        operation
    }

    /// Waits for a device's turn. `last` is the number of its turn before, and becomes that of this one: a device whose turn was the last one
    /// lets those go first that wait, as their waves may be those that its own wait for.
    pub(crate) fn turn(&self, last: &AtomicU64) -> Operation<'_> {
        let own = last.load(Ordering::SeqCst);
        let lets_pass = || {
            let was_last = self.turns.load(Ordering::SeqCst) == own;
            self.visitors.load(Ordering::SeqCst) > 0 || was_last && self.waiting.load(Ordering::SeqCst) > 0
        };
        while lets_pass() {
            std::thread::yield_now();
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let operation = self.lock();
        last.store(self.turns.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_whose_turn_was_the_last_one_lets_another_go_first() {
        let order = Order::default();
        let took = Mutex::<_, rank::Journal>::new(Vec::new());
        let note = |device: u8| took.lock().unwrap().push(device);
        let last = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            let first = order.turn(&last[0]);
            note(0);
            let other = scope.spawn(|| {
                let _turn = order.turn(&last[1]);
                note(1);
            });
            while order.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(first);
            let again = order.turn(&last[0]);
            note(0);
            drop(again);
            other.join().unwrap();
        });
        assert_eq!(*took.lock().unwrap(), [0, 1, 0]);
        drop(order.call());
        assert_eq!(order.visitors.load(Ordering::SeqCst), 0);
    }
}
