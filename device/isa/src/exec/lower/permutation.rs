//! Preparation that DPP needs before an operation.

use super::{Di, Lowering};
use crate::exec::di::{Handler, Kind, Source};
use crate::exec::form::Form;
use crate::exec::vector::dpp::{self, Control, bit};
use crate::inst::{Dpp, Dpp16};
use crate::wave::TEMP_ROW;

impl Lowering {
    /// Emits the preparation of a DPP instruction. Returns the row that its first source is in now, and true if EXEC
    /// stays as it is.
    pub(super) fn permutation(&mut self, permutation: Dpp, row: u32) -> (u32, bool) {
        let (control, di) = match permutation {
            Dpp::Dpp16(fields) => {
                let (control, handler): (Control, Handler) = if self.file.permutes_rows {
                    (Control::Wave, dpp::dpp16_gfx9)
                } else {
                    (Control::Rows, dpp::dpp16)
                };
                (control, Di { imm: permutation_bits(&fields), ..Di::new(handler) })
            }
            Dpp::Dpp8(fields) => {
                let imm = 1 << bit::BOUND_CTRL | u32::from(fields.fetch_inactive) << bit::FETCH_INACTIVE;
                (Control::Eight, Di { dst2: fields.selectors, imm, ..Di::new(dpp::dpp8) })
            }
        };
        let src = [Source { value: row, kind: Kind::Vector, ..Source::ZERO }, Source::ZERO, Source::ZERO];
        let di = Di { dst: TEMP_ROW as u32, src, ..di };
        let keeps_exec = control.keeps_exec(&di);
        self.emit_extra_as(Form::Permute(control), di);
        (TEMP_ROW as u32, keeps_exec)
    }
}

/// Returns `imm` of the preparation of DPP.
pub(super) fn permutation_bits(fields: &Dpp16) -> u32 {
    u32::from(fields.ctrl)
        | u32::from(fields.row_mask) << bit::ROW_MASK
        | u32::from(fields.bank_mask) << bit::BANK_MASK
        | u32::from(fields.bound_ctrl) << bit::BOUND_CTRL
        | u32::from(fields.fetch_inactive) << bit::FETCH_INACTIVE
}
