//! The part of the oracles that fits the gate. `cargo xtask isa verify` does more of each, and needs `llvm-mc`.

use belfry_isa_verify::{decode, programs, semantics};

#[test]
fn llvm_vectors_decode_and_encode() {
    let mut report = decode::Report::default();
    decode::vectors(include_str!("../../tests/data/llvm-gfx11.txt"), &mut report);
    decode::vectors(include_str!("../../tests/data/kernels.txt"), &mut report);
    assert!(report.encode.checked() > 10_000, "only {} instructions", report.encode.checked());
    assert_eq!(report.wrong(), 0, "{}\n{}", report.text, report.encode);
}

#[test]
fn what_decodes_encodes_to_the_same_bytes() {
    let mut report = decode::Report::default();
    decode::random_round_trip(400_000, 7, &mut report);
    assert!(report.encode.checked() > 100_000, "only {} instructions", report.encode.checked());
    assert_eq!(report.wrong(), 0, "{}", report.encode);
}

#[test]
fn every_operation_equals_the_reference_on_every_backend() {
    let report = semantics::run(3, 7, None);
    assert!(report.tally.checked() > 15_000, "only {} cases", report.tally.checked());
    assert_eq!(report.tally.wrong(), 0, "{report}");
    assert!(report.exceptions() > 2_000, "TRAPSTS of only {} cases", report.exceptions());
    assert_eq!(report.unchecked(), [""; 0]);
    assert_eq!(report.faulted, report.absent, "operations without semantics fault by name");
}

#[test]
fn random_programs_equal_the_reference_on_every_backend() {
    let report = programs::run(150, 7);
    assert!(report.compared > 100, "{report}");
    assert!(report.wrong.is_empty(), "{report}");
}
