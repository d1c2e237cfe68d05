//! Code as bytes that another process of the same build can use, and the key that they are found by.
//!
//! The bytes: a head (magic, version, key, lengths), the entries of elements, the places of addresses in the code,
//! the registers that it touches, the code without addresses, and SHA-256 of all that, little-endian. They do not
//! describe the region: the process that reads them has lowered the same region.

use core::hash::{Hash, Hasher};
use core::mem::offset_of;

use sha2::{Digest as _, Sha256};

use super::asm::{Link, Links, Place, Routine};
use super::code::Code;
use crate::code_store::CodeKey;
use crate::exec::Follower;
use crate::exec::Lds;
use crate::exec::compiled::NO_ENTRY;
use crate::exec::di::{self, Di, Machine};
use crate::exec::vector::reciprocal::Faithful;
use crate::exec::waves::round::{Round, Seat};
use crate::exec::waves::succession::{Stretch, Succession};
use crate::mem::{Global, Known, Span, Tlb, TlbEntry};
use crate::tier1::analysis::source::Source;
use crate::tier1::analysis::touched::Touched;
use crate::wave::{ROWS, Wave};

const MAGIC: [u8; 8] = *b"BelfryT1";
/// Version of the bytes; the key covers everything that the code itself depends on.
const VERSION: u32 = 4;
/// Hash, made by `build.rs`, of everything that this package was built from and by.
const BUILD: &str = env!("BELFRY_ISA_BUILD");
/// Bytes of the checksum.
const SUM: usize = 32;

/// Reason why bytes are not the code that was looked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeptError {
    /// They end too early, or too late.
    #[error("{0} bytes are not as many as they say")]
    Length(usize),
    /// Something else.
    #[error("it does not begin as kept code does")]
    Magic,
    /// Bytes of an older or newer format.
    #[error("it is of version {0}")]
    Version(u32),
    /// Code of something else.
    #[error("it is of another key")]
    Key,
    /// They have changed.
    #[error("its checksum is not that of its content")]
    Checksum,
    /// Content that no compiler has made.
    #[error("its {0} are out of range")]
    Content(&'static str),
}

/// A region's code and the registers that it touches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) code: Code,
    pub(crate) touched: Option<Touched>,
}

/// Takes in values that hash themselves, one after the other.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("the bytes themselves are wanted")
    }
}

/// Sizes and offsets of the data of the process that code reads and writes. The compiler chooses these, and [`BUILD`]
/// should tell them apart; this covers a choice that it misses.
fn layouts() -> [usize; 50] {
    [
        size_of::<Di>(),
        offset_of!(Di, f),
        size_of::<Wave>(),
        offset_of!(Wave, s),
        offset_of!(Wave, v),
        offset_of!(Wave, pc),
        offset_of!(Wave, instructions),
        offset_of!(Wave, saved_exec),
        offset_of!(Wave, lds_order),
        offset_of!(Wave, looked),
        offset_of!(Wave, stopped_at),
        offset_of!(Machine<'_>, global),
        offset_of!(Machine<'_>, lds),
        offset_of!(Machine<'_>, forgets_ended),
        offset_of!(Machine<'_>, wrote_more),
        offset_of!(Machine<'_>, round),
        offset_of!(Machine<'_>, succession),
        size_of::<Succession>(),
        offset_of!(Succession, at),
        offset_of!(Succession, x),
        offset_of!(Succession, lds_order),
        offset_of!(Succession, stretches),
        offset_of!(Stretch, places),
        offset_of!(Stretch, delta),
        size_of::<Follower>(),
        offset_of!(Follower, exec),
        offset_of!(Follower, ttmp),
        offset_of!(Follower, counted),
        offset_of!(Wave, hw_id),
        offset_of!(Round, at),
        offset_of!(Round, last),
        offset_of!(Round, limit),
        size_of::<Seat>(),
        offset_of!(Seat, entry),
        offset_of!(Seat, element),
        offset_of!(Global<'_>, tlb),
        offset_of!(Tlb, entries),
        offset_of!(Tlb, spans),
        offset_of!(Tlb, known),
        offset_of!(Tlb, mirrored),
        offset_of!(Known, bases),
        offset_of!(Known, values),
        size_of::<TlbEntry>(),
        offset_of!(TlbEntry, read),
        offset_of!(TlbEntry, write),
        offset_of!(TlbEntry, delta),
        offset_of!(Span, start),
        offset_of!(Span, len),
        Lds::STORAGE,
        Lds::SIZE,
    ]
}

/// The key of the code that a source is compiled to, by this build.
pub(crate) fn key(source: &Source<'_>) -> CodeKey {
    let &Source { kind, code, forms, halves, waits } = source;
    let mut all = Bytes(Vec::with_capacity(512 + code.len() * 96));
    (MAGIC, VERSION, BUILD, cfg!(debug_assertions), layouts()).hash(&mut all);
    // A process that has chosen a kind has every feature of the processor that its code uses.
    (kind, halves, waits, code.len(), forms.len()).hash(&mut all);
    for d in code {
        // Code calls an element's handler by way of the element: which one it is does not change the code.
        let Di { f: _, dst, dst2, src, imm, flags, omod, count, aux } = *d;
        let [a, b, c] = src.map(|di::Source { value, kind, high, neg, abs }| {
            (value, [kind as u8, u8::from(high), u8::from(neg), u8::from(abs)])
        });
        (dst, dst2, imm, [flags, omod, count, aux], a, b, c).hash(&mut all);
    }
    forms.iter().for_each(|form| form.hash(&mut all));
    CodeKey(Sha256::digest(&all.0).into())
}

/// Bytes to keep code by; `None` if it is bound to this process.
pub(crate) fn seal(key: &CodeKey, made: &Made) -> Option<Vec<u8>> {
    let Made { code: Code { bytes, entries, known_entry, links, instructions, stored }, touched } = made;
    if links.is_bound {
        return None;
    }
    let (lines, rows) = touched.as_ref().map_or((0, &[][..]), |touched| (touched.lines, &touched.rows));
    let mut sealed = Vec::with_capacity(bytes.len() + entries.len() * 4 + links.places.len() * 16 + 256);
    sealed.extend(MAGIC);
    sealed.extend(VERSION.to_le_bytes());
    sealed.extend(key.0);
    let mut words = |words: &[u32]| words.iter().for_each(|word| sealed.extend(word.to_le_bytes()));
    let length = |of: usize| u32::try_from(of).ok();
    words(&[length(bytes.len())?, *instructions, length(entries.len())?, length(links.places.len())?]);
    words(&[u32::from(touched.is_some()), u32::from(lines), length(rows.len())?, length(stored.len())?]);
    words(&[*known_entry]);
    words(entries);
    for &Link { at, place } in &links.places {
        let (kind, distance) = match place {
            Place::Routine(routine) => (number(routine), 0),
            Place::Guest(distance) => (GUEST, distance),
            Place::Bits(of) => (number_of_bits(of), 0),
        };
        words(&[length(at)?, kind, distance as u32, (distance >> 32) as u32]);
    }
    rows.iter().chain(stored).for_each(|&(from, to)| words(&[from, to]));
    sealed.extend_from_slice(bytes);
    let sum = Sha256::digest(&sealed);
    sealed.extend_from_slice(&sum);
    Some(sealed)
}

/// Returns the code of a region of `elements` elements, from the bytes that it was kept as.
pub(crate) fn open(key: &CodeKey, sealed: &[u8], elements: usize) -> Result<Made, KeptError> {
    let mut rest = Rest { bytes: sealed, all: sealed.len() };
    if rest.take(MAGIC.len())? != MAGIC {
        return Err(KeptError::Magic);
    }
    let [version] = rest.words()?;
    if version != VERSION {
        return Err(KeptError::Version(version));
    }
    if rest.take(key.0.len())? != key.0 {
        return Err(KeptError::Key);
    }
    let Some(content) = sealed.len().checked_sub(SUM) else { return Err(KeptError::Length(sealed.len())) };
    if sealed[content..] != Sha256::digest(&sealed[..content])[..] {
        return Err(KeptError::Checksum);
    }
    let [len, instructions, count, places, is_known, lines, rows, stored, known_entry] = rest.words()?;
    let len = len as usize;
    if count as usize != elements {
        return Err(KeptError::Content("entries"));
    }
    let entries: Box<[u32]> = rest.many(count)?.map(|[entry]| entry).collect();
    let places = rest.many(places)?.map(|words| link(words, instructions));
    let places: Option<Vec<Link>> = places.collect();
    let rows: Box<[(u32, u32)]> = rest.many(rows)?.map(|[from, to]| (from, to)).collect();
    let stored: Box<[(u32, u32)]> = rest.many(stored)?.map(|[from, to]| (from, to)).collect();
    let bytes = rest.take(len)?.to_vec();
    if rest.bytes.len() != SUM {
        return Err(KeptError::Length(sealed.len()));
    }
    if instructions == 0 || instructions as usize > len {
        return Err(KeptError::Content("instructions"));
    }
    if !entries.iter().chain([&known_entry]).all(|&entry| entry < instructions || entry == NO_ENTRY) {
        return Err(KeptError::Content("entries"));
    }
    let places = places.ok_or(KeptError::Content("addresses"))?;
    if !rows.iter().chain(&stored).all(|&(from, to)| from < to && to as usize <= ROWS) {
        return Err(KeptError::Content("rows"));
    }
    let touched = match (is_known, u16::try_from(lines)) {
        (0, Ok(0)) if rows.is_empty() => None,
        (1, Ok(lines)) => Some(Touched { lines, rows }),
        _ => return Err(KeptError::Content("registers")),
    };
    let links = Links { places, is_bound: false };
    Ok(Made { code: Code { bytes, entries, known_entry, links, instructions, stored }, touched })
}

/// In the place of a routine's number: an address of the guest's code.
const GUEST: u32 = 3;

/// In the place of a routine's number: that of a function's bits.
fn number_of_bits(of: Faithful) -> u32 {
    match of {
        Faithful::Reciprocal => 4,
        Faithful::ReciprocalRoot => 5,
    }
}

fn number(routine: Routine) -> u32 {
    match routine {
        Routine::Invoke => 1,
        Routine::InvokeCounting => 2,
    }
}

/// An address within the instructions, of what code that is kept has addresses of.
fn link([at, kind, low, high]: [u32; 4], instructions: u32) -> Option<Link> {
    let place = match (kind, u64::from(low) | u64::from(high) << 32) {
        (GUEST, distance) => Place::Guest(distance),
        (kind, 0) if kind == number(Routine::Invoke) => Place::Routine(Routine::Invoke),
        (kind, 0) => {
            let functions = [Faithful::Reciprocal, Faithful::ReciprocalRoot];
            Place::Bits(functions.into_iter().find(|&of| number_of_bits(of) == kind)?)
        }
        _ => return None,
    };
    let end = at.checked_add(size_of::<u64>() as u32)?;
    (end <= instructions).then_some(Link { at: at as usize, place })
}

/// Bytes that were not looked at yet.
struct Rest<'a> {
    bytes: &'a [u8],
    /// Number of bytes at the beginning.
    all: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], KeptError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(KeptError::Length(self.all))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N], KeptError> {
        Ok(words(self.take(N * 4)?))
    }

    fn many<const N: usize>(
        &mut self,
        count: u32,
    ) -> Result<impl Iterator<Item = [u32; N]> + use<'a, N>, KeptError> {
        let bytes = (count as usize).checked_mul(N * 4).ok_or(KeptError::Length(self.all))?;
        Ok(self.take(bytes)?.chunks_exact(N * 4).map(words))
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests;
