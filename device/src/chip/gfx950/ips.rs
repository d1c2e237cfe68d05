//! IP blocks of MI350X: those of an MI300X by other versions, in the same places.
//!
//! Versions: those that linux 6.14 and later take beside GC 9.5.0 (`amdgpu_discovery.c`), as far as a file of it is public that
//! names them. `docs/chips.md` says which are guesses.

use crate::chip::instinct::Versions;
use crate::chip::{IpBlock, Shape, gfx942};

const VERSIONS: Versions = Versions {
    gc: [9, 5, 0],
    sdma: [4, 4, 5],
    mmhub: [1, 8, 1],
    athub: [1, 8, 1],
    hdp: [4, 4, 5],
    umc: [12, 5, 0],
    osssys: [4, 4, 5],
    nbif: [7, 9, 1],
    mp: [13, 0, 12],
    smuio: [13, 0, 11],
    vcn: [5, 0, 1],
};

/// Every block of a shape.
pub(super) fn ips(shape: Shape) -> Vec<IpBlock> {
    gfx942::ips::blocks(shape, &VERSIONS)
}
