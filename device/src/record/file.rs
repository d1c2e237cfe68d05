//! The bytes of a record: a head, and chunks of entries.
//!
//! | part | bytes |
//! | --- | --- |
//! | head | [`MAGIC`], [`VERSION`] as 32 bits, bytes of the configuration as 32 bits, the configuration |
//! | chunk | bytes when unpacked as 32 bits, bytes as 32 bits, [`digest`] of the bytes as 64 bits, the bytes: entries one after the other in the format of postcard, packed by DEFLATE |
//!
//! Numbers are little endian. An entry is in one chunk.

use std::io::{self, Read, Seek, SeekFrom, Write};

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

use super::digest::digest;
use super::entry::Entry;
use super::error::RecordError;

/// First bytes of every record.
pub(super) const MAGIC: [u8; 8] = *b"belfryRR";
/// Version of the format and of the behaviour of devices: a new one whenever an entry changes, or a device
/// reacts differently to the same inputs.
pub(super) const VERSION: u32 = 8;
/// Bytes of entries that make up a chunk.
const CHUNK: usize = 256 << 10;
/// Most bytes of an unpacked chunk.
const MOST: usize = 16 << 20;
/// Most bytes of a configuration.
const MOST_HEAD: usize = 16 << 10;
/// Level at which chunks are packed: the fastest, as the device waits meanwhile.
const LEVEL: u8 = 1;

/// Writes a record.
pub(super) struct Writer {
    out: Box<dyn Write + Send>,
    entries: Vec<u8>,
    /// Bytes written.
    pub(super) written: u64,
    /// Bytes of entries.
    pub(super) unpacked: u64,
}

impl Writer {
    /// A record that goes to `out`.
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, entries: Vec::new(), written: 0, unpacked: 0 }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes the head.
    pub(super) fn begin(&mut self, config: &[u8]) -> io::Result<()> {
        self.write(&MAGIC)?;
        self.write(&VERSION.to_le_bytes())?;
        self.write(&(config.len() as u32).to_le_bytes())?;
        self.write(config)
    }

    /// Adds an entry, which is written with its chunk.
    pub(super) fn put(&mut self, entry: &Entry) -> io::Result<()> {
        let before = self.entries.len();
        let taken = std::mem::take(&mut self.entries);
        self.entries = postcard::to_extend(entry, taken).map_err(io::Error::other)?;
        self.unpacked += (self.entries.len() - before) as u64;
        if self.entries.len() >= CHUNK { self.end_chunk() } else { Ok(()) }
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        if entries.len() > MOST {
            return Err(io::Error::other("an access of more bytes than a record can have"));
        }
        let packed = compress_to_vec(&entries, LEVEL);
        self.write(&(entries.len() as u32).to_le_bytes())?;
        self.write(&(packed.len() as u32).to_le_bytes())?;
        self.write(&digest(&packed).to_le_bytes())?;
        self.write(&packed)
    }

    /// Writes the entries that are left.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.end_chunk()?;
        self.out.flush()
    }
}

/// Input of a record. Only going back in the record seeks, so that it may be a pipe otherwise.
pub(super) trait Source: Read + Seek + Send {}

impl<T: Read + Seek + Send> Source for T {}

/// A place between two entries of a record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Position {
    /// First byte of its chunk in the file.
    chunk: u64,
    /// Bytes of entries before it in the chunk.
    at: usize,
}

/// Reads a record, a chunk at a time.
pub(super) struct Reader {
    from: Box<dyn Source>,
    entries: Vec<u8>,
    /// Bytes of `entries` that were read.
    at: usize,
    /// Bytes read.
    read: u64,
    /// First byte of the chunk in the file.
    begin: u64,
}

impl Reader {
    /// Opens the record at the start of `from`; returns it with its configuration.
    pub(super) fn open(from: Box<dyn Source>) -> Result<(Self, Vec<u8>), RecordError> {
        let mut reader = Self { from, entries: Vec::new(), at: 0, read: 0, begin: 0 };
        let mut magic = [0; 8];
        match reader.fill(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) | Err(RecordError::Short { .. }) => return Err(RecordError::Magic),
            Err(error) => return Err(error),
        }
        let found = reader.number()?;
        if found != VERSION {
            return Err(RecordError::Version { found, expected: VERSION });
        }
        let len = reader.number()? as usize;
        if len > MOST_HEAD {
            return Err(RecordError::Damaged { at: reader.read, what: "the size of its configuration" });
        }
        let mut config = vec![0; len];
        reader.fill(&mut config)?;
        reader.begin = reader.read;
        Ok((reader, config))
    }

    /// Position of the next entry.
    pub(super) fn position(&self) -> Position {
        Position { chunk: self.begin, at: self.at }
    }

    /// Goes to a position that [`Self::position`] has returned.
    pub(super) fn go_to(&mut self, place: Position) -> Result<(), RecordError> {
        self.from.seek(SeekFrom::Start(place.chunk)).map_err(RecordError::Read)?;
        (self.read, self.begin) = (place.chunk, place.chunk);
        (self.entries, self.at) = (Vec::new(), 0);
        if place.at == 0 {
            return Ok(());
        }
        self.chunk()?;
        // The file was changed in between.
        if place.at > self.entries.len() {
            return Err(RecordError::Damaged { at: place.chunk, what: "a chunk, which has another size" });
        }
        self.at = place.at;
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RecordError> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RecordError::Short { at: self.read },
            _ => RecordError::Read(error),
        })?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    fn number(&mut self) -> Result<u32, RecordError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads the next entry.
    pub(super) fn next(&mut self) -> Result<Entry, RecordError> {
        if self.at == self.entries.len() {
            self.chunk()?;
        }
        let rest = &self.entries[self.at..];
        let damaged = RecordError::Damaged { at: self.read, what: "an entry" };
        let (entry, left) = postcard::take_from_bytes(rest).map_err(|_| damaged)?;
        self.at = self.entries.len() - left.len();
        Ok(entry)
    }

    fn chunk(&mut self) -> Result<(), RecordError> {
        let begin = self.read;
        self.begin = begin;
        let damaged = |what| RecordError::Damaged { at: begin, what };
        let (unpacked, len) = (self.number()? as usize, self.number()? as usize);
        // Bytes that DEFLATE cannot make smaller become a little more.
        if unpacked == 0 || unpacked > MOST || len > unpacked + unpacked / 8 + 64 {
            return Err(damaged("the size of a chunk"));
        }
        let mut expected = [0; 8];
        self.fill(&mut expected)?;
        let mut packed = Vec::new();
        // Reads as many bytes as there are: a damaged chunk may claim more.
        let got = (&mut self.from).take(len as u64).read_to_end(&mut packed).map_err(RecordError::Read)?;
        self.read += got as u64;
        if got != len {
            return Err(RecordError::Short { at: self.read });
        }
        if digest(&packed) != u64::from_le_bytes(expected) {
            return Err(damaged("a chunk, whose digest is another one"));
        }
        let entries = decompress_to_vec_with_limit(&packed, unpacked);
        self.entries = entries.map_err(|_| damaged("a chunk, which cannot be unpacked"))?;
        self.at = 0;
        if self.entries.len() != unpacked {
            return Err(damaged("a chunk, which has another size"));
        }
        Ok(())
    }

    /// Returns true if there are no more entries and bytes.
    pub(super) fn is_over(&mut self) -> Result<bool, RecordError> {
        if self.at != self.entries.len() {
            return Ok(false);
        }
        let mut byte = [0];
        Ok(self.from.read(&mut byte).map_err(RecordError::Read)? == 0)
    }
}
