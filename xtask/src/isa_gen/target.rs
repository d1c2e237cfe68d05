//! The processors whose tables are generated.

/// A processor, and where its tables go.
#[derive(Debug)]
pub(crate) struct Target {
    /// LLVM's name of it.
    pub(crate) processor: &'static str,
    /// The file of its tables, without extension. In capitals it is the name of the tables, and of the encoding family.
    pub(crate) file: &'static str,
    /// Decoder tables LLVM's disassembler searches for it, in its order, with the length in bytes of each.
    pub(crate) namespaces: &'static [(u64, &'static str)],
    /// Syntax of cache policies.
    pub(crate) cache_policy: CachePolicy,
    /// VOP3 has `OPSEL` for all operations of 16 bits.
    pub(crate) has_halves: bool,
    /// True if it has no waves of 32.
    pub(crate) only_waves_of_64: bool,
    /// LLVM has tests with its texts; tests of older processors hold as far as it has their instructions.
    pub(crate) has_own_tests: bool,
    /// First words of the names of LLVM's test files that hold code for it.
    pub(crate) vectors: &'static [&'static str],
    /// Operations that newer releases of LLVM describe.
    pub(crate) additions: &'static [Addition],
}

/// An operation that LLVM 19 does not describe.
#[derive(Debug)]
pub(crate) struct Addition {
    /// Its mnemonic.
    pub(crate) op: &'static str,
    /// The operation that it is encoded and written as.
    pub(crate) like: &'static str,
    /// Its bits where all operands are 0.
    pub(crate) value: u128,
}

/// `encoding::CachePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// `glc`, `slc`, `dlc`.
    Bits,
    /// `sc0`, `nt`, `sc1`.
    Scopes,
    /// `th:`, `scope:`.
    Hints,
}

/// All of them. In LLVM 19 those after GFX10 use the `FAKE16` forms, whose 16-bit operands have the names of whole registers.
pub(crate) static TARGETS: [Target; 3] = [
    Target {
        processor: "gfx942",
        file: "gfx9",
        namespaces: &[
            (8, "GFX9_DL"),
            (8, "GFX940"),
            (8, "GFX90A"),
            (8, "GFX8"),
            (8, "GFX9"),
            (4, "GFX8"),
            (4, "AMDGPU"),
            (4, "GFX9"),
            (4, "GFX90A"),
        ],
        cache_policy: CachePolicy::Scopes,
        has_halves: false,
        only_waves_of_64: true,
        has_own_tests: false,
        vectors: &["gfx9", "mai-gfx9", "flat-scratch-gfx9", "flat-gfx9"],
        additions: &[],
    },
    Target {
        processor: "gfx1100",
        file: "gfx11",
        namespaces: &[
            (12, "GFX11"),
            (12, "GFX11_FAKE16"),
            (8, "GFX11"),
            (8, "GFX11_FAKE16"),
            (8, "GFX11W64"),
            (4, "AMDGPU"),
            (4, "GFX11"),
            (4, "GFX11_FAKE16"),
        ],
        cache_policy: CachePolicy::Bits,
        has_halves: true,
        only_waves_of_64: false,
        has_own_tests: true,
        vectors: &["gfx11_"],
        additions: &[],
    },
    Target {
        processor: "gfx1201",
        file: "gfx12",
        namespaces: &[
            (12, "GFX12"),
            (12, "GFX12_FAKE16"),
            (12, "GFX12W64"),
            (8, "GFX12"),
            (8, "GFX12_FAKE16"),
            (8, "GFX12W64"),
            (4, "AMDGPU"),
            (4, "GFX12"),
            (4, "GFX12_FAKE16"),
        ],
        cache_policy: CachePolicy::Hints,
        has_halves: true,
        only_waves_of_64: false,
        has_own_tests: true,
        vectors: &["gfx12_"],
        // LLVM 21's `SOPInstructions.td`: a source of 32 bits and no destination, number 0x53.
        additions: &[Addition { op: "s_alloc_vgpr", like: "s_sleep_var", value: 0xbe80_5300 }],
    },
];

impl Target {
    /// The encoding family: `GFX11`.
    pub(crate) fn family(&self) -> String {
        self.file.to_uppercase()
    }
}
