//! The ELF half of a code object: segments, symbols, relocations, and the note that holds the metadata.

use std::collections::HashMap;

use belfry_abi::kernel_descriptor::{KERNEL_DESCRIPTOR_ALIGN, KernelDescriptor};
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::StringTable;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, Sym as _};
use zerocopy::FromBytes;

use super::{CodeObjectError, KernelInfo, MAX_IMAGE};

/// `NT_AMDGPU_METADATA` of owner `AMDGPU`.
const NT_AMDGPU_METADATA: u32 = 32;
/// `ELFOSABI_AMDGPU_HSA`.
const ELFOSABI_AMDGPU_HSA: u8 = 64;
/// ELF ABI versions of code objects 4, 5 and 6.
const ABI_VERSIONS: std::ops::RangeInclusive<u8> = 2..=4;

/// `R_AMDGPU_*`, LLVM "User Guide for AMDGPU Backend", Relocation Records.
const R_AMDGPU_NONE: u32 = 0;
const R_AMDGPU_ABS32_LO: u32 = 1;
const R_AMDGPU_ABS32_HI: u32 = 2;
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_REL32: u32 = 4;
const R_AMDGPU_REL64: u32 = 5;
const R_AMDGPU_ABS32: u32 = 6;
const R_AMDGPU_RELATIVE64: u32 = 13;

/// Contents of one parsed file.
pub(super) struct Parsed {
    pub(super) target: String,
    pub(super) image: Vec<u8>,
    pub(super) relocations: Vec<Relocation>,
    /// Addresses in the image, by name.
    pub(super) symbols: HashMap<String, u64>,
    /// The MessagePack bytes.
    pub(super) metadata: Vec<u8>,
}

/// One dynamic relocation whose symbol is resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    kind: u32,
    address: u64,
    /// Symbol value plus addend, relative to the load address.
    value: u64,
}

impl Relocation {
    #[cfg(test)]
    pub(super) fn for_test(kind: u32, address: u64, value: u64) -> Self {
        Self { kind, address, value }
    }

    #[cfg(test)]
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Writes the relocated field into an image that will be loaded at `base`.
    pub(super) fn apply(&self, image: &mut [u8], base: u64) -> Result<(), CodeObjectError> {
        let place = base.wrapping_add(self.address);
        let absolute = base.wrapping_add(self.value);
        let bytes = absolute.to_le_bytes();
        let relative = absolute.wrapping_sub(place).to_le_bytes();
        let field: &[u8] = match self.kind {
            R_AMDGPU_ABS32_LO | R_AMDGPU_ABS32 => &bytes[..4],
            R_AMDGPU_ABS32_HI => &bytes[4..],
            R_AMDGPU_ABS64 | R_AMDGPU_RELATIVE64 => &bytes,
            R_AMDGPU_REL32 => &relative[..4],
            R_AMDGPU_REL64 => &relative,
            kind => return Err(CodeObjectError::Relocation { kind, address: self.address }),
        };
        slice_mut(image, "relocation", self.address, field.len() as u64)?.copy_from_slice(field);
        Ok(())
    }
}

fn elf_error(error: object::read::Error) -> CodeObjectError {
    CodeObjectError::Elf(error.to_string())
}

/// Reads everything this loader needs from an ELF file.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, CodeObjectError> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(elf_error)?;
    let header: &FileHeader64<LittleEndian> = file.elf_header();
    let endian = LittleEndian;
    let target = target(header)?;
    if header.e_type(endian) != elf::ET_DYN {
        return Err(CodeObjectError::NotAmdGpu(format!(
            "ELF type {} is not a linked code object (a shared object): link it with lld",
            header.e_type(endian).0
        )));
    }
    let segments = header.program_headers(endian, bytes).map_err(elf_error)?;
    let image = image(segments, bytes)?;
    let metadata = metadata_note(segments, bytes)?;
    let (symbols, relocations) = dynamic(segments, bytes, &image)?;
    Ok(Parsed { target, image, relocations, symbols, metadata })
}

/// Checks that the file is a code object, and names its processor.
fn target(header: &FileHeader64<LittleEndian>) -> Result<String, CodeObjectError> {
    let endian = LittleEndian;
    let machine = header.e_machine(endian);
    if machine != elf::EM_AMDGPU {
        return Err(CodeObjectError::NotAmdGpu(format!("ELF machine {} is not EM_AMDGPU (224)", machine.0)));
    }
    let ident = header.e_ident();
    if ident.os_abi.0 != ELFOSABI_AMDGPU_HSA {
        return Err(CodeObjectError::NotAmdGpu(format!(
            "ELF OS/ABI {} is not AMDGPU HSA (64): compile with -target amdgcn-amd-amdhsa",
            ident.os_abi.0
        )));
    }
    if !ABI_VERSIONS.contains(&ident.abi_version) {
        return Err(CodeObjectError::Version(ident.abi_version));
    }
    let mach = header.e_flags(endian).0 & 0xff;
    let known = super::processors::name(mach).map(str::to_owned);
    Ok(known.unwrap_or_else(|| format!("an unknown processor (EF_AMDGPU_MACH {mach:#x})")))
}

/// Places the loadable segments at their addresses.
fn image(segments: &[elf::ProgramHeader64<LittleEndian>], bytes: &[u8]) -> Result<Vec<u8>, CodeObjectError> {
    let endian = LittleEndian;
    let loadable = || segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let mut size = 0u64;
    for segment in loadable() {
        let (address, length) = (segment.p_vaddr(endian), segment.p_memsz(endian));
        let end = address.checked_add(length).ok_or(CodeObjectError::OutOfRange {
            what: "a segment",
            address,
            size: length,
        })?;
        size = size.max(end);
    }
    if size > MAX_IMAGE {
        return Err(CodeObjectError::TooLarge(size));
    }
    if size == 0 {
        return Err(CodeObjectError::NotAmdGpu("it has no loadable segment".into()));
    }
    let mut image = vec![0; size as usize];
    for segment in loadable() {
        let (offset, length) = (segment.p_offset(endian), segment.p_filesz(endian));
        let out_of_range = CodeObjectError::OutOfRange { what: "a segment", address: offset, size: length };
        if length > segment.p_memsz(endian) {
            return Err(out_of_range);
        }
        let source = slice(bytes, offset, length).ok_or(out_of_range)?;
        slice_mut(&mut image, "a segment", segment.p_vaddr(endian), length)?.copy_from_slice(source);
    }
    Ok(image)
}

/// Finds the MessagePack note.
fn metadata_note(
    segments: &[elf::ProgramHeader64<LittleEndian>],
    bytes: &[u8],
) -> Result<Vec<u8>, CodeObjectError> {
    for segment in segments {
        let Some(mut notes) = segment.notes(LittleEndian, bytes).map_err(elf_error)? else { continue };
        while let Some(note) = notes.next().map_err(elf_error)? {
            if note.name() == b"AMDGPU" && note.n_type(LittleEndian).0 == NT_AMDGPU_METADATA {
                return Ok(note.desc().to_vec());
            }
        }
    }
    Err(CodeObjectError::Metadata("there is no AMDGPU metadata note".into()))
}

/// The dynamic table's entries this loader follows, as image addresses and sizes.
#[derive(Default)]
struct Dynamic {
    symtab: Option<u64>,
    strtab: Option<u64>,
    strsz: u64,
    hash: Option<u64>,
    rela: Option<u64>,
    relasz: u64,
}

/// Symbols and relocations, through the dynamic table: section headers may have been stripped.
fn dynamic(
    segments: &[elf::ProgramHeader64<LittleEndian>],
    bytes: &[u8],
    image: &[u8],
) -> Result<(HashMap<String, u64>, Vec<Relocation>), CodeObjectError> {
    let endian = LittleEndian;
    let mut table = Dynamic::default();
    for segment in segments {
        let Some(entries) = segment.dynamic(endian, bytes).map_err(elf_error)? else { continue };
        for entry in entries {
            let value = entry.d_val(endian);
            match entry.d_tag(endian) {
                elf::DT_NULL => break,
                elf::DT_SYMTAB => table.symtab = Some(value),
                elf::DT_STRTAB => table.strtab = Some(value),
                elf::DT_STRSZ => table.strsz = value,
                elf::DT_HASH => table.hash = Some(value),
                elf::DT_RELA => table.rela = Some(value),
                elf::DT_RELASZ => table.relasz = value,
                elf::DT_REL | elf::DT_JMPREL => {
                    return Err(CodeObjectError::Elf("only RELA relocations are supported".into()));
                }
                _ => {}
            }
        }
    }
    let (symbols, strings) = symbol_table(&table, image)?;
    let strings = StringTable::new(strings, 0, strings.len() as u64);
    let mut by_name = HashMap::new();
    for symbol in symbols {
        if symbol.st_shndx(endian) == elf::SHN_UNDEF {
            continue;
        }
        let name = symbol.name(endian, strings).map_err(elf_error)?;
        if let Ok(name) = std::str::from_utf8(name) {
            by_name.insert(name.to_owned(), symbol.st_value(endian));
        }
    }
    let relocations = relocations(&table, image, symbols, strings)?;
    Ok((by_name, relocations))
}

type Symbols<'a> = &'a [elf::Sym64<LittleEndian>];

fn symbol_table<'a>(table: &Dynamic, image: &'a [u8]) -> Result<(Symbols<'a>, &'a [u8]), CodeObjectError> {
    let (Some(symtab), Some(strtab), Some(hash)) = (table.symtab, table.strtab, table.hash) else {
        return Ok((&[], &[]));
    };
    // The second word of the System V hash table is the number of symbols; nothing else says it.
    let count = slice(image, hash, 8)
        .and_then(|words| u32::read_from_prefix(&words[4..]).ok())
        .map(|(count, _)| u64::from(count))
        .ok_or(CodeObjectError::OutOfRange { what: "the symbol hash table", address: hash, size: 8 })?;
    let size = count * size_of::<elf::Sym64<LittleEndian>>() as u64;
    let out_of_range = CodeObjectError::OutOfRange { what: "the symbol table", address: symtab, size };
    let symbols = slice(image, symtab, size).ok_or(out_of_range.clone())?;
    let (symbols, _) = object::pod::slice_from_bytes(symbols, count as usize).map_err(|()| out_of_range)?;
    let strings = slice(image, strtab, table.strsz).ok_or(CodeObjectError::OutOfRange {
        what: "the string table",
        address: strtab,
        size: table.strsz,
    })?;
    Ok((symbols, strings))
}

fn relocations(
    table: &Dynamic,
    image: &[u8],
    symbols: Symbols<'_>,
    strings: StringTable<'_>,
) -> Result<Vec<Relocation>, CodeObjectError> {
    let endian = LittleEndian;
    let Some(rela) = table.rela else { return Ok(Vec::new()) };
    let out_of_range =
        CodeObjectError::OutOfRange { what: "the relocation table", address: rela, size: table.relasz };
    let entry_size = size_of::<elf::Rela64<LittleEndian>>();
    let bytes = slice(image, rela, table.relasz).ok_or(out_of_range.clone())?;
    let (entries, _) =
        object::pod::slice_from_bytes::<elf::Rela64<LittleEndian>>(bytes, bytes.len() / entry_size)
            .map_err(|()| out_of_range)?;
    let mut relocations = Vec::with_capacity(entries.len());
    for entry in entries {
        let (kind, address) = (entry.r_type(endian, false).0, entry.r_offset(endian));
        let size = match kind {
            R_AMDGPU_NONE => continue,
            R_AMDGPU_ABS32_LO | R_AMDGPU_ABS32_HI | R_AMDGPU_ABS32 | R_AMDGPU_REL32 => 4,
            R_AMDGPU_ABS64 | R_AMDGPU_REL64 | R_AMDGPU_RELATIVE64 => 8,
            kind => return Err(CodeObjectError::Relocation { kind, address }),
        };
        if slice(image, address, size).is_none() {
            return Err(CodeObjectError::OutOfRange { what: "a relocation", address, size });
        }
        let symbol = match entry.symbol(endian, false) {
            None => 0,
            Some(index) => {
                let symbol = symbols.get(index.0).ok_or(CodeObjectError::OutOfRange {
                    what: "a relocation's symbol",
                    address: index.0 as u64,
                    size: 1,
                })?;
                if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                    let name = symbol.name(endian, strings).map_err(elf_error)?;
                    return Err(CodeObjectError::Undefined(String::from_utf8_lossy(name).into_owned()));
                }
                symbol.st_value(endian)
            }
        };
        let value = symbol.wrapping_add_signed(entry.r_addend(endian));
        relocations.push(Relocation { kind, address, value });
    }
    Ok(relocations)
}

/// Checks that a kernel's descriptor and its entry point lie inside the image, and agrees with the metadata.
pub(super) fn check_descriptor(image: &[u8], kernel: &KernelInfo) -> Result<(), CodeObjectError> {
    let address = kernel.descriptor;
    let size = size_of::<KernelDescriptor>() as u64;
    let out_of_range = CodeObjectError::OutOfRange { what: "a kernel descriptor", address, size };
    if !address.is_multiple_of(KERNEL_DESCRIPTOR_ALIGN) {
        return Err(out_of_range);
    }
    let bytes = slice(image, address, size).ok_or(out_of_range)?;
    let Ok(descriptor) = KernelDescriptor::read_from_bytes(bytes) else {
        return Err(CodeObjectError::Metadata("unreadable kernel descriptor".into()));
    };
    let entry = address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    if entry >= image.len() as u64 {
        return Err(CodeObjectError::OutOfRange { what: "a kernel's entry point", address: entry, size: 4 });
    }
    Ok(())
}

fn slice(bytes: &[u8], start: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

fn slice_mut<'a>(
    bytes: &'a mut [u8],
    what: &'static str,
    address: u64,
    size: u64,
) -> Result<&'a mut [u8], CodeObjectError> {
    usize::try_from(address)
        .ok()
        .zip(usize::try_from(size).ok())
        .and_then(|(start, size)| bytes.get_mut(start..start.checked_add(size)?))
        .ok_or(CodeObjectError::OutOfRange { what, address, size })
}
