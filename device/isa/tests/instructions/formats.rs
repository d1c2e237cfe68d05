//! Values that stores by a format put into components that the instruction has no register for.

use belfry_isa::exec::Stop;
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::lanes;

// buffer_store_format_x v2, v0, s[4:7], 0 idxen
// buffer_store_format_xy v[2:3], v0, s[8:11], 0 idxen
// buffer_store_format_xyz v[2:4], v0, s[12:15], 0 idxen
// buffer_store_d16_format_xy v6, v0, s[16:19], 0 idxen
// tbuffer_store_format_x v2, v0, s[20:23], 0 format:[BUF_FMT_8_8_8_8_UINT] idxen
// tbuffer_store_format_xyz v[2:4], v0, s[24:27], 0 format:[BUF_FMT_8_8_8_8_UINT] idxen
// tbuffer_store_d16_format_xyz v[6:7], v0, s[28:31], 0 format:[BUF_FMT_8_8_8_8_UINT] idxen
#[rustfmt::skip]
const STORES_GFX942: &[u32] = &[
    0xe010_2000, 0x8001_0200,
    0xe014_2000, 0x8002_0200,
    0xe018_2000, 0x8003_0200,
    0xe034_2000, 0x8004_0600,
    0xea52_2000, 0x8005_0200,
    0xea53_2000, 0x8006_0200,
    0xea57_2000, 0x8007_0600,
    0xbf81_0000,
];
#[rustfmt::skip]
const STORES_GFX1100: &[u32] = &[
    0xe010_0000, 0x8081_0200,
    0xe014_0000, 0x8082_0200,
    0xe018_0000, 0x8083_0200,
    0xe034_0000, 0x8084_0600,
    0xe972_0000, 0x8085_0200,
    0xe973_0000, 0x8086_0200,
    0xe977_0000, 0x8087_0600,
    0xbfb0_0000,
];
#[rustfmt::skip]
const STORES_GFX1201: &[u32] = &[
    0xc401_007c, 0x8080_0802, 0x0000_0000,
    0xc401_407c, 0x8080_1002, 0x0000_0000,
    0xc401_807c, 0x8080_1802, 0x0000_0000,
    0xc403_407c, 0x8080_2006, 0x0000_0000,
    0xc421_007c, 0x9700_2802, 0x0000_0000,
    0xc421_807c, 0x9700_3002, 0x0000_0000,
    0xc423_807c, 0x9700_3806, 0x0000_0000,
    0xbfb0_0000,
];

/// Components of each store.
const COMPONENTS: [usize; 7] = [1, 2, 3, 2, 1, 3, 3];

/// The bytes that each store leaves for a lane.
fn stored(arch: Arch, backend: Backend, program: &[u32]) -> Vec<Vec<[u8; 4]>> {
    let mut gpu = Gpu::of(arch, backend, 1 << 20);
    let pc = gpu.buffer(program);
    let buffers: Vec<u64> = COMPONENTS.iter().map(|_| gpu.buffer(&[0x9999_9999_u32; 32])).collect();
    let mut sgprs = vec![0; 32];
    // Components go where their names say. 8_8_8_8 UINT: one format, or a data format and a number format.
    let select = 4 | 5 << 3 | 6 << 6 | 7 << 9;
    let format = if arch.is_gfx9() { 10 << 15 | 4 << 12 } else { 46 << 12 };
    for (n, va) in buffers.iter().enumerate() {
        // Records, or bytes.
        let records = if arch.is_gfx9() { 128 } else { 32 };
        let descriptor = [*va as u32, (va >> 32) as u32 & 0xffff | 4 << 16, records, select | format];
        sgprs[4 + 4 * n..][..4].copy_from_slice(&descriptor);
    }
    let mut vgprs = vec![lanes(|_| 0); 8];
    vgprs[0] = lanes(|l| l);
    for n in 0..3 {
        vgprs[2 + n as usize] = lanes(|l| 10 * (n + 1) + l);
    }
    vgprs[6] = lanes(|l| (10 + l) | (20 + l) << 16);
    vgprs[7] = lanes(|l| (30 + l) | 77 << 16);
    let init = WaveInit {
        arch,
        pc,
        exec: 0xffff_ffff,
        wave_size: arch.wave_sizes()[0],
        vgprs: &vgprs,
        sgprs: &sgprs,
        vgpr_count: 16,
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram, "{arch:?}");
    buffers.iter().map(|va| gpu.fetch::<u32>(*va, 32).into_iter().map(u32::to_le_bytes).collect()).collect()
}

#[test]
fn components_without_a_register_are_zeros_or_the_first_one() {
    for (arch, program) in
        [(Arch::Gfx942, STORES_GFX942), (Arch::Gfx1100, STORES_GFX1100), (Arch::Gfx1201, STORES_GFX1201)]
    {
        for backend in Backend::all() {
            for (store, (components, lanes)) in
                COMPONENTS.into_iter().zip(stored(arch, backend, program)).enumerate()
            {
                for (lane, bytes) in (0_u8..).zip(lanes) {
                    let mut expected = if arch == Arch::Gfx1201 { [10 + lane; 4] } else { [0; 4] };
                    for (n, byte) in (1..).zip(expected.iter_mut().take(components)) {
                        *byte = 10 * n + lane;
                    }
                    assert_eq!(bytes, expected, "{arch:?} {backend:?} store {store} lane {lane}");
                }
            }
        }
    }
}
