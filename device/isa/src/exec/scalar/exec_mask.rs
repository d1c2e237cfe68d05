//! Scalar operations that change EXEC: `S_*_SAVEEXEC_*` and `S_*_WREXEC_*`.

use crate::exec::di::{Di, Flow, Handler, Machine};
use crate::registers::slot;
use crate::wave::Wave;

/// A function of the source and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Function {
    And,
    Or,
    Xor,
    Nand,
    Nor,
    Xnor,
    AndNot0,
    AndNot1,
    OrNot0,
    OrNot1,
}

impl Function {
    /// The inverse of its number in [`Di::aux`].
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from_number(number: u8) -> Function {
        const ALL: [Function; 10] = [
            Function::And,
            Function::Or,
            Function::Xor,
            Function::Nand,
            Function::Nor,
            Function::Xnor,
            Function::AndNot0,
            Function::AndNot1,
            Function::OrNot0,
            Function::OrNot1,
        ];
        ALL[usize::from(number) % ALL.len()]
    }
}

/// Value that the destination gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    /// EXEC as it was, `S_*_SAVEEXEC_*`.
    Old,
    /// The new EXEC, `S_*_WREXEC_*`.
    New,
}

/// `function` is the number of a [`Function`].
#[inline(always)]
fn apply(function: u8, s: u64, exec: u64) -> u64 {
    const AND: u8 = Function::And as u8;
    const OR: u8 = Function::Or as u8;
    const XOR: u8 = Function::Xor as u8;
    const NAND: u8 = Function::Nand as u8;
    const NOR: u8 = Function::Nor as u8;
    const XNOR: u8 = Function::Xnor as u8;
    const AND_NOT0: u8 = Function::AndNot0 as u8;
    const AND_NOT1: u8 = Function::AndNot1 as u8;
    const OR_NOT0: u8 = Function::OrNot0 as u8;
    match function {
        AND => s & exec,
        OR => s | exec,
        XOR => s ^ exec,
        NAND => !(s & exec),
        NOR => !(s | exec),
        XNOR => !(s ^ exec),
        AND_NOT0 => !s & exec,
        AND_NOT1 => s & !exec,
        OR_NOT0 => !s | exec,
        _ => s | !exec,
    }
}

fn save32(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (s, exec) = (d.src[0].scalar(w), w.s[slot::EXEC]);
    let new = apply(d.aux, u64::from(s), u64::from(exec)) as u32;
    w.s[d.dst as usize & 255] = exec;
    w.s[slot::EXEC] = new;
    w.s[slot::SCC] = u32::from(new != 0);
    Flow::NEXT
}

fn save64(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (s, exec) = (d.src[0].scalar64(w), w.pair(slot::EXEC));
    let new = apply(d.aux, s, exec);
    w.set_pair(d.dst as usize, exec);
    w.set_pair(slot::EXEC, new);
    w.s[slot::SCC] = u32::from(new != 0);
    Flow::NEXT
}

fn write32(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (s, exec) = (d.src[0].scalar(w), w.s[slot::EXEC]);
    let new = apply(d.aux, u64::from(s), u64::from(exec)) as u32;
    w.s[slot::EXEC] = new;
    w.s[d.dst as usize & 255] = new;
    w.s[slot::SCC] = u32::from(new != 0);
    Flow::NEXT
}

fn write64(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (s, exec) = (d.src[0].scalar64(w), w.pair(slot::EXEC));
    let new = apply(d.aux, s, exec);
    w.set_pair(slot::EXEC, new);
    w.set_pair(d.dst as usize, new);
    w.s[slot::SCC] = u32::from(new != 0);
    Flow::NEXT
}

/// Handler of an operation on masks of 32 or 64 lanes; [`Di::aux`] is its [`Function`].
pub(crate) fn handler(result: Result, bits: u32) -> Handler {
    match (result, bits) {
        (Result::Old, 32) => save32,
        (Result::Old, _) => save64,
        (Result::New, 32) => write32,
        (Result::New, _) => write64,
    }
}
