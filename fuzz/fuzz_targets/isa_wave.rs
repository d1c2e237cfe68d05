//! A wave of random bytes: it ends, faults or uses its budget up, the same way in every backend.

#![no_main]

use belfry_fuzz::chips::Choice;
use belfry_fuzz::memory::{CODE, CODE_SIZE, DATA, DATA_SIZE, Memory};
use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, Lds, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Apertures, Tlb};
use belfry_isa::wave::{Wave, WaveInit};
use libfuzzer_sys::fuzz_target;

const APERTURES: Apertures = Apertures { shared_base: 1 << 48, private_base: 2 << 48 };
/// Instructions a wave gets in all, and at a time.
const BUDGET: u64 = 4000;
const SLICE: u64 = 500;
/// The longest code without a taken branch: a slice can overrun by as much.
const STRAIGHT: u64 = CODE_SIZE as u64 / 4;
/// Times a wave is continued after it has stopped by itself.
const STOPS: usize = 64;
const LDS: u32 = 4096;
const SCRATCH: u32 = 64;

fuzz_target!(|input: &[u8]| {
    let Some((&[chip, flags, mode], code)) = input.split_first_chunk() else { return };
    if code.len() > CODE_SIZE {
        return;
    }
    let arch = Choice::of(chip).model.generation.arch;
    let mut backends = Backend::all();
    let first = backends.next().map(|backend| run((arch, backend), flags, mode, code));
    for backend in backends {
        let other = run((arch, backend), flags, mode, code);
        first.iter().for_each(|first| first.compare(&other, backend));
    }
});

/// State of a wave after its run.
struct Left {
    stops: Vec<Stop>,
    wave: Wave,
    lds: Lds,
    data: Vec<u8>,
}

impl Left {
    fn compare(&self, other: &Left, backend: Backend) {
        let (a, b) = (&self.wave, &other.wave);
        assert_eq!(self.stops, other.stops, "how the wave went on {backend:?}");
        assert_eq!((a.pc(), a.instructions), (b.pc(), b.instructions), "where the wave is on {backend:?}");
        for register in 0..128 {
            assert_eq!(a.sgpr(register), b.sgpr(register), "s{register} on {backend:?}");
        }
        // Some lanes of each register: asking for all of them would take longer than running the wave.
        let lane = |register: u8, nth: u32| (u32::from(register) * 7 + nth * 11) % a.lanes();
        for (register, lane) in (0..=255).flat_map(|r| (0..4).map(move |nth| (r, lane(r, nth)))) {
            let values = [a.vgpr(register, lane), b.vgpr(register, lane)];
            assert_eq!(values[0], values[1], "v{register} lane {lane} on {backend:?}: {values:#x?}");
        }
        assert!(self.lds.bytes() == other.lds.bytes(), "LDS on {backend:?}");
        assert!(self.data == other.data, "memory on {backend:?}");
    }
}

fn run((arch, backend): (Arch, Backend), flags: u8, mode: u8, code: &[u8]) -> Left {
    let mut memory = Memory::new(arch, code);
    let mut wave = Wave::new(&init(arch, flags, mode));
    let (mut tlb, mut cache) = (Tlb::new(), CodeCache::new(arch, backend));
    let mut lds = Lds::new(if flags & 2 == 0 { LDS } else { 0 });
    let mut stops = Vec::new();
    while wave.instructions < BUDGET && stops.len() < STOPS {
        let before = wave.instructions;
        let mut env = Env {
            mmu: &memory,
            tlb: &mut tlb,
            code: &mut cache,
            lds: &mut lds,
            apertures: APERTURES,
            clock: &|| 1,
            code_epoch: 1,
        };
        let stop = exec::run(&mut wave, &mut env, SLICE);
        let executed = wave.instructions - before;
        assert!(executed <= SLICE + STRAIGHT, "{executed} instructions of {SLICE}");
        let ended = matches!(stop, Stop::EndProgram | Stop::Fault(_));
        match &stop {
            Stop::Fault(fault) => assert!(!fault.to_string().is_empty(), "a fault without a name"),
            Stop::Budget => assert!(executed >= SLICE, "the budget of {SLICE} was not used up: {executed}"),
            _ => {}
        }
        stops.push(stop);
        if ended {
            break;
        }
    }
    let data = memory.data();
    Left { stops, wave, lds, data }
}

/// Registers that point at memory, so that random accesses have a chance to go through.
fn init(arch: Arch, flags: u8, mode: u8) -> WaveInit<'static> {
    const DATA_LOW: u32 = DATA as u32;
    const DATA_HIGH: u32 = (DATA >> 32) as u32;
    const MIDDLE: u32 = DATA_LOW + DATA_SIZE as u32 / 2;
    // Pairs of addresses, then a buffer descriptor for all of the data.
    const SGPRS: [u32; 16] = [
        DATA_LOW,
        DATA_HIGH,
        MIDDLE,
        DATA_HIGH,
        DATA_LOW,
        DATA_HIGH | 4 << 16,
        DATA_SIZE as u32 / 4,
        0x2001_4fac,
        MIDDLE,
        DATA_HIGH,
        3,
        64,
        CODE as u32,
        (CODE >> 32) as u32,
        0,
        0x3f80_0000,
    ];
    const LANES: [[u32; 64]; 8] = lanes();
    const fn lanes() -> [[u32; 64]; 8] {
        let mut registers = [[0; 64]; 8];
        let mut lane = 0;
        while lane < 64 {
            let index = lane as u32;
            let values = [
                index,
                index * 4,
                DATA_LOW + index * 4,
                DATA_HIGH,
                index * 0x0101_0101,
                1.5f32.to_bits(),
                MIDDLE,
                DATA_HIGH,
            ];
            let mut register = 0;
            while register < 8 {
                registers[register][lane] = values[register];
                register += 1;
            }
            lane += 1;
        }
        registers
    }
    const REGISTERS: &[[u32; 64]; 8] = &LANES;
    WaveInit {
        pc: CODE,
        exec: if flags & 4 == 0 { u64::MAX } else { 0x5555_ffff_0f0f_3333 },
        wave_size: if flags & 1 == 0 && !arch.is_gfx9() { WaveSize::Wave32 } else { WaveSize::Wave64 },
        sgprs: &SGPRS,
        vgprs: REGISTERS,
        vgpr_count: if flags & 8 == 0 { 256 } else { 32 },
        allocates_vgprs: flags & 32 != 0,
        mode: u32::from(mode) | 0x300,
        scratch_base: DATA,
        scratch_size_per_lane: if flags & 16 == 0 { SCRATCH } else { 0 },
        ..WaveInit::default()
    }
}
