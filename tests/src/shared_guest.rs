//! Guests that tests of one program share: a boot takes longer than most of the tests.
//!
//! A test takes a guest that no other test uses, and gives it back; there are as many as tests that run at once. One in which a test
//! has failed is not used again. Each has the usual configuration, the driver loaded and the roles in it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use belfry_guest::{Guest, GuestConfig};
use belfry_image::Cache;

use crate::{complaint, guest_image, guest_roles};

/// Path of the roles in a guest.
pub const ROLES: &str = "/bin/guest-roles";

/// A test's part in a guest, and its end.
type Job = (Box<dyn FnOnce(&mut Guest) + Send>, Sender<thread::Result<()>>);

/// Guests that no test uses. A guest cannot change threads, so each has one, which these lead to.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// Runs a test in a guest that others have used before. It leaves the driver loaded.
///
/// # Panics
///
/// As the test does; for a guest that does not boot, and for a kernel that complains of anything.
pub fn in_shared_guest(test: impl FnOnce(&mut Guest) + Send + 'static) {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let guest = idle.unwrap_or_else(|| {
        let (jobs, received) = channel();
        thread::spawn(move || serve(&received));
        jobs
    });
    let (end, ended) = channel();
    guest.send((Box::new(test), end)).expect("the guest's thread waits for tests");
    if let Err(panic) = ended.recv().expect("the guest's thread answers") {
        resume_unwind(panic);
    }
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(guest);
}

/// A guest with the driver loaded and the roles in it.
///
/// # Errors
///
/// A part that cannot be built, fetched or booted.
pub fn boot_with_roles(config: &GuestConfig) -> Result<Guest> {
    let cache = Cache::open()?;
    let mut guest = Guest::boot(&guest_image(&cache)?, config, &cache)?;
    guest.load_driver()?;
    guest.put_file(ROLES, 0o755, &guest_roles()?)?;
    Ok(guest)
}

/// Boots a guest and runs tests in it until one of them fails.
fn serve(jobs: &Receiver<Job>) {
    let mut booted = None;
    for (test, end) in jobs {
        let run = AssertUnwindSafe(|| {
            let guest = booted.get_or_insert_with(|| boot_with_roles(&GuestConfig::default()).unwrap());
            test(guest);
            if let Some(complaint) = complaint(&guest.kernel_log().unwrap()) {
                panic!("the guest's kernel complained:\n{complaint}");
            }
        });
        let result = catch_unwind(run);
        let failed = result.is_err();
        let _ = end.send(result);
        if failed {
            return;
        }
    }
}
