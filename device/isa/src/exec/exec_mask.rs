//! Scalar operations that change EXEC: `S_*_SAVEEXEC_*` and `S_*_WREXEC_*`.

use super::di::{Di, Flow, Handler, Machine};
use crate::registers::slot;
use crate::wave::Wave;

/// The functions in the order [`Di::aux`] numbers them.
const NAMES: [&str; 10] =
    ["and", "or", "xor", "nand", "nor", "xnor", "and_not0", "and_not1", "or_not0", "or_not1"];

#[inline(always)]
fn apply(function: u8, s: u64, exec: u64) -> u64 {
    match function {
        0 => s & exec,
        1 => s | exec,
        2 => s ^ exec,
        3 => !(s & exec),
        4 => !(s | exec),
        5 => !(s ^ exec),
        6 => !s & exec,
        7 => s & !exec,
        8 => !s | exec,
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

/// Handler, [`Di::aux`] and width of a mnemonic such as `s_and_not1_saveexec_b32`.
pub(crate) fn parse(mnemonic: &str) -> Option<(Handler, u8, u32)> {
    let (name, bits) = mnemonic.strip_prefix("s_")?.rsplit_once("_b")?;
    let bits = if bits == "32" { 32 } else { 64 };
    let (function, handler): (&str, [Handler; 2]) = if let Some(function) = name.strip_suffix("_saveexec") {
        (function, [save32, save64])
    } else {
        (name.strip_suffix("_wrexec")?, [write32, write64])
    };
    let number = NAMES.iter().position(|known| *known == function)?;
    Some((handler[usize::from(bits == 64)], u8::try_from(number).ok()?, bits))
}
