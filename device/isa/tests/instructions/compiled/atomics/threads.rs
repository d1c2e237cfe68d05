//! Atomics of several threads on the same words: nothing is lost.

use std::sync::Barrier;
use std::thread;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, Lds, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::Tlb;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::tiers;
use crate::common::{APERTURES, BASE, Flat};

/// Each lane as often as `s0` says; llvm-mc-19 -mcpu=gfx1100.
const PROGRAM: [u32; 17] = [
    // global_atomic_add_u32 v0, v4, s[4:5]
    0xdcd6_0000,
    0x0004_0400,
    // global_atomic_inc_u32 v0, v5, s[4:5] offset:4
    0xdcfe_0004,
    0x0004_0500,
    // global_atomic_add_f32 v0, v6, s[4:5] offset:8
    0xdd5a_0008,
    0x0004_0600,
    // global_atomic_add_u64 v[8:9], v0, v[2:3], s[4:5] offset:16 glc
    0xdd0e_4010,
    0x0804_0200,
    // global_atomic_sub_u32 v7, v0, v4, s[4:5] offset:24 glc
    0xdcda_4018,
    0x0704_0400,
    // global_atomic_xor_b32 v7, v0, v1, s[4:5] offset:28 glc
    0xdcfa_401c,
    0x0704_0100,
    // v_max_u32_e32 v10, v10, v8
    0x2814_110a,
    // s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1 to the beginning; s_endpgm
    0x8080_8100,
    0xbf07_8000,
    0xbfa2_fff0,
    0xbfb0_0000,
];
const ROUNDS: u32 = 5000;
const THREADS: u32 = 2;
const TIMES: usize = 8;
const CODE: u64 = BASE + 0x1000;
const WORDS: u64 = BASE + 0x2000;

/// Runs waves of both threads. Returns the words after that.
fn count(backend: Backend, size: WaveSize, exec: u64) -> [u32; 8] {
    let memory = Flat::new(0x4000);
    memory.write(CODE, &PROGRAM.map(u32::to_le_bytes).concat());
    let begin = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (mut tlb, mut code, mut lds) =
                    (Tlb::new(), CodeCache::new(Arch::Gfx1100, backend), Lds::new(0));
                let same = |value: u32| [value; 64];
                let one = 1.0_f32.to_bits();
                let vgprs = [0, 0x8000_0001, 1, 1, 1, u32::MAX, one].map(same);
                let sgprs = [ROUNDS, 0, 0, 0, WORDS as u32, (WORDS >> 32) as u32];
                let init = WaveInit {
                    pc: CODE,
                    exec,
                    wave_size: size,
                    vgprs: &vgprs,
                    sgprs: &sgprs,
                    vgpr_count: 16,
                    ..WaveInit::default()
                };
                let mut wave = Wave::new(&init);
                let mut env = Env {
                    mmu: &memory,
                    tlb: &mut tlb,
                    code: &mut code,
                    lds: &mut lds,
                    apertures: APERTURES,
                    clock: &|| 0,
                    code_epoch: 0,
                };
                begin.wait();
                loop {
                    match exec::run(&mut wave, &mut env, 1000) {
                        Stop::Budget => {}
                        stop => break assert_eq!(stop, Stop::EndProgram),
                    }
                }
            });
        }
    });
    let bytes = memory.read(WORDS, 32);
    core::array::from_fn(|n| u32::from_le_bytes(bytes[n * 4..][..4].try_into().unwrap()))
}

#[test]
fn sums_of_two_threads_are_exact() {
    for (size, exec) in [
        (WaveSize::Wave32, u64::MAX),
        (WaveSize::Wave32, 0x0003_0500),
        (WaveSize::Wave64, u64::MAX),
        (WaveSize::Wave64, 0x8000_0003_0000_0500),
    ] {
        let lanes = if size == WaveSize::Wave32 { (exec as u32).count_ones() } else { exec.count_ones() };
        let sum = lanes * ROUNDS * THREADS;
        // Of 64 bits: the sums of the low and of the high words, which do not carry.
        let expected = [sum, sum, (sum as f32).to_bits(), 0, sum, sum, sum.wrapping_neg(), 0];
        // Threads that share a processor meet only now and then.
        for backend in (0..TIMES).flat_map(|_| tiers().flatten()) {
            assert_eq!(count(backend, size, exec), expected, "{backend:?}, {size:?}, EXEC {exec:#x}");
        }
    }
}
