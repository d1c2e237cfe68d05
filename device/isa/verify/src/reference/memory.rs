//! DS, FLAT, GLOBAL and SCRATCH.

use belfry_isa::exec::{GwsOp, GwsRequest, Stop};
use belfry_isa::inst::{Arch, Format, Inst, Op, Operand};

use super::atomic::Function;
use super::blocks;
use super::state::{End, PRIVATE, SHARED, State, number};

pub(super) fn register(state: &State, operand: Operand) -> u32 {
    state.vector_register(operand).unwrap_or_default()
}

/// Place of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// An address of the sandbox.
    Global(u64),
    /// An LDS byte.
    Lds(u32),
    /// A byte of the lane's scratch.
    Private(u32),
}

/// A byte of scratch: dwords of all lanes are interleaved.
fn private(state: &State, lane: u32, offset: u32) -> Result<u64, End> {
    if offset >= state.scratch_size {
        return Err(End::Memory);
    }
    Ok(state.scratch + u64::from(offset / 4 * 4 * state.lanes + lane * 4 + offset % 4))
}

/// Loads a little-endian number of bytes.
pub(crate) fn load(state: &State, place: Place, lane: u32, count: usize) -> Result<Vec<u8>, End> {
    match place {
        Place::Global(va) => state.load(va, count),
        Place::Lds(address) => state.lds_load(address, count),
        Place::Private(offset) => {
            let mut bytes = Vec::new();
            for n in 0..count as u32 {
                bytes.extend(state.load(private(state, lane, offset.wrapping_add(n))?, 1)?);
            }
            Ok(bytes)
        }
    }
}

/// Stores bytes.
pub(crate) fn store(state: &mut State, place: Place, lane: u32, bytes: &[u8]) -> Result<(), End> {
    match place {
        Place::Global(va) => state.store(va, bytes),
        Place::Lds(address) => state.lds_store(address, bytes),
        Place::Private(offset) => {
            for (n, byte) in (0..).zip(bytes) {
                let va = private(state, lane, offset.wrapping_add(n))?;
                state.store(va, &[*byte])?;
            }
            Ok(())
        }
    }
}

/// Meaning of a load's name: bytes, sign, and which half of the register it fills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Bytes in memory.
    pub(crate) bytes: usize,
    /// Sign-extended.
    pub(crate) signed: bool,
    /// 16-bit result in the low or high half.
    pub(crate) half: Option<bool>,
}

/// Reads `u8`, `b64`, `d16_hi_i8`, `u16_d16_hi` and the like.
pub(crate) fn transfer(name: &str) -> Option<Transfer> {
    let high = name.contains("d16_hi");
    let d16 = name.contains("d16");
    let kind = name.split('_').find(|part| {
        let (first, rest) = part.split_at(1.min(part.len()));
        matches!(first, "u" | "i" | "b") && rest.parse::<u32>().is_ok()
    })?;
    let bits: usize = kind[1..].parse().ok()?;
    Some(Transfer { bytes: bits / 8, signed: kind.starts_with('i'), half: d16.then_some(high) })
}

/// Puts loaded bytes into registers.
pub(crate) fn put(state: &mut State, dst: u32, lane: u32, transfer: Transfer, bytes: &[u8]) {
    if transfer.bytes >= 4 {
        for (n, word) in (0..).zip(bytes.chunks(4)) {
            state.set_vgpr(dst + n, lane, number(word) as u32);
        }
        return;
    }
    let raw = number(bytes);
    let value = match (transfer.signed, transfer.bytes) {
        (true, 1) => raw as u8 as i8 as i32 as u32,
        (true, _) => raw as u16 as i16 as i32 as u32,
        _ => raw as u32,
    };
    let old = state.vgpr(dst, lane);
    let value = match transfer.half {
        None => value,
        // Memory with ECC loads whole registers.
        Some(high) if state.facts().is_gfx9 => (value & 0xffff) << if high { 16 } else { 0 },
        Some(false) => old & 0xffff_0000 | value & 0xffff,
        Some(true) => old & 0xffff | value << 16,
    };
    state.set_vgpr(dst, lane, value);
}

/// Takes bytes to store from registers.
pub(crate) fn take(state: &State, src: u32, lane: u32, transfer: Transfer) -> Vec<u8> {
    if transfer.bytes >= 4 {
        return (0..transfer.bytes as u32 / 4)
            .flat_map(|n| state.vgpr(src + n, lane).to_le_bytes())
            .collect();
    }
    let word = state.vgpr(src, lane);
    let word = if transfer.half == Some(true) { word >> 16 } else { word };
    word.to_le_bytes()[..transfer.bytes].to_vec()
}

/// Data of `bits` from registers.
fn data(state: &State, src: u32, lane: u32, bits: u32) -> u64 {
    if bits == 64 { state.vpair(src, lane) } else { u64::from(state.vgpr(src, lane)) }
}

/// A read-modify-write at a place; the old value.
pub(crate) fn update(
    state: &mut State,
    place: Place,
    lane: u32,
    function: &Function,
    operands: [u64; 2],
) -> Result<u64, End> {
    let bytes = function.bits as usize / 8;
    // Atomics of memory and of LDS are aligned.
    match place {
        Place::Global(va) if va % bytes as u64 != 0 => return Err(End::Memory),
        Place::Lds(address) => aligned(address, function.bits / 8)?,
        _ => {}
    }
    let old = number(&load(state, place, lane, bytes)?);
    let new = match place {
        Place::Lds(_) => function.in_lds(old, operands, state.mode),
        _ => function.apply(old, operands[0], operands[1]),
    };
    store(state, place, lane, &new.to_le_bytes()[..bytes])?;
    Ok(old)
}

fn set(state: &mut State, dst: u32, lane: u32, bits: u32, value: u64) {
    if bits == 64 { state.set_vpair(dst, lane, value) } else { state.set_vgpr(dst, lane, value as u32) }
}

/// FLAT, GLOBAL and SCRATCH.
pub(crate) fn flat(state: &mut State, inst: &Inst) -> Result<(), End> {
    let mnemonic = inst.op.mnemonic();
    if matches!(inst.op, Op::GLOBAL_INV | Op::GLOBAL_WB | Op::GLOBAL_WBINV) {
        // Everything is in order, and there are no caches.
        return Ok(());
    }
    let (_, name) = mnemonic.split_once('_').ok_or(End::Unknown)?;
    if let Some(moved) = name.strip_prefix("load_lds_") {
        return to_lds(state, inst, moved);
    }
    if let Some(bits) = name.strip_prefix("load_tr_b") {
        return blocks::transposed(state, inst, if bits == "128" { 2 } else { 1 });
    }
    if name.ends_with("_block") {
        return blocks::block(state, inst, name.starts_with("load"));
    }
    for lane in state.active() {
        let place = address(state, inst, lane, name.contains("addtid"));
        if let Some(name) = name.strip_prefix("atomic_") {
            let function = Function::parse(name).ok_or(End::Unknown)?;
            let src = register(state, inst.src[1]);
            let first = data(state, src, lane, function.bits);
            let second = if function.has_two() {
                data(state, src + function.bits / 32, lane, function.bits)
            } else {
                0
            };
            let old = update(state, place, lane, &function, [first, second])?;
            if inst.mem.glc {
                set(state, register(state, inst.dst), lane, function.bits, old);
            }
            continue;
        }
        let transfer = transfer(name).ok_or(End::Unknown)?;
        if name.starts_with("load") {
            let bytes = load(state, place, lane, transfer.bytes)?;
            put(state, register(state, inst.dst), lane, transfer, &bytes);
        } else {
            let bytes = take(state, register(state, inst.src[1]), lane, transfer);
            store(state, place, lane, &bytes)?;
        }
    }
    Ok(())
}

/// A load to LDS: a row of dwords for each lane, side by side from `M0` and the offset on.
fn to_lds(state: &mut State, inst: &Inst, moved: &str) -> Result<(), End> {
    let (bytes, signed) = match moved {
        "ubyte" => (1, false),
        "sbyte" => (1, true),
        "ushort" => (2, false),
        "sshort" => (2, true),
        "dword" => (4, false),
        "dwordx3" => (12, false),
        "dwordx4" => (16, false),
        _ => return Err(End::Unknown),
    };
    let mut rows = Vec::new();
    for lane in state.active() {
        let mut row = load(state, address(state, inst, lane, false), lane, bytes)?;
        if bytes < 4 {
            let fill = if signed && row[bytes - 1] & 0x80 != 0 { 0xff } else { 0 };
            row.resize(4, fill);
        }
        rows.push((lane, row));
    }
    let first = (state.m0() & 0xffff).wrapping_add(inst.mem.offset as u32);
    for (lane, row) in rows {
        let own = first.wrapping_add(lane * row.len() as u32);
        for (at, word) in (0..).step_by(4).zip(row.chunks(4)) {
            ds_store(state, own.wrapping_add(at), word)?;
        }
    }
    Ok(())
}

/// The address of a lane.
pub(super) fn address(state: &State, inst: &Inst, lane: u32, by_thread: bool) -> Place {
    let offset = i64::from(inst.mem.offset);
    let saddr = inst.src[2].is_some() && inst.src[2] != Operand::Sgpr(state.null());
    match inst.format {
        Format::Global if by_thread => {
            let base = if saddr { state.scalar64(inst.src[2], false) } else { 0 };
            Place::Global(base.wrapping_add_signed(offset).wrapping_add(u64::from(lane) * 4))
        }
        Format::Global if saddr => {
            let vector = state.vgpr(register(state, inst.src[0]), lane);
            let base = state.scalar64(inst.src[2], false);
            Place::Global(base.wrapping_add(u64::from(vector)).wrapping_add_signed(offset))
        }
        Format::Scratch => {
            let vector =
                if inst.src[0].is_some() { state.vgpr(register(state, inst.src[0]), lane) } else { 0 };
            let scalar = if saddr { state.scalar(inst.src[2]) } else { 0 };
            Place::Private(vector.wrapping_add(scalar).wrapping_add(inst.mem.offset as u32))
        }
        _ => {
            // The register alone says which memory it is.
            let base = state.vpair(register(state, inst.src[0]), lane);
            let va = base.wrapping_add_signed(offset);
            match base >> 32 {
                _ if inst.format == Format::Global => Place::Global(va),
                window if window == SHARED >> 32 => Place::Lds(va as u32),
                window if window == PRIVATE >> 32 => Place::Private(va as u32),
                _ => Place::Global(va),
            }
        }
    }
}

/// Returns true if all bytes at an LDS address are the workgroup's.
fn inside(state: &State, address: u32, count: u32) -> bool {
    u64::from(address) + u64::from(count) <= state.lds.len() as u64
}

/// Reads the bytes of a DS instruction: 0 if not all of them are inside.
pub(super) fn ds_load(state: &State, address: u32, count: usize) -> Result<Vec<u8>, End> {
    if inside(state, address, count as u32) { state.lds_load(address, count) } else { Ok(vec![0; count]) }
}

/// Writes the bytes of a DS instruction, if all of them are inside.
fn ds_store(state: &mut State, address: u32, bytes: &[u8]) -> Result<(), End> {
    if inside(state, address, bytes.len() as u32) { state.lds_store(address, bytes) } else { Ok(()) }
}

/// Atomics are aligned.
fn aligned(address: u32, bytes: u32) -> Result<(), End> {
    if address.is_multiple_of(bytes) { Ok(()) } else { Err(End::Lds) }
}

/// Returns the request of a `ds_gws_*` instruction.
fn global_wave_sync(state: &State, inst: &Inst) -> Option<GwsRequest> {
    let (op, has_data) = match inst.op {
        Op::DS_GWS_INIT => (GwsOp::Init, true),
        Op::DS_GWS_BARRIER => (GwsOp::Barrier, true),
        Op::DS_GWS_SEMA_BR => (GwsOp::SemaBr, true),
        Op::DS_GWS_SEMA_P => (GwsOp::SemaP, false),
        Op::DS_GWS_SEMA_V => (GwsOp::SemaV, false),
        Op::DS_GWS_SEMA_RELEASE_ALL => (GwsOp::SemaReleaseAll, false),
        _ => return None,
    };
    let resource = ((state.m0() >> 16 & 63) + (inst.mem.offset as u32 & 63)) & 63;
    let lane = state.active().next().unwrap_or(0);
    let value = if has_data { state.vgpr(register(state, inst.src[1]), lane) } else { 0 };
    Some(GwsRequest { op, resource: resource as u8, value })
}

/// DS.
pub(crate) fn ds(state: &mut State, inst: &Inst) -> Result<(), End> {
    let name = inst.op.mnemonic().strip_prefix("ds_").ok_or(End::Unknown)?;
    if let Some(asked) = global_wave_sync(state, inst) {
        return Err(End::Stop(format!("{:?}", Stop::GlobalWaveSync(asked))));
    }
    if inst.mem.gds {
        return Err(End::Unknown);
    }
    if let Some((_, bits)) = name.split_once("_tr_b") {
        return blocks::transposed_lds(state, inst, bits.parse().map_err(|_| End::Unknown)?);
    }
    let dst = register(state, inst.dst);
    let (data0, data1) = (register(state, inst.src[1]), register(state, inst.src[2]));
    let offset = inst.mem.offset as u32;
    match inst.op {
        Op::DS_NOP => return Ok(()),
        Op::DS_APPEND | Op::DS_CONSUME => {
            let address = (state.m0() & 0xffff).wrapping_add(offset);
            let count = state.exec().count_ones();
            if count > 0 {
                aligned(address, 4)?;
            }
            let old = number(&ds_load(state, address, 4)?) as u32;
            let new =
                if inst.op == Op::DS_APPEND { old.wrapping_add(count) } else { old.wrapping_sub(count) };
            ds_store(state, address, &new.to_le_bytes())?;
            for lane in state.active() {
                state.set_vgpr(dst, lane, old);
            }
            return Ok(());
        }
        Op::DS_PERMUTE_B32 | Op::DS_BPERMUTE_B32 | Op::DS_SWIZZLE_B32 => {
            exchange(state, inst);
            return Ok(());
        }
        _ => {}
    }
    for lane in state.active() {
        let base = if name.contains("addtid") {
            (state.m0() & 0xffff).wrapping_add(lane * 4)
        } else {
            state.vgpr(register(state, inst.src[0]), lane)
        };
        let at = base.wrapping_add(offset);
        if name.contains("2addr") {
            two(state, inst, name, lane, base)?;
        } else if inst.op == Op::DS_CONDXCHG32_RTN_B64 {
            aligned(at, 8)?;
            let old = number(&ds_load(state, at, 8)?);
            let new = state.vpair(data0, lane);
            let word = |shift: u32| {
                let (old, new) = ((old >> shift) as u32, (new >> shift) as u32);
                u64::from(if new >> 31 != 0 { new & 0x7fff_ffff } else { old }) << shift
            };
            ds_store(state, at, &(word(0) | word(32)).to_le_bytes())?;
            state.set_vpair(dst, lane, old);
        } else if let Some(name) = name.strip_prefix("load_") {
            let transfer = transfer_of_addtid(name)?;
            let bytes = ds_load(state, at, transfer.bytes)?;
            put(state, dst, lane, transfer, &bytes);
        } else if name.starts_with("store_") {
            let transfer = transfer_of_addtid(name)?;
            let bytes = take(state, data0, lane, transfer);
            ds_store(state, at, &bytes)?;
        } else {
            let function = Function::parse(&name.replace("_rtn", "")).ok_or(End::Unknown)?;
            let operands = [data(state, data0, lane, function.bits), data(state, data1, lane, function.bits)];
            aligned(at, function.bits / 8)?;
            let old = if inside(state, at, function.bits / 8) {
                update(state, Place::Lds(at), lane, &function, operands)?
            } else {
                0
            };
            if name.contains("_rtn") {
                set(state, dst, lane, function.bits, old);
            }
        }
    }
    Ok(())
}

fn transfer_of_addtid(name: &str) -> Result<Transfer, End> {
    transfer(name).ok_or(End::Unknown)
}

/// Two elements at offsets of their own.
fn two(state: &mut State, inst: &Inst, name: &str, lane: u32, base: u32) -> Result<(), End> {
    let wide = name.ends_with("b64");
    let bytes: u32 = if wide { 8 } else { 4 };
    let unit = if name.contains("stride64") { bytes * 64 } else { bytes };
    let at = [
        base.wrapping_add(inst.mem.offset as u32 * unit),
        base.wrapping_add(u32::from(inst.mem.offset1) * unit),
    ];
    let (dst, bits) = (register(state, inst.dst), bytes * 8);
    let values = [1, 2].map(|n| data(state, register(state, inst.src[n]), lane, bits).to_le_bytes());
    let mut old = [0; 2];
    let both = at.iter().all(|&at| inside(state, at, bytes));
    if name.starts_with("storexchg") {
        at.iter().try_for_each(|&at| aligned(at, bytes))?;
    }
    if !name.starts_with("store_") && both {
        for (old, at) in old.iter_mut().zip(at) {
            *old = number(&state.lds_load(at, bytes as usize)?);
        }
    }
    if name.starts_with("storexchg") && !both {
        // Nothing is exchanged.
    } else if name.starts_with("storexchg") {
        // The second exchange sees what the first has stored.
        state.lds_store(at[0], &values[0][..bytes as usize])?;
        old[1] = number(&state.lds_load(at[1], bytes as usize)?);
        state.lds_store(at[1], &values[1][..bytes as usize])?;
    } else if name.starts_with("store_") {
        for (value, at) in values.iter().zip(at) {
            ds_store(state, at, &value[..bytes as usize])?;
        }
    }
    if !name.starts_with("store_") {
        set(state, dst, lane, bits, old[0]);
        set(state, dst + bits / 32, lane, bits, old[1]);
    }
    Ok(())
}

/// Exchanges of data between lanes; a lane that is off gives 0. Of gfx11 a wave64 has two groups of 32.
fn exchange(state: &mut State, inst: &Inst) {
    let before = state.clone();
    let exec = before.exec();
    let offset = inst.mem.offset as u32;
    let (dst, address) = (register(state, inst.dst), register(state, inst.src[0]));
    let value =
        |register: u32, lane: u32| if exec >> lane & 1 != 0 { before.vgpr(register, lane) } else { 0 };
    let named = |lane: u32| before.vgpr(address, lane).wrapping_add(offset) / 4;
    let halves = matches!(before.arch, Arch::Gfx1100 | Arch::Gfx1151);
    let whole = !halves && before.lanes == 64;
    let target = |lane: u32| if whole { named(lane) % 64 } else { lane / 32 * 32 + named(lane) % 32 };
    let src = register(state, inst.src[1]);
    match inst.op {
        Op::DS_BPERMUTE_B32 => {
            for lane in before.active() {
                state.set_vgpr(dst, lane, value(src, target(lane)));
            }
        }
        Op::DS_PERMUTE_B32 => {
            let mut received = [0; 64];
            for lane in before.active() {
                received[target(lane) as usize] = value(src, lane);
            }
            for lane in before.active() {
                state.set_vgpr(dst, lane, received[lane as usize]);
            }
        }
        _ => {
            for lane in before.active() {
                let at = lane & 31;
                let from = if offset >= 0xe000 {
                    // FFT: the number's bits reversed, without those of the mask, which stay.
                    let mask = offset & 31;
                    let reversed = (0..5).fold(0, |r, n| r | (at >> n & 1) << (4 - n));
                    reversed >> mask.count_ones() | at & mask
                } else if offset >= 0xc000 {
                    let (amount, left, mask) = (offset >> 5 & 31, offset >> 10 & 1 == 0, offset & 31);
                    let moved = if left { at + amount } else { at.wrapping_sub(amount) };
                    at & mask | moved & !mask & 31
                } else if offset >= 0x8000 {
                    at & !3 | offset >> ((at & 3) * 2) & 3
                } else {
                    (at & offset & 31 | offset >> 5 & 31) ^ (offset >> 10 & 31)
                };
                state.set_vgpr(dst, lane, value(address, lane & 32 | from));
            }
        }
    }
}
