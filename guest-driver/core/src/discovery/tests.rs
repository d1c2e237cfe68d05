use alloc::format;
use alloc::vec;

use super::*;
use crate::testing::{BASES, FakeOs};

const VRAM: usize = 8 << 20;

/// Contents of a discovery table of the tests.
struct Table<'a> {
    /// Version of the header; from 4 on base addresses have 64 bits.
    version: u16,
    /// Blocks by die: kind, instance, bases.
    dies: &'a [&'a [(Ip, u8, &'a [u32])]],
    gc_version: [u8; 3],
    /// Version of the graphics core's table, and its fields.
    gc: ([u8; 4], [u32; 32]),
    harvested: &'a [(Ip, u8)],
}

impl Table<'_> {
    fn bytes(&self) -> Vec<u8> {
        let (list, mut at) = (60, 60 + 80);
        let mut bytes = vec![0; at];
        let wide = self.version >= 4;
        for (number, die) in self.dies.iter().enumerate() {
            let info = list + 14 + number * 4;
            bytes[info..info + 2].copy_from_slice(&(number as u16).to_le_bytes());
            bytes[info + 2..info + 4].copy_from_slice(&(at as u16).to_le_bytes());
            bytes.extend([number as u8, 0, die.len() as u8, 0]);
            for (ip, instance, bases) in *die {
                bytes.extend(ip.0.to_le_bytes());
                bytes.extend([*instance, bases.len() as u8]);
                bytes.extend(self.gc_version);
                bytes.push(0);
                for &base in *bases {
                    bytes.extend(base.to_le_bytes());
                    bytes.extend(&[0xab, 0, 0, 0][..if wide { 4 } else { 0 }]);
                }
            }
            at = bytes.len();
        }
        let gc = bytes.len();
        bytes.extend(0x4347u32.to_le_bytes());
        bytes.extend(self.gc.0);
        bytes.extend([0; 4]);
        bytes.extend(self.gc.1.iter().flat_map(|field| field.to_le_bytes()));
        let harvest = bytes.len();
        bytes.extend(0x5652_4148u32.to_le_bytes());
        bytes.extend([0; 4]);
        let mut entries = [0u8; 32 * 4];
        for (entry, (ip, instance)) in entries.chunks_mut(4).zip(self.harvested) {
            entry[..2].copy_from_slice(&ip.0.to_le_bytes());
            entry[2] = *instance;
        }
        bytes.extend(entries);
        bytes[..4].copy_from_slice(&0x2821_1407u32.to_le_bytes());
        bytes[list..list + 4].copy_from_slice(&0x5344_5049u32.to_le_bytes());
        bytes[list + 4..list + 6].copy_from_slice(&self.version.to_le_bytes());
        bytes[list + 12..list + 14].copy_from_slice(&(self.dies.len() as u16).to_le_bytes());
        bytes[list + 78] = u8::from(wide);
        bytes[12..14].copy_from_slice(&(list as u16).to_le_bytes());
        bytes[20..22].copy_from_slice(&(gc as u16).to_le_bytes());
        bytes[28..30].copy_from_slice(&(harvest as u16).to_le_bytes());
        let len = bytes.len() as u16;
        bytes[10..12].copy_from_slice(&len.to_le_bytes());
        let sum = bytes[10..].iter().fold(0u16, |sum, &byte| sum.wrapping_add(u16::from(byte)));
        bytes[8..10].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// A graphics core of one shader array with two compute units, as version 1.2 says it.
fn small_core() -> ([u8; 4], [u32; 32]) {
    let mut fields = [1u32; 32];
    fields[2] = 0;
    ([1, 0, 2, 0], fields)
}

/// A table of blocks with these bases, of one version, and a graphics core of one shader array with two compute units.
fn table(blocks: &[(Ip, &[u32])], gc_version: [u8; 3]) -> Vec<u8> {
    let blocks: Vec<_> = blocks.iter().map(|(ip, bases)| (*ip, 0, *bases)).collect();
    Table { version: 3, dies: &[&blocks], gc_version, gc: small_core(), harvested: &[] }.bytes()
}

fn device(blocks: &[(Ip, &[u32])]) -> FakeOs {
    let os = FakeOs::new(VRAM);
    os.reg_write(MEMSIZE_DWORD * 4, (VRAM >> 20) as u32);
    os.vram_write(VRAM as u64 - TABLE_FROM_TOP, &table(blocks, [11, 0, 0]));
    os
}

#[test]
fn graphics_core_of_another_version_is_refused_by_name() {
    for version in [[9, 4, 2], [12, 0, 0], [11, 0, 1]] {
        let os = device(&BASES);
        os.vram_write(VRAM as u64 - TABLE_FROM_TOP, &table(&BASES, version));
        let log = os.log.clone();
        assert_eq!(discover(os.pair()).err(), Some(Errno::ENODEV));
        let [major, minor, revision] = version;
        assert_eq!(
            *crate::testing::lock(&log),
            [format!(
                "graphics core {major}.{minor}.{revision} is not supported: \
                 this driver knows 11.0.0 (gfx1100), 9.4.3 (gfx942), 12.0.1 (gfx1201), 11.5.1 (gfx1151), 9.5.0 (gfx950)"
            )]
        );
    }
}

#[test]
fn registers_are_looked_for_where_the_table_says() {
    let os = device(&BASES);
    let gc = BASES.iter().find(|(ip, _)| *ip == Ip::GC).unwrap().1;
    os.reg_write((gc[0] + gc::GCMC_VM_FB_LOCATION_BASE::AT.dword) * 4, 0x8000);
    let (hw, config) = discover(os.pair()).unwrap();
    assert_eq!((config.fb_start, config.xccs, config.cus), (0x80_0000_0000, 1, 2));
    hw.write(gc::SCRATCH_REG0(7));
    assert_eq!(hw.os().reg_read((gc[1] + gc::SCRATCH_REG0::AT.dword) * 4), 7);
}

#[test]
fn place_in_a_hive_is_what_the_registers_say_or_refused() {
    const SIZE: u32 = 4;
    let of = |region: u32, last: u32, size: u32| {
        let (cntl, size) = (region | last << 4, GCMC_VM_XGMI_LFB_SIZE::from_bits(size));
        place(GCMC_VM_XGMI_LFB_CNTL::from_bits(cntl), size, u64::from(SIZE) << 24)
    };
    assert_eq!((of(0, 0, 0), of(0, 0, SIZE)), (Ok(None), Ok(None)), "one that is alone");
    for (region, last) in [(0, 1), (1, 1), (7, 7)] {
        let hive = Hive { id: 0, node: region, nodes: last + 1, segment: u64::from(SIZE) << 24 };
        assert_eq!(of(region, last, SIZE), Ok(Some(hive)));
        assert_eq!(hive.base(), u64::from(region * SIZE) << 24);
    }
    assert_eq!(of(1, 7, 0x1_ffff).map(|hive| hive.unwrap().segment), Ok(0x1_ffff << 24), "17 bits");
    for (region, last, size) in [(0, 8, SIZE), (2, 1, SIZE), (15, 15, SIZE), (0, 1, SIZE - 1), (0, 1, 0)] {
        assert_eq!(of(region, last, size), Err(Errno::EINVAL), "{region} of {last}, {size}");
    }
}

#[test]
fn table_without_a_place_for_a_register_is_refused() {
    for broken in 0..BASES.len() {
        let mut blocks = BASES.to_vec();
        blocks.remove(broken);
        assert_eq!(
            discover(device(&blocks).pair()).err(),
            Some(Errno::ENODEV),
            "{:?} is missing",
            BASES[broken].0
        );
        let far: Vec<u32> = BASES[broken].1.iter().map(|base| base + 0x4_0000).collect();
        let mut blocks = BASES.to_vec();
        blocks[broken].1 = &far;
        assert_eq!(
            discover(device(&blocks).pair()).err(),
            Some(Errno::ENODEV),
            "{:?} is far",
            BASES[broken].0
        );
    }
}

/// Two dies with two graphics cores and two copy engines each, and long base addresses.
const DIES: &[&[(Ip, u8, &[u32])]] = &[
    &[(Ip::GC, 0, &[0x2000, 0xa000]), (Ip::GC, 1, &[0x1_2000, 0x1_a000]), (Ip::SDMA0, 0, &[0x1260])],
    &[(Ip::GC, 2, &[0x2_2000, 0x2_a000]), (Ip::SDMA0, 4, &[0x2_1260]), (Ip::SDMA0, 5, &[0x2_1860])],
];

#[test]
fn table_of_several_dies_has_their_instances_and_what_is_fused_off() {
    let harvested: &[(Ip, u8)] = &[(Ip::GC, 1), (Ip::SDMA0, 5)];
    let wide = Table { version: 4, dies: DIES, gc_version: [9, 4, 3], gc: small_core(), harvested };
    let narrow = Table { version: 3, ..wide };
    let blocks = table::blocks(&wide.bytes()).unwrap();
    assert_eq!(blocks, table::blocks(&narrow.bytes()).unwrap());
    let found: Vec<_> =
        blocks.iter().map(|block| (block.die, block.ip, block.instance, block.harvested)).collect();
    assert_eq!(
        found,
        [
            (0, Ip::GC, 0, false),
            (0, Ip::GC, 1, true),
            (0, Ip::SDMA0, 0, false),
            (1, Ip::GC, 2, false),
            (1, Ip::SDMA0, 4, false),
            (1, Ip::SDMA0, 5, true)
        ]
    );
    assert_eq!((blocks[3].version, &blocks[3].bases[..]), ((9, 4, 3), &[0x2_2000, 0x2_a000][..]));
}

#[test]
fn graphics_core_is_described_by_either_version_of_its_table() {
    let of = |version, fields: [u32; 32]| {
        let gc = (version, fields);
        let bytes = Table { version: 4, dies: DIES, gc_version: [9, 4, 3], gc, harvested: &[] }.bytes();
        let mut config = Config::default();
        table::graphics_core(&bytes, &mut config).map(|()| config)
    };
    let mut fields = [0u32; 32];
    // gc_num_se, gc_num_cu_per_sh, gc_num_sh_per_se; gc_num_tccs; wave size, waves, scratch slots, LDS.
    fields[..3].copy_from_slice(&[4, 10, 1]);
    fields[4] = 16;
    fields[11..15].copy_from_slice(&[64, 8, 32, 64]);
    // gc_tcp_size_per_cu; gc_num_cu_per_sqc and its caches; gc_tcc_size.
    fields[18] = 32;
    fields[20..24].copy_from_slice(&[2, 64, 16, 4096]);
    let config = of([2, 0, 1, 0], fields).unwrap();
    assert_eq!((config.shader_engines, config.arrays_per_engine, config.cus_per_array), (4, 1, 10));
    assert_eq!((config.wave_size, config.waves_per_simd, config.scratch_slots_per_cu), (64, 8, 32));
    assert_eq!((config.l1_kib, config.instruction_cache_kib, config.scalar_cache_kib), (32, 64, 16));
    assert_eq!((config.cus_per_sqc, config.l2_kib, config.lds_kib), (2, 4096, 64));
    assert_eq!(config.l2_channels, 16);
    let bare = of([2, 0, 0, 0], fields).unwrap();
    assert_eq!((bare.cus_per_array, bare.l2_kib, bare.cus_per_sqc), (10, 0, 2));
    assert_eq!(of([3, 0, 0, 0], fields), Err(Errno::EINVAL));
    fields[20] = 0;
    assert_eq!(of([2, 0, 1, 0], fields), Err(Errno::EINVAL), "no unit shares a cache");
}

#[test]
fn hostile_tables_are_refused_not_followed() {
    assert!(table::blocks(&[]).is_err());
    assert!(table::blocks(&[0; TABLE_SIZE]).is_err());
    let mut bytes = vec![0xffu8; TABLE_SIZE];
    bytes[0..4].copy_from_slice(&0x2821_1407u32.to_le_bytes());
    bytes[10..12].copy_from_slice(&100u16.to_le_bytes());
    let sum = bytes[10..100].iter().fold(0u16, |sum, &byte| sum.wrapping_add(u16::from(byte)));
    bytes[8..10].copy_from_slice(&sum.to_le_bytes());
    assert!(table::blocks(&bytes).is_err());
    assert!(table::graphics_core(&bytes, &mut Config::default()).is_err());
}

#[test]
fn tables_cut_short_anywhere_are_refused_or_read_within_their_bytes() {
    let whole =
        Table { version: 4, dies: DIES, gc_version: [9, 4, 3], gc: small_core(), harvested: &[] }.bytes();
    for len in 0..whole.len() {
        let mut cut = whole[..len].to_vec();
        if len > 12 {
            cut[10..12].copy_from_slice(&(len as u16).to_le_bytes());
            let sum = cut[10..].iter().fold(0u16, |sum, &byte| sum.wrapping_add(u16::from(byte)));
            cut[8..10].copy_from_slice(&sum.to_le_bytes());
        }
        if let Ok(blocks) = table::blocks(&cut) {
            assert_eq!(blocks.len(), 6, "{len}");
        }
    }
}
