//! Loads and stores of one block whose lanes' elements lie alike: the addresses of one are those of the other and a distance, which is the
//! same for all lanes.
//!
//! Kernels that go through several arrays add one row of offsets to each array's address. If the elements of the
//! first access have been found to follow each other, so do those of the others, as sums of 64 bits with the same
//! number keep distances. So code looks once and keeps its finding in its frame.

use super::elements::bytes;
use super::{elements, template, touched};
use crate::exec::di::{Di, Kind};
use crate::exec::form::Form;
use crate::inst::Op;
use crate::registers::slot;

/// Number of findings that code can keep at a time.
pub(crate) const SLOTS: usize = 4;

/// An access to global memory beside others that lie alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    /// Slot that keeps whether elements follow each other.
    pub(crate) slot: usize,
    /// The first such access of the block: the one that finds out.
    pub(crate) first: bool,
}

/// Addresses that differ by a number which all lanes have in common are of one kind.
type Kin = usize;

/// A sum whose low half has been made.
struct Half {
    low: u32,
    /// The row that the high half is to be made of.
    high: u32,
    carries: u32,
    kin: Kin,
}

/// Addresses that rows are known to hold.
struct Rows {
    halves: u32,
    /// The first row of an address, whether its high half follows it, and its kind.
    addresses: Vec<(u32, bool, Kin)>,
    /// Kinds that are another one shifted.
    shifted: Vec<((Kin, u32), Kin)>,
    half: Option<Half>,
    kinds: usize,
}

/// The row of the only source of two that differs from lane to lane.
fn summand(d: &Di, a: usize, b: usize) -> Option<u32> {
    match [a, b].map(|n| (d.src[n].kind == Kind::Vector).then_some(d.src[n].value)) {
        [Some(row), None] | [None, Some(row)] => Some(row),
        _ => None,
    }
}

impl Rows {
    fn new_kind(&mut self) -> Kin {
        self.kinds += 1;
        self.kinds
    }

    fn kin(&mut self, row: u32, wide: bool) -> Kin {
        let found = self.addresses.iter().find(|(other, pair, _)| (*other, *pair) == (row, wide));
        if let Some(&(_, _, kin)) = found {
            return kin;
        }
        let kin = self.new_kind();
        self.addresses.push((row, wide, kin));
        kin
    }

    fn shifted(&mut self, kin: Kin, count: u32) -> Kin {
        if count == 0 {
            return kin;
        }
        if let Some(&(_, shifted)) = self.shifted.iter().find(|(of, _)| *of == (kin, count)) {
            return shifted;
        }
        let shifted = self.new_kind();
        self.shifted.push(((kin, count), shifted));
        shifted
    }

    /// The address that an element makes, as it is before it writes anything: its first row and its kind.
    fn made(&mut self, form: Form, d: &Di) -> Option<(u32, Kin)> {
        match form {
            Form::Carry(Op::V_ADD_CO_CI_U32) => {
                let half = self.half.as_ref()?;
                let goes_on = half.carries == d.imm
                    && summand(d, 0, 1) == Some(half.high)
                    && d.dst == half.low + self.halves;
                goes_on.then_some((half.low, half.kin))
            }
            Form::Vector(Op::V_LSHL_ADD_U64) => {
                let row = summand(d, 0, 2)?;
                let kin = self.kin(row, true);
                let count = if d.src[0].kind == Kind::Vector { d.src[1].value & 7 } else { 0 };
                Some((d.dst, self.shifted(kin, count)))
            }
            _ => None,
        }
    }

    fn half_made(&mut self, form: Form, d: &Di) -> Option<Half> {
        let Form::Carry(Op::V_ADD_CO_U32) = form else { return None };
        let row = summand(d, 0, 1)?;
        let high = row + self.halves;
        let stays = d.dst.abs_diff(high) >= self.halves && d.dst2 != slot::DUMP as u32;
        stays.then(|| Half { low: d.dst, high, carries: d.dst2, kin: self.kin(row, true) })
    }

    fn note(&mut self, form: Form, d: &Di) {
        let (made, half_made) = (self.made(form, d), self.half_made(form, d));
        let written = template::written(form, d, self.halves);
        let halves = self.halves;
        let changes = |first: u32, rows: u32| written.iter().any(|row| (first..first + rows).contains(row));
        self.addresses.retain(|&(row, wide, _)| !changes(row, if wide { 2 * halves } else { halves }));
        let takes = |carries: u32| {
            touched::scalars(form, d).iter().any(|&(first, count)| (first..first + count).contains(&carries))
        };
        let is_lost =
            |half: &Half| changes(half.low, halves) || changes(half.high, halves) || takes(half.carries);
        if half_made.is_some() || self.half.as_ref().is_some_and(is_lost) {
            self.half = half_made;
        }
        self.addresses.extend(made.map(|(row, kin)| (row, true, kin)));
    }
}

/// Returns for each element of a block the accesses that it lies alike with, if it is an access to global memory and
/// there are such.
pub(crate) fn alike(elements: &[(Form, &Di)], halves: u32) -> Vec<Option<Alike>> {
    let mut rows = Rows { halves, addresses: Vec::new(), shifted: Vec::new(), half: None, kinds: 0 };
    let mut accesses: Vec<(usize, Kin, u32)> = Vec::new();
    for (at, &(form, d)) in elements.iter().enumerate() {
        if let Form::GlobalLoad(moves) | Form::GlobalStore(moves) = form
            && elements::has(form)
            && d.src[0].kind == Kind::Vector
        {
            // With a scalar base there is one row of offsets.
            let kin = rows.kin(d.src[0].value, d.dst2 != 2);
            accesses.push((at, kin, bytes(moves)));
        }
        rows.note(form, d);
    }
    let mut alike = vec![None; elements.len()];
    let mut slot = 0;
    for (n, &(at, kin, size)) in accesses.iter().enumerate() {
        let is_like = |&&(_, other, of): &&(usize, Kin, u32)| (other, of) == (kin, size);
        if slot == SLOTS || alike[at].is_some() || !accesses[n + 1..].iter().any(|other| is_like(&other)) {
            continue;
        }
        for (other, ..) in accesses[n..].iter().filter(is_like) {
            alike[*other] = Some(Alike { slot, first: *other == at });
        }
        slot += 1;
    }
    alike
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier1::x86::tests::elements;

    /// Returns for each region of a code object how many accesses find out, and how many use what was found.
    fn counts(code_object: &[u8], halves: u32) -> Vec<[usize; 2]> {
        let regions = elements(code_object);
        let of = |(code, forms): &(Vec<Di>, Vec<Form>)| {
            let elements: Vec<_> = forms.iter().copied().zip(code).collect();
            let alike = alike(&elements, halves);
            [true, false].map(|first| alike.iter().flatten().filter(|alike| alike.first == first).count())
        };
        regions.iter().map(of).collect()
    }

    #[test]
    fn arrays_that_are_gone_through_together_lie_alike() {
        let of_32 = counts(include_bytes!("../../../../../guest-runtime/kernels/bench.gfx1100.hsaco"), 1);
        let of_64 = counts(include_bytes!("../../../../../guest-runtime/kernels/bench.gfx942.hsaco"), 2);
        // `vadd` has three arrays and one row of offsets.
        assert!(of_32.contains(&[1, 2]), "{of_32:?}");
        assert!(of_64.contains(&[1, 2]), "{of_64:?}");
    }
}
