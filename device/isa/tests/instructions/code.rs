//! Code that changes, and code that does not end.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;

use super::Bench;

#[test]
fn new_code_at_an_old_address_is_noticed_in_a_new_epoch() {
    // s_movk_i32 s0, 1; s_endpgm
    let mut bench = Bench::new(Backend::detect(), &[0xb000_0001, 0xbfb0_0000]);
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    assert_eq!(bench.run(&mut wave), Stop::EndProgram);
    assert_eq!(wave.sgpr(0), 1);
    bench.gpu.memory.write(bench.pc, &0xb000_0002_u32.to_le_bytes());
    bench.gpu.new_epoch();
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    assert_eq!(bench.run(&mut wave), Stop::EndProgram);
    assert_eq!(wave.sgpr(0), 2);
}

#[test]
fn no_part_of_what_is_no_instruction_is_taken_for_one() {
    // s_cbranch_scc1 over it; a VOP3 without an operation, whose second dword is v_cndmask_b32_e32 v165, v0, v0, vcc; s_endpgm
    let code = [0xbfa2_0002, 0xd7ff_0000, 0x034a_0100, 0xbfb0_0000];
    for (scc, wave_size) in [(false, WaveSize::Wave32), (true, WaveSize::Wave32), (true, WaveSize::Wave64)] {
        for backend in Backend::all() {
            let mut bench = Bench::new(backend, &code);
            let mut wave = bench.wave(wave_size, &[], &[]);
            wave.set_scc(scc);
            let stop = bench.run(&mut wave);
            if scc {
                assert_eq!(stop, Stop::EndProgram, "{backend:?}");
                continue;
            }
            let Stop::Fault(fault) = stop else { panic!("{backend:?}: {stop:?}") };
            assert_eq!(fault.pc, bench.pc + 4);
            let FaultCause::IllegalInstruction { text, .. } = fault.kind.clone() else {
                panic!("{:?}", fault.kind)
            };
            assert_eq!(text, "Unknown VOP3 instruction 0xd7ff0000");
        }
    }
}

#[test]
fn an_endless_loop_stops_at_its_budget() {
    // s_branch to itself
    let mut bench = Bench::new(Backend::detect(), &[0xbfa0_ffff]);
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    assert_eq!(bench.run(&mut wave), Stop::Budget);
    assert!(wave.instructions >= 10_000 && wave.instructions < 10_100, "{}", wave.instructions);
    assert_eq!(wave.pc(), bench.pc);
}
