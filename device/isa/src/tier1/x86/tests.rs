//! Code that is made from kernels, looked at with another decoder, and its corners against tier 0.

mod covered;
mod mnemonics;

use core::mem::offset_of;
use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use mnemonics::{AVX2, AVX512, INTEGERS};

use super::avx2;
use super::body::Callee;
use super::compile::compile;
use crate::exec::di::{Di, Machine};
use crate::exec::form::Form;
use crate::exec::lower;
use crate::exec::waves::round::Round;
use crate::exec::waves::succession::{Stretch, Succession};
use crate::inst::{Arch, WaveSize};
use crate::lanes::{Backend, BackendKind};
use crate::tier1::analysis::covered::is_covered;
use crate::tier1::analysis::source::{Source, bare};
use crate::tier1::analysis::touched::touched;
use crate::tier1::analysis::{guess, template};
use crate::tier1::x86::avx512::sixteens;

/// Kernels of the suite of measurements and of the examples.
pub(crate) const KERNELS: [&[u8]; 8] = [
    include_bytes!("../../../../../guest-runtime/kernels/bench.gfx1100.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/sort.gfx1100.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/intmix.gfx1100.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/bench.gfx1201.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/bench.gfx942.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/sort.gfx942.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/ocml.gfx1100.hsaco"),
    include_bytes!("../../../../../guest-runtime/kernels/ocml.gfx942.hsaco"),
];
/// Number of kernels, from the first one on, of which most elements have templates; the others are functions of a
/// library.
const COVERED: usize = 6;

/// Returns true if the name of the target in an object is that of this chip.
fn is_for(object: &[u8], chip: &str) -> bool {
    object.windows(chip.len() + 1).any(|word| word.starts_with(b"-") && word.ends_with(chip.as_bytes()))
}

/// Halves of the waves that an object's kernels have.
pub(crate) fn halves(object: &[u8]) -> u32 {
    if is_for(object, "gfx942") { 2 } else { 1 }
}

/// Elements and forms of all kernels of an object.
pub(crate) fn elements(object: &[u8]) -> Vec<(Vec<Di>, Vec<Form>)> {
    let file = object::File::parse(object).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let (base, bytes) = (text.address(), text.data().unwrap());
    let (arch, size) = match (is_for(object, "gfx1201"), is_for(object, "gfx942")) {
        (true, _) => (Arch::Gfx1201, WaveSize::Wave32),
        (_, true) => (Arch::Gfx942, WaveSize::Wave64),
        _ => (Arch::Gfx1100, WaveSize::Wave32),
    };
    let functions = file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    functions
        .filter(|symbol| symbol.size() > 0)
        .map(|symbol| {
            let at = (symbol.address() - base) as usize;
            lower::for_test(arch, size, &bytes[at..at + symbol.size() as usize])
        })
        .collect()
}

fn compiled(kind: BackendKind, object: &[u8]) -> Vec<Vec<u8>> {
    let halves = halves(object);
    elements(object).iter().map(|(code, forms)| instructions(kind, code, forms, halves)).collect()
}

fn instructions(kind: BackendKind, code: &[Di], forms: &[Form], halves: u32) -> Vec<u8> {
    let touched = touched(code, forms, halves);
    let source = Source { kind, code: &bare(0, code, forms), forms, halves, waits: false };
    let code = compile(source, Callee::default(), touched.as_ref());
    code.bytes[..code.instructions as usize].to_vec()
}

/// Elements that hardly any of these kernels has: v_add_nc_u32_dpp v8, v4, v5 row_shr:1; v_mov_b32_dpp v4, v4
/// row_xmask:1 bound_ctrl:1; ds_bpermute_b32 v8, v0, v4; ds_swizzle_b32 v8, v4 offset:swizzle(SWAP,16);
/// v_permlanex16_b32 v8, v4, -1, -1; v_readlane_b32 s5, v4, 17; v_readfirstlane_b32 s5, v4; v_mbcnt_lo_u32_b32 v8,
/// -1, v4; v_sub_nc_u32_e64 v8, v4, v5 clamp; v_add_nc_u32_e64 v8, v4, v5 clamp; s_endpgm.
const PERMUTATIONS: [u32; 20] = [
    0x4a10_0afa,
    0xff01_1104,
    0x7e08_02fa,
    0xff09_6104,
    0xdacc_0000,
    0x0800_0400,
    0xd8d4_401f,
    0x0800_0004,
    0xd65c_0008,
    0x0305_8304,
    0xd760_0005,
    0x0001_2304,
    0x7e0a_0504,
    0xd71f_0008,
    0x0002_08c1,
    0xd526_8008,
    0x0002_0b04,
    0xd525_8008,
    0x0002_0b04,
    0xbfb0_0000,
];

/// Numbers of atomics of LDS of 32 bits that return nothing, which are 32 less than of those that do, and 64 less than of the same with
/// 64 bits; of others that return nothing, and that do; of global memory.
const ATOMICS: [&[u32]; 4] = [
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16],
    &[21],
    &[45, 109, 121],
    &[
        51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 86, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74,
        75, 76, 77,
    ],
];

/// Atomics of all functions, with addresses in v0 or v[0:1], operands from v4 and v6 on and results from v8 on.
fn atomics() -> Vec<u32> {
    let mut words = Vec::new();
    let mut lds = |op: u32, returns: bool| {
        let second = if matches!(op & 31, 12 | 16) { 6 << 16 } else { 0 };
        words.extend([0xd800_0008 | op << 18, u32::from(returns) << 27 | second | 4 << 8]);
    };
    let [both, plain, returning, global] = ATOMICS;
    for op in both.iter().flat_map(|op| [*op, op + 64]) {
        lds(op, false);
        lds(op + 32, true);
    }
    plain.iter().for_each(|op| lds(*op, false));
    returning.iter().for_each(|op| lds(*op, true));
    for op in global {
        // off; s[4:5] glc.
        words.extend([0xdc02_0000 | op << 18, 0x007c_0400, 0xdc02_4000 | op << 18, 0x0804_0400]);
    }
    words.push(0xbfb0_0000);
    words
}

/// Back ends that code can be made for; the host need not have them.
pub(crate) const KINDS: [BackendKind; 2] = [BackendKind::Avx2, BackendKind::Avx512];

/// Returns all code that the tests look at.
fn all_code(kind: BackendKind) -> Vec<Vec<u8>> {
    let rare = [PERMUTATIONS.to_vec(), atomics()].map(|words| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        [WaveSize::Wave32, WaveSize::Wave64].map(|size| {
            let halves = if size == WaveSize::Wave32 { 1 } else { 2 };
            let (code, forms) = lower::for_test(Arch::Gfx1100, size, &bytes);
            let called: Vec<_> =
                (0..code.len()).filter(|at| !is_covered(forms[*at], &code[*at], halves)).collect();
            assert!(called.is_empty() && code.len() * 2 >= words.len(), "{called:?} of {forms:?}");
            instructions(kind, &code, &forms, halves)
        })
    });
    let rare = rare.into_iter().flatten().chain(covered::code(kind));
    KERNELS.iter().flat_map(|object| compiled(kind, object)).chain(rare).collect()
}

fn decoded(code: &[u8]) -> Vec<Instruction> {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().collect()
}

#[test]
fn kernels_are_mostly_covered() {
    let (mut covered, mut all) = (0, 0);
    for object in KERNELS.into_iter().take(COVERED) {
        let halves = halves(object);
        for (code, forms) in elements(object) {
            all += code.len();
            covered += code.iter().zip(&forms).filter(|(d, form)| is_covered(**form, d, halves)).count();
        }
    }
    println!("{covered} of {all} elements");
    assert!(covered * 3 > all * 2, "{covered} of {all} elements");
}

#[test]
fn code_is_what_another_decoder_takes_for_instructions_of_the_list() {
    for kind in KINDS {
        let avx2_alone = kind == BackendKind::Avx2;
        let vectors = if avx2_alone { &AVX2[..] } else { &AVX512 };
        let mut used = BTreeSet::new();
        let mut unknown = BTreeSet::new();
        for code in all_code(kind) {
            for instruction in decoded(&code) {
                let mnemonic = instruction.mnemonic();
                if !INTEGERS.contains(&mnemonic) && !vectors.contains(&mnemonic) {
                    unknown.insert(format!("{mnemonic:?}"));
                }
                // The first byte of an instruction in EVEX encoding.
                assert!(!avx2_alone || code[instruction.ip() as usize] != 0x62, "{mnemonic:?} is in EVEX");
                used.insert(format!("{mnemonic:?}"));
            }
        }
        assert!(unknown.is_empty(), "{unknown:?} for {kind:?}");
        assert!(used.len() > 50, "{used:?}");
    }
}

#[test]
fn code_writes_through_no_address_that_a_guest_makes_but_by_the_tlb_or_within_lds() {
    // Stores are to the wave, to its rows, to the caller's stack, and to what a TLB entry or LDS has as its host address.
    let known = [Register::RBX, Register::RBP, Register::RSP, Register::RDX, Register::RAX];
    // For AVX2: bytes of the wave's masks, and what is at a distance in a span or LDS.
    let of_avx2 = [Register::R11, Register::R8, Register::RCX];
    for kind in KINDS {
        let (mut lanes, mut named) = (0, 0);
        let all: Vec<Instruction> = all_code(kind).iter().flat_map(|code| decoded(code)).collect();
        for (before, instruction) in all.iter().zip(&all[1..]) {
            let stores = instruction.op0_kind() == OpKind::Memory
                && !matches!(
                    instruction.mnemonic(),
                    Mnemonic::Cmp | Mnemonic::Prefetcht0 | Mnemonic::Prefetchw
                );
            if !stores {
                continue;
            }
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            // Elements of atomics, at a distance in a span or LDS, and what they return to the lane's place in a row.
            let scale = instruction.memory_index_scale();
            let atomic = [Register::R8, Register::R9].contains(&base) && (index, scale) == (Register::RCX, 1);
            let returned = base == Register::RBP && (index, scale) == (Register::RSI, 4);
            if atomic || returned {
                lanes += 1;
                continue;
            }
            // A lane that a scalar names, of which the wave has as many.
            if kind == BackendKind::Avx2 && base == Register::RBP && (index, scale) == (Register::RCX, 4) {
                assert!(before.mnemonic() == Mnemonic::And && before.op0_register() == Register::ECX);
                assert!([31, 63].contains(&before.immediate32()));
                named += 1;
                continue;
            }
            let avx2 = kind == BackendKind::Avx2 && of_avx2.contains(&base);
            // Flags of the machine's.
            let flags = [
                offset_of!(Machine<'_>, wrote_more),
                offset_of!(Machine<'_>, round) + offset_of!(Round, chose),
            ];
            let flag = base == Register::R12
                && instruction.mnemonic() == Mnemonic::Or
                && flags.map(|flag| flag as u64).contains(&instruction.memory_displacement64());
            // Which wave of a round runs, its limit, and which round it is.
            let of_round = [offset_of!(Round, at), offset_of!(Round, limit), offset_of!(Round, generation)]
                .map(|field| (offset_of!(Machine<'_>, round) + field) as u64);
            let round = base == Register::R12
                && instruction.mnemonic() == Mnemonic::Mov
                && of_round.contains(&instruction.memory_displacement64());
            // How far waves have followed each other.
            let fields = [
                offset_of!(Succession, at),
                offset_of!(Succession, x),
                offset_of!(Succession, budget),
                offset_of!(Succession, instructions),
                offset_of!(Succession, limit),
            ];
            let stretches = offset_of!(Succession, stretches);
            let stretches = stretches..stretches + Succession::STRETCHES * size_of::<Stretch>();
            let at = instruction.memory_displacement64() as usize;
            let succession = base == Register::R10
                && instruction.mnemonic() == Mnemonic::Mov
                && (fields.contains(&at) || stretches.contains(&at));
            assert!(known.contains(&base) || avx2 || flag || round || succession, "{base:?}");
            // Scalar registers that the engine has named for what waves start with.
            if base == Register::RBX && instruction.memory_index() == Register::RDX {
                assert!(
                    instruction.mnemonic() == Mnemonic::Mov && instruction.op1_register() == Register::ECX
                );
                continue;
            }
            // Distances of lanes, which have been compared with the end of the span or of LDS.
            let scatters = match kind {
                BackendKind::Avx2 => base == Register::R8,
                _ => instruction.mnemonic() == Mnemonic::Vpscatterdd,
            };
            assert_eq!(index == Register::None, !scatters);
        }
        assert!(lanes > 100, "{lanes} stores of atomics");
        assert_eq!(named > 0, kind == BackendKind::Avx2, "{named} stores to lanes that scalars name");
    }
}

#[test]
fn programs_for_each_element_of_arrays_have_a_way_that_counts_lanes_on() {
    let objects = [
        &include_bytes!("../../../../../guest-runtime/kernels/elements.gfx1100.hsaco")[..],
        include_bytes!("../../../../../guest-runtime/kernels/elements.gfx942.hsaco"),
        include_bytes!("../../../../../guest-runtime/kernels/elements.gfx1201.hsaco"),
    ];
    for object in objects {
        // Only that way has waves that are started again: they begin at an address of the code's.
        let starts_again = |instruction: &Instruction| {
            instruction.mnemonic() == Mnemonic::Lea
                && instruction.op0_register() == Register::R11
                && instruction.is_ip_rel_memory_operand()
        };
        let count = |kind| {
            compiled(kind, object).iter().filter(|code| decoded(code).iter().any(starts_again)).count()
        };
        // All but those with steps of two elements and loads behind stores; and one of gfx942's with more rows than there are registers.
        assert!([12, 13].contains(&count(BackendKind::Avx512)), "{}", count(BackendKind::Avx512));
        assert_eq!(count(BackendKind::Avx2), 0);
    }
}

#[test]
fn jumps_lead_to_instructions() {
    for code in KINDS.into_iter().flat_map(all_code) {
        let all = decoded(&code);
        let starts: BTreeSet<u64> = all.iter().map(Instruction::ip).collect();
        let jumps = all.iter().filter(|instruction| instruction.op0_kind() == OpKind::NearBranch64);
        for jump in jumps {
            assert!(starts.contains(&jump.near_branch_target()), "{:#x}", jump.ip());
        }
    }
}

#[test]
fn host_has_a_backend_that_compiles_for_each_of_its_kinds() {
    let compiling: Vec<BackendKind> = Backend::all()
        .filter(|backend| backend.tier() == crate::lanes::Tier::One)
        .map(Backend::kind)
        .collect();
    let has: Vec<BackendKind> = KINDS.into_iter().filter(|&kind| Backend::force(kind).is_some()).collect();
    assert_eq!(compiling, has);
}

#[test]
fn what_has_many_rows_is_done_for_some_lanes_after_the_others() {
    let (mut longest, mut loops) = (0, 0);
    for (code, forms) in elements(include_bytes!("../../../../../guest-runtime/kernels/bench.gfx942.hsaco")) {
        let all: Vec<(Form, &Di)> = forms.iter().copied().zip(&code).collect();
        for at in 0..all.len() {
            let run = sixteens::run_of(&all[at..], 2, false);
            longest = longest.max(run.map_or(0, |run| run.lanes.len()));
            if let (Form::Branch(when), d) = all[at]
                && d.aux == 0
                && (d.imm as usize) < at
            {
                let body = &all[d.imm as usize..at];
                let touched: Vec<_> = body.iter().map(|(form, d)| template::rows(*form, d, 2)).collect();
                loops += usize::from(sixteens::loop_of(body, when, 2, &touched).is_some());
            }
        }
    }
    // The products of a tile, with their loads of LDS; the loop of `alu`.
    assert!(longest > 100 && loops > 0, "{longest} elements, {loops} loops");
}

#[test]
fn products_of_a_tile_are_one_run_with_their_loads_of_lds() {
    let (mut longest, mut most) = (0, 0);
    for (code, forms) in elements(KERNELS[0]) {
        let all: Vec<(Form, &Di)> = forms.iter().copied().zip(&code).collect();
        let steps = guess::steps(&code, &forms, 1);
        for at in 0..all.len() {
            for masked in [false, true] {
                let Some(run) = avx2::run_of(&all[at..], &steps[at..], (1, masked)) else { continue };
                let loads = run.lanes.iter().filter(|lane| all[at + **lane].0.is_memory()).count();
                longest = longest.max(run.lanes.len());
                most = most.max(loads);
                assert!(!masked || loads == 0, "loads of waves with inactive lanes are their handlers'");
            }
        }
    }
    assert!(longest > 200 && most == 64, "{longest} elements, {most} loads");
}

#[test]
fn flat_memory_and_buffers_have_code() {
    // flat_load_b32 v8, v[0:1]; flat_store_b128 v[0:1], v[4:7].
    // buffer_load_b32 v8, v0, s[4:7], 0 offen; buffer_load_b128 v[8:11], v0, s[4:7], s20 offen offset:16;
    // buffer_store_b32 v4, v0, s[4:7], 64 offen; buffer_store_b128 v[4:7], v0, s[4:7], s20 offen.
    let accesses: [[u32; 2]; 6] = [
        [0xdc50_0000, 0x087c_0000],
        [0xdc74_0000, 0x007c_0400],
        [0xe050_0000, 0x8041_0800],
        [0xe05c_0010, 0x1441_0800],
        [0xe068_0000, 0xc041_0400],
        [0xe074_0000, 0x1441_0400],
    ];
    for kind in KINDS {
        for words in accesses {
            let program = [&words[..], &[0xbfb0_0000]].concat();
            let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (code, forms) = lower::for_test(Arch::Gfx1100, WaveSize::Wave32, &bytes);
            let all = decoded(&instructions(kind, &code, &forms, 1));
            let moves = all.iter().filter(|instruction| {
                let vector = |n| (Register::XMM0..=Register::ZMM31).contains(&instruction.op_register(n));
                instruction.memory_base() == Register::RDX && (0..instruction.op_count()).any(vector)
            });
            assert!(moves.count() > 0, "{kind:?} {words:x?}");
        }
    }
}

#[test]
fn pairs_of_dwords_of_global_memory_are_one_access() {
    // global_load_b64, b96 and b128 v[8:..], v[0:1], off; global_load_b64 and b128 v[8:..], v0, s[4:5].
    let loads: [([u32; 2], usize); 5] = [
        ([0xdc56_0000, 0x087c_0000], 2),
        ([0xdc5a_0000, 0x087c_0000], 3),
        ([0xdc5e_0000, 0x087c_0000], 4),
        ([0xdc56_0000, 0x0804_0000], 2),
        ([0xdc5e_0000, 0x0804_0000], 4),
    ];
    // The wave, its rows and the caller's stack; the machine and its elements; constants after the code.
    let own = [Register::RBX, Register::RBP, Register::RSP, Register::R12, Register::R13, Register::RIP];
    for kind in KINDS {
        for (size, halves) in [(WaveSize::Wave32, 1), (WaveSize::Wave64, 2)] {
            for (words, dwords) in loads {
                let bytes: Vec<u8> = [&words[..], &[0xbfb0_0000]]
                    .concat()
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                let (code, forms) = lower::for_test(Arch::Gfx1100, size, &bytes);
                let all = decoded(&instructions(kind, &code, &forms, halves));
                let loads = all.iter().filter(|instruction| {
                    let memory =
                        (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
                    memory && !own.contains(&instruction.memory_base())
                });
                let loads: Vec<Mnemonic> = loads.map(Instruction::mnemonic).collect();
                assert!(loads.contains(&Mnemonic::Vmovups), "{kind:?} {halves} {words:x?}: {loads:?}");
                // Those of one dword, or of one in each lane.
                let of_a_dword =
                    [Mnemonic::Vpgatherdd, Mnemonic::Vpbroadcastd, Mnemonic::Vpinsrd, Mnemonic::Vmovd];
                let single = loads.iter().any(|mnemonic| of_a_dword.contains(mnemonic));
                assert!(!single || dwords == 3, "{kind:?} {halves} {words:x?}: {loads:?}");
            }
        }
    }
}
