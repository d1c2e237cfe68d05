//! Attacks of hostile clients; after each one the next client finds a working server.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use rustix::fs::OFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use super::*;

/// Time limit that only a hang exceeds.
const LONG: Duration = Duration::from_secs(60);
/// Limit of servers whose clients exceed it on purpose.
const SHORT: Duration = Duration::from_millis(100);

/// Opens the file of a region, as a client does that keeps it.
fn keep_file(client: &Client, region: u32) -> File {
    let file = client.region(region).unwrap().file_offset.as_ref().unwrap().file();
    // SAFETY: the region's file is open as long as the client.
    let fd = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
    fd.try_clone_to_owned().unwrap().into()
}

#[test]
fn memory_that_is_cut_short_costs_its_client_the_connection() {
    let bench = Bench::new();
    let mut client = bench.client();
    let fd = memory_file(0x8000);
    client.dma_map(0, 0x10_0000, 0x8000, fd.as_raw_fd()).unwrap();
    bench.memory.memory().write_obj(7u32, GuestAddress(0x10_4000)).unwrap();
    rustix::fs::ftruncate(&fd, 0).unwrap();
    // The device goes on as if the memory were there, and empty.
    let memory = bench.memory.memory();
    assert_eq!(memory.read_obj::<u32>(GuestAddress(0x10_4000)).unwrap(), 0);
    memory.write_obj(9u32, GuestAddress(0x10_7ffc)).unwrap();
    assert_eq!(memory.read_obj::<u32>(GuestAddress(0x10_7ffc)).unwrap(), 9);
    drop(memory);
    bench.wait_left(1);
    bench.check_alive();
}

#[test]
fn memory_that_cannot_be_sealed_serves_as_long_as_it_is_there() {
    let bench = Bench::new();
    let mut client = bench.client();
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(0x4000).unwrap();
    client.dma_map(0x1000, 0x2000, 0x2000, file.as_raw_fd()).unwrap();
    bench.memory.memory().write_slice(b"shm", GuestAddress(0x2000)).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0x1000).unwrap();
    assert_eq!(&bytes, b"shm");
    let sealed = memory_file(0x1000);
    rustix::fs::fcntl_add_seals(&sealed, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    client.dma_map(0, 0x8000, 0x1000, sealed.as_raw_fd()).unwrap();
    bench.memory.memory().write_slice(b"memfd", GuestAddress(0x8000)).unwrap();
}

#[test]
fn full_eventfd_whose_owner_makes_it_block_stops_no_interrupt() {
    let bench = Bench::new();
    let mut client = bench.client();
    let event = eventfd();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    client.set_irqs(MSIX, IRQ_EVENTFD, 0, 1, &[event.as_raw_fd()]).unwrap();
    // The client undoes all changes of the server to the description's flags, now and again and again.
    rustix::fs::fcntl_setfl(&event, OFlags::empty()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let flipping = std::thread::spawn({
        let (event, done) = (event.try_clone().unwrap(), done.clone());
        move || {
            while !done.load(Ordering::SeqCst) {
                rustix::fs::fcntl_setfl(&event, OFlags::NONBLOCK).unwrap();
                rustix::fs::fcntl_setfl(&event, OFlags::empty()).unwrap();
            }
        }
    });
    let (sender, receiver) = channel();
    let irqs = bench.irqs.clone();
    std::thread::spawn(move || {
        (0..2000).for_each(|_| irqs.raise(0));
        sender.send(irqs.raised()).unwrap();
    });
    let raised = receiver.recv_timeout(LONG);
    done.store(true, Ordering::SeqCst);
    flipping.join().unwrap();
    assert_eq!(raised, Ok(2000), "an interrupt waits for the client");
    drop(client);
    bench.check_alive();
}

#[test]
fn descriptor_that_is_no_eventfd_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    let (_reader, writer) = io::pipe().unwrap();
    // This client does not look at the errors of replies.
    let _ = client.set_irqs(MSIX, IRQ_EVENTFD, 0, 1, &[writer.as_raw_fd()]);
    assert_eq!(bench.stop.counters().errors.load(Ordering::SeqCst), 1);
    bench.irqs.raise(0);
    assert_eq!(bench.irqs.dropped(), 1);
}

#[test]
fn kept_descriptors_show_nothing_of_the_next_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gpu.sock");
    let mut server = serve_gpu(&path, small_gpu(), DoorbellMode::Polled).unwrap();
    let stop = server.stop_handle();
    let thread = std::thread::spawn(move || server.run());

    let first = Client::new(&path).unwrap();
    let kept = [keep_file(&first, 0), keep_file(&first, 2)];
    for file in &kept {
        assert!(rustix::fs::ftruncate(file, 0).is_err(), "the device's memory cannot be cut short");
    }
    first.shutdown().unwrap();
    drop(first);

    let mut second = Client::new(&path).unwrap();
    // Memory decoding on, as firmware leaves it.
    second.region_write(7, 4, &[6, 0]).unwrap();
    second.region_write(0, 0x1000, b"secret").unwrap();
    let own = [keep_file(&second, 0), keep_file(&second, 2)];
    let mut bytes = [0; 6];
    own[0].read_exact_at(&mut bytes, 0x1000).unwrap();
    assert_eq!(&bytes, b"secret", "the next client's own file is the device's memory");
    kept[0].read_exact_at(&mut bytes, 0x1000).unwrap();
    assert_eq!(bytes, [0; 6]);
    for (kept, own) in kept.iter().zip(&own) {
        kept.write_all_at(b"intruder", 0x2000).unwrap();
        let mut bytes = [1; 8];
        own.read_exact_at(&mut bytes, 0x2000).unwrap();
        assert_eq!(bytes, [0; 8]);
    }
    let mut discovery = [0; 4];
    own[0].read_exact_at(&mut discovery, (16 << 20) - (64 << 10)).unwrap();
    assert_ne!(discovery, [0; 4], "the discovery table is in the memory of the next client");
    stop.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn clients_that_stop_midway_lose_their_place() {
    let bench = Bench::with_timeout(SHORT);
    let read = message(2, command::REGION_READ, 0, &[0; 16]);
    let cases: [(&str, bool, &[u8]); 5] = [
        ("nothing at all", false, &[]),
        ("half a header", false, &read[..7]),
        ("no body", false, &message(1, command::VERSION, 0, &[0; 64])[..16]),
        ("half a header after the version", true, &read[..7]),
        ("half a body after the version", true, &read[..20]),
    ];
    for (name, greets, bytes) in cases {
        let mut stream = if greets { bench.raw() } else { UnixStream::connect(&bench.path).unwrap() };
        stream.write_all(bytes).unwrap();
        bench.check_alive();
        assert!(reply(&mut stream).is_none(), "{name}: the server has hung up");
    }
}

#[test]
fn client_that_drips_a_message_loses_its_place() {
    let bench = Bench::with_timeout(SHORT);
    let mut stream = bench.raw();
    let header = message(2, command::REGION_WRITE, 0, &vec![0; 1 << 20]);
    stream.write_all(&header[..16]).unwrap();
    let dripping = std::thread::spawn(move || {
        // The client always sends another byte, and never ends the message.
        while stream.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    bench.check_alive();
    dripping.join().unwrap();
}

#[test]
fn client_that_reads_no_replies_loses_its_place() {
    let bench = Bench::with_timeout(SHORT);
    let mut stream = bench.raw();
    let read = [0u64.to_le_bytes().as_slice(), &5u32.to_le_bytes(), &0x1000u32.to_le_bytes()].concat();
    let read = message(2, command::REGION_READ, 0, &read);
    let asking = std::thread::spawn(move || {
        while stream.write_all(&read).is_ok() {}
        stream
    });
    bench.check_alive();
    asking.join().unwrap();
}

#[test]
fn attached_client_may_be_silent_for_longer_than_any_limit() {
    let bench = Bench::with_timeout(SHORT);
    let mut stream = bench.raw();
    std::thread::sleep(SHORT * 5);
    stream.write_all(&message(2, command::DEVICE_GET_INFO, 0, &[0; 16])).unwrap();
    assert_eq!(reply(&mut stream).unwrap().0, 0);
    assert_eq!(bench.fake.left.load(Ordering::SeqCst), 0);
}

/// Sends a DMA_MAP of one page with its descriptor.
fn send_map(stream: &UnixStream, id: u16, offset: u64, start: u64, file: &OwnedFd) {
    let mut payload = [32u32.to_le_bytes(), 3u32.to_le_bytes()].concat();
    for field in [offset, start, 0x1000] {
        payload.extend_from_slice(&field.to_le_bytes());
    }
    let bytes = message(id, command::DMA_MAP, 0, &payload);
    let fds = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent =
        rustix::net::sendmsg(stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

#[test]
fn thousands_of_maps_are_answered_in_order_and_all_hold() {
    const COUNT: u16 = 4000;
    let bench = Bench::new();
    let mut stream = bench.raw();
    let file = memory_file(u64::from(COUNT) * 0x1000);
    let asking = std::thread::spawn({
        let stream = stream.try_clone().unwrap();
        let file = file.try_clone().unwrap();
        move || {
            for id in 0..COUNT {
                // Every other page, from the end to the beginning: no two of them adjoin.
                let offset = u64::from(COUNT - 1 - id) * 0x1000;
                send_map(&stream, id, offset, 0x1_0000_0000 + offset * 2, &file);
            }
        }
    });
    for id in 0..COUNT {
        let mut head = [0; 16];
        stream.read_exact(&mut head).unwrap();
        let words = (u16::from_le_bytes([head[0], head[1]]), head[8], head[12]);
        assert_eq!(words, (id, 1, 0), "reply {id} is in order and no error");
    }
    asking.join().unwrap();
    let memory = bench.memory.memory();
    for page in (0..u64::from(COUNT)).step_by(97) {
        memory.write_obj(page, GuestAddress(0x1_0000_0000 + page * 0x2000)).unwrap();
        let mut bytes = [0; 8];
        File::from(file.try_clone().unwrap()).read_exact_at(&mut bytes, page * 0x1000).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), page);
    }
    drop((memory, stream));
    bench.wait_left(1);
    bench.check_alive();
}
