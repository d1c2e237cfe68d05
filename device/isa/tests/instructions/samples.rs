//! Samples of images in all their forms, on both architectures that have them.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::lanes;
use super::sample_programs::*;

const R32_FLOAT: u32 = 22;
const RGBA32_FLOAT: u32 = 63;
const TWO: u32 = 9;
const CUBE_KIND: u32 = 11;

/// Words of a sampler that both generations have alike; levels up to 15.
#[derive(Clone, Copy, Default)]
struct Sampler {
    first: u32,
    filters: u32,
    border: u32,
}

/// Clamp to the edge along all axes, and to the border.
const EDGE: u32 = 2 | 2 << 3 | 2 << 6;
const BORDER: u32 = 6 | 6 << 3 | 6 << 6;
/// Texels are blended; levels are.
const BLENDS: u32 = 5 << 20;
const BETWEEN_LEVELS: u32 = 2 << 26;

impl Sampler {
    fn words(self, arch: Arch) -> [u32; 4] {
        let most = 15 * 256;
        [self.first, most << if arch == Arch::Gfx1201 { 13 } else { 12 }, self.filters, self.border]
    }
}

/// A linear image of eight by eight texels of 32 bits, with levels and slices, whose texel is a function of its place.
struct Image {
    va: u64,
    format: u32,
    kind: u32,
    levels: u32,
    slices: u32,
    /// `BC_SWIZZLE`, and the least level in 256ths.
    order: u32,
    least: u32,
}

impl Image {
    /// The bytes of a row, of which a slice's count 256.
    fn row(arch: Arch) -> u64 {
        if arch == Arch::Gfx1201 { 128 } else { 256 }
    }

    fn new(
        gpu: &mut Gpu,
        arch: Arch,
        (levels, slices): (u32, u32),
        texel: impl Fn(u32, u32, [u32; 2]) -> f32,
    ) -> Self {
        let va = gpu.alloc(0x8000 * slices.max(1) as usize + 4096).next_multiple_of(4096);
        // The smallest level first.
        let size = |level: u32| (8_u32 >> level).max(1);
        let whole: u64 = (0..levels).map(|level| u64::from(size(level)) * 256).sum();
        for slice in 0..slices {
            let mut at = va + u64::from(slice) * whole;
            for level in (0..levels).rev() {
                for y in 0..size(level) {
                    for x in 0..size(level) {
                        let place = at + u64::from(y) * Self::row(arch) + u64::from(x) * 4;
                        gpu.memory.write(place, &texel(level, slice, [x, y]).to_le_bytes());
                    }
                }
                at += u64::from(size(level)) * 256;
            }
        }
        let kind = if slices == 6 { CUBE_KIND } else { TWO };
        Self { va, format: R32_FLOAT, kind, levels, slices, order: 0, least: 0 }
    }

    fn words(&self, arch: Arch) -> [u32; 8] {
        let new = arch == Arch::Gfx1201;
        let most = self.levels - 1;
        let (one, three) = match new {
            true => (self.format << 17 | most << 12, most << 15),
            false => (self.format << 20 | most << 16, most << 16),
        };
        let least = match new {
            true => [(self.least & 63) << 26, self.least >> 6],
            false => [(self.least & 31) << 27, self.least >> 5],
        };
        [
            (self.va >> 8) as u32,
            (self.va >> 40) as u32 | one | (7 & 3) << 30,
            7 >> 2 | 7 << 14,
            4 | 5 << 3 | 6 << 6 | 7 << 9 | three | self.order << 25 | self.kind << 28,
            self.slices - 1,
            least[0],
            least[1],
            0,
        ]
    }
}

/// Runs a program with the same addresses in all lanes, or others of each.
fn run(
    gpu: &mut Gpu,
    arch: Arch,
    program: &Program,
    words: (&Image, Sampler),
    addresses: &[[u32; 64]],
) -> Wave {
    let (wave, stop) = stopped(gpu, arch, program, words, addresses);
    assert_eq!(stop, Stop::EndProgram, "{arch:?}");
    wave
}

fn stopped(
    gpu: &mut Gpu,
    arch: Arch,
    program: &Program,
    (image, sampler): (&Image, Sampler),
    addresses: &[[u32; 64]],
) -> (Wave, Stop) {
    let pc = gpu.buffer(if arch == Arch::Gfx1201 { program.gfx12 } else { program.gfx11 });
    let sgprs: Vec<u32> = image.words(arch).into_iter().chain(sampler.words(arch)).collect();
    let init = WaveInit {
        arch,
        pc,
        exec: 0xffff_ffff,
        vgprs: addresses,
        sgprs: &sgprs,
        vgpr_count: 24,
        border_colors: TABLE,
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    let stop = gpu.step(&mut wave, 100);
    (wave, stop)
}

/// Address of the table of border colours.
const TABLE: u64 = super::common::BASE;

fn all(values: &[f32]) -> Vec<[u32; 64]> {
    values.iter().map(|value| [value.to_bits(); 64]).collect()
}

fn float(wave: &Wave, register: u8, lane: u32) -> f32 {
    f32::from_bits(wave.vgpr(register, lane))
}

fn each(test: impl Fn(Arch, &mut Gpu)) {
    for arch in [Arch::Gfx1100, Arch::Gfx1201] {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        // The table.
        gpu.alloc(4096);
        test(arch, &mut gpu);
    }
}

/// Two packed halves.
fn halves(low: f32, high: f32) -> u32 {
    let bits = |value| u32::from(half::f16::from_f32(value).to_bits());
    bits(low) | bits(high) << 16
}

const LEVELS: Sampler = Sampler { first: EDGE, filters: BETWEEN_LEVELS, border: 0 };

#[test]
fn gradients_name_the_level() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (4, 1), |level, _, _| level as f32);
        // Two eighths of the width are two texels, and three are level 1.58.
        for (dx, dy, expected) in [
            ([0.25, 0.0], [0.0, 0.125], 1.0),
            ([0.125, 0.0], [0.0, 0.375], 1.0 + 149.0 / 256.0),
            ([0.0, 0.0], [0.3, 0.4], 2.0),
            ([0.0, 0.0], [0.0, 0.0], 0.0),
            ([9.0, 0.0], [0.0, 0.0], 3.0),
        ] {
            let addresses = all(&[dx[0], dx[1], dy[0], dy[1], 0.5, 0.5]);
            let wave = run(gpu, arch, &GRADIENTS, (&image, LEVELS), &addresses);
            assert_eq!(float(&wave, 16, 3), expected, "{arch:?} {dx:?} {dy:?}");
        }
        let addresses = [
            [halves(0.25, 0.0); 64],
            [halves(0.0, 0.5); 64],
            [0.5_f32.to_bits(); 64],
            [0.5_f32.to_bits(); 64],
        ];
        let wave = run(gpu, arch, &SHORT_GRADIENTS, (&image, LEVELS), &addresses);
        assert_eq!(float(&wave, 16, 0), 2.0, "{arch:?}");
    });
}

#[test]
fn lanes_of_a_quad_give_the_level_with_bias_and_limits() {
    each(|arch, gpu| {
        let mut image = Image::new(gpu, arch, (4, 1), |level, _, _| level as f32);
        // Texels from one lane to the next: two along x in the first quad, four along y in the second.
        let x = lanes(|lane| ((lane % 2) as f32 * if lane < 4 { 0.25 } else { 0.125 }).to_bits());
        let y = lanes(|lane| ((lane / 2 % 2) as f32 * if lane < 4 { 0.125 } else { 0.5 }).to_bits());
        let wave = run(gpu, arch, &IMPLICIT, (&image, LEVELS), &[x, y]);
        assert_eq!([0, 3, 4, 7].map(|lane| float(&wave, 16, lane)), [1.0, 1.0, 2.0, 2.0], "{arch:?}");
        // The sampler's own bias is added as well.
        let biased = Sampler { filters: LEVELS.filters | 128, ..LEVELS };
        let wave = run(gpu, arch, &BIAS, (&image, biased), &[[0.25_f32.to_bits(); 64], x, y]);
        assert_eq!([0, 4].map(|lane| float(&wave, 16, lane)), [1.75, 2.75], "{arch:?}");
        let wave = run(gpu, arch, &LEAST, (&image, LEVELS), &[x, y, [1.5_f32.to_bits(); 64]]);
        assert_eq!([0, 4].map(|lane| float(&wave, 16, lane)), [1.5, 2.0], "{arch:?}");
        let wave = run(gpu, arch, &ASKED, (&image, biased), &[x, y]);
        assert_eq!([0, 4].map(|lane| float(&wave, 16, lane)), [1.5, 2.5], "{arch:?}");
        let far = lanes(|lane| ((lane % 2) as f32 * 4.0).to_bits());
        let nearest = Sampler { filters: 1 << 26, ..LEVELS };
        let wave = run(gpu, arch, &ASKED, (&image, nearest), &[far, y]);
        assert_eq!((float(&wave, 16, 0), float(&wave, 17, 0)), (3.0, 5.0), "{arch:?}: taken and asked for");
        image.least = 0x280;
        let wave = run(gpu, arch, &IMPLICIT, (&image, LEVELS), &[x, y]);
        assert_eq!([0, 4].map(|lane| float(&wave, 16, lane)), [2.5, 2.5], "{arch:?}: of the image");
    });
}

/// The texel's number.
fn numbered(_: u32, slice: u32, [x, y]: [u32; 2]) -> f32 {
    (slice * 100 + y * 8 + x) as f32
}

#[test]
fn offsets_are_texels_and_have_signs() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (1, 1), numbered);
        let mut at = |offset: u32, sampler| {
            let addresses = [[offset; 64], [0.3_f32.to_bits(); 64], [0.3_f32.to_bits(); 64]];
            float(&run(gpu, arch, &OFFSET, (&image, sampler), &addresses), 16, 0)
        };
        // The place is in texel 2, 2.
        let edge = Sampler { first: EDGE, ..Sampler::default() };
        assert_eq!(at(0, edge), 18.0, "{arch:?}");
        assert_eq!(at(1 | 2 << 8, edge), 35.0, "{arch:?}");
        assert_eq!(at(0x3f | 0x3e << 8, edge), 1.0, "{arch:?}");
        assert_eq!(at(0x20 | 0x1f << 8 | 0xffc0_c0c0, edge), 56.0, "{arch:?}: as far as it goes");
        assert_eq!(at(0x3d, Sampler::default()), 23.0, "{arch:?}: around");
    });
}

/// `LESS`, `GREATER`.
const LESS: u32 = 1 << 12;
const GREATER: u32 = 4 << 12;

#[test]
fn comparisons_come_before_filters() {
    each(|arch, gpu| {
        // Columns 0, 0.125 and so on.
        let image = Image::new(gpu, arch, (1, 1), |_, _, [x, _]| x as f32 / 8.0);
        let blends = Sampler { first: EDGE | LESS, filters: BLENDS, border: 0 };
        // A quarter of the way from the middle of texel 3 to that of texel 4.
        let x = 3.75_f32 / 8.0;
        let mut compared = |sampler, reference: f32| {
            float(&run(gpu, arch, &COMPARE, (&image, sampler), &all(&[reference, x, 0.5])), 16, 0)
        };
        assert_eq!(compared(blends, 0.4), 0.25, "{arch:?}: only texel 4 is larger");
        assert_eq!(compared(blends, 0.2), 1.0, "{arch:?}");
        assert_eq!(compared(blends, 0.5), 0.0, "{arch:?}");
        assert_eq!(compared(Sampler { first: EDGE | GREATER, ..blends }, 0.4), 0.75, "{arch:?}");
        let nearest = Sampler { filters: 0, ..blends };
        assert_eq!(compared(nearest, 0.3), 1.0, "{arch:?}");
        let wave = run(gpu, arch, &GATHER_COMPARED, (&image, nearest), &all(&[0.4, x, 0.5]));
        let four = [16, 17, 18, 19].map(|register| float(&wave, register, 0));
        assert_eq!(four, [0.0, 1.0, 1.0, 0.0], "{arch:?}");
    });
}

#[test]
fn all_parts_of_a_name_have_their_registers() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (4, 1), |level, _, [x, _]| level as f32 + x as f32 / 8.0);
        let sampler = Sampler { first: EDGE | LESS, ..LEVELS };
        // Offset, reference, gradients of level 1, place, and a least level of 2; there, texel 1 has 2.125.
        let mut addresses = all(&[0.0, 2.1, 0.25, 0.0, 0.0, 0.0, 0.1, 0.1, 2.0]);
        addresses[0] = [1; 64];
        let wave = run(gpu, arch, &ALL, (&image, sampler), &addresses);
        assert_eq!(float(&wave, 16, 0), 1.0, "{arch:?}");
        addresses[1] = [2.2_f32.to_bits(); 64];
        let wave = run(gpu, arch, &ALL, (&image, sampler), &addresses);
        assert_eq!(float(&wave, 16, 0), 0.0, "{arch:?}");
        // Halves: bias in a register of its own, and the least level beside nothing.
        let place = |lane: u32| halves((lane % 2) as f32 * 0.125, (lane / 2 % 2) as f32 * 0.125);
        let short = |reference: f32| {
            [[1; 64], [halves(1.0, 9.0); 64], [reference.to_bits(); 64], lanes(place), [halves(0.5, 9.0); 64]]
        };
        // Level 1, of which texel 1 has 1.125.
        for (reference, expected) in [(1.1, 1.0), (1.2, 0.0)] {
            let wave = run(gpu, arch, &SHORT_ALL, (&image, sampler), &short(reference));
            assert_eq!(float(&wave, 16, 0), expected, "{arch:?}");
        }
    });
}

#[test]
fn rows_of_four_begin_at_the_left_neighbour() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (1, 1), numbered);
        let edge = Sampler { first: EDGE, ..Sampler::default() };
        let wave = run(gpu, arch, &GATHER_ROW, (&image, edge), &all(&[0.5, 0.3]));
        let four = [16, 17, 18, 19].map(|register| float(&wave, register, 0));
        assert_eq!(four, [19.0, 20.0, 21.0, 22.0], "{arch:?}");
    });
}

#[test]
fn least_and_most_of_the_texels_that_have_a_share() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (1, 1), numbered);
        let of = |mode: u32| Sampler { first: EDGE | mode << 29, filters: BLENDS, border: 0 };
        let mut at =
            |mode, place: &[f32]| float(&run(gpu, arch, &PLAIN, (&image, of(mode)), &all(place)), 16, 0);
        assert_eq!([0, 1, 2].map(|mode| at(mode, &[0.5, 0.5])), [31.5, 27.0, 36.0], "{arch:?}");
        // In the middle of a texel the others have none.
        assert_eq!([1, 2].map(|mode| at(mode, &[3.5 / 8.0, 0.5])), [27.0, 35.0], "{arch:?}");
    });
}

#[test]
fn long_footprints_have_several_places() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (4, 1), |level, _, [x, _]| (level * 1000 + x) as f32);
        // Four texels long and one wide, around 4: the places are at 2.5, 3.5, 4.5 and 5.5 of level 0.
        let addresses = all(&[0.5, 0.0, 0.0, 0.125, 0.5, 0.5]);
        let sampler =
            |most: u32| Sampler { first: EDGE | most << 9, filters: 0xf << 20 | BETWEEN_LEVELS, border: 0 };
        let mut of = |most| float(&run(gpu, arch, &GRADIENTS, (&image, sampler(most)), &addresses), 16, 0);
        assert_eq!(of(2), 3.5, "{arch:?}");
        assert_eq!(of(4), 3.5, "{arch:?}: no more places than it is long");
        assert_eq!(of(0), 2000.5, "{arch:?}: one place, level 2");
        assert_eq!(of(1), 1001.5, "{arch:?}: two places, level 1");
    });
}

#[test]
fn faces_of_cubes_meet_at_their_edges() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (1, 6), numbered);
        let blends = Sampler { first: EDGE, filters: BLENDS, border: 0 };
        let mut at = |sampler, x: f32, y: f32, face: f32| {
            float(&run(gpu, arch, &CUBE, (&image, sampler), &all(&[1.0 + x, 1.0 + y, face])), 16, 0)
        };
        let nearest = Sampler { filters: 0, ..blends };
        assert_eq!(at(nearest, 0.3, 0.6, 3.0), 300.0 + 4.0 * 8.0 + 2.0, "{arch:?}");
        assert_eq!(at(nearest, 1.0, 1.0, 1.0), 163.0, "{arch:?}: the end belongs to the last texel");
        // Half of the first column of +X, row 2, and half of the last column of +Z.
        assert_eq!(at(blends, 0.0, 2.5 / 8.0, 0.0), (16.0 + 423.0) / 2.0, "{arch:?}");
        // In the corner of +X: texels 0 of it, 7 of +Z, and that of +Y beside both.
        let corner = (0.0 + 407.0 + 263.0) / 3.0_f32;
        assert!((at(blends, 0.0, 0.0, 0.0) - corner).abs() < 1e-4, "{arch:?}");
        // Faces with edges of their own.
        let edges = Sampler { first: EDGE | 1 << 28, ..blends };
        assert_eq!(at(edges, 0.0, 2.5 / 8.0, 0.0), 16.0, "{arch:?}");
    });
}

#[test]
fn borders_are_of_the_table() {
    each(|arch, gpu| {
        let mut image = Image::new(gpu, arch, (1, 1), numbered);
        image.format = RGBA32_FLOAT;
        let colors = [1.5_f32, 2.5, 3.5, 4.5].map(f32::to_le_bytes);
        gpu.memory.write(TABLE + 3 * 16, colors.as_flattened());
        let table = Sampler { first: BORDER, filters: 0, border: 3 << 30 | 3 << 18 };
        let mut of = |image: &Image, sampler| {
            let wave = run(gpu, arch, &PLAIN, (image, sampler), &all(&[-0.5, 0.5]));
            [16, 17, 18, 19].map(|register| float(&wave, register, 0))
        };
        assert_eq!(of(&image, table), [1.5, 2.5, 3.5, 4.5], "{arch:?}");
        image.order = 2;
        assert_eq!(of(&image, table), [4.5, 3.5, 2.5, 1.5], "{arch:?}");
        // Opaque black, whose fourth is memory's first.
        let black = Sampler { border: 1 << 30, ..table };
        assert_eq!(of(&image, black), [1.0, 0.0, 0.0, 0.0], "{arch:?}");
    });
}

#[test]
fn memory_of_borders_is_needed_only_where_they_are_seen() {
    each(|arch, gpu| {
        let image = Image::new(gpu, arch, (1, 1), numbered);
        let table = Sampler { first: BORDER, filters: 0, border: 3 << 30 };
        let pc = gpu.buffer(if arch == Arch::Gfx1201 { PLAIN.gfx12 } else { PLAIN.gfx11 });
        let sgprs: Vec<u32> = image.words(arch).into_iter().chain(table.words(arch)).collect();
        for (x, faults) in [(0.5_f32, false), (-0.5, true)] {
            let vgprs = all(&[x, 0.5]);
            let init = WaveInit {
                arch,
                pc,
                exec: 0b100,
                vgprs: &vgprs,
                sgprs: &sgprs,
                vgpr_count: 24,
                border_colors: 0x10,
                ..WaveInit::default()
            };
            let stop = gpu.step(&mut Wave::new(&init), 100);
            let lanes = match stop {
                Stop::EndProgram => 0,
                Stop::Fault(fault) => match fault.kind {
                    FaultCause::Memory { fault, lanes } => {
                        assert_eq!(fault.va, 0x10, "{arch:?}");
                        lanes
                    }
                    _ => panic!("{fault}"),
                },
                other => panic!("{other:?}"),
            };
            assert_eq!(lanes, if faults { 0b100 } else { 0 }, "{arch:?}");
        }
    });
}

#[test]
fn bits_are_moved_as_they_are() {
    each(|arch, gpu| {
        let mut image = Image::new(gpu, arch, (1, 1), numbered);
        let none = Sampler::default();
        let places = [lanes(|lane| lane % 8), lanes(|lane| lane / 8)];
        // 16_16_SNORM, and 8_8_SINT.
        image.format = 24;
        gpu.memory.write(image.va + 4, &[0x01, 0x80, 0x02, 0xff]);
        let wave = run(gpu, arch, &BITS, (&image, none), &places);
        assert_eq!([wave.vgpr(16, 1), wave.vgpr(17, 1)], [0xff02_8001, 0], "{arch:?}");
        image.format = 19;
        for (program, expected) in [(&BITS, [0xff02, 0]), (&SIGNED_BITS, [0xffff_ff02, u32::MAX])] {
            let wave = run(gpu, arch, program, (&image, none), &places);
            assert_eq!([wave.vgpr(16, 3), wave.vgpr(17, 3)], expected, "{arch:?}");
        }
        // 32_32, and one whose components are exchanged in registers, but not in bits.
        image.format = 48;
        let data = [lanes(|lane| lane + 7), lanes(|lane| lane + 90)];
        run(gpu, arch, &STORE_BITS, (&image, none), &[places[0], places[1], data[0], data[1]]);
        assert_eq!(gpu.fetch::<u32>(image.va + 3 * 8, 2), [10, 93], "{arch:?}");
    });
}

#[test]
fn blocks_are_loaded_and_sampled_texel_by_texel() {
    each(|arch, gpu| {
        let mut image = Image::new(gpu, arch, (1, 1), numbered);
        // BC4: the second block of the first row has the numbers 0 and 255, and those of a texel are 0, 1, 6 and 7 in each row.
        image.format = 115;
        let shares = 0o7610_7610_7610_7610_u64;
        gpu.memory.write(image.va + 8, &(shares << 16 | 0xff00).to_le_bytes());
        let places = [lanes(|lane| lane % 8), lanes(|lane| lane / 8)];
        let wave = run(gpu, arch, &LOAD, (&image, Sampler::default()), &places);
        assert_eq!([4, 5, 6, 7].map(|lane| float(&wave, 16, lane)), [0.0, 1.0, 0.0, 1.0], "{arch:?}");
        let blends = Sampler { first: EDGE, filters: BLENDS, border: 0 };
        let wave = run(gpu, arch, &PLAIN, (&image, blends), &all(&[5.0 / 8.0, 0.2]));
        assert_eq!(float(&wave, 16, 0), 0.5, "{arch:?}");
    });
}
