//! The decoder and disassembler against LLVM's texts, and against any bytes at all.

use belfry_isa::decode::{decode, decode_for};
use belfry_isa::disasm::{Disassembly, disassemble};
use belfry_isa::encode::unused_bits;
use belfry_isa::inst::{Arch, DecodeError, Inst, Op, WaveSize};
use belfry_isa::tables::{foreign_patterns, patterns};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hex digits"))
        .collect()
}

fn text(arch: Arch, inst: Inst, wave: WaveSize) -> String {
    Disassembly::new(inst, arch, wave).to_string()
}

/// One space for any number: LLVM's tests ignore the difference, and LLVM prints two after some image mnemonics.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks every line of a fixture and returns how many there were and which differ.
fn check(arch: Arch, fixture: &str) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for line in fixture.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let (waves, hex, expected) =
            (fields.next().expect("waves"), fields.next().expect("bytes"), fields.next().expect("text"));
        let waves: &[WaveSize] = match waves {
            "32" => &[WaveSize::Wave32],
            "64" => &[WaveSize::Wave64],
            _ => &[WaveSize::Wave32, WaveSize::Wave64],
        };
        for &wave in waves {
            count += 1;
            let code = bytes(hex);
            match decode_for(arch, wave, &code) {
                Ok(inst)
                    if spaced(&text(arch, inst, wave)) == spaced(expected)
                        && usize::from(inst.size) == code.len() => {}
                Ok(inst) => wrong.push(format!(
                    "{hex} {wave:?}: {} ({} bytes), LLVM: {expected}",
                    text(arch, inst, wave),
                    inst.size
                )),
                Err(error) => wrong.push(format!("{hex} {wave:?}: {error}, LLVM: {expected}")),
            }
        }
    }
    (count, wrong)
}

#[test]
fn compiled_kernels_disassemble_as_llvm_does() {
    for (arch, fixture) in [
        (Arch::Gfx942, include_str!("data/kernels-gfx9.txt")),
        (Arch::Gfx950, include_str!("data/kernels-gfx950.txt")),
        (Arch::Gfx1100, include_str!("data/kernels-gfx11.txt")),
        (Arch::Gfx1151, include_str!("data/kernels-gfx1151.txt")),
        (Arch::Gfx1201, include_str!("data/kernels-gfx12.txt")),
    ] {
        let (count, wrong) = check(arch, fixture);
        assert!(count > 1_500, "only {count} instructions in the fixture");
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn llvm_vectors_disassemble_as_llvm_does() {
    for (arch, fixture) in [
        (Arch::Gfx942, include_str!("data/llvm-gfx9.txt")),
        (Arch::Gfx950, include_str!("data/llvm-gfx950.txt")),
        (Arch::Gfx1100, include_str!("data/llvm-gfx11.txt")),
        (Arch::Gfx1151, include_str!("data/llvm-gfx1151.txt")),
        (Arch::Gfx1201, include_str!("data/llvm-gfx12.txt")),
    ] {
        let (count, wrong) = check(arch, fixture);
        assert!(count > 2_000, "only {count} instructions in the fixture");
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn s_alloc_vgpr_is_an_operation_of_gfx1201_alone() {
    const TEXTS: &str = "*\tc05380be\ts_alloc_vgpr 64\n*\t055380be\ts_alloc_vgpr s5\n*\tff5380be35120000\ts_alloc_vgpr 0x1235\n";
    assert_eq!(check(Arch::Gfx1201, TEXTS), (6, Vec::new()));
    assert!(decode(Arch::Gfx1100, &bytes("055380be")).is_err(), "gfx1100 has no such operation");
}

#[test]
fn every_pattern_decodes_to_its_operation() {
    for arch in Arch::ALL {
        assert_eq!(unreachable(arch), [], "{arch:?}: encodings that cannot be reached");
    }
}

/// Bits that are set in operands to reach an encoding: none, so that they are registers 0; the marker of DPP8, which is part of one;
/// vector registers in eight bytes, for sources that can be nothing else.
const MARKERS: [u128; 4] = [0, 0xe9, 0xe9 << 32, 0x100 << 32 | 0x100 << 41 | 0x100 << 50];

/// Operations of encodings that no code decodes to.
fn unreachable(arch: Arch) -> Vec<Op> {
    for pattern in patterns(arch) {
        for &wave in arch.wave_sizes() {
            for marker in MARKERS {
                let code = (pattern.value | marker & !pattern.mask).to_le_bytes();
                if let Ok(inst) = decode_for(arch, wave, &code)
                    && (inst.op, inst.format) == (pattern.op, pattern.format)
                {
                    assert!(text(arch, inst, wave).starts_with(pattern.op.mnemonic()) || inst.dual.is_some());
                }
            }
        }
    }
    let decoded = |pattern: &belfry_isa::tables::Pattern| {
        arch.wave_sizes().iter().any(|&wave| {
            MARKERS.iter().any(|marker| {
                let code = (pattern.value | marker & !pattern.mask).to_le_bytes();
                decode_for(arch, wave, &code).is_ok_and(|inst| inst.op == pattern.op)
            })
        })
    };
    patterns(arch).filter(|pattern| !decoded(pattern)).map(|pattern| pattern.op).collect()
}

#[test]
fn forms_that_other_processors_of_the_family_have_are_not_decoded() {
    // gfx950 beside gfx942, gfx1151 beside gfx1100.
    for (arch, count, op) in [
        (Arch::Gfx942, 100.., Some(Op::V_BITOP3_B32)),
        (Arch::Gfx950, 2.., Some(Op::V_MFMA_F32_16X16X8_XF32)),
        (Arch::Gfx1100, 50.., Some(Op::S_ADD_F32)),
        (Arch::Gfx1151, 0.., None),
        (Arch::Gfx1201, 0.., None),
    ] {
        let own: Vec<Op> = patterns(arch).map(|pattern| pattern.op).collect();
        let foreign: Vec<_> = foreign_patterns(arch).filter(|pattern| !own.contains(&pattern.op)).collect();
        assert!(count.contains(&foreign.len()), "{arch:?}: {}", foreign.len());
        assert!(op.is_none_or(|op| foreign.iter().any(|pattern| pattern.op == op)), "{arch:?}: no {op:?}");
        for pattern in &foreign {
            for (&wave, marker) in arch.wave_sizes().iter().flat_map(|wave| MARKERS.map(|at| (wave, at))) {
                let code = (pattern.value | marker & !pattern.mask).to_le_bytes();
                let decoded = decode_for(arch, wave, &code).ok().filter(|inst| inst.op == pattern.op);
                assert_eq!(decoded, None, "{arch:?}");
            }
        }
    }
}

#[test]
fn truncated_code_says_how_much_is_missing() {
    // v_add_f32_e32 v0, 0x3f9d70a4, v1 without its literal.
    let error = decode(Arch::Gfx1100, &[0xff, 0x02, 0x00, 0x06]);
    assert_eq!(error, Err(DecodeError::Truncated { needed: 8, available: 4 }));
    // Half of a VOP3.
    let error = decode(Arch::Gfx1100, &[0x05, 0x00, 0x03, 0xd5]);
    assert_eq!(error, Err(DecodeError::Truncated { needed: 8, available: 4 }));
    assert_eq!(decode(Arch::Gfx1100, &[0x05]), Err(DecodeError::Truncated { needed: 4, available: 1 }));
    assert_eq!(decode(Arch::Gfx1100, &[]), Err(DecodeError::Truncated { needed: 4, available: 0 }));
}

#[test]
fn unknown_opcode_carries_encoding_and_bytes() {
    let code = [0xff, 0xff, 0xff, 0xcf, 0x78, 0x56, 0x34, 0x12];
    assert_eq!(
        decode(Arch::Gfx1100, &code),
        Err(DecodeError::UnknownOpcode { encoding: "reserved", word: 0xcfff_ffff, next: 0x1234_5678 })
    );
    let sop1 = 0xbe80_7f00u32.to_le_bytes();
    assert!(
        matches!(decode(Arch::Gfx1100, &sop1), Err(DecodeError::UnknownOpcode { encoding: "SOP1", .. })),
        "{:?}",
        decode(Arch::Gfx1100, &sop1)
    );
}

#[test]
fn dual_issue_is_refused_in_waves_of_64() {
    // v_dual_mov_b32 v0, 0 :: v_dual_mov_b32 v1, 0
    let code = bytes("8000 10ca 8000 0000".replace(' ', "").as_str());
    assert!(decode_for(Arch::Gfx1100, WaveSize::Wave32, &code).is_ok_and(|inst| inst.dual.is_some()));
    assert!(decode_for(Arch::Gfx1100, WaveSize::Wave64, &code).is_err());
}

#[test]
fn fields_of_no_operand_are_not_looked_at() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u128::from(seed) << 64 | u128::from(seed.rotate_left(32))
    };
    let mut checked = 0;
    for (arch, wave) in targets() {
        for pattern in patterns(arch) {
            let bits = noise() & !pattern.mask | pattern.value;
            let Ok(inst) = decode_for(arch, wave, &bits.to_le_bytes()) else { continue };
            let unused = unused_bits(arch, &inst);
            // Inline 0 in each source of VOP3, a literal there, and any.
            let zeros = 0x80 << 32 | 0x80 << 41 | 0x80 << 50;
            for fill in [0, u128::MAX, zeros, 0xff << 32 | 0xff << 41 | 0xff << 50, noise(), noise()] {
                let word = (bits & !unused | fill & unused).to_le_bytes();
                let length = usize::from(inst.size);
                assert_eq!(
                    decode_for(arch, wave, &word[..length.min(16)]),
                    Ok(inst),
                    "{arch:?} {wave:?} {bits:x} with {fill:x} in {unused:x}"
                );
            }
            checked += usize::from(unused != 0);
        }
    }
    assert!(checked > 3_000, "only {checked} instructions have such bits");
}

#[test]
fn listing_covers_the_code_and_names_branch_targets() {
    // s_branch 1; an undefined dword; s_endpgm; three stray bytes
    let code = bytes("0100a0bfffffffcf0000b0bfaabbcc");
    let lines: Vec<_> = disassemble(Arch::Gfx1100, WaveSize::Wave32, &code, 0x1000).collect();
    let texts: Vec<String> = lines.iter().map(belfry_isa::disasm::Line::text).collect();
    assert_eq!(texts, ["s_branch 1", ".long 0xcfffffff", "s_endpgm", ".long 0x00ccbbaa"]);
    assert_eq!(lines.iter().map(|line| line.address).collect::<Vec<_>>(), [0x1000, 0x1004, 0x1008, 0x100c]);
    assert_eq!(lines[0].target(), Some(0x1008));
    assert_eq!(lines[2].target(), None);
}

/// Every instruction set in waves of both sizes.
fn targets() -> impl Iterator<Item = (Arch, WaveSize)> {
    Arch::ALL.into_iter().flat_map(|arch| arch.wave_sizes().iter().map(move |&wave| (arch, wave)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_decode_or_say_why(code in proptest::collection::vec(any::<u8>(), 0..24)) {
        for (arch, wave) in targets() {
            if let Ok(inst) = decode_for(arch, wave, &code) {
                prop_assert!((4..=20).contains(&inst.size) && usize::from(inst.size) <= code.len());
                prop_assert!(inst.size % 4 == 0);
                prop_assert!(!text(arch, inst, wave).is_empty());
                // What follows the instruction does not change it.
                let alone = decode_for(arch, wave, &code[..usize::from(inst.size)]);
                prop_assert_eq!(alone.map(|inst| inst.op), Ok(inst.op));
            }
        }
    }

    #[test]
    fn any_operands_of_any_pattern_decode_without_panic(index in any::<prop::sample::Index>(), noise in any::<u128>()) {
        for (arch, wave) in targets() {
            let patterns: Vec<_> = patterns(arch).collect();
            let pattern = index.get(&patterns);
            let code = (noise & !pattern.mask | pattern.value).to_le_bytes();
            let total: usize = disassemble(arch, wave, &code, 0).map(|line| {
                let _ = line.text();
                line.words().len() * 4
            }).sum();
            prop_assert_eq!(total, 16);
        }
    }
}
