//! Events on the bench.

use alloc::string::String;
use alloc::vec;

use super::*;
use crate::lifetime;
use crate::testing::{Bench, lock};

const ALL: u64 = u64::MAX;

fn open(bench: &Bench, mask: u64) -> usize {
    let fd = bench.device.smi.open(1, 0).unwrap();
    let index = fd as usize - 1;
    assert_eq!(lock(&bench.os().smi)[index].write(&mask.to_le_bytes()), Ok(8));
    index
}

fn read(bench: &Bench, client: usize, room: usize) -> Result<String> {
    let mut bytes = vec![0; room];
    let len = lock(&bench.os().smi)[client].read(&mut bytes)?;
    bytes.truncate(len);
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn fault_of_a_process_is_a_line_for_those_who_chose_faults() {
    let bench = Bench::new();
    let process = bench.process(1);
    let faults = open(&bench, EventKind::VmFault.mask());
    let resets = open(&bench, EventKind::GpuPreReset.mask() | EventKind::GpuPostReset.mask());
    let nothing = bench.device.smi.open(1, 0).unwrap() as usize - 1;
    bench.raise_fault(&process);
    assert!(!bench.gpu.interrupt());
    assert_eq!(read(&bench, faults, 96), Err(Errno::EAGAIN), "the interrupt thread raises no event");
    bench.os().run_work();
    assert!(lock(&bench.os().smi)[faults].ready());
    assert_eq!(read(&bench, faults, 96).unwrap(), "1 1f3:a program\n");
    assert!(!lock(&bench.os().smi)[faults].ready());
    for client in [faults, resets, nothing] {
        assert_eq!(read(&bench, client, 96), Err(Errno::EAGAIN));
    }
    assert_eq!(bench.os().woken.load(Ordering::Relaxed), 1);
}

#[test]
fn processes_begin_with_their_address_space_and_end_once() {
    let bench = Bench::new();
    let client = open(&bench, EventKind::ProcessStart.mask() | EventKind::ProcessEnd.mask());
    let process = bench.process(1);
    assert_eq!(read(&bench, client, 96).unwrap(), "c 1f3 a program\n");
    lifetime::tear_down(&bench.processes, &process);
    lifetime::tear_down(&bench.processes, &process);
    assert_eq!(read(&bench, client, 96).unwrap(), "d 1f3 a program\n");
    assert_eq!(read(&bench, client, 96), Err(Errno::EAGAIN));
    // A process that has no address space is none that clients hear of.
    let other = bench.kfd.open(crate::os::ProcessKey(2)).unwrap();
    bench.raise_fault(&other);
    let _ = bench.gpu.interrupt();
    bench.os().run_work();
    lifetime::tear_down(&bench.processes, &other);
    assert_eq!(read(&bench, client, 96), Err(Errno::EAGAIN));
}

#[test]
fn resets_are_numbered() {
    let bench = Bench::new();
    let client = open(&bench, ALL);
    for _ in 0..2 {
        bench.device.smi.pre_reset();
        bench.device.smi.post_reset();
    }
    assert_eq!(read(&bench, client, 96).unwrap(), "3 1 MES hang\n4 1 MES hang\n3 2 MES hang\n4 2 MES hang\n");
}

#[test]
fn lines_that_do_not_fit_are_dropped_whole() {
    let bench = Bench::new();
    let client = open(&bench, ALL);
    let line = "1 1f3:a program\n";
    for _ in 0..200 {
        bench.device.smi.fault(&bench.os().task());
    }
    // A short line still fits behind the last long one that did.
    let full = read(&bench, client, 4096).unwrap();
    assert_eq!(full, line.repeat(FIFO_SIZE / line.len()));
    bench.device.smi.fault(&bench.os().task());
    assert_eq!(read(&bench, client, 7).unwrap(), "1 1f3:a", "a reader takes what it has room for");
    assert_eq!(read(&bench, client, 4096).unwrap(), " program\n");
    assert_eq!(read(&bench, client, 4096), Err(Errno::EAGAIN));
}

#[test]
fn masks_are_taken_as_linux_takes_them() {
    let bench = Bench::new();
    let client = bench.device.smi.open(1, 0).unwrap() as usize - 1;
    for (bytes, expected) in [
        (&[0u8; 0][..], Err(Errno::EFAULT)),
        (&[0xff; 1], Err(Errno::EFAULT)),
        (&[0xff; 7], Err(Errno::EFAULT)),
        (&[0xff; 8], Ok(8)),
        (&[0; 24], Ok(8)),
    ] {
        assert_eq!(lock(&bench.os().smi)[client].write(bytes), expected, "{} bytes", bytes.len());
    }
    // The last mask holds.
    bench.device.smi.pre_reset();
    assert_eq!(read(&bench, client, 96), Err(Errno::EAGAIN));
}

#[test]
fn closed_descriptors_are_forgotten() {
    let bench = Bench::new();
    for _ in 0..10 {
        open(&bench, ALL);
        lock(&bench.os().smi).clear();
    }
    assert_eq!(bench.device.smi.clients.lock().open.len(), 1);
    bench.device.smi.pre_reset();
    assert!(bench.device.smi.clients.lock().open.is_empty());
    assert_eq!(bench.os().woken.load(Ordering::Relaxed), 0);
}

#[test]
fn name_that_is_no_text_is_shown_as_far_as_it_is() {
    for (name, expected) in [
        (*b"0123456789abcdef", "0123456789abcdef"),
        (*b"ab\xffcd\0\0\0\0\0\0\0\0\0\0\0", "ab"),
        ([0; 16], ""),
    ] {
        assert_eq!(Task { id: 1, name }.name(), expected);
    }
}
