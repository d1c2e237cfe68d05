//! Buffer instructions: bounds, swizzle, formats.

use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;

use super::{Bench, lanes};

/// A descriptor: stride in bits 29:16 and swizzle in bits 31:30 of its second word.
fn descriptor(va: u64, second: u32, records: u32, last: u32) -> [u32; 4] {
    [va as u32, (va >> 32) as u32 & 0xffff | second, records, last]
}

/// `OOB_SELECT` raw and structured.
const RAW: u32 = 3 << 28;
const STRUCTURED: u32 = 0;

// buffer_load_b32 v10, v0, s[4:7], 0 offen
// buffer_load_b64 v[11:12], v0, s[4:7], s20 offen offset:4
// buffer_load_i8 v13, v0, s[4:7], 0 offen offset:1
// buffer_load_d16_hi_b16 v14, v0, s[4:7], 0 offen
// buffer_store_b32 v1, v0, s[8:11], 0 offen
// buffer_atomic_add_u32 v1, v0, s[12:15], 0 offen glc
const RAW_ACCESSES: &[u32] = &[
    0xe050_0000,
    0x8041_0a00,
    0xe054_0004,
    0x1441_0b00,
    0xe044_0001,
    0x8041_0d00,
    0xe08c_0000,
    0x8041_0e00,
    0xe068_0000,
    0x8042_0100,
    0xe0d4_4000,
    0x8043_0100,
    0xbfb0_0000,
];

#[test]
fn raw_buffers_end_where_their_records_end() {
    let words: Vec<u32> = (0..64).map(|n| 0x8091_0000 + n * 0x0101).collect();
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        let mut bench = Bench::new(Backend::detect(), RAW_ACCESSES);
        let source = bench.gpu.buffer(&words);
        let target = bench.gpu.buffer(&[7_u32; 64]);
        let counters = bench.gpu.buffer(&[100_u32; 64]);
        let mut sgprs = vec![0; 21];
        sgprs[4..8].copy_from_slice(&descriptor(source, 0, 80, RAW));
        sgprs[8..12].copy_from_slice(&descriptor(target, 0, 41, RAW));
        sgprs[12..16].copy_from_slice(&descriptor(counters, 0, 40, RAW));
        // SOFFSET is not part of the check.
        sgprs[20] = 8;
        let (offsets, data) = (lanes(|l| l * 4), lanes(|l| l + 1));
        let mut vgprs = vec![lanes(|_| 0xcccc_cccc); 16];
        (vgprs[0], vgprs[1]) = (offsets, data);
        let mut wave = bench.wave(size, &vgprs, &sgprs);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        let word = |at: u32, limit: u32| if at < limit { words[at as usize] } else { 0 };
        for lane in 0..wave.lanes() {
            assert_eq!(wave.vgpr(10, lane), word(lane, 20));
            let part = |at: u32| if at < 20 { words[at as usize + 2] } else { 0 };
            assert_eq!((wave.vgpr(11, lane), wave.vgpr(12, lane)), (part(lane + 1), part(lane + 2)));
            let byte = i32::from((word(lane, 20) >> 8) as i8).cast_unsigned();
            assert_eq!(wave.vgpr(13, lane), byte);
            assert_eq!(wave.vgpr(14, lane), word(lane, 20) << 16 | 0xcccc);
            let stored = bench.gpu.fetch::<u32>(target, 64)[lane as usize];
            assert_eq!(stored, if lane < 10 { lane + 1 } else { 7 }, "the last word is not whole");
            let counter = bench.gpu.fetch::<u32>(counters, 64)[lane as usize];
            assert_eq!(counter, if lane < 10 { 101 + lane } else { 100 });
            assert_eq!(wave.vgpr(1, lane), if lane < 10 { 100 } else { 0 });
        }
    }
}

// buffer_load_b32 v10, v[0:1], s[4:7], 0 idxen offen
// buffer_load_format_xyzw v[11:14], v0, s[8:11], 0 idxen
// tbuffer_load_format_xyzw v[15:18], v0, s[8:11], 0 format:[BUF_FMT_10_10_10_2_UNORM] idxen
// tbuffer_load_d16_format_xy v19, v0, s[8:11], 0 format:[BUF_FMT_8_8_8_8_UNORM] idxen
// tbuffer_store_format_xyzw v[11:14], v0, s[12:15], 0 format:[BUF_FMT_16_16_16_16_SNORM] idxen
// tbuffer_load_format_x v20, v0, s[12:15], 0 format:[BUF_FMT_32_FLOAT] idxen offset:4
const TYPED_ACCESSES: &[u32] = &[
    0xe050_0000,
    0x80c1_0a00,
    0xe00c_0000,
    0x8082_0b00,
    0xe901_8000,
    0x8082_0f00,
    0xe954_8000,
    0x8082_1300,
    0xe9a3_8000,
    0x8083_0b00,
    0xe8b0_0004,
    0x8083_1400,
    0xbfb0_0000,
];

#[test]
fn structured_and_typed_buffers() {
    let mut bench = Bench::new(Backend::detect(), TYPED_ACCESSES);
    let words: Vec<u32> = (0..256).collect();
    let swizzled = bench.gpu.buffer(&words);
    let texels: Vec<u32> = (0..32).map(|n| 0xff80_0000 | (255 - n) << 8 | n).collect();
    let typed = bench.gpu.buffer(&texels);
    let target = bench.gpu.buffer(&[0x1111_1111_u32; 64]);
    let mut sgprs = vec![0; 16];
    // Records of 16 bytes in elements of 4, eight records interleaved; 20 records.
    sgprs[4..8].copy_from_slice(&descriptor(swizzled, 1 << 30 | 16 << 16, 20, STRUCTURED));
    // BUF_FMT_8_8_8_8_UNORM, components read as W, 1, X, 0.
    let select = 7 | 1 << 3 | 4 << 6;
    sgprs[8..12].copy_from_slice(&descriptor(typed, 4 << 16, 32, STRUCTURED | 42 << 12 | select));
    sgprs[12..16].copy_from_slice(&descriptor(target, 8 << 16, 10, STRUCTURED));
    // Offsets 0 to 19: the last ones are outside the record.
    let offsets = lanes(|l| l % 5 * 4);
    let mut wave = bench.wave(WaveSize::Wave32, &[lanes(|l| l), offsets], &sgprs);
    assert_eq!(bench.run(&mut wave), Stop::EndProgram);
    for lane in 0..32_u32 {
        let element = offsets[lane as usize] / 4;
        let at = (lane / 8 * 4 + element) * 8 + lane % 8;
        assert_eq!(wave.vgpr(10, lane), if lane < 20 && element < 4 { at } else { 0 }, "lane {lane}");

        let texel = texels[lane as usize];
        let unorm = |shift: u32| (f64::from(texel >> shift & 255) / 255.0) as f32;
        let float = |register: u8| f32::from_bits(wave.vgpr(register, lane));
        assert_eq!([float(11), float(12), float(13), float(14)], [1.0, 1.0, unorm(0), 0.0]);
        // The instruction's own format, its components in their order. Names list the highest bits first.
        let field = |shift: u32| (f64::from(texel >> shift & 1023) / 1023.0) as f32;
        let expected = [(f64::from(texel & 3) / 3.0) as f32, field(2), field(12), field(22)];
        assert_eq!([float(15), float(16), float(17), float(18)], expected);
        let half = |value: u32| wave.vgpr(19, lane) >> value & 0xffff;
        for (shift, at) in [(0, 0), (8, 16)] {
            let value = half(at);
            let (exponent, digits) = (value >> 10, value & 1023);
            let value = if exponent == 0 {
                f64::from(digits) / f64::from(1 << 24)
            } else {
                f64::from(digits | 1024) * f64::exp2(f64::from(exponent) - 25.0)
            };
            assert!((value - f64::from(unorm(shift))).abs() <= 1.0 / 2048.0);
        }

        let stored: Vec<u16> = bench.gpu.fetch(target + u64::from(lane) * 8, 4);
        let x = (unorm(0) * 32767.0).round_ties_even() as u16;
        let expected = if lane < 10 { [32767, 32767, x, 0] } else { [0x1111; 4] };
        assert_eq!(stored, expected);
        let second = u32::from(expected[2]) | u32::from(expected[3]) << 16;
        assert_eq!(wave.vgpr(20, lane), if lane < 10 { second } else { 0 });
    }
}
