//! Sixteen 32-bit lanes at a time, in three implementations chosen at run time.
//!
//! Handlers are generic over `Lanes` and instantiated once per [`Backend`], each inside a function compiled for that
//! backend's instructions. Everything that touches a lane mask is explicit here: compilers do not vectorise it well.

#![expect(unsafe_code, reason = "loads and stores of guest memory go through raw pointers")]

mod avx2;
mod avx512;
mod portable;
pub(crate) mod words;

pub(crate) use avx2::Avx2;
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

use words::{read_words, write_words};
use zerocopy::FromZeros;

/// Sixteen lanes of a vector register.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct Chunk(pub(crate) [u32; 16]);

/// Bytes of LDS a workgroup can have.
pub const MAX_LDS_SIZE: u32 = 160 << 10;

/// Addresses of LDS wrap here, a power of two, where nothing has checked them.
pub(crate) const LDS_WRAP: u32 = MAX_LDS_SIZE.next_power_of_two();

/// Bytes of storage of every LDS, for any size of it: a few more than addresses reach, for wide accesses at the last one. Memory
/// is used only where a workgroup writes.
pub(crate) const LDS_STORAGE: usize = LDS_WRAP as usize + 64;

/// Instructions the interpreter's handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// Instructions that the build targets on any architecture (SSE2 on x86-64).
    Portable,
    /// AVX2, FMA, F16C, BMI.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and everything of [`BackendKind::Avx2`].
    Avx512,
}

/// Code that is compiled to machine code instead of interpreted; for [`BackendKind::Portable`] there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Tier {
    /// None.
    Zero,
    /// All of it, before it is first used.
    One,
    /// Code that is used often.
    #[default]
    Auto,
}

impl Tier {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Tier); 3] = [("0", Tier::Zero), ("1", Tier::One), ("auto", Tier::Auto)];

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Tier> {
        Tier::ALL.iter().find(|(known, _)| *known == name).map(|&(_, tier)| tier)
    }
}

/// Way in which matrix instructions of 16-bit floats form their sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Matrices {
    /// Products exact, added one after the other with a rounding each.
    #[default]
    Fast,
    /// As cards do, where that is known; it takes many times as long.
    Exact,
}

impl Matrices {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Matrices); 2] = [("fast", Matrices::Fast), ("exact", Matrices::Exact)];

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Matrices> {
        Matrices::ALL.iter().find(|(known, _)| *known == name).map(|&(_, matrices)| matrices)
    }
}

impl core::fmt::Display for Matrices {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = Matrices::ALL.iter().find(|(_, matrices)| matrices == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl core::fmt::Display for Tier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = Tier::ALL.iter().find(|(_, tier)| tier == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

/// A [`BackendKind`] that this host is known to have, and the part of the code that is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    kind: BackendKind,
    tier: Tier,
    counts: bool,
    matrices: Matrices,
}

impl Backend {
    /// The fastest backend that this host has; code that is used often is compiled.
    pub fn detect() -> Self {
        let fastest = [BackendKind::Avx512, BackendKind::Avx2].into_iter().find_map(Self::force);
        fastest
            .unwrap_or(Backend {
                kind: BackendKind::Portable,
                tier: Tier::Zero,
                counts: false,
                matrices: Matrices::Fast,
            })
            .with_tier(Tier::Auto)
    }

    /// The one asked for, `None` when this host does not have it. It compiles nothing.
    pub fn force(kind: BackendKind) -> Option<Self> {
        supported(kind).then_some(Backend { kind, tier: Tier::Zero, counts: false, matrices: Matrices::Fast })
    }

    /// This backend, with another tier.
    #[must_use]
    pub fn with_tier(self, tier: Tier) -> Self {
        Backend { tier: if self.kind == BackendKind::Portable { Tier::Zero } else { tier }, ..self }
    }

    /// This backend, with compiled code that counts the elements that it executes, for
    /// [`SharedCode::take_times`](crate::exec::code_cache::SharedCode::take_times): such code is slower.
    #[must_use]
    pub fn counting(self) -> Self {
        Backend { counts: true, ..self }
    }

    /// This backend, with another way in which matrix instructions form their sums.
    #[must_use]
    pub fn with_matrices(self, matrices: Matrices) -> Self {
        Backend { matrices, ..self }
    }

    /// Returns true if sums of matrix instructions are those of cards.
    pub(crate) fn has_exact_matrices(self) -> bool {
        self.matrices == Matrices::Exact
    }

    /// Returns true if compiled code counts the elements that it executes.
    pub(crate) fn counts(self) -> bool {
        self.counts
    }

    /// Every backend this host has, those that compile nothing, slowest first, then those that compile everything.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = [BackendKind::Portable, BackendKind::Avx2, BackendKind::Avx512];
        let compiling = [BackendKind::Avx2, BackendKind::Avx512].into_iter().filter_map(Self::force);
        kinds.into_iter().filter_map(Self::force).chain(compiling.map(|backend| backend.with_tier(Tier::One)))
    }

    /// Returns the host instructions that the backend uses.
    pub fn kind(self) -> BackendKind {
        self.kind
    }

    /// Returns the tier: the part of the code that is compiled.
    pub fn tier(self) -> Tier {
        self.tier
    }
}

#[cfg(target_arch = "x86_64")]
fn supported(kind: BackendKind) -> bool {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt");
    match kind {
        BackendKind::Portable => true,
        BackendKind::Avx2 => avx2,
        BackendKind::Avx512 => {
            avx2 && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn supported(kind: BackendKind) -> bool {
    kind == BackendKind::Portable
}

/// For each byte of `select` a byte of `a`:`b` (0 to 7, `b` low), the sign of its byte 1, 3, 5 or 7 (8 to 11), 0 (12), or 0xff, as
/// `v_perm_b32` has it.
pub(crate) fn selected_bytes(a: u32, b: u32, select: u32) -> u32 {
    let all = u64::from(a) << 32 | u64::from(b);
    let byte = |select: u8| match select {
        0..=7 => (all >> (select * 8)) as u8,
        8..=11 if all >> (u32::from(select - 8) * 16 + 15) & 1 != 0 => 0xff,
        8..=12 => 0,
        _ => 0xff,
    };
    u32::from_le_bytes(select.to_le_bytes().map(byte))
}

/// [`selected_bytes`] of one lane after the other.
#[inline(always)]
fn each_selected_bytes<L: Lanes + ?Sized>(a: L::V, b: L::V, select: L::V) -> L::V {
    let (a, b, select) = (L::to_array(a), L::to_array(b), L::to_array(select));
    let mut words = [0; 16];
    for i in 0..16 {
        words[i] = selected_bytes(a[i], b[i], select[i]);
    }
    L::from_array(words)
}

/// Sixteen 32-bit lanes; masks have lane *n* in bit *n*.
///
/// An implementation's functions may only be reached from code compiled for its instructions and run on a host that
/// has them; [`Backend`] is the proof. Shift counts use their low five bits. Floating-point operations give the
/// hardware's results except for the payload of NaNs.
pub(crate) trait Lanes: 'static {
    /// The vector.
    type V: Copy;
    /// The backend this is for.
    const KIND: BackendKind;
    fn load(chunk: &Chunk) -> Self::V;
    fn store(chunk: &mut Chunk, value: Self::V);
    fn store_mask(chunk: &mut Chunk, value: Self::V, mask: u16);
    fn splat(value: u32) -> Self::V;
    /// Sixteen words at any alignment; those of eight aligned bytes are one access, and higher ones are read before lower ones.
    ///
    /// # Safety
    ///
    /// 64 bytes at `at` can be read; they may change meanwhile.
    #[inline(always)]
    unsafe fn load_from(at: *const u8) -> Self::V {
        // SAFETY: the caller's promise.
        Self::from_array(unsafe { read_words(at) })
    }
    /// Sixteen words at any alignment; as [`Lanes::load_from`], but lower ones are written before higher ones.
    ///
    /// # Safety
    ///
    /// 64 bytes at `at` can be written; others may read them meanwhile.
    #[inline(always)]
    unsafe fn store_to(at: *mut u8, value: Self::V) {
        // SAFETY: the caller's promise.
        unsafe { write_words(at, &Self::to_array(value)) };
    }
    /// Words of a table by their numbers, of which the low five bits count.
    #[inline(always)]
    fn pick(table: &[u32; 32], at: Self::V) -> Self::V {
        let mut words = Self::to_array(at);
        for word in &mut words {
            *word = table[*word as usize & 31];
        }
        Self::from_array(words)
    }
    /// The words at sixteen byte addresses of LDS, which wrap.
    #[inline(always)]
    fn gather(memory: &[u8; LDS_STORAGE], at: Self::V) -> Self::V {
        let mut words = Self::to_array(at);
        for word in &mut words {
            let start = (*word % LDS_WRAP) as usize;
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&memory[start..start + 4]);
            *word = u32::from_le_bytes(bytes);
        }
        Self::from_array(words)
    }
    /// Stores the words of `mask`, lowest lane first, at byte addresses of LDS, which wrap.
    #[inline(always)]
    fn scatter(memory: &mut [u8; LDS_STORAGE], at: Self::V, value: Self::V, mask: u16) {
        let (at, value) = (Self::to_array(at), Self::to_array(value));
        for i in 0..16 {
            if mask >> i & 1 != 0 {
                let start = (at[i] % LDS_WRAP) as usize;
                memory[start..start + 4].copy_from_slice(&value[i].to_le_bytes());
            }
        }
    }
    #[inline(always)]
    fn from_array(array: [u32; 16]) -> Self::V {
        Self::load(&Chunk(array))
    }
    #[inline(always)]
    fn to_array(value: Self::V) -> [u32; 16] {
        let mut chunk = Chunk([0; 16]);
        Self::store(&mut chunk, value);
        chunk.0
    }
    /// The high words of the products.
    #[inline(always)]
    fn mul_high(a: Self::V, b: Self::V) -> Self::V {
        let (a, b) = (Self::to_array(a), Self::to_array(b));
        let mut words = [0; 16];
        for i in 0..16 {
            words[i] = ((u64::from(a[i]) * u64::from(b[i])) >> 32) as u32;
        }
        Self::from_array(words)
    }
    /// The bytes that `select` names, as [`selected_bytes`] has it.
    #[inline(always)]
    fn select_bytes(a: Self::V, b: Self::V, select: Self::V) -> Self::V {
        each_selected_bytes::<Self>(a, b, select)
    }
    fn add(a: Self::V, b: Self::V) -> Self::V;
    fn sub(a: Self::V, b: Self::V) -> Self::V;
    fn mul(a: Self::V, b: Self::V) -> Self::V;
    fn and(a: Self::V, b: Self::V) -> Self::V;
    fn or(a: Self::V, b: Self::V) -> Self::V;
    fn xor(a: Self::V, b: Self::V) -> Self::V;
    fn shl(a: Self::V, count: Self::V) -> Self::V;
    fn shr(a: Self::V, count: Self::V) -> Self::V;
    fn sar(a: Self::V, count: Self::V) -> Self::V;
    fn min_u(a: Self::V, b: Self::V) -> Self::V;
    fn max_u(a: Self::V, b: Self::V) -> Self::V;
    fn min_i(a: Self::V, b: Self::V) -> Self::V;
    fn max_i(a: Self::V, b: Self::V) -> Self::V;
    fn fadd(a: Self::V, b: Self::V) -> Self::V;
    fn fsub(a: Self::V, b: Self::V) -> Self::V;
    fn fmul(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each byte of both.
    fn max_bytes(a: Self::V, b: Self::V) -> Self::V;
    /// The larger of each half of both.
    fn max_halves(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of each half of both.
    fn min_halves(a: Self::V, b: Self::V) -> Self::V;
    /// The sum of the products of both halves of each word, as signed integers.
    #[inline(always)]
    fn dot_halves(a: Self::V, b: Self::V) -> Self::V {
        let (a, b) = (Self::to_array(a), Self::to_array(b));
        let mut words = [0; 16];
        for i in 0..16 {
            let low = i32::from(a[i] as i16) * i32::from(b[i] as i16);
            let high = (a[i].cast_signed() >> 16) * (b[i].cast_signed() >> 16);
            words[i] = low.wrapping_add(high).cast_unsigned();
        }
        Self::from_array(words)
    }
    /// Byte `N` of each word four times.
    #[inline(always)]
    fn byte_everywhere<const N: u32>(a: Self::V) -> Self::V {
        let byte = Self::and(Self::shr(a, Self::splat(8 * N)), Self::splat(0xff));
        let twice = Self::or(byte, Self::shl(byte, Self::splat(8)));
        Self::or(twice, Self::shl(twice, Self::splat(16)))
    }
    /// The halves of each word as singles, if the backend has an instruction for that.
    #[inline(always)]
    fn wide_halves(_a: Self::V) -> Option<[Self::V; 2]> {
        None
    }
    /// The halves of a chunk as singles in their order, if the backend has an instruction for that.
    #[inline(always)]
    fn ordered_halves(_a: &Chunk) -> Option<[Self::V; 2]> {
        None
    }
    /// Singles rounded to halves, to nearest even, in the low halves of words, if the backend has an instruction for that.
    #[inline(always)]
    fn narrow_halves(_a: Self::V) -> Option<Self::V> {
        None
    }
    /// The low bytes of all words, four in each.
    #[inline(always)]
    fn low_bytes(a: Self::V) -> [u32; 4] {
        let bytes = Self::to_array(a);
        let mut words = [0; 4];
        for i in 0..4 {
            words[i] = bytes[4 * i] & 0xff
                | (bytes[4 * i + 1] & 0xff) << 8
                | (bytes[4 * i + 2] & 0xff) << 16
                | bytes[4 * i + 3] << 24;
        }
        words
    }
    /// As [`Lanes::low_bytes`], of the low halves of all words and of the high ones.
    #[inline(always)]
    fn low_bytes_of_halves(a: Self::V) -> [[u32; 4]; 2] {
        [Self::low_bytes(a), Self::low_bytes(Self::shr(a, Self::splat(16)))]
    }
    /// Numbers between -2^31 and 2^31 as integers, rounded towards zero; anything for others.
    fn truncated(a: Self::V) -> Self::V;
    /// As [`Lanes::truncated`], rounded towards minus infinity; for others, NaNs among them, the least or the largest integer.
    fn floored(a: Self::V) -> Self::V;
    /// True if [`Lanes::floored_product`] rounds products below the smallest number down, too.
    const ROUNDS: bool = false;
    /// The products rounded towards minus infinity, as [`Lanes::floored`] has it. Without [`Lanes::ROUNDS`] a product that is not
    /// exact has been rounded before.
    #[inline(always)]
    fn floored_product(a: Self::V, b: Self::V) -> Self::V {
        Self::floored(Self::fmul(a, b))
    }
    /// The larger magnitude of two numbers.
    #[inline(always)]
    fn larger_magnitude(a: Self::V, b: Self::V) -> Self::V {
        let magnitudes = Self::splat(i32::MAX.cast_unsigned());
        Self::max_u(Self::and(a, magnitudes), Self::and(b, magnitudes))
    }
    /// For each half, a half-precision number, the exponent's field, which is 1 for denormal numbers, plus `base`; 0
    /// for zeros. `base` is at least 64 and below 128.
    #[inline(always)]
    fn half_exponents(a: Self::V, base: u32) -> Self::V {
        let magnitude = Self::and(a, Self::splat(0x7fff_7fff));
        let one = Self::min_halves(magnitude, Self::splat(0x0001_0001));
        let field = Self::and(Self::shr(magnitude, Self::splat(10)), Self::splat(0x001f_001f));
        Self::add(Self::max_halves(field, one), Self::mul(one, Self::splat(base)))
    }
    /// Integers as numbers, rounded to nearest even.
    fn numbers(a: Self::V) -> Self::V;
    /// `a` in the lanes of `mask`, `b` elsewhere.
    fn select(mask: u16, a: Self::V, b: Self::V) -> Self::V;
    fn eq(a: Self::V, b: Self::V) -> u16;
    fn lt_u(a: Self::V, b: Self::V) -> u16;
    fn lt_i(a: Self::V, b: Self::V) -> u16;
    fn feq(a: Self::V, b: Self::V) -> u16;
    fn flt(a: Self::V, b: Self::V) -> u16;
    /// Lanes where either is NaN.
    fn unordered(a: Self::V, b: Self::V) -> u16;
    #[inline(always)]
    fn not(a: Self::V) -> Self::V {
        Self::xor(a, Self::splat(u32::MAX))
    }
    // The loops below use no closures: one would be compiled without the backend's instructions.

    /// Splits 16 pairs into their first and second words.
    #[inline(always)]
    fn deinterleave2(words: &[u32; 32]) -> [Self::V; 2] {
        let mut rows = [[0; 16]; 2];
        for i in 0..32 {
            rows[i & 1][i >> 1] = words[i];
        }
        [Self::from_array(rows[0]), Self::from_array(rows[1])]
    }
    /// Splits 16 quadruples into their first to fourth words.
    #[inline(always)]
    fn deinterleave4(words: &[u32; 64]) -> [Self::V; 4] {
        let mut rows = [[0; 16]; 4];
        for i in 0..64 {
            rows[i & 3][i >> 2] = words[i];
        }
        [
            Self::from_array(rows[0]),
            Self::from_array(rows[1]),
            Self::from_array(rows[2]),
            Self::from_array(rows[3]),
        ]
    }
    /// The first and second words of 16 little-endian quadruples.
    #[inline(always)]
    fn first_two_of_four(bytes: &[u8; 256]) -> [Self::V; 2] {
        let words = bytes.as_chunks::<4>().0;
        let mut rows = [[0; 16]; 2];
        for i in 0..16 {
            rows[0][i] = u32::from_le_bytes(words[i * 4]);
            rows[1][i] = u32::from_le_bytes(words[i * 4 + 1]);
        }
        [Self::from_array(rows[0]), Self::from_array(rows[1])]
    }
    /// The inverse of [`Lanes::deinterleave2`].
    #[inline(always)]
    fn interleave2(rows: [Self::V; 2]) -> [u32; 32] {
        let rows = [Self::to_array(rows[0]), Self::to_array(rows[1])];
        let mut words = [0; 32];
        for i in 0..32 {
            words[i] = rows[i & 1][i >> 1];
        }
        words
    }
    /// The inverse of [`Lanes::deinterleave4`].
    #[inline(always)]
    fn interleave4(rows: [Self::V; 4]) -> [u32; 64] {
        let rows = [
            Self::to_array(rows[0]),
            Self::to_array(rows[1]),
            Self::to_array(rows[2]),
            Self::to_array(rows[3]),
        ];
        let mut words = [0; 64];
        for i in 0..64 {
            words[i] = rows[i & 3][i >> 2];
        }
        words
    }
}
