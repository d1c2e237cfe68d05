//! Memory that processes share: two users of one GPU, and two processes with a GPU each.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and descriptors")]

mod common;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    AllocFlags, ExportDmabufArgs, GetAvailableMemoryArgs, GetDmabufInfoArgs, ImportDmabufArgs,
};
use belfry_kfd_hosted::dmabuf::Descriptor;
use belfry_kfd_hosted::{Errno, HostedGpu};
use common::{Buffer, Client, PAGE, RW, reserve};

/// Bytes that are shared: more than a page of the GPU's largest kind, so that parts of both kinds are mapped.
const SIZE: u64 = (2 << 20) + 3 * PAGE;
/// Where in it signals are: in its first and its last page.
const SIGNALS: [u64; 2] = [0, SIZE - PAGE];
/// Times that each side decrements.
const TIMES: u64 = 50;
const KINDS: [AllocFlags; 2] = [AllocFlags::VRAM, AllocFlags::GTT];

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    fn export(&self, handle: u64, flags: i32) -> Result<OwnedFd, Errno> {
        let mut args = ExportDmabufArgs { handle, flags: flags as u32, dmabuf_fd: 0 };
        self.ioctl(nr::EXPORT_DMABUF, &mut args)?;
        // SAFETY: the descriptor is new.
        Ok(unsafe { OwnedFd::from_raw_fd(args.dmabuf_fd as i32) })
    }

    fn info(&self, fd: i32) -> Result<GetDmabufInfoArgs, Errno> {
        let mut args = GetDmabufInfoArgs { dmabuf_fd: fd as u32, ..Default::default() };
        self.ioctl(nr::GET_DMABUF_INFO, &mut args).map(|_| args)
    }

    /// Imports at an address of its own; the processor reaches nothing there.
    fn import(&self, fd: i32) -> Result<Buffer, Errno> {
        let va = reserve(SIZE);
        let mut args =
            ImportDmabufArgs { va_addr: va, gpu_id: self.gpu_id, dmabuf_fd: fd as u32, ..Default::default() };
        self.ioctl(nr::IMPORT_DMABUF, &mut args)?;
        self.map(args.handle)?;
        Ok(Buffer { va, size: SIZE, handle: args.handle })
    }

    fn release(&self, buffer: &Buffer) {
        self.unmap(buffer.handle).unwrap();
        self.free(buffer.handle).unwrap();
    }

    fn available(&self) -> u64 {
        let mut args = GetAvailableMemoryArgs { gpu_id: self.gpu_id, ..Default::default() };
        self.ioctl(nr::AVAILABLE_MEMORY, &mut args).unwrap();
        args.available
    }

    /// Has the GPU decrement both signals at an address, so many times.
    fn decrement(&self, va: u64) {
        let mut queue = self.create_queue().unwrap();
        let deadline = Instant::now() + PATIENCE;
        for at in (0..TIMES).flat_map(|_| SIGNALS) {
            queue.barrier(&self.process, va + at);
            while queue.read_index() != queue.next {
                assert!(Instant::now() < deadline, "the queue stands still");
                std::thread::yield_now();
            }
        }
        self.destroy_queue(queue.args.queue_id).unwrap();
    }
}

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

/// How much of a GPU's memory of a kind was in use when this was made.
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
        // An ioctl, too: the driver looks what has gone.
        let free = client.available();
        if kind == AllocFlags::VRAM {
            u64::MAX - free
        } else {
            client.process.gpu().system_memory_used() as u64
        }
    }

    /// Whether the shared memory counts as used, beside page tables and the like.
    fn is_held(&self) -> bool {
        Self::now(self.client, self.kind) >= self.before + SIZE
    }
}

fn gpu() -> Arc<HostedGpu> {
    let mut config = common::config();
    // Room for what is there twice.
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

        // The exporter ends. The importer still has what was there.
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
        // Whoever has the descriptor holds the memory: a copy of it, and a message that nobody has read.
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
        assert!(!used.is_held(), "{kind:?}");
    }
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
    let closed = {
        let file = open("/dev/null");
        file.as_raw_fd()
    };
    let cases = [
        (-1, Errno::EBADF),
        (i32::MAX, Errno::EBADF),
        (closed, Errno::EBADF),
        (open("/dev/null").as_raw_fd(), Errno::EBADF),
    ];
    for (fd, errno) in cases {
        assert_eq!(client.info(fd).err(), Some(errno), "{fd}");
        assert_eq!(client.import(fd).err(), Some(errno), "{fd}");
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

/// Names the socket that a second process of a test talks to the first one by.
const SOCKET: &str = "BELFRY_TEST_SOCKET";

/// Starts this program once more, to do what [`second_process`] says; returns it and the socket to it.
fn second(kind: AllocFlags, what: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    // SAFETY: changes a flag of the socket made above.
    unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "second_process", "--nocapture", "--test-threads=1"])
        .env(SOCKET, format!("{} {} {what}", theirs.as_raw_fd(), kind.bits()))
        .spawn()
        .unwrap();
    (child, ours)
}

/// Sends a byte and, if there is one, a descriptor (`SCM_RIGHTS`, unix(7)).
fn send(socket: &UnixStream, byte: u8, fd: Option<&OwnedFd>) {
    let Some(fd) = fd else {
        (&*socket).write_all(&[byte]).unwrap();
        return;
    };
    let mut data = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: all pointers are to variables of this function, with the lengths said.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd.as_raw_fd());
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), 1);
    }
}

/// Receives a byte and perhaps a descriptor; `None` when the other side has ended.
fn receive(socket: &UnixStream) -> Option<(u8, Option<OwnedFd>)> {
    let mut byte = 0u8;
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: all pointers are to variables of this function, with the lengths said; a descriptor received is new.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        assert!(count >= 0, "{}", std::io::Error::last_os_error());
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let fd = (!header.is_null())
            .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()));
        (count == 1).then_some((byte, fd))
    }
}

/// What the second process of a test does; nothing when this is not one.
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
        // Decrements what it is given, and keeps it until it is told to end.
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
        assert!(!used.is_held(), "{kind:?}: the other process has freed it");
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
    assert!(!used.is_held());
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
