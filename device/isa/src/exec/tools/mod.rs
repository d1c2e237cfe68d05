//! Looks at waves and their code: observers, probes, counts, and what an instruction is about to do.

pub(super) mod class;
pub(super) mod coverage;
pub(super) mod defined;
pub(super) mod observe;
pub(super) mod pending;
pub(super) mod probe;
pub(super) mod profile;
pub(super) mod touches;
