//! Features for debuggers: single steps, traps after instructions, and address watches.

use belfry_isa::exec::Stop;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Watch, WatchMode};
use belfry_isa::trap::{TrapCause, TrapHandler};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;

/// `s_waitcnt lgkmcnt(0)`, `s_nop`, `v_mov_b32 v1, 5`, `s_mov_b32 s0, 0`, `s_cbranch_scc0` over the next `s_nop`, `s_nop`,
/// `s_barrier`, `global_store_b32 v0, v1, s[2:3]`, `global_load_b128 v[4:7], v0, s[2:3]`, `s_waitcnt vmcnt(0)`, `s_endpgm`.
const PROGRAM: [u32; 14] = [
    0xbf89_fc07,
    0xbf80_0000,
    0x7e02_0285,
    0xbe80_0080,
    0xbfa1_0001,
    0xbf80_0000,
    0xbf80_0000,
    0xbfbd_0000,
    0xdc6a_0000,
    0x0002_0100,
    0xdc5e_0000,
    0x0402_0000,
    0xbf89_03f7,
    0xbfb0_0000,
];
const TBA: u64 = 0x10_0000;

fn wave(pc: u64, memory: u64) -> Wave {
    let trap = Some(TrapHandler { tba: TBA, tma: 0, takes_traps: true });
    let sgprs = [0, 0, memory as u32, (memory >> 32) as u32];
    Wave::new(&WaveInit { pc, sgprs: &sgprs, trap, ..WaveInit::default() })
}

#[test]
fn steps_are_single_instructions_waits_and_hints_included() {
    for backend in Backend::all() {
        let mut gpu = Gpu::new(backend, 1 << 20);
        let (pc, memory) = (gpu.buffer(&PROGRAM), gpu.alloc(4096));
        let mut wave = wave(pc, memory);
        let mut path = Vec::new();
        let last = loop {
            let stop = gpu.step_one(&mut wave);
            path.push((wave.pc() - pc) / 4);
            if stop == Stop::EndProgram {
                break stop;
            }
            assert!(matches!(stop, Stop::Budget | Stop::Barrier), "{stop:?}");
        };
        assert_eq!((path, last), (vec![1, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14], Stop::EndProgram));
        assert_eq!((wave.vgpr(1, 7), wave.vgpr(4, 7)), (5, 5));
    }
}

#[test]
fn wave_that_steps_comes_out_of_its_handler_before_the_next_instruction() {
    let mut gpu = Gpu::new(Backend::all().next().unwrap(), 1 << 20);
    let (pc, memory) = (gpu.buffer(&PROGRAM), gpu.alloc(4096));
    // s_rfe_b64 ttmp[0:1]
    let tba = gpu.buffer(&[0xbe80_4a6c_u32]);
    let trap = Some(TrapHandler { tba, tma: 0, takes_traps: true });
    let mut wave = Wave::new(&WaveInit { pc, trap, ..wave_init(memory) });
    assert!(!wave.steps());
    wave.single_step();
    assert!(wave.steps());
    assert!(wave.enter_trap(TrapCause::SingleStep) && !wave.steps());
    assert_eq!(wave.trapsts() >> 20 & 1, 1, "TRAP_AFTER_INST");
    assert_eq!(gpu.step(&mut wave, 100), Stop::TrapReturn);
    assert_eq!((wave.pc(), wave.steps()), (pc, true));
}

fn wave_init(memory: u64) -> WaveInit<'static> {
    let sgprs = Box::leak(Box::new([0, 0, memory as u32, (memory >> 32) as u32]));
    WaveInit { sgprs, ..WaveInit::default() }
}

#[test]
fn watches_are_met_by_the_accesses_they_are_for() {
    // Which instructions of the program meet it: the store, the load.
    let cases = [
        (WatchMode::All, 0, [true, true]),
        (WatchMode::NonRead, 0, [true, false]),
        (WatchMode::Read, 0, [false, true]),
        (WatchMode::Atomic, 0, [false, false]),
        (WatchMode::All, 128, [false, false]),
        (WatchMode::All, 2048, [false, false]),
    ];
    for backend in Backend::all() {
        for (mode, at, expected) in cases {
            let mut gpu = Gpu::new(backend, 1 << 20);
            let pc = gpu.buffer(&PROGRAM);
            let memory = gpu.alloc(8192).next_multiple_of(4096);
            let mut wave = wave(pc, memory);
            let mask = !0x7f;
            gpu.tlb.set_watches(Some([
                None,
                Some(Watch { address: (memory + at) & mask, mask, mode }),
                None,
                None,
            ]));
            let mut met = [0, 0];
            loop {
                let at = (wave.pc() - pc) / 4;
                let stop = gpu.step_one(&mut wave);
                let now = gpu.tlb.take_met();
                match at {
                    8 => met[0] = now,
                    10 => met[1] = now,
                    _ => assert_eq!(now, 0),
                }
                if stop == Stop::EndProgram {
                    break;
                }
            }
            assert_eq!(met, expected.map(|met| u8::from(met) << 1), "{mode:?} at {at}");
            assert_eq!(wave.vgpr(4, 31), 5, "the accesses are done");
        }
    }
}

#[test]
fn watches_are_recorded_where_handlers_look() {
    let mut wave = wave(0, 0);
    assert!(!wave.traps_watches());
    wave.enable_exceptions(0x80, false);
    assert!(wave.traps_watches() && wave.enter_trap(TrapCause::Watch(0b1011)));
    assert_eq!((wave.trapsts(), wave.pc()), (1 << 7 | 1 << 12 | 1 << 14, TBA));
}
