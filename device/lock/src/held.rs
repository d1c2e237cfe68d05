//! The locks that the calling thread holds, of builds with debug assertions.

use std::cell::Cell;

use super::rank::{AnyRank, MAX_DEVICES, NAMES};

const DEVICES: usize = MAX_DEVICES as usize;

thread_local! {
    // None of these needs an allocation or a destructor: they work in any thread, at any time of its life.
    /// Locks that are of no device, a bit for each rank.
    static SHARED: Cell<u128> = const { Cell::new(0) };
    /// Locks of each device.
    static OF_DEVICES: [Cell<u128>; DEVICES] = const { [const { Cell::new(0) }; DEVICES] };
    /// Number of the device that the thread works on.
    static DEVICE: Cell<u8> = const { Cell::new(0) };
}

const _: () = assert!(NAMES.len() <= 128);

fn name(position: u32) -> &'static str {
    NAMES.get(position as usize).copied().unwrap_or("?")
}

fn of_device_number(device: usize) -> u128 {
    OF_DEVICES.with(|held| held[device].get())
}

/// Returns the device that the thread works on.
pub(super) fn device() -> u8 {
    DEVICE.get()
}

/// Sets the device that the thread works on. Returns the one before.
pub(super) fn enter(device: u8) -> u8 {
    DEVICE.replace(device)
}

/// Ends the process if the thread holds a lock at or after this rank.
pub(super) fn check(AnyRank { position, of_device }: AnyRank, verb: &str) {
    let lowest = |held: u128| (held != 0).then(|| held.trailing_zeros());
    let from_here = |held: u128| lowest(held >> position).map(|above| u32::from(position) + above);
    let own = usize::from(DEVICE.get());
    let lock = name(position.into());
    if let Some(held) = from_here(SHARED.get()) {
        fail(&format!("{lock} {verb} while {} is held, against the order of locks", name(held)));
    }
    for device in 0..DEVICES {
        let held = of_device_number(device);
        let found = match device.cmp(&own) {
            // All locks of a device with a higher number come later.
            std::cmp::Ordering::Greater if of_device => lowest(held),
            std::cmp::Ordering::Less if of_device => None,
            _ => from_here(held),
        };
        let Some(found) = found else { continue };
        let whose = |number: usize| format!(" of device {number}");
        let (mine, theirs) =
            if of_device && device != own { (whose(own), whose(device)) } else { Default::default() };
        let held = name(found);
        fail(&format!("{lock}{mine} {verb} while {held}{theirs} is held, against the order of locks"));
    }
}

pub(super) fn add(AnyRank { position, of_device }: AnyRank) {
    let bit = 1 << position;
    if of_device {
        OF_DEVICES.with(|held| {
            let own = &held[usize::from(DEVICE.get())];
            own.set(own.get() | bit);
        });
    } else {
        SHARED.set(SHARED.get() | bit);
    }
}

pub(super) fn remove(AnyRank { position, of_device }: AnyRank) {
    let bit = 1 << position;
    if !of_device {
        SHARED.set(SHARED.get() & !bit);
        return;
    }
    // A guard may outlive the work on its device.
    let own = usize::from(DEVICE.get());
    OF_DEVICES.with(|held| {
        let holds = |held: &&Cell<u128>| held.get() & bit != 0;
        if let Some(held) = Some(&held[own]).filter(holds).or_else(|| held.iter().find(holds)) {
            held.set(held.get() & !bit);
        }
    });
}

/// Ends the process: a thread that only panicked would leave others waiting for it. The unit tests get a panic.
fn fail(message: &str) {
    if cfg!(test) {
        panic!("{message}");
    }
    eprintln!("thread {:?}: {message}", std::thread::current().name().unwrap_or("?"));
    std::process::abort();
}
