//! Matrix operations of CDNA3 and CDNA4 in one block or several, of all 64 lanes, also of those that are off in EXEC.
//!
//! Layout, as AMD's matrix instruction calculator prints it, for M×N×K in B blocks: a lane has L = KMB/64 elements of A; element
//! (i, k) is number k mod L of lane i + M(b + B⌊k/L⌋), and for B the same with j and N. Of C and D four rows (doubles: one) are
//! in a lane, and then so many blocks and rows in lanes as there is room for.
//!
//! Arithmetic: singles and doubles by fused operations in the order of k; fewer digits by the rule of MMA-Sim's model of MI300X;
//! integers exactly.

mod fixed;

use belfry_isa::inst::{Inst, Operand};

use super::fnuz::{BF8, FP8};
use super::number::{F16, F32, F64, Rules, bf16_single, convert, fma};
use super::small::Small;
use super::state::{End, State, float_constant};
use fixed::Fixed;

/// Parts of the name of an operation.
#[derive(Clone, Copy, Debug)]
struct Matrix<'a> {
    sparse: bool,
    m: u32,
    n: u32,
    k: u32,
    blocks: u32,
    types: [&'a str; 2],
}

impl<'a> Matrix<'a> {
    /// `v_mfma_f32_16x16x4_4b_f16`, `v_smfmac_f32_16x16x64_bf8_fp8`.
    fn named(name: &'a str) -> Option<Self> {
        let mut words = name.split('_').skip(1);
        let sparse = match words.next()? {
            "mfma" => false,
            "smfmac" => true,
            _ => return None,
        };
        let _sum = words.next()?;
        let mut sizes = words.next()?.split('x').map(str::parse);
        let mut size = || sizes.next()?.ok();
        let (m, n, k) = (size()?, size()?, size()?);
        let mut blocks = 1;
        let mut types = Vec::new();
        for word in words {
            match word.strip_suffix('b').and_then(|count| count.parse().ok()) {
                Some(count) => blocks = count,
                None => types.push(word),
            }
        }
        let first = *types.first()?;
        Some(Matrix { sparse, m, n, k, blocks, types: [first, types.last().copied().unwrap_or(first)] })
    }

    fn is_double(&self) -> bool {
        self.types[0] == "f64"
    }

    /// Number in the lane, and lane, of element `k` of `count` of a line of A or B.
    fn factor(&self, lines: u32, count: u32, [block, line, k]: [u32; 3]) -> (u32, u32) {
        let own = count * lines * self.blocks / 64;
        (k % own, line + lines * (block + self.blocks * (k / own)))
    }

    /// Number in the lane, and lane, of an element of C or D.
    fn sum(&self, [block, i, j]: [u32; 3]) -> (u32, u32) {
        let (m, n) = (self.m, self.n);
        if self.is_double() && self.blocks == 4 {
            return (0, 16 * i + 4 * block + j);
        }
        let high: u32 = if self.is_double() { 1 } else { 4 };
        let side = (64 * high).div_ceil(m * n);
        let wide = 64 / side / n;
        let groups = m / (high * wide);
        let number = i % high + high * (i / (high * wide) + groups * (block / side));
        (number, j + n * (i / high % wide + wide * (block % side)))
    }

    /// Products that are added at a time.
    fn group(&self) -> usize {
        let terms = if self.sparse { self.k / 2 } else { self.k };
        match self.types[0] {
            "xf32" => 4,
            "f16" | "bf16" => terms.min(8) as usize,
            _ => 16,
        }
    }
}

fn bits_of(kind: &str) -> u32 {
    match kind {
        "f64" => 64,
        "f32" | "xf32" => 32,
        "f16" | "bf16" => 16,
        _ => 8,
    }
}

/// The bits of an element of a lane.
fn element(state: &State, base: u32, bits: u32, number: u32, lane: u32) -> u64 {
    if bits == 64 {
        let word = |n: u32| u64::from(state.vgpr(base + 2 * number + n, lane));
        return word(0) | word(1) << 32;
    }
    let each = 32 / bits;
    u64::from(state.vgpr(base + number / each, lane)) >> (number % each * bits) & ((1 << bits) - 1)
}

/// An element as a number, and the exponent that it has as one of its format.
fn number(kind: &str, bits: u64) -> (f64, i32) {
    let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
    let (value, least) = match kind {
        "f16" => (single(convert::<F16, F32>(bits, Rules::IEEE, Rules::IEEE)), -14),
        "bf16" => (single(bf16_single(bits)), -126),
        "xf32" if single(bits).is_nan() => (f64::NAN, -126),
        "xf32" => (single(bits >> 13 << 13), -126),
        "fp8" => (FP8.number(bits as u8), -7),
        "bf8" => (BF8.number(bits as u8), -15),
        "ocp8" => (single(Small::Fp8.single(bits as u8)), -6),
        "ocp8b" => (single(Small::Bf8.single(bits as u8)), -14),
        "fp6" => (tiny(bits, 2, 3), 0),
        "bf6" => (tiny(bits, 3, 2), -2),
        "fp4" => (tiny(bits, 2, 1), 0),
        _ => (single(bits), -126),
    };
    (value, exponent(value).max(least))
}

/// A float of few bits that is always a number: its exponent has `exponent` bits, and a bias as IEEE 754 has them.
fn tiny(bits: u64, exponent: u32, digits: u32) -> f64 {
    let (field, fraction) = (bits >> digits & ((1 << exponent) - 1), bits & ((1 << digits) - 1));
    let bias = (1 << (exponent - 1)) - 1;
    let whole = if field == 0 { fraction } else { fraction | 1 << digits };
    let value = whole as f64 * 2f64.powi(field.max(1) as i32 - bias - digits as i32);
    if bits >> (exponent + digits) & 1 != 0 { -value } else { value }
}

/// Exponent of a double; far below everything for zero.
fn exponent(value: f64) -> i32 {
    if value == 0.0 { -1023 } else { (value.to_bits() >> 52 & 0x7ff) as i32 - 1023 }
}

fn exact(value: f64) -> Fixed {
    let bits = value.to_bits();
    if value == 0.0 {
        return Fixed::ZERO;
    }
    let digits = bits & ((1 << 52) - 1) | 1 << 52;
    // Singles and their products have at most 48 digits.
    let magnitude = Fixed::new(digits >> 4, exponent(value) - 48);
    if value.is_sign_negative() { magnitude.negated() } else { magnitude }
}

const NAN: u32 = 0xffc0_0000;

/// The sum of products cut off at 24 bits below the largest exponent, and that.
fn cut(terms: &[(f64, i32)]) -> (Fixed, i32) {
    let largest = terms.iter().map(|term| term.1).max().unwrap_or(-126);
    let sum =
        terms.iter().fold(Fixed::ZERO, |sum, (value, _)| sum.plus(exact(*value).towards_zero(largest - 24)));
    (sum, largest)
}

/// A group of products and C, in the rule of all formats with few digits.
fn group(kinds: [&str; 2], pairs: &[(u64, u64)], c: u32, scale: i32) -> u32 {
    let is_byte = !matches!(kinds[0], "f16" | "bf16" | "xf32");
    let mut terms = Vec::new();
    let mut infinite = Vec::new();
    for (a, b) in pairs {
        let ((a, a_exponent), (b, b_exponent)) = (number(kinds[0], *a), number(kinds[1], *b));
        let product = a * b * 2f64.powi(scale);
        if product.is_nan() {
            return NAN;
        }
        if product.abs() >= 2f64.powi(128) {
            infinite.push(product > 0.0);
        }
        // A zero counts, unless the numbers are so small that it is less than any product.
        let zero = if is_byte { -2000 } else { -126 };
        terms.push((product, if product == 0.0 { zero } else { a_exponent + b_exponent + scale }));
    }
    let added = f32::from_bits(c);
    if added.is_nan() {
        return NAN;
    }
    if added.is_infinite() {
        infinite.push(added > 0.0);
    }
    match infinite.as_slice() {
        [] => (),
        [first, rest @ ..] if rest.iter().any(|other| other != first) => return NAN,
        [true, ..] => return 0x7f80_0000,
        [false, ..] => return 0xff80_0000,
    }
    let (sum, largest) = if is_byte {
        let every = |first: usize| cut(&terms.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
        let ((even, even_largest), (odd, odd_largest)) = (every(0), every(1));
        let largest = even_largest.max(odd_largest);
        (even.floor(largest - 24).plus(odd.floor(largest - 24)), largest)
    } else {
        cut(&terms)
    };
    let c = f64::from(added);
    let c_exponent = exponent(c).max(-126);
    let top = largest.max(c_exponent);
    let dropped = is_byte && c_exponent < top - 25;
    let c = if dropped { Fixed::ZERO } else { exact(c).floor(top - 24) };
    sum.floor(top - 31).plus(c).single()
}

/// Fields of the encoding.
#[derive(Clone, Copy, Debug)]
struct Fields {
    cbsz: u32,
    abid: u32,
    blgp: u32,
}

impl Fields {
    /// The lane that B's elements for a lane are taken from.
    fn permuted(self, lane: u32) -> u32 {
        match self.blgp {
            1 | 2 => lane % 32 + 32 * (self.blgp - 1),
            3 => (lane + 16) % 64,
            4.. => lane % 16 + 16 * (self.blgp - 4),
            _ => lane,
        }
    }

    /// The block whose A a block uses.
    fn block(self, block: u32, blocks: u32) -> u32 {
        let size = (1 << self.cbsz).min(blocks);
        block - block % size + self.abid % size
    }
}

/// Places of an instruction's matrices.
struct Places<'a> {
    matrix: Matrix<'a>,
    fields: Fields,
    a: u32,
    b: u32,
    /// Registers of the third source, if it is in any.
    third: Option<u32>,
    d: u32,
}

impl Places<'_> {
    /// The factors of an element of D.
    fn pairs(&self, state: &State, [block, i, j]: [u32; 3]) -> Vec<(u64, u64)> {
        let matrix = &self.matrix;
        let bits = matrix.types.map(bits_of);
        let kept = if matrix.sparse { matrix.k / 2 } else { matrix.k };
        let source = self.fields.block(block, matrix.blocks);
        (0..kept)
            .map(|k| {
                let (number, lane) = matrix.factor(matrix.m, kept, [source, i, k]);
                let a = element(state, self.a, bits[0], number, lane);
                let mut row = k;
                if matrix.sparse {
                    let index = state.vgpr(self.third.unwrap_or_default(), lane);
                    let room = 2 * kept * matrix.m / 64;
                    let set = if self.fields.cbsz == 0 { self.fields.abid % (32 / room) } else { 0 };
                    row = k / 2 * 4 + (index >> (set * room + 2 * number) & 3);
                }
                let (number, lane) = matrix.factor(matrix.n, matrix.k, [block, j, row]);
                let plain = matrix.sparse || matrix.is_double();
                let lane = if plain { lane } else { self.fields.permuted(lane) };
                (a, element(state, self.b, bits[1], number, lane))
            })
            .collect()
    }
}

/// Returns the value of an operand that is no register.
fn constant(state: &State, operand: Operand, bits: u32) -> u64 {
    match operand {
        Operand::InlineFloat(value) => float_constant(value, bits),
        other => state.scalar64(other, true) & (u64::MAX >> (64 - bits)),
    }
}

fn signed_sum(c: u64, pairs: &[(u64, u64)]) -> u64 {
    let wide = |bits: u64| i64::from(bits as u8 as i8);
    let sum = pairs.iter().fold(i64::from(c as i32), |sum, (a, b)| sum + wide(*a) * wide(*b));
    sum as u64 & 0xffff_ffff
}

/// Runs a matrix instruction; `None` when it is none.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Option<Result<(), End>> {
    if inst.op.mnemonic().ends_with("_f8f6f4") {
        return Some(formats(state, inst));
    }
    let mut matrix = Matrix::named(inst.op.mnemonic())?;
    if !state.facts().old_bytes {
        matrix.types = matrix.types.map(|kind| match kind {
            "fp8" => "ocp8",
            "bf8" => "ocp8b",
            other => other,
        });
    }
    let fields = Fields { cbsz: inst.imm & 7, abid: inst.imm >> 4 & 15, blgp: inst.imm >> 8 & 7 };
    let register = |operand: Operand| state.vector_register(operand);
    let (Some(a), Some(b), Some(d)) = (register(inst.src[0]), register(inst.src[1]), register(inst.dst))
    else {
        return Some(Err(End::Unknown));
    };
    let third = register(inst.src[2]);
    let places = Places { matrix, fields, a, b, third, d };
    let width = if matrix.is_double() { 64 } else { 32 };
    let before = state.clone();
    for block in 0..matrix.blocks {
        for i in 0..matrix.m {
            for j in 0..matrix.n {
                let at = [block, i, j];
                let (number, lane) = matrix.sum(at);
                let c = match third {
                    _ if matrix.sparse => element(&before, places.d, width, number, lane),
                    Some(base) => element(&before, base, width, number, lane),
                    None => constant(&before, inst.src[2], width),
                };
                let pairs = places.pairs(&before, at);
                let value = places.sum(c, &pairs);
                for n in 0..width / 32 {
                    let register = places.d + number * (width / 32) + n;
                    state.set_vgpr(register, lane, (value >> (32 * n)) as u32);
                }
            }
        }
    }
    Some(Ok(()))
}

/// Names and bits of the formats by their numbers.
const FORMATS: [(&str, u32); 5] = [("ocp8", 8), ("ocp8b", 8), ("fp6", 6), ("bf6", 6), ("fp4", 4)];

/// Bit `at` of registers of a lane and those after it.
fn bits_at(state: &State, base: u32, lane: u32, at: u32, count: u32) -> u64 {
    (0..count).fold(0, |value, n| {
        let bit = at + n;
        value | u64::from(state.vgpr(base + bit / 32, lane) >> (bit % 32) & 1) << n
    })
}

/// `v_mfma_*_f8f6f4` with and without scales: a lane has 32 elements that follow each other, and their scale.
fn formats(state: &mut State, inst: &Inst) -> Result<(), End> {
    let lines: u32 = if inst.op.mnemonic().contains("16x16x128") { 16 } else { 32 };
    let numbers = [inst.imm & 7, inst.imm >> 8 & 7];
    let mut kinds = FORMATS[0..2].to_vec();
    for (kind, number) in kinds.iter_mut().zip(numbers) {
        *kind = *FORMATS.get(number as usize).ok_or(End::Unknown)?;
    }
    let register = |operand: Operand| state.vector_register(operand);
    let (Some(a), Some(b), Some(d)) = (register(inst.src[0]), register(inst.src[1]), register(inst.dst))
    else {
        return Err(End::Unknown);
    };
    let third = register(inst.src[2]);
    let before = state.clone();
    let scale = |n: usize, lane: u32| match inst.dual {
        None => 127,
        Some(scales) => {
            let byte = inst.mods.op_sel >> n & 1 | (inst.mods.op_sel_hi >> n & 1) << 1;
            let word = match register_of(&before, scales.src[n]) {
                Some(register) => before.vgpr(register, lane),
                None => constant(&before, scales.src[n], 32) as u32,
            };
            word >> (8 * byte) & 255
        }
    };
    for i in 0..lines {
        for j in 0..lines {
            let lane = i / 4 % (64 / lines) * lines + j;
            let number = i % 4 + i / (256 / lines) * 4;
            let mut sum = match third {
                Some(base) => before.vgpr(base + number, lane),
                None => constant(&before, inst.src[2], 32) as u32,
            };
            for part in 0..64 / lines {
                let (left, right) = (i + part * lines, j + part * lines);
                let scales = [scale(0, left), scale(1, right)];
                if scales.contains(&255) {
                    sum = NAN;
                    continue;
                }
                let element = |n: usize, base: u32, lane: u32, k: u32| {
                    bits_at(&before, base, lane, k * kinds[n].1, kinds[n].1)
                };
                let pairs: Vec<(u64, u64)> =
                    (0..32).map(|k| (element(0, a, left, k), element(1, b, right, k))).collect();
                let power = scales[0] as i32 + scales[1] as i32 - 254;
                let names = [kinds[0].0, kinds[1].0];
                sum = pairs.chunks(16).fold(sum, |sum, pairs| group(names, pairs, sum, power));
            }
            state.set_vgpr(d + number, lane, sum);
        }
    }
    Ok(())
}

fn register_of(state: &State, operand: Operand) -> Option<u32> {
    state.vector_register(operand)
}

impl Places<'_> {
    /// An element of D.
    fn sum(&self, c: u64, pairs: &[(u64, u64)]) -> u64 {
        let kinds = self.matrix.types;
        match kinds[0] {
            "f64" => {
                let sign = |n: u32| u64::from(self.fields.blgp >> n & 1) << 63;
                pairs
                    .iter()
                    .fold(c ^ sign(2), |sum, (a, b)| fma::<F64>(a ^ sign(0), b ^ sign(1), sum, Rules::IEEE))
            }
            "f32" => pairs.iter().fold(c, |sum, (a, b)| fma::<F32>(*a, *b, sum, Rules::IEEE)),
            "i8" => signed_sum(c, pairs),
            _ => {
                let groups = pairs.chunks(self.matrix.group());
                u64::from(groups.fold(c as u32, |sum, pairs| group(kinds, pairs, sum, 0)))
            }
        }
    }
}
