//! Blocks of registers: `M0` says which of 32 registers are loaded or stored, each a dword after the one before it.

use super::address::segment;
use super::failure::{Failure, active, fail, lanes, probe};
use super::lane::{reach, store_words};
use super::load::load_lanes;
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::vector::op::{exec_half, split};
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

/// Registers of a block that are accessed together: the first one, and whether the next one is with it. Two that begin at an even number
/// are eight bytes that are aligned where the address is.
fn pairs(registers: u32) -> impl DoubleEndedIterator<Item = (u32, bool)> {
    (0..REGISTERS as u32).filter_map(move |n| {
        let is = |n: u32| registers >> n & 1 != 0;
        let second = n % 2 == 1 && is(n - 1);
        (is(n) && !second).then(|| (n, n % 2 == 0 && is(n + 1)))
    })
}

/// `global_load_block`, `scratch_load_block`.
pub(crate) fn load_block(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let registers = chosen(w, d.dst);
    // All are loaded before any is written: the address may be in one of them.
    let mut words = [[[0; 16]; REGISTERS]; 4];
    for sixteen in (0..w.halves * 2).rev() {
        let mask = split(exec_half(w, sixteen / 2))[sixteen as usize % 2];
        let words = &mut words[sixteen as usize];
        for (n, two) in pairs(registers).rev() {
            let (element, first_lane) = (of_register(d, n), sixteen * 16);
            let (first, rest) = words[n as usize..].split_at_mut(1);
            let loaded = if two {
                let mut pair = [[0; 16]; 2];
                let loaded = load_lanes(w, m, &element, first_lane, mask, &mut pair);
                [first[0], rest[0]] = pair;
                loaded
            } else {
                let mut one = [[0; 16]; 1];
                let loaded = load_lanes(w, m, &element, first_lane, mask, &mut one);
                [first[0]] = one;
                loaded
            };
            if let Err(failure) = loaded {
                return fail_load(w, m, d, registers, failure);
            }
        }
    }
    for sixteen in 0..w.halves * 2 {
        let mask = split(exec_half(w, sixteen / 2))[sixteen as usize % 2];
        for n in bits(registers) {
            let row = &mut w.v.row_mut(d.dst + n * w.halves + sixteen / 2)[sixteen as usize % 2].0;
            for at in lanes(mask.into()) {
                row[at as usize] = words[sixteen as usize][n as usize][at as usize];
            }
        }
    }
    Flow::NEXT
}

/// Stops the wave for a failed load, and reports the first register whose access fails.
#[cold]
fn fail_load(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    registers: u32,
    (failure, lanes): (Failure, u64),
) -> Flow {
    let fails = |m: &mut Machine<'_>, element: &Di| {
        active(w).any(|lane| probe(w, m, segment(w, m, element, lane), lane, 4, &failure).is_some())
    };
    let mut elements = bits(registers).map(|n| of_register(d, n));
    let element = elements.find(|element| fails(m, element)).unwrap_or(*d);
    fail(w, m, &element, (4, 0), (failure, lanes))
}

/// `global_store_block`, `scratch_store_block`.
pub(crate) fn store_block(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let first = d.src[1].value;
    let registers = chosen(w, first);
    for lane in active(w) {
        // A lane stores all of its registers or none.
        for n in bits(registers) {
            let element = of_register(d, n);
            let at = segment(w, m, &element, lane);
            if let Err(failure) = reach(w, m, at, lane, 4) {
                return fail(w, m, &element, (4, lane), (failure, 1 << lane));
            }
        }
        let word = |w: &Wave, n: u32| w.v.lane(first + n * w.halves + lane / 32, lane & 31);
        for (n, two) in pairs(registers) {
            let element = of_register(d, n);
            let at = segment(w, m, &element, lane);
            let stored = if two {
                store_words(w, m, at, lane, [word(w, n), word(w, n + 1)])
            } else {
                store_words(w, m, at, lane, [word(w, n)])
            };
            if let Err(failure) = stored {
                return fail(w, m, &element, (4, lane), (failure, 1 << lane));
            }
        }
    }
    Flow::NEXT
}
