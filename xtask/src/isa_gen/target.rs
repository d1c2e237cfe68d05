//! The processors whose tables are generated.

/// A processor, and where the tables of its encoding family go.
#[derive(Debug)]
pub(crate) struct Target {
    /// LLVM's name of it: bit 0 of the mask of each form that it has.
    pub(crate) processor: &'static str,
    /// Other processors of the family, for the next bits.
    pub(crate) neighbours: &'static [&'static str],
    /// The file of its tables, without extension. In capitals it is the name of the tables, and of the encoding family.
    pub(crate) file: &'static str,
    /// Decoder tables LLVM's disassembler searches for it, in its order, with the length in bytes of each.
    pub(crate) namespaces: &'static [(u64, &'static str)],
    /// Syntax of cache policies.
    pub(crate) cache_policy: CachePolicy,
    /// VOP3 has `OPSEL` for operations of 16 bits whose forms have no operand for it.
    pub(crate) has_halves: bool,
    /// Dot products of integers choose halves of their factors by `OPSEL` and `OPSEL_HI`.
    pub(crate) dots_choose_halves: bool,
    /// True if memory instructions reach accumulation registers.
    pub(crate) has_accumulation_registers: bool,
    /// True if it has no waves of 32.
    pub(crate) only_waves_of_64: bool,
    /// Kernels are compiled for it here; else the committed objects are listed.
    pub(crate) is_compiled_for: bool,
    /// First words of the names of LLVM's test files that hold code for it, of which a sample is compared.
    pub(crate) vectors: &'static [&'static str],
    /// First words of the names of those that are taken whole.
    pub(crate) whole_vectors: &'static [&'static str],
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

/// RDNA 3 and 3.5.
const GFX11: Target = Target {
    processor: "gfx1100",
    neighbours: &["gfx1151"],
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
    has_halves: false,
    dots_choose_halves: true,
    has_accumulation_registers: false,
    only_waves_of_64: false,
    is_compiled_for: false,
    vectors: &["gfx11_"],
    whole_vectors: &[],
};

/// CDNA 3 and 4.
const GFX9: Target = Target {
    processor: "gfx942",
    neighbours: &["gfx950"],
    file: "gfx9",
    namespaces: &[
        (16, "GFX940"),
        (8, "GFX950"),
        (8, "GFX9_DL"),
        (8, "GFX940"),
        (8, "GFX90A"),
        (8, "GFX8"),
        (8, "GFX9"),
        (4, "GFX950"),
        (4, "GFX8"),
        (4, "AMDGPU"),
        (4, "GFX9"),
        (4, "GFX90A"),
    ],
    cache_policy: CachePolicy::Scopes,
    has_halves: false,
    dots_choose_halves: false,
    has_accumulation_registers: true,
    only_waves_of_64: true,
    is_compiled_for: true,
    vectors: &["gfx9", "mai-gfx9", "flat-scratch-gfx9", "flat-gfx9"],
    whole_vectors: &[],
};

/// All of them. gfx1201 uses the `FAKE16` forms, whose 16-bit operands have the names of whole registers.
pub(crate) static TARGETS: [Target; 3] = [
    GFX9,
    GFX11,
    Target {
        processor: "gfx1201",
        neighbours: &[],
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
        dots_choose_halves: true,
        has_accumulation_registers: false,
        only_waves_of_64: false,
        is_compiled_for: false,
        vectors: &["gfx12_"],
        whole_vectors: &[],
    },
];

/// Neighbours whose code is executed too, for texts that are compared: their encodings are in the tables of their family.
pub(crate) static EXECUTED_NEIGHBOURS: [Target; 2] = [
    Target {
        processor: "gfx950",
        neighbours: &[],
        file: "gfx950",
        whole_vectors: &["gfx950", "mai-gfx950"],
        // clang 19 does not know it.
        is_compiled_for: false,
        ..GFX9
    },
    Target {
        processor: "gfx1151",
        neighbours: &[],
        file: "gfx1151",
        whole_vectors: &["gfx1150_", "gfx1151_"],
        ..GFX11
    },
];

impl Target {
    /// The processors in the order of their bits.
    pub(crate) fn processors(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.processor).chain(self.neighbours.iter().copied())
    }

    /// The encoding family: `GFX11`.
    pub(crate) fn family(&self) -> String {
        self.file.to_uppercase()
    }
}
