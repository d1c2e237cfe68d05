//! Blocks of registers: `M0` says which of 32 registers are loaded or stored, each a dword behind the one before it.

use super::address::segment;
use super::failure::{fail, lanes};
use super::lane::{reach, store_lane};
use super::load::load_lanes;
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::op::{exec_half, split};
use crate::registers::slot;
use crate::wave::Wave;

/// Registers of a block.
const REGISTERS: usize = 32;

/// The registers of a block that `M0` names and the wave has, from register row `first` on.
fn chosen(w: &Wave, first: u32) -> u32 {
    let left = u32::from(w.registers).saturating_sub(first / w.halves);
    let has = if left >= 32 { u32::MAX } else { (1 << left) - 1 };
    w.s[slot::M0] & has
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    lanes(mask.into())
}

/// The element whose address is that of register `n` of the block.
fn of_register(d: &Di, n: u32) -> Di {
    Di { imm: d.imm.wrapping_add(n * 4), ..*d }
}

/// `global_load_block`, `scratch_load_block`.
pub(in crate::exec) fn load_block(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let registers = chosen(w, d.dst);
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            let first_lane = half * 32 + chunk as u32 * 16;
            // All are loaded before any is written: the address may be in one of them.
            let mut words = [[[0; 16]; 1]; REGISTERS];
            for n in bits(registers) {
                let element = of_register(d, n);
                let loaded = load_lanes(w, m, &element, first_lane, mask, &mut words[n as usize]);
                if let Err(failure) = loaded {
                    return fail(w, m, &element, (4, first_lane), failure);
                }
            }
            for n in bits(registers) {
                let row = &mut w.v.row_mut(d.dst + n * w.halves + half)[chunk].0;
                for at in lanes(mask.into()) {
                    row[at as usize] = words[n as usize][0][at as usize];
                }
            }
        }
    }
    Flow::NEXT
}

/// `global_store_block`, `scratch_store_block`.
pub(in crate::exec) fn store_block(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let first = d.src[1].value;
    let registers = chosen(w, first);
    let exec = crate::exec::lane::active(w);
    for lane in lanes(exec) {
        // A lane stores all of its registers or none.
        for n in bits(registers) {
            let element = of_register(d, n);
            let at = segment(w, m, &element, lane);
            if let Err(failure) = reach(w, m, at, lane, 4) {
                return fail(w, m, &element, (4, lane), (failure, 1 << lane));
            }
        }
        for n in bits(registers) {
            let element = of_register(d, n);
            let word = w.v.lane(first + n * w.halves + lane / 32, lane & 31);
            let at = segment(w, m, &element, lane);
            if let Err(failure) = store_lane(w, m, at, lane, word) {
                return fail(w, m, &element, (4, lane), (failure, 1 << lane));
            }
        }
    }
    Flow::NEXT
}
