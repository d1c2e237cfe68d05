//! Vector registers of a wave.

use crate::lanes::Chunk;
use crate::registers::MAX_ALLOCATION;
use zerocopy::FromZeros;

/// Thirty-two lanes of a vector register: a wave64 register is two consecutive rows.
pub(crate) type Row = [Chunk; 2];

/// First scratch row for operand preparation: after two rows for each register of the largest file.
pub(crate) const TEMP_ROW: usize = MAX_ALLOCATION as usize * 2;
/// Rows of a wave. A power of two, so that masking an index proves it in range.
pub(crate) const ROWS: usize = (TEMP_ROW + 64).next_power_of_two();
pub(crate) const ZERO_ROW: Row = [Chunk([0; 16]); 2];

/// Makes rows zeros, by `memset`: a copied [`ZERO_ROW`] is stores of 16 bytes each in some builds.
#[inline(always)]
pub(crate) fn clear(rows: &mut [Row]) {
    rows.zero();
}

/// The vector registers.
#[derive(Clone)]
pub(crate) struct Vgprs(pub(super) Box<[Row; ROWS]>);

impl Vgprs {
    pub(super) fn new() -> Self {
        match <[Row; ROWS]>::new_box_zeroed() {
            Ok(rows) => Vgprs(rows),
            Err(error) => panic!("no memory for the registers of a wave: {error:?}"),
        }
    }

    #[inline(always)]
    pub(crate) fn row(&self, index: u32) -> &Row {
        &self.0[index as usize % ROWS]
    }

    #[inline(always)]
    pub(crate) fn row_mut(&mut self, index: u32) -> &mut Row {
        &mut self.0[index as usize % ROWS]
    }

    /// The sixteens of rows that follow each other, from a row on; `None` if there are too few.
    #[inline(always)]
    pub(crate) fn sixteens<const N: usize>(&self, row: u32) -> Option<&[Chunk; N]> {
        self.0.as_flattened().get(2 * row as usize..)?.first_chunk()
    }

    /// As [`Vgprs::sixteens`].
    #[inline(always)]
    pub(crate) fn sixteens_mut<const N: usize>(&mut self, row: u32) -> Option<&mut [Chunk; N]> {
        self.0.as_flattened_mut().get_mut(2 * row as usize..)?.first_chunk_mut()
    }

    /// One lane of a row.
    #[inline(always)]
    pub(crate) fn lane(&self, row: u32, lane: u32) -> u32 {
        self.row(row)[(lane >> 4) as usize & 1].0[lane as usize & 15]
    }

    /// One lane of a row.
    #[inline(always)]
    pub(crate) fn set_lane(&mut self, row: u32, lane: u32, value: u32) {
        self.row_mut(row)[(lane >> 4) as usize & 1].0[lane as usize & 15] = value;
    }
}
