//! Frames between the host and the guest's init over virtio-serial.
//!
//! A frame is a kind (one byte), the payload's length (32 bits) and the payload; numbers are little-endian, strings and
//! byte strings carry a 32-bit length. Either side refuses frames longer than [`MAX_FRAME`].

pub mod module;
pub mod path;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

/// Name of the virtio-serial port.
pub const PORT: &str = "org.belfry.0";
/// Largest payload of a frame in bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// File contents travel in pieces of at most this many bytes.
pub const CHUNK: usize = 256 << 10;
/// Raised when the frames change, so that an old init is told from a new one.
pub const VERSION: u32 = 5;

/// Request of the host to the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Writes or extends a file; answered by [`Event::Done`] or [`Event::Failed`].
    PutFile {
        /// Absolute path; missing directories are made.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Appends instead of starting anew.
        append: bool,
        /// The (next) bytes.
        data: Vec<u8>,
    },
    /// Starts a program; [`Event::Output`] and [`Event::Exit`] report its life.
    Run {
        /// Chosen by the host, unique among the programs running.
        id: u32,
        /// Program path and arguments.
        argv: Vec<String>,
        /// Environment, `NAME=VALUE` each.
        env: Vec<String>,
        /// Working directory; made when missing.
        directory: String,
        /// Rows and columns of the console, if the program is to have it as its terminal; it then writes nothing that
        /// [`Event::Output`] would tell.
        terminal: Option<(u16, u16)>,
    },
    /// Sends a signal to a running program; answered by [`Event::Done`] or [`Event::Failed`].
    Kill {
        /// The program.
        id: u32,
        /// Signal number.
        signal: i32,
    },
    /// Reads a file; answered by [`Event::File`] pieces, the last one marked, or [`Event::Failed`].
    GetFile {
        /// Absolute path.
        path: String,
    },
    /// Loads the kernel modules in `names` (paths in the guest); answered by [`Event::Done`] or [`Event::Failed`].
    LoadModules {
        /// Absolute paths, in order.
        paths: Vec<String>,
    },
    /// Unloads a kernel module by name; answered by [`Event::Done`] or [`Event::Failed`].
    UnloadModule {
        /// Module name, as in `/proc/modules`.
        name: String,
    },
    /// Makes the ext4 file system of a disk the root of everything that follows, files and programs; answered by
    /// [`Event::Done`] or [`Event::Failed`].
    EnterRoot {
        /// The disk's serial number.
        serial: String,
    },
    /// Makes the root file system of the system on a disk the root, as [`Request::EnterRoot`] does with a whole disk: the
    /// one ext4 file system, of the disk or of a partition, that names an operating system; answered by [`Event::Done`] or
    /// [`Event::Failed`].
    EnterSystem {
        /// The disk's serial number.
        serial: String,
    },
    /// Mounts a folder of the host that the machine offers over 9p; answered by [`Event::Done`] or [`Event::Failed`].
    MountShare {
        /// The machine's name for it.
        tag: String,
        /// Absolute path; missing directories are made.
        path: String,
        /// True if programs may only read.
        read_only: bool,
    },
    /// Configures the network card and the resolver; answered by [`Event::Done`] or [`Event::Failed`].
    Network(Network),
    /// Records the driver's own events from now on, told by [`Event::DriverTrace`]; 0 ends that, when all of them are told. Answered
    /// by [`Event::Done`] or [`Event::Failed`].
    TraceDriver {
        /// The most events that wait in the driver.
        records: u32,
    },
    /// Reads the kernel's log; answered like [`Request::GetFile`].
    KernelLog,
    /// Ends the guest; nothing answers.
    PowerOff,
}

/// Addresses of the guest's network card and of the servers it can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The card's own.
    pub address: [u8; 4],
    /// The part of it that all addresses of its network share.
    pub mask: [u8; 4],
    /// The way to all other networks.
    pub gateway: [u8; 4],
    /// Server that resolves names.
    pub resolver: [u8; 4],
}

/// Event that the guest tells the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The first frame: init is up and listening.
    Hello {
        /// [`VERSION`] of the init.
        version: u32,
        /// Nanoseconds of guest time from power-on to the start of init.
        init_ns: u64,
        /// Kernel release.
        kernel: String,
    },
    /// A request was carried out.
    Done {
        /// Nanoseconds of guest time it took.
        elapsed_ns: u64,
    },
    /// A request failed.
    Failed {
        /// Description of the failure.
        text: String,
        /// The errno of the failure, or 0.
        errno: i32,
    },
    /// A program wrote something.
    Output {
        /// The program.
        id: u32,
        /// 1 for its standard output, 2 for its standard error.
        stream: u8,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A program ended, or could not be started.
    Exit {
        /// The program.
        id: u32,
        /// Exit status; 128 + the signal's number for a killed program; 127 when it could not be started.
        status: i32,
        /// Nanoseconds of guest time it ran.
        elapsed_ns: u64,
    },
    /// Events of the driver.
    DriverTrace {
        /// A chunk, as the driver's file gives it.
        data: Vec<u8>,
    },
    /// A piece of a file.
    File {
        /// True for the last piece.
        last: bool,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// Why a frame could not be read.
#[derive(Debug)]
pub enum ChannelError {
    /// The stream failed or ended within a frame.
    Io(io::Error),
    /// The frame is too long, of an unknown kind, or its payload does not parse.
    Malformed(&'static str),
}

impl std::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "guest channel: {error}"),
            Self::Malformed(what) => write!(f, "guest channel: malformed frame ({what})"),
        }
    }
}

impl std::error::Error for ChannelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Malformed(_) => None,
        }
    }
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A message that travels in one frame.
pub trait Frame: Sized {
    /// The kind and payload.
    fn encode(&self) -> (u8, Vec<u8>);
    /// Parses a payload.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Malformed`] for an unknown kind and for a payload that does not parse.
    fn decode(kind: u8, payload: &[u8]) -> Result<Self, ChannelError>;
}

/// Sends one frame, in a single write.
///
/// # Errors
///
/// A failed write, and a message that is too long for a frame.
pub fn send(stream: &mut impl Write, message: &impl Frame) -> io::Result<()> {
    let (kind, payload) = message.encode();
    if payload.len() > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "frame too long"));
    }
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.push(kind);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&payload);
    stream.write_all(&bytes)?;
    stream.flush()
}

/// Reads one frame, or `None` at the end of the stream.
///
/// # Errors
///
/// [`ChannelError::Io`] for a failed read and an end within a frame, [`ChannelError::Malformed`] for a frame
/// that does not parse.
pub fn receive<F: Frame>(stream: &mut impl Read) -> Result<Option<F>, ChannelError> {
    let mut head = [0; 5];
    let mut filled = 0;
    while filled < head.len() {
        match stream.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MAX_FRAME {
        return Err(ChannelError::Malformed("too long"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    F::decode(head[0], &payload).map(Some)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn bytes(self, value: &[u8]) -> Self {
        let mut this = self.u32(value.len() as u32);
        this.0.extend_from_slice(value);
        this
    }
    fn size(self, value: Option<(u16, u16)>) -> Self {
        let (rows, columns) = value.unwrap_or_default();
        self.u8(u8::from(value.is_some())).u32(u32::from(rows) << 16 | u32::from(columns))
    }
    fn strings(self, values: &[String]) -> Self {
        let count = self.u32(values.len() as u32);
        values.iter().fold(count, |writer, value| writer.bytes(value.as_bytes()))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ChannelError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(ChannelError::Malformed("short"))?;
        self.0 = rest;
        Ok(*head)
    }
    fn u8(&mut self) -> Result<u8, ChannelError> {
        self.array().map(|[byte]| byte)
    }
    fn u32(&mut self) -> Result<u32, ChannelError> {
        self.array().map(u32::from_le_bytes)
    }
    fn i32(&mut self) -> Result<i32, ChannelError> {
        self.array().map(i32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, ChannelError> {
        self.array().map(u64::from_le_bytes)
    }
    fn bytes(&mut self) -> Result<&'a [u8], ChannelError> {
        let length = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(length).ok_or(ChannelError::Malformed("short"))?;
        self.0 = rest;
        Ok(head)
    }
    fn string(&mut self) -> Result<String, ChannelError> {
        let bytes = self.bytes()?.to_vec();
        String::from_utf8(bytes).map_err(|_| ChannelError::Malformed("not UTF-8"))
    }
    fn size(&mut self) -> Result<Option<(u16, u16)>, ChannelError> {
        let (there, size) = (self.u8()? != 0, self.u32()?);
        Ok(there.then_some(((size >> 16) as u16, size as u16)))
    }
    fn strings(&mut self) -> Result<Vec<String>, ChannelError> {
        let count = self.u32()?;
        // Each string takes at least its length field, so a lying count ends with an error, not with memory.
        (0..count).map(|_| self.string()).collect()
    }
    fn end<T>(self, value: T) -> Result<T, ChannelError> {
        if self.0.is_empty() { Ok(value) } else { Err(ChannelError::Malformed("too much")) }
    }
}

impl Frame for Request {
    fn encode(&self) -> (u8, Vec<u8>) {
        let writer = Writer::default();
        match self {
            Self::PutFile { path, mode, append, data } => {
                (1, writer.bytes(path.as_bytes()).u32(*mode).u8(u8::from(*append)).bytes(data).0)
            }
            Self::Run { id, argv, env, directory, terminal } => {
                let writer = writer.u32(*id).strings(argv).strings(env);
                (2, writer.bytes(directory.as_bytes()).size(*terminal).0)
            }
            Self::Kill { id, signal } => (3, writer.u32(*id).u32(signal.cast_unsigned()).0),
            Self::GetFile { path } => (4, writer.bytes(path.as_bytes()).0),
            Self::LoadModules { paths } => (5, writer.strings(paths).0),
            Self::UnloadModule { name } => (6, writer.bytes(name.as_bytes()).0),
            Self::PowerOff => (7, writer.0),
            Self::KernelLog => (8, writer.0),
            Self::EnterRoot { serial } => (9, writer.bytes(serial.as_bytes()).0),
            Self::MountShare { tag, path, read_only } => {
                (10, writer.bytes(tag.as_bytes()).bytes(path.as_bytes()).u8(u8::from(*read_only)).0)
            }
            Self::Network(Network { address, mask, gateway, resolver }) => {
                let numbers = [address, mask, gateway, resolver].map(|number| u32::from_le_bytes(*number));
                (11, numbers.into_iter().fold(writer, Writer::u32).0)
            }
            Self::EnterSystem { serial } => (12, writer.bytes(serial.as_bytes()).0),
            Self::TraceDriver { records } => (13, writer.u32(*records).0),
        }
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Self, ChannelError> {
        let mut reader = Reader(payload);
        let message = match kind {
            1 => Self::PutFile {
                path: reader.string()?,
                mode: reader.u32()?,
                append: reader.u8()? != 0,
                data: reader.bytes()?.to_vec(),
            },
            2 => Self::Run {
                id: reader.u32()?,
                argv: reader.strings()?,
                env: reader.strings()?,
                directory: reader.string()?,
                terminal: reader.size()?,
            },
            3 => Self::Kill { id: reader.u32()?, signal: reader.i32()? },
            4 => Self::GetFile { path: reader.string()? },
            5 => Self::LoadModules { paths: reader.strings()? },
            6 => Self::UnloadModule { name: reader.string()? },
            7 => Self::PowerOff,
            8 => Self::KernelLog,
            9 => Self::EnterRoot { serial: reader.string()? },
            10 => Self::MountShare {
                tag: reader.string()?,
                path: reader.string()?,
                read_only: reader.u8()? != 0,
            },
            11 => Self::Network(Network {
                address: reader.array()?,
                mask: reader.array()?,
                gateway: reader.array()?,
                resolver: reader.array()?,
            }),
            12 => Self::EnterSystem { serial: reader.string()? },
            13 => Self::TraceDriver { records: reader.u32()? },
            _ => return Err(ChannelError::Malformed("unknown request")),
        };
        reader.end(message)
    }
}

impl Frame for Event {
    fn encode(&self) -> (u8, Vec<u8>) {
        let writer = Writer::default();
        match self {
            Self::Hello { version, init_ns, kernel } => {
                (65, writer.u32(*version).u64(*init_ns).bytes(kernel.as_bytes()).0)
            }
            Self::Done { elapsed_ns } => (66, writer.u64(*elapsed_ns).0),
            Self::Failed { text, errno } => (67, writer.bytes(text.as_bytes()).u32(errno.cast_unsigned()).0),
            Self::Output { id, stream, data } => (68, writer.u32(*id).u8(*stream).bytes(data).0),
            Self::Exit { id, status, elapsed_ns } => {
                (69, writer.u32(*id).u32(status.cast_unsigned()).u64(*elapsed_ns).0)
            }
            Self::File { last, data } => (70, writer.u8(u8::from(*last)).bytes(data).0),
            Self::DriverTrace { data } => (71, writer.bytes(data).0),
        }
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Self, ChannelError> {
        let mut reader = Reader(payload);
        let message = match kind {
            65 => Self::Hello { version: reader.u32()?, init_ns: reader.u64()?, kernel: reader.string()? },
            66 => Self::Done { elapsed_ns: reader.u64()? },
            67 => Self::Failed { text: reader.string()?, errno: reader.i32()? },
            68 => Self::Output { id: reader.u32()?, stream: reader.u8()?, data: reader.bytes()?.to_vec() },
            69 => Self::Exit { id: reader.u32()?, status: reader.i32()?, elapsed_ns: reader.u64()? },
            70 => Self::File { last: reader.u8()? != 0, data: reader.bytes()?.to_vec() },
            71 => Self::DriverTrace { data: reader.bytes()?.to_vec() },
            _ => return Err(ChannelError::Malformed("unknown event")),
        };
        reader.end(message)
    }
}
