//! One instruction with operands drawn at random, and a state in which it can run.

use belfry_isa::decode::decode_for;
use belfry_isa::disasm::Disassembly;
use belfry_isa::encode::encode;
use belfry_isa::inst::{Dpp, Format, Inst, Op, Operand, WaveSize};
use belfry_isa::tables::{OperandType, Pattern, Place, operand_types};

use super::addresses::{addresses, has_two, is_atomic, is_strided, stores_two};
use super::{images, values};
use crate::engine::{CODE, CODE_SIZE, VGPRS};
use crate::random::Random;
use crate::reference::State;
use crate::target::{Facts, Target};

/// Byte of the code where the instruction is.
pub(crate) const START: usize = CODE_SIZE / 2;
/// Number of the hardware register `MODE`.
const MODE: u32 = 1;
/// Attempts at an instruction that can run.
const ATTEMPTS: usize = 64;

/// Registers that operands may be in: those below these numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// Vector registers.
    pub(crate) vector: u32,
    /// Scalar registers.
    pub(crate) scalar: u32,
    /// Hardware registers other than `MODE` are read, and `TRAPSTS` is written.
    pub(crate) hardware: bool,
}

/// All there are.
pub(crate) const ALL: Registers = Registers { vector: VGPRS as u32, scalar: 104, hardware: true };

/// Draws an instruction of `pattern`; `None` when there is none in waves of this size.
pub(crate) fn instruction(
    random: &mut Random,
    pattern: &Pattern,
    target: Target,
    registers: Registers,
) -> Option<Inst> {
    for _ in 0..ATTEMPTS {
        let noise = u128::from(random.long()) << 64 | u128::from(random.long());
        let mut bits = noise & !pattern.mask | pattern.value;
        // DPP8 is marked by an operand; of 32 bits behind it a literal may follow.
        if random.one_in(2) {
            let long = matches!(pattern.format, Format::Vop3 | Format::Vop3Sd | Format::Vop3P);
            let at = if long { 32 } else { 0 };
            let marker = random.pick(&[0xe9u128, 0xea, 0xff]);
            bits = bits & !(0xff << at & !pattern.mask) | marker << at & !pattern.mask;
        }
        let Ok(mut inst) = decode_for(target.arch, target.wave, &bits.to_le_bytes()) else { continue };
        if inst.op != pattern.op
            || inst.format != pattern.format
            || !settle(random, &mut inst, target, registers)
        {
            continue;
        }
        let Ok(encoded) = encode(target.arch, &inst) else { continue };
        // Implied operands follow from the ones that changed.
        let Ok(inst) = decode_for(target.arch, target.wave, encoded.bytes()) else { continue };
        // What no assembler takes; for gfx1201 LLVM takes no high halves in the short encodings either, but hardware does.
        let text = Disassembly::new(inst, target.arch, target.wave)
            .to_string()
            .replace("_Lo128' register class*/", "");
        if !text.contains("*/") {
            return Some(inst);
        }
    }
    None
}

/// Brings operands and fields into ranges that exist in the sandbox; `false` when the instruction cannot be used.
fn settle(random: &mut Random, inst: &mut Inst, target: Target, registers: Registers) -> bool {
    let types = operand_types(target.arch, inst);
    let inst_format = inst.format;
    let null = Facts::of(target.arch).null;
    let last_scalar = if Facts::of(target.arch).is_gfx9 { 102 } else { 106 };
    for operand in &types {
        let words = width(operand, target);
        let destination = matches!(operand.place, Place::Dst | Place::Dst2 | Place::DualDst);
        let Some(slot) = slot(inst, operand.place) else { continue };
        // There, tuples of vector registers begin at even ones.
        let even: u8 = if Facts::of(target.arch).is_gfx9 && words > 1 { !1 } else { !0 };
        match slot {
            // Lane masks are in scalar registers.
            Operand::Vgpr(_) | Operand::Agpr(_) if operand.mask => return false,
            Operand::Vgpr(number) => {
                let last = registers.vector - words;
                *slot = Operand::Vgpr((u32::from(*number) % (last + 1)) as u8 & even);
            }
            Operand::Agpr(number) => {
                let last = Facts::of(target.arch).accumulators as u32 - words;
                *slot = Operand::Agpr((u32::from(*number) % (last + 1)) as u8 & even);
            }
            // No register, although LLVM lists it as one.
            Operand::Sgpr(125) if Facts::of(target.arch).is_gfx9 => return false,
            // Trap temporaries are for trap handlers only.
            Operand::Sgpr(number @ 108..=123) => *slot = Operand::Sgpr(*number - 108),
            // A result wider than these is cut off in no documented way.
            Operand::Sgpr(106..=127) if words > 2 && destination => return false,
            // A descriptor or address in NULL.
            &mut Operand::Sgpr(number)
                if number == null && words > 1 && !destination && memory(inst_format) =>
            {
                return false;
            }
            Operand::LdsDirect | Operand::PopsExitingWaveId => return false,
            Operand::SharedBase
            | Operand::SharedLimit
            | Operand::PrivateBase
            | Operand::PrivateLimit
            | Operand::Scc
            | Operand::Vccz
            | Operand::Execz
                if words > 2 =>
            {
                return false;
            }
            // Results and lane masks are in registers.
            slot if (destination || operand.mask)
                && !matches!(slot, Operand::Vgpr(_) | Operand::Agpr(_) | Operand::Sgpr(_)) =>
            {
                return false;
            }
            _ => {}
        }
        let aligned = match words {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        if let Some(Operand::Sgpr(number @ 0..=105)) = slot_of(inst, operand.place)
            && let Some(slot) = slot_mut(inst, operand.place)
        {
            let number = {
                let scalar = registers.scalar.min(last_scalar);
                (u32::from(number) % scalar).min(scalar - words) / aligned * aligned
            };
            *slot = Operand::Sgpr(number as u8);
        }
    }
    if let Some(Dpp::Dpp16(dpp)) = &mut inst.dpp {
        // Other controls are reserved, and a row is shifted by 1 to 15.
        dpp.ctrl = match random.below(8) {
            0 | 1 => dpp.ctrl & 0xff,
            2 => 0x101 + dpp.ctrl % 15,
            3 => 0x111 + dpp.ctrl % 15,
            4 => 0x121 + dpp.ctrl % 15,
            5 if Facts::of(target.arch).is_gfx9 && random.one_in(2) => {
                random.pick(&[0x130, 0x134, 0x138, 0x13c, 0x142, 0x143])
            }
            5 => 0x140 + dpp.ctrl % 2,
            _ if Facts::of(target.arch).is_gfx9 => 0x150 + dpp.ctrl % 16,
            6 => 0x150 + dpp.ctrl % 16,
            _ => 0x160 + dpp.ctrl % 16,
        };
        if random.one_in(2) {
            (dpp.row_mask, dpp.bank_mask) = (15, 15);
        }
    }
    memory_fields(random, inst);
    match inst.op {
        // Branches stay in the code.
        Op::S_CALL_B64 | Op::S_SUBVECTOR_LOOP_BEGIN | Op::S_SUBVECTOR_LOOP_END => branch(random, inst),
        _ if inst.format == Format::Sopp && inst.branch_target(0).is_some() => branch(random, inst),
        // The clock; other messages are the device's business.
        Op::S_SENDMSG_RTN_B32 | Op::S_SENDMSG_RTN_B64 => inst.imm = 131,
        // The barriers without names; those that are in M0 stay there.
        Op::S_BARRIER_SIGNAL | Op::S_BARRIER_SIGNAL_ISFIRST | Op::S_GET_BARRIER_STATE
            if matches!(inst.src[0], Operand::InlineInt(_)) && random.one_in(2) =>
        {
            inst.src[0] = Operand::InlineInt(random.pick(&[-2, -1, 0]));
        }
        // Two messages are a compute wave's.
        Op::S_SENDMSG | Op::S_SENDMSGHALT if random.one_in(2) => inst.imm = random.pick(&[1, 3]),
        Op::S_GETREG_B32 | Op::S_SETREG_B32 | Op::S_SETREG_IMM32_B32 => {
            let facts = Facts::of(target.arch);
            let reads = inst.op == Op::S_GETREG_B32;
            let (offset, width) = (inst.imm >> 6 & 31, 1 + (inst.imm >> 11 & 31));
            let id = match random.below(4) {
                0 | 1 if registers.hardware && reads => random.pick(facts.hardware),
                0 if registers.hardware => facts.exceptions,
                _ => MODE,
            };
            let (offset, width) = match id {
                MODE if !reads && random.one_in(4) => (23, 1),
                // The bits that change how others calculate; those that enable exceptions stay.
                MODE if !reads => (offset & 7, 1 + (width - 1) % (10 - (offset & 7))),
                _ => (offset, width.min(32 - offset)),
            };
            inst.imm = id | offset << 6 | (width - 1) << 11;
        }
        _ => {}
    }
    if inst.op.mnemonic().contains("movrel")
        || matches!(inst.op, Op::S_SETPC_B64 | Op::S_SWAPPC_B64 | Op::S_RFE_B64)
    {
        // Registers the state below knows how to set, and relative ones that are SGPRs.
        return matches!(inst.src[0], Operand::Sgpr(0..=105) | Operand::Vgpr(_))
            && !matches!(inst.dst, Operand::Sgpr(106..));
    }
    if matches!(inst.op, Op::V_SWAP_B32 | Op::V_SWAPREL_B32) {
        return matches!(inst.src[0], Operand::Vgpr(_));
    }
    if inst.op.mnemonic().contains("_saveexec") || inst.op.mnemonic().contains("_wrexec") {
        // EXEC is written twice then, in no stated order.
        return !matches!(inst.dst, Operand::Sgpr(126 | 127));
    }
    true
}

fn memory(format: Format) -> bool {
    matches!(format, Format::Smem | Format::Global | Format::Scratch | Format::Mubuf | Format::Mtbuf)
}

fn branch(random: &mut Random, inst: &mut Inst) {
    let distance = random.below(CODE_SIZE / 4 - 64) as i32 - START as i32 / 4 + 16;
    inst.imm = (distance as u32) & 0xffff;
}

/// Offsets that leave the address in the sandbox.
fn memory_fields(random: &mut Random, inst: &mut Inst) {
    match inst.format {
        Format::Ds => {
            inst.mem.gds = false;
            if inst.op == Op::DS_SWIZZLE_B32 {
                // All modes alike.
                let mode = random.pick(&[0, 0x8000, 0xc000, 0xe000]);
                inst.mem.offset = inst.mem.offset & 0x1fff | mode;
            } else if has_two(inst) {
                let limit = if is_strided(inst) { 4 } else { 64 };
                inst.mem.offset %= limit;
                inst.mem.offset1 %= limit as u8;
                if stores_two(inst) && limit == 64 {
                    inst.mem.offset1 = inst.mem.offset as u8 + 64;
                }
            } else {
                inst.mem.offset &= 0x1fc | if random.one_in(4) { 3 } else { 0 };
                // Of atomics most are aligned: the others fault.
                if is_atomic(inst) && !random.one_in(16) {
                    inst.mem.offset &= !7;
                }
            }
        }
        Format::Global => inst.mem.offset %= 512,
        Format::Flat | Format::Scratch => inst.mem.offset %= 32,
        Format::Smem => inst.mem.offset %= 512,
        Format::Mubuf | Format::Mtbuf => inst.mem.offset = inst.mem.offset.abs() % 40,
        Format::Mimg | Format::Vimage | Format::Vsample => images::fields(random, inst),
        _ => {}
    }
    if inst.op.mnemonic().contains("atomic") && !inst.op.mnemonic().starts_with("image_") {
        // Atomics are aligned.
        inst.mem.offset &= !7;
        if inst.format == Format::Mubuf && !matches!(inst.src[2], Operand::Sgpr(_)) {
            inst.src[2] = Operand::Sgpr(17);
        }
    }
}

/// Registers an operand has in waves of that size.
fn width(operand: &OperandType, target: Target) -> u32 {
    match (operand.mask, target.wave) {
        (true, WaveSize::Wave64) => 2,
        (true, WaveSize::Wave32) => 1,
        _ => u32::from(operand.words.max(1)),
    }
}

fn slot(inst: &mut Inst, place: Place) -> Option<&mut Operand> {
    slot_mut(inst, place)
}

fn slot_mut(inst: &mut Inst, place: Place) -> Option<&mut Operand> {
    match place {
        Place::Dst => Some(&mut inst.dst),
        Place::Dst2 => Some(&mut inst.dst2),
        Place::Src(n) => inst.src.get_mut(n),
        Place::DualDst => inst.dual.as_mut().map(|dual| &mut dual.dst),
        Place::DualSrc(n) => inst.dual.as_mut().and_then(|dual| dual.src.get_mut(n)),
    }
}

fn slot_of(inst: &Inst, place: Place) -> Option<Operand> {
    slot_mut(&mut { *inst }, place).copied()
}

/// A state in which `inst`, at byte [`START`] of the code, can run.
pub(crate) fn state(random: &mut Random, inst: &Inst, target: Target) -> State {
    let mut state = values::state(random, target);
    state.pc = CODE + START as u64;
    let types = operand_types(target.arch, inst);
    // 64-bit operands get 64-bit edge values.
    let long = if random.one_in(6) { values::special_long } else { values::long };
    for operand in &types {
        if let (Some(Operand::Vgpr(register)), 2) = (slot_of(inst, operand.place), operand.words) {
            for lane in 0..state.lanes {
                if !random.one_in(4) {
                    let value = long(random);
                    state.set_vpair(u32::from(register), lane, value);
                }
            }
        }
        if let (Some(Operand::Sgpr(register @ 0..=104)), 2) = (slot_of(inst, operand.place), operand.words) {
            let value = long(random);
            state.set_pair(register, value);
        }
    }
    let facts = Facts::of(state.arch);
    let is_vector = matches!(
        inst.format,
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3Sd | Format::Vop3P
    );
    if facts.is_gfx9
        && is_vector
        && inst.sdwa.is_none()
        && !matches!(inst.op, Op::V_SWAP_B32 | Op::V_WRITELANE_B32)
        && random.one_in(8)
    {
        // Registers relative to M0.
        state.mode |= 1 << 27;
        state.s[usize::from(facts.m0)] = random.below(12) as u32 | (random.below(16) as u32) << 12;
    }
    if inst.op.mnemonic().contains("movrel") || inst.op.mnemonic().contains("swaprel") {
        state.s[usize::from(facts.m0)] =
            random.below(6) as u32 | (random.below(6) as u32) << (16 * u32::from(random.one_in(2)));
    }
    if ["v_wmma", "v_swmmac"].iter().any(|start| inst.op.mnemonic().starts_with(start)) {
        matrix(&mut state, inst);
    }
    super::matrix::fill(random, &mut state, inst);
    if matches!(inst.op, Op::S_SETPC_B64 | Op::S_SWAPPC_B64 | Op::S_RFE_B64)
        && let Operand::Sgpr(register) = inst.src[0]
    {
        state.set_pair(register, CODE + random.below(CODE_SIZE / 4) as u64 * 4);
    }
    addresses(random, inst, &mut state);
    state
}

/// All lanes on, and the upper lanes of A and B copies of the lower ones.
fn matrix(state: &mut State, inst: &Inst) {
    state.s[126] = u32::MAX;
    if state.lanes == 64 {
        state.s[127] = u32::MAX;
    }
    let copied = if Facts::of(state.arch).matrices_have_copies { 2 } else { 0 };
    for source in &inst.src[..copied] {
        if let Operand::Vgpr(first) = source {
            for register in u32::from(*first)..u32::from(*first) + 8 {
                for lane in 16..state.lanes {
                    let value = state.vgpr(register, lane % 16);
                    state.set_vgpr(register, lane, value);
                }
            }
        }
    }
}
