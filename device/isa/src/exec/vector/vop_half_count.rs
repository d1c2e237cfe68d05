//! Alignments by a count in the high half of a register, which only newer compilers encode.

use super::op::vector_ops;

vector_ops! {
    V_ALIGNBIT_B32: Bits -> Bits, (a: u32, b: u32, c: u16) -> u32 {
        ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
    }
    V_ALIGNBYTE_B32: Bits -> Bits, (a: u32, b: u32, c: u16) -> u32 {
        ((u64::from(a) << 32 | u64::from(b)) >> ((c & 3) * 8)) as u32
    }
}
