//! A reader of VBIOS images, by the rules of Linux (`drivers/pci/rom.c`, `amdgpu_bios.c`, `atom.c`, `amdgpu_atomfirmware.c`).

use super::{
    ASIC_INIT, BLOCK, END, FIRMWARE_INFO, GFX_INFO, INDIRECT_IO_ACCESS, SMC_DPM_INFO, UMC_INFO, VRAM_INFO,
};

/// Contents of an image.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) vendor: u16,
    pub(super) device: u16,
    pub(super) part_number: String,
    /// First register of notes.
    pub(super) scratch: u32,
    pub(super) capabilities: u32,
    pub(super) reserved_kib: u32,
    pub(super) golden_tsc_10khz: u32,
    /// Width of the memory's bus.
    pub(super) memory_bits: u32,
    /// `ATOM_DGPU_VRAM_TYPE_*`.
    pub(super) memory_kind: u8,
}

/// Byte that begins a program for indirect accesses (`ATOM_IIO_START`).
const IIO_START: u8 = 1;

fn word(image: &[u8], at: usize) -> Option<u16> {
    image.get(at..)?.first_chunk().map(|&bytes| u16::from_le_bytes(bytes))
}

fn dword(image: &[u8], at: usize) -> Option<u32> {
    image.get(at..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
}

fn has(image: &[u8], at: usize, bytes: &[u8]) -> Option<()> {
    image.get(at..)?.starts_with(bytes).then_some(())
}

/// A table: its place, its revision, and its bytes within the image.
struct Table<'a> {
    revision: (u8, u8),
    bytes: &'a [u8],
}

fn table(image: &[u8], list: usize, number: usize) -> Option<Table<'_>> {
    let at = usize::from(word(image, list + 4 + 2 * number)?);
    if at == 0 {
        return None;
    }
    let bytes = image.get(at..at + usize::from(word(image, at)?))?;
    Some(Table { revision: (*bytes.get(2)?, *bytes.get(3)?), bytes })
}

/// Width and kind of the memory (`amdgpu_atomfirmware_get_vram_info`), in the table that the chip's generation has.
fn memory(image: &[u8], list: usize) -> Option<(u32, u8)> {
    if let Some(info) = table(image, list, VRAM_INFO).filter(|table| table.revision == (3, 0)) {
        return Some((u32::from(*info.bytes.get(25)?) * 16, *info.bytes.get(24)?));
    }
    let info = table(image, list, UMC_INFO).filter(|table| table.revision == (4, 0))?;
    Some((u32::from(*info.bytes.get(64)?) << info.bytes.get(65)?, *info.bytes.get(26)?))
}

/// Reads an image; `None` if a driver would not take it.
pub(super) fn read(image: &[u8]) -> Option<Read> {
    has(image, 0, &[0x55, 0xaa])?;
    let length = usize::from(*image.get(2)?) * BLOCK;
    has(image, 0x30, b" 761295520")?;
    let pci = usize::from(word(image, 0x18)?);
    has(image, pci, b"PCIR")?;
    if length != image.len() || usize::from(word(image, pci + 0x10)?) * BLOCK != length {
        return None;
    }
    let is_last = image.get(pci + 0x15)? & 0x80 != 0;
    let header = usize::from(word(image, 0x48)?);
    has(image, header + 4, b"ATOM")?;
    let commands = usize::from(word(image, header + 0x1e)?);
    let list = usize::from(word(image, header + 0x20)?);
    // `amdgpu_atomfirmware_asic_init`: a program of this revision, which has to end.
    let init =
        table(image, commands, ASIC_INIT).filter(|table| table.revision.0 == 2 && table.revision.1 >= 1)?;
    if init.bytes.get(4..) != Some(&[0, 0, END]) || commands + usize::from(word(image, commands)?) > list {
        return None;
    }
    let indirect = usize::from(word(image, list + 4 + 2 * INDIRECT_IO_ACCESS)?);
    if !is_last || *image.get(indirect + 4)? == IIO_START {
        return None;
    }
    let firmware = table(image, list, FIRMWARE_INFO).filter(|table| table.revision == (3, 4))?;
    let gfx = table(image, list, GFX_INFO).filter(|table| table.revision == (3, 0))?;
    table(image, list, SMC_DPM_INFO)?;
    let (memory_bits, memory_kind) = memory(image, list)?;
    let name = image.get(0x80..0xa0)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    // Without a part number a driver searches for the text, and fails badly without it.
    let search = image.get(3..1024)?.windows(8).any(|text| text == b"ATOMBIOS");
    if end == 0 && !search {
        return None;
    }
    Some(Read {
        vendor: word(image, pci + 4)?,
        device: word(image, pci + 6)?,
        part_number: String::from_utf8(name[..end].to_vec()).ok()?,
        scratch: dword(firmware.bytes, 24)?,
        capabilities: dword(firmware.bytes, 16)?,
        reserved_kib: dword(firmware.bytes, 84)?,
        golden_tsc_10khz: dword(gfx.bytes, 40)?,
        memory_bits,
        memory_kind,
    })
}
