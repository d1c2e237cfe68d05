//! Features that are new with gfx12: split barriers, hardware registers, workgroup identifiers in trap temporaries.

mod dynamic;

use belfry_isa::exec::{Barriers, Stop};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::trap::{TrapCause, TrapHandler};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;

/// `ttmp0`.
const TTMP0: u8 = 108;

fn gpu(backend: Backend) -> Gpu {
    Gpu::of(Arch::Gfx1201, backend, 1 << 20)
}

fn wave(pc: u64) -> Wave {
    Wave::new(&WaveInit { arch: Arch::Gfx1201, pc, in_workgroup: true, ..WaveInit::default() })
}

const SPLIT_BARRIER: [u32; 6] = [
    // s_barrier_signal_isfirst -1
    0xbe80_4fc1,
    // s_cselect_b32 s0, 1, 0
    0x9800_8081,
    // s_get_barrier_state s1, -1
    0xbe81_50c1,
    // s_barrier_wait -1
    0xbf94_ffff,
    // s_getreg_b32 s2, hwreg(HW_REG_STATE_PRIV)
    0xb882_f804,
    // s_endpgm
    0xbfb0_0000,
];

#[test]
fn split_barrier_lets_waves_pass_when_all_have_signalled() {
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        let pc = gpu.buffer(&SPLIT_BARRIER);
        gpu.lds.barriers = Barriers::new(3);
        let mut waves = [wave(pc), wave(pc), wave(pc)];
        assert_eq!(gpu.step(&mut waves[0], 100), Stop::Barrier);
        assert_eq!(gpu.step(&mut waves[1], 100), Stop::Barrier);
        assert!(waves[..2].iter().all(|wave| wave.waits_at_split_barrier()));
        assert!(waves[..2].iter().all(|wave| !gpu.lds.barriers.lets_pass(wave)), "one has not signalled");
        assert_eq!(gpu.step(&mut waves[2], 100), Stop::EndProgram, "the last waits for nobody");
        let state = |signals: u32| signals << 16 | 3 << 4 | 1;
        assert_eq!(waves.each_ref().map(|wave| wave.sgpr(0)), [1, 0, 0], "which was the first");
        assert_eq!(waves.each_ref().map(|wave| wave.sgpr(1)), [state(1), state(2), state(0)]);
        for wave in &mut waves[..2] {
            assert!(gpu.lds.barriers.lets_pass(wave));
            wave.pass_split_barrier();
            assert_eq!(gpu.step(wave, 100), Stop::EndProgram);
        }
        assert!(waves.iter().all(|wave| wave.sgpr(2) & 4 == 0), "waiting takes BARRIER_COMPLETE back");
    }
}

#[test]
fn wave_that_ends_is_not_waited_for() {
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        let pc = gpu.buffer(&SPLIT_BARRIER);
        gpu.lds.barriers = Barriers::new(2);
        let mut first = wave(pc);
        assert_eq!(gpu.step(&mut first, 100), Stop::Barrier);
        assert!(!gpu.lds.barriers.lets_pass(&first));
        gpu.lds.barriers.leave();
        assert!(gpu.lds.barriers.lets_pass(&first));
    }
}

#[test]
fn wave_alone_passes_every_barrier() {
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        // s_barrier_wait -1; s_endpgm
        let pc = gpu.buffer(&[0xbf94_ffff_u32, 0xbfb0_0000]);
        assert_eq!(gpu.step(&mut wave(pc), 100), Stop::EndProgram);
    }
}

/// Returns the stop of a wave that signals, as one of three of its workgroup or alone, and at that point SCC and the
/// state of the barrier.
fn signalled(words: [u32; 2], m0: u32, in_workgroup: bool) -> (Stop, u32, u32) {
    let mut results = Backend::all().map(|backend| {
        let mut gpu = gpu(backend);
        // s_cmp_eq_u32 s0, s0, so that SCC is set; the two; s_cselect_b32 s2, 1, 0; s_endpgm
        let [first, second] = words;
        let pc = gpu.buffer(&[0xbf06_0000, first, 0x9802_8081, second, 0xbfb0_0000]);
        gpu.lds.barriers = Barriers::new(3);
        let mut wave = Wave::new(&WaveInit { arch: Arch::Gfx1201, pc, in_workgroup, ..WaveInit::default() });
        wave.set_sgpr(125, m0);
        wave.set_sgpr(1, 0xdead);
        let stop = gpu.step(&mut wave, 100);
        (stop, wave.sgpr(2), wave.sgpr(1))
    });
    let result = results.next().unwrap();
    assert!(results.all(|other| other == result));
    result
}

#[test]
fn only_the_workgroups_own_barriers_are_signalled() {
    const STATE: u32 = 0xbe81_50c1; // s_get_barrier_state s1, -1
    let state = |signals: u32| signals << 16 | 3 << 4 | 1;
    let end = Stop::EndProgram;
    // s_barrier_signal_isfirst -1, -2, 0
    assert_eq!(signalled([0xbe80_4fc1, STATE], 0, true), (end.clone(), 1, state(1)));
    assert_eq!(signalled([0xbe80_4fc2, STATE], 0, true), (end.clone(), 0, state(0)), "the trap handler's");
    assert_eq!(signalled([0xbe80_4f80, STATE], 0, true), (end.clone(), 0, state(0)), "none");
    assert_eq!(signalled([0xbe80_4fc1, STATE], 0, false), (end.clone(), 0, state(0)), "a wave alone");
    // s_barrier_signal -1, 0 leave SCC alone.
    assert_eq!(signalled([0xbe80_4ec1, STATE], 0, true), (end.clone(), 1, state(1)));
    assert_eq!(signalled([0xbe80_4e80, STATE], 0, true), (end.clone(), 1, state(0)));
    // s_get_barrier_state s1 of -2, of 0, of m0, and s_barrier_wait of 0
    assert_eq!(signalled([0xbf80_0000, 0xbe81_50c2], 0, true), (end.clone(), 1, state(0)));
    assert_eq!(signalled([0xbf80_0000, 0xbe81_5080], 0, true), (end.clone(), 1, 0));
    assert_eq!(signalled([0xbf94_0000, 0xbe81_507d], 0xffff_ffe0, true), (end.clone(), 1, 0));
    // s_barrier_signal m0, s_barrier_signal_isfirst m0: of M0 five bits count, which are never those of -1 and -2.
    assert_eq!(signalled([0xbe80_4e7d, STATE], 0xffff_ffe0, true), (end.clone(), 1, state(0)));
    assert_eq!(signalled([0xbe80_4f7d, STATE], 0, true), (end, 0, state(0)));
}

#[test]
fn named_barriers_stop_the_wave_by_name() {
    for (word, m0, name) in [
        (0xbe80_4e7d_u32, u32::MAX, "s_barrier_signal m0 (a named barrier)"),
        (0xbe80_4f7d, -2_i32 as u32, "s_barrier_signal_isfirst m0 (a named barrier)"),
        (0xbe81_507d, 1, "s_get_barrier_state s1, m0 (a named barrier)"),
        (0xbe80_4e81, 0, "s_barrier_signal 1"),
        (0xbe80_4fc3, 0, "s_barrier_signal_isfirst -3"),
        (0xbf94_0001, 0, "s_barrier_wait 1"),
        (0xbe80_5181, 0, "s_barrier_init 1"),
        (0xbe80_5281, 0, "s_barrier_join 1"),
    ] {
        let (stop, ..) = signalled([word, 0xbf80_0000], m0, true);
        let Stop::Fault(fault) = stop else { panic!("{name}: {stop:?}") };
        assert!(fault.to_string().contains(name), "{name}: {fault}");
    }
}

#[test]
fn ordered_additions_take_turns() {
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        // global_atomic_ordered_add_b64 v[2:3], v0, v[4:5], s[0:1] th:TH_ATOMIC_RETURN; s_endpgm
        let pc = gpu.buffer(&[0xee1c_c000_u32, 0x0210_0002, 0, 0xbfb0_0000]);
        // The number whose turn it is and the sum: lane 3 does not come yet, lane 4's number is the last one, and the sums wrap.
        let memory = |lane: u32| [if lane == 3 { 99 } else { 0xffb + lane }, 0xffff_ff00 + lane];
        let words: Vec<u32> = (0..32).flat_map(memory).collect();
        let base = gpu.buffer(&words);
        let row = |value: fn(u32) -> u32| std::array::from_fn(|lane| value(lane as u32));
        let rows = [row(|lane| lane * 8), [0; 64], [0; 64], [0; 64], row(|lane| 0xffb + lane), [0x200; 64]];
        let mut wave = wave_at(pc, base, &rows, 0x1f);
        assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
        let after: Vec<u32> = gpu.fetch(base, 64);
        for lane in 0..32 {
            let [id, sum] = memory(lane);
            let expected = match lane {
                0..=2 => [id + 1, sum.wrapping_add(0x200)],
                4 => [0, sum.wrapping_add(0x200)],
                _ => [id, sum],
            };
            assert_eq!(after[lane as usize * 2..][..2], expected, "lane {lane}");
            let old = if lane < 5 { [id, sum] } else { [0; 2] };
            assert_eq!([wave.vgpr(2, lane), wave.vgpr(3, lane)], old, "lane {lane} before");
        }
    }
}

#[test]
fn hardware_registers_are_split() {
    const PROGRAM: [u32; 12] = [
        // s_setreg_imm32_b32 hwreg(HW_REG_TRAP_CTRL), 0x83
        0xb980_f813,
        0x83,
        // s_getreg_b32 s0, hwreg(HW_REG_TRAP_CTRL)
        0xb880_f813,
        // s_getreg_b32 s1, hwreg(HW_REG_MODE)
        0xb881_f801,
        // s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5
        0xb980_1801,
        5,
        // s_getreg_b32 s2, hwreg(HW_REG_MODE)
        0xb882_f801,
        // s_getreg_b32 s3, hwreg(HW_REG_STATUS, 29, 1)
        0xb883_0742,
        // s_getreg_b32 s4, hwreg(HW_REG_EXCP_FLAG_USER)
        0xb884_f812,
        // s_mov_b32 s5, ttmp9
        0xbe85_0075,
        // s_mov_b32 s6, ttmp7
        0xbe86_0073,
        // s_endpgm
        0xbfb0_0000,
    ];
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        let pc = gpu.buffer(&PROGRAM);
        let mut wave = wave(pc);
        wave.set_sgpr(TTMP0 + 9, 17);
        wave.set_sgpr(TTMP0 + 7, 2 << 16 | 3);
        assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
        let got: Vec<u32> = (0..7).map(|register| wave.sgpr(register)).collect();
        assert_eq!(got, [0x83, 0xf0, 0xf5, 0, 0, 17, 2 << 16 | 3]);
    }
}

#[test]
fn traps_put_their_number_in_the_highest_bits() {
    let handler = TrapHandler { tba: 0x10_0000, tma: 0x20_0000, takes_traps: true };
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        // s_nop 0; s_trap 3
        let pc = gpu.buffer(&[0xbf80_0000_u32, 0xbf90_0003]);
        let init = WaveInit { arch: Arch::Gfx1201, pc, trap: Some(handler), ..WaveInit::default() };
        let mut wave = Wave::new(&init);
        assert_eq!(gpu.step(&mut wave, 100), Stop::Trap(3));
        assert!(wave.enter_trap(TrapCause::Instruction(3)));
        let at = u64::from(wave.sgpr(TTMP0)) | u64::from(wave.sgpr(TTMP0 + 1)) << 32;
        assert_eq!(at, (pc + 4) | (3 << 60));
        assert_eq!(wave.pc(), handler.tba);
    }
}

/// A wave32 whose `v0` is each lane's offset from `s[0:1]`.
fn wave_at(pc: u64, base: u64, vgprs: &[[u32; 64]], lanes: u64) -> Wave {
    let sgprs = [base as u32, (base >> 32) as u32];
    let init = WaveInit { arch: Arch::Gfx1201, pc, vgprs, sgprs: &sgprs, exec: lanes, ..WaveInit::default() };
    Wave::new(&init)
}

#[test]
fn transposing_loads_make_operands_of_matrix_instructions_from_columns() {
    // A matrix A of 16 rows and 16 columns, column after column. A WMMA wants row `lane % 16` in a lane, columns 0 to 7 of
    // it in lanes 0 to 15, the others in lanes 16 to 31.
    let row_of = |lane: u32| lane % 16;
    let column_of = |lane: u32, n: u32| lane / 16 * 8 + n;
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        // global_load_tr_b128 v[1:4], v0, s[0:1]; global_load_tr_b64 v[1:2], v0, s[0:1]; s_endpgm
        let halves = gpu.buffer(&[0xee15_c000_u32, 1, 0, 0xbfb0_0000]);
        let bytes = gpu.buffer(&[0xee16_0000_u32, 1, 0, 0xbfb0_0000]);

        let a: Vec<u16> = (0..256).map(|at| 0x100 + at).collect();
        let base = gpu.buffer(&a);
        // Eight lanes have a part of eight columns of 16 rows: rows 0 to 7, or 8 to 15.
        let part = |lane: u32| lane / 16 * 8 * 32 + lane % 8 * 32 + lane / 8 % 2 * 16;
        let mut wave =
            wave_at(halves, base, &[std::array::from_fn(|lane| part(lane as u32))], u32::MAX.into());
        assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
        for lane in 0..32 {
            let element = |n: u32| u32::from(a[(column_of(lane, n) * 16 + row_of(lane)) as usize]);
            for n in 0..4 {
                let expected = element(2 * n) | element(2 * n + 1) << 16;
                assert_eq!(wave.vgpr(1 + n as u8, lane), expected, "lane {lane}, register {n}");
            }
        }

        let a: Vec<u8> = (0..=255).collect();
        let base = gpu.buffer(&a);
        // Four lanes have the first halves of four columns, the next four the other halves.
        let part = |lane: u32| (lane / 8 * 4 + lane % 4) * 16 + lane / 4 % 2 * 8;
        let mut wave =
            wave_at(bytes, base, &[std::array::from_fn(|lane| part(lane as u32))], u32::MAX.into());
        assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
        for lane in 0..32 {
            let element = |n: u32| u32::from(a[(column_of(lane, n) * 16 + row_of(lane)) as usize]);
            for n in 0..2 {
                let expected = (0..4).fold(0, |word, at| word | element(4 * n + at) << (8 * at));
                assert_eq!(wave.vgpr(1 + n as u8, lane), expected, "lane {lane}, register {n}");
            }
        }

        // A lane that is off keeps what it has, and gives zeros.
        let off = u64::from(u32::MAX) & !2;
        let mut wave = wave_at(bytes, base, &[std::array::from_fn(|lane| part(lane as u32)), [7; 64]], off);
        assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
        assert_eq!((wave.vgpr(1, 1), wave.vgpr(1, 0) >> 8 & 0xff), (7, 0));
    }
}

#[test]
fn waves_of_64_lanes_do_not_transpose() {
    let mut gpu = gpu(Backend::all().next().unwrap());
    let pc = gpu.buffer(&[0xee15_c000_u32, 1, 0, 0xbfb0_0000]);
    let wave_size = belfry_isa::inst::WaveSize::Wave64;
    let mut wave = Wave::new(&WaveInit { arch: Arch::Gfx1201, pc, wave_size, ..WaveInit::default() });
    let Stop::Fault(fault) = gpu.step(&mut wave, 10) else { panic!("it goes on") };
    assert!(format!("{fault:?}").contains("global_load_tr_b128"), "{fault:?}");
}

#[test]
fn blocks_move_the_registers_that_m0_names() {
    for backend in Backend::all() {
        let mut gpu = gpu(backend);
        // s_mov_b32 m0, 0x8000000b; global_store_block v0, v[3:34], s[0:1]; global_load_block v[40:71], v0, s[0:1]; s_endpgm
        let pc = gpu.buffer(&[
            0xbefd_00ff_u32,
            0x8000_000b,
            0xee15_0000,
            0x0180_0000,
            0,
            0xee14_c000,
            40,
            0,
            0xbfb0_0000,
        ]);
        let base = gpu.buffer(&[0xdead_beef_u32; 33 * 32]);
        let mut vgprs = vec![[0; 64]; 72];
        for (n, row) in (0u32..).zip(&mut vgprs) {
            for (lane, word) in (0..).zip(row) {
                *word = if n == 0 { lane * 33 * 4 } else { n << 8 | lane };
            }
        }
        let mut wave = wave_at(pc, base, &vgprs, 0xffff_fffe);
        assert_eq!(gpu.step(&mut wave, 10), Stop::EndProgram);
        let memory: Vec<u32> = gpu.fetch(base, 33 * 32);
        for lane in 0..32_u32 {
            for n in 0..32_u32 {
                let named = 0x8000_000b_u32 >> n & 1 != 0 && lane != 0;
                let stored = if named { (3 + n) << 8 | lane } else { 0xdead_beef };
                assert_eq!(memory[(lane * 33 + n) as usize], stored, "lane {lane}, register {n}");
                let loaded = if named { stored } else { (40 + n) << 8 | lane };
                assert_eq!(wave.vgpr(40 + n as u8, lane), loaded, "lane {lane}, register {n}");
            }
        }
    }
}
