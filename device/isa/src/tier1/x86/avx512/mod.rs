//! The AVX-512 back end: sixteen lanes at a time.

pub(in crate::tier1) mod compare;
pub(in crate::tier1) mod curves;
mod divisions;
mod double_roots;
pub(in crate::tier1) mod elements;
mod extremes;
pub(in crate::tier1) mod guarded;
pub(in crate::tier1) mod half;
pub(in crate::tier1) mod lanes;
pub(in crate::tier1) mod lds;
pub(in crate::tier1) mod masks;
pub(in crate::tier1) mod memory;
pub(in crate::tier1) mod permute;
pub(in crate::tier1) mod polynomials;
pub(in crate::tier1) mod recipes;
pub(in crate::tier1) mod reciprocals;
pub(in crate::tier1) mod rows;
pub(in crate::tier1) mod run_loads;
pub(in crate::tier1) mod sixteens;
pub(in crate::tier1) mod steps;
mod unary;
