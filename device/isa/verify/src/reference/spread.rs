//! Matrix operations of gfx12: D = A × B + C on 16×16 tiles, in the layouts that AMD's matrix instruction calculator
//! prints. No two lanes hold the same element.

use belfry_isa::inst::{FloatConst, Inst, Operand};

use super::number::{B16, F16, F32, Rules, bf16_single, convert, fma};
use super::small::Small;
use super::state::{End, State};

/// Type of the elements of a row of A or a column of B.
#[derive(Clone, Copy, Debug)]
enum Kind {
    F16,
    Bf16,
    Small(Small),
    Int(u32),
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "f16" => Kind::F16,
            "bf16" => Kind::Bf16,
            "fp8" => Kind::Small(Small::Fp8),
            "bf8" => Kind::Small(Small::Bf8),
            "iu8" => Kind::Int(8),
            "iu4" => Kind::Int(4),
            _ => return None,
        })
    }

    fn bits(self) -> u32 {
        match self {
            Kind::F16 | Kind::Bf16 => 16,
            Kind::Small(_) => 8,
            Kind::Int(bits) => bits,
        }
    }

    fn single(self, bits: u32) -> u64 {
        match self {
            Kind::F16 => convert::<F16, F32>(u64::from(bits), Rules::IEEE, Rules::IEEE),
            Kind::Bf16 => bf16_single(u64::from(bits)),
            Kind::Small(small) => small.single(bits as u8),
            Kind::Int(_) => u64::from(bits),
        }
    }
}

/// Register, place in it and first lane of element `k` of `count`, each of `bits` bits.
fn place(bits: u32, count: u32, lanes: u32, k: u32) -> (u32, u32, u32) {
    let wide = lanes == 64;
    match (bits, count, wide) {
        (16, 16, false) => (2 * (k / 8) + k / 2 % 2, k % 2, 16 * (k / 4 % 2)),
        (16, 16, true) => (k / 2 % 2, k % 2, 32 * (k / 8) + 16 * (k / 4 % 2)),
        (16, _, false) => (4 * (k / 16) + k / 2 % 4, k % 2, 16 * (k / 8 % 2)),
        (16, _, true) => (k / 2 % 4, k % 2, 32 * (k / 16) + 16 * (k / 8 % 2)),
        (8, 16, false) => (k / 4 % 2, k % 4, 16 * (k / 8)),
        (8, 16, true) => (0, k % 4, 32 * (k / 4 % 2) + 16 * (k / 8)),
        (8, _, false) => (k / 4 % 4, k % 4, 16 * (k / 16)),
        (8, _, true) => (k / 4 % 2, k % 4, 32 * (k / 8 % 2) + 16 * (k / 16)),
        (_, 16, _) => (0, k % 8, 16 * (k / 8)),
        (_, 32, false) => (k / 8 % 2, k % 8, 16 * (k / 16)),
        (_, 32, true) => (0, k % 8, 32 * (k / 8 % 2) + 16 * (k / 16)),
        (_, _, false) => (k / 8 % 4, k % 8, 16 * (k / 32)),
        (_, _, true) => (k / 8 % 2, k % 8, 32 * (k / 16 % 2) + 16 * (k / 32)),
    }
}

/// A matrix operation, taken from its name.
struct Shape {
    sparse: bool,
    /// `f32`, `i32`, `f16` or `bf16`.
    sum: &'static str,
    a: Kind,
    b: Kind,
    k: u32,
}

fn shape(inst: &Inst) -> Option<Shape> {
    let name = inst.op.mnemonic();
    let mut parts = name.split('_').skip(1);
    let sparse = parts.next()? == "swmmac";
    let sum = parts.next()?;
    let k = parts.next()?.rsplit_once('x')?.1.parse().ok()?;
    let a = Kind::named(parts.next()?)?;
    let b = parts.next().map_or(Some(a), Kind::named)?;
    Some(Shape { sparse, sum, a, b, k })
}

fn register(operand: Operand) -> Option<u32> {
    match operand {
        Operand::Vgpr(register) => Some(u32::from(register)),
        _ => None,
    }
}

fn element(state: &State, base: u32, bits: u32, (register, at, lane): (u32, u32, u32)) -> u32 {
    let word = u64::from(state.vgpr(base + register, lane));
    (word >> (at * bits) & ((1 << bits) - 1)) as u32
}

/// A constant as C.
fn constant(state: &State, operand: Operand, sum: &str) -> u32 {
    let float = |value: FloatConst| match sum {
        "f16" => u32::from(value.f16_bits()),
        "bf16" => u32::from(value.bf16_bits()),
        _ => value.f32_bits(),
    };
    match operand {
        Operand::InlineFloat(value) => float(value),
        other => state.scalar(other),
    }
}

/// Column of A that element `k` of those that are there is in.
fn column(state: &State, inst: &Inst, shape: &Shape, row: u32, k: u32) -> Option<u32> {
    if !shape.sparse {
        return Some(k);
    }
    let (kept, bits) = (shape.k / 2, shape.a.bits());
    let (_, _, first) = place(bits, kept, state.lanes, k);
    // Elements before it in its lane, and in all of the lane.
    let same = |other: &u32| place(bits, kept, state.lanes, *other).2 == first;
    let before = (0..k).filter(same).count() as u32;
    let all = (0..kept).filter(same).count() as u32;
    let index = state.vgpr(register(inst.src[2])?, first + row);
    let key = if all * 2 < 32 { inst.imm * all * 2 } else { 0 };
    Some(k / 2 * 4 + (index >> ((key + before * 2) & 31) & 3))
}

/// Runs a matrix instruction; all lanes take part.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Result<(), End> {
    let shape = shape(inst).ok_or(End::Unknown)?;
    let (Some(a), Some(b), Some(d)) = (register(inst.src[0]), register(inst.src[1]), register(inst.dst))
    else {
        return Err(End::Unknown);
    };
    let before = state.clone();
    let lanes = before.lanes;
    let kept = if shape.sparse { shape.k / 2 } else { shape.k };
    let narrow = shape.sum.ends_with("f16");
    for row in 0..16 {
        let first = if lanes == 64 { 32 * (row / 4 % 2) } else { 0 } + 16 * (row / 8);
        let number = row % (256 / lanes);
        let (place_of_sum, shift) = if narrow { (number / 2, row % 2 * 16) } else { (number, 0) };
        for j in 0..16 {
            let lane = first + j;
            let word = match (shape.sparse, register(inst.src[2])) {
                (true, _) => before.vgpr(d + place_of_sum, lane) >> shift,
                (false, Some(c)) => before.vgpr(c + place_of_sum, lane) >> shift,
                (false, None) => constant(&before, inst.src[2], shape.sum),
            };
            let mut terms = Vec::new();
            for k in 0..kept {
                let (register, at, lane) = place(shape.a.bits(), kept, lanes, k);
                let left = element(&before, a, shape.a.bits(), (register, at, lane + row));
                let column = column(&before, inst, &shape, row, k).ok_or(End::Unknown)?;
                let (register, at, lane) = place(shape.b.bits(), shape.k, lanes, column);
                let right = element(&before, b, shape.b.bits(), (register, at, lane + j));
                terms.push(([left, right], [k, column]));
            }
            let result = if shape.sum == "i32" {
                integer(inst, &shape, word, &terms)
            } else {
                float(inst, &shape, word, &terms)
            };
            let old = state.vgpr(d + place_of_sum, lane);
            let mask = if narrow { 0xffff << shift } else { u32::MAX };
            state.set_vgpr(d + place_of_sum, lane, old & !mask | result << shift & mask);
        }
    }
    Ok(())
}

fn integer(inst: &Inst, shape: &Shape, c: u32, terms: &[([u32; 2], [u32; 2])]) -> u32 {
    let value = |raw: u32, kind: Kind, n: u32| {
        let (raw, bits) = (i64::from(raw), kind.bits());
        if inst.mods.neg >> n & 1 != 0 && raw >> (bits - 1) != 0 { raw - (1 << bits) } else { raw }
    };
    let products = terms.iter().map(|([x, y], _)| value(*x, shape.a, 0) * value(*y, shape.b, 1));
    let sum = products.sum::<i64>() + i64::from(c as i32);
    let sum = if inst.mods.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
    sum as u32
}

fn float(inst: &Inst, shape: &Shape, c: u32, terms: &[([u32; 2], [u32; 2])]) -> u32 {
    let mods = &inst.mods;
    let c = match shape.sum {
        "f16" => Kind::F16.single(c & 0xffff),
        "bf16" => Kind::Bf16.single(c & 0xffff),
        _ => u64::from(c),
    };
    let start = if shape.sparse {
        c
    } else {
        let c = if mods.neg_hi & 4 != 0 { c & 0x7fff_ffff } else { c };
        c ^ u64::from(mods.neg >> 2 & 1) << 31
    };
    let value = |raw: u32, kind: Kind, n: u32, k: u32| {
        let negate = if k.is_multiple_of(2) { mods.neg } else { mods.neg_hi };
        kind.single(raw) ^ u64::from(negate >> n & 1) << 31
    };
    let sum = terms.iter().fold(start, |sum, ([x, y], [k, column])| {
        fma::<F32>(value(*x, shape.a, 0, *k), value(*y, shape.b, 1, *column), sum, Rules::IEEE)
    });
    match shape.sum {
        "f16" => convert::<F32, F16>(sum, Rules::IEEE, Rules::IEEE) as u32,
        "bf16" => convert::<F32, B16>(sum, Rules::IEEE, Rules::IEEE) as u32,
        _ => sum as u32,
    }
}
