//! Sources of machine code.

use crate::exec::di::{self, Di};
use crate::exec::form::Form;
use crate::lanes::BackendKind;

/// Everything that a compiled region is made from: equal sources make equal code, so [`key`](crate::tier1::x86::kept::key) is
/// their hash.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Host instructions that the code uses: those of AVX2 or AVX-512.
    pub(crate) kind: BackendKind,
    /// Elements as [`bare`] leaves them.
    pub(crate) code: &'a [Di],
    pub(crate) forms: &'a [Form],
    pub(crate) halves: u32,
    /// True if waves wait for each other, so that hardly any of them begins after one that has ended.
    pub(crate) waits: bool,
}

/// Returns the elements of a region that begins at `start`, without the parts that their code does not depend on.
/// They do not depend on where the guest has the region.
///
/// Code calls handlers with the region's own elements, so it does not depend on the operands of elements that
/// handlers always do. Addresses that branches leave the region for become distances from its start.
pub(crate) fn bare(start: u64, code: &[Di], forms: &[Form]) -> Vec<Di> {
    let bare = |(d, form): (&Di, &Form)| match form {
        Form::Call => {
            let src = [di::Source::ZERO; 3];
            Di { f: d.f, dst: 0, dst2: 0, src, imm: 0, flags: 0, omod: 0, count: d.count, aux: 0 }
        }
        // Within the region, `imm` is the element that it leads to.
        Form::Branch(_) if d.aux == 0 => Di { dst: 0, dst2: 0, ..*d },
        Form::Branch(_) | Form::Barrier => {
            let distance = (u64::from(d.dst) | u64::from(d.dst2) << 32).wrapping_sub(start);
            Di { dst: distance as u32, dst2: (distance >> 32) as u32, ..*d }
        }
        _ => *d,
    };
    code.iter().zip(forms).map(bare).collect()
}
