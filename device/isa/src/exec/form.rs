//! Forms of elements: lowering tells them, so that compiled code can do an element without its handler.

use crate::exec::memory::atomic::Function;
use crate::exec::properties::Moves;
use crate::exec::vector::cmp::Operands;
use crate::exec::vector::dpp::Control;
use crate::inst::Op;

/// Effect of an element of a region.
///
/// Every form but [`Form::Call`] promises that the element does exactly what the operation's definition says with the
/// operands in the [`Di`](crate::exec::di::Di): no mode, modifier of the result or exception changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Form {
    /// Any effect: only its handler knows.
    #[default]
    Call,
    /// A vector operation with a definition: `src` to the row `dst`.
    Vector(Op),
    /// An operation on integers whose result saturates.
    Saturating(Op),
    /// Both operations of a VOPD: `src[0]` and `src[1]` are the first sources, rows `src[2].value` and `imm` the second ones, a
    /// third is the destination `dst` or `dst2`.
    Pair(Op, Op),
    /// A vector operation that takes a lane mask from the scalar register `imm` and writes one to `dst2`.
    Carry(Op),
    /// A comparison to a lane mask in the scalar register `dst`, true for the outcomes in `aux`.
    Compare(Operands),
    /// `v_cndmask_b32`.
    Select,
    /// `v_cndmask_b16`: to a half of the row `dst`, whose other half stays.
    SelectHalf,
    /// `v_swap_b32`: the rows `dst` and `src[0]` change places.
    Swap,
    /// An operation on both halves of registers, as `imm` says for the high ones.
    Packed(Op),
    /// `v_fma_mix_f32`, or one to a half.
    Mixed(bool),
    /// The row `dst` keeps the bits `imm`.
    Keep,
    /// The low bits of `src[0]` to a part of the row `dst`, as `aux` says.
    Part,
    /// The preparation of DPP: the permuted `src[0]` to the row `dst`, and perhaps lanes from EXEC.
    Permute(Control),
    /// The end of such an instruction: EXEC gets its old value back.
    RestoreExec,
    /// `ds_bpermute_b32`: lanes of `src[1]` by the addresses in `src[0]`.
    BackwardPermute,
    /// `ds_swizzle_b32`: lanes of `src[0]` as `imm` says.
    Swizzle,
    /// `v_permlane16_b32`, or of the other row: lanes of `src[0]` as `src[1]` and `src[2]` say.
    PermuteRow { other: bool },
    /// `v_mbcnt_lo_u32_b32` or `v_mbcnt_hi_u32_b32`.
    CountBelow { high: bool },
    /// Lane `src[1]` of `src[0]` to the scalar register `dst`.
    ReadLane,
    /// The first active lane of `src[0]` to the scalar register `dst`.
    ReadFirstLane,
    /// `v_writelane_b32`: the number `src[0]` to lane `src[1]` of the row `dst`, active or not.
    WriteLane,
    /// A scalar operation: `src` to the scalar register `dst`; a third source is the destination's old value.
    Scalar(Op),
    /// The function `aux` of `src[0]` and EXEC, of 64 bits if `wide`, to EXEC; the scalar register `dst` gets the old
    /// EXEC, or the new one.
    ExecMask { saves: bool, wide: bool },
    /// A load from global memory to rows from `dst` on: `src[0]` and `src[2]` make the address, as `dst2` says.
    GlobalLoad(Moves),
    /// A store from rows of `src[1]` on.
    GlobalStore(Moves),
    /// A load from the memory that the address in `src[0]` means, to rows from `dst` on.
    FlatLoad(Moves),
    /// A store from rows of `src[1]` on to such memory.
    FlatStore(Moves),
    /// A load through the descriptor at `src[1]` to rows from `dst` on, with an offset in `src[0]` and no index.
    BufferLoad(Moves),
    /// A store of rows from `dst` on through the descriptor at `src[1]`, as the loads.
    BufferStore(Moves),
    /// A load from LDS at `src[0]` and `imm` to rows from `dst` on.
    LdsLoad(Moves),
    /// A store from rows of `src[1]` on to LDS.
    LdsStore(Moves),
    /// Two loads of this many dwords from LDS, the second one at `src[0]` and `dst2`.
    LdsLoadTwo(u32),
    /// Two stores of this many dwords to LDS, the second one from rows of `src[2]` on at `src[0]` and `dst2`.
    LdsStoreTwo(u32),
    /// An atomic of this many bits on LDS at `src[0]` and `imm`, with rows of `src[1]` and `src[2]` on; the old value
    /// goes to rows from `dst` on if it is wanted.
    LdsAtomic(Function, u32),
    /// An atomic of this many bits on global memory, with the second operand after the first one.
    GlobalAtomic(Function, u32),
    /// The wave looks for writes of other waves.
    Look,
    /// A load of this many dwords from memory at `src[0]`, `src[1]` and `imm` to scalar registers from `dst` on.
    ScalarLoad(u32),
    /// The end of the program.
    End,
    /// `s_barrier` at the address `dst2:dst`.
    Barrier,
    /// A branch to the element `imm`, or where `aux` is 1 to the address `dst2:dst`.
    Branch(When),
}

impl Form {
    /// Returns true if it is computed for each lane by itself, from registers alone.
    pub(crate) fn is_arithmetic(self) -> bool {
        matches!(
            self,
            Form::Vector(_)
                | Form::Saturating(_)
                | Form::Pair(..)
                | Form::Carry(_)
                | Form::Compare(_)
                | Form::Select
                | Form::SelectHalf
                | Form::Swap
                | Form::Packed(_)
                | Form::Mixed(_)
                | Form::Keep
                | Form::Part
        )
    }

    /// Returns true if it reads and writes memory.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Form::LdsAtomic(..) | Form::GlobalAtomic(..))
    }

    /// Returns true if it is a load, a store or an atomic.
    pub(crate) fn is_memory(self) -> bool {
        use Form::{
            BufferLoad, BufferStore, FlatLoad, FlatStore, GlobalLoad, GlobalStore, LdsLoad, LdsLoadTwo,
            LdsStore, LdsStoreTwo,
        };
        matches!(
            self,
            GlobalLoad(_)
                | GlobalStore(_)
                | FlatLoad(_)
                | FlatStore(_)
                | BufferLoad(_)
                | BufferStore(_)
                | LdsLoad(_)
                | LdsStore(_)
                | LdsLoadTwo(_)
                | LdsStoreTwo(_)
        ) || self.is_atomic()
    }
}

/// Condition under which a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum When {
    Always,
    Scc(bool),
    /// The mask in `VCC` is zero, or is not.
    Vccz(bool),
    /// The mask in `EXEC` is zero, or is not.
    Execz(bool),
}
