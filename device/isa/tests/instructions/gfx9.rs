//! Scalar stores and atomics, scratch by scalar registers, bytes put into a register, and multiply-adds of halves that are not fused.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Access, FaultKind};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::{BASE, Gpu};

const END: u32 = 0xbf81_0000;
/// Bytes of memory.
const MEMORY: usize = 1 << 18;

fn run(gpu: &mut Gpu, words: &[u32], sgprs: &[u32], vgprs: &[[u32; 64]]) -> (Stop, Wave) {
    let pc = gpu.buffer(&[words, &[END]].concat());
    let mut wave = Wave::new(&WaveInit {
        arch: Arch::Gfx942,
        pc,
        exec: u64::MAX,
        wave_size: WaveSize::Wave64,
        vgprs,
        sgprs,
        vgpr_count: 32,
        accum_offset: 16,
        ..WaveInit::default()
    });
    (gpu.step(&mut wave, 100), wave)
}

fn fault(stop: &Stop) -> (Access, FaultKind) {
    let Stop::Fault(fault) = stop else { panic!("{stop:?}") };
    let FaultCause::Memory { fault, .. } = fault.kind else { panic!("{fault}") };
    (fault.access, fault.kind)
}

/// Scalar registers: an address in the first two, a buffer of `bytes` bytes in 12 to 15, 1 to 8 in 4 to 11.
fn registers(va: u64, bytes: u32) -> [u32; 16] {
    core::array::from_fn(|n| match n {
        0 | 12 => va as u32,
        1 | 13 => (va >> 32) as u32,
        4..12 => n as u32 - 3,
        14 => bytes,
        _ => 0,
    })
}

#[test]
fn loads_of_buffers_with_lds_go_there_a_dword_for_each_lane() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        gpu.lds.reset(4096);
        let words: Vec<u32> = (0..256).map(|n| 0xabcd_ef00 + n).collect();
        let va = gpu.buffer(&words);
        let offsets = core::array::from_fn(|lane| lane as u32 * 4);
        // s_mov_b32 m0, 16; buffer_load_ubyte off, s[12:15], 0 offset:4 lds;
        // buffer_load_dword v0, s[12:15], 0 offen offset:256 lds.
        let words_of_code = [0xbefc_0090, 0xe041_0004, 0x8003_0000, 0xe051_1100, 0x8003_0000];
        let (stop, wave) = run(&mut gpu, &words_of_code, &registers(va, 1024), &[offsets]);
        assert_eq!(stop, Stop::EndProgram);
        let lds = gpu.lds.bytes();
        let word = |at: usize| u32::from_le_bytes([lds[at], lds[at + 1], lds[at + 2], lds[at + 3]]);
        for lane in 0..64 {
            assert_eq!(word(16 + 256 + lane * 4), words[64 + lane], "lane {lane}");
            // The dwords of the first load end where those of the second begin, but for four bytes.
            if lane < 63 {
                assert_eq!(word(16 + 4 + lane * 4), 1, "the low byte of the second word, lane {lane}");
            }
            assert_eq!(wave.vgpr(0, lane as u32), offsets[lane], "no register is loaded");
        }
    }
}

#[test]
fn scalar_stores_ignore_the_low_bits_of_each_part_of_an_address() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&[0xffff_ffffu32; 16]);
        // s_store_dwordx4 s[4:7], s[0:1], 0x10; s_store_dword s8, s[0:1], s9, of which s9 is 6.
        let words = [0xc04a_0100, 0x10, 0xc040_0200, 9];
        let (stop, _) = run(&mut gpu, &words, &registers(va + 3, 0), &[]);
        assert_eq!(stop, Stop::EndProgram);
        let mut expected = [0xffff_ffff; 16];
        expected[4..8].copy_from_slice(&[1, 2, 3, 4]);
        expected[1] = 5;
        assert_eq!(gpu.fetch::<u32>(va, 16), expected);
    }
}

#[test]
fn scalar_scratch_counts_its_register_in_pieces_of_64_bytes() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&core::array::from_fn::<u32, 64, _>(|n| 100 + n as u32));
        // s_scratch_store_dwordx4 s[4:7], s[0:1], s9, of which s9 is 2, and s_scratch_store_dword s8, s[0:1], 0x6;
        // s_scratch_load_dwordx2 s[10:11], s[0:1], 0x4 and s_scratch_load_dword s4, s[0:1], s9;
        // s_scratch_load_dwordx4 s[12:15], s[0:1], s9 offset:-0x78.
        let words =
            [0xc05c_0100, 9, 0xc056_0200, 6, 0xc01a_0280, 4, 0xc014_0100, 9, 0xc01e_4300, 0x121f_ff88];
        let mut sgprs = registers(va + 3, 0);
        sgprs[9] = 2;
        let (stop, wave) = run(&mut gpu, &words, &sgprs, &[]);
        assert_eq!(stop, Stop::EndProgram);
        let mut expected: [u32; 64] = core::array::from_fn(|n| 100 + n as u32);
        expected[32..36].copy_from_slice(&[1, 2, 3, 4]);
        expected[1] = 5;
        assert_eq!(gpu.fetch::<u32>(va, 64), expected);
        let loaded = [4, 10, 11, 12, 13, 14, 15].map(|n| wave.sgpr(n));
        assert_eq!(loaded, [1, 5, 102, 102, 103, 104, 105]);
    }
}

#[test]
fn scalar_scratch_behind_4_gib_is_reached() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&[7u32]);
        // s_scratch_load_dword s4, s[0:1], s9: 64 times s9 has 38 bits.
        let mut sgprs = registers(va.wrapping_sub(u64::from(u32::MAX) * 64), 0);
        sgprs[9] = u32::MAX;
        let (stop, wave) = run(&mut gpu, &[0xc014_0100, 9], &sgprs, &[]);
        assert_eq!((stop, wave.sgpr(4)), (Stop::EndProgram, 7));
    }
}

#[test]
fn a_byte_is_put_into_a_register_that_keeps_the_others() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let mut vgprs = [[0; 64]; 4];
        vgprs[1] = core::array::from_fn(|lane| 0x4433_2211 + lane as u32);
        vgprs[2] = core::array::from_fn(|lane| (10.75 + lane as f32).to_bits());
        vgprs[3] = core::array::from_fn(|lane| 0xffff_fff0 | lane as u32);
        // v_cvt_pkaccum_u8_f32 v1, v2, v3 twice, of which the second takes -v2: a negative number is 0.
        for (negative, words) in [(false, [0xd1f0_0001, 0x0002_0702]), (true, [0xd1f0_0001, 0x2002_0702])] {
            let (stop, wave) = run(&mut gpu, &words, &[], &vgprs);
            assert_eq!(stop, Stop::EndProgram);
            for lane in 0..64 {
                let mut bytes = vgprs[1][lane as usize].to_le_bytes();
                bytes[lane as usize % 4] = if negative { 0 } else { 10 + lane as u8 };
                assert_eq!(wave.vgpr(1, lane), u32::from_le_bytes(bytes), "lane {lane}");
            }
        }
    }
}

#[test]
fn scalar_stores_behind_the_end_of_a_buffer_are_dropped() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&[0xffff_ffffu32; 8]);
        // s_buffer_store_dwordx4 s[4:7], s[12:15], 0x8
        let (stop, _) = run(&mut gpu, &[0xc06a_0106, 8], &registers(va, 19), &[]);
        assert_eq!(stop, Stop::EndProgram);
        assert_eq!(gpu.fetch::<u32>(va, 8), [!0, !0, 1, 2, !0, !0, !0, !0]);
    }
}

#[test]
fn a_scalar_store_at_the_end_of_memory_is_done_as_a_whole_or_not_at_all() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = BASE + MEMORY as u64 - 8;
        gpu.memory.write(va, &[0xff; 8]);
        let (stop, _) = run(&mut gpu, &[0xc04a_0100, 0], &registers(va, 0), &[]);
        assert_eq!(fault(&stop), (Access::Write, FaultKind::NotPresent));
        assert_eq!(gpu.fetch::<u32>(va, 2), [!0, !0]);
    }
}

#[test]
fn scalar_atomics_return_what_was_there_and_read_zero_behind_a_buffer() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&core::array::from_fn::<u32, 24, _>(|n| n as u32));
        let mut sgprs = registers(va, 0x14);
        // What is compared with, beside what is stored.
        (sgprs[6], sgprs[7]) = (18, 19);
        let words = [
            0xc20b_0200,
            0x40, // s_atomic_add s8, s[0:1], 0x40 glc
            0xc287_0100,
            0x48, // s_atomic_cmpswap_x2 s[4:7], s[0:1], 0x48 glc
            0xc127_0246,
            0x10, // s_buffer_atomic_or s9, s[12:15], 0x10 glc
            0xc127_0286,
            0x14, // s_buffer_atomic_or s10, s[12:15], 0x14 glc
        ];
        let (stop, wave) = run(&mut gpu, &words, &sgprs, &[]);
        assert_eq!(stop, Stop::EndProgram);
        assert_eq!([8, 4, 5, 6, 7, 9, 10].map(|n| wave.sgpr(n)), [16, 18, 19, 18, 19, 4, 0]);
        let left = gpu.fetch::<u32>(va, 24);
        assert_eq!([left[16], left[18], left[19], left[4], left[5]], [16 + 5, 1, 2, 4 | 6, 5]);
    }
}

#[test]
fn a_scalar_atomic_that_is_not_aligned_faults() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
        let va = gpu.buffer(&[0u32; 8]);
        let (stop, _) = run(&mut gpu, &[0xc287_0100, 4], &registers(va, 0), &[]);
        assert_eq!(fault(&stop), (Access::Atomic, FaultKind::Bus));
    }
}

#[test]
fn multiply_adds_round_twice_and_have_no_denormals() {
    let lanes = |value: u32| [value; 64];
    // 1 + 2^-10 squared rounds to 1 + 2^-9; fused, the difference would be 2^-20.
    let (one, almost) = (0x3c01, 0xbc02);
    for backend in Backend::all() {
        for (a, b, c, expected) in [
            (one, one, almost, 0),
            (one, one, 0x0001, 0x3c02),
            // Half of the smallest normal number, and a denormal.
            (0x0400, 0x3800, 0x0000, 0x0000),
            (0x8400, 0x3800, 0x8000, 0x8000),
            (0x03ff, 0x7bff, 0x3c00, 0x3c00),
            // The product overflows.
            (0x7bff, 0x4000, 0xfbff, 0x7c00),
            (0x7bff, 0x4000, 0xfc00, 0xfe00),
        ] {
            let mut gpu = Gpu::of(Arch::Gfx942, backend, MEMORY);
            let vgprs: [[u32; 64]; 9] = core::array::from_fn(|n| match n {
                4 => lanes(a),
                5 => lanes(b),
                6..=8 => lanes(c | 0x5555_0000),
                _ => lanes(0),
            });
            // v_mac_f16_e32 v8, v4, v5; v_mad_f16 v7, v4, v5, v6; v_mad_legacy_f16 v6, v4, v5, v6
            let words = [0x4610_0b04, 0xd203_0007, 0x041a_0b04, 0xd1ea_0006, 0x041a_0b04];
            let (stop, wave) = run(&mut gpu, &words, &[], &vgprs);
            assert_eq!(stop, Stop::EndProgram);
            let found = [8, 7, 6].map(|register| wave.vgpr(register, 3));
            assert_eq!(
                found,
                [expected | 0x5555_0000, expected | 0x5555_0000, expected],
                "{a:#x} {b:#x} {c:#x}"
            );
        }
    }
}
