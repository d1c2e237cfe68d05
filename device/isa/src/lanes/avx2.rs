//! Lanes in pairs of AVX2 registers.

#![expect(
    unsafe_code,
    reason = "vector intrinsics; only reachable through a `Backend` that proves the host has them"
)]

use core::arch::x86_64::*;
use core::sync::atomic::{Ordering, compiler_fence};

use super::Chunk;
use super::{BackendKind, Lanes, each_selected_bytes};

/// Two 256-bit registers.
#[derive(Debug)]
pub(crate) struct Avx2;

type V = [__m256i; 2];

/// Calls intrinsics of this backend.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: `Lanes` is only reached from handlers a `Backend` selected, which proves the host has AVX2, FMA and F16C;
        // memory operands are references to aligned chunks.
        unsafe { $call }
    }};
}

#[inline(always)]
fn float(value: __m256i) -> __m256 {
    intrinsic!(_mm256_castsi256_ps(value))
}

#[inline(always)]
fn int(value: __m256) -> __m256i {
    intrinsic!(_mm256_castps_si256(value))
}

#[inline(always)]
fn bits(low: __m256, high: __m256) -> u16 {
    let (low, high) = intrinsic!((_mm256_movemask_ps(low), _mm256_movemask_ps(high)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "eight bits each")]
    let bits = (low | high << 8) as u16;
    bits
}

/// The low halves of eight words as singles, and the high ones.
#[inline(always)]
fn wide(words: __m256i) -> [__m256i; 2] {
    intrinsic!({
        let pairs = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        let parts = _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(pairs));
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(parts);
        [
            int(_mm256_cvtph_ps(_mm256_castsi256_si128(sorted))),
            int(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(sorted))),
        ]
    })
}

/// Eight singles as halves, in the low ones of words.
#[inline(always)]
fn narrow(words: __m256i) -> __m256i {
    intrinsic!(_mm256_cvtepu16_epi32(_mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(float(words))))
}

/// The high words of eight products.
#[inline(always)]
fn high_products(a: __m256i, b: __m256i) -> __m256i {
    intrinsic!({
        let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(a, b));
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
        _mm256_blend_epi32::<0b1010_1010>(even, odd)
    })
}

/// The bytes that `select` names, and whether signs are among them, which are not done here.
#[inline(always)]
fn bytes_of(a: __m256i, b: __m256i, select: __m256i) -> (__m256i, bool) {
    intrinsic!({
        let words = _mm256_set_epi32(
            0x0c0c_0c0c,
            0x0808_0808,
            0x0404_0404,
            0,
            0x0c0c_0c0c,
            0x0808_0808,
            0x0404_0404,
            0,
        );
        let place = _mm256_add_epi8(_mm256_and_si256(select, _mm256_set1_epi8(3)), words);
        // Bit 2 of each byte to bit 7, which is all that a blend looks at.
        let from_a = _mm256_slli_epi16::<5>(select);
        let byte = _mm256_blendv_epi8(_mm256_shuffle_epi8(b, place), _mm256_shuffle_epi8(a, place), from_a);
        let constant = _mm256_cmpeq_epi8(_mm256_max_epu8(select, _mm256_set1_epi8(12)), select);
        let ones = _mm256_cmpeq_epi8(_mm256_max_epu8(select, _mm256_set1_epi8(13)), select);
        let unusual = _mm256_cmpeq_epi8(_mm256_max_epu8(select, _mm256_set1_epi8(8)), select);
        let signs = _mm256_andnot_si256(constant, unusual);
        (_mm256_or_si256(_mm256_andnot_si256(constant, byte), ones), _mm256_testz_si256(signs, signs) == 0)
    })
}

/// All ones in the lanes of `mask`.
#[inline(always)]
fn expand(mask: u16) -> V {
    intrinsic!({
        let all = _mm256_set1_epi32(i32::from(mask));
        let low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let high = _mm256_slli_epi32::<8>(low);
        [
            _mm256_cmpeq_epi32(_mm256_and_si256(all, low), low),
            _mm256_cmpeq_epi32(_mm256_and_si256(all, high), high),
        ]
    })
}

impl Lanes for Avx2 {
    type V = V;
    const KIND: BackendKind = BackendKind::Avx2;

    #[inline(always)]
    fn load(chunk: &Chunk) -> V {
        intrinsic!([
            _mm256_load_si256(chunk.0.as_ptr().cast()),
            _mm256_load_si256(chunk.0[8..].as_ptr().cast())
        ])
    }
    #[inline(always)]
    fn store(chunk: &mut Chunk, value: V) {
        intrinsic!({
            _mm256_store_si256(chunk.0.as_mut_ptr().cast(), value[0]);
            _mm256_store_si256(chunk.0[8..].as_mut_ptr().cast(), value[1]);
        });
    }
    #[inline(always)]
    fn store_mask(chunk: &mut Chunk, value: V, mask: u16) {
        let old = Self::load(chunk);
        Self::store(chunk, Self::select(mask, value, old));
    }
    #[inline(always)]
    fn splat(value: u32) -> V {
        [intrinsic!(_mm256_set1_epi32(value.cast_signed())); 2]
    }
    #[inline(always)]
    unsafe fn load_from(at: *const u8) -> V {
        // SAFETY: the caller's promise about memory, a `Backend`'s about instructions.
        let high = unsafe { _mm256_loadu_si256(at.wrapping_add(32).cast()) };
        compiler_fence(Ordering::Acquire);
        // SAFETY: as above.
        [unsafe { _mm256_loadu_si256(at.cast()) }, high]
    }
    #[inline(always)]
    unsafe fn store_to(at: *mut u8, value: V) {
        // SAFETY: as in `load_from`.
        unsafe { _mm256_storeu_si256(at.cast(), value[0]) };
        compiler_fence(Ordering::Release);
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(at.wrapping_add(32).cast(), value[1]) };
    }
    #[inline(always)]
    fn add(a: V, b: V) -> V {
        intrinsic!([_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn sub(a: V, b: V) -> V {
        intrinsic!([_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn mul(a: V, b: V) -> V {
        intrinsic!([_mm256_mullo_epi32(a[0], b[0]), _mm256_mullo_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn pick(table: &[u32; 32], at: V) -> V {
        intrinsic!({
            let all = _mm256_set1_epi32(31);
            let table = table.as_ptr().cast();
            [
                _mm256_i32gather_epi32::<4>(table, _mm256_and_si256(at[0], all)),
                _mm256_i32gather_epi32::<4>(table, _mm256_and_si256(at[1], all)),
            ]
        })
    }
    #[inline(always)]
    fn mul_high(a: V, b: V) -> V {
        [high_products(a[0], b[0]), high_products(a[1], b[1])]
    }
    #[inline(always)]
    fn select_bytes(a: V, b: V, select: V) -> V {
        let (first, second) = (bytes_of(a[0], b[0], select[0]), bytes_of(a[1], b[1], select[1]));
        if first.1 | second.1 {
            return each_selected_bytes::<Self>(a, b, select);
        }
        [first.0, second.0]
    }
    #[inline(always)]
    fn and(a: V, b: V) -> V {
        intrinsic!([_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn or(a: V, b: V) -> V {
        intrinsic!([_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn xor(a: V, b: V) -> V {
        intrinsic!([_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn shl(a: V, count: V) -> V {
        intrinsic!({
            let low = _mm256_set1_epi32(31);
            [
                _mm256_sllv_epi32(a[0], _mm256_and_si256(count[0], low)),
                _mm256_sllv_epi32(a[1], _mm256_and_si256(count[1], low)),
            ]
        })
    }
    #[inline(always)]
    fn shr(a: V, count: V) -> V {
        intrinsic!({
            let low = _mm256_set1_epi32(31);
            [
                _mm256_srlv_epi32(a[0], _mm256_and_si256(count[0], low)),
                _mm256_srlv_epi32(a[1], _mm256_and_si256(count[1], low)),
            ]
        })
    }
    #[inline(always)]
    fn sar(a: V, count: V) -> V {
        intrinsic!({
            let low = _mm256_set1_epi32(31);
            [
                _mm256_srav_epi32(a[0], _mm256_and_si256(count[0], low)),
                _mm256_srav_epi32(a[1], _mm256_and_si256(count[1], low)),
            ]
        })
    }
    #[inline(always)]
    fn min_u(a: V, b: V) -> V {
        intrinsic!([_mm256_min_epu32(a[0], b[0]), _mm256_min_epu32(a[1], b[1])])
    }
    #[inline(always)]
    fn max_u(a: V, b: V) -> V {
        intrinsic!([_mm256_max_epu32(a[0], b[0]), _mm256_max_epu32(a[1], b[1])])
    }
    #[inline(always)]
    fn min_i(a: V, b: V) -> V {
        intrinsic!([_mm256_min_epi32(a[0], b[0]), _mm256_min_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn max_i(a: V, b: V) -> V {
        intrinsic!([_mm256_max_epi32(a[0], b[0]), _mm256_max_epi32(a[1], b[1])])
    }
    #[inline(always)]
    fn fadd(a: V, b: V) -> V {
        intrinsic!([
            int(_mm256_add_ps(float(a[0]), float(b[0]))),
            int(_mm256_add_ps(float(a[1]), float(b[1])))
        ])
    }
    #[inline(always)]
    fn fsub(a: V, b: V) -> V {
        intrinsic!([
            int(_mm256_sub_ps(float(a[0]), float(b[0]))),
            int(_mm256_sub_ps(float(a[1]), float(b[1])))
        ])
    }
    #[inline(always)]
    fn fmul(a: V, b: V) -> V {
        intrinsic!([
            int(_mm256_mul_ps(float(a[0]), float(b[0]))),
            int(_mm256_mul_ps(float(a[1]), float(b[1])))
        ])
    }
    #[inline(always)]
    fn fma(a: V, b: V, c: V) -> V {
        intrinsic!([
            int(_mm256_fmadd_ps(float(a[0]), float(b[0]), float(c[0]))),
            int(_mm256_fmadd_ps(float(a[1]), float(b[1]), float(c[1])))
        ])
    }
    #[inline(always)]
    fn max_bytes(a: V, b: V) -> V {
        intrinsic!([_mm256_max_epu8(a[0], b[0]), _mm256_max_epu8(a[1], b[1])])
    }
    #[inline(always)]
    fn dot_halves(a: V, b: V) -> V {
        intrinsic!([_mm256_madd_epi16(a[0], b[0]), _mm256_madd_epi16(a[1], b[1])])
    }
    #[inline(always)]
    fn max_halves(a: V, b: V) -> V {
        intrinsic!([_mm256_max_epu16(a[0], b[0]), _mm256_max_epu16(a[1], b[1])])
    }
    #[inline(always)]
    fn min_halves(a: V, b: V) -> V {
        intrinsic!([_mm256_min_epu16(a[0], b[0]), _mm256_min_epu16(a[1], b[1])])
    }
    #[inline(always)]
    fn byte_everywhere<const N: u32>(a: V) -> V {
        intrinsic!({
            let words = _mm256_set_epi32(12, 8, 4, 0, 12, 8, 4, 0);
            let bytes = _mm256_mullo_epi32(
                _mm256_add_epi32(words, _mm256_set1_epi32(N.cast_signed())),
                _mm256_set1_epi32(0x0101_0101),
            );
            [_mm256_shuffle_epi8(a[0], bytes), _mm256_shuffle_epi8(a[1], bytes)]
        })
    }
    #[inline(always)]
    fn wide_halves(a: V) -> Option<[V; 2]> {
        let (first, second) = (wide(a[0]), wide(a[1]));
        Some([[first[0], second[0]], [first[1], second[1]]])
    }
    #[inline(always)]
    fn narrow_halves(a: V) -> Option<V> {
        Some([narrow(a[0]), narrow(a[1])])
    }
    #[inline(always)]
    fn low_bytes(a: V) -> [u32; 4] {
        let mut words = [0; 4];
        intrinsic!({
            let bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
            ));
            let place = _mm256_setr_epi32(0, 4, 1, 1, 1, 1, 1, 1);
            let low = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(a[0], bytes), place);
            let high = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(a[1], bytes), place);
            let all = _mm256_unpacklo_epi64(low, high);
            _mm_storeu_si128(words.as_mut_ptr().cast(), _mm256_castsi256_si128(all));
        });
        words
    }
    #[inline(always)]
    fn low_bytes_of_halves(a: V) -> [[u32; 4]; 2] {
        let mut words = [[0; 4]; 2];
        intrinsic!({
            let bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 4, 8, 12, 2, 6, 10, 14, -1, -1, -1, -1, -1, -1, -1, -1,
            ));
            // Of each half of the register: words of the low halves of `a`, from both registers, then those of the high ones.
            let both =
                _mm256_unpacklo_epi32(_mm256_shuffle_epi8(a[0], bytes), _mm256_shuffle_epi8(a[1], bytes));
            let sorted = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            _mm256_storeu_si256(words.as_mut_ptr().cast(), sorted);
        });
        words
    }
    #[inline(always)]
    fn truncated(a: V) -> V {
        intrinsic!([_mm256_cvttps_epi32(float(a[0])), _mm256_cvttps_epi32(float(a[1]))])
    }
    #[inline(always)]
    fn floored(a: V) -> V {
        intrinsic!([
            _mm256_cvtps_epi32(_mm256_floor_ps(float(a[0]))),
            _mm256_cvtps_epi32(_mm256_floor_ps(float(a[1])))
        ])
    }
    #[inline(always)]
    fn numbers(a: V) -> V {
        intrinsic!([int(_mm256_cvtepi32_ps(a[0])), int(_mm256_cvtepi32_ps(a[1]))])
    }
    #[inline(always)]
    fn select(mask: u16, a: V, b: V) -> V {
        let mask = expand(mask);
        intrinsic!([_mm256_blendv_epi8(b[0], a[0], mask[0]), _mm256_blendv_epi8(b[1], a[1], mask[1])])
    }
    #[inline(always)]
    fn lt_u(a: V, b: V) -> u16 {
        // a >= b where the maximum is a.
        !Self::eq(Self::max_u(a, b), a)
    }
    #[inline(always)]
    fn eq(a: V, b: V) -> u16 {
        intrinsic!(bits(float(_mm256_cmpeq_epi32(a[0], b[0])), float(_mm256_cmpeq_epi32(a[1], b[1]))))
    }
    #[inline(always)]
    fn lt_i(a: V, b: V) -> u16 {
        intrinsic!(bits(float(_mm256_cmpgt_epi32(b[0], a[0])), float(_mm256_cmpgt_epi32(b[1], a[1]))))
    }
    #[inline(always)]
    fn feq(a: V, b: V) -> u16 {
        intrinsic!(bits(
            _mm256_cmp_ps::<_CMP_EQ_OQ>(float(a[0]), float(b[0])),
            _mm256_cmp_ps::<_CMP_EQ_OQ>(float(a[1]), float(b[1]))
        ))
    }
    #[inline(always)]
    fn flt(a: V, b: V) -> u16 {
        intrinsic!(bits(
            _mm256_cmp_ps::<_CMP_LT_OQ>(float(a[0]), float(b[0])),
            _mm256_cmp_ps::<_CMP_LT_OQ>(float(a[1]), float(b[1]))
        ))
    }
    #[inline(always)]
    fn unordered(a: V, b: V) -> u16 {
        intrinsic!(bits(
            _mm256_cmp_ps::<_CMP_UNORD_Q>(float(a[0]), float(b[0])),
            _mm256_cmp_ps::<_CMP_UNORD_Q>(float(a[1]), float(b[1]))
        ))
    }
}
