//! LDS at its edges: bytes outside of the allocation read 0 and are not written, in every lane by itself.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::Wave;

use super::{APERTURES, Bench, lanes};

const END: u32 = 0xbfb0_0000;

/// An instruction with the address in `v0`, data from `v4` on and the result from `v8` on.
struct Access {
    words: [u32; 2],
    /// Offset and bytes of what each lane accesses, in the order of its registers.
    spans: &'static [(u32, u32)],
}

const fn access(words: [u32; 2], spans: &'static [(u32, u32)]) -> Access {
    Access { words, spans }
}

const LOADS: [Access; 9] = [
    // ds_load_b32 v8, v0
    access([0xd8d8_0000, 0x0800_0000], &[(0, 4)]),
    // ds_load_b64 v[8:9], v0
    access([0xd9d8_0000, 0x0800_0000], &[(0, 8)]),
    // ds_load_b96 v[8:10], v0
    access([0xdbf8_0000, 0x0800_0000], &[(0, 12)]),
    // ds_load_b128 v[8:11], v0
    access([0xdbfc_0000, 0x0800_0000], &[(0, 16)]),
    // ds_load_2addr_b32 v[8:9], v0 offset1:2
    access([0xd8dc_0200, 0x0800_0000], &[(0, 4), (8, 4)]),
    // ds_load_2addr_b64 v[8:11], v0 offset1:2
    access([0xd9dc_0200, 0x0800_0000], &[(0, 8), (16, 8)]),
    // ds_load_u8 v8, v0
    access([0xd8e8_0000, 0x0800_0000], &[(0, 1)]),
    // ds_load_u16 v8, v0
    access([0xd8f0_0000, 0x0800_0000], &[(0, 2)]),
    // ds_load_b32 v8, v0 offset:8
    access([0xd8d8_0008, 0x0800_0000], &[(8, 4)]),
];

const STORES: [Access; 8] = [
    // ds_store_b8 v0, v4
    access([0xd878_0000, 0x0000_0400], &[(0, 1)]),
    // ds_store_b16 v0, v4
    access([0xd87c_0000, 0x0000_0400], &[(0, 2)]),
    // ds_store_b32 v0, v4
    access([0xd834_0000, 0x0000_0400], &[(0, 4)]),
    // ds_store_b64 v0, v[4:5]
    access([0xd934_0000, 0x0000_0400], &[(0, 8)]),
    // ds_store_b96 v0, v[4:6]
    access([0xdb78_0000, 0x0000_0400], &[(0, 12)]),
    // ds_store_b128 v0, v[4:7]
    access([0xdb7c_0000, 0x0000_0400], &[(0, 16)]),
    // ds_store_2addr_b32 v0, v4, v5 offset1:2
    access([0xd838_0200, 0x0005_0400], &[(0, 4), (8, 4)]),
    // ds_store_2addr_b64 v0, v[4:5], v[6:7] offset1:2
    access([0xd938_0200, 0x0006_0400], &[(0, 8), (16, 8)]),
];

/// Addresses around the end of `size` bytes at every alignment, far behind it, and at the end of 32 bits.
fn addresses(size: u32) -> [u32; 64] {
    lanes(|lane| match lane {
        0..40 => size.saturating_sub(32) + lane,
        40..52 => 0x1_0000 + lane,
        52..56 => 0u32.wrapping_sub(lane - 51),
        _ => size / 2 + 16 * (lane - 56),
    })
}

fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + at / 256 + 1) as u8).collect()
}

/// The bytes of a span, if all of them are there.
fn span(memory: &[u8], address: u32, (offset, bytes): (u32, u32)) -> Option<core::ops::Range<usize>> {
    let start = u64::from(address.wrapping_add(offset));
    (start + u64::from(bytes) <= memory.len() as u64).then(|| start as usize..start as usize + bytes as usize)
}

fn each(run: impl Fn(Backend, WaveSize, u32)) {
    for backend in Backend::all() {
        for size in [1024, 512, 4, 0, 64 << 10] {
            run(backend, WaveSize::Wave32, size);
            run(backend, WaveSize::Wave64, size);
        }
    }
}

/// A wave after `program` with `size` bytes of patterned LDS, and the LDS.
fn after(
    backend: Backend,
    wave_size: WaveSize,
    size: u32,
    program: &[u32],
    vgprs: &[[u32; 64]],
) -> (Stop, Wave, Vec<u8>) {
    let mut bench = Bench::new(backend, program);
    bench.gpu.lds.reset(size);
    bench.gpu.lds.bytes_mut().copy_from_slice(&pattern(size));
    let mut wave = bench.wave(wave_size, vgprs, &[]);
    let stop = bench.run(&mut wave);
    (stop, wave, bench.gpu.lds.bytes().to_vec())
}

#[test]
fn loads_outside_give_zero_in_their_lane_alone() {
    each(|backend, wave_size, size| {
        for load in &LOADS {
            let (addresses, memory) = (addresses(size), pattern(size));
            let vgprs = [addresses; 12];
            let (stop, wave, lds) =
                after(backend, wave_size, size, &[load.words[0], load.words[1], END], &vgprs);
            assert_eq!((stop, &lds), (Stop::EndProgram, &memory));
            for lane in 0..wave.lanes() {
                let address = addresses[lane as usize];
                let spans: Option<Vec<_>> = load.spans.iter().map(|&at| span(&memory, address, at)).collect();
                // Any byte outside: the whole of the lane's result is 0.
                let mut bytes: Vec<u8> = match spans {
                    Some(spans) => spans.into_iter().flat_map(|span| memory[span].to_vec()).collect(),
                    None => vec![0; load.spans.iter().map(|span| span.1 as usize).sum()],
                };
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                for (n, word) in bytes.chunks(4).enumerate() {
                    let expected = u32::from_le_bytes(word.try_into().unwrap());
                    let got = wave.vgpr(8 + n as u8, lane);
                    assert_eq!(got, expected, "{:x?} lane {lane} at {address:#x} of {size:#x}", load.words);
                }
            }
        }
    });
}

#[test]
fn pairs_come_from_where_they_are_whatever_pattern_addresses_have() {
    const SIZE: u32 = 4096;
    let same_in_sixteens = |lane: u32| lane / 16 * 40;
    let same_rows = |lane: u32| lane % 16 * 16 + lane / 32 * 512;
    let cases: [(&str, [u32; 64]); 6] = [
        ("a pair for each sixteen", lanes(same_in_sixteens)),
        ("rows for each sixteen", lanes(same_rows)),
        ("pairs, then rows", lanes(|lane| if lane < 32 { same_in_sixteens(lane) } else { same_rows(lane) })),
        (
            "pairs, then anything",
            lanes(|lane| if lane < 32 { same_in_sixteens(lane) } else { lane * 52 % 2048 }),
        ),
        ("anything, then rows", lanes(|lane| if lane < 32 { lane * 20 % 2048 } else { same_rows(lane) })),
        (
            "pairs, the last ones outside",
            lanes(|lane| if lane < 48 { same_in_sixteens(lane) } else { SIZE - 4 }),
        ),
    ];
    let memory = pattern(SIZE);
    for backend in Backend::all() {
        for wave_size in [WaveSize::Wave32, WaveSize::Wave64] {
            for (what, addresses) in &cases {
                // ds_load_b64 v[8:9], v0; ds_load_b64 v[0:1], v0
                for dst in [8, 0] {
                    let code = [0xd9d8_0000, dst << 24, END];
                    let (stop, wave, _) = after(backend, wave_size, SIZE, &code, &[*addresses; 12]);
                    assert_eq!(stop, Stop::EndProgram);
                    for lane in 0..wave.lanes() {
                        let span = span(&memory, addresses[lane as usize], (0, 8));
                        let bytes = span.map_or(vec![0; 8], |span| memory[span].to_vec());
                        let expected = u64::from_le_bytes(bytes.try_into().unwrap());
                        let [low, high] = [0, 1].map(|n| u64::from(wave.vgpr(dst as u8 + n, lane)));
                        assert_eq!(
                            low | high << 32,
                            expected,
                            "{what}: lane {lane} of {wave_size:?}, v{dst}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn stores_outside_are_dropped_in_their_lane_alone() {
    each(|backend, wave_size, size| {
        for store in &STORES {
            let addresses = addresses(size);
            let data = |n: u32| lanes(|lane| 0x8080_8080 | lane << 16 | lane << 8 | n);
            let zero = [0; 64];
            let vgprs = [addresses, zero, zero, zero, data(0), data(1), data(2), data(3)];
            let (stop, wave, lds) =
                after(backend, wave_size, size, &[store.words[0], store.words[1], END], &vgprs);
            assert_eq!(stop, Stop::EndProgram);
            let mut memory = pattern(size);
            let mut register = 0;
            for &at in store.spans {
                for lane in 0..wave.lanes() {
                    let Some(span) = span(&memory, addresses[lane as usize], at) else { continue };
                    for (n, bytes) in memory[span].chunks_mut(4).enumerate() {
                        let word = data(register + n as u32)[lane as usize].to_le_bytes();
                        bytes.copy_from_slice(&word[..bytes.len()]);
                    }
                }
                register += at.1.div_ceil(4);
            }
            assert!(lds == memory, "{:x?} with {size:#x} bytes", store.words);
        }
    });
}

/// `ds_add_rtn_u32`, `ds_cmpstore_rtn_b32`: one register; `ds_add_rtn_u64`, `ds_condxchg32_rtn_b64`,
/// `ds_storexchg_2addr_rtn_b32` eight bytes apart: two.
const ATOMICS: [(Access, u8); 5] = [
    // ds_add_rtn_u32 v8, v0, v4
    (access([0xd880_0000, 0x0800_0400], &[(0, 4)]), 1),
    // ds_cmpstore_rtn_b32 v8, v0, v4, v5
    (access([0xd8c0_0000, 0x0805_0400], &[(0, 4)]), 1),
    // ds_add_rtn_u64 v[8:9], v0, v[4:5]
    (access([0xd980_0000, 0x0800_0400], &[(0, 8)]), 2),
    // ds_condxchg32_rtn_b64 v[8:9], v0, v[4:5]
    (access([0xd9f8_0000, 0x0800_0400], &[(0, 8)]), 2),
    // ds_storexchg_2addr_rtn_b32 v[8:9], v0, v4, v5 offset1:2
    (access([0xd8b8_0200, 0x0805_0400], &[(0, 4), (8, 4)]), 2),
];

#[test]
fn atomics_outside_do_nothing_and_return_zero() {
    each(|backend, wave_size, size| {
        for (atomic, registers) in &ATOMICS {
            // The last ones inside, the first one partly or wholly outside, and far ones: aligned, apart from each other.
            let addresses = lanes(|lane| match lane {
                0..8 => size.saturating_sub(128) / 16 * 16 + lane * 16,
                _ => (0x1_0000 + lane * 16) & !15,
            });
            let ones = lanes(|_| 0xffff_ffff);
            let vgprs = [addresses, ones, ones, ones, ones, ones, ones, ones, ones, ones];
            let (stop, wave, lds) =
                after(backend, wave_size, size, &[atomic.words[0], atomic.words[1], END], &vgprs);
            assert_eq!(stop, Stop::EndProgram);
            let memory = pattern(size);
            let mut touched = vec![false; size as usize];
            for lane in 0..wave.lanes() {
                let spans: Option<Vec<_>> =
                    atomic.spans.iter().map(|&at| span(&memory, addresses[lane as usize], at)).collect();
                let old: Vec<u32> = match spans {
                    Some(spans) => {
                        spans.iter().for_each(|span| touched[span.clone()].fill(true));
                        let bytes: Vec<u8> =
                            spans.into_iter().flat_map(|span| memory[span].to_vec()).collect();
                        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
                    }
                    None => vec![0; usize::from(*registers)],
                };
                let got: Vec<u32> = (0..*registers).map(|n| wave.vgpr(8 + n, lane)).collect();
                assert_eq!(got, old, "{:x?} lane {lane} of {size:#x}", atomic.words);
            }
            for (at, (got, before)) in lds.iter().zip(&memory).enumerate() {
                assert!(got == before || touched[at], "{:x?} changed byte {at:#x}", atomic.words);
            }
        }
    });
}

#[test]
fn atomics_misaligned_fault_and_name_their_lanes() {
    for backend in Backend::all() {
        for (atomic, registers) in &ATOMICS {
            // Lane 3 is misaligned by 4, which words allow and pairs do not; lanes 5 and 40 by 2.
            let addresses =
                lanes(|lane| lane * 16 + if lane == 3 { 4 } else { 2 * u32::from(lane == 5 || lane == 40) });
            let wide = atomic.spans == [(0, 8)];
            let expected = if wide { 1 << 3 | 1 << 5 | 1 << 40 } else { 1 << 5 | 1_u64 << 40 };
            let vgprs = [addresses; 10];
            let program = [atomic.words[0], atomic.words[1], END];
            let (stop, ..) = after(backend, WaveSize::Wave64, 1024, &program, &vgprs);
            let Stop::Fault(fault) = stop else { panic!("{stop:?}") };
            let (lane, bytes) = if wide { (3, 8) } else { (5, 4) };
            let address = addresses[lane];
            assert_eq!(
                fault.kind,
                FaultCause::LdsMisaligned { address, bytes, lanes: expected },
                "{registers}"
            );
        }
    }
}

#[test]
fn atomics_by_flat_addresses_misaligned_fault_as_those_of_lds() {
    // flat_atomic_add_u32 v[0:1], v2; flat_atomic_add_u64 v[0:1], v[2:3]
    for (words, bytes) in [([0xdcd4_0000, 0x007c_0200], 4), ([0xdd0c_0000, 0x007c_0200], 8)] {
        for backend in Backend::all() {
            let addresses =
                lanes(|lane| lane * 16 + if lane == 3 { 4 } else { 2 * u32::from(lane == 5 || lane == 40) });
            let high = lanes(|_| (APERTURES.shared_base >> 32) as u32);
            let vgprs = [addresses, high, lanes(|_| 1), lanes(|_| 0)];
            let (stop, _, lds) = after(backend, WaveSize::Wave64, 1024, &[words[0], words[1], END], &vgprs);
            let (first, expected) = if bytes == 8 { (3, 1 << 3 | 1 << 5) } else { (5, 1 << 5) };
            let Stop::Fault(fault) = stop else { panic!("{stop:?}") };
            let lanes = expected | 1_u64 << 40;
            assert_eq!(fault.kind, FaultCause::LdsMisaligned { address: addresses[first], bytes, lanes });
            // Lanes before it are done, and no other.
            let before = pattern(1024);
            for lane in 0..64 {
                let changed = lds[lane * 16..][..16] != before[lane * 16..][..16];
                assert_eq!(changed, lane < first, "lane {lane} of {bytes} bytes");
            }
        }
    }
}

#[test]
fn accesses_by_lane_number_at_the_end_are_cut_off_there() {
    // s_mov_b32 m0, 0x3c0; ds_load_addtid_b32 v8 offset:16; ds_store_addtid_b32 v4 offset:16
    let program = [0xbefd_00ff, 0x3c0, 0xdac4_0010, 0x0800_0000, 0xdac0_0010, 0x0000_0400, END];
    for backend in Backend::all() {
        let vgprs = [lanes(|lane| 0x1000 + lane); 12];
        let (stop, wave, lds) = after(backend, WaveSize::Wave64, 1024, &program, &vgprs);
        assert_eq!(stop, Stop::EndProgram);
        let memory = pattern(1024);
        let word = |memory: &[u8], at: usize| u32::from_le_bytes(memory[at..at + 4].try_into().unwrap());
        for lane in 0..64 {
            let at = 0x3d0 + lane as usize * 4;
            let expected = if at < 1024 { word(&memory, at) } else { 0 };
            assert_eq!(wave.vgpr(8, lane), expected, "lane {lane}");
            assert!(at >= 1024 || word(&lds, at) == 0x1000 + lane);
        }
        assert_eq!(lds[..0x3d0], memory[..0x3d0]);
    }
}

#[test]
fn counters_outside_are_zero_and_stay() {
    // s_mov_b32 m0, 0x3f0; ds_append v8 offset:16
    let program = [0xbefd_00ff, 0x3f0, 0xd8f8_0010, 0x0800_0000, END];
    for (size, old) in [(1024, 0), (1028, u32::from_le_bytes(pattern(1028)[1024..].try_into().unwrap()))] {
        let (stop, wave, lds) =
            after(Backend::detect(), WaveSize::Wave32, size, &program, &[lanes(|_| 9); 12]);
        assert_eq!((stop, wave.vgpr(8, 0), wave.vgpr(8, 31)), (Stop::EndProgram, old, old));
        assert_eq!(lds[..1024], pattern(size)[..1024]);
    }
}
