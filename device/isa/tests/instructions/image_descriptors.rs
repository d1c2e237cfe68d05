//! Descriptors of images and samplers with any bits: each instruction ends, and nothing outside of memory is accessed.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::sample_programs::PROGRAMS;

/// Numbers without a pattern (splitmix64).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
    }

    /// A word of which some bits may be those of another one: hostile, but not everywhere.
    fn near(&mut self, good: u32) -> u32 {
        match self.word() % 4 {
            0 => self.word(),
            1 => good ^ 1 << (self.word() % 32),
            _ => good,
        }
    }

    fn place(&mut self) -> u32 {
        match self.word() % 4 {
            0 => self.word(),
            1 => self.word() % 16,
            _ => (self.word() as f32 / u32::MAX as f32 * 3.0 - 1.0).to_bits(),
        }
    }
}

#[test]
fn any_bits_are_an_image_a_fault_or_refused_by_name() {
    let mut random = Random(5);
    let mut ends = [0_u32; 3];
    for arch in [Arch::Gfx1100, Arch::Gfx1201] {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let at = gpu.alloc(512 << 10).next_multiple_of(1 << 16);
        // Four bytes, 64 by 64, some levels.
        let new = arch == Arch::Gfx1201;
        let good = [
            (at >> 8) as u32,
            (at >> 40) as u32 | if new { 46 << 17 | 3 << 12 } else { 46 << 20 | 3 << 16 } | 3 << 30,
            63 >> 2 | 63 << 14,
            0o7654 | if new { 3 << 15 } else { 3 << 16 } | 9 << 28,
            0,
            0,
            0,
            0,
        ];
        let programs = PROGRAMS.map(|program| gpu.buffer(if new { program.gfx12 } else { program.gfx11 }));
        for round in 0..6000 {
            let mut sgprs: Vec<u32> = good.iter().map(|word| random.near(*word)).collect();
            // Every layout and every format in turn, as the two lists are short.
            if round % 2 == 0 {
                sgprs[3] = sgprs[3] & !(31 << 20) | (round / 2 % 32) << 20;
            }
            sgprs.extend([random.word() & !(3 << 29), random.word(), random.word(), random.word()]);
            let vgprs: Vec<[u32; 64]> = (0..10).map(|_| core::array::from_fn(|_| random.place())).collect();
            let init = WaveInit {
                arch,
                pc: programs[round as usize % programs.len()],
                exec: u64::from(random.word() | 1),
                vgprs: &vgprs,
                sgprs: &sgprs,
                vgpr_count: 24,
                border_colors: if round % 3 == 0 { at } else { 0 },
                ..WaveInit::default()
            };
            match gpu.step(&mut Wave::new(&init), 10) {
                Stop::EndProgram => ends[0] += 1,
                Stop::Fault(fault) => match fault.kind {
                    FaultCause::Memory { .. } => ends[1] += 1,
                    FaultCause::Image { .. } => ends[2] += 1,
                    _ => panic!("{fault}: {sgprs:x?}"),
                },
                other => panic!("{other:?}: {sgprs:x?}"),
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 1000), "{ends:?}");
}
