//! Rows of operations: the instruction in each of its encodings, the state with the sources, and what is left behind.

use std::fmt;

use belfry_isa::decode::decode_for;
use belfry_isa::encode::encode;
use belfry_isa::inst::{Format, Inst, Mods, Op, Operand, WaveSize};
use belfry_isa::tables::{Pattern, Place, operand_types, patterns};

use super::file::{LIST, Operation, Row};
use crate::engine::CODE;
use crate::random::Random;
use crate::reference::State;
use crate::semantics::values;
use crate::target::{Facts, Target};

/// Register of the result, behind those of sources.
const RESULT: u8 = 16;
/// Numbers of VCC and EXEC among scalar registers.
const VCC: u8 = 106;
const EXEC: u8 = 126;

/// The result in a lane, or of a scalar instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    result: u64,
    /// `SCC`, or the lane's bit of a mask that is written beside the result.
    flag: Option<bool>,
}

impl Seen {
    /// The result that an instruction has left.
    pub(super) fn of(inst: &Inst, after: &State, lane: u32) -> Seen {
        let result = match (mask(inst), inst.dst) {
            (Some(register), _) => after.mask(register) >> lane & 1,
            (_, Operand::None) => u64::from(after.scc),
            _ => result(inst, after, lane),
        };
        let carry = match inst.dst2 {
            Operand::Sgpr(register) => Some(after.mask(register) >> lane & 1 != 0),
            _ => None,
        };
        Seen { result, flag: Some(carry.unwrap_or(after.scc)) }
    }

    /// The result of a row.
    pub(super) fn on_card(row: &Row) -> Seen {
        Seen { result: row.result, flag: row.flag }
    }

    /// Tells whether this is what the row has, with results that are so many units apart.
    pub(super) fn is(self, row: &Row, within: u64) -> bool {
        self.result.abs_diff(row.result) <= within && row.flag.is_none_or(|flag| self.flag == Some(flag))
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}", self.result)?;
        self.flag.map_or(Ok(()), |flag| write!(out, " {}", u8::from(flag)))
    }
}

/// The register with a bit for each lane that a comparison writes.
fn mask(inst: &Inst) -> Option<u8> {
    let name = inst.op.mnemonic();
    match inst.dst {
        _ if name.starts_with("v_cmpx") => Some(EXEC),
        Operand::Sgpr(register) if name.starts_with("v_cmp") => Some(register),
        _ if name.starts_with("v_cmp") => Some(VCC),
        _ => None,
    }
}

/// Tells whether sources and result are scalar registers.
fn is_scalar(inst: &Inst) -> bool {
    let scalar = matches!(inst.format, Format::Sop1 | Format::Sop2 | Format::Sopc);
    scalar || matches!(inst.dst, Operand::Sgpr(_)) && mask(inst).is_none()
}

/// Rows that an instruction takes, each in a lane of its own; those with an EXEC begin with the first lane.
pub(super) fn at_once(target: Target, inst: &Inst, operation: &Operation) -> usize {
    match (is_scalar(inst), operation.exec, target.wave) {
        (true, ..) => 1,
        (_, Some(_), _) => LIST,
        (_, None, WaveSize::Wave32) => 32,
        (_, None, WaveSize::Wave64) => 64,
    }
}

/// The operation in each encoding that takes its modifiers, sources in registers.
pub(super) fn instructions(target: Target, operation: &Operation) -> Vec<Inst> {
    let Some(&op) = Op::ALL.iter().find(|op| op.mnemonic() == operation.name) else { return Vec::new() };
    let sources = operation.rows.first().map_or(0, |row| row.sources.len());
    let plain = operation.mods == Mods { op_sel_hi: 7, ..Default::default() };
    let fits = |pattern: &Pattern| {
        pattern.op == op
            && match pattern.format {
                Format::Vop3 | Format::Vop3Sd | Format::Vop3P => true,
                Format::Vop1 | Format::Vop2 | Format::Vopc => plain,
                Format::Sop1 | Format::Sop2 | Format::Sopc => plain,
                _ => false,
            }
    };
    let mut found: Vec<Inst> = Vec::new();
    for pattern in patterns(target.arch).filter(fits) {
        let Some(inst) = instruction(target, operation, &pattern, sources) else { continue };
        if !found.contains(&inst) {
            found.push(inst);
        }
    }
    found
}

fn instruction(target: Target, operation: &Operation, pattern: &Pattern, sources: usize) -> Option<Inst> {
    let mut inst = decode_for(target.arch, target.wave, &pattern.value.to_le_bytes()).ok()?;
    if inst.op != pattern.op || inst.format != pattern.format || inst.dpp.is_some() || inst.sdwa.is_some() {
        return None;
    }
    let scalar = is_scalar(&inst);
    let register = |number: u8| if scalar { Operand::Sgpr(number) } else { Operand::Vgpr(number) };
    let accumulates = inst.src[2].is_some() && inst.src[2] == inst.dst && inst.format == Format::Vop2;
    for n in 0..sources {
        inst.src[n] = register(n as u8 * 4);
    }
    match (mask(&inst), inst.format) {
        (Some(VCC | EXEC), Format::Vopc) | (Some(EXEC), _) | (_, Format::Sopc) => {}
        (Some(_), _) => inst.dst = Operand::Sgpr(RESULT),
        (None, _) => inst.dst = register(RESULT),
    }
    if inst.dst2.is_some() && inst.format == Format::Vop3Sd {
        inst.dst2 = Operand::Sgpr(RESULT);
    }
    if accumulates {
        inst.src[2] = inst.dst;
    }
    if matches!(inst.format, Format::Vop3 | Format::Vop3Sd | Format::Vop3P) {
        let op_sel_hi =
            if inst.format == Format::Vop3P { operation.mods.op_sel_hi } else { inst.mods.op_sel_hi };
        inst.mods = Mods { op_sel_hi, ..operation.mods };
    }
    let encoded = encode(target.arch, &inst).ok()?;
    let again = decode_for(target.arch, target.wave, encoded.bytes()).ok()?;
    let used = again.src.iter().take(3).filter(|source| source.is_some()).count();
    (again.op == pattern.op && used == sources).then_some(again)
}

/// A wave with the sources of a row in each lane. VCC and the result are 0 before.
pub(super) fn state(target: Target, inst: &Inst, operation: &Operation, rows: &[Row]) -> State {
    let mut state = values::state(&mut Random::new(1), target);
    let (set, clear) = Facts::of(target.arch).fixed_mode;
    state.mode = operation.mode & !clear | set;
    (state.pc, state.scc) = (CODE, operation.scc);
    (state.s[usize::from(EXEC)], state.s[usize::from(EXEC) + 1]) =
        operation.exec.map_or((u32::MAX, u32::MAX), |exec| (exec, 0));
    (state.s[usize::from(VCC)], state.s[usize::from(VCC) + 1]) = (0, 0);
    for (lane, row) in (0..).zip(rows) {
        state.set_vpair(u32::from(RESULT), lane, 0);
        for (source, &bits) in inst.src.iter().zip(&row.sources) {
            match *source {
                Operand::Vgpr(register) => state.set_vpair(u32::from(register), lane, bits),
                Operand::Sgpr(register) => state.set_pair(register, bits),
                _ => {}
            }
        }
    }
    state
}

/// The number that an instruction has left in a register.
fn result(inst: &Inst, after: &State, lane: u32) -> u64 {
    let words = match inst.dst {
        Operand::Sgpr(register) => after.pair(register),
        _ => after.vpair(u32::from(RESULT), lane),
    };
    let wide = operand_types(after.arch, inst)
        .iter()
        .any(|operand| operand.place == Place::Dst && operand.words == 2);
    let half = ["_f16", "_bf16", "_f16_f32", "_i16_f16", "_u16_f16", "_f16_u16", "_f16_i16"];
    let narrow = half.iter().any(|end| inst.op.mnemonic().ends_with(end)) && is_half(inst.op);
    match (wide, narrow) {
        (true, _) => words,
        (false, true) => words & 0xffff,
        (false, false) => words & 0xffff_ffff,
    }
}

/// Tells whether the result of an operation is a half.
fn is_half(op: Op) -> bool {
    let name = op.mnemonic();
    !name.contains("_f32_f16")
        && !name.contains("_f32_bf16")
        && !name.contains("_pk_")
        && !name.contains("_i32_")
}
