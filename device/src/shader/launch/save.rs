//! Checks of a launch that comes out of a snapshot.

use belfry_isa::inst::WaveSize;
use belfry_isa::wave::{MAX_VGPRS, VGPR_BLOCK};

use super::{Launch, MAX_WORKGROUP_SIZE};
use crate::chip::{Generation, ShaderRules};
use crate::save::{Broken, check, count};

impl Launch {
    /// Checks that a dispatch packet could have led to it: everything that [`cp`](crate::cp) checks.
    pub(in crate::shader) fn check(&self, chip: &Generation) -> Result<(), Broken> {
        let rules: &ShaderRules = &chip.shader;
        let items = self.workgroup.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
        let items = items.unwrap_or(u32::MAX);
        check("work-items of a workgroup", items, (1..=MAX_WORKGROUP_SIZE).contains(&items))?;
        let total = self.workgroup_count();
        check("workgroups of a grid", total.unwrap_or(u64::MAX), total.is_some_and(|total| total > 0))?;
        let sgprs = self.user_sgprs.len();
        count("user SGPRs", sgprs, sgprs <= chip.kernel.max_user_sgprs)?;
        let (own, shared) = (u32::from(self.vgpr_count), u32::from(self.shared_vgprs));
        // On some chips a part of them is for matrices.
        let most = if self.accum_offset == 0 { MAX_VGPRS.into() } else { rules.vgpr_rows.min(512) };
        check("vector registers of a launch", own + shared, own + shared <= most)?;
        let blocks = self.vgpr_count == VGPR_BLOCK && self.wave_size == WaveSize::Wave32;
        let allocates = !self.allocates_vgprs || chip.kernel.dynamic_vgprs && blocks;
        check("vector registers that waves allocate", self.vgpr_count, allocates)?;
        let shares = self.shares.is_none_or(|shares| shares.is_possible());
        check("shares of graphics cores", 0u32, shares)?;
        check("LDS of a workgroup", self.lds_size, self.fits_at_all(rules))
    }
}
