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
    /// Cache policies are written as temporal hint and scope (`th:`, `scope:`).
    pub(crate) has_temporal_hints: bool,
}

/// All of them. In LLVM 19 both use the `FAKE16` forms, whose 16-bit operands have the names of whole registers.
pub(crate) static TARGETS: [Target; 2] = [
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
        has_temporal_hints: false,
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
        has_temporal_hints: true,
    },
];

impl Target {
    /// The encoding family: `GFX11`.
    pub(crate) fn family(&self) -> String {
        self.file.to_uppercase()
    }
}
