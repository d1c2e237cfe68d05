//! A disk (virtio 1.2 section 5.2): one queue of requests, each carried out before the next.

use std::io;

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX,
    VIRTIO_BLK_F_WRITE_ZEROES, VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES, VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use vm_memory::{Bytes as _, GuestMemoryMmap};

use super::chain::{Buffers, Chain};
use super::disk::DiskConfig;
use super::disk::image::{Disk, DiskError, SECTOR};
use super::ring::Rings;
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress, another_kind};
use crate::saved::Unsaved;
use crate::saved::{SavedDevice, StateError};

/// Mass storage, SCSI: the class that other machines report.
const CLASS: u32 = 0x01_0000;
const QUEUE: usize = 0;
const QUEUE_SIZE: u16 = 256;
/// Largest number of buffers of one request beside its header and its status.
const SEGMENTS: u32 = QUEUE_SIZE as u32 - 2;

/// Bytes of `struct virtio_blk_req` before the data, and of a range to discard.
const HEADER: usize = 16;
const RANGE: usize = 16;
/// Largest number of ranges of one request, and of sectors of each.
const RANGES: u32 = 32;
const RANGE_SECTORS: u32 = 1 << 22;
/// Granularity of discarding, in bytes: clusters of the temporary file.
const CLUSTER: u64 = 64 << 10;
/// Bytes that are moved at a time.
const PIECE: usize = 256 << 10;
/// Bytes that are zeroed at a time, so that a reset need not wait long.
const ZEROES: u64 = 256 << 20;
/// Number of log lines about an image that fails.
const COMPLAINTS: u32 = 8;

/// Failures of a request, by its status byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Failure {
    Error,
    Unsupported,
}

/// Result of a request's parts, or the driver's mistake that breaks the queue.
type Outcome = Result<Result<(), Failure>, Broken>;

/// The device.
#[derive(Debug)]
pub struct Block {
    disk: Disk,
    identity: String,
    buffer: Vec<u8>,
    complaints: u32,
}

impl Block {
    /// Opens the image of a disk; `number` is the disk's number.
    ///
    /// # Errors
    ///
    /// An image that cannot be opened, or that has another format.
    pub fn new(config: &DiskConfig, number: usize) -> Result<Self, DiskError> {
        Ok(Self {
            disk: Disk::open(config)?,
            identity: format!("belfry-{number}"),
            buffer: Vec::new(),
            complaints: 0,
        })
    }

    fn check(&mut self, what: &str, result: io::Result<()>) -> Result<(), Failure> {
        result.map_err(|error| {
            self.complaints = self.complaints.saturating_add(1);
            let level = if self.complaints <= COMPLAINTS { log::Level::Warn } else { log::Level::Debug };
            log::log!(target: "kvm", level, "disk image {}: {what}: {error}", self.disk.path.display());
            Failure::Error
        })
    }

    /// Returns the offset of a request's bytes, if they are whole sectors of the disk.
    fn range(&self, sector: u64, length: u64) -> Result<u64, Failure> {
        let offset = sector.checked_mul(SECTOR).ok_or(Failure::Error)?;
        let end = offset.checked_add(length).ok_or(Failure::Error)?;
        if length.is_multiple_of(SECTOR) && end <= self.disk.size() {
            Ok(offset)
        } else {
            Err(Failure::Error)
        }
    }

    fn read(&mut self, rings: &Rings, sector: u64, buffers: &mut Buffers) -> Outcome {
        self.in_pieces(rings, sector, buffers, |block, buffers, piece, offset| {
            let read = block.disk.read(piece, offset);
            let read = block.check(&format!("reading {} bytes at {offset:#x}", piece.len()), read);
            if read.is_ok() {
                buffers.write(rings.memory(), piece)?;
            }
            Ok(read)
        })
    }

    fn write(&mut self, rings: &Rings, sector: u64, buffers: &mut Buffers) -> Outcome {
        if self.disk.read_only {
            return Ok(Err(Failure::Error));
        }
        self.in_pieces(rings, sector, buffers, |block, buffers, piece, offset| {
            buffers.read(rings.memory(), piece)?;
            let written = block.disk.write(piece, offset);
            Ok(block.check(&format!("writing {} bytes at {offset:#x}", piece.len()), written))
        })
    }

    /// Moves all of a request's bytes, no more than [`PIECE`] at a time, until a piece fails.
    fn in_pieces(
        &mut self,
        rings: &Rings,
        sector: u64,
        buffers: &mut Buffers,
        transfer: impl Fn(&mut Self, &mut Buffers, &mut [u8], u64) -> Outcome,
    ) -> Outcome {
        let mut offset = match self.range(sector, buffers.len()) {
            Ok(offset) => offset,
            Err(failure) => return Ok(Err(failure)),
        };
        while buffers.len() > 0 {
            if rings.interrupted() {
                return Ok(Err(Failure::Error));
            }
            let length = buffers.len().min(PIECE as u64) as usize;
            let mut piece = std::mem::take(&mut self.buffer);
            piece.resize(length, 0);
            let moved = transfer(self, buffers, &mut piece, offset);
            self.buffer = piece;
            if !matches!(moved, Ok(Ok(()))) {
                return moved;
            }
            offset += length as u64;
        }
        Ok(Ok(()))
    }

    /// Discards ranges, or fills them with zeroes.
    fn zero(&mut self, rings: &Rings, kind: u32, buffers: &mut Buffers) -> Outcome {
        let length = buffers.len();
        if self.disk.read_only {
            return Ok(Err(Failure::Unsupported));
        }
        if length == 0 || !length.is_multiple_of(RANGE as u64) || length > u64::from(RANGES) * RANGE as u64 {
            return Ok(Err(Failure::Error));
        }
        while buffers.len() > 0 {
            let mut range = [0; RANGE];
            buffers.read(rings.memory(), &mut range)?;
            let zeroed = self.zero_range(rings, kind, range);
            if zeroed.is_err() {
                return Ok(zeroed);
            }
        }
        Ok(Ok(()))
    }

    fn zero_range(&mut self, rings: &Rings, kind: u32, range: [u8; RANGE]) -> Result<(), Failure> {
        let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, f0, f1, f2, f3] = range;
        let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let sectors = u32::from_le_bytes([n0, n1, n2, n3]);
        let flags = u32::from_le_bytes([f0, f1, f2, f3]);
        let allowed = if kind == VIRTIO_BLK_T_WRITE_ZEROES { VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP } else { 0 };
        if flags & !allowed != 0 {
            return Err(Failure::Unsupported);
        }
        if sectors > RANGE_SECTORS {
            return Err(Failure::Error);
        }
        let length = u64::from(sectors) * SECTOR;
        let mut offset = self.range(sector, length)?;
        let end = offset + length;
        while offset < end {
            if rings.interrupted() {
                return Err(Failure::Error);
            }
            let piece = (end - offset).min(ZEROES);
            // Discarded sectors read as zeroes, and must not show the image's contents again.
            let done = if kind == VIRTIO_BLK_T_DISCARD || flags != 0 {
                self.disk.discard(offset, piece)
            } else {
                self.disk.write_zeroes(offset, piece)
            };
            self.check(&format!("zeroing {piece} bytes at {offset:#x}"), done)?;
            offset += piece;
        }
        Ok(())
    }

    /// Carries out a request.
    fn request(&mut self, rings: &Rings, chain: &mut Chain) -> Outcome {
        let mut header = [0; HEADER];
        let length = chain.readable.read(rings.memory(), &mut header)?;
        if length < HEADER {
            return Err(Broken(format!("queue {QUEUE}: a request of {length} bytes has no header")));
        }
        let [t0, t1, t2, t3, _, _, _, _, s0, s1, s2, s3, s4, s5, s6, s7] = header;
        let sector = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        match u32::from_le_bytes([t0, t1, t2, t3]) {
            VIRTIO_BLK_T_IN => self.read(rings, sector, &mut chain.writable),
            VIRTIO_BLK_T_OUT => self.write(rings, sector, &mut chain.readable),
            // Writes are lost with the machine, so flushing them would make nothing safer.
            VIRTIO_BLK_T_FLUSH => Ok(Ok(())),
            VIRTIO_BLK_T_GET_ID => {
                let mut identity = [0; VIRTIO_BLK_ID_BYTES as usize];
                for (to, from) in identity.iter_mut().zip(self.identity.bytes()) {
                    *to = from;
                }
                chain.writable.write(rings.memory(), &identity)?;
                Ok(Ok(()))
            }
            kind @ (VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES) => {
                self.zero(rings, kind, &mut chain.readable)
            }
            _ => Ok(Err(Failure::Unsupported)),
        }
    }
}

impl Device for Block {
    fn profile(&self) -> Profile {
        let mut features = 1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_BLK_SIZE | 1 << VIRTIO_BLK_F_FLUSH;
        features |= if self.disk.read_only {
            1 << VIRTIO_BLK_F_RO
        } else {
            1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES
        };
        let alignment = (CLUSTER / SECTOR) as u32;
        // struct virtio_blk_config
        let mut config = Vec::from((self.disk.size() / SECTOR).to_le_bytes());
        config.extend(0u32.to_le_bytes()); // size_max, not offered
        config.extend(SEGMENTS.to_le_bytes());
        config.extend([0; 4]); // geometry
        config.extend((SECTOR as u32).to_le_bytes());
        config.extend([0; 8]); // topology
        config.extend([0, 0, 1, 0]); // writeback, padding, num_queues
        for word in [RANGE_SECTORS, RANGES, alignment, RANGE_SECTORS, RANGES] {
            config.extend(word.to_le_bytes());
        }
        config.extend([1, 0, 0, 0]); // write_zeroes_may_unmap
        Profile {
            name: "virtio-blk".into(),
            id: VIRTIO_ID_BLOCK as u16,
            class: CLASS,
            features,
            queues: vec![QUEUE_SIZE],
            config,
        }
    }

    fn reset(&mut self) {}

    fn save(&self) -> Result<SavedDevice, Unsaved> {
        self.disk.save().map(SavedDevice::Block)
    }

    fn restore(&mut self, saved: &SavedDevice, _memory: &GuestMemoryMmap) -> Result<(), StateError> {
        let SavedDevice::Block(saved) = saved else { return Err(another_kind()) };
        self.disk.restore(saved)
    }

    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        let Some(mut chain) = rings.pop(QUEUE)? else { return Ok(Progress::Idle) };
        let Some(status) = chain.writable.take_last() else {
            return Err(Broken(format!("queue {QUEUE}: a request has no room for its status")));
        };
        let room = chain.writable.len();
        let outcome = self.request(rings, &mut chain)?;
        let written = room - chain.writable.len();
        let byte = match outcome {
            Ok(()) => VIRTIO_BLK_S_OK,
            Err(Failure::Error) => VIRTIO_BLK_S_IOERR,
            Err(Failure::Unsupported) => VIRTIO_BLK_S_UNSUPP,
        };
        rings
            .memory()
            .write_obj(byte as u8, status)
            .map_err(|error| Broken(format!("queue {QUEUE}: the status cannot be written: {error}")))?;
        // The status byte comes after all the room for data: the length counts it only if the data before it has no
        // gap.
        rings.push(QUEUE, &chain, if written == room { room + 1 } else { written })?;
        Ok(Progress::More)
    }
}
