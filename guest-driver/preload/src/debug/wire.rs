//! Messages between debuggers and companions: a call of `DBG_TRAP`, and its answer.
//!
//! | bytes | request | answer |
//! | --- | --- | --- |
//! | 0..4 | [`MAGIC`] | [`MAGIC`] |
//! | 4..8 | 0 | what the call answers: 0 or above, or an errno with a minus |
//! | 8..12 | length of what follows | the same |
//! | 12..44 | `struct kfd_ioctl_dbg_trap_args` | the same, afterwards |
//! | 44.. | the memory that its pointer leads to, where it is read | the same, where it is written |
//!
//! An answer to nothing refuses all calls; its operation is none.
//!
//! With [`DbgTrapOp::Enable`], the descriptor for notices comes with the first byte.
#![expect(unsafe_code, reason = "sends and receives descriptors")]

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use belfry_abi::kfd::debug::{DbgTrapArgs, DbgTrapOp};
use belfry_abi::kfd::queue::KFD_MAX_NUM_OF_QUEUES_PER_PROCESS;
use zerocopy::{FromBytes as _, IntoBytes as _};

const MAGIC: u32 = u32::from_le_bytes(*b"BDT1");
const HEADER: usize = 44;
/// Most entries of a snapshot, and most bytes of one.
const ENTRIES: u32 = KFD_MAX_NUM_OF_QUEUES_PER_PROCESS + 1;
const ENTRY: u32 = 128;
/// Most bytes of anything else that a call answers with.
const INFO: u32 = 256;
/// Most bytes that follow.
const MOST: usize = (ENTRIES * ENTRY) as usize;

/// The memory of the caller that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Index of the first of the two words of the arguments that are its address.
    word: usize,
    /// Bytes of it.
    pub(super) len: usize,
    /// The operation reads it.
    pub(super) is_read: bool,
}

impl Memory {
    /// Memory that a call uses; its sizes are [`cut`].
    pub(super) fn of(args: &DbgTrapArgs) -> Option<Self> {
        let words = &args.args;
        let ids = |count: u32| count.min(KFD_MAX_NUM_OF_QUEUES_PER_PROCESS) as usize * 4;
        let (word, len, is_read) = match DbgTrapOp::of(args.op)? {
            DbgTrapOp::Enable => (2, words[4].min(INFO) as usize, false),
            DbgTrapOp::SuspendQueues => (2, ids(words[4]), true),
            DbgTrapOp::ResumeQueues => (0, ids(words[2]), true),
            DbgTrapOp::QueryExceptionInfo => (0, words[2].min(INFO) as usize, false),
            DbgTrapOp::GetQueueSnapshot | DbgTrapOp::GetDeviceSnapshot => {
                (2, words[4].min(ENTRIES) as usize * words[5].min(ENTRY) as usize, false)
            }
            _ => return None,
        };
        let memory = Self { word, len, is_read };
        (memory.address(args) != 0).then_some(memory)
    }

    pub(super) fn address(&self, args: &DbgTrapArgs) -> u64 {
        u64::from(args.args[self.word]) | u64::from(args.args[self.word + 1]) << 32
    }

    pub(super) fn set_address(&self, args: &mut DbgTrapArgs, address: u64) {
        (args.args[self.word], args.args[self.word + 1]) = (address as u32, (address >> 32) as u32);
    }
}

/// Returns true if a call is for a snapshot.
pub(super) fn is_snapshot(args: &DbgTrapArgs) -> bool {
    matches!(DbgTrapOp::of(args.op), Some(DbgTrapOp::GetQueueSnapshot | DbgTrapOp::GetDeviceSnapshot))
}

/// Cuts the sizes in a call down to the largest possible ones.
pub(super) fn cut(args: &mut DbgTrapArgs) {
    let words = &mut args.args;
    match DbgTrapOp::of(args.op) {
        Some(DbgTrapOp::Enable) => words[4] = words[4].min(INFO),
        Some(DbgTrapOp::QueryExceptionInfo) => words[2] = words[2].min(INFO),
        Some(DbgTrapOp::GetQueueSnapshot | DbgTrapOp::GetDeviceSnapshot) => {
            (words[4], words[5]) = (words[4].min(ENTRIES), words[5].min(ENTRY));
        }
        _ => {}
    }
}

/// A request or an answer.
pub(super) struct Message {
    /// Of an answer.
    pub(super) result: i32,
    pub(super) args: DbgTrapArgs,
    pub(super) memory: Vec<u8>,
    /// Of a request.
    pub(super) file: Option<OwnedFd>,
}

/// Sends one, with a copy of a descriptor.
pub(super) fn send(socket: &UnixStream, message: &Message, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER + message.memory.len());
    for word in [MAGIC, message.result as u32, message.memory.len() as u32] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(message.args.as_bytes());
    bytes.extend_from_slice(&message.memory);
    let mut sent = 0;
    let mut file = file;
    while sent < bytes.len() {
        sent += uninterrupted(|| send_some(socket, &bytes[sent..], file))?;
        file = None;
    }
    Ok(())
}

/// Does it again when a signal of the program's has interrupted it: on a socket with a time limit, no flag of a handler
/// prevents that (signal(7)).
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Room for one descriptor (`CMSG_SPACE`).
#[repr(C, align(8))]
struct Control([u8; 64]);

fn send_some(socket: &UnixStream, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the structures are this function's own, with lengths that are theirs; the kernel reads them alone.
    let count = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(file) = file {
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn receive_some(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: as above; a descriptor that comes is this function's alone. There is room for one: the kernel
    // closes others.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_file = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len == libc::CMSG_LEN(4) as usize;
        let file =
            is_file.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()));
        Ok((count, file))
    }
}

/// Receives one.
pub(super) fn receive(socket: &UnixStream) -> io::Result<Message> {
    let mut header = [0; HEADER];
    let (count, file) = uninterrupted(|| receive_some(socket, &mut header))?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut socket = socket;
    socket.read_exact(&mut header[count..])?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let len = word(8) as usize;
    let args = DbgTrapArgs::read_from_bytes(&header[12..]).map_err(|_| io::ErrorKind::InvalidData)?;
    if word(0) != MAGIC || len > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut memory = vec![0; len];
    socket.read_exact(&mut memory)?;
    Ok(Message { result: word(4) as i32, args, memory, file })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::thread::JoinHandleExt as _;
    use std::time::Duration;

    use super::*;

    fn message(op: DbgTrapOp, args: [u32; 6]) -> Message {
        Message {
            result: -3,
            args: DbgTrapArgs { pid: 7, op: op as u32, args },
            memory: vec![1, 2, 3],
            file: None,
        }
    }

    #[test]
    fn messages_arrive_with_their_memory_and_descriptor() {
        let (one, other) = UnixStream::pair().unwrap();
        let sent = message(DbgTrapOp::Enable, [1, 2, 3, 4, 5, 6]);
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        send(&one, &sent, Some(file.as_fd())).unwrap();
        send(&one, &sent, None).unwrap();
        let got = receive(&other).unwrap();
        assert_eq!((got.result, got.args.args, got.memory), (-3, [1, 2, 3, 4, 5, 6], vec![1, 2, 3]));
        let got_file = std::fs::File::from(got.file.expect("no descriptor has come"));
        assert_eq!(got_file.metadata().unwrap().len(), file.metadata().unwrap().len());
        assert!(receive(&other).unwrap().file.is_none());
        drop(one);
        assert!(receive(&other).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (at, byte) in [(0, 0), (11, 0xff)] {
            let (one, other) = UnixStream::pair().unwrap();
            let mut bytes = [0; HEADER];
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[at] = byte;
            (&one).write_all(&bytes).unwrap();
            assert_eq!(receive(&other).err().unwrap().kind(), io::ErrorKind::InvalidData, "{at}");
        }
    }

    #[test]
    fn memory_of_a_call_is_no_more_than_there_can_be() {
        let mut args = message(DbgTrapOp::GetQueueSnapshot, [0, 0, 8, 1, u32::MAX, u32::MAX]).args;
        cut(&mut args);
        let memory = Memory::of(&args).unwrap();
        assert_eq!((memory.len, memory.is_read), (MOST, false));
        assert_eq!(memory.address(&args), 1 << 32 | 8);
        memory.set_address(&mut args, 5);
        assert_eq!(args.args[2..4], [5, 0]);
        let ids = message(DbgTrapOp::ResumeQueues, [8, 0, u32::MAX, 0, 0, 0]).args;
        assert_eq!(Memory::of(&ids).unwrap(), Memory { word: 0, len: 127 * 4, is_read: true });
        assert_eq!(Memory::of(&message(DbgTrapOp::ResumeQueues, [0; 6]).args), None);
        assert_eq!(Memory::of(&message(DbgTrapOp::SetFlags, [1; 6]).args), None);
    }

    extern "C" fn nothing(_: libc::c_int) {}

    #[test]
    #[expect(unsafe_code, reason = "sends a signal to a thread")]
    fn signals_of_the_program_interrupt_nothing() {
        // SAFETY: all zeros are an action; the handler does nothing, and no other test uses the signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let (one, other) = UnixStream::pair().unwrap();
        other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let receiver = std::thread::spawn(move || receive(&other).map(|message| message.result));
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(receiver.as_pthread_t(), libc::SIGUSR2) };
        }
        send(&one, &message(DbgTrapOp::Enable, [0; 6]), None).unwrap();
        assert_eq!(receiver.join().unwrap().unwrap(), -3);
    }
}
