use super::*;

fn numbers(texel: [u32; 4]) -> [f64; 4] {
    texel.map(|bits| f32::from_bits(bits).into())
}

#[test]
fn blocks_are_decoded_as_by_another_decoder() {
    let bytes = |text: &str| -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
            .collect()
    };
    let mut counts = [0; 8];
    for line in
        include_str!("../../../../tests/data/blocks.txt").lines().filter(|line| !line.starts_with('#'))
    {
        let [kind, block, texels] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let kind: u32 = kind.parse().unwrap();
        counts[kind as usize] += 1;
        let mut whole = [0; 16];
        let block = bytes(block);
        whole[..block.len()].copy_from_slice(&block);
        let format = Block::of(109 + 2 * (kind - 1)).unwrap();
        assert_eq!(format.bytes() as usize, block.len(), "{line}");
        // That decoder knows no alpha in BC1.
        let components = if kind == 1 { 3 } else { format.components() };
        for (number, expected) in (0..).zip(bytes(texels).chunks(4)) {
            let texel = numbers(format.texel(u128::from_le_bytes(whole), number));
            for (value, expected) in texel.into_iter().zip(expected).take(components) {
                // The other one rounds more than once, except for BC7, which both have in whole numbers.
                let off = (value.clamp(0.0, 1.0) * 255.0 - f64::from(*expected)).abs();
                let most = if kind == 7 { 0.001 } else { 1.6 };
                assert!(off < most, "{line}: texel {number} is {texel:?}, not {expected}");
            }
        }
    }
    assert_eq!(counts, [0, 6, 0, 6, 6, 6, 42, 32]);
}

#[test]
fn colors_of_two_and_of_nothing() {
    let texel = |number: u32, block: u128, texel| numbers(Block::of(number).unwrap().texel(block, texel));
    // Red and blue; the first texels have the shares 0, 1, 2 and 3.
    let shares = 0b11_10_01_00 << 32;
    let larger = 0xf800 | 0x001f << 16 | shares;
    let third = f64::from(1.0_f32 / 3.0);
    assert_eq!([0, 1].map(|n| texel(109, larger, n)), [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]);
    let [x, y, z, w] = texel(109, larger, 2);
    assert!((x - 2.0 * third).abs() < 1e-6 && y == 0.0 && (z - third).abs() < 1e-6 && w == 1.0);
    let smaller = 0x001f | 0xf800 << 16 | shares;
    assert_eq!(texel(109, smaller, 2), [0.5, 0.0, 0.5, 1.0]);
    assert_eq!(texel(109, smaller, 3), [0.0; 4], "nothing");
    // BC2 has alpha of its own, and four shares in any order.
    let block = 0x8 | smaller << 64;
    let [x, _, z, w] = texel(111, block, 3);
    assert!((x - 2.0 * third).abs() < 1e-6 && (z - third).abs() < 1e-6);
    assert_eq!((w, texel(111, block, 0)[3]), (0.0, f64::from(8.0_f32 / 15.0)));
    // A half of sRGB.
    assert!((texel(110, smaller, 2)[0] - 0.214_041).abs() < 1e-5);
}

#[test]
fn channels_have_signs() {
    let texel = |number: u32, block: u128, texel| numbers(Block::of(number).unwrap().texel(block, texel));
    // From -128, which is -127, to 127, with the shares 0, 1, 2, 6 and 7.
    let block = 0x80 | 0x7f << 8 | 0o76_210 << 16;
    assert_eq!([0, 1, 3, 4].map(|n| texel(116, block, n)[0]), [-1.0, 1.0, -1.0, 1.0]);
    assert!((texel(116, block, 2)[0] + 0.6).abs() < 1e-6);
    assert_eq!(texel(116, block, 0), [-1.0, 0.0, 0.0, 1.0]);
    let both = block | (0x7f | 0x80 << 8 | 0o10 << 16) << 64;
    assert_eq!(texel(118, both, 0), [-1.0, 1.0, 0.0, 1.0]);
    assert_eq!(texel(118, both, 1), [1.0, -1.0, 0.0, 1.0]);
}

#[test]
fn halves_have_signs_and_modes_that_do_not_exist_are_black() {
    let texel = |number: u32, block: u128| Block::of(number).unwrap().texel(block, 0).map(f32::from_bits);
    // Mode 3 has ten bits for each of six numbers: those of the first end point, of which the first index takes all.
    let block = 3 | 0x200 << 5 | 0x1ff << 15 | 1 << 25;
    let half = |bits: u16| f32::from(half::f16::from_bits(bits));
    // Unsigned: a half of all, in 16 bits 0x8020, times 31/64; a signed number at its least and at its most.
    let [x, y, z, w] = texel(119, block);
    assert_eq!((x, w), (half((0x8020 * 31 / 64) as u16), 1.0));
    assert_eq!(y, half(((((0x1ff << 16) + 0x8000) >> 10) * 31 / 64) as u16));
    assert_eq!(z, half(((((1 << 16) + 0x8000) >> 10) * 31 / 64) as u16));
    let [x, y, ..] = texel(120, block);
    assert_eq!((x, y), (-half(0x7bff), half(0x7bff)));
    for mode in [19, 23, 27, 31] {
        assert_eq!(texel(119, mode | u128::MAX << 5), [0.0, 0.0, 0.0, 1.0]);
    }
    assert_eq!(Block::of(121).unwrap().texel(0, 5), [0; 4], "no mode of BC7");
    assert!(Block::of(108).is_none() && Block::of(123).is_none());
}

#[test]
fn any_bits_are_texels() {
    let mut bits = 0x1234_5678_9abc_def1_u128;
    for number in 109..=122 {
        let format = Block::of(number).unwrap();
        for _ in 0..2000 {
            bits = bits.wrapping_mul(0xda94_2042_e4dd_58b5_1234_5678_9abc_def1).rotate_left(41) ^ 77;
            for texel in 0..16 {
                let values = numbers(format.texel(bits, texel));
                let all = values.iter().all(|value| (-65504.0..=65504.0).contains(value));
                assert!(all, "{number} {bits:#x} {texel} {values:?}");
            }
        }
    }
}
