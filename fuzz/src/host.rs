//! Parts of the belfry binary that take bytes from outside, from their sources: the rest of it is not needed here.

#[allow(dead_code, reason = "the binary uses more of it")]
#[path = "../../host-vmm/src/disasm/mod.rs"]
pub mod disasm;
