//! Memory that processes share: two users of one GPU, and two processes with a GPU each.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and descriptors")]

mod client;
mod second;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, Buffer, Client, PAGE, RW};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_kfd_hosted::dmabuf::Descriptor;
use belfry_kfd_hosted::{Errno, HostedGpu, Node};
use second::{SOCKET, receive, second, send};
use zerocopy::IntoBytes as _;

/// Bytes that are shared: more than a page of the GPU's largest kind, so that parts of both kinds are mapped.
const SIZE: u64 = (2 << 20) + 3 * PAGE;
/// Offsets of signals in the memory: in its first and its last page.
const SIGNALS: [u64; 2] = [0, SIZE - PAGE];
/// Flags that go with a handle.
const TOLD: u32 = 0x1234_5678;
/// Times that each side decrements.
const TIMES: u64 = 50;
const KINDS: [AllocFlags; 2] = [AllocFlags::VRAM, AllocFlags::GTT];

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes signals without an event in memory that the processor reaches (`amd_signal_t`).
fn make_signals(buffer: &Buffer, value: u64) {
    for at in SIGNALS {
        buffer.quad(at).store(1, Ordering::Relaxed);
        buffer.quad(at + 8).store(value, Ordering::Release);
    }
}

fn values(buffer: &Buffer) -> [u64; 2] {
    SIGNALS.map(|at| buffer.quad(at + 8).load(Ordering::Acquire))
}

/// A second way of the processor's to shared memory.
fn mapped(fd: i32) -> Buffer {
    let descriptor = Descriptor::of(fd).unwrap();
    assert_eq!(descriptor.size(), SIZE);
    // SAFETY: no address is asked for.
    let va = unsafe { descriptor.map(None, SIZE as usize, libc::PROT_READ | libc::PROT_WRITE, 0) }.unwrap();
    Buffer { va: va as u64, size: SIZE, handle: 0 }
}

/// Bytes of a kind of a GPU's memory that were in use when this was made.
struct Used<'a> {
    client: &'a Client,
    kind: AllocFlags,
    before: u64,
}

impl<'a> Used<'a> {
    fn new(client: &'a Client, kind: AllocFlags) -> Self {
        Self { client, kind, before: Self::now(client, kind) }
    }

    fn now(client: &Client, kind: AllocFlags) -> u64 {
        // This is an ioctl, too: it makes the driver look for exports that are gone.
        let free = client.available();
        if kind == AllocFlags::VRAM {
            u64::MAX - free
        } else {
            client.process.gpu().system_memory_used() as u64
        }
    }

    /// Returns true if the shared memory counts as used, beside page tables and the like.
    fn is_held(&self) -> bool {
        Self::now(self.client, self.kind) >= self.before + SIZE
    }

    /// Waits until it does not: a process that another test is just starting has a copy of every descriptor for a moment.
    fn wait_until_it_is_not(&self) {
        let start = Instant::now();
        while self.is_held() {
            assert!(start.elapsed() < PATIENCE, "{:?}: held by nobody", self.kind);
            std::thread::yield_now();
        }
    }
}

fn gpu() -> Arc<HostedGpu> {
    let mut config = common::config();
    // Room for memory that is there twice.
    config.vram_size = 128 << 20;
    HostedGpu::new(config).unwrap()
}

#[test]
fn users_of_one_gpu_share_pages_until_the_last_of_them_is_done() {
    let gpu = gpu();
    for kind in KINDS {
        let observer = Client::open(&gpu);
        let used = Used::new(&observer, kind);
        let one = Client::open(&gpu);
        let buffer = one.alloc(SIZE, kind | RW).unwrap();
        let fd = one.export(buffer.handle, libc::O_CLOEXEC).unwrap();
        let two = Client::open(&gpu);
        let info = two.info(fd.as_raw_fd()).unwrap();
        assert_eq!((info.size, info.flags, info.gpu_id), (SIZE, kind.bits(), two.gpu_id));
        let theirs = two.import(fd.as_raw_fd()).unwrap();
        make_signals(&buffer, 2 * TIMES);
        std::thread::scope(|scope| {
            scope.spawn(|| one.decrement(buffer.va));
            scope.spawn(|| two.decrement(theirs.va));
        });
        assert_eq!(values(&buffer), [0, 0], "{kind:?}");
        let second = mapped(fd.as_raw_fd());
        second.quad(8).store(77, Ordering::Release);
        assert_eq!(buffer.quad(8).load(Ordering::Acquire), 77);
        // SAFETY: made above, and used no more.
        unsafe { libc::munmap(second.va as *mut _, SIZE as usize) };

        // The exporter ends. The importer still has the memory.
        drop(one);
        drop(fd);
        let again = two.export(theirs.handle, 0).unwrap();
        assert_eq!(mapped(again.as_raw_fd()).quad(8).load(Ordering::Acquire), 77);
        two.decrement(theirs.va);
        two.release(&theirs);
        drop(again);
        drop(two);
        // The map of the second descriptor was left: it holds the memory as well.
        assert!(used.is_held(), "{kind:?}");
    }
}

#[test]
fn memory_comes_back_when_its_last_reference_goes() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for kind in KINDS {
        let used = Used::new(&client, kind);
        let buffer = client.alloc(SIZE, kind | RW).unwrap();
        // Each descriptor holds the memory: a copy of it, and one in a message that was not read.
        let fd = client.export(buffer.handle, libc::O_CLOEXEC).unwrap();
        let copy = fd.try_clone().unwrap();
        drop(fd);
        client.release(&buffer);
        // SAFETY: the map that `alloc` has made, used no more.
        unsafe { client.process.munmap(buffer.va as *mut u8, SIZE as usize) }.unwrap();
        assert!(used.is_held(), "{kind:?}: by the copy");
        let (one, two) = UnixStream::pair().unwrap();
        send(&one, b'm', Some(&copy));
        drop((one, copy));
        assert!(used.is_held(), "{kind:?}: by the message");
        let received = receive(&two).and_then(|(_, fd)| fd).unwrap();
        let imported = client.import(received.as_raw_fd()).unwrap();
        drop(received);
        assert!(used.is_held(), "{kind:?}: by the buffer object");
        let second = mapped(client.export(imported.handle, libc::O_CLOEXEC).unwrap().as_raw_fd());
        client.release(&imported);
        second.quad(0).store(1, Ordering::Relaxed);
        assert!(used.is_held(), "{kind:?}: by the map");
        // SAFETY: made above, and used no more.
        unsafe { libc::munmap(second.va as *mut _, SIZE as usize) };
        used.wait_until_it_is_not();
    }
}

/// A place for records is used anew while another thread looks for exports that are gone, and while processes start
/// that have copies of all descriptors.
#[test]
fn memory_is_exported_while_other_memory_comes_back_and_processes_start() {
    let gpu = gpu();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let exporters = [0, 1].map(|_| {
            scope.spawn(|| {
                let client = Client::open(&gpu);
                for round in 0..300 {
                    let buffer = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
                    let fd = client.export(buffer.handle, libc::O_CLOEXEC);
                    assert_eq!(fd.map(|_| ()), Ok(()), "round {round}");
                    client.release(&buffer);
                    // SAFETY: the map that `alloc` has made, used no more.
                    unsafe { client.process.munmap(buffer.va as *mut u8, PAGE as usize) }.unwrap();
                }
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(std::process::Command::new("/bin/true").status().unwrap().success());
            }
        });
        let ended = exporters.map(|exporter| exporter.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn descriptors_close_on_exec_when_asked_to_and_are_the_programs_own() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let buffer = client.alloc(SIZE, AllocFlags::VRAM | RW).unwrap();
    for (flags, expected) in
        [(0, 0), (libc::O_CLOEXEC, libc::FD_CLOEXEC), (libc::O_RDWR, 0), (!libc::O_CLOEXEC, 0)]
    {
        let fd = client.export(buffer.handle, flags).unwrap();
        // SAFETY: asks for a flag of the descriptor.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) }, expected, "{flags:#x}");
    }
}

/// The number of a descriptor that was open and is not any more.
///
/// The number is far above those of files that other tests open meanwhile: the lowest free number would be
/// taken at once.
fn closed() -> i32 {
    let null = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: copies the descriptor opened above.
    let copy = unsafe { libc::fcntl(null.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 900) };
    assert!(copy >= 900, "{}", std::io::Error::last_os_error());
    // SAFETY: `copy` was made above and is open, and nothing else in this process closes it.
    drop(unsafe { OwnedFd::from_raw_fd(copy) });
    copy
}

#[test]
fn what_leads_to_no_shared_memory_is_refused() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let open = |path| OwnedFd::from(std::fs::File::options().read(true).open(path).unwrap());
    let memfd = |name: &std::ffi::CStr, flags| {
        // SAFETY: the name is a C string, and the descriptor new.
        let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(name.as_ptr(), flags)) };
        file.set_len(1 << 20).unwrap();
        file
    };
    // What has the right name and no record, or a record and no promise that its pages stay.
    let named = memfd(c"belfry-memory", libc::MFD_ALLOW_SEALING);
    // SAFETY: changes the file made above.
    let sealed = unsafe {
        libc::fcntl(
            named.as_raw_fd(),
            libc::F_ADD_SEALS,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
        )
    };
    assert_eq!(sealed, 0);
    let unsealed = memfd(c"belfry-memory", libc::MFD_ALLOW_SEALING);
    let (socket, _other) = UnixStream::pair().unwrap();
    for fd in [-1, i32::MAX, closed()] {
        assert_eq!(client.info(fd).err(), Some(Errno::EBADF), "{fd}");
        assert_eq!(client.import(fd).err(), Some(Errno::EBADF), "{fd}");
    }
    let others: [OwnedFd; 6] = [
        open("/dev/null"),
        open("/proc/self/exe"),
        memfd(c"other", 0).into(),
        named.into(),
        unsealed.into(),
        socket.into(),
    ];
    for fd in others {
        let what = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        assert_eq!(client.info(fd.as_raw_fd()).err(), Some(Errno::EINVAL), "{}", what.display());
        assert_eq!(client.import(fd.as_raw_fd()).err(), Some(Errno::EINVAL), "{}", what.display());
    }
    client.check_queue_works();
}

// ---- two processes ----

/// Runs the second process of a test; does nothing in any other process.
#[test]
fn second_process() {
    let Ok(variable) = std::env::var(SOCKET) else { return };
    let words: Vec<&str> = variable.split(' ').collect();
    // SAFETY: the process that has started this one has left the socket open for it.
    let mut socket = unsafe { UnixStream::from_raw_fd(words[0].parse().unwrap()) };
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let kind = AllocFlags::from_bits_retain(words[1].parse().unwrap());
    let gpu = gpu();
    let client = Client::open(&gpu);
    match words[2] {
        // Decrements the signals of the memory that it is given, and keeps the memory until it is told to end.
        "import" => {
            let (_, fd) = receive(&socket).unwrap();
            let fd = fd.unwrap();
            let info = client.info(fd.as_raw_fd()).unwrap();
            assert_eq!((info.size, info.flags, info.gpu_id), (SIZE, kind.bits(), client.gpu_id));
            let before = client.available();
            let buffer = client.import(fd.as_raw_fd()).unwrap();
            drop(fd);
            client.decrement(buffer.va);
            // It is given on, too: the first process gets a descriptor of its own memory back.
            let again = client.export(buffer.handle, libc::O_CLOEXEC).unwrap();
            send(&socket, b'd', Some(&again));
            drop(again);
            assert!(client.available() + SIZE > before, "it is not memory of this GPU");
            if receive(&socket).is_some_and(|(byte, _)| byte == b'f') {
                client.release(&buffer);
                send(&socket, b'f', None);
                let _ = socket.read(&mut [0]);
            }
        }
        // Exports and ends.
        "export" => {
            let buffer = client.alloc(SIZE, kind | RW).unwrap();
            make_signals(&buffer, 2 * TIMES);
            client.decrement(buffer.va);
            send(&socket, b'e', Some(&client.export(buffer.handle, libc::O_CLOEXEC).unwrap()));
        }
        // Makes a handle, and frees the memory when it is told to.
        "share" => {
            let client = Client::of_program(&gpu);
            let used = Used::new(&client, kind);
            let buffer = client.alloc(SIZE, kind | RW).unwrap();
            make_signals(&buffer, 2 * TIMES);
            let words = client.share(buffer.handle).unwrap();
            assert_eq!(client.share(buffer.handle), Ok(words), "the handle of the same memory is the same");
            socket.write_all(words.as_bytes()).unwrap();
            client.decrement(buffer.va);
            assert_eq!(receive(&socket).unwrap().0, b'a');
            client.release(&buffer);
            // SAFETY: the map that `alloc` has made, used no more.
            unsafe { client.process.munmap(buffer.va as *mut u8, SIZE as usize) }.unwrap();
            assert!(used.is_held(), "the other process has it");
            send(&socket, b'f', None);
            assert_eq!(receive(&socket).unwrap().0, b'g');
            used.wait_until_it_is_not();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn processes_with_a_gpu_each_share_pages_and_atomics() {
    for kind in KINDS {
        let gpu = gpu();
        let client = Client::open(&gpu);
        let used = Used::new(&client, kind);
        let (mut child, socket) = second(kind, "import");
        let buffer = client.alloc(SIZE, kind | RW).unwrap();
        make_signals(&buffer, 3 * TIMES);
        send(&socket, b'i', Some(&client.export(buffer.handle, libc::O_CLOEXEC).unwrap()));
        // Both GPUs and the processor at once.
        for _ in 0..TIMES {
            for at in SIGNALS {
                buffer.quad(at + 8).fetch_sub(1, Ordering::AcqRel);
            }
        }
        client.decrement(buffer.va);
        let (_, back) = receive(&socket).expect("the other process has ended");
        assert_eq!(values(&buffer), [0, 0], "{kind:?}");
        // What comes back is this process's own memory, and no second copy of it.
        let own = client.import(back.as_ref().unwrap().as_raw_fd()).unwrap();
        make_signals(&buffer, TIMES);
        client.decrement(own.va);
        assert_eq!(values(&buffer), [0, 0], "{kind:?}");
        client.release(&own);
        drop(back);
        client.release(&buffer);
        // SAFETY: the map that `alloc` has made, used no more.
        unsafe { client.process.munmap(buffer.va as *mut u8, SIZE as usize) }.unwrap();
        assert!(used.is_held(), "{kind:?}: the other process has it");
        send(&socket, b'f', None);
        receive(&socket).expect("the other process has ended");
        used.wait_until_it_is_not();
        drop(socket);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn importer_that_is_killed_gives_the_memory_back() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let used = Used::new(&client, AllocFlags::VRAM);
    let (mut child, socket) = second(AllocFlags::VRAM, "import");
    let buffer = client.alloc(SIZE, AllocFlags::VRAM | RW).unwrap();
    make_signals(&buffer, TIMES);
    send(&socket, b'i', Some(&client.export(buffer.handle, libc::O_CLOEXEC).unwrap()));
    drop(receive(&socket).expect("the other process has ended"));
    client.release(&buffer);
    // SAFETY: the map that `alloc` has made, used no more.
    unsafe { client.process.munmap(buffer.va as *mut u8, SIZE as usize) }.unwrap();
    assert!(used.is_held());
    child.kill().unwrap();
    child.wait().unwrap();
    used.wait_until_it_is_not();
}

#[test]
fn memory_outlives_the_process_that_exported_it() {
    for kind in KINDS {
        let (mut child, socket) = second(kind, "export");
        let (_, fd) = receive(&socket).expect("the other process has ended");
        let fd = fd.unwrap();
        assert!(child.wait().unwrap().success());
        let gpu = gpu();
        let client = Client::open(&gpu);
        let buffer = client.import(fd.as_raw_fd()).unwrap();
        let seen = mapped(fd.as_raw_fd());
        drop(fd);
        assert_eq!(values(&seen), [TIMES, TIMES], "{kind:?}");
        client.decrement(buffer.va);
        assert_eq!(values(&seen), [0, 0], "{kind:?}");
    }
}

#[test]
fn processes_attach_memory_by_handles_while_its_buffer_object_is_there() {
    for kind in KINDS {
        let (mut child, socket) = second(kind, "share");
        let mut words = [0u32; 4];
        (&socket).read_exact(words.as_mut_bytes()).unwrap();
        let gpu = gpu();
        let client = Client::of_program(&gpu);
        let buffer = client.attach(words).unwrap();
        client.decrement(buffer.va);
        let deadline = Instant::now() + PATIENCE;
        while values(&buffer) != [0, 0] {
            assert!(Instant::now() < deadline, "{kind:?}: {:?}", values(&buffer));
            std::thread::yield_now();
        }
        let second = client.attach(words).unwrap();
        second.quad(8).store(5, Ordering::Release);
        assert_eq!(buffer.quad(8).load(Ordering::Acquire), 5);
        let unmap = |buffer: &Buffer| {
            client.release(buffer);
            // SAFETY: the map that `attach` has made, used no more.
            unsafe { client.process.munmap(buffer.va as *mut u8, SIZE as usize) }.unwrap();
        };
        unmap(&second);
        // The exporter frees it: memory that is attached stays, and the handle leads nowhere.
        send(&socket, b'a', None);
        assert_eq!(receive(&socket).expect("the other process has ended").0, b'f');
        assert_eq!(client.attach(words).err(), Some(Errno::EINVAL), "{kind:?}");
        assert_eq!(buffer.quad(8).load(Ordering::Acquire), 5);
        client.decrement(buffer.va);
        unmap(&buffer);
        send(&socket, b'g', None);
        assert!(child.wait().unwrap().success());
        assert_eq!(client.attach(words).err(), Some(Errno::EINVAL), "{kind:?}: its process has ended");
    }
}

#[test]
fn handles_are_checked_and_not_there_for_those_without_descriptors() {
    let gpu = gpu();
    let client = Client::of_program(&gpu);
    let buffer = client.alloc(SIZE, AllocFlags::VRAM | RW).unwrap();
    let words = client.share(buffer.handle).unwrap();
    let [process, task, number, page] = words;
    // Files that handles might lead to, in this very process: one that is no memory, one that is no GPU's.
    let null = std::fs::File::open("/dev/null").unwrap();
    let own =
        |file: &std::fs::File| [process, process, (file.as_raw_fd() as u32) << 16 | number & 0xffff, page];
    for (what, wrong) in [
        ("zeros", [0; 4]),
        ("ones", [u32::MAX; 4]),
        ("another process", [1, 1, number, page]),
        ("another thread", [process, process, number, page]),
        ("another number", [process, task, number ^ 1 << 20, page]),
        ("another key", [process, task, number ^ 1, page]),
        ("another record", [process, task, number, page + 1]),
        ("a device", own(&null)),
    ] {
        assert_eq!(client.attach(wrong).err(), Some(Errno::EINVAL), "{what}");
    }
    assert_eq!(client.share(buffer.handle + 1), Err(Errno::EINVAL));
    assert_eq!(client.share(client.user(PAGE).unwrap().handle), Err(Errno::EPERM));
    for (command, size) in [(nr::IPC_EXPORT_HANDLE, 32), (nr::IPC_IMPORT_HANDLE, 48)] {
        let mut bytes = [0u8; 64];
        assert_eq!(client.ioctl(command, &mut bytes), Err(Errno::EINVAL), "no GPU");
        assert_eq!(client.ioctl(command ^ (size ^ 8) << 16, &mut bytes), Err(Errno::EINVAL), "another size");
        let bad = client.process.ioctl(Node::Kfd, command, 8 as *mut std::ffi::c_void);
        assert_eq!(bad, Err(Errno::EFAULT));
        assert_eq!(Client::open(&gpu).ioctl(command, &mut bytes), Err(Errno::ENOTTY), "as Linux answers");
    }
    // By its own handle, a process has its own memory.
    make_signals(&buffer, TIMES);
    let own = client.attach(words).unwrap();
    client.decrement(own.va);
    assert_eq!(values(&buffer), [0, 0]);
    assert_eq!(values(&own), [0, 0]);
}
