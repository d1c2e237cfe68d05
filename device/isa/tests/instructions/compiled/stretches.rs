//! Accesses in loops, which look first where they were in the last round: pages that are missing or may only be read, and mappings that
//! are not next to each other, are met as the interpreter meets them.

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::common::Gpu;
use super::super::lanes;
use super::{Access, GLOBAL, tiers};

/// v_xor_b32_e32 v20, v20, v8; v_add_nc_u32_e32 v0, v0, v30.
const BEHIND: [u32; 2] = [0x3a28_1114, 0x4a00_3d00];
/// s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1 to the first instruction; s_endpgm.
const AGAIN: [u32; 4] = [0x8080_8100, 0xbf07_8000, 0xbfa2_fff9, 0xbfb0_0000];

const BYTES: usize = 64 << 12;
const ROUNDS: u32 = 24;

/// Places that a loop goes to.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Distances of neighbouring lanes' elements, and of their second half from the first one.
    apart: u32,
    half: u32,
    /// Distance from round to round.
    step: i32,
    exec: u64,
    /// Number of a page that is missing, or may only be read.
    page: Option<(u32, bool)>,
}

/// Everything that a loop leaves.
#[derive(PartialEq)]
struct Left {
    stop: String,
    pc: u64,
    registers: Vec<u32>,
    memory: Vec<u8>,
}

fn run(backend: Backend, (_, access): &Access, size: WaveSize, way: &Way) -> Left {
    let mut gpu = Gpu::of(Arch::Gfx1100, backend, BYTES + (1 << 18));
    let pc = gpu.buffer(&[&access[..], &BEHIND, &AGAIN].concat());
    let data = gpu.alloc(BYTES + 4096).next_multiple_of(4096);
    let words = (0..BYTES as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes());
    gpu.memory.write(data, &words.collect::<Vec<_>>());
    // In the middle, as some loops go down.
    let start = data + BYTES as u64 / 2 + 0x20;
    if let Some((page, readable)) = way.page {
        let page = data + u64::from(page) * 4096;
        if readable { gpu.memory.protect(page) } else { gpu.memory.hide(page) }
    }
    let with_base = access[1] >> 16 & 0x7f != 0x7c;
    let place = |lane: u32| (lane % 32) * way.apart + (lane / 32) * way.half;
    let address = |lane: u32| start + u64::from(place(lane));
    let mut vgprs = vec![[0; 64]; 32];
    vgprs[0] = lanes(|lane| if with_base { place(lane) + 0x8000 } else { address(lane) as u32 });
    vgprs[1] = lanes(|lane| (address(lane) >> 32) as u32);
    (4..8).for_each(|n| vgprs[n] = lanes(|lane| lane * 0x0101_0101 + n as u32));
    vgprs[30] = [way.step as u32; 64];
    let base = start - 0x8000;
    let sgprs = [ROUNDS, 0, 0, 0, base as u32, (base >> 32) as u32];
    let init = WaveInit { pc, exec: way.exec, wave_size: size, ..WaveInit::default() };
    let mut wave = Wave::new(&WaveInit { vgprs: &vgprs, sgprs: &sgprs, vgpr_count: 32, ..init });
    // So often that the code is compiled, and once more from the beginning.
    let stop = gpu.step(&mut wave, 100_000);
    let stop = match stop {
        Stop::Fault(fault) => format!("{fault}"),
        other => format!("{other:?}"),
    };
    gpu.memory.unhide();
    let registers = (0..32).flat_map(|n| (0..wave.lanes()).map(move |lane| (n, lane)));
    Left {
        stop,
        pc: wave.pc(),
        registers: registers.map(|(n, lane)| wave.vgpr(n, lane)).collect(),
        memory: gpu.memory.read(data, BYTES),
    }
}

fn compare(ways: &[Way]) {
    // Others write their addresses.
    let all = GLOBAL.iter().filter(|(_, words)| words[1] >> 24 != 0 || words[1] & 0xff00 != 0);
    for access in all {
        for size in [WaveSize::Wave32, WaveSize::Wave64] {
            for [interpreter, compiler] in tiers() {
                for way in ways {
                    let [expected, found] =
                        [interpreter, compiler].map(|backend| run(backend, access, size, way));
                    let name = format!("{compiler:?} {} {size:?} {way:?}", access.0);
                    assert_eq!((&expected.stop, expected.pc), (&found.stop, found.pc), "{name}");
                    assert!(expected.registers == found.registers, "registers: {name}");
                    assert!(expected.memory == found.memory, "memory: {name}");
                }
            }
        }
    }
}

const ALL: u64 = u64::MAX;

fn ways(steps: &[i32], pages: &[Option<(u32, bool)>]) -> Vec<Way> {
    let mut ways = Vec::new();
    for &step in steps {
        for &page in pages {
            for (apart, half) in [(4, 128), (16, 512), (0, 0), (0, 256), (4, 0x1400), (36, 1152)] {
                for exec in [ALL, 0x0fff_ff01_7fff_ff10] {
                    ways.push(Way { apart, half, step, exec, page });
                }
            }
        }
    }
    ways
}

#[test]
fn loops_go_through_memory_from_page_to_page() {
    compare(&ways(&[128, 0xfe8, -4096], &[None]));
}

#[test]
fn loops_stop_at_pages_that_are_missing() {
    compare(&ways(&[0x3fc, -0x804], &[Some((35, false)), Some((30, false))]));
}

#[test]
fn loops_stop_at_pages_that_may_only_be_read() {
    compare(&ways(&[0x3fc, -0x804], &[Some((35, true)), Some((30, true))]));
}
