//! Loads and stores through descriptors, as compiled code does them, against the interpreter.

use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::common::Gpu;
use super::super::{Bench, lanes};
use super::{Access, Case, Outcome, PAGE, PAGES, byte, cases, difference, element, pattern, tiers};

/// Offsets in `v0`, descriptors in `s[4:7]`, what is added in `s20`, data from `v4` on; llvm-mc-19 -mcpu=gfx1100.
const GFX11: [Access; 19] = [
    ("buffer_load_b32 v8, v0, s[4:7], 0 offen", [0xe050_0000, 0x8041_0800]),
    ("buffer_load_b32 v8, v0, s[4:7], s20 offen offset:4", [0xe050_0004, 0x1441_0800]),
    ("buffer_load_b32 v0, v0, s[4:7], 64 offen offset:4095", [0xe050_0fff, 0xc041_0000]),
    ("buffer_load_b64 v[8:9], v0, s[4:7], s20 offen", [0xe054_0000, 0x1441_0800]),
    ("buffer_load_b96 v[8:10], v0, s[4:7], 0 offen", [0xe058_0000, 0x8041_0800]),
    ("buffer_load_b128 v[8:11], v0, s[4:7], s20 offen offset:16", [0xe05c_0010, 0x1441_0800]),
    ("buffer_load_b128 v[0:3], v0, s[4:7], 0 offen", [0xe05c_0000, 0x8041_0000]),
    ("buffer_load_u8 v8, v0, s[4:7], 0 offen", [0xe040_0000, 0x8041_0800]),
    ("buffer_load_i8 v8, v0, s[4:7], s20 offen offset:1", [0xe044_0001, 0x1441_0800]),
    ("buffer_load_u16 v8, v0, s[4:7], 0 offen", [0xe048_0000, 0x8041_0800]),
    ("buffer_load_d16_b16 v8, v0, s[4:7], 0 offen", [0xe080_0000, 0x8041_0800]),
    ("buffer_load_d16_hi_b16 v8, v0, s[4:7], 0 offen", [0xe08c_0000, 0x8041_0800]),
    ("buffer_store_b32 v4, v0, s[4:7], s20 offen offset:8", [0xe068_0008, 0x1441_0400]),
    ("buffer_store_b64 v[4:5], v0, s[4:7], 0 offen", [0xe06c_0000, 0x8041_0400]),
    ("buffer_store_b96 v[4:6], v0, s[4:7], 0 offen", [0xe070_0000, 0x8041_0400]),
    ("buffer_store_b128 v[4:7], v0, s[4:7], s20 offen", [0xe074_0000, 0x1441_0400]),
    ("buffer_store_b8 v4, v0, s[4:7], 0 offen", [0xe060_0000, 0x8041_0400]),
    ("buffer_store_b16 v4, v0, s[4:7], 0 offen", [0xe064_0000, 0x8041_0400]),
    ("buffer_store_d16_hi_b16 v4, v0, s[4:7], 0 offen", [0xe094_0000, 0x8041_0400]),
];

/// The same of gfx942, by the names of gfx11; llvm-mc-19 -mcpu=gfx942.
const GFX9: [Access; 6] = [
    ("buffer_load_b32 v8, v0, s[4:7], 0 offen", [0xe050_1000, 0x8001_0800]),
    ("buffer_load_b128 v[8:11], v0, s[4:7], s20 offen offset:16", [0xe05c_1010, 0x1401_0800]),
    ("buffer_load_u16 v8, v0, s[4:7], 64 offen", [0xe048_1000, 0xc001_0800]),
    ("buffer_store_b32 v4, v0, s[4:7], s20 offen offset:8", [0xe070_1008, 0x1401_0400]),
    ("buffer_store_b128 v[4:7], v0, s[4:7], 0 offen", [0xe07c_1000, 0x8001_0400]),
    ("buffer_store_b16 v4, v0, s[4:7], 0 offen", [0xe068_1000, 0x8001_0400]),
];

/// The words of descriptors after the base: a stride and swizzle, bytes or records, and checks.
type Descriptor = [u32; 3];

const ALL: u32 = PAGES * PAGE;
/// `OOB_SELECT` of bytes.
const RAW: u32 = 3 << 28;
const ADD_TID: u32 = 1 << 23;

/// Plain, with a stride that says nothing, with elements outside, too small for any; swizzled, with thread numbers, with other checks.
const DESCRIPTORS: [Descriptor; 9] = [
    [0, ALL, RAW],
    [16 << 16, ALL, RAW],
    [0, 1000, RAW],
    [0, 1, RAW],
    [0, 0x8000_0000, RAW],
    [1 << 30 | 16 << 16, ALL, RAW],
    [4 << 16, ALL, RAW | ADD_TID],
    [16 << 16, 20, 0],
    [0, 1, 2 << 28],
];

/// The same of gfx9, whose checks have no number.
const OLD_DESCRIPTORS: [Descriptor; 7] = [
    [0, ALL, 0],
    [16 << 16, ALL, 0],
    [0, 1000, 0],
    [0, 7, 0],
    [1 << 31 | 16 << 16, ALL, 0],
    [4 << 16, ALL, ADD_TID],
    [1 << 30, ALL, 0],
];

struct Runner {
    bench: Bench,
    memory: u64,
    arch: Arch,
    size: WaveSize,
}

impl Runner {
    fn new(backend: Backend, arch: Arch, size: WaveSize, access: Access) -> Runner {
        let end = if arch.is_gfx9() { 0xbf81_0000 } else { 0xbfb0_0000 };
        let mut gpu = Gpu::of(arch, backend, 1 << 20);
        let pc = gpu.buffer(&[access.1[0], access.1[1], end]);
        gpu.lds.reset(1024);
        let mut bench = Bench { gpu, pc, scratch: 0 };
        let memory = bench.gpu.alloc((PAGES as usize + 2) * PAGE as usize).next_multiple_of(u64::from(PAGE));
        Runner { bench, memory: memory + u64::from(PAGE), arch, size }
    }

    fn run(&mut self, case: &Case, [second, records, last]: Descriptor) -> Outcome {
        let bytes: Vec<u8> = (0..PAGES * PAGE).map(byte).collect();
        self.bench.gpu.memory.write(self.memory, &bytes);
        let mut vgprs: Vec<[u32; 64]> =
            (0..32).map(|register| lanes(|lane| pattern(register, lane))).collect();
        vgprs[0] = case.addresses;
        let mut sgprs = [0; 24];
        let base = self.memory;
        sgprs[4..8].copy_from_slice(&[base as u32, (base >> 32) as u32 & 0xffff | second, records, last]);
        sgprs[20] = 8;
        let mut wave = Wave::new(&WaveInit {
            pc: self.bench.pc,
            arch: self.arch,
            exec: case.exec,
            wave_size: self.size,
            vgprs: &vgprs,
            sgprs: &sgprs,
            vgpr_count: 32,
            ..WaveInit::default()
        });
        let stop = self.bench.run(&mut wave);
        Outcome::of(stop, &wave, &self.bench, self.memory)
    }

    fn hide(&mut self, hides: bool) {
        if hides {
            self.bench.gpu.memory.hide(self.memory + 2 * u64::from(PAGE));
        } else {
            self.bench.gpu.memory.unhide();
        }
    }
}

fn compare(arch: Arch, size: WaveSize, accesses: &[Access], descriptors: &[Descriptor]) {
    let edges = [0, 17, if size == WaveSize::Wave32 { 31 } else { 63 }];
    for tiers in tiers() {
        for &access in accesses {
            let mut runners = tiers.map(|backend| Runner::new(backend, arch, size, access));
            let mut hidden = false;
            for case in cases(true, element(access.0), &edges) {
                if hidden != case.hides {
                    hidden = case.hides;
                    runners.iter_mut().for_each(|runner| runner.hide(hidden));
                }
                for &descriptor in descriptors {
                    let [expected, found] = runners.each_mut().map(|runner| runner.run(&case, descriptor));
                    assert!(
                        expected == found,
                        "{:?} {} {arch:?} {size:?} {descriptor:x?} {case:x?}\n{}",
                        tiers[1],
                        access.0,
                        difference(&expected, &found)
                    );
                }
            }
        }
    }
}

#[test]
fn buffers_in_waves_of_32_lanes() {
    compare(Arch::Gfx1100, WaveSize::Wave32, &GFX11, &DESCRIPTORS);
}

#[test]
fn buffers_in_waves_of_64_lanes() {
    compare(Arch::Gfx1100, WaveSize::Wave64, &GFX11, &DESCRIPTORS);
}

#[test]
fn buffers_of_gfx9() {
    compare(Arch::Gfx942, WaveSize::Wave64, &GFX9, &OLD_DESCRIPTORS);
}
