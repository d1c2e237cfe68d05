//! What is new with gfx12: split barriers, hardware registers, workgroup identifiers in trap temporaries.

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
