//! Names of processors, and the processors that code for a kind of them runs on.

/// Processors by `EF_AMDGPU_MACH`, LLVM "User Guide for AMDGPU Backend", ELF header flags.
const MACHINES: &[(u32, &str)] = &[
    (0x02c, "gfx900"),
    (0x02f, "gfx906"),
    (0x030, "gfx908"),
    (0x033, "gfx1010"),
    (0x036, "gfx1030"),
    (0x03f, "gfx90a"),
    (0x040, "gfx940"),
    (0x041, "gfx1100"),
    (0x043, "gfx1150"),
    (0x044, "gfx1103"),
    (0x046, "gfx1101"),
    (0x047, "gfx1102"),
    (0x048, "gfx1200"),
    (0x04a, "gfx1151"),
    (0x04b, "gfx941"),
    (0x04c, "gfx942"),
    (0x04e, "gfx1201"),
    (0x04f, "gfx950"),
    (0x051, "gfx9-generic"),
    (0x052, "gfx10-1-generic"),
    (0x053, "gfx10-3-generic"),
    (0x054, "gfx11-generic"),
    (0x059, "gfx12-generic"),
    (0x05f, "gfx9-4-generic"),
];

/// Kinds of processors that this loader's GPUs are of, LLVM "User Guide for AMDGPU Backend", Generic processor table.
const KINDS: &[(&str, &[&str])] = &[
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx11-generic", &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
];

/// The name of the processor or kind with that number.
pub(super) fn name(mach: u32) -> Option<&'static str> {
    MACHINES.iter().find(|(number, _)| *number == mach).map(|(_, name)| *name)
}

/// Says whether code for `target`, a processor or a kind of processors, runs on `processor`.
#[must_use]
pub fn runs_on(target: &str, processor: &str) -> bool {
    let kind = KINDS.iter().find(|(kind, _)| *kind == target);
    target == processor || kind.is_some_and(|(_, processors)| processors.contains(&processor))
}
