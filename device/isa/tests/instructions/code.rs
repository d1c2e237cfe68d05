//! Code that changes, and code that does not end.

use belfry_isa::exec::Stop;
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
fn an_endless_loop_stops_at_its_budget() {
    // s_branch to itself
    let mut bench = Bench::new(Backend::detect(), &[0xbfa0_ffff]);
    let mut wave = bench.wave(WaveSize::Wave32, &[], &[]);
    assert_eq!(bench.run(&mut wave), Stop::Budget);
    assert!(wave.instructions >= 10_000 && wave.instructions < 10_100, "{}", wave.instructions);
    assert_eq!(wave.pc(), bench.pc);
}
