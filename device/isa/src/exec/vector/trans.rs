//! Single-precision transcendental operations.
//!
//! Hardware computes these from tables, to 1 ulp; results are those of cards: see [`reciprocal`], [`root`], [`power`], [`logarithm`] and
//! [`circle`]. They are integer arithmetic, so that they do not depend on the host.

use super::op::vector_ops;
use super::{circle, logarithm, power, reciprocal, root};

vector_ops! {
    V_RCP_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, curve { reciprocal::reciprocals::<L>(a) }
    V_RCP_IFLAG_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, curve { reciprocal::reciprocals::<L>(a) }
    V_RSQ_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal_root(a) }, curve { reciprocal::reciprocal_roots::<L>(a) }
    V_SQRT_F32: F32 -> F32, (a: u32) -> u32 { root::root(a) }, curve { root::roots::<L>(a) }
    V_EXP_F32: F32 -> F32, (a: u32) -> u32 { power::power(a) }, curve { power::powers::<L>(a) }
    V_LOG_F32: F32 -> F32, (a: u32) -> u32 { logarithm::logarithm(a) }, curve { logarithm::logarithms::<L>(a) }
    V_SIN_F32: F32 -> F32, (a: u32) -> u32 { circle::sine(a) }, curve { circle::lanes::<L, false>(a) }
    V_COS_F32: F32 -> F32, (a: u32) -> u32 { circle::cosine(a) }, curve { circle::lanes::<L, true>(a) }
}
