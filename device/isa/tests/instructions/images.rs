//! Image loads, stores and atomics, on both architectures that have them and on every backend.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::FaultKind;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::lanes;

/// Programs of both architectures.
struct Program {
    gfx11: &'static [u32],
    gfx12: &'static [u32],
}

impl Program {
    fn all(&self) -> [(Arch, &'static [u32]); 2] {
        [(Arch::Gfx1100, self.gfx11), (Arch::Gfx1201, self.gfx12)]
    }
}

const END: u32 = 0xbfb0_0000;

// image_load v[4:7], v[0:1], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm
// image_store v[4:7], v[0:1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D unorm
const COPY: Program = Program {
    gfx11: &[0xf000_0f84, 0x0000_0400, 0xf018_0f84, 0x0002_0400, END],
    gfx12: &[0xd3c0_0001, 4, 0x100, 0xd3c1_8001, 0x1004, 0x100, END],
};

// image_load v[4:5], v3, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm a16 d16
// image_store v4, v3, s[8:15] dmask:0x4 dim:SQ_RSRC_IMG_2D unorm a16
const HALVES: Program = Program {
    gfx11: &[0xf003_0f84, 0x0000_0403, 0xf019_0484, 0x0002_0403, END],
    gfx12: &[0xd3c0_0061, 4, 3, 0xd101_8041, 0x1004, 3, END],
};

// image_load v4, [v0, v1, v2], s[0:7] dmask:0x2 dim:SQ_RSRC_IMG_2D_ARRAY unorm
const OF_LAYERS: Program =
    Program { gfx11: &[0xf000_0295, 0x0000_0400, 0x201, END], gfx12: &[0xd080_0005, 4, 0x2_0100, END] };

// image_load_mip v4, [v0, v1, v2], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D unorm
const OF_LEVELS: Program =
    Program { gfx11: &[0xf004_0185, 0x0000_0400, 0x201, END], gfx12: &[0xd040_4001, 4, 0x2_0100, END] };

// image_atomic_add v4, v[0:1], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D unorm glc
const ADD: Program =
    Program { gfx11: &[0xf030_4184, 0x0000_0400, END], gfx12: &[0xd043_0001, 0x10_0004, 0x100, END] };

// image_atomic_cmpswap v[4:5], v[0:1], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D unorm glc
const COMPARE: Program =
    Program { gfx11: &[0xf02c_4384, 0x0000_0400, END], gfx12: &[0xd0c2_c001, 0x10_0004, 0x100, END] };

// image_get_resinfo v[4:7], v0, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm
const SIZE: Program = Program { gfx11: &[0xf05c_0f84, 0x0000_0400, END], gfx12: &[0xd3c5_c001, 4, 0, END] };

const RGBA8_UINT: u32 = 46;
const R32_UINT: u32 = 20;

/// Fields of a descriptor; those of the words that have the same in both generations are in `words`.
#[derive(Clone, Copy)]
struct Image {
    va: u64,
    format: u32,
    size: [u32; 2],
    mode: u32,
    kind: u32,
    /// First and last slice.
    slices: [u32; 2],
    levels: u32,
}

impl Image {
    fn flat(va: u64, format: u32, size: [u32; 2], mode: u32) -> Self {
        Self { va, format, size, mode, kind: 9, slices: [0; 2], levels: 1 }
    }

    fn words(&self, arch: Arch) -> [u32; 8] {
        let (width, height) = (self.size[0] - 1, self.size[1] - 1);
        let (first, last) = (self.slices[0], self.slices[1]);
        let most = self.levels - 1;
        let (one, three) = match arch {
            Arch::Gfx1201 => (self.format << 17 | most << 12, most << 15),
            _ => (self.format << 20 | most << 16, most << 16),
        };
        [
            (self.va >> 8) as u32,
            (self.va >> 40) as u32 | one | (width & 3) << 30,
            width >> 2 | height << 14,
            4 | 5 << 3 | 6 << 6 | 7 << 9 | three | self.mode << 20 | self.kind << 28,
            last | first << 16,
            0,
            0,
            0,
        ]
    }
}

/// Runs a program over descriptors, with x and y of each lane in `v0` and `v1`, both in `v3`, and `v2`, `v4` and `v5` given.
fn run(
    gpu: &mut Gpu,
    arch: Arch,
    program: &[u32],
    images: &[[u32; 8]],
    (width, more): (u32, [[u32; 64]; 3]),
) -> (Wave, Stop) {
    let pc = gpu.buffer(program);
    let [v2, v4, v5] = more;
    let both = lanes(|lane| lane % width + ((lane / width) << 16));
    let vgprs = [lanes(|lane| lane % width), lanes(|lane| lane / width), v2, both, v4, v5, [9; 64], [9; 64]];
    let init = WaveInit {
        arch,
        pc,
        exec: 0xffff_ffff,
        vgprs: &vgprs,
        sgprs: images.as_flattened(),
        vgpr_count: 16,
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    let stop = gpu.step(&mut wave, 100);
    (wave, stop)
}

const NOTHING: [[u32; 64]; 3] = [[0; 64]; 3];

/// A page of its own, as descriptors name it.
fn pages(gpu: &mut Gpu, bytes: usize) -> u64 {
    gpu.alloc(bytes + 4096).next_multiple_of(4096)
}

#[test]
fn texels_are_loaded_and_stored_and_those_outside_are_not() {
    for ((arch, program), backend) in
        COPY.all().into_iter().flat_map(|program| Backend::all().map(move |backend| (program, backend)))
    {
        let mut gpu = Gpu::of(arch, backend, 1 << 20);
        let (from, to) = (pages(&mut gpu, 4096), pages(&mut gpu, 4096));
        let row = if arch == Arch::Gfx1201 { 128 } else { 256 };
        for y in 0..3 {
            for x in 0..5_u32 {
                gpu.memory
                    .write(from + u64::from(y * row + x * 4), &(0x0102_0304 * (1 + x + y * 5)).to_le_bytes());
            }
        }
        gpu.memory.write(to, &[0xee; 4096]);
        // Five texels of eight lanes in a row, and three rows of four; the target is narrower still.
        let images = [
            Image::flat(from, RGBA8_UINT, [5, 3], 0).words(arch),
            Image::flat(to, RGBA8_UINT, [4, 3], 0).words(arch),
        ];
        let (wave, stop) = run(&mut gpu, arch, program, &images, (8, NOTHING));
        assert_eq!(stop, Stop::EndProgram, "{arch:?} {backend:?}");
        for lane in 0..32 {
            let (x, y) = (lane % 8, lane / 8);
            let texel = if x < 5 && y < 3 { 0x0102_0304 * (1 + x + y * 5) } else { 0 };
            let components = [4, 5, 6, 7].map(|register| wave.vgpr(register, lane));
            assert_eq!(components, texel.to_le_bytes().map(u32::from), "{arch:?} {backend:?} lane {lane}");
            let stored = gpu.fetch::<u32>(to + u64::from(y * row + x * 4), 1)[0];
            let expected = if x < 4 && y < 3 { texel } else { 0xeeee_eeee };
            assert_eq!(stored, expected, "{arch:?} {backend:?} lane {lane}");
        }
    }
}

#[test]
fn tiles_are_where_the_layout_says() {
    // Mode, and the byte of the texel at 3, 2 of tiles of 4 KiB with four bytes: X0 Y0 X1 Y1 from bit 2 on.
    for (arch, mode) in [(Arch::Gfx1100, 6), (Arch::Gfx1201, 2)] {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let (from, to) = (pages(&mut gpu, 4096), pages(&mut gpu, 4096));
        gpu.memory.write(from + (0b1101 << 2), &0x1234_5678_u32.to_le_bytes());
        let images = [from, to].map(|va| Image::flat(va, R32_UINT, [32, 32], mode).words(arch));
        let program = COPY.all().into_iter().find(|(of, _)| *of == arch).unwrap().1;
        let (wave, stop) = run(&mut gpu, arch, program, &images, (8, NOTHING));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        let loaded: Vec<_> = (0..32).filter(|lane| wave.vgpr(4, *lane) != 0).collect();
        // Every name of a component means the only one that there is.
        assert_eq!(
            (loaded, wave.vgpr(4, 19), wave.vgpr(7, 19)),
            (vec![19], 0x1234_5678, 0x1234_5678),
            "{arch:?}"
        );
        assert_eq!(gpu.fetch::<u32>(to, 1024), gpu.fetch::<u32>(from, 1024), "{arch:?}");
    }
}

#[test]
fn bits_below_a_block_of_the_address_turn_offsets_over() {
    let mut gpu = Gpu::of(Arch::Gfx1100, Backend::detect(), 1 << 20);
    let from = pages(&mut gpu, 4096);
    gpu.memory.write(from + 0x300, &77_u32.to_le_bytes());
    let image = Image::flat(from + 0x300, R32_UINT, [32, 32], 22).words(Arch::Gfx1100);
    let (wave, stop) = run(&mut gpu, Arch::Gfx1100, COPY.gfx11, &[image, [0; 8]], (8, NOTHING));
    assert_eq!((stop, wave.vgpr(4, 0)), (Stop::EndProgram, 77));
}

#[test]
fn addresses_and_data_of_sixteen_bits_share_registers() {
    for (arch, program) in HALVES.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let (from, to) = (pages(&mut gpu, 4096), pages(&mut gpu, 4096));
        gpu.memory.write(from, &[10, 20, 30, 40, 50, 60, 70, 80]);
        let images = [from, to].map(|va| Image::flat(va, RGBA8_UINT, [8, 4], 0).words(arch));
        let (wave, stop) = run(&mut gpu, arch, program, &images, (8, NOTHING));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        let loaded = [4, 5].map(|register| wave.vgpr(register, 1));
        assert_eq!(loaded, [50 | 60 << 16, 70 | 80 << 16], "{arch:?}");
        // A number too large is the largest; what the mask leaves out is 0, or what the first register has.
        let expected = if arch == Arch::Gfx1201 { [255; 4] } else { [0, 0, 255, 0] };
        assert_eq!(gpu.memory.read(to + 4, 4), expected, "{arch:?}");
    }
}

#[test]
fn layers_and_levels_are_found_and_others_are_empty() {
    for (arch, program) in OF_LAYERS.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let from = pages(&mut gpu, 4 * 4096);
        // Slices of 8 rows count 256 bytes for each.
        gpu.memory.write(from + 3 * 8 * 256, &[1, 2, 3, 4]);
        let image = Image { kind: 13, slices: [1, 3], ..Image::flat(from, RGBA8_UINT, [8, 8], 0) };
        let layers = lanes(|lane| lane / 8);
        let (wave, stop) =
            run(&mut gpu, arch, program, &[image.words(arch)], (8, [layers, [0; 64], [0; 64]]));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        // Lane 16 is in layer 2, row 2; its texel is in the first row.
        assert_eq!((wave.vgpr(4, 16), wave.vgpr(4, 24)), (0, 0), "{arch:?}");
        let layers = lanes(|lane| 2 + lane % 2);
        let (wave, _) =
            run(&mut gpu, arch, program, &[image.words(arch)], (1 << 20, [layers, [0; 64], [0; 64]]));
        assert_eq!((wave.vgpr(4, 0), wave.vgpr(4, 1)), (2, 0), "{arch:?}");
    }
    for (arch, program) in OF_LEVELS.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let from = pages(&mut gpu, 4 * 4096);
        // The second level, of four rows, comes first.
        gpu.memory.write(from, &[5, 6, 7, 8]);
        gpu.memory.write(from + 4 * 256, &[1, 2, 3, 4]);
        let image = Image { levels: 2, ..Image::flat(from, RGBA8_UINT, [8, 8], 0) };
        let levels = lanes(|lane| lane / 8);
        let (wave, stop) =
            run(&mut gpu, arch, program, &[image.words(arch)], (1 << 20, [levels, [0; 64], [0; 64]]));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        assert_eq!(wave.vgpr(4, 0), 1, "{arch:?}");
        let image = Image::flat(from, RGBA8_UINT, [8, 8], 0);
        let (wave, _) = run(&mut gpu, arch, program, &[image.words(arch)], (1, [[1; 64], [9; 64], [0; 64]]));
        assert_eq!(wave.vgpr(4, 0), 0, "{arch:?}: there is one level");
    }
}

#[test]
fn atomics_return_what_texels_had() {
    for (arch, program) in ADD.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let at = pages(&mut gpu, 4096);
        gpu.memory.write(at, &100_u32.to_le_bytes());
        let image = Image::flat(at, R32_UINT, [1, 1], 0).words(arch);
        let data = lanes(|lane| lane + 1);
        let (wave, stop) = run(&mut gpu, arch, program, &[image], (8, [[0; 64], data, [0; 64]]));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        assert_eq!((gpu.fetch::<u32>(at, 1)[0], wave.vgpr(4, 0), wave.vgpr(4, 1)), (101, 100, 0), "{arch:?}");
        // Of another size than the texels.
        let image = Image::flat(at, 1, [1, 1], 0).words(arch);
        let (_, stop) = run(&mut gpu, arch, program, &[image], (8, NOTHING));
        assert_refused(&stop, "format of an atomic", 1);
    }
    for (arch, program) in COMPARE.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let at = pages(&mut gpu, 4096);
        let image = Image::flat(at, R32_UINT, [32, 1], 0).words(arch);
        let (data, other) = (lanes(|lane| lane + 50), lanes(|lane| lane % 2));
        let (wave, stop) = run(&mut gpu, arch, program, &[image], (32, [[0; 64], data, other]));
        assert_eq!((stop, wave.vgpr(4, 5)), (Stop::EndProgram, 0), "{arch:?}");
        let expected: Vec<u32> = (0..32).map(|lane| if lane % 2 == 0 { lane + 50 } else { 0 }).collect();
        assert_eq!(gpu.fetch::<u32>(at, 32), expected, "{arch:?}");
    }
}

#[test]
fn sizes_are_those_of_a_level() {
    for (arch, program) in SIZE.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let image =
            Image { kind: 13, slices: [2, 6], levels: 4, ..Image::flat(0x1000, R32_UINT, [100, 30], 0) };
        let (wave, stop) = run(&mut gpu, arch, program, &[image.words(arch)], (32, NOTHING));
        assert_eq!(stop, Stop::EndProgram, "{arch:?}");
        let size = |lane: u32| [4, 5, 6, 7].map(|register| wave.vgpr(register, lane));
        assert_eq!(
            [0, 1, 3, 4].map(size),
            [[100, 30, 5, 4], [50, 15, 5, 4], [12, 3, 5, 4], [0, 0, 0, 4]],
            "{arch:?}"
        );
    }
}

fn assert_refused(stop: &Stop, what: &str, value: u32) {
    let Stop::Fault(fault) = stop else { panic!("{stop:?}") };
    let FaultCause::Image { what: told, value: number } = &fault.kind else { panic!("{fault}") };
    assert_eq!((*told, *number), (what, value));
}

#[test]
fn null_descriptors_are_empty_and_unknown_ones_are_refused_by_name() {
    for (arch, program) in COPY.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let to = pages(&mut gpu, 4096);
        let good = Image::flat(to, RGBA8_UINT, [8, 4], 0);
        let (wave, stop) = run(&mut gpu, arch, program, &[[0; 8], [0; 8]], (8, NOTHING));
        assert_eq!((stop, wave.vgpr(4, 0), wave.vgpr(7, 31)), (Stop::EndProgram, 0, 0), "{arch:?}");
        let refused = [
            (Image { mode: 19, ..good }, "swizzle mode", 19),
            (Image { format: 108, ..good }, "format", 108),
            (Image { kind: 15, ..good }, "type", 15),
        ];
        for (image, what, value) in refused {
            let (_, stop) = run(&mut gpu, arch, program, &[image.words(arch), [0; 8]], (8, NOTHING));
            assert_refused(&stop, what, value);
        }
        // sRGB is read and not stored.
        let images = [good.words(arch), Image { format: 66, ..good }.words(arch)];
        let (_, stop) = run(&mut gpu, arch, program, &images, (8, NOTHING));
        assert_refused(&stop, "format of a store", 66);
    }
}

#[test]
fn memory_that_is_not_there_stops_the_wave_and_all_its_lanes_are_told() {
    for (arch, program) in COPY.all() {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let at = pages(&mut gpu, 2 * 4096);
        let good = Image::flat(at, RGBA8_UINT, [8, 32], 0).words(arch);
        // Rows of 128 or 256 bytes: lanes of all rows are behind the last page from some row on.
        let bad = Image::flat(super::common::BASE + (1 << 20) - 512, RGBA8_UINT, [8, 32], 0).words(arch);
        let mask = if arch == Arch::Gfx1201 { 0 } else { 0xffff_0000 };
        for images in [[bad, good], [good, bad]] {
            let (_, stop) = run(&mut gpu, arch, program, &images, (8, NOTHING));
            match stop {
                Stop::EndProgram => assert_eq!(mask, 0, "{arch:?}"),
                Stop::Fault(fault) => {
                    let FaultCause::Memory { fault, lanes } = fault.kind else { panic!("{fault}") };
                    assert_eq!((fault.kind, lanes), (FaultKind::NotPresent, mask), "{arch:?}");
                    assert_eq!(fault.va, super::common::BASE + (1 << 20), "{arch:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
