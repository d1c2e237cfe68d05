//! A scheduler that does not answer: the driver says so, resets the device, and serves the next process.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and uses descriptors")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{self, Client};
use belfry_abi::kfd::event::{
    HwExceptionData, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::smi::{EventKind, SmiEventsArgs};
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_device::time::TimeSource;
use belfry_kfd_hosted::{Errno, HostedGpu};
use zerocopy::FromBytes;

/// Command register of the PCI function.
const COMMAND: usize = 4;

/// Longer than the driver waits for any part of the device.
const TOO_LONG: Duration = Duration::from_secs(11);
/// Looks at a device in a row after which it does not answer.
const LOOKS: u64 = 100;

/// A GPU and the time that it and its driver go by, which stands still: nothing comes too late unless a test says so.
fn gpu() -> (Arc<HostedGpu>, TimeSource) {
    let time = TimeSource::manual();
    let config = GpuConfig { time: time.clone(), ..common::config() };
    (HostedGpu::new(config).unwrap(), time)
}

/// Destroys a queue of a device that does not answer, and has the driver's patience run out once.
fn destroy_in_vain(client: &Client, queue: u32, time: &TimeSource) -> Result<i32, Errno> {
    std::thread::scope(|scope| {
        let destroys = scope.spawn(|| client.destroy_queue(queue));
        time.wait_for_pauses(LOOKS);
        assert!(!destroys.is_finished(), "the driver waits");
        time.advance(TOO_LONG);
        destroys.join().unwrap()
    })
}

/// A descriptor of the events of resets.
fn watch(client: &Client) -> File {
    let mut args = SmiEventsArgs { gpuid: client.gpu_id, anon_fd: 0 };
    client.ioctl(nr::SMI_EVENTS, &mut args).unwrap();
    // SAFETY: the descriptor was made for this call, and only this function has it.
    let mut file = unsafe { File::from_raw_fd(args.anon_fd as i32) };
    let mask = EventKind::GpuPreReset.mask() | EventKind::GpuPostReset.mask();
    file.write_all(&mask.to_le_bytes()).unwrap();
    file
}

#[test]
fn a_scheduler_that_hangs_is_reset_and_everybody_is_told() {
    let (gpu, time) = gpu();
    let hit = Client::open(&gpu);
    let bystander = Client::open(&gpu);
    let mut resets = watch(&bystander);
    let event = bystander.create_event(KFD_IOC_EVENT_HW_EXCEPTION, 0).unwrap();
    let queue = hit.create_queue().unwrap();
    let other = bystander.create_queue().unwrap();
    assert_eq!(bystander.wait(event.event_id, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    // Without bus mastering the device neither reads its rings nor answers.
    gpu.device().config_write(COMMAND, &2u16.to_le_bytes());
    assert_eq!(destroy_in_vain(&hit, queue.args.queue_id, &time), Err(Errno::ETIME));

    let (result, data) = bystander.wait(event.event_id, 10_000).unwrap();
    assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
    let data = HwExceptionData::read_from_bytes(&data.data[..16]).unwrap();
    assert_eq!((data.reset_cause, data.memory_lost, data.gpu_id), (0, 1, bystander.gpu_id));
    let mut lines = [0; 96];
    let len = resets.read(&mut lines).unwrap();
    assert_eq!(lines[..len], *b"3 1 MES hang\n4 1 MES hang\n");
    // Their queues are gone; going on takes a new process.
    bystander.destroy_queue(other.args.queue_id).unwrap();
    for client in [&hit, &bystander] {
        let mut args = client.queue_args().unwrap();
        assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EIO));
    }
    drop(hit);
    Client::open(&gpu).check_queue_works();
    drop(bystander);
    assert_eq!((gpu.pinned_ranges(), Client::open(&gpu).check_queue_works()), (0, ()));
}

#[test]
fn a_device_that_cannot_be_reset_is_wedged_until_the_driver_is_loaded_again() {
    let (gpu, time) = gpu();
    let client = Client::open(&gpu);
    let queue = client.create_queue().unwrap();
    // A paused device does not come back from a reset either.
    gpu.device().pause();
    // Nothing is answered: each wait of the driver is over soon.
    let answers = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !answers.load(Ordering::Relaxed) {
                time.advance(TOO_LONG);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(client.destroy_queue(queue.args.queue_id), Err(Errno::ETIME));
        drop(client);
        let late = Client::open(&gpu);
        let mut args = late.queue_args().unwrap();
        assert_eq!(late.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EIO));
        drop(late);
        answers.store(true, Ordering::Relaxed);
    });
    gpu.device().resume();
    gpu.unload();
    gpu.load().unwrap();
    Client::open(&gpu).check_queue_works();
}

#[test]
fn partitions_are_as_they_were_after_a_reset() {
    let time = TimeSource::manual();
    let config = GpuConfig { chip: &gfx942::MODEL, xccs: 2, time: time.clone(), ..common::config() };
    let gpu = HostedGpu::new(config).unwrap();
    // The device alone would come back as one partition.
    gpu.card_write("current_compute_partition", "CPX").unwrap();
    let mut client = Client::open(&gpu);
    client.gpu_id = gpu.sysfs_read("nodes/2/gpu_id").unwrap().trim().parse().unwrap();
    client.acquire().unwrap();
    let queue = client.create_queue().unwrap();
    gpu.device().config_write(COMMAND, &2u16.to_le_bytes());
    assert_eq!(destroy_in_vain(&client, queue.args.queue_id, &time), Err(Errno::ETIME));
    assert_eq!(gpu.card_read("current_compute_partition").unwrap(), b"CPX\n");
    let second = client.gpu_id;
    drop(client);
    let mut client = Client::open(&gpu);
    client.gpu_id = second;
    client.acquire().unwrap();
    client.check_queue_works();
}
