//! Names of kernels, from the code objects that are loaded beside them.
//!
//! A dispatch names a kernel descriptor by its address. The descriptor lies in the first segment of a code object, which begins with
//! the ELF header and has the dynamic symbols, so that the name can be found in the process's memory, whatever runtime has loaded
//! it (LLVM's AMDGPUUsage, "Code Object"; System V ABI, chapters 4 and 5). Only traces, and people who look at the device, ask for names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use belfry_isa::mem::Mmu as _;

use belfry_abi::kernel_descriptor::{KERNARG_PRELOAD_ENTRY, KernargPreload, KernelDescriptor};

use crate::profile::Named;
use crate::sanitize;
use crate::shader::ShaderEngine;
use crate::vm::AddressSpace;

/// Fills bytes from an address of the process; whether they are mapped.
type Memory<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Pages in front of a descriptor that are searched for the header of its code object.
const MAX_PAGES: u64 = 4096;
const PAGE: u64 = 4096;
/// Program headers of a code object that are looked at.
const MAX_HEADERS: u16 = 32;
/// Entries of a dynamic section that are looked at.
const MAX_DYNAMIC: u64 = 64;
/// Symbols that are looked at.
const MAX_SYMBOLS: u64 = 1 << 16;
/// The longest name, and the zero byte behind it.
const MAX_NAME: usize = 1024;
/// Kernels that a queue remembers.
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
/// What the symbol of a descriptor ends with.
const SUFFIX: &str = ".kd";

/// Where a name is in memory.
#[derive(Clone, Debug)]
struct Found {
    /// Address of the symbol.
    symbol: u64,
    /// The symbol, by which one sees that it is still there.
    bytes: [u8; SYMBOL_SIZE as usize],
    name: String,
}

/// The name of a kernel in an address space, which is looked up when it is shown; `?` where there is none.
pub(crate) struct NameOf<'a> {
    pub(crate) space: &'a AddressSpace,
    pub(crate) kernel: KernelAt,
}

/// Where a kernel is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelAt {
    /// Its descriptor.
    Descriptor(u64),
    /// Its first instruction.
    Entry(u64),
}

impl fmt::Display for NameOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kernel {
            KernelAt::Descriptor(address) => KernelNames::default().get(self.space, address).to_owned(),
            KernelAt::Entry(address) => kernel_at(self.space, address).unwrap_or_default(),
        };
        f.write_str(if name.is_empty() { "?" } else { &name })
    }
}

/// The names of kernels that one queue has dispatched.
#[derive(Debug, Default)]
pub(crate) struct KernelNames(BTreeMap<u64, Option<Found>>);

impl KernelNames {
    /// The name of the kernel with a descriptor at this address; empty where there is none.
    pub(crate) fn get(&mut self, space: &AddressSpace, descriptor: u64) -> &str {
        self.get_in(&|address, bytes| space.read_bytes(address, bytes).is_ok(), descriptor)
    }

    fn get_in(&mut self, memory: &Memory<'_>, descriptor: u64) -> &str {
        if self.0.len() >= MAX_KNOWN {
            self.0.clear();
        }
        let found = match self.0.entry(descriptor) {
            Entry::Occupied(mut known) => {
                // Another code object may be where this one was.
                if known.get().as_ref().is_some_and(|found| bytes(memory, found.symbol) != Some(found.bytes))
                {
                    known.insert(found(memory, descriptor));
                }
                known.into_mut()
            }
            Entry::Vacant(place) => place.insert(found(memory, descriptor)),
        };
        found.as_ref().map_or("", |found| &found.name)
    }
}

/// Bytes of memory; nothing where they are not mapped.
fn bytes<const N: usize>(memory: &Memory<'_>, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory(address, &mut bytes).then_some(bytes)
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
    /// Those of the code object that is loaded at `base`.
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
        // As many as there are chains; without that table, linkers put the strings behind the symbols.
        let count = match hash {
            Some(hash) => word(memory, hash.checked_add(4)?)?.into(),
            None => strings.checked_sub(first)? / SYMBOL_SIZE,
        };
        Some(Self { base, strings, first, count: count.min(MAX_SYMBOLS) })
    }

    /// The descriptors from symbol `from` on: the symbol's number, the descriptor's address, and what is to be remembered.
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

/// The symbol of a descriptor among the dynamic symbols of a code object that is loaded at `base`.
fn in_code_object(memory: &Memory<'_>, base: u64, descriptor: u64) -> Option<Found> {
    let (_, _, found) = Symbols::of(memory, base)?.next(memory, 0, Some(descriptor))?;
    Some(found)
}

/// The code object around a descriptor: where it is loaded, and the addresses and names of at most `most` kernels of it.
pub(crate) fn kernels_beside(
    space: &AddressSpace,
    descriptor: u64,
    most: usize,
) -> Option<(u64, Vec<(u64, String)>)> {
    let memory = |address: u64, bytes: &mut [u8]| space.read_bytes(address, bytes).is_ok();
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

/// The name of the kernel whose first instruction is at an address, of the code object that is loaded around it.
pub(crate) fn kernel_at(space: &AddressSpace, entry: u64) -> Option<String> {
    descriptor_of(space, entry).map(|(_, name)| name)
}

/// The address of the descriptor of a kernel whose first instruction is at an address, and its name; the instruction may be the one
/// that waves begin with whose arguments are in registers.
fn descriptor_of(space: &AddressSpace, entry: u64) -> Option<(u64, String)> {
    let memory = |address: u64, bytes: &mut [u8]| space.read_bytes(address, bytes).is_ok();
    let mut base = entry & !(PAGE - 1);
    for _ in 0..MAX_PAGES {
        let magic: [u8; 6] = bytes(&memory, base)?;
        if magic == *b"\x7fELF\x02\x01" && half(&memory, base + 18)? == MACHINE {
            let symbols = Symbols::of(&memory, base)?;
            let mut from = 0;
            while let Some((index, address, found)) = symbols.next(&memory, from, None) {
                // `kernel_code_entry_byte_offset`.
                let offset = long(&memory, address.checked_add(16)?)?;
                let first = address.wrapping_add(offset);
                let preloads = || {
                    let preload: Option<[u8; 2]> = bytes(&memory, address.wrapping_add(58));
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

/// Tells what checks or counts what kernels do what one is called.
pub(crate) fn name_for_probes(shader: &ShaderEngine, space: &AddressSpace, entry: u64) {
    if let Some(profiler) = shader.profiler() {
        profiler.name_kernel(space.context(), entry, || {
            let Some((address, name)) = descriptor_of(space, entry) else { return Named::default() };
            let descriptor: Option<KernelDescriptor> = space.read(address).ok();
            // Elsewhere every wave has all of them. A unit of the field is 8, but they come in 16 (AMDGPUUsage, "compute_pgm_rsrc1").
            let sgprs = descriptor.filter(|_| shader.chip().kernel.allocates_sgprs).map(|descriptor| {
                (descriptor.compute_pgm_rsrc1.granulated_wavefront_sgpr_count() / 2 + 1) * 16
            });
            Named { name, descriptor: Some(address), sgprs }
        });
    }
    if let Some(sanitizer) = shader.sanitizer() {
        sanitizer.name_kernel(space.context(), entry, || {
            let (descriptor, name) = descriptor_of(space, entry).unzip();
            sanitize::Named { name: name.unwrap_or_default().into(), descriptor }
        });
    }
}

/// A string of a string table; nothing if it is none, or too long.
fn text(memory: &Memory<'_>, from: u64) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < MAX_NAME {
        match bytes(memory, from.checked_add(text.len() as u64)?)? {
            [0] => return String::from_utf8(text).ok(),
            [byte] => text.push(byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 0x7f00_0000_0000;
    /// Where the image has its parts.
    const DYNAMIC: usize = 0x200;
    const HASH: usize = 0x300;
    const SYMBOLS: usize = 0x400;
    const STRINGS: usize = 0x500;
    const DESCRIPTOR: usize = 0x1840;

    fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A code object in memory, with a symbol that is no descriptor's and one that is.
    fn image(name: &str) -> Vec<u8> {
        let mut image = vec![0; 0x2000];
        put(&mut image, 0, b"\x7fELF\x02\x01");
        put(&mut image, 18, &MACHINE.to_le_bytes());
        put(&mut image, 32, &0x40u64.to_le_bytes());
        put(&mut image, 54, &[56, 0, 2, 0]);
        put(&mut image, 0x40 + 56, &PT_DYNAMIC.to_le_bytes());
        put(&mut image, 0x40 + 56 + 16, &(DYNAMIC as u64).to_le_bytes());
        for (index, (tag, value)) in
            [(DT_HASH, HASH), (DT_STRTAB, STRINGS), (DT_SYMTAB, SYMBOLS)].into_iter().enumerate()
        {
            put(&mut image, DYNAMIC + index * 16, &tag.to_le_bytes());
            put(&mut image, DYNAMIC + index * 16 + 8, &(value as u64).to_le_bytes());
        }
        put(&mut image, HASH, &[1, 0, 0, 0, 3, 0, 0, 0]);
        put(&mut image, SYMBOLS + 24, &[1]);
        put(&mut image, SYMBOLS + 24 + 8, &(DESCRIPTOR as u64).to_le_bytes());
        put(&mut image, SYMBOLS + 48, &[8]);
        put(&mut image, SYMBOLS + 48 + 8, &(DESCRIPTOR as u64).to_le_bytes());
        put(&mut image, STRINGS + 1, b"object");
        put(&mut image, STRINGS + 8, name.as_bytes());
        image
    }

    fn name(names: &mut KernelNames, image: &[u8], descriptor: u64) -> String {
        let memory = |address: u64, bytes: &mut [u8]| {
            let from = address.checked_sub(BASE).and_then(|from| usize::try_from(from).ok());
            let part = from.and_then(|from| image.get(from..)?.get(..bytes.len()));
            part.inspect(|part| bytes.copy_from_slice(part)).is_some()
        };
        names.get_in(&memory, descriptor).to_owned()
    }

    #[test]
    fn name_is_that_of_the_descriptors_symbol_as_long_as_it_is_there() {
        let mut names = KernelNames::default();
        let descriptor = BASE + DESCRIPTOR as u64;
        let first = image("vecadd.kd");
        assert_eq!(name(&mut names, &first, descriptor), "vecadd");
        assert_eq!(name(&mut names, &first, descriptor), "vecadd");
        assert_eq!(name(&mut names, &first, descriptor + 64), "");
        assert_eq!(name(&mut names, &first, BASE - 64), "", "not mapped");
        // Another code object takes the place.
        let mut second = image("scale.kd");
        put(&mut second, SYMBOLS + 48 + 16, &[64]);
        assert_eq!(name(&mut names, &second, descriptor), "scale");
        // Without the hash table there are as many as fit in front of the strings.
        let mut third = image("third.kd");
        put(&mut third, DYNAMIC, &0x7777u64.to_le_bytes());
        assert_eq!(name(&mut names, &third, descriptor), "third");
        let unnamed = image("no-descriptor");
        assert_eq!(name(&mut KernelNames::default(), &unnamed, descriptor), "");
    }

    proptest! {
        /// What a program has there instead of a code object is no name, and takes a bounded time.
        #[test]
        fn any_image_is_looked_at(changes in proptest::collection::vec((0usize..0x600, any::<u8>()), 1..40)) {
            let mut image = image("vecadd.kd");
            for (at, byte) in changes {
                image[at] = byte;
            }
            let _ = name(&mut KernelNames::default(), &image, BASE + DESCRIPTOR as u64);
            let _ = name(&mut KernelNames::default(), &image, u64::MAX);
        }
    }
}
