//! Accesses of memory that an instruction is about to make, as tools see them.

use belfry_isa::exec::{Place, Stop, Touch};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::Access;
use belfry_isa::wave::{Wave, WaveInit};

use super::{Gpu, lanes};

/// The lanes that are on.
const LANES: [u8; 3] = [0, 2, 5];

/// A wave at one instruction, with a buffer of 256 bytes.
struct Bench {
    gpu: Gpu,
    buffer: u64,
    wave: Wave,
}

/// Makes a bench: `v0` of a lane is four times its number, `s[8:11]` the buffer's descriptor with these words after its
/// address, `m0` is 16.
fn bench(arch: Arch, instruction: [u32; 2], [second, records, last]: [u32; 3]) -> Bench {
    let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
    let [first, rest] = instruction;
    let end = if arch.is_gfx9() { 0xbf81_0000 } else { 0xbfb0_0000 };
    let pc = gpu.buffer(&[first, rest, end]);
    let buffer = gpu.buffer(&[0xcccc_cccc_u32; 64]);
    gpu.lds.reset(1024);
    let mut sgprs = vec![0; 12];
    sgprs[8..12].copy_from_slice(&[buffer as u32, (buffer >> 32) as u32 | second, records, last]);
    (sgprs[4], sgprs[5]) = (buffer as u32, (buffer >> 32) as u32);
    let vgprs: Vec<[u32; 64]> = (0..20).map(|n| lanes(move |lane| lane * 4 + (n << 16))).collect();
    let exec = LANES.iter().fold(0, |exec, lane| exec | 1 << lane);
    let mut wave = Wave::new(&WaveInit {
        arch,
        pc,
        exec,
        vgprs: &vgprs,
        sgprs: &sgprs,
        vgpr_count: 32,
        ..WaveInit::default()
    });
    wave.set_sgpr(if arch.is_gfx9() { 124 } else { 125 }, 16);
    Bench { gpu, buffer, wave }
}

impl Bench {
    fn touches(&mut self) -> Vec<Touch> {
        self.gpu.touches(&mut self.wave)
    }

    /// An access of each lane of some bytes of the buffer, from `at` on.
    fn global(&self, at: impl Fn(u64) -> u64, bytes: u32, access: Access) -> Vec<Touch> {
        let replaces = access == Access::Write;
        let place = |lane: u8| Place::Global(self.buffer + at(lane.into()));
        LANES.iter().map(|&lane| Touch { lane, place: place(lane), bytes, access, replaces }).collect()
    }

    /// Returns the bytes of the buffer that the instruction changes.
    fn changed(&mut self) -> Vec<u64> {
        let before = self.gpu.memory.read(self.buffer, 256);
        assert_eq!(self.gpu.step(&mut self.wave, 100), Stop::EndProgram);
        let after = self.gpu.memory.read(self.buffer, 256);
        (0..256).filter(|at| before[*at as usize] != after[*at as usize]).collect()
    }
}

/// Dwords of LDS from this byte on, one for each lane.
fn lds(at: u32) -> Vec<Touch> {
    let place = |lane: u8| Place::Lds(at + u32::from(lane) * 4);
    let touch =
        |&lane: &u8| Touch { lane, place: place(lane), bytes: 4, access: Access::Write, replaces: true };
    LANES.iter().map(touch).collect()
}

/// The buffer's bytes of these accesses.
fn bytes(bench: &Bench, touches: &[Touch]) -> Vec<u64> {
    let of = |touch: &Touch| match touch.place {
        Place::Global(va) => va - bench.buffer..va - bench.buffer + u64::from(touch.bytes),
        Place::Lds(_) => 0..0,
    };
    touches.iter().flat_map(of).collect()
}

/// `OOB_SELECT` raw; records of eight bytes; components X, Y, Z and W; `BUF_FMT_32_32_32_32_UINT`, `BUF_FMT_16_16_UINT`.
const RAW: u32 = 3 << 28;
const STRIDE_8: u32 = 8 << 16;
const XYZW: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9;
const FOUR_WORDS: u32 = 61 << 12;
const TWO_HALVES: u32 = 27 << 12;

#[test]
fn elements_of_typed_buffers_are_touched_by_their_formats() {
    // buffer_store_format_xyzw v[8:11], v0, s[8:11], 0 offen
    let words = [0xe01c_0000, 0x8042_0800];
    let mut stores = bench(Arch::Gfx1100, words, [0, 256, RAW | XYZW | FOUR_WORDS]);
    // buffer_load_format_xyzw v[11:14], v0, s[8:11], 0 offen
    let mut loads = bench(Arch::Gfx1100, [0xe00c_0000, 0x8042_0b00], [0, 256, RAW | XYZW | TWO_HALVES]);
    // tbuffer_store_format_xyzw v[11:14], v0, s[8:11], 0 format:[BUF_FMT_16_16_16_16_SNORM] idxen
    let mut typed = bench(Arch::Gfx1100, [0xe9a3_8000, 0x8082_0b00], [STRIDE_8, 32, XYZW]);
    // tbuffer_load_d16_format_xy v19, v0, s[8:11], 0 format:[BUF_FMT_8_8_8_8_UNORM] idxen
    let mut halves = bench(Arch::Gfx1100, [0xe954_8000, 0x8082_1300], [STRIDE_8, 32, XYZW]);
    // A format without a number.
    let mut none = bench(Arch::Gfx1100, words, [0, 256, RAW | XYZW]);
    assert_eq!(stores.touches(), stores.global(|lane| lane * 4, 16, Access::Write));
    assert_eq!(loads.touches(), loads.global(|lane| lane * 4, 4, Access::Read));
    assert_eq!(typed.touches(), typed.global(|lane| lane * 4 * 8, 8, Access::Write));
    assert_eq!(halves.touches(), halves.global(|lane| lane * 4 * 8, 4, Access::Read));
    assert_eq!(none.touches(), []);

    // The bytes that change are among the touched ones; each store writes something to all of its own.
    for bench in [&mut stores, &mut typed] {
        let touched = bench.touches();
        let (mut touched, changed) = (bytes(bench, &touched), bench.changed());
        touched.sort_unstable();
        touched.dedup();
        assert_eq!(changed, touched);
    }
    assert_eq!(none.changed(), [0; 0]);
}

#[test]
fn lanes_without_addresses_touch_a_dword_each() {
    for (words, access) in [
        // global_load_addtid_b32 v4, s[4:5] offset:8
        ([0xdca2_0008, 0x0404_0000], Access::Read),
        // global_store_addtid_b32 v2, s[4:5] offset:8
        ([0xdca6_0008, 0x0004_0200], Access::Write),
    ] {
        let mut bench = bench(Arch::Gfx1100, words, [0; 3]);
        let touches = bench.touches();
        assert_eq!(touches, bench.global(|lane| 8 + lane * 4, 4, access));
        let stored = if access == Access::Write { bytes(&bench, &touches) } else { Vec::new() };
        assert_eq!(bench.changed(), stored);
    }
}

#[test]
fn loads_of_buffers_to_local_memory_touch_both() {
    // DST_SEL, NUM_FORMAT float, DATA_FORMAT 16_16.
    let two_halves = 0o7654 | 7 << 12 | 5 << 15;
    for (words, last, read) in [
        // buffer_load_dword v0, s[8:11], 0 offen offset:4 lds
        ([0xe051_1004, 0x8002_0000], 0, 4),
        // buffer_load_ubyte v0, s[8:11], 0 offen offset:4 lds
        ([0xe041_1004, 0x8002_0000], 0, 1),
        // buffer_load_format_x v0, s[8:11], 0 offen offset:4 lds
        ([0xe001_1004, 0x8002_0000], two_halves, 4),
        // buffer_load_ushort v0, s[8:11], 0 offen offset:4 lds
        ([0xe049_1004, 0x8002_0000], 0, 2),
    ] {
        let mut bench = bench(Arch::Gfx942, words, [0, 256, last]);
        let mut expected = bench.global(|lane| 4 + lane * 4, read, Access::Read);
        expected.extend(lds(16 + 4));
        assert_eq!(bench.touches(), expected, "{words:x?}");
    }
}

#[test]
fn dwords_of_an_element_that_are_outside_of_the_buffer_are_not_touched() {
    // buffer_store_b128 v[8:11], v0, s[8:11], 0 offen: of lane 5's, from 20 on, two dwords are inside.
    let mut raw = bench(Arch::Gfx1100, [0xe074_0000, 0x8042_0800], [0, 28, RAW]);
    let mut expected = raw.global(|lane| lane * 4, 16, Access::Write);
    expected[2].bytes = 8;
    let touches = raw.touches();
    assert_eq!(touches, expected);
    let mut touched = bytes(&raw, &touches);
    touched.sort_unstable();
    touched.dedup();
    assert_eq!(raw.changed(), touched);

    // Swizzled, in elements of four bytes, eight records interleaved: the dwords of an element are 32 bytes apart.
    let swizzled = [1 << 30 | 16 << 16, 32, 0];
    // buffer_load_b64 v[8:9], v0, s[8:11], 0 idxen
    let mut swizzled = bench(Arch::Gfx1100, [0xe054_0000, 0x8082_0800], swizzled);
    let at = |lane: u64| lane * 4 / 8 * 128 + lane * 4 % 8 * 4;
    let (first, second) =
        (swizzled.global(at, 4, Access::Read), swizzled.global(|lane| at(lane) + 32, 4, Access::Read));
    let both: Vec<Touch> = first.into_iter().zip(second).flat_map(<[Touch; 2]>::from).collect();
    assert_eq!(swizzled.touches(), both);
}
