//! New values of memory after read-modify-write operations.

use super::number::{
    B16, F16, F32, F64, Format, Rules, add, bf16_single, convert, extreme, extreme_number, of,
};

/// An atomic function by its name without type, and its type.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    name: String,
    kind: char,
    /// Bits of the operands.
    pub(crate) bits: u32,
}

impl Function {
    /// Takes a name like `add_u32` or `cmpstore_f64` apart.
    pub(crate) fn parse(name: &str) -> Option<Function> {
        let (name, kind) = name.rsplit_once('_')?;
        if name == "pk_add" {
            let kind = kind.chars().next()?;
            return Some(Function { name: name.to_owned(), kind, bits: 32 });
        }
        let bits = kind.get(1..)?.parse().ok()?;
        let known = [
            "add",
            "sub",
            "rsub",
            "csub",
            "cond_sub",
            "sub_clamp",
            "min_num",
            "max_num",
            "inc",
            "dec",
            "min",
            "max",
            "and",
            "or",
            "xor",
            "mskor",
            "swap",
            "storexchg",
            "cmpswap",
            "cmpstore",
            "wrap",
            "ordered_add",
        ];
        let kind = kind.chars().next()?;
        known.contains(&name).then(|| Function { name: name.to_owned(), kind, bits })
    }

    /// Returns true if it takes two data operands.
    pub(crate) fn has_two(&self) -> bool {
        matches!(self.name.as_str(), "mskor" | "cmpswap" | "cmpstore" | "wrap")
    }

    /// As [`Function::apply`], in LDS: sums of singles have denormals as `mode` says.
    pub(crate) fn in_lds(&self, old: u64, [data, other]: [u64; 2], mode: u32) -> u64 {
        match (self.name.as_str(), self.kind, self.bits) {
            ("add", 'f', 32) => add::<F32>(old, data, Rules::of(mode, false).nearest()),
            _ => self.apply(old, data, other),
        }
    }

    /// The new value. `data` and `other` are the first and second data operand.
    pub(crate) fn apply(&self, old: u64, data: u64, other: u64) -> u64 {
        let mask = if self.bits == 64 { u64::MAX } else { 0xffff_ffff };
        let signed = |value: u64| if self.bits == 64 { value as i64 } else { i64::from(value as u32 as i32) };
        let (old, data, other) = (old & mask, data & mask, other & mask);
        let float = self.kind == 'f';
        let value = match self.name.as_str() {
            "add" if float && self.bits == 64 => add::<F64>(old, data, Rules::IEEE),
            "add" if float => add::<F32>(old, data, Rules::IEEE),
            "add" => old.wrapping_add(data),
            "sub" => old.wrapping_sub(data),
            "rsub" => data.wrapping_sub(old),
            "pk_add" => pairs(old, data, float),
            "cond_sub" if old < data => old,
            "cond_sub" => old - data,
            "min_num" | "max_num" => {
                let maximum = self.name == "max_num";
                if self.bits == 32 {
                    extreme_number::<F32>(old, data, Rules::IEEE, maximum)
                } else {
                    extreme_number::<F64>(old, data, Rules::IEEE, maximum)
                }
            }
            // A number of twelve bits in the low word says whose turn it is, and the sum is in the high word.
            "ordered_add" if old & 0xffff_ffff != data & 0xffff_ffff => old,
            "ordered_add" => (((old >> 32) + (data >> 32)) << 32) | (((old & 0xffff_ffff) + 1) % 0x1000),
            "csub" | "sub_clamp" => old.saturating_sub(data),
            "inc" if old >= data => 0,
            "inc" => old + 1,
            "dec" if old == 0 || old > data => data,
            "dec" => old - 1,
            "min" | "max" if float => {
                let maximum = self.name == "max";
                if self.bits == 32 {
                    extreme::<F32>(old, data, Rules::IEEE, maximum)
                } else {
                    extreme::<F64>(old, data, Rules::IEEE, maximum)
                }
            }
            "min" if self.kind == 'i' => signed(old).min(signed(data)) as u64,
            "max" if self.kind == 'i' => signed(old).max(signed(data)) as u64,
            "min" => old.min(data),
            "max" => old.max(data),
            "and" => old & data,
            "or" => old | data,
            "xor" => old ^ data,
            "mskor" => old & !data | other,
            "swap" | "storexchg" => data,
            "cmpswap" | "cmpstore" => {
                let equal = match (float, self.bits) {
                    (false, _) => old == other,
                    (true, 32) => same::<F32>(old, other),
                    (true, _) => same::<F64>(old, other),
                };
                if equal { data } else { old }
            }
            // wrap
            _ if old >= data => old - data,
            _ => old.wrapping_add(other),
        };
        value & mask
    }
}

/// Sums of two halves or two `bfloat16`.
fn pairs(old: u64, data: u64, half: bool) -> u64 {
    let sum = |shift: u32| {
        let (a, b) = (old >> shift & 0xffff, data >> shift & 0xffff);
        if half {
            return add::<F16>(a, b, Rules::IEEE) << shift;
        }
        let sum = add::<F32>(bf16_single(a), bf16_single(b), Rules::IEEE);
        convert::<F32, B16>(sum, Rules::IEEE, Rules::IEEE) << shift
    };
    sum(0) | sum(16)
}

fn same<F: Format>(a: u64, b: u64) -> bool {
    let (a, b): (F, F) = (of(a), of(b));
    !a.is_nan() && a == b
}
