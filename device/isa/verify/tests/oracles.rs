//! The part of the oracles that fits the gate. `cargo xtask isa verify` does more of each, and needs `llvm-mc`.

use std::collections::BTreeSet;

use belfry_isa::inst::Arch;
use belfry_isa_verify::{cards, decode, programs, semantics};

/// Returns the number of wave sizes to try.
fn sizes(arch: Arch) -> usize {
    arch.wave_sizes().len()
}

#[test]
fn llvm_vectors_decode_and_encode() {
    for arch in Arch::ALL {
        let mut report = decode::Report::new(arch);
        for vectors in decode::fixtures(arch) {
            decode::vectors(vectors, &mut report);
        }
        assert!(
            report.encode.checked() > 4_500 * sizes(arch),
            "{arch:?}: only {} instructions",
            report.encode.checked()
        );
        assert_eq!(report.wrong(), 0, "{arch:?}: {}\n{}", report.text, report.encode);
    }
}

/// Operations whose forms in VOP3 LLVM 23 does not assemble: written as the short ones, or with halves' names alone.
const WITHOUT_VECTOR: [&str; 4] = ["v_clrexcp", "v_mov_b16", "v_nop", "v_pipeflush"];

#[test]
fn vectors_of_llvm_23_have_every_operation() {
    for arch in Arch::ALL {
        let text = decode::newer::fixture(arch);
        let mut report = decode::Report::new(arch);
        decode::vectors(text, &mut report);
        assert_eq!(report.wrong(), 0, "{arch:?}: {}\n{}", report.text, report.encode);
        let there: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.split('\t').nth(2)?.split(' ').next())
            .map(|name| {
                let suffix = ["_e64_dpp", "_e64", "_e32", "_dpp", "_sdwa"].iter();
                suffix.fold(name, |name, suffix| name.strip_suffix(suffix).unwrap_or(name))
            })
            .collect();
        let missing: BTreeSet<&str> = decode::newer::forms(arch)
            .map(|(_, pattern)| pattern.op.mnemonic())
            .filter(|name| !there.contains(name) && !WITHOUT_VECTOR.contains(name))
            .collect();
        assert!(missing.is_empty(), "{arch:?}: {missing:?}");
        let unused = text.lines().filter(|line| line.split('\t').nth(1).is_some_and(fills_unused)).count();
        assert!(arch.is_gfx9() || unused > 400, "{arch:?}: only {unused} with 0x80 in a source field");
    }
}

/// Returns true if an instruction of eight bytes has the inline constant 0 for its third source.
fn fills_unused(hex: &str) -> bool {
    hex.len() >= 16
        && u32::from_str_radix(&hex[8..16], 16).is_ok_and(|word| word.swap_bytes() >> 18 & 0x1ff == 0x80)
}

#[test]
fn what_decodes_encodes_to_the_same_bytes() {
    for arch in Arch::ALL {
        let mut report = decode::Report::new(arch);
        decode::random_round_trip(400_000, 7, &mut report);
        assert!(
            report.encode.checked() > 50_000 * sizes(arch),
            "{arch:?}: only {} instructions",
            report.encode.checked()
        );
        assert_eq!(report.wrong(), 0, "{arch:?}: {}", report.encode);
    }
}

#[test]
fn every_operation_equals_the_reference_on_every_backend() {
    for arch in Arch::ALL {
        let report = semantics::run(arch, 3, 7, None);
        assert!(
            report.tally.checked() > 7_500 * sizes(arch),
            "{arch:?}: only {} cases",
            report.tally.checked()
        );
        assert_eq!(report.tally.wrong(), 0, "{arch:?}: {report}");
        assert!(
            report.exceptions() > 1_000 * sizes(arch),
            "{arch:?}: TRAPSTS of only {} cases",
            report.exceptions()
        );
        assert_eq!(report.unchecked(), [""; 0], "{arch:?}");
        assert_eq!(report.faulted, report.absent, "{arch:?}: operations without semantics fault by name");
    }
}

#[test]
fn random_programs_equal_the_reference_on_every_backend() {
    for arch in Arch::ALL {
        let report = programs::run(arch, 150, 7);
        assert!(report.compared > 100, "{arch:?}: {report}");
        assert!(report.wrong.is_empty(), "{arch:?}: {report}");
    }
}

#[test]
fn results_captured_on_cards_are_the_engines_on_every_backend() {
    for (arch, least) in [(Arch::Gfx942, 30), (Arch::Gfx1100, 40), (Arch::Gfx1201, 50)] {
        let report = cards::run(arch, true).unwrap();
        assert_eq!(report.tally.wrong(), 0, "{arch:?}: {report}");
        assert!(report.captured.len() >= least, "{arch:?}: {report}");
        assert!(report.tally.checked() > 1000, "{arch:?}: {report}");
    }
}

#[test]
fn name_that_no_operation_has_is_an_error() {
    assert!(semantics::has(Arch::Gfx942, "fixup"));
    assert!(!semantics::has(Arch::Gfx942, "sdwa"));
    let program = env!("CARGO_BIN_EXE_belfry-isa-verify");
    let output = std::process::Command::new(program)
        .args(["--only", "semantics", "--operation", "sdwa"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("no operation's mnemonic contains \"sdwa\""), "{text}");
}
