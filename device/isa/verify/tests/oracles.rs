//! The part of the oracles that fits the gate. `cargo xtask isa verify` does more of each, and needs `llvm-mc`.

use belfry_isa::inst::Arch;
use belfry_isa_verify::{decode, programs, semantics};

/// How many sizes of waves there are to try.
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
