//! Names of kernels, from the code objects that are loaded beside them.
//!
//! A dispatch names a kernel descriptor by its address. The descriptor lies in the first segment of a code object,
//! which begins with the ELF header and has the dynamic symbols. So the name can be found in the process's memory, no
//! matter which runtime has loaded the code object (LLVM's AMDGPUUsage, "Code Object"; System V ABI, chapters 4 and 5).
//! Names are only looked up for traces, checks, injected faults, and tools that inspect the device.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use belfry_isa::mem::Mmu as _;

use belfry_abi::kernel_descriptor::{KERNARG_PRELOAD_ENTRY, KernargPreload, KernelDescriptor};

use crate::chip::Generation;
use crate::profile::Named;
use crate::sanitize;
use crate::tools::Tools;
use crate::vm::AddressSpace;

/// Fills bytes from an address of the process. Returns false if they are not mapped.
type Read<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// The process's memory for one search. After [`MAX_READS`] accesses it answers as if nothing were mapped, which ends
/// the search: a program may have bytes like a code object in every page.
struct Memory<'a> {
    read: &'a Read<'a>,
    left: Cell<u32>,
}

impl<'a> Memory<'a> {
    fn new(read: &'a Read<'a>) -> Self {
        Self { read, left: Cell::new(MAX_READS) }
    }

    fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(left) = self.left.get().checked_sub(1) else { return false };
        self.left.set(left);
        (self.read)(address, bytes)
    }
}

/// Most pages in front of a descriptor that are searched for the header of its code object.
const MAX_PAGES: u64 = 4096;
const PAGE: u64 = 4096;
/// Most program headers of a code object that are read.
const MAX_HEADERS: u16 = 32;
/// Most entries of a dynamic section that are read.
const MAX_DYNAMIC: u64 = 64;
/// Most symbols of a code object that are read.
const MAX_SYMBOLS: u64 = 1 << 16;
/// Most accesses to memory in one search: a few for each symbol of the largest code object.
const MAX_READS: u32 = 1 << 18;
/// Most bytes of a name, with the zero byte after it.
const MAX_NAME: usize = 1024;
/// Bytes of a name that are read at once.
const PIECE: usize = 64;
/// Most kernels that a queue remembers.
const MAX_KNOWN: usize = 4096;

/// `EM_AMDGPU`.
const MACHINE: u16 = 224;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
/// Bytes of an `Elf64_Sym`.
const SYMBOL_SIZE: u64 = 24;
/// End of the name of a descriptor's symbol.
const SUFFIX: &str = ".kd";

/// A name that was found in memory.
#[derive(Clone, Debug)]
struct Found {
    /// Address of the symbol.
    symbol: u64,
    /// Bytes of the symbol: if they are unchanged, the code object is still there.
    bytes: [u8; SYMBOL_SIZE as usize],
    name: String,
}

/// The name of a kernel in an address space, which is looked up when it is shown; `?` if there is none.
pub(crate) struct NameOf<'a> {
    pub(crate) space: &'a AddressSpace,
    pub(crate) kernel: KernelAt,
}

/// Address by which a kernel is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelAt {
    /// Address of its descriptor.
    Descriptor(u64),
    /// Address of its first instruction.
    Entry(u64),
}

impl fmt::Display for NameOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kernel {
            KernelAt::Descriptor(address) => kernel_of(self.space, address),
            KernelAt::Entry(address) => kernel_at(self.space, address).unwrap_or_default(),
        };
        f.write_str(if name.is_empty() { "?" } else { &name })
    }
}

/// Result of the last search for a descriptor's name.
#[derive(Debug)]
enum Known {
    Named(Found),
    /// No name was found. A code object may be loaded there later, so the search is repeated after `wait` dispatches,
    /// of which `left` are still to come, and after twice as many the next time.
    Unnamed {
        left: u32,
        wait: u32,
    },
}

impl Known {
    fn search(read: &Read<'_>, descriptor: u64, wait: u32) -> Self {
        found(&Memory::new(read), descriptor).map_or(Self::Unnamed { left: wait, wait }, Self::Named)
    }

    /// Brings the result up to date at a further dispatch.
    fn again(&mut self, read: &Read<'_>, descriptor: u64) {
        match self {
            // Another code object may be in the place of this one.
            Self::Named(found) if bytes(&Memory::new(read), found.symbol) == Some(found.bytes) => {}
            Self::Named(_) => *self = Self::search(read, descriptor, 1),
            Self::Unnamed { left: 0, wait } => *self = Self::search(read, descriptor, wait.saturating_mul(2)),
            Self::Unnamed { left, .. } => *left -= 1,
        }
    }
}

/// The names of kernels that one queue has dispatched.
#[derive(Debug, Default)]
pub struct KernelNames(BTreeMap<u64, Known>);

impl KernelNames {
    /// Returns the name of the kernel with a descriptor at this address; empty if there is none.
    pub fn get(&mut self, space: &AddressSpace, descriptor: u64) -> &str {
        self.get_in(&|address, bytes| space.read_bytes(address, bytes).is_ok(), descriptor)
    }

    fn get_in(&mut self, read: &Read<'_>, descriptor: u64) -> &str {
        if self.0.len() >= MAX_KNOWN {
            self.0.clear();
        }
        let known = match self.0.entry(descriptor) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.again(read, descriptor);
                known
            }
            Entry::Vacant(place) => place.insert(Known::search(read, descriptor, 1)),
        };
        match known {
            Known::Named(found) => &found.name,
            Known::Unnamed { .. } => "",
        }
    }
}

/// Reads bytes of memory; `None` if they are not mapped.
fn bytes<const N: usize>(memory: &Memory<'_>, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory.fill(address, &mut bytes).then_some(bytes)
}

fn half(memory: &Memory<'_>, address: u64) -> Option<u16> {
    bytes(memory, address).map(u16::from_le_bytes)
}

fn word(memory: &Memory<'_>, address: u64) -> Option<u32> {
    bytes(memory, address).map(u32::from_le_bytes)
}

fn long(memory: &Memory<'_>, address: u64) -> Option<u64> {
    bytes(memory, address).map(u64::from_le_bytes)
}

fn found(memory: &Memory<'_>, descriptor: u64) -> Option<Found> {
    find(memory, descriptor).map(|(_, found)| found)
}

/// Looks in each page in front of a descriptor for a code object that has a name for it.
fn find(memory: &Memory<'_>, descriptor: u64) -> Option<(u64, Found)> {
    let mut base = descriptor & !(PAGE - 1);
    for _ in 0..MAX_PAGES {
        // 64-bit and little-endian.
        if bytes(memory, base)? == *b"\x7fELF\x02\x01"
            && half(memory, base + 18)? == MACHINE
            && let Some(found) = in_code_object(memory, base, descriptor)
        {
            return Some((base, found));
        }
        base = base.checked_sub(PAGE)?;
    }
    None
}

/// The dynamic symbols of a code object.
struct Symbols {
    base: u64,
    strings: u64,
    first: u64,
    count: u64,
}

impl Symbols {
    /// Reads the tables of the code object that is loaded at `base`.
    fn of(memory: &Memory<'_>, base: u64) -> Option<Self> {
        let at = |offset: u64| base.checked_add(offset);
        let headers = at(long(memory, base + 32)?)?;
        let size = u64::from(half(memory, base + 54)?);
        let count = half(memory, base + 56)?.min(MAX_HEADERS);
        let dynamic = (0..u64::from(count)).find_map(|index| {
            let header = headers.checked_add(index * size)?;
            (word(memory, header)? == PT_DYNAMIC).then(|| long(memory, header.checked_add(16)?)).flatten()
        })?;
        let dynamic = at(dynamic)?;
        let [mut hash, mut strings, mut symbols] = [None; 3];
        for index in 0..MAX_DYNAMIC {
            let entry = dynamic.checked_add(index * 16)?;
            let value = long(memory, entry.checked_add(8)?)?;
            match long(memory, entry)? {
                DT_NULL => break,
                DT_HASH => hash = at(value),
                DT_STRTAB => strings = at(value),
                DT_SYMTAB => symbols = at(value),
                _ => {}
            }
        }
        let (strings, first) = (strings?, symbols?);
        // The hash table has one chain for each symbol. Without that table, linkers put the strings right after the
        // symbols.
        let count = match hash {
            Some(hash) => word(memory, hash.checked_add(4)?)?.into(),
            None => strings.checked_sub(first)? / SYMBOL_SIZE,
        };
        Some(Self { base, strings, first, count: count.min(MAX_SYMBOLS) })
    }

    /// Finds the next descriptor from symbol `from` on: returns the symbol's number, the descriptor's address and the
    /// name.
    fn next(&self, memory: &Memory<'_>, from: u64, wanted: Option<u64>) -> Option<(u64, u64, Found)> {
        for index in from..self.count {
            let symbol = self.first.checked_add(index * SYMBOL_SIZE)?;
            let bytes: [u8; SYMBOL_SIZE as usize] = bytes(memory, symbol)?;
            let value = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
            let place = u32::from_le_bytes(bytes[..4].try_into().ok()?);
            if let Some(address) = self.base.checked_add(value)
                && wanted.is_none_or(|wanted| wanted == address)
                && let Some(name) = self.strings.checked_add(place.into()).and_then(|from| text(memory, from))
                && let Some(name) = name.strip_suffix(SUFFIX)
            {
                return Some((index, address, Found { symbol, bytes, name: name.to_owned() }));
            }
        }
        None
    }
}

/// Finds the symbol of a descriptor among the dynamic symbols of a code object that is loaded at `base`.
fn in_code_object(memory: &Memory<'_>, base: u64, descriptor: u64) -> Option<Found> {
    let (_, _, found) = Symbols::of(memory, base)?.next(memory, 0, Some(descriptor))?;
    Some(found)
}

/// Finds the code object around a descriptor: returns the address at which it is loaded, and the addresses and names of
/// at most `most` of its kernels.
pub fn kernels_beside(
    space: &AddressSpace,
    descriptor: u64,
    most: usize,
) -> Option<(u64, Vec<(u64, String)>)> {
    let read = |address: u64, bytes: &mut [u8]| space.read_bytes(address, bytes).is_ok();
    let memory = Memory::new(&read);
    let (base, _) = find(&memory, descriptor)?;
    let symbols = Symbols::of(&memory, base)?;
    let (mut from, mut kernels) = (0, Vec::new());
    while kernels.len() < most
        && let Some((index, address, found)) = symbols.next(&memory, from, None)
    {
        kernels.push((address, found.name));
        from = index + 1;
    }
    Some((base, kernels))
}

/// Returns the name of the kernel with a descriptor at this address; empty if there is none.
pub(crate) fn kernel_of(space: &AddressSpace, descriptor: u64) -> String {
    KernelNames::default().get(space, descriptor).to_owned()
}

/// Returns the name of the kernel whose first instruction is at an address, from the code object that is loaded around
/// it.
pub fn kernel_at(space: &AddressSpace, entry: u64) -> Option<String> {
    descriptor_of(space, entry).map(|(_, name)| name)
}

/// Returns the address of the descriptor of a kernel whose first instruction is at an address, and its name. The
/// instruction may also be the one that waves with preloaded arguments begin with.
fn descriptor_of(space: &AddressSpace, entry: u64) -> Option<(u64, String)> {
    let read = |address: u64, bytes: &mut [u8]| space.read_bytes(address, bytes).is_ok();
    described(&Memory::new(&read), entry)
}

fn described(memory: &Memory<'_>, entry: u64) -> Option<(u64, String)> {
    let mut base = entry & !(PAGE - 1);
    for _ in 0..MAX_PAGES {
        let magic: [u8; 6] = bytes(memory, base)?;
        if magic == *b"\x7fELF\x02\x01" && half(memory, base + 18)? == MACHINE {
            let symbols = Symbols::of(memory, base)?;
            let mut from = 0;
            while let Some((index, address, found)) = symbols.next(memory, from, None) {
                // `kernel_code_entry_byte_offset`.
                let offset = long(memory, address.checked_add(16)?)?;
                let first = address.wrapping_add(offset);
                let preloads = || {
                    let preload: Option<[u8; 2]> = bytes(memory, address.wrapping_add(58));
                    preload.is_some_and(|preload| {
                        KernargPreload::from_bits(u16::from_le_bytes(preload)).length() != 0
                    })
                };
                if first == entry || first.wrapping_add(KERNARG_PRELOAD_ENTRY) == entry && preloads() {
                    return Some((address, found.name));
                }
                from = index + 1;
            }
            return None;
        }
        base = base.checked_sub(PAGE)?;
    }
    None
}

/// Gives the profiler and the sanitizer the name of the kernel that begins at `entry`.
pub(crate) fn name_for_probes(tools: &Tools, chip: &Generation, space: &AddressSpace, entry: u64) {
    if let Some(profiler) = tools.profiler() {
        profiler.name_kernel(space.context(), entry, || {
            let Some((address, name)) = descriptor_of(space, entry) else { return Named::default() };
            let descriptor: Option<KernelDescriptor> = space.read(address).ok();
            // Other chips give every wave all scalar registers. A unit of the field is 8, but registers come in 16
            // (AMDGPUUsage, "compute_pgm_rsrc1").
            let sgprs = descriptor.filter(|_| chip.kernel.allocates_sgprs).map(|descriptor| {
                (descriptor.compute_pgm_rsrc1.granulated_wavefront_sgpr_count() / 2 + 1) * 16
            });
            Named { name, descriptor: Some(address), sgprs }
        });
    }
    if let Some(sanitizer) = tools.sanitizer() {
        sanitizer.name_kernel(space.context(), entry, || {
            let (descriptor, name) = descriptor_of(space, entry).unzip();
            sanitize::Named { name: name.unwrap_or_default().into(), descriptor }
        });
    }
}

/// Reads a string of a string table; `None` if it is not a string, or too long.
fn text(memory: &Memory<'_>, from: u64) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < MAX_NAME {
        let address = from.checked_add(text.len() as u64)?;
        // Not over the end of the page: the next one may not be mapped.
        let mut piece = [0; PIECE];
        let piece =
            &mut piece[..usize::try_from(PAGE - address % PAGE).map_or(PIECE, |rest| rest.min(PIECE))];
        if !memory.fill(address, piece) {
            return None;
        }
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&piece[..end]);
                return String::from_utf8(text).ok().filter(|text| text.len() < MAX_NAME);
            }
            None => text.extend_from_slice(piece),
        }
    }
    None
}

#[cfg(test)]
mod tests;
