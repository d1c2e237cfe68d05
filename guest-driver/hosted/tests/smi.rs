//! Events for system management: a descriptor with a program's own reads, writes and polls.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and uses descriptors")]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use belfry_abi::kfd::ioctl::SMI_EVENTS;
use belfry_abi::kfd::smi::{EventKind, SmiEventsArgs};
use belfry_kfd_hosted::{Errno, Node};
use common::{Client, gpu};

fn open(client: &Client, gpuid: u32) -> Result<File, Errno> {
    let mut args = SmiEventsArgs { gpuid, anon_fd: 0 };
    client.process.ioctl(Node::Kfd, SMI_EVENTS, (&raw mut args).cast())?;
    // SAFETY: the descriptor was made for this call, and only this function has it.
    Ok(unsafe { File::from_raw_fd(args.anon_fd as i32) })
}

/// Returns true if a descriptor can be read now.
fn readable(file: &File) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which is this function's own.
    let count = unsafe { libc::poll(&raw mut poll, 1, 0) };
    assert!(count >= 0);
    poll.revents & libc::POLLIN != 0
}

fn lines(file: &mut File) -> Result<String, ErrorKind> {
    let mut text = [0; 4096];
    let len = file.read(&mut text).map_err(|error| error.kind())?;
    Ok(String::from_utf8_lossy(&text[..len]).into_owned())
}

/// The calling thread, as events name it.
fn task() -> String {
    // SAFETY: takes nothing.
    let id = unsafe { libc::gettid() };
    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    format!("{id:x} {}", name.trim_end())
}

#[test]
fn processes_are_seen_to_begin_and_to_end() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let mut all = open(&client, client.gpu_id).unwrap();
    let mut ends = open(&client, client.gpu_id).unwrap();
    assert_eq!(lines(&mut all), Err(ErrorKind::WouldBlock));
    // Nothing is chosen yet.
    drop(Client::open(&gpu));
    assert!(!readable(&all));
    all.write_all(&u64::MAX.to_le_bytes()).unwrap();
    let [first, rest @ ..] = EventKind::ProcessEnd.mask().to_le_bytes();
    ends.write_all(&[first]).unwrap();
    ends.write_all(&rest).unwrap();
    let other = Client::open(&gpu);
    assert!(readable(&all) && !readable(&ends));
    assert_eq!(lines(&mut all).unwrap(), format!("c {}\n", task()));
    drop(other);
    assert_eq!(lines(&mut all).unwrap(), format!("d {}\n", task()));
    assert_eq!(lines(&mut ends).unwrap(), format!("d {}\n", task()));
    assert_eq!(lines(&mut all), Err(ErrorKind::WouldBlock));
    client.check_queue_works();
}

#[test]
fn other_gpus_have_no_events_here_and_closed_descriptors_are_given_back() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for gpuid in [0, 1, client.gpu_id + 1, client.gpu_id | 0x1_0000, u32::MAX] {
        assert_eq!(open(&client, gpuid).err(), Some(Errno::EINVAL), "{gpuid:#x}");
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let first = open(&client, client.gpu_id).unwrap();
    let before = descriptors();
    for _ in 0..100 {
        let mut file = open(&client, client.gpu_id).unwrap();
        file.write_all(&u64::MAX.to_le_bytes()).unwrap();
        drop(file);
    }
    // The last descriptor's other end is there until the driver looks.
    drop(Client::open(&gpu));
    assert!(descriptors() <= before + 50, "{} descriptors, {before} before", descriptors());
    drop(first);
}
