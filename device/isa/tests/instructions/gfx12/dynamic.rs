//! Vector registers that waves of gfx12 allocate while they run.

use belfry_isa::context::ContextSlot;
use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::{Backend, Tier};
use belfry_isa::trap::TrapHandler;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::common::Gpu;

/// The driver's trap handler.
const HANDLER: &[u8] = include_bytes!("../../../../../guest-driver/core/src/asic/gfx12/trap_handler.bin");

const S_ENDPGM: u32 = 0xbfb0_0000;

/// `s_alloc_vgpr` of an inline constant of at most 64.
fn alloc(count: u32) -> u32 {
    0xbe80_5380 + count
}

/// `s_alloc_vgpr` of a scalar register.
fn alloc_from(register: u32) -> u32 {
    0xbe80_5300 | register
}

/// `s_cselect_b32 sN, 1, 0`: SCC into a register.
fn scc_to(register: u32) -> u32 {
    0x9800_8081 | register << 16
}

/// `v_mov_b32 vN, sM`.
fn vector_from(vector: u32, scalar: u32) -> u32 {
    0x7e00_0200 | vector << 17 | scalar
}

/// `v_mov_b32 vN, vM`.
fn vector_move(to: u32, from: u32) -> u32 {
    0x7e00_0200 | to << 17 | (256 + from)
}

fn backends() -> impl Iterator<Item = Backend> {
    Backend::all().flat_map(|interpreter| [interpreter, interpreter.with_tier(Tier::One)])
}

fn gpu(backend: Backend) -> Gpu {
    Gpu::of(Arch::Gfx1201, backend, 1 << 20)
}

fn init(pc: u64, sgprs: &[u32]) -> WaveInit<'_> {
    let arch = Arch::Gfx1201;
    WaveInit { arch, pc, sgprs, vgpr_count: 0, allocates_vgprs: true, ..WaveInit::default() }
}

/// Runs a program to its end on every backend, in a wave that begins with a block of registers.
fn run(program: &[u32], sgprs: &[u32], check: impl Fn(&Wave)) {
    for backend in backends() {
        let mut gpu = gpu(backend);
        let pc = gpu.buffer(program);
        let mut wave = Wave::new(&init(pc, sgprs));
        assert_eq!(wave.vgprs(), 16, "it begins with a block");
        assert_eq!(gpu.step(&mut wave, 10_000), Stop::EndProgram, "{backend:?}");
        check(&wave);
    }
}

#[test]
fn registers_are_added_and_given_up_behind_the_others() {
    let program = [
        vector_from(15, 4),
        // 40 are 48, three blocks.
        alloc(40),
        scc_to(0),
        vector_from(47, 5),
        vector_move(46, 15),
        // s_getreg_b32 s6, hwreg(HW_REG_GPR_ALLOC); s_getreg_b32 s7, hwreg(HW_REG_STATUS, 30, 1)
        0xb886_f805,
        0xb887_0782,
        // As many as there are, by other numbers.
        alloc(33),
        scc_to(1),
        vector_move(14, 47),
        // None: a block stays.
        alloc(0),
        scc_to(2),
        // What was given up is 0 when it is there again.
        alloc_from(8),
        vector_move(13, 47),
        vector_move(12, 127),
        S_ENDPGM,
    ];
    // Bits above the lowest nine do not count.
    run(&program, &[7, 7, 7, 7, 41, 42, 0, 0, 0xffff_fe00 | 128], |wave| {
        assert_eq!([0, 1, 2].map(|register| wave.sgpr(register)), [1, 1, 1]);
        assert_eq!(wave.sgpr(6), (48 / 4 - 1) << 12, "GPR_ALLOC");
        assert_eq!(wave.sgpr(7), 1, "DVGPR_EN");
        assert_eq!(wave.vgprs(), 128);
        assert_eq!([15, 14, 13, 12].map(|register| wave.vgpr(register, 31)), [41, 42, 0, 0]);
    });
}

#[test]
fn more_than_eight_blocks_are_not_had() {
    let program = [
        alloc(64),
        vector_from(63, 4),
        // 129, 256 and 511 registers.
        alloc_from(0),
        scc_to(0),
        alloc_from(1),
        scc_to(1),
        alloc_from(2),
        scc_to(2),
        vector_move(0, 63),
        S_ENDPGM,
    ];
    run(&program, &[129, 256, 511, 0, 9], |wave| {
        assert_eq!([0, 1, 2].map(|register| wave.sgpr(register)), [0, 0, 0]);
        assert_eq!((wave.vgprs(), wave.vgpr(0, 5)), (64, 9), "nothing has changed");
    });
}

/// Counts down, with more registers in each round and in between with a block.
#[test]
fn loops_allocate_in_every_round() {
    let program = [
        // s_mov_b32 s0, 8; s_mov_b32 s1, 16
        0xbe80_0088,
        0xbe81_0090,
        // loop: s_alloc_vgpr s1
        alloc_from(1),
        // s_cbranch_scc0 end
        0xbfa1_0007,
        // v_add_nc_u32 v1, s1, v1
        0x4a02_0201,
        alloc(16),
        // s_add_co_u32 s1, s1, 16; s_sub_co_u32 s0, s0, 1
        0x8001_9001,
        0x8080_8100,
        // s_cmp_lg_u32 s0, 0; s_cbranch_scc1 loop
        0xbf07_8000,
        0xbfa2_fff8,
        S_ENDPGM,
        // end: s_mov_b32 s9, 1; s_endpgm
        0xbe89_0081,
        S_ENDPGM,
    ];
    run(&program, &[0; 10], |wave| {
        assert_eq!((wave.sgpr(0), wave.sgpr(9), wave.vgprs()), (0, 0, 16));
        assert_eq!(wave.vgpr(1, 3), (1..=8).map(|block| block * 16).sum());
    });
}

#[test]
fn register_that_is_not_allocated_stops_the_wave_where_it_is_named() {
    for backend in backends() {
        let mut gpu = gpu(backend);
        let program =
            [alloc(32), vector_from(31, 4), alloc(16), vector_from(1, 4), vector_from(16, 4), S_ENDPGM];
        let pc = gpu.buffer(&program);
        let mut wave = Wave::new(&init(pc, &[0, 0, 0, 0, 5]));
        let Stop::Fault(fault) = gpu.step(&mut wave, 100) else { panic!("it goes on") };
        let FaultCause::RegisterOutOfRange { register, allocated, text } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((*register, *allocated, text.as_str()), (16, 16, "v_mov_b32_e32 v16, s4"));
        assert_eq!((fault.pc, wave.vgpr(1, 0)), (pc + 16, 5), "what comes before it was done");
    }
}

#[test]
fn other_waves_keep_the_registers_that_they_have() {
    for backend in backends() {
        let mut gpu = gpu(backend);
        // s_cmp_eq_u32 s0, s0
        let program = [alloc(64), scc_to(0), 0xbf06_0000, alloc(0), scc_to(1), vector_from(23, 1), S_ENDPGM];
        let pc = gpu.buffer(&program);
        let fixed = WaveInit { allocates_vgprs: false, vgpr_count: 24, ..init(pc, &[7, 7]) };
        let mut wave = Wave::new(&fixed);
        assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
        assert_eq!((wave.vgprs(), wave.sgpr(0), wave.sgpr(1)), (24, 0, 1), "SCC stays as it is");

        // A wave of 64 lanes cannot, even if it was launched with that flag.
        let mut wave = Wave::new(&WaveInit { wave_size: WaveSize::Wave64, allocates_vgprs: true, ..fixed });
        let Stop::Fault(fault) = gpu.step(&mut wave, 100) else { panic!("it goes on") };
        assert!(matches!(fault.kind, FaultCause::Unimplemented { .. }), "{fault}");
        assert!(fault.to_string().contains("s_alloc_vgpr"), "{fault}");
    }
}

#[test]
fn next_wave_finds_no_registers_of_the_one_before() {
    for backend in backends() {
        let mut gpu = gpu(backend);
        let pc = gpu.buffer(&[alloc(64), vector_from(63, 4), alloc(16), S_ENDPGM]);
        let mut wave = Wave::new(&init(pc, &[0, 0, 0, 0, 5]));
        assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
        let fixed = WaveInit { allocates_vgprs: false, vgpr_count: 64, ..init(pc, &[]) };
        wave.restart(&fixed);
        assert_eq!((wave.vgprs(), wave.vgpr(63, 0)), (64, 0));
    }
}

#[test]
fn wave_is_saved_and_restored_with_the_registers_that_it_has() {
    for backend in backends() {
        for blocks in [1, 3, 8] {
            let mut gpu = gpu(backend);
            let tba = gpu.alloc(8192).next_multiple_of(256);
            gpu.memory.write(tba, HANDLER);
            let area = gpu.alloc(64 << 10).next_multiple_of(128);
            // s_alloc_vgpr s0; s_nop 0; v_mov_b32 v0, v15; s_endpgm
            let pc = gpu.buffer(&[alloc_from(0), 0xbf80_0000, vector_move(0, 15), S_ENDPGM]);
            let trap = Some(TrapHandler { tba, tma: 0, takes_traps: false });
            let sgprs = [u32::from(blocks) * 16];
            let begins = WaveInit { trap, ..init(pc, &sgprs) };
            let mut wave = Wave::new(&begins);
            gpu.step_one(&mut wave);
            assert_eq!((wave.vgprs(), wave.pc()), (blocks * 16, pc + 4));
            for register in 0..wave.vgprs() {
                (0..32).for_each(|lane| wave.set_vgpr(register as u8, lane, u32::from(register) << 8 | lane));
            }
            let slot = ContextSlot { address: area, first_wave: true };
            let bytes = wave.context_bytes(None);
            assert_eq!(bytes, u32::from(blocks) * 16 * 128 + 640);
            gpu.memory.write(area + u64::from(bytes), &[0x77; 4]);
            assert!(wave.begin_context_save(slot));
            assert_eq!(finish(&mut gpu, &mut wave), Stop::Saved);
            assert_eq!(gpu.memory.read(area + u64::from(bytes), 4), [0x77; 4], "beyond its context");

            // It is launched with the blocks that it had, and goes on with them.
            wave.restart(&WaveInit { pc: 0, vgpr_count: blocks * 16, sgprs: &[], ..begins });
            assert_eq!(wave.context_bytes(None), bytes);
            assert!(wave.begin_context_restore(slot));
            assert_eq!(finish(&mut gpu, &mut wave), Stop::TrapReturn);
            assert_eq!((wave.vgprs(), wave.pc(), wave.sgpr(0)), (blocks * 16, pc + 4, sgprs[0]));
            for register in 0..wave.vgprs() {
                assert_eq!(wave.vgpr(register as u8, 9), u32::from(register) << 8 | 9, "v{register}");
            }
            assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
            assert_eq!(wave.vgpr(0, 9), 15 << 8 | 9);
        }
    }
}

/// Runs a wave that is alone in its workgroup.
fn finish(gpu: &mut Gpu, wave: &mut Wave) -> Stop {
    loop {
        match gpu.step(wave, 100_000) {
            Stop::Barrier => wave.pass_split_barrier(),
            stop => return stop,
        }
    }
}
