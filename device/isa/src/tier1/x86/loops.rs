//! Loops whose rounds are done for some lanes after the others: state that is set back.

use super::asm::{Assembler, At, Gpr, Integer};
use super::body::scalar;

/// Offset of the scalars in the frame while a loop is done for some lanes after the others: after the bytes that one
/// register takes, and before the room for a row.
const FRAME: i32 = 64;

/// Keeps the state that a loop's rounds begin with: the scalar registers that they write, and the count of
/// instructions.
pub(crate) fn keep(a: &mut Assembler, written: &[u32], executed: Gpr) {
    for (n, &register) in written.iter().enumerate() {
        a.load(Integer::Mov, false, Gpr::Rax, scalar(register));
        a.store(false, kept(n + 2), Gpr::Rax);
    }
    a.store(true, kept(0), executed);
}

/// Sets that state back, for the rounds of the next lanes.
pub(crate) fn set_back(a: &mut Assembler, written: &[u32], executed: Gpr) {
    for (n, &register) in written.iter().enumerate() {
        a.load(Integer::Mov, false, Gpr::Rax, kept(n + 2));
        a.store(false, scalar(register), Gpr::Rax);
    }
    a.load(Integer::Mov, true, executed, kept(0));
}

/// A word of the frame; the count of instructions takes the first two.
fn kept(word: usize) -> At {
    At(Gpr::Rsp, FRAME + word as i32 * 4)
}
