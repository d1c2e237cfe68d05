//! Traps, and context save and restore through the driver's trap handler.

use belfry_isa::context::ContextSlot;
use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::trap::{TrapCause, TrapHandler};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;
use super::lanes;

/// The handler, which the driver installs.
const HANDLER: &[u8] = include_bytes!("../../../../guest-driver/core/src/asic/gfx11/trap_handler.bin");
/// The handler's program, at a multiple of 256.
const PAGE: u64 = 4096;

struct Shape {
    size: WaveSize,
    vgprs: u16,
    shared: u16,
    lds: u32,
    exec: u64,
}

const SHAPES: [Shape; 5] = [
    Shape { size: WaveSize::Wave32, vgprs: 8, shared: 0, lds: 0, exec: 0xf0f0_0001 },
    Shape { size: WaveSize::Wave32, vgprs: 256, shared: 0, lds: 1024, exec: 0 },
    Shape { size: WaveSize::Wave64, vgprs: 4, shared: 0, lds: 512, exec: 0x8000_0001_0000_0000 },
    Shape { size: WaveSize::Wave64, vgprs: 64, shared: 16, lds: 65536, exec: u64::MAX },
    Shape { size: WaveSize::Wave64, vgprs: 252, shared: 0, lds: 0, exec: 7 },
];

fn word(seed: u32, at: u32) -> u32 {
    (seed ^ at.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b)
}

/// A wave with something in every register.
fn filled(init: &WaveInit<'_>, shape: &Shape) -> Wave {
    let mut wave = Wave::new(init);
    for register in 0..=107 {
        wave.set_sgpr(register, word(1, register.into()));
    }
    for ttmp in [112, 113, 114, 115, 116, 117, 118, 119, 121] {
        wave.set_sgpr(ttmp, word(2, ttmp.into()));
    }
    wave.set_sgpr(125, 0x1234_5678);
    for register in 0..shape.vgprs + shape.shared {
        let first = word(3, register.into());
        // Of a register that the halves share there are 32 lanes.
        let mask = if register < shape.vgprs { 63 } else { 31 };
        for lane in 0..wave.lanes() {
            wave.set_vgpr(register as u8, lane, word(first, lane & mask));
        }
    }
    wave.set_scc(true);
    wave
}

fn registers(wave: &Wave, shape: &Shape) -> Vec<u32> {
    let scalars = (0..=107).chain(112..=119).chain([121, 125, 126, 127]).map(|number| wave.sgpr(number));
    let vectors = (0..shape.vgprs + shape.shared)
        .flat_map(|register| (0..wave.lanes()).map(move |lane| wave.vgpr(register as u8, lane)));
    let others = [wave.pc() as u32, wave.mode(), wave.trapsts(), wave.scc().into()];
    scalars.chain(vectors).chain(others).collect()
}

#[test]
fn saved_wave_is_restored_as_it_was() {
    for backend in Backend::all() {
        for (at, shape) in SHAPES.iter().enumerate() {
            let mut gpu = Gpu::new(backend, 1 << 20);
            let tba = gpu.alloc(2 * PAGE as usize).next_multiple_of(256);
            gpu.memory.write(tba, HANDLER);
            let area = gpu.alloc(512 << 10).next_multiple_of(128);
            gpu.lds.reset(shape.lds);
            for (n, byte) in gpu.lds.bytes_mut().iter_mut().enumerate() {
                *byte = word(4, n as u32) as u8;
            }
            let lds = gpu.lds.bytes().to_vec();
            let init = WaveInit {
                pc: 0x7_1234_5678,
                exec: shape.exec,
                wave_size: shape.size,
                vgpr_count: shape.vgprs,
                shared_vgprs: shape.shared,
                mode: 0x3f0 | 1 << 23,
                scratch_base: 0x12_3456_7800,
                scratch_size_per_lane: 16,
                trap: Some(TrapHandler { tba, tma: 0, takes_traps: false }),
                ..WaveInit::default()
            };
            let mut wave = filled(&init, shape);
            let before = registers(&wave, shape);
            let slot = ContextSlot { address: area, first_wave: true };
            let bytes = wave.context_bytes(Some(&gpu.lds)) as usize;
            gpu.memory.write(area + bytes as u64, &[0x77; 4]);
            assert!(wave.is_at_boundary() && wave.begin_context_save(slot));
            assert!(!wave.is_at_boundary());
            let stop = run(&mut gpu, &mut wave);
            assert_eq!(stop, Stop::Saved, "shape {at}");
            assert_eq!(gpu.memory.read(area + bytes as u64, 4), [0x77; 4], "shape {at}: beyond its context");
            // v4 and s17 are where readers of the area look for them.
            let lane = if shape.vgprs > 4 { 4 * wave.lanes() } else { 0 } + 1;
            let found: [u8; 4] = gpu.memory.read(area + u64::from(lane) * 4, 4).try_into().unwrap();
            let register = if shape.vgprs > 4 { 4 } else { 0 };
            assert_eq!(u32::from_le_bytes(found), word(word(3, register), 1), "shape {at}");
            let scalars = area + bytes as u64 - u64::from(shape.lds) - 640;
            let found: [u8; 4] = gpu.memory.read(scalars + 17 * 4, 4).try_into().unwrap();
            assert_eq!(u32::from_le_bytes(found), word(1, 17), "shape {at}");

            gpu.lds.reset(shape.lds);
            wave.restart(&WaveInit { pc: 0, mode: 0x3f0, scratch_base: 0, ..init });
            assert!(wave.begin_context_restore(slot));
            assert_eq!(run(&mut gpu, &mut wave), Stop::TrapReturn, "shape {at}");
            let after = registers(&wave, shape);
            let differs = before.iter().zip(&after).position(|(a, b)| a != b);
            assert_eq!(differs, None, "shape {at}");
            assert_eq!(gpu.lds.bytes(), lds, "shape {at}");
            assert!(wave.is_at_boundary());
        }
    }
}

/// Runs a wave that is alone in its workgroup.
fn run(gpu: &mut Gpu, wave: &mut Wave) -> Stop {
    loop {
        match gpu.step(wave, 100_000) {
            Stop::Barrier => {}
            stop => return stop,
        }
    }
}

#[test]
fn message_and_end_of_a_save_mean_nothing_to_other_waves() {
    // s_sendmsg_rtn_b64 s[4:5], sendmsg(MSG_RTN_SAVE_WAVE) ; s_endpgm_saved
    super::program(&[0xbe84_4d84, 0xbfb1_0000], &[lanes(|lane| lane)], &[9, 9, 9, 9, 9, 9], |wave, _| {
        assert_eq!((wave.sgpr(4), wave.sgpr(5)), (0, 0));
    });
}

#[test]
fn halted_wave_is_saved_and_comes_back_halted() {
    let mut gpu = Gpu::new(Backend::all().next().unwrap(), 1 << 20);
    let tba = gpu.alloc(2 * PAGE as usize).next_multiple_of(256);
    gpu.memory.write(tba, HANDLER);
    let area = gpu.alloc(64 << 10).next_multiple_of(128);
    // s_sethalt 1 ; s_endpgm
    let pc = gpu.buffer(&[0xbf82_0001_u32, 0xbfb0_0000]);
    let trap = Some(TrapHandler { tba, tma: 0, takes_traps: true });
    let init = WaveInit { pc, vgpr_count: 8, trap, ..WaveInit::default() };
    let mut wave = Wave::new(&init);
    assert_eq!(gpu.step(&mut wave, 100), Stop::Halt);
    let slot = ContextSlot { address: area, first_wave: true };
    assert!(wave.begin_context_save(slot));
    assert_eq!(gpu.step(&mut wave, 10_000), Stop::Saved);
    wave.restart(&init);
    assert!(!wave.is_halted() && wave.begin_context_restore(slot));
    assert_eq!(gpu.step(&mut wave, 10_000), Stop::Halt);
    assert!(wave.is_halted());
    assert_eq!(wave.pc(), pc + 4);
}

#[test]
fn trap_gives_its_own_address_whatever_follows() {
    let mut gpu = Gpu::new(Backend::all().next().unwrap(), 1 << 20);
    // s_trap 2 ; s_nop 0 ; s_waitcnt 0 ; s_endpgm
    let pc = gpu.buffer(&[0xbf90_0002_u32, 0xbf80_0000, 0xbf89_0000, 0xbfb0_0000]);
    let trap = Some(TrapHandler { tba: 0x10_0000, tma: 0, takes_traps: true });
    let mut wave = Wave::new(&WaveInit { pc, trap, ..WaveInit::default() });
    assert_eq!(gpu.step(&mut wave, 100), Stop::Trap(2));
    assert!(wave.enter_trap(TrapCause::Instruction(2)));
    let given = u64::from(wave.sgpr(108)) | u64::from(wave.sgpr(109)) << 32;
    assert_eq!((given, wave.pc()), (pc | 2 << 48, 0x10_0000));
}

#[test]
fn jump_out_of_the_handler_ends_a_restore_where_traps_are_not_enabled() {
    for takes_traps in [false, true] {
        let mut gpu = Gpu::new(Backend::all().next().unwrap(), 1 << 20);
        let tba = gpu.alloc(2 * PAGE as usize).next_multiple_of(256);
        // s_endpgm ; s_mov_b64 ttmp[0:1], exec ; s_setpc_b64 ttmp[0:1]
        for (at, word) in (tba..).step_by(4).zip([0xbfb0_0000_u32, 0xbeec_017e, 0xbe80_486c]) {
            gpu.memory.write(at, &word.to_le_bytes());
        }
        // s_nop 0 ; s_endpgm
        let pc = gpu.buffer(&[0xbf80_0000_u32, 0xbfb0_0000]);
        let trap = Some(TrapHandler { tba, tma: 0, takes_traps });
        let mut wave = Wave::new(&WaveInit { trap, ..WaveInit::default() });
        // The handler finds the address in EXEC.
        assert!(wave.begin_context_restore(ContextSlot { address: pc, first_wave: false }));
        let stop = run(&mut gpu, &mut wave);
        if takes_traps {
            assert_eq!(stop, Stop::EndProgram, "only s_rfe_b64 leaves the handler");
        } else {
            assert_eq!((stop, wave.pc(), wave.is_at_boundary()), (Stop::TrapReturn, pc, true));
        }
    }
}
