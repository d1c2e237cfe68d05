//! Addresses whose low halves wrap at 4 GiB between lanes, while all lanes have the same high half: elements seem to follow each other and
//! are in two places of memory, 4 GiB apart.

#![expect(unsafe_code, reason = "an address space gives out pointers into its memory")]

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, Lds, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Access, Apertures, Fault, FaultKind, Mapping, Mmu, Tlb};
use belfry_isa::wave::{Wave, WaveInit};

use super::tiers;

const PAGE: u64 = 4096;
const WORDS: usize = PAGE as usize / 4;
/// Address that has the high half of all lanes' addresses, and a low half of 0.
const LOW: u64 = 7 << 32;
/// The page before the next 4 GiB, and the first one of those, which are one piece of memory.
const HIGH: u64 = (8 << 32) - PAGE;
const CODE: u64 = 0x10_0000;

/// Pages at [`LOW`], at [`HIGH`] and after it, and of code.
#[repr(C, align(4096))]
struct Memory([[AtomicU32; WORDS]; 4]);

// SAFETY: all of it are atomics, and it lives as long as the address space.
unsafe impl Mmu for Memory {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        let parts = [(LOW, 0, PAGE), (HIGH, 1, 2 * PAGE), (CODE, 3, PAGE)];
        let found = parts.into_iter().find(|(start, _, len)| va.wrapping_sub(*start) < *len);
        let (start, page, len) = found.ok_or(Fault::new(va, access, FaultKind::NotPresent))?;
        let host = self.0.as_ptr().cast_mut().wrapping_add(page).cast();
        Ok(Mapping { va: start, len, host, writable: true, executable: true, mirrored: false, alone: false })
    }
    fn generation(&self) -> u64 {
        1
    }
    fn context(&self) -> u64 {
        1
    }
}

/// v_add_co_u32 v10, vcc_lo, 64, v0; v_add_co_ci_u32_e32 v11, vcc_lo, 0, v1, vcc_lo; the high half of wave64 has the rest of VCC.
const FURTHER: [u32; 3] = [0xd700_6a0a, 0x0002_00c0, 0x4016_0280];
const END: u32 = 0xbfb0_0000;

/// Name, bytes and words of two accesses, at `v[0:1]` and `v[10:11]`, or at `v0` and `s[4:5]` with an offset;
/// llvm-mc-19 -mcpu=gfx1100.
type Two = (&'static str, u32, [[u32; 2]; 2]);

const TWO: [Two; 8] = [
    ("global_load_b32", 4, [[0xdc52_0000, 0x087c_0000], [0xdc52_0000, 0x097c_000a]]),
    ("global_load_b64", 8, [[0xdc56_0000, 0x087c_0000], [0xdc56_0000, 0x0e7c_000a]]),
    ("global_load_b96", 12, [[0xdc5a_0000, 0x107c_0000], [0xdc5a_0000, 0x147c_000a]]),
    ("global_load_b128", 16, [[0xdc5e_0000, 0x107c_0000], [0xdc5e_0000, 0x147c_000a]]),
    ("global_store_b32", 4, [[0xdc6a_0000, 0x007c_0400], [0xdc6a_0000, 0x007c_050a]]),
    ("global_store_b64", 8, [[0xdc6e_0000, 0x007c_0400], [0xdc6e_0000, 0x007c_060a]]),
    ("global_store_b128", 16, [[0xdc76_0000, 0x007c_0400], [0xdc76_0000, 0x007c_040a]]),
    ("global_load_b32 with s[4:5]", 4, [[0xdc52_0000, 0x0804_0000], [0xdc52_0040, 0x0904_0000]]),
];

/// Returns registers and memory after a run.
fn outcome(backend: Backend, two: &Two, size: WaveSize, (wraps, exec): (u32, u64)) -> (Vec<u32>, Vec<u32>) {
    let (name, bytes, [first, second]) = *two;
    let scalar = name.contains("s[4:5]");
    let memory = Box::new(Memory([const { [const { AtomicU32::new(0) }; WORDS] }; 4]));
    for (page, words) in memory.0.iter().enumerate().take(3) {
        for (n, word) in words.iter().enumerate() {
            word.store((page as u32 + 1) << 16 | n as u32, Ordering::SeqCst);
        }
    }
    let code = [&first[..], &FURTHER, &second, &[END]].concat();
    for (at, word) in memory.0[3].iter().zip(&code) {
        at.store(*word, Ordering::SeqCst);
    }
    let mut vgprs: Vec<[u32; 64]> =
        (0..24).map(|n| core::array::from_fn(|lane| 0x5000_0000 + (n << 16) + lane as u32)).collect();
    vgprs[0] = core::array::from_fn(|lane| (lane as u32).wrapping_sub(wraps).wrapping_mul(bytes));
    vgprs[1] = if scalar { [0; 64] } else { [7; 64] };
    let init = WaveInit {
        pc: CODE,
        exec,
        wave_size: size,
        vgprs: &vgprs,
        sgprs: &[0, 0, 0, 0, 0, 7],
        vgpr_count: 32,
        ..WaveInit::default()
    };
    let (mut tlb, mut code, mut lds) = (Tlb::new(), CodeCache::new(Arch::Gfx1100, backend), Lds::new(0));
    // The second time everything is in the TLB.
    let mut wave = Wave::new(&init);
    for _ in 0..2 {
        wave.restart(&init);
        let mut env = Env {
            mmu: &*memory,
            tlb: &mut tlb,
            code: &mut code,
            lds: &mut lds,
            apertures: Apertures::default(),
            clock: &|| 0,
            code_epoch: 1,
        };
        assert_eq!(exec::run(&mut wave, &mut env, 1000), Stop::EndProgram, "{name}");
    }
    let registers = (0..24).flat_map(|n| (0..wave.lanes()).map(move |lane| (n, lane)));
    let registers = registers.map(|(n, lane)| wave.vgpr(n, lane)).collect();
    let words = memory.0[..3].iter().flatten().map(|word| word.load(Ordering::SeqCst)).collect();
    (registers, words)
}

#[test]
fn lanes_on_both_sides_of_4_gib_are_where_they_say() {
    for [interpreter, compiler] in tiers() {
        for (size, lanes) in [(WaveSize::Wave32, 32), (WaveSize::Wave64, 64)] {
            for two in &TWO {
                for wraps in
                    [0, 1, 4, 15, 16, 17, 31, 32, 33, 48, 63, 64].into_iter().filter(|wraps| *wraps <= lanes)
                {
                    for exec in [u64::MAX, 0xfffe_7fff_ffff_ff7f] {
                        let expected = outcome(interpreter, two, size, (wraps, exec));
                        let compiled = outcome(compiler, two, size, (wraps, exec));
                        let name = two.0;
                        assert!(
                            expected == compiled,
                            "{name}, {size:?}, lane {wraps} is the first behind, {exec:x}, {compiler:?}"
                        );
                    }
                }
            }
        }
    }
}
