//! Lanes in AVX-512 registers.

#![expect(
    unsafe_code,
    reason = "vector intrinsics; only reachable through a `Backend` that proves the host has them"
)]

use core::arch::x86_64::*;

use super::Chunk;
use super::LDS_WRAP;
use super::{BackendKind, LDS_STORAGE, Lanes, each_selected_bytes};

/// One 512-bit register.
#[derive(Debug)]
pub(crate) struct Avx512;

type V = __m512i;

/// Calls intrinsics of this backend.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: `Lanes` is only reached from handlers a `Backend` selected, which proves the host has AVX-512; memory
        // operands are references to aligned chunks.
        unsafe { $call }
    }};
}

#[inline(always)]
fn float(value: V) -> __m512 {
    intrinsic!(_mm512_castsi512_ps(value))
}

#[inline(always)]
fn int(value: __m512) -> V {
    intrinsic!(_mm512_castps_si512(value))
}

impl Lanes for Avx512 {
    type V = V;
    const KIND: BackendKind = BackendKind::Avx512;

    #[inline(always)]
    fn load(chunk: &Chunk) -> V {
        intrinsic!(_mm512_load_si512((&raw const chunk.0).cast()))
    }
    #[inline(always)]
    fn store(chunk: &mut Chunk, value: V) {
        intrinsic!(_mm512_store_si512((&raw mut chunk.0).cast(), value));
    }
    #[inline(always)]
    fn store_mask(chunk: &mut Chunk, value: V, mask: u16) {
        intrinsic!(_mm512_mask_store_epi32((&raw mut chunk.0).cast(), mask, value));
    }
    #[inline(always)]
    fn splat(value: u32) -> V {
        intrinsic!(_mm512_set1_epi32(value.cast_signed()))
    }
    #[inline(always)]
    unsafe fn load_from(at: *const u8) -> V {
        // SAFETY: the caller's promise about memory, a `Backend`'s about instructions.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }
    #[inline(always)]
    unsafe fn store_to(at: *mut u8, value: V) {
        // SAFETY: as in `load_from`.
        unsafe { _mm512_storeu_si512(at.cast(), value) };
    }
    #[inline(always)]
    fn pick(table: &[u32; 32], at: V) -> V {
        intrinsic!({
            let low = _mm512_loadu_si512(table.as_ptr().cast());
            let high = _mm512_loadu_si512(table[16..].as_ptr().cast());
            _mm512_permutex2var_epi32(low, at, high)
        })
    }
    #[inline(always)]
    fn gather(memory: &[u8; LDS_STORAGE], at: V) -> V {
        // The mask keeps every word inside: the slack behind the last address is longer than one.
        let at = Self::and(at, Self::splat(LDS_WRAP - 1));
        intrinsic!(_mm512_i32gather_epi32::<1>(at, memory.as_ptr().cast()))
    }
    #[inline(always)]
    fn scatter(memory: &mut [u8; LDS_STORAGE], at: V, value: V, mask: u16) {
        let at = Self::and(at, Self::splat(LDS_WRAP - 1));
        intrinsic!(_mm512_mask_i32scatter_epi32::<1>(memory.as_mut_ptr().cast(), mask, at, value));
    }
    #[inline(always)]
    fn add(a: V, b: V) -> V {
        intrinsic!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub(a: V, b: V) -> V {
        intrinsic!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn mul(a: V, b: V) -> V {
        intrinsic!(_mm512_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn and(a: V, b: V) -> V {
        intrinsic!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(a: V, b: V) -> V {
        intrinsic!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn xor(a: V, b: V) -> V {
        intrinsic!(_mm512_xor_si512(a, b))
    }
    #[inline(always)]
    fn shl(a: V, count: V) -> V {
        intrinsic!(_mm512_sllv_epi32(a, _mm512_and_si512(count, _mm512_set1_epi32(31))))
    }
    #[inline(always)]
    fn shr(a: V, count: V) -> V {
        intrinsic!(_mm512_srlv_epi32(a, _mm512_and_si512(count, _mm512_set1_epi32(31))))
    }
    #[inline(always)]
    fn sar(a: V, count: V) -> V {
        intrinsic!(_mm512_srav_epi32(a, _mm512_and_si512(count, _mm512_set1_epi32(31))))
    }
    #[inline(always)]
    fn min_u(a: V, b: V) -> V {
        intrinsic!(_mm512_min_epu32(a, b))
    }
    #[inline(always)]
    fn max_u(a: V, b: V) -> V {
        intrinsic!(_mm512_max_epu32(a, b))
    }
    #[inline(always)]
    fn min_i(a: V, b: V) -> V {
        intrinsic!(_mm512_min_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(a: V, b: V) -> V {
        intrinsic!(_mm512_max_epi32(a, b))
    }
    #[inline(always)]
    fn fadd(a: V, b: V) -> V {
        intrinsic!(int(_mm512_add_ps(float(a), float(b))))
    }
    #[inline(always)]
    fn fsub(a: V, b: V) -> V {
        intrinsic!(int(_mm512_sub_ps(float(a), float(b))))
    }
    #[inline(always)]
    fn fmul(a: V, b: V) -> V {
        intrinsic!(int(_mm512_mul_ps(float(a), float(b))))
    }
    #[inline(always)]
    fn fma(a: V, b: V, c: V) -> V {
        intrinsic!(int(_mm512_fmadd_ps(float(a), float(b), float(c))))
    }
    #[inline(always)]
    fn max_bytes(a: V, b: V) -> V {
        intrinsic!(_mm512_max_epu8(a, b))
    }
    #[inline(always)]
    fn mul_high(a: V, b: V) -> V {
        intrinsic!({
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, b));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_blend_epi32(0xaaaa, even, odd)
        })
    }
    #[inline(always)]
    fn select_bytes(a: V, b: V, select: V) -> V {
        let (bytes, signs) = intrinsic!({
            let words = _mm512_broadcast_i32x4(_mm_set_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0));
            let place = _mm512_add_epi8(_mm512_and_si512(select, _mm512_set1_epi8(3)), words);
            let from_a = _mm512_test_epi8_mask(select, _mm512_set1_epi8(4));
            let byte = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(b, place), from_a, a, place);
            let constant = _mm512_cmpge_epu8_mask(select, _mm512_set1_epi8(12));
            let ones = _mm512_cmpge_epu8_mask(select, _mm512_set1_epi8(13));
            let signs = _mm512_cmpge_epu8_mask(select, _mm512_set1_epi8(8)) & !constant;
            let byte = _mm512_maskz_mov_epi8(!constant, byte);
            (_mm512_mask_mov_epi8(byte, ones, _mm512_set1_epi8(-1)), signs)
        });
        if signs == 0 {
            return bytes;
        }
        each_selected_bytes::<Self>(a, b, select)
    }
    #[inline(always)]
    fn dot_halves(a: V, b: V) -> V {
        intrinsic!(_mm512_madd_epi16(a, b))
    }
    #[inline(always)]
    fn max_halves(a: V, b: V) -> V {
        intrinsic!(_mm512_max_epu16(a, b))
    }
    #[inline(always)]
    fn min_halves(a: V, b: V) -> V {
        intrinsic!(_mm512_min_epu16(a, b))
    }
    #[inline(always)]
    fn byte_everywhere<const N: u32>(a: V) -> V {
        intrinsic!({
            let words = _mm512_set_epi32(12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0);
            let bytes = _mm512_mullo_epi32(
                _mm512_add_epi32(words, _mm512_set1_epi32(N.cast_signed())),
                _mm512_set1_epi32(0x0101_0101),
            );
            _mm512_shuffle_epi8(a, bytes)
        })
    }
    #[inline(always)]
    fn wide_halves(a: V) -> Option<[V; 2]> {
        intrinsic!({
            // All low halves, then all high ones.
            let low = _mm512_setr_epi32(
                0x2_0000, 0x6_0004, 0xa_0008, 0xe_000c, 0x12_0010, 0x16_0014, 0x1a_0018, 0x1e_001c, 0, 0, 0,
                0, 0, 0, 0, 0,
            );
            let order = _mm512_inserti64x4::<1>(
                low,
                _mm256_add_epi32(_mm512_castsi512_si256(low), _mm256_set1_epi32(0x1_0001)),
            );
            let sorted = _mm512_permutexvar_epi16(order, a);
            Some([
                int(_mm512_cvtph_ps(_mm512_castsi512_si256(sorted))),
                int(_mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(sorted))),
            ])
        })
    }
    #[inline(always)]
    fn ordered_halves(a: &Chunk) -> Option<[V; 2]> {
        intrinsic!({
            let both = (&raw const a.0).cast::<__m256i>();
            Some([
                int(_mm512_cvtph_ps(_mm256_load_si256(both))),
                int(_mm512_cvtph_ps(_mm256_load_si256(both.add(1)))),
            ])
        })
    }
    #[inline(always)]
    fn narrow_halves(a: V) -> Option<V> {
        intrinsic!(Some(_mm512_cvtepu16_epi32(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(float(a)))))
    }
    #[inline(always)]
    fn low_bytes(a: V) -> [u32; 4] {
        let mut words = [0; 4];
        intrinsic!(_mm_storeu_si128(words.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(a)));
        words
    }
    #[inline(always)]
    fn truncated(a: V) -> V {
        intrinsic!(_mm512_cvttps_epi32(float(a)))
    }
    #[inline(always)]
    fn floored(a: V) -> V {
        intrinsic!(_mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(float(a)))
    }
    const ROUNDS: bool = true;
    #[inline(always)]
    fn floored_product(a: V, b: V) -> V {
        Self::floored(intrinsic!(int(_mm512_mul_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(
            float(a),
            float(b)
        ))))
    }
    #[inline(always)]
    fn larger_magnitude(a: V, b: V) -> V {
        // The larger absolute value, with the sign bit clear.
        intrinsic!(int(_mm512_range_ps::<0b1011>(float(a), float(b))))
    }
    #[inline(always)]
    fn half_exponents(a: V, base: u32) -> V {
        intrinsic!({
            let magnitude = _mm512_and_si512(a, _mm512_set1_epi16(0x7fff));
            let normal = _mm512_max_epu16(magnitude, _mm512_set1_epi16(0x0400));
            let field = _mm512_srli_epi16::<10>(normal);
            let numbers = _mm512_test_epi16_mask(magnitude, magnitude);
            _mm512_maskz_add_epi16(numbers, field, _mm512_set1_epi16(base as i16))
        })
    }
    #[inline(always)]
    fn low_bytes_of_halves(a: V) -> [[u32; 4]; 2] {
        let mut words = [[0; 4]; 2];
        intrinsic!({
            // Of each quarter the low bytes of its words, then those of their high halves; then the same of all quarters.
            let bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(
                0, 4, 8, 12, 2, 6, 10, 14, -1, -1, -1, -1, -1, -1, -1, -1,
            ));
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
            let sorted = _mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(a, bytes));
            _mm256_storeu_si256(words.as_mut_ptr().cast(), _mm512_castsi512_si256(sorted));
        });
        words
    }
    #[inline(always)]
    fn numbers(a: V) -> V {
        intrinsic!(int(_mm512_cvtepi32_ps(a)))
    }
    #[inline(always)]
    fn select(mask: u16, a: V, b: V) -> V {
        intrinsic!(_mm512_mask_blend_epi32(mask, b, a))
    }
    #[inline(always)]
    fn eq(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmpeq_epi32_mask(a, b))
    }
    #[inline(always)]
    fn lt_u(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmplt_epu32_mask(a, b))
    }
    #[inline(always)]
    fn lt_i(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmplt_epi32_mask(a, b))
    }
    #[inline(always)]
    fn feq(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(float(a), float(b)))
    }
    #[inline(always)]
    fn flt(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(float(a), float(b)))
    }
    #[inline(always)]
    fn unordered(a: V, b: V) -> u16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(float(a), float(b)))
    }
    #[inline(always)]
    fn deinterleave2(words: &[u32; 32]) -> [V; 2] {
        intrinsic!({
            let low = _mm512_loadu_si512(words.as_ptr().cast());
            let high = _mm512_loadu_si512(words[16..].as_ptr().cast());
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high)]
        })
    }
    #[inline(always)]
    fn deinterleave4(words: &[u32; 64]) -> [V; 4] {
        intrinsic!({
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            let a = _mm512_loadu_si512(words.as_ptr().cast());
            let b = _mm512_loadu_si512(words[16..].as_ptr().cast());
            let c = _mm512_loadu_si512(words[32..].as_ptr().cast());
            let d = _mm512_loadu_si512(words[48..].as_ptr().cast());
            // Words 0 and 2 of every quadruple, then words 1 and 3.
            let even_low = _mm512_permutex2var_epi32(a, even, b);
            let even_high = _mm512_permutex2var_epi32(c, even, d);
            let odd_low = _mm512_permutex2var_epi32(a, odd, b);
            let odd_high = _mm512_permutex2var_epi32(c, odd, d);
            [
                _mm512_permutex2var_epi32(even_low, even, even_high),
                _mm512_permutex2var_epi32(odd_low, even, odd_high),
                _mm512_permutex2var_epi32(even_low, odd, even_high),
                _mm512_permutex2var_epi32(odd_low, odd, odd_high),
            ]
        })
    }
    #[inline(always)]
    fn first_two_of_four(bytes: &[u8; 256]) -> [V; 2] {
        intrinsic!({
            // Pairs 0 and 1 of every 64 bytes, then the words of eight pairs each.
            let pairs = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
            let a = _mm512_loadu_si512(bytes.as_ptr().cast());
            let b = _mm512_loadu_si512(bytes[64..].as_ptr().cast());
            let c = _mm512_loadu_si512(bytes[128..].as_ptr().cast());
            let d = _mm512_loadu_si512(bytes[192..].as_ptr().cast());
            let low = _mm512_permutex2var_epi64(a, pairs, b);
            let high = _mm512_permutex2var_epi64(c, pairs, d);
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high)]
        })
    }
    #[inline(always)]
    fn interleave2(rows: [V; 2]) -> [u32; 32] {
        let low = interleaving(0);
        let high = interleaving(8);
        let mut words = [0; 32];
        intrinsic!({
            let first = _mm512_permutex2var_epi32(rows[0], low, rows[1]);
            let second = _mm512_permutex2var_epi32(rows[0], high, rows[1]);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), first);
            _mm512_storeu_si512(words[16..].as_mut_ptr().cast(), second);
        });
        words
    }
    #[inline(always)]
    fn interleave4(rows: [V; 4]) -> [u32; 64] {
        let (low, high) = (interleaving(0), interleaving(8));
        let mut words = [0; 64];
        intrinsic!({
            // Pairs of words 0 and 2, and of words 1 and 3, then those interleaved.
            let even_low = _mm512_permutex2var_epi32(rows[0], low, rows[2]);
            let even_high = _mm512_permutex2var_epi32(rows[0], high, rows[2]);
            let odd_low = _mm512_permutex2var_epi32(rows[1], low, rows[3]);
            let odd_high = _mm512_permutex2var_epi32(rows[1], high, rows[3]);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_permutex2var_epi32(even_low, low, odd_low));
            _mm512_storeu_si512(
                words[16..].as_mut_ptr().cast(),
                _mm512_permutex2var_epi32(even_low, high, odd_low),
            );
            _mm512_storeu_si512(
                words[32..].as_mut_ptr().cast(),
                _mm512_permutex2var_epi32(even_high, low, odd_high),
            );
            _mm512_storeu_si512(
                words[48..].as_mut_ptr().cast(),
                _mm512_permutex2var_epi32(even_high, high, odd_high),
            );
        });
        words
    }
}

/// Permutation that interleaves eight lanes from `first` of one register with the same lanes of a second.
#[inline(always)]
fn interleaving(first: i32) -> V {
    intrinsic!(_mm512_add_epi32(
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
        _mm512_set1_epi32(first)
    ))
}
