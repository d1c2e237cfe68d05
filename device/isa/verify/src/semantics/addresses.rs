//! Addresses of memory instructions, inside the sandbox.

use belfry_isa::inst::{Format, Inst, Op, Operand};

use crate::engine::LDS_SIZE;
use crate::random::Random;
use crate::reference::State;
use crate::reference::state::{BASE, PRIVATE, SHARED};
use crate::target::Facts;

/// Returns true if a DS instruction has two addresses.
pub(super) fn has_two(inst: &Inst) -> bool {
    ["2addr", "read2", "write2", "wrxchg2"].iter().any(|part| inst.op.mnemonic().contains(part))
}

pub(super) fn is_strided(inst: &Inst) -> bool {
    inst.op.mnemonic().contains("stride64") || inst.op.mnemonic().contains("2st64")
}

pub(super) fn stores_two(inst: &Inst) -> bool {
    inst.op.mnemonic().contains("store_2addr") || inst.op.mnemonic().contains("write2")
}

/// Bytes an access takes at most.
fn bytes(inst: &Inst) -> u32 {
    let name = inst.op.mnemonic().replace("stride64", "").replace("2st64", "");
    let name = if inst.format == Format::Ds || !Facts::is_old_name(&name) { name } else { old_width(&name) };
    [("b512", 64), ("b256", 32), ("b128", 16), ("b96", 12), ("64", 8), ("8", 1), ("16", 2)]
        .iter()
        .find(|(text, _)| name.contains(text))
        .map_or(4, |(_, bytes)| *bytes)
}

/// The width of an operation whose name gives it in dwords, bytes and shorts.
fn old_width(name: &str) -> String {
    let widths = [
        ("dwordx16", "b512"),
        ("dwordx8", "b256"),
        ("dwordx4", "b128"),
        ("dwordx3", "b96"),
        ("dwordx2", "64"),
    ];
    let small = [("_x2", "64"), ("byte", "8"), ("short", "16")];
    let found = widths.iter().chain(&small).find(|(old, _)| name.contains(old));
    found.map_or(String::from("b32"), |(_, new)| (*new).to_owned())
}

/// Returns true if it reads, modifies and writes, for which addresses must be aligned.
pub(super) fn is_atomic(inst: &Inst) -> bool {
    let name = inst.op.mnemonic();
    let plain = ["load", "store_", "ds_read", "ds_write"].iter().any(|part| name.contains(part));
    name.contains("atomic") || (name.starts_with("ds_") && !plain)
}

/// A multiple of the access's size, or now and then not, when the access allows it.
fn place(random: &mut Random, inst: &Inst, limit: u32) -> u32 {
    let bytes = bytes(inst);
    let at = random.below((limit - bytes) as usize) as u32;
    if is_atomic(inst) || !random.one_in(4) {
        let unit = if bytes == 12 { 4 } else { bytes };
        at / unit * unit
    } else {
        at
    }
}

/// Puts addresses where the instruction takes them from.
pub(super) fn addresses(random: &mut Random, inst: &Inst, state: &mut State) {
    let offset = inst.mem.offset;
    match inst.format {
        Format::Ds => lds(random, inst, state),
        Format::Smem => {
            if inst.op.mnemonic().contains("buffer") {
                descriptor(random, inst.src[0], state);
            } else if let Operand::Sgpr(base) = inst.src[0] {
                state.set_pair(base, BASE + 1024 + random.below(256) as u64);
            }
            if let Operand::Sgpr(soffset) = inst.src[1]
                && Operand::Sgpr(soffset & !1) != inst.src[0]
            {
                // Pieces of 64 bytes stay inside the memory that there is.
                let limit = if inst.op.mnemonic().contains("scratch") { 32 } else { 256 };
                state.set_sgpr(soffset, random.below(limit) as u32);
            }
        }
        Format::Global | Format::Flat | Format::Scratch => {
            let Operand::Vgpr(vaddr) = inst.src[0] else {
                flat_scalar(inst, state);
                return;
            };
            let vaddr = u32::from(vaddr);
            let scalar = inst.src[2].is_some();
            // Runs of neighbours, as compilers make them, or anywhere.
            let start = place(random, inst, 1024);
            let (consecutive, step) = (random.one_in(3), bytes(inst));
            let below = u32::try_from(offset).unwrap_or(0);
            for lane in 0..state.lanes {
                let at = if consecutive { start + lane * step } else { 2048 + place(random, inst, 4096) };
                // Of scratch, with room for SADDR.
                let inside = 48 + place(random, inst, state.scratch_size - 48);
                match inst.format {
                    Format::Scratch => {
                        let scalar = if scalar { 16 } else { 0 };
                        state.set_vgpr(vaddr, lane, inside.wrapping_sub(offset as u32) - scalar);
                    }
                    Format::Global if scalar => {
                        let unaligned = at.saturating_sub(below);
                        state.set_vgpr(vaddr, lane, if is_atomic(inst) { unaligned & !7 } else { unaligned });
                    }
                    _ => {
                        let base = match if inst.format == Format::Flat { random.below(4) } else { 3 } {
                            0 => SHARED + 64 + u64::from(at % (LDS_SIZE as u32 - 128)),
                            1 => PRIVATE + u64::from(inside),
                            _ => BASE + 512 + u64::from(at),
                        };
                        state.set_vpair(vaddr, lane, base.wrapping_add_signed(-i64::from(offset)));
                    }
                }
            }
            flat_scalar(inst, state);
        }
        Format::Mubuf | Format::Mtbuf => {
            descriptor(random, inst.src[1], state);
            if let Operand::Sgpr(soffset) = inst.src[2] {
                state.set_sgpr(soffset, random.below(32) as u32 * 8);
            }
            let m0 = Facts::of(state.arch).m0;
            state.s[usize::from(m0)] = random.below(256) as u32 * 4;
            if inst.src[2] == Operand::Sgpr(m0) {
                state.s[usize::from(m0)] &= 0xf8;
            }
            let Operand::Vgpr(vaddr) = inst.src[0] else { return };
            for lane in 0..state.lanes {
                for register in 0..2 {
                    let value = if random.one_in(2) { lane } else { random.below(80) as u32 };
                    let value = if is_atomic(inst) { value * 8 } else { value };
                    state.set_vgpr(u32::from(vaddr) + register, lane, value);
                }
            }
        }
        Format::Mimg | Format::Vimage | Format::Vsample => super::images::addresses(random, inst, state),
        _ => {}
    }
}

/// SADDR.
fn flat_scalar(inst: &Inst, state: &mut State) {
    let Operand::Sgpr(saddr) = inst.src[2] else { return };
    match inst.format {
        Format::Scratch if inst.src[0].is_some() => state.set_sgpr(saddr, 16),
        Format::Scratch => state.set_sgpr(saddr, 64),
        _ => state.set_pair(saddr, BASE + 1024),
    }
}

/// Addresses of LDS.
fn lds(random: &mut Random, inst: &Inst, state: &mut State) {
    let name = inst.op.mnemonic();
    // Room for the offset and what two addresses add to it.
    let room = if has_two(inst) { 3 * 512 + 512 } else { 512 };
    if name.contains("addtid") || matches!(inst.op, Op::DS_APPEND | Op::DS_CONSUME) {
        // Now and then across the end of LDS, or behind it.
        let m0 = &mut state.s[usize::from(Facts::of(state.arch).m0)];
        let first = if random.one_in(4) { LDS_SIZE as u32 - 320 } else { 0 };
        *m0 = first + random.below(512) as u32 * 4;
        return;
    }
    if matches!(inst.op, Op::DS_SWIZZLE_B32) {
        return;
    }
    let Operand::Vgpr(address) = inst.src[0] else { return };
    // A few lanes meet at one address now and then.
    if stores_two(inst) {
        // Lanes whose elements meet would store them in no stated order.
        for lane in 0..state.lanes {
            state.set_vgpr(u32::from(address), lane, (lane ^ 5) * bytes(inst));
        }
        return;
    }
    let together = random.one_in(3).then(|| place(random, inst, 64));
    for lane in 0..state.lanes {
        let at = match together {
            Some(at) if random.one_in(2) => at,
            _ if random.one_in(8) => outside(random, inst),
            _ => place(random, inst, (LDS_SIZE - room - 16) as u32),
        };
        state.set_vgpr(u32::from(address), lane, at);
    }
}

/// An address at the end of LDS, after it or, with an offset, wrapping around.
fn outside(random: &mut Random, inst: &Inst) -> u32 {
    let at = random.pick(&[LDS_SIZE as u32 - 16, LDS_SIZE as u32, 0x1_0000, 0xffff_fe00]);
    let at = at + random.below(24) as u32;
    if is_atomic(inst) || !random.one_in(4) { at / bytes(inst) * bytes(inst) } else { at }
}

/// A buffer descriptor of memory in the sandbox.
fn descriptor(random: &mut Random, operand: Operand, state: &mut State) {
    let Operand::Sgpr(at) = operand else { return };
    let stride = random.below(6) as u32 * 8;
    let swizzle = if random.one_in(4) { random.below(4) as u32 } else { 0 };
    let limit = if random.one_in(2) { 600 } else { 70 };
    let records = random.below(limit) as u32;
    let base = BASE + 2048;
    state.set_sgpr(at, base as u32);
    state.set_sgpr(at + 1, (base >> 32) as u32 | stride << 16 | swizzle << 30);
    state.set_sgpr(at + 2, records);
    let add_thread = u32::from(random.one_in(8));
    let selects = if random.one_in(2) { 0b111_110_101_100 } else { random.word() & 0xfff };
    let format = random.below(if Facts::of(state.arch).is_gfx9 { 128 } else { 64 }) as u32;
    let index_stride = random.below(4) as u32;
    state.set_sgpr(
        at + 3,
        selects | format << 12 | index_stride << 21 | add_thread << 23 | (random.below(4) as u32) << 28,
    );
}
