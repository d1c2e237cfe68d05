//! The vfio-user wire format: headers, commands, payloads.
//!
//! Layouts are those of the vfio-user specification 0.1 (QEMU `docs/interop/vfio-user.rst`).

use std::os::fd::{BorrowedFd, OwnedFd};

/// Size of a message header in bytes.
pub const HEADER_SIZE: usize = 16;
/// Largest number of file descriptors in one message, in both directions; advertised as `max_msg_fds`.
pub const MAX_FDS: usize = 16;
/// Largest data of one region access in bytes; advertised as `max_data_xfer_size`.
pub const MAX_TRANSFER: usize = 1 << 20;
/// Largest accepted payload: a full transfer and room for its fields.
pub const MAX_PAYLOAD: usize = MAX_TRANSFER + 4096;

/// Command numbers (vfio-user specification, "Commands").
pub mod command {
    #![expect(missing_docs, reason = "the names are the specification's")]
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DMA_READ: u16 = 11;
    pub const DEVICE_RESET: u16 = 13;
    pub const REGION_WRITE_MULTI: u16 = 15;
    pub const DEVICE_FEATURE: u16 = 16;
}

const FLAG_TYPE_MASK: u32 = 0xf;
const FLAG_TYPE_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// A message header (specification, "Header").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender and echoed in the reply.
    pub id: u16,
    /// One of [`command`].
    pub command: u16,
    /// Bytes of the whole message, header included.
    pub size: u32,
    /// Type, no-reply and error bits.
    pub flags: u32,
    /// An errno when the error bit is set.
    pub error: u32,
}

impl Header {
    pub(super) fn parse(bytes: &[u8; HEADER_SIZE]) -> Self {
        let mut fields = Fields::new(bytes);
        // PANIC: the array holds the five fields exactly, so none of the defaults is ever taken.
        Self {
            id: fields.u16().unwrap_or(0),
            command: fields.u16().unwrap_or(0),
            size: fields.u32().unwrap_or(0),
            flags: fields.u32().unwrap_or(0),
            error: fields.u32().unwrap_or(0),
        }
    }

    /// Returns true if the sender wants no reply, not even to an error.
    #[must_use]
    pub fn no_reply(&self) -> bool {
        self.flags & FLAG_NO_REPLY != 0
    }

    /// Returns true if this is a command and not a reply.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.flags & FLAG_TYPE_MASK == 0
    }

    fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.error.to_le_bytes());
        bytes
    }
}

/// One message, read in full.
#[derive(Debug)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// Everything after the header.
    pub payload: Vec<u8>,
    /// File descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// Encodes a whole reply to `request`.
pub(super) fn encode(request: &Header, answer: Result<Reply<'_>, i32>) -> Vec<u8> {
    let (payload, errno) = match answer {
        Ok(reply) => (reply.payload, None),
        Err(errno) => (Vec::new(), Some(errno)),
    };
    let header = Header {
        id: request.id,
        command: request.command,
        size: (HEADER_SIZE + payload.len()) as u32,
        flags: FLAG_TYPE_REPLY | if errno.is_some() { FLAG_ERROR } else { 0 },
        error: errno.map_or(0, i32::cast_unsigned),
    };
    let mut bytes = Vec::with_capacity(HEADER_SIZE + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(&payload);
    bytes
}

/// The payload of a successful reply, with descriptors to pass along.
#[derive(Debug, Default)]
pub struct Reply<'fd> {
    /// Everything after the header.
    pub payload: Vec<u8>,
    /// File descriptors to send with it.
    pub fds: Vec<BorrowedFd<'fd>>,
}

impl From<Vec<u8>> for Reply<'_> {
    fn from(payload: Vec<u8>) -> Self {
        Self { payload, fds: Vec::new() }
    }
}

/// Reads little-endian fields off a payload; a short payload is `EINVAL`.
#[derive(Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Starts at the first byte of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next `count` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` when fewer bytes are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], i32> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(libc::EINVAL)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], i32> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(libc::EINVAL)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Returns the next 16-bit field.
    ///
    /// # Errors
    ///
    /// `EINVAL` when fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, i32> {
        self.array().map(u16::from_le_bytes)
    }

    /// Returns the next 32-bit field.
    ///
    /// # Errors
    ///
    /// `EINVAL` when fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, i32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Returns the next 64-bit field.
    ///
    /// # Errors
    ///
    /// `EINVAL` when fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, i32> {
        self.array().map(u64::from_le_bytes)
    }

    /// Returns all bytes that were not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Checks the client's VERSION payload and makes the reply.
///
/// The capabilities are a JSON object that ends with a NUL; a missing one means the defaults.
///
/// # Errors
///
/// `EINVAL` for another major version, and for capabilities that are no JSON object.
pub fn negotiate(payload: &[u8]) -> Result<Vec<u8>, i32> {
    let mut fields = Fields::new(payload);
    let (major, minor) = (fields.u16()?, fields.u16()?);
    if major != 0 {
        log::warn!(target: "vfio_user", "client speaks version {major}.{minor}, this server 0.1");
        return Err(libc::EINVAL);
    }
    let text = fields.rest().split(|byte| *byte == 0).next().unwrap_or_default();
    if !text.is_empty() {
        let capabilities: serde_json::Value = serde_json::from_slice(text).map_err(|error| {
            log::warn!(target: "vfio_user", "client's capabilities are not JSON: {error}");
            libc::EINVAL
        })?;
        if !capabilities.is_object() {
            return Err(libc::EINVAL);
        }
        log::debug!(target: "vfio_user", "client version={major}.{minor} capabilities={capabilities}");
    }
    let ours = serde_json::json!({
        "capabilities": {
            "max_msg_fds": MAX_FDS,
            "max_data_xfer_size": MAX_TRANSFER,
            "max_dma_maps": super::dma::max_mappings(),
            "pgsizes": 4096,
            "write_multiple": true,
            "migration": { "pgsize": 4096 },
        }
    });
    let mut reply = Vec::new();
    reply.extend_from_slice(&0u16.to_le_bytes());
    // The minor version must not be above the client's: QEMU offers 0.0 and refuses a server that answers 0.1.
    reply.extend_from_slice(&minor.min(1).to_le_bytes());
    reply.extend_from_slice(ours.to_string().as_bytes());
    reply.push(0);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() {
        let header = Header { id: 0x1234, command: 9, size: 32, flags: FLAG_NO_REPLY, error: 7 };
        assert_eq!(Header::parse(&header.encode()), header);
        assert!(header.no_reply() && header.is_command());
    }

    #[test]
    fn negotiate_refuses_what_is_not_version_0_with_an_object() {
        let cases: [(&[u8], bool); 7] = [
            (b"\0\0\x01\0{\"capabilities\":{}}\0", true),
            (b"\0\0\x01\0", true),
            (b"\0\0\x01\0{\"capabilities\":{}}", true),
            (b"\x01\0\0\0{}\0", false),
            (b"\0\0\x01", false),
            (b"\0\0\x01\0{broken\0", false),
            (b"\0\0\x01\0\xff\xfe\0", false),
        ];
        for (payload, good) in cases {
            assert_eq!(negotiate(payload).is_ok(), good, "{payload:?}");
        }
    }

    #[test]
    fn answered_version_is_never_above_the_clients() {
        for (offered, answered) in [(0u8, 0), (1, 1), (9, 1)] {
            let reply = negotiate(&[0, 0, offered, 0]).unwrap();
            assert_eq!(reply[..4], [0, 0, answered, 0]);
        }
    }

    #[test]
    fn fields_end_with_an_error_not_a_panic() {
        let mut fields = Fields::new(&[1, 0, 2]);
        assert_eq!(fields.u16(), Ok(1));
        assert_eq!(fields.u32(), Err(libc::EINVAL));
        assert_eq!(fields.rest(), [2]);
        assert_eq!(fields.bytes(usize::MAX), Err(libc::EINVAL));
    }
}
