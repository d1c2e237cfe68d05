//! Events that go while threads wait for them.

use std::time::{Duration, Instant};

use crate::common::{Client, RW, gpu};
use belfry_abi::kfd::event::{
    EventData, EventIdArgs, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_TIMEOUT,
    WaitEventsArgs,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_kfd_hosted::Errno;

/// Far longer than anything takes: only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// `kfd_wait_on_events` of Linux fails such a wait with `EIO`; an event that had gone before would be `EINVAL`.
#[test]
fn event_destroyed_while_a_thread_waits_fails_the_wait() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let page = client.alloc(32 << 10, AllocFlags::GTT | RW).unwrap();
    let signal = client.create_event(KFD_IOC_EVENT_SIGNAL, page.handle).unwrap().event_id;
    let exception = client.create_event(KFD_IOC_EVENT_HW_EXCEPTION, 0).unwrap().event_id;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut both = [signal, exception].map(|event_id| EventData { event_id, ..Default::default() });
            let mut args = WaitEventsArgs {
                events_ptr: both.as_mut_ptr() as u64,
                num_events: 2,
                wait_for_all: 1,
                timeout: u32::MAX,
                ..Default::default()
            };
            client.ioctl(nr::WAIT_EVENTS, &mut args)
        });
        // A signal resets itself when a wait takes it: once it is gone, the other wait has begun.
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "the wait does not begin");
            let mut args = EventIdArgs { event_id: signal, pad: 0 };
            client.ioctl(nr::SET_EVENT, &mut args).unwrap();
            if client.wait(signal, 0).unwrap().0 == KFD_IOC_WAIT_RESULT_TIMEOUT {
                break;
            }
        }
        let mut args = EventIdArgs { event_id: exception, pad: 0 };
        client.ioctl(nr::DESTROY_EVENT, &mut args).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::EIO));
    });
    drop(client);
    Client::open(&gpu).check_queue_works();
}
