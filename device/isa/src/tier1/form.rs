//! What lowering tells of an element, for code that is to do the same without its handler.

use crate::exec::cmp::Operands;
use crate::exec::properties::Moves;
use crate::inst::Op;

/// What an element of a region does.
///
/// Everything but [`Form::Call`] says that the element does what the operation's definition says with the operands in
/// the [`Di`](crate::exec::di::Di): no mode, modifier of the result or exception makes it anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// Whatever its handler does.
    #[default]
    Call,
    /// A vector operation with a definition: `src` to the row `dst`.
    Vector(Op),
    /// Both operations of a VOPD: `src[0]` and `src[1]` are the first sources, rows `src[2].value` and `imm` the second ones, a
    /// third is the destination `dst` or `dst2`.
    Pair(Op, Op),
    /// A vector operation that takes a lane mask from the scalar register `imm` and writes one to `dst2`.
    Carry(Op),
    /// A comparison to a lane mask in the scalar register `dst`, true for the outcomes in `aux`.
    Compare(Operands),
    /// `v_cndmask_b32`.
    Select,
    /// An operation on both halves of registers, as `imm` says for the high ones.
    Packed(Op),
    /// `v_fma_mix_f32`, or one to a half.
    Mixed(bool),
    /// The row `dst` keeps the bits `imm`.
    Keep,
    /// A scalar operation: `src` to the scalar register `dst`; a third source is the destination's old value.
    Scalar(Op),
    /// The function `aux` of `src[0]` and EXEC, of 64 bits if `wide`, to EXEC; the scalar register `dst` gets what EXEC was, or is.
    ExecMask { saves: bool, wide: bool },
    /// A load from global memory to rows from `dst` on: `src[0]` and `src[2]` make the address, as `dst2` says.
    GlobalLoad(Moves),
    /// A store from rows of `src[1]` on.
    GlobalStore(Moves),
    /// A load from LDS at `src[0]` and `imm` to rows from `dst` on.
    LdsLoad(Moves),
    /// A store from rows of `src[1]` on to LDS.
    LdsStore(Moves),
    /// Two loads of so many dwords from LDS, the second one at `src[0]` and `dst2`.
    LdsLoadTwo(u32),
    /// Two stores of so many dwords to LDS, the second one from rows of `src[2]` on at `src[0]` and `dst2`.
    LdsStoreTwo(u32),
    /// A load of so many dwords from memory at `src[0]`, `src[1]` and `imm` to scalar registers from `dst` on.
    ScalarLoad(u32),
    /// The end of the program.
    End,
    /// A branch to the element `imm`, or where `aux` is 1 to the address `dst2:dst`.
    Branch(When),
}

impl Form {
    /// Whether it is a load or a store.
    pub(crate) fn is_memory(self) -> bool {
        use Form::{GlobalLoad, GlobalStore, LdsLoad, LdsLoadTwo, LdsStore, LdsStoreTwo};
        matches!(
            self,
            GlobalLoad(_) | GlobalStore(_) | LdsLoad(_) | LdsStore(_) | LdsLoadTwo(_) | LdsStoreTwo(_)
        )
    }
}

/// When a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Scc(bool),
    /// The mask in `VCC` is zero, or is not.
    Vccz(bool),
    /// The same of `EXEC`.
    Execz(bool),
}
