//! Descriptors of graphics rings.
//!
//! Layout: linux `drivers/gpu/drm/amd/include/v11_structs.h`, `v11_gfx_mqd`: the registers `CP_GFX_HQD_*` and `CP_RB_*` as the
//! kernel's driver sets them.

use zerocopy::IntoBytes as _;

use crate::guest_error::GuestError;
use crate::queue::{Hqd, RingRegisters};
use crate::vm::AddressSpace;

/// Dword of `cp_gfx_hqd_base`, the first one that is used.
const FIRST: usize = 136;
/// Dwords from there on: up to `cp_gfx_hqd_wptr_hi`.
const COUNT: usize = 15;

/// `RB_BUFSZ` of `CP_GFX_HQD_CNTL`.
const BUFSZ: u32 = 0x3f;

/// Loads the ring of a descriptor at an address of VMID 0, into the registers that a compute ring has.
///
/// # Errors
///
/// A descriptor that is not mapped, or that has no ring.
pub(in crate::firmware) fn load(hqd: &mut Hqd, space: &AddressSpace, mqd: u64) -> Result<(), GuestError> {
    let mut dwords = [0u32; COUNT];
    let at = mqd.wrapping_add(FIRST as u64 * 4);
    space.read_bytes(at, dwords.as_mut_bytes()).map_err(|_| GuestError::MqdUnmapped)?;
    let [base, base_hi, rptr, report, report_hi, poll, poll_hi, _, _, cntl, _, _, _, wptr, wptr_hi] = dwords;
    let quad = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    if quad(base, base_hi) == 0 {
        return Err(GuestError::MqdWithoutRing);
    }
    hqd.set_ring(&RingRegisters {
        base: quad(base, base_hi),
        // The field counts pairs of dwords, by their logarithm.
        size: cntl & BUFSZ,
        rptr,
        rptr_report: quad(report, report_hi),
        wptr_poll: quad(poll, poll_hi),
        wptr: quad(wptr, wptr_hi),
    });
    Ok(())
}

/// Dword of `cp_gfx_hqd_rptr`.
const RPTR: u64 = 138;

/// Writes the read pointer of a descriptor. Returns false if it is not mapped.
pub(in crate::firmware) fn save(space: &AddressSpace, mqd: u64, rptr: u64) -> bool {
    space.store_u32(mqd.wrapping_add(RPTR * 4), rptr as u32).is_ok()
}
