//! Single-precision transcendental operations.
//!
//! Hardware computes these from tables, to 1 ulp; results are those of cards: see [`reciprocal`], [`root`], [`power`], [`logarithm`] and
//! [`circle`]. They are integer arithmetic, so that they do not depend on the host.

use super::op::vector_ops;
use super::{circle, logarithm, power, reciprocal, root};

vector_ops! {
    V_RCP_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, sixteen reciprocal::reciprocals
    V_RCP_IFLAG_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, sixteen reciprocal::reciprocals
    V_RSQ_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal_root(a) }, sixteen reciprocal::reciprocal_roots
    V_SQRT_F32: F32 -> F32, (a: u32) -> u32 { root::root(a) }, sixteen root::roots
    V_EXP_F32: F32 -> F32, (a: u32) -> u32 { power::power(a) }, sixteen power::powers
    V_LOG_F32: F32 -> F32, (a: u32) -> u32 { logarithm::logarithm(a) }, sixteen logarithm::logarithms
    V_SIN_F32: F32 -> F32, (a: u32) -> u32 { circle::sine(a) }, sixteen circle::sines
    V_COS_F32: F32 -> F32, (a: u32) -> u32 { circle::cosine(a) }, sixteen circle::cosines
}
