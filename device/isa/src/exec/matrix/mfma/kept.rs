//! Matrices that have been converted, kept for the instructions that follow.
//!
//! A product of large matrices combines each A with several of B and each B with several of A, in the same registers,
//! and conversion takes a sixth of an instruction's time. The registers that a matrix was made of are kept beside it
//! and compared, which takes a fifteenth of the time of converting it. So it does not matter which instruction wrote
//! them.

use zerocopy::FromZeros;

use super::convert::{self, Left, Matrix, Range, Right, SIXTEEN};
use super::shape::Element;
use crate::lanes::Lanes;
use crate::wave::{Row, Wave};

/// Rows of registers of A or B: two registers of 64 lanes.
pub(super) const ROWS: usize = 4;
/// Matrices of each side: a square of four by four blocks needs as many.
pub(super) const PLACES: usize = 4;

/// Returns a number for the type and the layout of elements: a different one for each combination, and never 0.
const fn form(is_brain: bool, sixteens: usize) -> u8 {
    1 + is_brain as u8 + 2 * (sixteens == 2) as u8
}

/// A matrix, and the rows that it was made of.
#[derive(FromZeros)]
pub(super) struct Kept<M> {
    raw: [Row; ROWS],
    /// [`form`], or 0 while there is none.
    form: u8,
    /// True if all elements have powers.
    has_powers: bool,
    matrix: M,
}

/// The place of the matrix whose registers begin at row `base`.
#[inline(always)]
pub(super) fn of<M>(places: &mut [Kept<M>; PLACES], base: u32) -> &mut Kept<M> {
    &mut places[base as usize / ROWS % PLACES]
}

/// A or B.
pub(super) trait Side {
    fn matrix(&mut self) -> Matrix<'_>;
}

impl Side for Left {
    #[inline(always)]
    fn matrix(&mut self) -> Matrix<'_> {
        Matrix::Left(self)
    }
}

impl Side for Right {
    #[inline(always)]
    fn matrix(&mut self) -> Matrix<'_> {
        Matrix::Right(self)
    }
}

impl<M: Side> Kept<M> {
    /// Reads A or B; `None` if there are elements without powers.
    #[inline(always)]
    pub(super) fn read<L: Lanes, const BRAIN: bool, const SIXTEENS: usize>(
        &mut self,
        w: &Wave,
        base: u32,
    ) -> Option<&M> {
        let form = form(BRAIN, SIXTEENS);
        if self.form != form || !self.is_made_of::<L>(w, base) {
            self.form = form;
            for (n, raw) in (0..).zip(&mut self.raw) {
                *raw = *w.v.row(base + n);
            }
            self.has_powers = converted::<L, BRAIN, SIXTEENS>(&self.raw, self.matrix.matrix());
        }
        self.has_powers.then_some(&self.matrix)
    }

    #[inline(always)]
    fn is_made_of<L: Lanes>(&self, w: &Wave, base: u32) -> bool {
        let mut differs = L::splat(0);
        for (n, raw) in (0..).zip(&self.raw) {
            for (word, raw) in w.v.row(base + n).iter().zip(raw) {
                differs = L::or(differs, L::xor(L::load(word), L::load(raw)));
            }
        }
        L::eq(differs, L::splat(0)) == u16::MAX
    }
}

/// Converts the elements of registers, and whether all of them have powers.
#[inline(always)]
fn converted<L: Lanes, const BRAIN: bool, const SIXTEENS: usize>(
    raw: &[Row; ROWS],
    mut into: Matrix<'_>,
) -> bool {
    let element = if BRAIN { Element::Brain } else { Element::Half };
    let mut range = Range::<L>::new();
    for sixteen in 0..4 {
        for register in 0..ROWS / 2 {
            let word = L::load(&raw[2 * register + sixteen / 2][sixteen % 2]);
            let first = sixteen % SIXTEENS * SIXTEEN + sixteen / SIXTEENS * 4 + register * 2;
            convert::put_pair::<L>(element, &mut into, first, word, &mut range);
        }
    }
    range.is_kept(element)
}
