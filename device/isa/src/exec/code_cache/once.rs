//! Values that several threads want and one of them makes.
//!
//! A value stays until it is found out of date; then the thread that finds that makes the next one. Making takes long: only
//! threads that want the same value wait for it. `tests/models` runs this file under loom's memory model.

use std::collections::HashMap;
use std::hash::Hash;

use super::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The latest value of a key; `None` while the first is being made, or if that failed.
type Slot<V> = Mutex<Option<Arc<V>>>;

/// The latest value of each key.
#[derive(Debug)]
pub(crate) struct Once<K, V> {
    slots: Mutex<HashMap<K, Arc<Slot<V>>>>,
    /// Keys kept before starting over.
    most: usize,
}

impl<K: Eq + Hash, V> Once<K, V> {
    /// No values, and room for those of `most` keys.
    pub(crate) fn new(most: usize) -> Self {
        Once { slots: Mutex::new(HashMap::new()), most }
    }

    /// Forgets every value; callers that have one keep it.
    pub(crate) fn clear(&self) {
        lock(&self.slots).clear();
    }

    /// The value of `key`, one that `is_current`, and whether it was made here, by `make`. Both are given `context`.
    ///
    /// Returns the value under a key. If several threads want it at one time, one of them makes it and the others
    /// wait for it.
    pub(crate) fn obtain<C>(
        &self,
        key: K,
        context: &mut C,
        is_current: impl Fn(&mut C, &V) -> bool,
        make: impl FnOnce(&mut C) -> V,
    ) -> (Arc<V>, bool) {
        let slot = self.slot(key);
        // Looked at without the lock: many threads may compare the same value at once.
        let seen = lock(&slot).clone();
        if let Some(value) = &seen
            && is_current(context, value)
        {
            return (Arc::clone(value), false);
        }
        let mut latest = lock(&slot);
        let replaced = match (&*latest, &seen) {
            (Some(value), Some(seen)) => !Arc::ptr_eq(value, seen),
            (value, _) => value.is_some(),
        };
        if replaced
            && let Some(value) = &*latest
            && is_current(context, value)
        {
            return (Arc::clone(value), false);
        }
        let made = Arc::new(make(context));
        *latest = Some(Arc::clone(&made));
        (made, true)
    }

    /// The latest values of all keys.
    pub(crate) fn values(&self) -> Vec<Arc<V>> {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        slots.iter().filter_map(|slot| lock(slot).clone()).collect()
    }

    /// Keys that there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.slots).len()
    }

    /// Forgets the values that are chosen, except one that is being made anew; callers that have one keep it.
    pub(crate) fn forget(&self, is_chosen: impl Fn(&Arc<V>) -> bool) {
        lock(&self.slots).retain(|_, slot| match slot.try_lock() {
            Ok(latest) => !latest.as_ref().is_some_and(&is_chosen),
            Err(_) => true,
        });
    }

    fn slot(&self, key: K) -> Arc<Slot<V>> {
        let mut slots = lock(&self.slots);
        if slots.len() >= self.most && !slots.contains_key(&key) {
            slots.clear();
        }
        Arc::clone(slots.entry(key).or_insert_with(|| Arc::new(Mutex::new(None))))
    }
}

/// A thread that panicked while it made a value has left the one before, or none.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
