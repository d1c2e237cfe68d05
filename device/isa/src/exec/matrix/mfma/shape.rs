//! The matrix instructions of CDNA3 and CDNA4, and where their elements are.
//!
//! Sources: the layouts that AMD's matrix instruction calculator prints, LLVM `VOP3PInstructions.td` (mnemonics, sizes).

/// Type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Double,
    Single,
    /// A single that has only ten digits after the point.
    Xf32,
    Half,
    Brain,
    /// E4M3 without infinities and negative zero ("FNUZ").
    Fp8,
    /// E5M2 without infinities and negative zero.
    Bf8,
    /// E4M3 of OCP.
    E4m3,
    /// E5M2 of OCP.
    E5m2,
    /// A signed byte.
    Byte,
}

impl Element {
    pub(super) const fn bits(self) -> u32 {
        match self {
            Element::Double => 64,
            Element::Single | Element::Xf32 => 32,
            Element::Half | Element::Brain => 16,
            Element::Fp8 | Element::Bf8 | Element::E4m3 | Element::E5m2 | Element::Byte => 8,
        }
    }
}

/// Way in which an instruction calculates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Fused multiply-adds in the order of k.
    Chain,
    /// Sums of the products of this many k at a time, which are cut off; see [`fused`](super::fused).
    Groups(u32),
    /// As `Groups(16)`, with the sums of even and odd k apart.
    Halves,
    /// Exact integers that wrap.
    Integers,
}

/// A matrix instruction: D = A × B + C in some blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    name: &'static str,
    pub(super) a: Element,
    pub(super) b: Element,
    /// Rows of A, C and D.
    pub(super) m: u32,
    /// Columns of B, C and D.
    pub(super) n: u32,
    /// Columns of A and rows of B.
    pub(super) k: u32,
    pub(super) blocks: u32,
    /// A has two of each four elements of a row, and C is D.
    pub(super) sparse: bool,
}

impl Shape {
    /// Its mnemonic.
    #[cfg(test)]
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Elements of a row of A that are there.
    pub(super) const fn kept(&self) -> u32 {
        if self.sparse { self.k / 2 } else { self.k }
    }

    pub(super) const fn rule(&self) -> Rule {
        match self.a {
            Element::Double | Element::Single => Rule::Chain,
            Element::Xf32 => Rule::Groups(4),
            Element::Half | Element::Brain => Rule::Groups(if self.kept() < 8 { self.kept() } else { 8 }),
            Element::Fp8 | Element::Bf8 | Element::E4m3 | Element::E5m2 => Rule::Halves,
            Element::Byte => Rule::Integers,
        }
    }

    /// Returns true if the third source is an index, and not C.
    pub(crate) const fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Returns true if the elements are doubles, which have signs instead of lane patterns.
    pub(crate) const fn is_double(&self) -> bool {
        matches!(self.a, Element::Double)
    }

    /// Returns true if the instruction calculates with floats.
    pub(crate) const fn is_float(&self) -> bool {
        !matches!(self.a, Element::Byte)
    }

    /// Bits of an element of C and D.
    const fn sum_bits(&self) -> u32 {
        if self.is_double() { 64 } else { 32 }
    }

    /// Registers of A, B, and of C and D.
    pub(crate) const fn registers(&self) -> [u32; 3] {
        [
            self.m * self.kept() * self.blocks * self.a.bits() / 64 / 32,
            self.n * self.k * self.blocks * self.b.bits() / 64 / 32,
            self.m * self.n * self.blocks * self.sum_bits() / 64 / 32,
        ]
    }

    /// Elements of a row of `k` that a lane has, of a matrix with `lines` rows (of A) or columns (of B) in each block.
    pub(super) const fn in_lane(&self, lines: u32, k: u32) -> u32 {
        k * lines * self.blocks / 64
    }

    /// Returns the place of element `k` of line `line` of A or B, in a matrix as for [`Shape::in_lane`]: its number
    /// in the lane, and the lane.
    pub(super) const fn factor_place(
        &self,
        lines: u32,
        count: u32,
        block: u32,
        line: u32,
        k: u32,
    ) -> (u32, u32) {
        let own = self.in_lane(lines, count);
        (k % own, line + lines * (block + self.blocks * (k / own)))
    }

    /// Returns the place of element (i, j) of C or D: its number in the lane, and the lane.
    pub(super) const fn sum_place(&self, block: u32, i: u32, j: u32) -> (u32, u32) {
        if self.is_double() {
            // One row of all blocks after the other in sixteen lanes each, four of them in a register.
            return if self.blocks == 4 { (0, 16 * i + 4 * block + j) } else { (i / 4, 16 * (i % 4) + j) };
        }
        // Four rows are in four registers; the next four in further lanes, as long as there are any.
        let side = if self.n == 4 { 16 } else { 1 };
        let across = 64 / side / self.n;
        let down = self.m / (4 * across);
        let number = i % 4 + 4 * (i / (4 * across) + down * (block / side));
        (number, j + self.n * (i / 4 % across + across * (block % side)))
    }

    /// The block of A that block `block` is multiplied with: `cbsz` is the logarithm of how many use the same, which of them is
    /// `abid`. More than there are blocks are all of them.
    pub(super) const fn source_block(&self, block: u32, cbsz: u32, abid: u32) -> u32 {
        let shared = 1 << cbsz;
        let shared = if shared < self.blocks { shared } else { self.blocks };
        block / shared * shared + abid % shared
    }
}

/// The sixteen lanes of B that sixteen of the matrix are taken from, by the pattern `blgp`.
pub(super) const fn source_lanes(blgp: u32, sixteen: u32) -> u32 {
    match blgp {
        1 => sixteen % 2,
        2 => sixteen % 2 + 2,
        3 => (sixteen + 1) % 4,
        4..=7 => blgp - 4,
        _ => sixteen,
    }
}

const fn dense(name: &'static str, [a, b]: [Element; 2], [m, n, k]: [u32; 3], blocks: u32) -> Shape {
    Shape { name, a, b, m, n, k, blocks, sparse: false }
}

const fn sparse(name: &'static str, elements: [Element; 2], sizes: [u32; 3]) -> Shape {
    Shape { sparse: true, ..dense(name, elements, sizes, 1) }
}

const F64: [Element; 2] = [Element::Double; 2];
const F32: [Element; 2] = [Element::Single; 2];
const XF32: [Element; 2] = [Element::Xf32; 2];
const F16: [Element; 2] = [Element::Half; 2];
const BF16: [Element; 2] = [Element::Brain; 2];
const I8: [Element; 2] = [Element::Byte; 2];
const FP8_FP8: [Element; 2] = [Element::Fp8, Element::Fp8];
const FP8_BF8: [Element; 2] = [Element::Fp8, Element::Bf8];
const BF8_FP8: [Element; 2] = [Element::Bf8, Element::Fp8];
const BF8_BF8: [Element; 2] = [Element::Bf8, Element::Bf8];

/// The formats of OCP: each of A with each of B.
const OCP: [[Element; 2]; 4] = [
    [Element::E4m3, Element::E4m3],
    [Element::E4m3, Element::E5m2],
    [Element::E5m2, Element::E4m3],
    [Element::E5m2, Element::E5m2],
];

const LARGE_1: [u32; 3] = [32, 32, 1];
const LARGE_4: [u32; 3] = [32, 32, 4];
const LARGE_8: [u32; 3] = [32, 32, 8];
const LARGE_16: [u32; 3] = [32, 32, 16];
const LARGE_32: [u32; 3] = [32, 32, 32];
const LARGE_64: [u32; 3] = [32, 32, 64];
const SMALL_4: [u32; 3] = [16, 16, 4];
const SMALL_16: [u32; 3] = [16, 16, 16];
const SMALL_32: [u32; 3] = [16, 16, 32];
const SMALL_64: [u32; 3] = [16, 16, 64];
const SMALL_128: [u32; 3] = [16, 16, 128];
const TINY: [u32; 3] = [4, 4, 4];

/// All of them; the numbers of lowered instructions are places here.
pub(super) static SHAPES: [Shape; 82] = [
    dense("v_mfma_f32_32x32x1_2b_f32", F32, LARGE_1, 2),
    dense("v_mfma_f32_16x16x1_4b_f32", F32, [16, 16, 1], 4),
    dense("v_mfma_f32_4x4x1_16b_f32", F32, [4, 4, 1], 16),
    dense("v_mfma_f32_32x32x2_f32", F32, [32, 32, 2], 1),
    dense("v_mfma_f32_16x16x4_f32", F32, SMALL_4, 1),
    dense("v_mfma_f32_16x16x8_xf32", XF32, [16, 16, 8], 1),
    dense("v_mfma_f32_32x32x4_xf32", XF32, LARGE_4, 1),
    dense("v_mfma_f32_32x32x4_2b_f16", F16, LARGE_4, 2),
    dense("v_mfma_f32_16x16x4_4b_f16", F16, SMALL_4, 4),
    dense("v_mfma_f32_4x4x4_16b_f16", F16, TINY, 16),
    dense("v_mfma_f32_32x32x8_f16", F16, LARGE_8, 1),
    dense("v_mfma_f32_16x16x16_f16", F16, SMALL_16, 1),
    dense("v_mfma_f32_32x32x4_2b_bf16", BF16, LARGE_4, 2),
    dense("v_mfma_f32_16x16x4_4b_bf16", BF16, SMALL_4, 4),
    dense("v_mfma_f32_4x4x4_16b_bf16", BF16, TINY, 16),
    dense("v_mfma_f32_32x32x8_bf16", BF16, LARGE_8, 1),
    dense("v_mfma_f32_16x16x16_bf16", BF16, SMALL_16, 1),
    dense("v_mfma_i32_32x32x4_2b_i8", I8, LARGE_4, 2),
    dense("v_mfma_i32_16x16x4_4b_i8", I8, SMALL_4, 4),
    dense("v_mfma_i32_4x4x4_16b_i8", I8, TINY, 16),
    dense("v_mfma_i32_32x32x16_i8", I8, LARGE_16, 1),
    dense("v_mfma_i32_16x16x32_i8", I8, SMALL_32, 1),
    dense("v_mfma_f64_16x16x4_f64", F64, SMALL_4, 1),
    dense("v_mfma_f64_4x4x4_4b_f64", F64, TINY, 4),
    dense("v_mfma_f32_16x16x32_bf8_bf8", BF8_BF8, SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_bf8_fp8", BF8_FP8, SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_fp8_bf8", FP8_BF8, SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_fp8_fp8", FP8_FP8, SMALL_32, 1),
    dense("v_mfma_f32_32x32x16_bf8_bf8", BF8_BF8, LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_bf8_fp8", BF8_FP8, LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_fp8_bf8", FP8_BF8, LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_fp8_fp8", FP8_FP8, LARGE_16, 1),
    sparse("v_smfmac_f32_16x16x32_f16", F16, SMALL_32),
    sparse("v_smfmac_f32_32x32x16_f16", F16, LARGE_16),
    sparse("v_smfmac_f32_16x16x32_bf16", BF16, SMALL_32),
    sparse("v_smfmac_f32_32x32x16_bf16", BF16, LARGE_16),
    sparse("v_smfmac_i32_16x16x64_i8", I8, SMALL_64),
    sparse("v_smfmac_i32_32x32x32_i8", I8, LARGE_32),
    sparse("v_smfmac_f32_16x16x64_bf8_bf8", BF8_BF8, SMALL_64),
    sparse("v_smfmac_f32_16x16x64_bf8_fp8", BF8_FP8, SMALL_64),
    sparse("v_smfmac_f32_16x16x64_fp8_bf8", FP8_BF8, SMALL_64),
    sparse("v_smfmac_f32_16x16x64_fp8_fp8", FP8_FP8, SMALL_64),
    sparse("v_smfmac_f32_32x32x32_bf8_bf8", BF8_BF8, LARGE_32),
    sparse("v_smfmac_f32_32x32x32_bf8_fp8", BF8_FP8, LARGE_32),
    sparse("v_smfmac_f32_32x32x32_fp8_bf8", FP8_BF8, LARGE_32),
    sparse("v_smfmac_f32_32x32x32_fp8_fp8", FP8_FP8, LARGE_32),
    // Those of CDNA4 alone.
    dense("v_mfma_f32_16x16x32_f16", F16, SMALL_32, 1),
    dense("v_mfma_f32_32x32x16_f16", F16, LARGE_16, 1),
    dense("v_mfma_f32_16x16x32_bf16", BF16, SMALL_32, 1),
    dense("v_mfma_f32_32x32x16_bf16", BF16, LARGE_16, 1),
    dense("v_mfma_i32_16x16x64_i8", I8, SMALL_64, 1),
    dense("v_mfma_i32_32x32x32_i8", I8, LARGE_32, 1),
    sparse("v_smfmac_f32_16x16x64_f16", F16, SMALL_64),
    sparse("v_smfmac_f32_32x32x32_f16", F16, LARGE_32),
    sparse("v_smfmac_f32_16x16x64_bf16", BF16, SMALL_64),
    sparse("v_smfmac_f32_32x32x32_bf16", BF16, LARGE_32),
    sparse("v_smfmac_i32_16x16x128_i8", I8, SMALL_128),
    sparse("v_smfmac_i32_32x32x64_i8", I8, LARGE_64),
    sparse("v_smfmac_f32_16x16x128_bf8_bf8", OCP[3], SMALL_128),
    sparse("v_smfmac_f32_16x16x128_bf8_fp8", OCP[2], SMALL_128),
    sparse("v_smfmac_f32_16x16x128_fp8_bf8", OCP[1], SMALL_128),
    sparse("v_smfmac_f32_16x16x128_fp8_fp8", OCP[0], SMALL_128),
    sparse("v_smfmac_f32_32x32x64_bf8_bf8", OCP[3], LARGE_64),
    sparse("v_smfmac_f32_32x32x64_bf8_fp8", OCP[2], LARGE_64),
    sparse("v_smfmac_f32_32x32x64_fp8_bf8", OCP[1], LARGE_64),
    sparse("v_smfmac_f32_32x32x64_fp8_fp8", OCP[0], LARGE_64),
    // Those of CDNA3 with the formats of OCP.
    dense("v_mfma_f32_16x16x32_bf8_bf8", OCP[3], SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_bf8_fp8", OCP[2], SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_fp8_bf8", OCP[1], SMALL_32, 1),
    dense("v_mfma_f32_16x16x32_fp8_fp8", OCP[0], SMALL_32, 1),
    dense("v_mfma_f32_32x32x16_bf8_bf8", OCP[3], LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_bf8_fp8", OCP[2], LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_fp8_bf8", OCP[1], LARGE_16, 1),
    dense("v_mfma_f32_32x32x16_fp8_fp8", OCP[0], LARGE_16, 1),
    sparse("v_smfmac_f32_16x16x64_bf8_bf8", OCP[3], SMALL_64),
    sparse("v_smfmac_f32_16x16x64_bf8_fp8", OCP[2], SMALL_64),
    sparse("v_smfmac_f32_16x16x64_fp8_bf8", OCP[1], SMALL_64),
    sparse("v_smfmac_f32_16x16x64_fp8_fp8", OCP[0], SMALL_64),
    sparse("v_smfmac_f32_32x32x32_bf8_bf8", OCP[3], LARGE_32),
    sparse("v_smfmac_f32_32x32x32_bf8_fp8", OCP[2], LARGE_32),
    sparse("v_smfmac_f32_32x32x32_fp8_bf8", OCP[1], LARGE_32),
    sparse("v_smfmac_f32_32x32x32_fp8_fp8", OCP[0], LARGE_32),
];

/// The shape of the operation with this mnemonic, and its number in lowered instructions, by the formats of 8-bit floats there are:
/// those of CDNA3 (`old_bytes`), or those of OCP.
pub(crate) fn named(mnemonic: &str, old_bytes: bool) -> Option<(u8, &'static Shape)> {
    let other = |shape: &Shape| match shape.a {
        Element::Fp8 | Element::Bf8 => !old_bytes,
        Element::E4m3 | Element::E5m2 => old_bytes,
        _ => false,
    };
    (0..).zip(&SHAPES).find(|(_, shape)| shape.name == mnemonic && !other(shape))
}
