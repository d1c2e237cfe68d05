//! Loads that transpose a matrix, and loads and stores of the registers that `M0` names.

use belfry_isa::inst::Inst;

use super::memory::{Place, address, ds_load, load, register, store};
use super::state::{End, State, number};

/// A load of eight elements of `bytes` bytes by each lane of a wave32, a row of a matrix or a half of one; each lane gets a column of what
/// eight lanes have loaded, elements of two bytes those of its own group of eight. Of bytes, lanes 0 to 3 and 8 to 11 of sixteen load the columns
/// of lanes 0 to 7, the other lanes those of lanes 8 to 15.
pub(super) fn transposed(state: &mut State, inst: &Inst, bytes: usize) -> Result<(), End> {
    if state.lanes != 32 {
        return Err(End::Unknown);
    }
    let mut rows = vec![vec![0; 8 * bytes]; 32];
    for lane in state.active() {
        rows[lane as usize] = load(state, address(state, inst, lane, false), lane, 8 * bytes)?;
    }
    const BYTES: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];
    for lane in state.active() {
        let at = lane as usize;
        let from = |n: usize| match bytes {
            2 => at - at % 8 + n,
            _ => at - at % 16 + if at % 16 < 8 { BYTES[n] } else { BYTES[n] + 4 },
        };
        let column: Vec<u8> =
            (0..8).flat_map(|n| rows[from(n)][at % 8 * bytes..(at % 8 + 1) * bytes].to_vec()).collect();
        for (n, word) in (0..).zip(column.chunks(4)) {
            state.set_vgpr(register(state, inst.dst) + n, lane, number(word) as u32);
        }
    }
    Ok(())
}

/// A load from LDS by each lane of a wave64. Sixteen lanes load a matrix of sixteen columns, row after row; lane *n* of them gets
/// column *n*, of elements of `bits` bits.
pub(super) fn transposed_lds(state: &mut State, inst: &Inst, bits: usize) -> Result<(), End> {
    let bytes = if bits == 6 { 12 } else { 8 };
    let offset = inst.mem.offset as u32;
    let mut memory = vec![vec![false; bytes * 8]; 64];
    for lane in state.active() {
        let address = state.vgpr(register(state, inst.src[0]), lane).wrapping_add(offset);
        let loaded = ds_load(state, address, bytes)?;
        memory[lane as usize] =
            loaded.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 != 0)).collect();
    }
    for lane in state.active() {
        let (group, column) = (lane as usize / 16, lane as usize % 16);
        let matrix: Vec<bool> = memory[group * 16..][..16].concat();
        let rows: Vec<bool> =
            matrix.chunks(16 * bits).flat_map(|row| row[column * bits..][..bits].to_vec()).collect();
        for (n, word) in (0..).zip(rows.chunks(32)) {
            let value = word.iter().rev().fold(0, |value, bit| value << 1 | u32::from(*bit));
            state.set_vgpr(register(state, inst.dst) + n, lane, value);
        }
    }
    Ok(())
}

/// Loads or stores, for each lane, the registers that `M0` names of 32, register `n` `4 * n` bytes on.
pub(super) fn block(state: &mut State, inst: &Inst, is_load: bool) -> Result<(), End> {
    let on = |place: Place, n: u32| match place {
        Place::Global(va) => Place::Global(va.wrapping_add(u64::from(n) * 4)),
        Place::Lds(address) => Place::Lds(address.wrapping_add(n * 4)),
        Place::Private(offset) => Place::Private(offset.wrapping_add(n * 4)),
    };
    let mask = state.m0();
    let first = register(state, if is_load { inst.dst } else { inst.src[1] });
    let named: Vec<u32> = (0..32).filter(|n| mask >> n & 1 != 0).collect();
    let mut loaded = Vec::new();
    for lane in state.active() {
        let place = address(state, inst, lane, false);
        for &n in &named {
            if is_load {
                loaded.push((lane, n, number(&load(state, on(place, n), lane, 4)?) as u32));
            } else {
                let word = state.vgpr(first + n, lane);
                store(state, on(place, n), lane, &word.to_le_bytes())?;
            }
        }
    }
    for (lane, n, word) in loaded {
        state.set_vgpr(first + n, lane, word);
    }
    Ok(())
}
