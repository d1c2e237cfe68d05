//! Single instructions and short programs, from assembled words, on every backend the host has.

mod arithmetic;
mod buffers;
mod cards;
mod code;
#[path = "../common/mod.rs"]
mod common;
mod compiled;
mod context;
mod counted;
mod covered;
mod debug;
mod elements;
mod formats;
mod fused;
mod gfx12;
mod gfx9;
mod gfx950;
mod halves;
mod image_descriptors;
mod images;
mod kept;
mod lds;
mod modes;
mod order;
mod permuted;
mod rare;
mod resume;
mod sample_programs;
mod samples;
mod scaled;
mod series;
mod shared;
mod succession;
mod times;
mod touched;
mod true16;
mod words;

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Access, FaultKind};
use belfry_isa::wave::{Wave, WaveInit};
use common::{APERTURES, Gpu};

/// A GPU with a program in it.
struct Bench {
    gpu: Gpu,
    pc: u64,
    scratch: u64,
}

impl Bench {
    fn new(backend: Backend, program: &[u32]) -> Bench {
        let mut gpu = Gpu::new(backend, 1 << 20);
        let pc = gpu.buffer(program);
        let scratch = gpu.alloc(8192);
        gpu.lds.reset(1024);
        Bench { gpu, pc, scratch }
    }

    fn wave(&self, size: WaveSize, vgprs: &[[u32; 64]], sgprs: &[u32]) -> Wave {
        Wave::new(&WaveInit {
            pc: self.pc,
            exec: u64::MAX,
            wave_size: size,
            vgprs,
            sgprs,
            vgpr_count: 32,
            scratch_base: self.scratch,
            scratch_size_per_lane: 64,
            ..WaveInit::default()
        })
    }

    fn run(&mut self, wave: &mut Wave) -> Stop {
        self.gpu.step(wave, 10_000)
    }
}

/// Runs a program in a wave32 on every backend and hands the wave to `check`.
fn program(words: &[u32], vgprs: &[[u32; 64]], sgprs: &[u32], check: impl Fn(&Wave, &Bench)) {
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, words);
        let mut wave = bench.wave(WaveSize::Wave32, vgprs, sgprs);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram, "{:?}", backend.kind());
        check(&wave, &bench);
    }
}

fn lanes(f: impl Fn(u32) -> u32) -> [u32; 64] {
    core::array::from_fn(|lane| f(lane as u32))
}

#[test]
fn carries() {
    let (a, b) = (lanes(|l| u32::MAX - l), lanes(|l| 2 * l));
    program(words::CARRY_CHAIN, &[a, b], &[], |wave, _| {
        for lane in 0..32 {
            let (a, b) = (a[lane as usize], b[lane as usize]);
            let (sum, carry) = a.overflowing_add(b);
            assert_eq!(wave.vgpr(2, lane), sum);
            assert_eq!(wave.vgpr(3, lane), b + u32::from(carry));
            let (difference, borrow) = a.overflowing_sub(b);
            assert_eq!(wave.vgpr(4, lane), difference);
            assert_eq!(wave.sgpr(2) >> lane & 1 != 0, borrow);
            assert_eq!(wave.vgpr(5, lane), b.wrapping_sub(a).wrapping_sub(u32::from(borrow)));
            assert_eq!(wave.sgpr(3) >> lane & 1 != 0, u64::from(b) < u64::from(a) + u64::from(borrow));
        }
    });
}

#[test]
fn a_dual_instruction_reads_before_it_writes() {
    let float = |x: f32| lanes(|_| x.to_bits());
    program(words::DUAL_SWAP, &[lanes(|l| l), lanes(|l| l + 100), float(1.5), float(7.0)], &[], |wave, _| {
        for lane in 0..32 {
            assert_eq!((wave.vgpr(0, lane), wave.vgpr(1, lane)), (lane + 100, lane));
            assert_eq!((wave.vgpr(2, lane), wave.vgpr(3, lane)), (7.0_f32.to_bits(), 3.0_f32.to_bits()));
        }
        assert_eq!(wave.instructions, 3, "a dual instruction counts once");
    });
}

#[test]
fn lane_permutations_of_sources() {
    let old = lanes(|_| 1000);
    program(words::DPP, &[lanes(|l| l + 1), old, old, old, old], &[], |wave, _| {
        for lane in 0..32 {
            let shifted = if lane % 16 == 0 { None } else { Some(lane) };
            assert_eq!(wave.vgpr(1, lane), shifted.unwrap_or(1000));
            assert_eq!(wave.vgpr(2, lane), shifted.unwrap_or(0));
            assert_eq!(wave.vgpr(3, lane), if lane < 16 { (lane ^ 3) + 1 } else { 1000 });
            assert_eq!(wave.vgpr(4, lane), (lane ^ 7) + 1);
        }
        assert_eq!(wave.exec(), 0xffff_ffff, "EXEC is given back");
    });
}

#[test]
fn input_and_output_modifiers() {
    let x = lanes(|l| ((l as f32 - 10.0) / 4.0).to_bits());
    let zero = lanes(|_| 0);
    // v6: high half 2.0; v7: low half 0.5.
    let vgprs =
        [x, zero, zero, zero, zero, lanes(|_| 0x1234), lanes(|_| 0x4000_0001), lanes(|_| 0x7fff_3800)];
    program(words::MODIFIERS, &vgprs, &[], |wave, _| {
        for lane in 0..32 {
            let x = f32::from_bits(x[lane as usize]);
            let result = |register: u8| f32::from_bits(wave.vgpr(register, lane));
            assert_eq!(result(1), 2.0 - x.abs());
            assert_eq!(result(2), (x * x).min(1.0));
            // There is no output multiplier where denormals are kept.
            assert_eq!(result(3), x * 2.0);
            assert_eq!(result(4), 1.0 - x * x);
            assert_eq!(wave.vgpr(5, lane), 0x4100_1234, "2.0 + 0.5 in the high half, the low one kept");
            assert_eq!(result(8), -x, "VCC is clear");
        }
    });
}

#[test]
fn sixty_four_bit_operations() {
    let (low, high) = (lanes(|l| 0x8000_0001 + l), lanes(|l| 0xf000_0000 | l));
    let count = lanes(|l| l * 3);
    let double: u64 = 3.25_f64.to_bits();
    let mut vgprs = vec![low, high];
    vgprs.resize(16, lanes(|_| 0));
    vgprs[6] = count;
    vgprs[14] = lanes(|_| double as u32);
    vgprs[15] = lanes(|_| (double >> 32) as u32);
    program(words::WIDE, &vgprs, &[], |wave, _| {
        for lane in 0..32 {
            let pair = |register: u8| {
                u64::from(wave.vgpr(register, lane)) | u64::from(wave.vgpr(register + 1, lane)) << 32
            };
            let value = u64::from(low[lane as usize]) | u64::from(high[lane as usize]) << 32;
            assert_eq!(pair(2), value << 33);
            assert_eq!(pair(4), value.wrapping_shl(count[lane as usize]));
            let product = u64::from(low[lane as usize]) * u64::from(high[lane as usize]);
            assert_eq!(pair(8), product.wrapping_add(value));
            assert_eq!(pair(10), (value.cast_signed() >> 4).cast_unsigned());
            assert_eq!(f64::from_bits(pair(12)), 3.25_f64.mul_add(2.0, 0.159_154_943_091_895_32));
        }
    });
}

#[test]
fn lane_access_and_exec_writing_comparisons() {
    let nans = lanes(|l| [0x7fa0_0000, 0x7fc0_0000, 0x7f80_0000, 0x3f80_0000][l as usize % 4]);
    program(
        words::LANES,
        &[lanes(|l| l + 3), lanes(|_| 0), lanes(|_| 0), nans, lanes(|_| 1)],
        &[],
        |wave, _| {
            assert_eq!(wave.sgpr(4), 3);
            assert_eq!(wave.sgpr(5), 10);
            assert_eq!(wave.sgpr(6), 0x3333_3333, "signalling and quiet NaNs");
            for lane in 0..32 {
                assert_eq!(wave.vgpr(1, lane), if lane == 3 { 3 } else { 0 });
                assert_eq!(wave.vgpr(2, lane), lane, "lanes below this one");
                assert_eq!(wave.vgpr(4, lane), if lane + 3 < 8 { 5 } else { 1 });
            }
        },
    );
}

#[test]
fn scalar_operations() {
    let sgprs: [u32; 14] =
        core::array::from_fn(|n| [0xff00, 0x1234].get(n.wrapping_sub(12)).copied().unwrap_or(0));
    program(words::SCALAR, &[], &sgprs, |wave, _| {
        assert_eq!(wave.sgpr(0), 3);
        assert_eq!(wave.sgpr(1), 2, "no signed overflow");
        assert_eq!(wave.sgpr(2), u32::MAX);
        assert_eq!(wave.sgpr(3), u32::MAX, "EXEC as it was");
        assert_eq!(wave.exec(), 0xffff_ffff);
        assert_eq!(wave.sgpr(4), 3);
        assert_eq!(wave.sgpr(6), 7);
        assert_eq!(wave.sgpr(8), 32);
        assert_eq!(wave.sgpr(9), 0xabcd_1234);
        assert_eq!((wave.sgpr(10), wave.sgpr(11)), (0, 0x3ff0_0000));
    });
}

#[test]
fn calls_and_returns() {
    program(words::CALL, &[], &[], |wave, _| {
        assert_eq!((wave.sgpr(4), wave.sgpr(5)), (1, 2));
        assert_eq!(wave.instructions, 8);
    });
}

#[test]
fn local_memory() {
    let mut vgprs = vec![lanes(|l| l + 5), lanes(|_| 0), lanes(|l| l * 7)];
    vgprs.resize(11, lanes(|_| 0));
    vgprs[8] = lanes(|_| 0xffff_ffff);
    vgprs[7] = lanes(|_| 40);
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, words::LDS);
        bench.gpu.lds.bytes_mut()[512..516].copy_from_slice(&100_u32.to_le_bytes());
        let mut wave = bench.wave(WaveSize::Wave32, &vgprs, &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        let mut counter = 100;
        for lane in 0..32 {
            assert_eq!(
                (wave.vgpr(1, lane), wave.vgpr(2, lane)),
                (lane + 5, lane * 7),
                "the address is overwritten"
            );
            assert_eq!(wave.vgpr(3, lane), counter, "lanes go in order");
            counter += lane + 5;
            assert_eq!((wave.vgpr(5, lane), wave.vgpr(6, lane)), (5, 0), "what lane 0 stored");
            assert_eq!(wave.vgpr(8, lane), 0x0005_ffff);
            assert_eq!(wave.vgpr(9, lane), 15, "lane 10's");
            assert_eq!(wave.vgpr(10, lane), (lane ^ 1) + 5);
        }
    }
}

#[test]
fn private_memory_and_flat_addresses() {
    let mut vgprs = vec![lanes(|l| 0x100 + l), lanes(|l| 8 + l)];
    vgprs.resize(10, lanes(|_| 0));
    vgprs[6] = lanes(|_| 4);
    vgprs[7] = lanes(|_| (APERTURES.private_base >> 32) as u32);
    vgprs[8] = lanes(|l| l * 4);
    vgprs[9] = lanes(|_| (APERTURES.shared_base >> 32) as u32);
    program(words::SCRATCH, &vgprs, &[], |wave, bench| {
        for lane in 0..32 {
            assert_eq!(wave.vgpr(2, lane), 0x100 + lane);
            assert_eq!(wave.vgpr(3, lane), lane);
            assert_eq!(wave.vgpr(4, lane), 0x100 + lane, "through the private aperture");
            assert_eq!(wave.vgpr(5, lane), 0x100 + lane, "through the shared aperture");
            let at = lane as usize * 4;
            assert_eq!(bench.gpu.lds.bytes()[at..at + 4], (0x100 + lane).to_le_bytes());
        }
        let dwords: Vec<u32> = bench.gpu.fetch(bench.scratch + 128, 32);
        assert_eq!(dwords, (0..32).map(|l| 0x100 + l).collect::<Vec<u32>>(), "lanes lie side by side");
    });
}

#[test]
fn global_memory() {
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, words::GLOBAL);
        let mut memory: Vec<u32> = (0..512).map(|i| i * 0x0001_0001).collect();
        memory[0] = 1000;
        for i in 0..32 {
            (memory[256 + i * 2], memory[257 + i * 2]) = (i as u32, 1);
        }
        let data = bench.gpu.buffer(&memory);
        let mut vgprs = vec![lanes(|l| l), lanes(|_| 0), lanes(|_| 0), lanes(|l| l * 12), lanes(|_| 0)];
        vgprs.resize(18, lanes(|_| 0));
        vgprs[7] = lanes(|l| l * 16);
        vgprs[12] = lanes(|l| l * 8);
        // New value 7:9 where the old one is 1:even lane.
        (vgprs[14], vgprs[15], vgprs[16], vgprs[17]) =
            (lanes(|_| 9), lanes(|_| 7), lanes(|l| l & !1), lanes(|_| 1));
        let mut wave = bench.wave(WaveSize::Wave32, &vgprs, &[data as u32, (data >> 32) as u32]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        let after: Vec<u32> = bench.gpu.fetch(data, 512);
        assert_eq!(after[0], 1000 + (0..32).sum::<u32>());
        for lane in 0..32_u32 {
            assert_eq!(wave.vgpr(2, lane), 1000 + (0..lane).sum::<u32>());
            let at = 16 + lane as usize * 3;
            for n in 0..3 {
                assert_eq!(wave.vgpr(4 + n, lane), memory[at + usize::from(n)]);
                assert_eq!(after[128 + lane as usize * 4 + usize::from(n)], memory[at + usize::from(n)]);
            }
            assert_eq!(after[131 + lane as usize * 4], lane * 16);
            assert_eq!(wave.vgpr(8, lane), memory[at] & 0xffff_0000, "two bytes on, in the high half");
        }
    }
}

#[test]
fn waves_of_sixty_four() {
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, words::WAVE64);
        let mut wave = bench.wave(WaveSize::Wave64, &[lanes(|l| l), lanes(|_| 1)], &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        for lane in 0..64 {
            assert_eq!(wave.vgpr(1, lane), if lane < 40 { 9 } else { 1 });
            assert_eq!(wave.vgpr(2, lane), lane.wrapping_sub(8));
            assert_eq!(wave.vgpr(3, lane), if lane >= 8 { 2 } else { 1 }, "the addition carries");
            assert_eq!(wave.vgpr(4, lane), lane ^ 32);
        }
        assert_eq!(wave.sgpr(4), 63);
        assert_eq!(wave.exec(), u64::MAX);
    }
}

#[test]
fn packed_operations() {
    // Low half 2.0, high half 3.0.
    let mut vgprs = vec![lanes(|_| 0x4200_4000)];
    vgprs.resize(9, lanes(|_| 0));
    vgprs[5] = lanes(|_| 0.5_f32.to_bits());
    vgprs[8] = lanes(|_| 0xaabb_ccdd);
    program(words::PACKED, &vgprs, &[0x0c00_0407], |wave, _| {
        assert_eq!(wave.vgpr(1, 0), 0x4400_4200, "3 and 4");
        let (low, high) = (0x4000_u32, 0x4200_u32);
        let product = (low * high) & 0xffff;
        assert_eq!(wave.vgpr(2, 0), product << 16 | product);
        assert_eq!(wave.vgpr(3, 0), 0xc600_c000, "-2·2+2 and -3·3+3");
        assert_eq!(f32::from_bits(wave.vgpr(4, 0)), 3.0 * 0.5 + 2.0);
        assert_eq!(f32::from_bits(wave.vgpr(6, 0)), 4.0 + 9.0 + 1.0);
        assert_eq!(wave.vgpr(7, 0), 0x00dd_0042);
    });
}

#[test]
fn the_mode_register_flushes_denormals() {
    let mut vgprs = vec![lanes(|_| 0x0000_0100)];
    vgprs.resize(6, lanes(|_| 0x3f80_0000));
    program(words::MODE, &vgprs, &[], |wave, _| {
        assert_eq!(wave.vgpr(1, 5), 0);
        assert_eq!(wave.vgpr(2, 5), 0x0000_0200);
        assert_eq!(wave.sgpr(0), 15);
        assert_eq!(wave.vgpr(3, 5), 0x3f80_0000);
    });
}

fn fault(words: &[u32]) -> (u64, FaultCause) {
    let mut bench = Bench::new(Backend::detect(), words);
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    match bench.run(&mut wave) {
        Stop::Fault(fault) => {
            assert_eq!(fault.pc, wave.pc());
            ((fault.pc - bench.pc) / 4, fault.kind)
        }
        other => panic!("no fault but {other:?}"),
    }
}

#[test]
fn page_faults_name_every_lane_that_fails_and_the_first_address() {
    const END: u64 = common::BASE + (1 << 20);
    // One instruction with its address in v[0:1]; bytes, access.
    let rows: [(&[u32], u64, Access); 5] = [
        (words::LOAD_B32, 4, Access::Read),
        (words::LOAD_B64, 8, Access::Read),
        (words::LOAD_U8, 1, Access::Read),
        (words::STORE_B32, 4, Access::Write),
        (words::ATOMIC_ADD, 4, Access::Atomic),
    ];
    for backend in Backend::all() {
        for (program, bytes, access) in rows {
            // Lanes side by side, and with gaps between them, across the end of memory after ten lanes.
            for stride in [bytes, 2 * bytes] {
                let address = |lane: u32| END.wrapping_add_signed((i64::from(lane) - 10) * stride as i64);
                let [low, high] = [0, 32].map(|shift| lanes(|lane| (address(lane) >> shift) as u32));
                let mut bench = Bench::new(backend, program);
                let mut wave = bench.wave(WaveSize::Wave32, &[low, high], &[]);
                let Stop::Fault(fault) = bench.run(&mut wave) else { panic!("no fault") };
                let FaultCause::Memory { fault: memory, lanes } = fault.kind else { panic!("{fault}") };
                let expected = (END, access, FaultKind::NotPresent, 0xffff_fc00);
                assert_eq!((memory.va, memory.access, memory.kind, lanes), expected, "{stride}");
                assert_eq!((fault.pc, wave.pc()), (bench.pc, bench.pc), "the wave stops there");
            }
        }
    }
}

#[test]
fn faults_say_what_happened_and_where() {
    let (at, cause) = fault(words::BAD_GLOBAL);
    assert_eq!(at, 2);
    let FaultCause::Memory { fault: fault_, lanes } = cause else { panic!("{cause:?}") };
    assert_eq!((fault_.va, fault_.access, fault_.kind), (1 << 32, Access::Read, FaultKind::NotPresent));
    assert_eq!(lanes, 0xffff_ffff);

    let (at, cause) = fault(words::BAD_SCRATCH);
    assert_eq!(at, 0);
    assert!(
        matches!(cause, FaultCause::Memory { fault, lanes: 0xffff_ffff } if fault.kind == FaultKind::Aperture),
        "{cause:?}"
    );

    let (at, cause) = fault(words::BAD_VGPR);
    assert_eq!(at, 0);
    let FaultCause::RegisterOutOfRange { register: 40, allocated: 32, text } = cause else {
        panic!("{cause:?}")
    };
    assert_eq!(text, "v_mov_b32_e32 v40, 0");

    let (at, cause) = fault(words::UNKNOWN);
    assert_eq!(at, 0);
    let FaultCause::Unimplemented { text, bytes, .. } = cause else { panic!("{cause:?}") };
    assert!(text.starts_with("image_msaa_load"), "{text}");
    assert_eq!(bytes.len(), 8);

    let (at, cause) = fault(&[0xbf80_0000, 0xffff_ffff]);
    assert_eq!(at, 1, "the s_nop is passed");
    assert!(matches!(cause, FaultCause::IllegalInstruction { .. }), "{cause:?}");

    // Running off into memory that is not there.
    let mut gpu = Gpu::new(Backend::detect(), 1 << 18);
    let pc = common::BASE + (1 << 18) - 4;
    gpu.memory.write(pc, &0xbf80_0000_u32.to_le_bytes());
    let mut wave = Wave::new(&WaveInit { pc, ..WaveInit::default() });
    let Stop::Fault(fault) = gpu.step(&mut wave, 10) else { panic!("no fault") };
    assert_eq!(fault.pc, pc + 4);
    assert!(
        matches!(fault.kind, FaultCause::Memory { fault, .. } if fault.access == Access::Execute),
        "{fault}"
    );
}

#[test]
fn overflows_to_half_precision_are_limited_when_mode_says_so() {
    const FP16_OVFL: u32 = 1 << 23;
    let all = |word: u32| [word; 64];
    let largest = all(0x7bff_7bff);
    let vgprs =
        [largest, largest, all(0), all(0), all(0), all(1e6f32.to_bits()), all(0), all(0), all(0x7c00)];
    for backend in Backend::all() {
        for (bits, expected) in [
            (0, [0x7c00, 0x7c00_7c00, 0x7c00, 0x7c00, 0x7c00]),
            (FP16_OVFL, [0x7bff, 0x7bff_7bff, 0x7bff, 0x7bff, 0x7c00]),
        ] {
            let mut bench = Bench::new(backend, words::HALF_OVERFLOWS);
            let mut wave = Wave::new(&WaveInit {
                pc: bench.pc,
                vgprs: &vgprs,
                mode: Wave::DEFAULT_MODE | bits,
                ..WaveInit::default()
            });
            assert_eq!(bench.run(&mut wave), Stop::EndProgram);
            assert_eq!([2, 3, 4, 6, 7].map(|register| wave.vgpr(register, 9)), expected, "{bits:#x}");
        }
    }
}

#[test]
fn code_a_wave_has_written_runs_after_it_invalidates_the_cache() {
    let mut bench = Bench::new(Backend::detect(), words::SELF_MODIFYING);
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    assert_eq!(bench.run(&mut wave), Stop::EndProgram);
    assert_eq!(wave.sgpr(0), 2);
}

#[test]
fn messages_of_other_stages_are_named() {
    let (_, cause) = fault(&[0xbfb6_0009, 0xbfb0_0000]);
    let FaultCause::Unimplemented { text, .. } = cause else { panic!("{cause:?}") };
    assert_eq!(text, "s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)");
}
