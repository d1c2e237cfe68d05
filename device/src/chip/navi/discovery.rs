//! The IP discovery table: the blocks of a chip, the places of their registers, and the shape of its graphics
//! core.
//!
//! Layout: Linux `drivers/gpu/drm/amd/include/discovery.h` (`binary_header`, `ip_discovery_header`, `die_header`,
//! `gpu_info_header`, `harvest_table`); everything little endian and packed, checksums are 16-bit sums of bytes.

use super::Spec;
use crate::chip::{IpBlock, Topology};

const BINARY_SIGNATURE: u32 = 0x2821_1407;
const DISCOVERY_SIGNATURE: u32 = 0x5344_5049;
const GC_SIGNATURE: u32 = 0x4347;
const HARVEST_SIGNATURE: u32 = 0x5652_4148;
const BINARY_HEADER_SIZE: u16 = 60;
const IP_HEADER_SIZE: u16 = 80;
const HARVEST_SIZE: usize = 136;

/// Caches and graphics units of a graphics core (`gc_info_v1_2`), beside its topology.
#[derive(Clone, Copy, Debug)]
pub(in crate::chip) struct GcInfo {
    /// `gc_num_rb_per_se`.
    pub(in crate::chip) render_backends: u32,
    /// `gc_num_gl2c`.
    pub(in crate::chip) gl2_channels: u32,
    /// `gc_num_sdp_interface`.
    pub(in crate::chip) sdp_interfaces: u32,
    /// `gc_gl1c_per_sa`: 0 where arrays have no cache.
    pub(in crate::chip) gl1_per_array: u32,
    /// `gc_gl1c_size_per_instance` in KiB.
    pub(in crate::chip) gl1_kib: u32,
    /// `gc_gl2c_per_gpu` in KiB.
    pub(in crate::chip) gl2_kib: u32,
}

/// Form of the table of blocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::chip) struct DieTable {
    /// `ip_discovery_header.version`.
    pub(in crate::chip) version: u16,
    /// Offset of a byte of flags and its value, if bases have 64 bits.
    pub(in crate::chip) flags: Option<(usize, u8)>,
}

/// Version 3, bases of 32 bits.
const FORM: DieTable = DieTable { version: 3, flags: None };

/// The whole table.
pub(super) fn table(spec: &Spec, topology: &Topology) -> Vec<u8> {
    binary(&[ip_table(FORM, spec.ips), gc_table(&spec.gc, topology), harvest_table(spec.ips)])
}

/// The header, and the tables of the blocks, of the graphics core and of the units that are fused off.
pub(in crate::chip) fn binary(tables: &[Vec<u8>; 3]) -> Vec<u8> {
    let total = BINARY_HEADER_SIZE + tables.iter().map(Vec::len).sum::<usize>() as u16;
    let mut rest = total.to_le_bytes().to_vec();
    let mut offset = BINARY_HEADER_SIZE;
    for part in tables {
        for field in [offset, checksum(part), part.len() as u16, 0] {
            rest.extend(field.to_le_bytes());
        }
        offset += part.len() as u16;
    }
    rest.extend([0; 24]); // VCN info, MALL and NPS tables: absent
    rest.extend(tables.concat());

    let mut binary = BINARY_SIGNATURE.to_le_bytes().to_vec();
    for field in [1, 3, checksum(&rest)] {
        binary.extend(field.to_le_bytes());
    }
    binary.extend(rest);
    binary
}

fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, &byte| sum.wrapping_add(byte.into()))
}

pub(in crate::chip) fn ip_table(form: DieTable, blocks: &[IpBlock]) -> Vec<u8> {
    let mut ips = Vec::new();
    for ip in blocks {
        ips.extend(ip.ip.0.to_le_bytes());
        ips.extend([ip.instance, ip.bases.len() as u8]);
        ips.extend(ip.version);
        ips.push(0);
        for &base in ip.bases {
            match form.flags {
                Some(_) => ips.extend(u64::from(base).to_le_bytes()),
                None => ips.extend(base.to_le_bytes()),
            }
        }
    }
    let mut table = DISCOVERY_SIGNATURE.to_le_bytes().to_vec();
    table.extend(form.version.to_le_bytes());
    table.extend((IP_HEADER_SIZE + 4 + ips.len() as u16).to_le_bytes());
    table.extend(0u32.to_le_bytes());
    table.extend(1u16.to_le_bytes()); // one die
    for field in [0, BINARY_HEADER_SIZE + IP_HEADER_SIZE] {
        table.extend(field.to_le_bytes());
    }
    table.resize(IP_HEADER_SIZE.into(), 0);
    if let Some((at, flags)) = form.flags
        && let Some(byte) = table.get_mut(at)
    {
        *byte = flags;
    }
    table.extend(0u16.to_le_bytes()); // die 0
    table.extend((blocks.len() as u16).to_le_bytes());
    table.extend(ips);
    table
}

/// `gpu_info_header` of a table with `bytes` bytes after it.
pub(in crate::chip) fn gc_header([major, minor]: [u16; 2], bytes: usize) -> Vec<u8> {
    let mut table = GC_SIGNATURE.to_le_bytes().to_vec();
    table.extend(major.to_le_bytes());
    table.extend(minor.to_le_bytes());
    table.extend((12 + bytes as u32).to_le_bytes());
    table
}

/// `gc_info_v1_2`.
fn gc_table(gc: &GcInfo, topology: &Topology) -> Vec<u8> {
    let cus = topology.wgps * 2;
    let fields = [
        topology.shader_engines,     // gc_num_se
        topology.wgps_per_array,     // gc_num_wgp0_per_sa
        0,                           // gc_num_wgp1_per_sa
        gc.render_backends,          // gc_num_rb_per_se
        gc.gl2_channels,             // gc_num_gl2c
        1536,                        // gc_num_gprs
        32,                          // gc_num_max_gs_thds
        32,                          // gc_gs_table_depth
        1792,                        // gc_gsprim_buff_depth
        1024,                        // gc_parameter_cache_depth
        1,                           // gc_double_offchip_lds_buffer
        32,                          // gc_wave_size
        16,                          // gc_max_waves_per_simd
        32,                          // gc_max_scratch_slots_per_cu
        64,                          // gc_lds_size, KiB
        2,                           // gc_num_sc_per_se
        topology.arrays_per_engine,  // gc_num_sa_per_se
        4,                           // gc_num_packer_per_sc
        4,                           // gc_num_gl2a
        topology.wgps_per_array * 2, // gc_num_tcp_per_sa
        gc.sdp_interfaces,           // gc_num_sdp_interface
        cus,                         // gc_num_tcps
        2,                           // gc_num_tcp_per_wpg
        32,                          // gc_tcp_l1_size, KiB
        1,                           // gc_num_sqc_per_wgp
        32,                          // gc_l1_instruction_cache_size_per_sqc, KiB
        16,                          // gc_l1_data_cache_size_per_sqc, KiB
        gc.gl1_per_array,            // gc_gl1c_per_sa
        gc.gl1_kib,                  // gc_gl1c_size_per_instance, KiB
        gc.gl2_kib,                  // gc_gl2c_per_gpu, KiB
    ];
    let mut table = gc_header([1, 2], fields.len() * 4);
    table.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    table
}

pub(in crate::chip) fn harvest_table(blocks: &[IpBlock]) -> Vec<u8> {
    let mut table = HARVEST_SIGNATURE.to_le_bytes().to_vec();
    table.extend(0u32.to_le_bytes());
    for block in blocks.iter().filter(|block| block.harvested) {
        table.extend(block.ip.0.to_le_bytes());
        table.extend([block.instance, 0]);
    }
    table.resize(HARVEST_SIZE, 0);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::gfx1100;

    fn u16_at(bytes: &[u8], offset: usize) -> u16 {
        u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
    }

    fn u32_at(bytes: &[u8], offset: usize) -> u32 {
        u32::from(u16_at(bytes, offset)) | u32::from(u16_at(bytes, offset + 2)) << 16
    }

    #[test]
    fn a_driver_accepts_signatures_and_checksums() {
        let topology =
            Topology { xccs: 1, shader_engines: 6, arrays_per_engine: 2, wgps_per_array: 4, wgps: 48 };
        let table = table(&gfx1100::SPEC, &topology);
        assert_eq!(table.len(), 696);
        assert_eq!(u32_at(&table, 0), BINARY_SIGNATURE);
        assert_eq!(usize::from(u16_at(&table, 10)), table.len());
        assert_eq!(u16_at(&table, 8), checksum(&table[10..]));
        for (entry, signature) in
            [DISCOVERY_SIGNATURE, GC_SIGNATURE, HARVEST_SIGNATURE].into_iter().enumerate()
        {
            let row = 12 + 8 * entry;
            let offset = usize::from(u16_at(&table, row));
            let size = usize::from(u16_at(&table, row + 4));
            assert_eq!(u32_at(&table, offset), signature);
            assert_eq!(u16_at(&table, row + 2), checksum(&table[offset..offset + size]));
        }
        assert_eq!(usize::from(u16_at(&table, 28)) + HARVEST_SIZE, table.len());
    }

    #[test]
    fn blocks_are_found_by_walking_the_die() {
        let topology =
            Topology { xccs: 1, shader_engines: 1, arrays_per_engine: 2, wgps_per_array: 2, wgps: 4 };
        let table = table(&gfx1100::SPEC, &topology);
        let die = usize::from(u16_at(&table, usize::from(BINARY_HEADER_SIZE) + 16));
        assert_eq!((u16_at(&table, die), u16_at(&table, die + 2)), (0, 13));
        let mut at = die + 4;
        let mut found = Vec::new();
        for _ in 0..13 {
            let bases = usize::from(table[at + 3]);
            found.push((u16_at(&table, at), u32_at(&table, at + 8)));
            at += 8 + 4 * bases;
        }
        assert!(
            found.contains(&(11, 0x1260))
                && found.contains(&(40, 0x10a0))
                && found.contains(&(255, 0x1_6000))
        );
    }
}
