//! The VBIOS: an image made here, with the tables that a driver reads, and one program that does nothing.
//!
//! | offset | contents |
//! | --- | --- |
//! | 0 | signature, length, identification |
//! | 0x1c0 | PCI data structure |
//! | 0x200 | header of the ROM |
//! | 0x260, 0x320 | lists of command tables and of data tables |
//! | 0x370 | the command table `asic_init`, which ends at once: the card needs no start |
//! | 0x380 | data tables |
//!
//! Layouts: PCI Firmware 3.0 section 5.1 (the PCI data structure); Linux `drivers/gpu/drm/amd/include/atombios.h`
//! (`ATOM_ROM_HEADER`) and `atomfirmware.h` (`atom_master_data_table_v2_1`, `atom_firmware_info_v3_4`,
//! `atom_smc_dpm_info`, `atom_gfx_info_v3_0`, `atom_vram_info_header_v3_0`, `atom_umc_info_v4_0`); texts: `amdgpu/atom.c`.

#[cfg(test)]
mod reader;

use belfry_abi::pci;

use super::{BoardMemory, MemoryTable, Spec};
use crate::chip::Identity;

/// Bytes of the image.
const SIZE: usize = 4096;
/// Unit of lengths in the image's headers, in bytes.
const BLOCK: usize = 512;
/// Number of data tables of a list (`atom_master_list_of_data_tables_v2_1`).
const DATA_TABLES: usize = 35;
/// Number of command tables of a list (`atom_master_list_of_command_functions_v2_1`).
const COMMAND_TABLES: usize = 83;

const SMC_DPM_INFO: usize = 2;
const FIRMWARE_INFO: usize = 4;
const GFX_INFO: usize = 14;
const INDIRECT_IO_ACCESS: usize = 23;
const UMC_INFO: usize = 24;
const VRAM_INFO: usize = 28;

const PCI_DATA: usize = 0x1c0;
const ROM_HEADER: usize = 0x200;
const COMMANDS: usize = 0x260;
const DATA: usize = 0x320;
const _: () = assert!(COMMANDS + 4 + 2 * COMMAND_TABLES <= DATA && DATA + 4 + 2 * DATA_TABLES <= 0x370);
/// Number of the command table `asic_init`, which drivers run after a reset (`ATOM_CMD_INIT`).
const ASIC_INIT: usize = 0;
/// Ends a program (`ATOM_OP_EOT`).
const END: u8 = 91;
/// `mmBIOS_SCRATCH_0`: the first of the registers that firmware and drivers leave notes in.
const BIOS_SCRATCH: u32 = 0x4c;
/// Dword of `GOLDEN_TSC_COUNT_LOWER`.
const GOLDEN_TSC: u32 = 0x1_6a2e;
/// Frequency of the golden counter in units of 10 kHz: 100 MHz.
const GOLDEN_TSC_10KHZ: u32 = 10_000;
/// VRAM at the top that drivers leave alone, in KiB: the discovery table is there.
const RESERVED_KIB: u32 = 2048;
/// Bytes of `BoardTable_t` of SMU 13.0.0; 0 is a board with nothing that is connected.
const BOARD_TABLE: usize = 488;

/// Kind of the memory: GDDR6 (`ATOM_DGPU_VRAM_TYPE_GDDR6`).
const GDDR6: u8 = 0x70;
/// Logarithm of the bits of a channel.
const CHANNEL_WIDTH: u8 = 4;

/// An image under construction.
struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u16).to_le_bytes());
    }

    /// Places a data table: `atom_common_table_header`, then its content.
    fn table(&mut self, number: usize, at: usize, (format, content): (u8, u8), bytes: &[u8]) {
        self.put16(DATA + 4 + 2 * number, at);
        self.put16(at, 4 + bytes.len());
        self.put(at + 2, &[format, content]);
        self.put(at + 4, bytes);
    }
}

fn dwords(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Makes the image of a chip.
pub(super) fn image(spec: &Spec) -> Vec<u8> {
    let mut image = Image(vec![0; SIZE]);
    let Identity { device, .. } = spec.identity;
    let blocks = (SIZE / BLOCK) as u8;
    image.put(0, &[0x55, 0xaa, blocks]);
    image.put16(0x18, PCI_DATA);
    image.put(0x2f, &[1]);
    image.put(0x30, b" 761295520");
    image.put16(0x48, ROM_HEADER);
    image.put(0x50, b"01/01/26 00:00\0");
    image.put16(0x6e, 0xa0);
    image.put(0x80, pci::VbiosPartNumber(device).to_string().as_bytes());
    image.put(0xa0, b"BELFRY\0\r\nBelfry GPU in software\0");
    // A driver that finds no part number looks for this text, and for nothing else.
    image.put(0xe0, b"ATOMBIOSBK-AMD VER022.001.000.000.000001\0");
    pci_data(&mut image, device, blocks);
    image.put16(ROM_HEADER, 0x28);
    image.put(ROM_HEADER + 2, &[2, 2]);
    image.put(ROM_HEADER + 4, b"ATOM");
    image.put16(ROM_HEADER + 0x1e, COMMANDS);
    image.put16(ROM_HEADER + 0x20, DATA);
    image.put16(COMMANDS, 4 + 2 * COMMAND_TABLES);
    image.put(COMMANDS + 2, &[2, 1]);
    let program = 0x370;
    image.put16(COMMANDS + 4 + 2 * ASIC_INIT, program);
    // Its length, its revision, no words of its own, no parameters that it hands on, and its code.
    image.put(program, &[7, 0, 2, 1, 0, 0, END]);
    image.put16(DATA, 4 + 2 * DATA_TABLES);
    image.put(DATA + 2, &[2, 1]);
    image.table(INDIRECT_IO_ACCESS, 0x380, (1, 1), &[]);
    image.table(FIRMWARE_INFO, 0x3a0, (3, 4), &firmware_info());
    image.table(SMC_DPM_INFO, 0x500, (5, 0), &[0; BOARD_TABLE]);
    image.table(GFX_INFO, 0x700, (3, 0), &gfx_info(spec.shader_engines));
    if let Some(memory) = spec.memory {
        match memory.table {
            MemoryTable::VramInfo => image.table(VRAM_INFO, 0x800, (3, 0), &vram_info(memory)),
            MemoryTable::UmcInfo => image.table(UMC_INFO, 0x800, (4, 0), &umc_info(memory)),
        }
    }
    image.0
}

fn pci_data(image: &mut Image, device: u16, blocks: u8) {
    image.put(PCI_DATA, b"PCIR");
    image.put16(PCI_DATA + 4, pci::VENDOR_ID.into());
    image.put16(PCI_DATA + 6, device.into());
    image.put16(PCI_DATA + 0xa, 0x18);
    image.put(PCI_DATA + 0xd, &[0, 0x80, 0x03]);
    image.put16(PCI_DATA + 0x10, blocks.into());
    // The last image.
    image.put(PCI_DATA + 0x15, &[0x80]);
}

/// `atom_firmware_info_v3_4` after its header: clocks that the card has at its start, and no capabilities.
fn firmware_info() -> Vec<u8> {
    let mut info = dwords(&[
        0x1600_0000,  // firmware_revision
        50_000,       // bootup_sclk_in10khz
        9_600,        // bootup_mclk_in10khz
        0,            // firmware_capability
        0,            // main_call_parser_entry
        BIOS_SCRATCH, // bios_scratch_reg_startaddr
    ]);
    // bootup_vddc_mv, bootup_vddci_mv, bootup_mvddc_mv, bootup_vddgfx_mv.
    info.extend([800u16, 800, 1350, 800].iter().flat_map(|value| value.to_le_bytes()));
    // Up to mc_baseaddr_low and _high, from board_i2c_feature_id to zfb_startaddr_in_16mb; then pplib_pptable_id and the
    // reserved words before fw_reserved_size_in_kb.
    info.resize(84 - 4, 0);
    info.extend(dwords(&[RESERVED_KIB]));
    info.resize(108 - 4, 0);
    info
}

/// `atom_gfx_info_v3_0` after its header.
fn gfx_info(shader_engines: u32) -> Vec<u8> {
    // gfxip_min_ver, gfxip_max_ver, max_shader_engines, max_tile_pipes, max_cu_per_sh, max_sh_per_se, max_backends_per_se,
    // max_texture_channel_caches.
    let mut info = vec![11, 11, shader_engines as u8, 16, 8, 2, 4, 24];
    info.extend(dwords(&[0, 0, 0, 0, 0, 0, GOLDEN_TSC, GOLDEN_TSC_10KHZ]));
    info.resize(0x84, 0);
    info
}

/// `atom_vram_info_header_v3_0` after its header: the memory's kind and width. No chips are named, and no table says how to train them.
fn vram_info(memory: BoardMemory) -> Vec<u8> {
    let mut info = vec![0; 20 - 4];
    // vram_module_num, umcip_min_ver, umcip_max_ver, mc_phy_tile_num, memory_type, channel_num, channel_width, reserved1.
    info.extend([1, 0, 0, 0, GDDR6, memory.channels, CHANNEL_WIDTH, 0]);
    info.extend(dwords(&[u32::MAX >> (32 - u32::from(memory.channels))]));
    // Up to and with eight `atom_vram_module_v3_0`.
    info.resize(608 - 4, 0);
    info
}

/// `atom_umc_info_v4_0` after its header: the same, and no ECC.
fn umc_info(memory: BoardMemory) -> Vec<u8> {
    let mut info = vec![0; 26 - 4];
    info.push(GDDR6);
    info.resize(64 - 4, 0);
    info.extend([memory.channels, CHANNEL_WIDTH]);
    info.resize(84 - 4, 0);
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{Chip as _, gfx942, gfx1100, gfx1201};

    #[test]
    fn image_is_read_as_linux_reads_it() {
        for (chip, device, memory_bits) in [(gfx1100::chip(8), 0x744c, 384), (gfx1201::chip(8), 0x7550, 256)]
        {
            let image = chip.vbios().expect("it has one");
            let read = reader::read(&image).expect("well formed");
            assert_eq!((read.vendor, read.device), (0x1002, device));
            assert_eq!(read.part_number, format!("BELFRY-{device:04X}"));
            assert_eq!(read.scratch, BIOS_SCRATCH);
            assert_eq!(read.capabilities, 0, "nothing to train or to correct");
            assert_eq!(read.reserved_kib, RESERVED_KIB);
            assert_eq!(read.golden_tsc_10khz, GOLDEN_TSC_10KHZ);
            assert_eq!((read.memory_bits, read.memory_kind), (memory_bits, GDDR6));
        }
        assert!(gfx942::chip(gfx942::WHOLE).vbios().is_none(), "no image is made for it");
    }

    #[test]
    fn damaged_images_are_refused() {
        let image = gfx1100::chip(8).vbios().expect("it has one");
        for at in [
            0,
            2,
            0x30,
            0x48,
            0x18,
            PCI_DATA,
            ROM_HEADER + 4,
            ROM_HEADER + 0x20,
            COMMANDS + 1,
            0x372,
            0x376,
            DATA + 4 + 8,
            0x3a2,
        ] {
            let mut damaged = image.clone();
            damaged[at] ^= 0xff;
            assert!(reader::read(&damaged).is_none(), "byte {at:#x}");
        }
        assert!(reader::read(&image[..0x300]).is_none());
    }
}
