//! Lanes from other lanes as compiled code has them, against the interpreter: the same registers and EXEC for every control,
//! mask and set of active lanes.

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::compiled::tiers;
use super::lanes;

/// Sets of active lanes.
const EXECS: [u64; 8] = [
    u64::MAX,
    0xaaaa_5555_aaaa_5555,
    0xffff_ffff_ffff_fffe,
    1 << 17 | 1 << 40,
    0xffff_0000_0000,
    0xffff_ffff,
    0,
    0x7fff_ffff_7fff_ffff,
];

struct Runner {
    arch: Arch,
    gpu: Gpu,
    pc: u64,
    size: WaveSize,
}

/// State after a run.
#[derive(PartialEq, Debug)]
struct Outcome {
    stop: Stop,
    pc: u64,
    instructions: u64,
    exec: u64,
    sgprs: Vec<u32>,
    vgprs: Vec<u32>,
}

impl Runner {
    fn new(arch: Arch, size: WaveSize, backend: Backend, instruction: &[u32]) -> Runner {
        // Rows that memory does not have yet, and a use of the result: v_xor_b32_e32 v4, v4, v30; v_xor_b32_e32 v0, v0, v30;
        // v_xor_b32_e32 v20, v8, v4; s_endpgm; llvm-mc-19 -mcpu=gfx1100 and -mcpu=gfx942.
        let [first, second, last, end] = match arch {
            Arch::Gfx942 | Arch::Gfx950 => [0x2a08_3d04, 0x2a00_3d00, 0x2a28_0908, 0xbf81_0000],
            _ => [0x3a08_3d04, 0x3a00_3d00, 0x3a28_0908, 0xbfb0_0000],
        };
        let program = [&[first, second][..], instruction, &[last, end]].concat();
        let mut gpu = Gpu::of(arch, backend, 1 << 20);
        let pc = gpu.buffer(&program);
        Runner { arch, gpu, pc, size }
    }

    fn run(&mut self, exec: u64) -> Outcome {
        let mut vgprs: Vec<[u32; 64]> = (0..32_u32)
            .map(|register| lanes(|lane| (lane * 0x0103_0507 + 0x81).wrapping_mul(register * 2 + 1)))
            .collect();
        // Addresses of lanes in no order, some of them beyond the last one.
        vgprs[0] = lanes(|lane| (lane * 29 + 3) % 80 * 4 + lane % 4);
        vgprs[30] = [0; 64];
        let sgprs: Vec<u32> = (0..16).map(|register| register * 0x1111_1111).collect();
        let mut wave = Wave::new(&WaveInit {
            arch: self.arch,
            pc: self.pc,
            exec,
            wave_size: self.size,
            vgprs: &vgprs,
            sgprs: &sgprs,
            vgpr_count: 32,
            ..WaveInit::default()
        });
        let stop = self.gpu.step(&mut wave, 10_000);
        let lanes = wave.lanes();
        Outcome {
            stop,
            pc: wave.pc() - self.pc,
            instructions: wave.instructions,
            exec: wave.exec(),
            sgprs: (0..16).map(|register| wave.sgpr(register)).collect(),
            vgprs: (0..32)
                .flat_map(|n| (0..lanes).map(move |lane| (n, lane)))
                .map(|(n, l)| wave.vgpr(n, l))
                .collect(),
        }
    }
}

/// Runs an instruction in both tiers, in waves with every set of active lanes.
fn compare(arch: Arch, size: WaveSize, instruction: &[u32]) {
    tiers().for_each(|tiers| compare_tiers(tiers, arch, size, instruction));
}

fn compare_tiers(tiers: [Backend; 2], arch: Arch, size: WaveSize, instruction: &[u32]) {
    let mut runners = tiers.map(|backend| Runner::new(arch, size, backend, instruction));
    for exec in EXECS {
        let [expected, found] = runners.each_mut().map(|runner| runner.run(exec));
        assert_eq!(expected.stop, Stop::EndProgram, "{instruction:x?}");
        let differs = (0..expected.vgprs.len()).find(|&n| expected.vgprs[n] != found.vgprs[n]);
        let lanes = expected.vgprs.len() / 32;
        assert!(
            expected == found,
            "{:?} {arch:?} {size:?} {instruction:x?} with EXEC {exec:#x}: register and lane {:?}, EXEC {:#x} and {:#x}",
            tiers[1],
            differs.map(|n| (n / lanes, n % lanes, expected.vgprs[n], found.vgprs[n])),
            expected.exec,
            found.exec,
        );
    }
}

fn both_sizes(instruction: &[u32]) {
    compare(Arch::Gfx1100, WaveSize::Wave32, instruction);
    compare(Arch::Gfx1100, WaveSize::Wave64, instruction);
}

/// Control and the masks of a DPP16 instruction whose first source is `v4`.
fn dpp16(control: u32, [row_mask, bank_mask]: [u32; 2], [bound_ctrl, fetch_inactive]: [bool; 2]) -> u32 {
    4 | control << 8
        | u32::from(fetch_inactive) << 18
        | u32::from(bound_ctrl) << 19
        | bank_mask << 24
        | row_mask << 28
}

const MASKS: [[u32; 2]; 4] = [[15, 15], [15, 5], [1, 15], [10, 12]];
const FLAGS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

#[test]
fn rows_of_sixteen_lanes() {
    let controls = [
        0x1b, 0xe4, 0x93, 0x101, 0x10f, 0x111, 0x118, 0x121, 0x12f, 0x140, 0x141, 0x150, 0x15d, 0x160, 0x161,
        0x16f,
    ];
    for control in controls {
        for masks in MASKS {
            for flags in FLAGS {
                let fields = dpp16(control, masks, flags);
                // v_add_nc_u32_dpp v8, v4, v5 and v_mov_b32_dpp v4, v4.
                both_sizes(&[0x4a10_0afa, fields]);
                both_sizes(&[0x7e08_02fa, fields]);
            }
        }
    }
}

#[test]
fn groups_of_eight_lanes() {
    for selectors in [0x00fa_c688, 0x0005_3977, 0, 0x00ff_ffff] {
        // v_add_nc_u32_dpp v8, v4, v5, without and with lanes that are off.
        both_sizes(&[0x4a10_0ae9, 4 | selectors << 8]);
        both_sizes(&[0x4a10_0aea, 4 | selectors << 8]);
    }
}

#[test]
fn comparisons_of_permuted_lanes() {
    for flags in FLAGS {
        let fields = dpp16(0x111, [15, 15], flags);
        // v_cmp_lt_u32_dpp vcc, v4, v5 and v_cmpx_lt_u32_dpp v4, v5.
        both_sizes(&[0x7c92_0afa, fields]);
        both_sizes(&[0x7d92_0afa, fields]);
    }
}

#[test]
fn rows_across_a_wave_of_gfx9() {
    let controls = [0x1b, 0x111, 0x12f, 0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143];
    for control in controls {
        for masks in MASKS {
            for bound_ctrl in [false, true] {
                let fields = dpp16(control, masks, [bound_ctrl, false]);
                // v_add_u32_dpp v8, v4, v5.
                compare(Arch::Gfx942, WaveSize::Wave64, &[0x6810_0afa, fields]);
            }
        }
    }
}

#[test]
fn lanes_by_address() {
    for offset in [0, 4, 60] {
        // ds_bpermute_b32 v8, v0, v4; v4, v0, v4; v0, v0, v4.
        for destination in [8, 4, 0] {
            let operands = destination << 24 | 0x0400;
            both_sizes(&[0xdacc_0000 | offset, operands]);
            compare(Arch::Gfx942, WaveSize::Wave64, &[0xd87e_0000 | offset, operands]);
        }
    }
}

#[test]
fn swizzled_lanes() {
    let offsets = [
        0x401f, 0x041f, 0x001f, 0x0000, 0x7c1f, 0x0210, 0x801b, 0x80e4, 0xc020, 0xc400, 0xc7e3, 0xe000,
        0xe007, 0xe01f,
    ];
    for offset in offsets {
        // ds_swizzle_b32 v8, v4 and v4, v4.
        for destination in [8, 4] {
            both_sizes(&[0xd8d4_0000 | offset, destination << 24 | 4]);
        }
    }
}

#[test]
fn rows_by_constants() {
    // -1, 0, 64 and -16.
    for [first, second] in [[193, 193], [128, 192], [208, 128]] {
        for flags in 0..4 {
            for opcode in [0xd65b_0000, 0xd65c_0000] {
                // v_permlane16_b32 and v_permlanex16_b32 v8, v4 and v4, v4.
                for destination in [8, 4] {
                    both_sizes(&[opcode | flags << 11 | destination, 0x104 | first << 9 | second << 18]);
                }
            }
        }
    }
    // By scalar registers, which only the handler does.
    both_sizes(&[0xd65b_0008, 0x104 | 5 << 9 | 6 << 18]);
}

#[test]
fn lanes_as_scalars() {
    for lane in [0, 1, 15, 16, 31, 40, 63] {
        // v_readlane_b32 s5, v4, and the same to exec_lo.
        both_sizes(&[0xd760_0005, 0x104 | (128 + lane) << 9]);
        both_sizes(&[0xd760_007e, 0x104 | (128 + lane) << 9]);
    }
    // By s6; v_readfirstlane_b32 s5, v4.
    both_sizes(&[0xd760_0005, 0x104 | 6 << 9]);
    both_sizes(&[0x7e0a_0504]);
}

#[test]
fn bits_below_a_lane() {
    for opcode in [0xd71f_0008, 0xd720_0008] {
        // -1, 5, -16, and v5, of which only the handler counts bits; with v4, 0 and v8.
        for mask in [193, 133, 208, 0x105] {
            for sum in [0x104, 128, 0x108] {
                both_sizes(&[opcode, mask | sum << 9]);
            }
        }
    }
}
