//! Scalar loads, stores and atomics.

use belfry_isa::inst::{Inst, Operand};

use super::super::atomic::Function;
use super::super::gfx9;
use super::super::memory::{Transfer, transfer};
use super::super::state::{End, State};

/// SMEM.
pub(crate) fn memory(state: &mut State, inst: &Inst) -> Result<(), End> {
    let name = inst.op.mnemonic();
    if let Some(kind) = name.strip_prefix("s_scratch_") {
        return scratch(state, inst, kind);
    }
    if name.contains("_store_") || name.contains("_atomic_") {
        let name = gfx9::modern(name).ok_or(End::Unknown)?;
        return write(state, inst, &name);
    }
    let Operand::Sgpr(dst) = inst.dst else {
        // Cache control and probes.
        return if name.contains("load") { Err(End::Unknown) } else { Ok(()) };
    };
    if matches!(inst.op, belfry_isa::inst::Op::S_MEMTIME | belfry_isa::inst::Op::S_MEMREALTIME) {
        // The clock stands.
        state.set_pair(dst, 0);
        return Ok(());
    }
    if name.starts_with("s_atc_probe") {
        return Ok(());
    }
    if let Some(narrow) = transfer(name.trim_start_matches("s_")).filter(|narrow| narrow.bytes < 4) {
        return one(state, inst, dst, narrow);
    }
    let dwords = match name.rsplit_once("_b") {
        Some((_, bits)) => bits.parse::<u32>().map_err(|_| End::Unknown)? / 32,
        None => return Err(End::Unknown),
    };
    let Operand::Sgpr(base) = inst.src[0] else { return Err(End::Unknown) };
    let soffset = if inst.src[1].is_some() { state.scalar(inst.src[1]) } else { 0 };
    // Of each part of an address the low two bits count as 0.
    let offset = i64::from(soffset & !3) + i64::from(inst.mem.offset & !3);
    let mut words = Vec::new();
    if name.starts_with("s_buffer_load") {
        let descriptor = [0, 1, 2, 3].map(|n| state.sgpr(base.wrapping_add(n)));
        let address = u64::from(descriptor[0]) | u64::from(descriptor[1] & 0xffff) << 32;
        let stride = u64::from(descriptor[1] >> 16 & 0x3fff);
        let size = if stride == 0 { u64::from(descriptor[2]) } else { u64::from(descriptor[2]) * stride };
        for n in 0..dwords {
            let at = (offset as u64 & !3).wrapping_add(u64::from(n) * 4);
            let inside = offset >= 0 && at + 4 <= size;
            words.push(if inside {
                state.load_number((address & !3).wrapping_add(at), 4)? as u32
            } else {
                0
            });
        }
    } else {
        let va = (state.pair(base) & !3).wrapping_add_signed(offset);
        for n in 0..dwords {
            words.push(state.load_number(va.wrapping_add(u64::from(n) * 4), 4)? as u32);
        }
    }
    for (n, word) in (0..).zip(words) {
        state.set_sgpr(if dst == state.null() { state.null() } else { dst.wrapping_add(n) }, word);
    }
    Ok(())
}

/// A load of 8 or 16 bits, at any address.
fn one(state: &mut State, inst: &Inst, dst: u8, transfer: Transfer) -> Result<(), End> {
    let Operand::Sgpr(base) = inst.src[0] else { return Err(End::Unknown) };
    let soffset = if inst.src[1].is_some() { state.scalar(inst.src[1]) } else { 0 };
    let value = if inst.op.mnemonic().contains("buffer") {
        let descriptor = [0, 1, 2].map(|n| state.sgpr(base.wrapping_add(n)));
        let address = u64::from(descriptor[0]) | u64::from(descriptor[1] & 0xffff) << 32;
        let stride = u64::from(descriptor[1] >> 16 & 0x3fff);
        let size = u64::from(descriptor[2]) * stride.max(1);
        let offset = u64::from(soffset.wrapping_add(inst.mem.offset as u32));
        if offset + transfer.bytes as u64 > size {
            0
        } else {
            state.load_number(address.wrapping_add(offset), transfer.bytes)?
        }
    } else {
        let offset = i64::from(soffset) + i64::from(inst.mem.offset);
        state.load_number(state.pair(base).wrapping_add_signed(offset), transfer.bytes)?
    };
    let bits = 64 - 8 * transfer.bytes as u32;
    let extended = ((value << bits) as i64 >> bits) as u64;
    state.set_sgpr(dst, if transfer.signed { extended } else { value } as u32);
    Ok(())
}

/// Bytes from the first register of a scalar operand on.
fn registers(state: &State, first: u8, bytes: usize) -> Vec<u8> {
    (0..bytes / 4).flat_map(|n| state.sgpr(first.wrapping_add(n as u8)).to_le_bytes()).collect()
}

/// `load_dword*` and `store_dword*` of scratch: the offset in a register is a number of 64-byte pieces.
fn scratch(state: &mut State, inst: &Inst, kind: &str) -> Result<(), End> {
    let (verb, width) = kind.split_once("_dword").ok_or(End::Unknown)?;
    let dwords = if width.is_empty() { 1 } else { width[1..].parse::<u8>().map_err(|_| End::Unknown)? };
    let Operand::Sgpr(base) = inst.src[0] else { return Err(End::Unknown) };
    let pieces = if inst.src[1].is_some() { u64::from(state.scalar(inst.src[1])) } else { 0 };
    let immediate = i64::from(inst.mem.offset) & !3;
    let va = (state.pair(base) & !3).wrapping_add(pieces << 6).wrapping_add(immediate as u64);
    match (verb, inst.dst, inst.src[2]) {
        ("load", Operand::Sgpr(dst), _) => {
            let read = state.load(va, usize::from(dwords) * 4)?;
            for (n, word) in (0..).zip(read.chunks_exact(4)) {
                let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
                state.set_sgpr(dst.wrapping_add(n), word);
            }
            Ok(())
        }
        ("store", _, Operand::Sgpr(data)) => {
            state.store(va, &registers(state, data, usize::from(dwords) * 4))
        }
        _ => Err(End::Unknown),
    }
}

/// Stores and atomics: bytes beyond the end of a buffer are not written, and an atomic there reads 0.
fn write(state: &mut State, inst: &Inst, name: &str) -> Result<(), End> {
    let (Operand::Sgpr(base), Operand::Sgpr(data)) = (inst.src[0], inst.src[2]) else {
        return Err(End::Unknown);
    };
    let soffset = if inst.src[1].is_some() { state.scalar(inst.src[1]) } else { 0 };
    let offset = i64::from(soffset & !3) + i64::from(inst.mem.offset & !3);
    let (va, room) = if name.starts_with("s_buffer") {
        let [low, high, records] = [0, 1, 2].map(|n| u64::from(state.sgpr(base.wrapping_add(n))));
        let stride = high >> 16 & 0x3fff;
        let (offset, size) = (u64::from(offset as u32), records * stride.max(1));
        let start = low & !3 | (high & 0xffff) << 32;
        (start.wrapping_add(offset), size.saturating_sub(offset))
    } else {
        ((state.pair(base) & !3).wrapping_add_signed(offset), u64::MAX)
    };
    if let Some((_, function)) = name.split_once("_atomic_") {
        let function = Function::parse(function).ok_or(End::Unknown)?;
        let bytes = function.bits as usize / 8;
        let value = |state: &State, first: u8| {
            let bytes = registers(state, first, bytes);
            bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let operands = [value(state, data), value(state, data.wrapping_add(bytes as u8 / 4))];
        let old = match () {
            () if room < bytes as u64 => 0,
            () if va % bytes as u64 != 0 => return Err(End::Memory),
            () => {
                let old = state.load_number(va, bytes)?;
                let new = function.apply(old, operands[0], operands[1]);
                state.store(va, &new.to_le_bytes()[..bytes])?;
                old
            }
        };
        if let Operand::Sgpr(dst) = inst.dst {
            for n in 0..bytes / 4 {
                state.set_sgpr(dst.wrapping_add(n as u8), (old >> (32 * n)) as u32);
            }
        }
        return Ok(());
    }
    let (_, bits) = name.rsplit_once("_b").ok_or(End::Unknown)?;
    let bytes = bits.parse::<usize>().map_err(|_| End::Unknown)? / 8;
    let inside = (bytes as u64).min(room) as usize / 4 * 4;
    if inside == 0 { Ok(()) } else { state.store(va, &registers(state, data, bytes)[..inside]) }
}
