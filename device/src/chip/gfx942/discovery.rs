//! The IP discovery table of MI300X: version 4, with bases of 64 bits, and one die that has all instances.
//!
//! Layout: Linux `drivers/gpu/drm/amd/include/discovery.h`; the parts that all chips have are in
//! [`navi::discovery`](crate::chip::navi).

use belfry_abi::discovery::{BASE_ADDR_64_BIT, FLAGS_OFFSET, GC_INFO_V2_1, GcInfoV21, VERSION_4};
use zerocopy::IntoBytes as _;

use crate::chip::navi::{DieTable, binary, gc_header, harvest_table, ip_table};
use crate::chip::{IpBlock, Topology};

/// Form of the table of blocks.
const FORM: DieTable = DieTable { version: VERSION_4, flags: Some((FLAGS_OFFSET, BASE_ADDR_64_BIT)) };

/// The whole table.
pub(super) fn table(ips: &[IpBlock], topology: &Topology) -> Vec<u8> {
    table_of(ips, topology, super::shader::RULES.lds)
}

/// The table of a chip whose compute units have this many bytes of LDS.
pub(in crate::chip) fn table_of(ips: &[IpBlock], topology: &Topology, lds: u32) -> Vec<u8> {
    binary(&[ip_table(FORM, ips), gc_table(topology, lds), harvest_table(ips)])
}

/// `gc_info_v2_1`, of one XCC.
fn gc_table(topology: &Topology, lds: u32) -> Vec<u8> {
    let info = GcInfoV21 {
        gc_num_se: topology.shader_engines,
        gc_num_cu_per_sh: topology.wgps_per_array,
        gc_num_sh_per_se: topology.arrays_per_engine,
        gc_num_rb_per_se: 0,
        gc_num_tccs: 16,
        gc_num_gprs: 512,
        gc_num_max_gs_thds: 32,
        gc_gs_table_depth: 32,
        gc_gsprim_buff_depth: 1792,
        gc_parameter_cache_depth: 1024,
        gc_double_offchip_lds_buffer: 1,
        gc_wave_size: 64,
        gc_max_waves_per_simd: 8,
        gc_max_scratch_slots_per_cu: 32,
        gc_lds_size: lds >> 10,
        gc_num_sc_per_se: 1,
        gc_num_packer_per_sc: 4,
        gc_num_tcp_per_sh: topology.wgps_per_array,
        gc_tcp_size_per_cu: 32,
        gc_num_sdp_interface: 16,
        gc_num_cu_per_sqc: 2,
        gc_instruction_cache_size_per_sqc: 64,
        gc_scalar_data_cache_size_per_sqc: 16,
        gc_tcc_size: 4096,
    };
    let mut table = gc_header(GC_INFO_V2_1, info.as_bytes().len());
    table.extend(info.as_bytes());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{Chip as _, Shape, gfx942};

    fn u16_at(bytes: &[u8], offset: usize) -> u16 {
        u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
    }

    fn u64_at(bytes: &[u8], offset: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[offset..offset + 8]);
        u64::from_le_bytes(word)
    }

    /// Hardware id, instance and first base of the blocks that are not harvested, by walking the table.
    fn blocks(shape: Shape) -> Vec<(u16, u8, u64)> {
        let table = gfx942::chip(shape).discovery();
        let ips = usize::from(u16_at(&table, 12));
        assert_eq!((u16_at(&table, ips + 4), table[ips + 78]), (4, 1), "version 4 with bases of 64 bits");
        let harvest = usize::from(u16_at(&table, 12 + 16)) + 8;
        let harvested: Vec<(u16, u8)> = (0..32)
            .map(|row| harvest + row * 4)
            .map(|row| (u16_at(&table, row), table[row + 2]))
            .take_while(|&(ip, _)| ip != 0)
            .collect();
        let die = usize::from(u16_at(&table, ips + 16));
        let mut at = die + 4;
        let mut found = Vec::new();
        for _ in 0..u16_at(&table, die + 2) {
            let block = (u16_at(&table, at), table[at + 2]);
            if !harvested.contains(&block) {
                found.push((block.0, block.1, u64_at(&table, at + 8)));
            }
            at += 8 + 8 * usize::from(table[at + 3]);
        }
        found
    }

    #[test]
    fn instances_that_are_left_are_those_of_the_shape() {
        let count = |blocks: &[(u16, u8, u64)], ip| blocks.iter().filter(|block| block.0 == ip).count();
        let small = blocks(Shape { xccs: 1, cus: 8 });
        assert_eq!([11, 42, 34, 12].map(|ip| count(&small, ip)), [1, 2, 1, 0]);
        let whole = blocks(gfx942::WHOLE);
        assert_eq!([11, 42, 34, 12].map(|ip| count(&whole, ip)), [8, 16, 4, 0]);
        assert!(whole.contains(&(11, 7, 0x7_2000)) && whole.contains(&(42, 15, 0x7_9800)));
        assert!(whole.contains(&(34, 3, 0x7_8000)) && whole.contains(&(40, 0, 0x10a0)));
    }

    #[test]
    fn graphics_core_is_that_of_one_xcc() {
        let chip = gfx942::chip(gfx942::WHOLE);
        let table = gc_table(&chip.topology(), 64 << 10);
        let word =
            |index: usize| u32::from_le_bytes(table[12 + 4 * index..][..4].try_into().expect("four bytes"));
        assert_eq!((u16_at(&table, 4), u16_at(&table, 6), table.len()), (2, 1, 12 + 96));
        // Shader engines, compute units of an array with those fused off, lanes of a wave.
        assert_eq!((word(0), word(1), word(2), word(11)), (4, 10, 1, 64));
    }
}
