//! Sixteen singles at once, by code without branches: rare cases are done again by the definition.

/// Sixteen results: those of `usual` for numbers and the terms of their parts, which says whether it has one, or of the definition.
///
/// Terms are fetched one after the other, so that everything else is done side by side.
#[inline(always)]
pub(super) fn sixteen<const N: usize, T: Copy + Default>(
    (a, r): (&[u32; 16], &mut [u32; 16]),
    (terms, part): (&[[T; N]], impl Fn(u32) -> usize),
    usual: impl Fn(u32, [T; N]) -> (u32, bool),
    definition: impl Fn(u32) -> u32,
) {
    let mut columns = [[T::default(); 16]; N];
    for lane in 0..16 {
        let row = terms.get(part(a[lane])).copied().unwrap_or([T::default(); N]);
        for (column, term) in columns.iter_mut().zip(row) {
            column[lane] = term;
        }
    }
    let mut again = [0; 16];
    for lane in 0..16 {
        let (bits, is_usual) = usual(a[lane], core::array::from_fn(|n| columns[n][lane]));
        r[lane] = bits;
        again[lane] = u32::from(!is_usual);
    }
    if again.iter().fold(0, |any, lane| any | lane) != 0 {
        for (lane, _) in again.iter().enumerate().filter(|(_, again)| **again != 0) {
            r[lane] = definition(a[lane]);
        }
    }
}

/// The digest that stands for a capture of many results: FNV-1a, a word at a time.
#[cfg(test)]
pub(super) fn digest(results: impl Iterator<Item = u32>) -> u64 {
    let step = |sum: u64, word: u32| (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
    results.fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::super::op::VectorOp;
    use super::super::trans;

    /// Every step-th single, and what is next to bounds.
    fn singles() -> impl Iterator<Item = [u32; 16]> {
        let special = [1.0_f32, 0.5, 0.25, 0.125, 2.0, 127.0, -125.0, 128.0, -126.0, 3.75, 1e9, 5e-39];
        let near = special
            .into_iter()
            .map(|x| core::array::from_fn(|n| x.to_bits().wrapping_add(n as u32).wrapping_sub(8)));
        let all =
            (0..1 << 16).map(|n: u32| core::array::from_fn(|lane| (n * 16 + lane as u32).wrapping_mul(4099)));
        near.chain(all)
    }

    fn same<O: VectorOp<A = u32, D = u32, B = u32, C = u32>>() {
        for a in singles() {
            let mut r = [0; 16];
            O::sixteen(&a, &[0; 16], &[0; 16], &mut r);
            for (a, r) in a.into_iter().zip(r) {
                let expected = O::scalar(a, 0, 0);
                assert_eq!(r, expected, "of {:e} ({a:#x})", f32::from_bits(a));
            }
        }
    }

    #[test]
    fn sixteen_lanes_are_as_each_alone() {
        same::<trans::V_SQRT_F32>();
        same::<trans::V_EXP_F32>();
        same::<trans::V_LOG_F32>();
        same::<trans::V_SIN_F32>();
        same::<trans::V_COS_F32>();
    }
}
