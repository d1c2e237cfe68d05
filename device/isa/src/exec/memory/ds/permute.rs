//! Exchanges between lanes by way of the LDS hardware, which touch no memory.

use crate::exec::di::{Di, Flow, Machine};
use crate::exec::vector::lane::for_each_active;
use crate::wave::Wave;

/// `ds_bpermute_b32`: each lane reads the data of the lane its address names, among as many as `aux` says; lanes that are off
/// give 0.
pub(super) fn bpermute(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let values: [u32; 64] = data(w, d);
    let group = u32::from(d.aux);
    for_each_active(w, |w, lane| {
        let address = w.v.lane(d.src[0].value + lane / 32, lane & 31).wrapping_add(d.imm);
        let source = lane & !group | address >> 2 & group;
        w.v.set_lane(d.dst + lane / 32, lane & 31, values[source as usize & 63]);
    });
    Flow::NEXT
}

/// Data of all lanes, 0 where they are off.
pub(super) fn data(w: &Wave, d: &Di) -> [u32; 64] {
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    core::array::from_fn(|lane| if exec >> lane & 1 != 0 { d.src[1].lane(w, lane as u32) } else { 0 })
}

/// `ds_permute_b32`: each lane sends its data to the lane its address names; lanes that receive nothing get 0.
pub(super) fn permute(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (values, group) = (data(w, d), u32::from(d.aux));
    let mut received = [0; 64];
    for_each_active(w, |w, lane| {
        let address = w.v.lane(d.src[0].value + lane / 32, lane & 31).wrapping_add(d.imm);
        received[(lane & !group | address >> 2 & group) as usize & 63] = values[lane as usize & 63];
    });
    for_each_active(w, |w, lane| w.v.set_lane(d.dst + lane / 32, lane & 31, received[lane as usize & 63]));
    Flow::NEXT
}

/// `ds_swizzle_b32`: a fixed permutation in the offset; the source is the address operand.
pub(super) fn swizzle(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let offset = d.imm;
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    let values: [u32; 64] =
        core::array::from_fn(|lane| if exec >> lane & 1 != 0 { d.src[0].lane(w, lane as u32) } else { 0 });
    for_each_active(w, |w, lane| {
        let source = swizzled(offset, lane);
        w.v.set_lane(d.dst + lane / 32, lane & 31, values[source as usize & 63]);
    });
    Flow::NEXT
}

/// The lane that `ds_swizzle_b32` with an offset reads from.
pub(crate) fn swizzled(offset: u32, lane: u32) -> u32 {
    if offset >= 0xe000 {
        // FFT mode: the lane's five bits reversed, shifted past the lanes in mask `offset[4:0]`, which stay; a full
        // mask moves nothing.
        let fixed = offset & 31;
        let reversed = (lane & 31).reverse_bits() >> 27;
        lane & 32 | reversed >> fixed.count_ones() | lane & fixed
    } else if offset >= 0xc000 {
        // Rotate mode: by `offset[9:5]`, left or right by bit 10, lanes in mask `offset[4:0]` fixed.
        let (amount, fixed) = (offset >> 5 & 31, offset & 31);
        let at = lane & 31;
        let moved = if offset >> 10 & 1 != 0 { at.wrapping_sub(amount) } else { at + amount } & 31;
        lane & 32 | at & fixed | moved & !fixed
    } else if offset & 0x8000 != 0 {
        lane & !3 | offset >> ((lane & 3) * 2) & 3
    } else {
        let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
        lane & 32 | ((lane & 31 & and | or) ^ xor)
    }
}
