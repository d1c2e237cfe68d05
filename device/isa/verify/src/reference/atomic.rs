//! What read-modify-write operations make of the old value.

use super::number::{F32, F64, Format, Rules, add, extreme, of};

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
        let bits = kind.get(1..)?.parse().ok()?;
        let known = [
            "add",
            "sub",
            "rsub",
            "csub",
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
        ];
        let kind = kind.chars().next()?;
        known.contains(&name).then(|| Function { name: name.to_owned(), kind, bits })
    }

    /// Whether it takes two data operands.
    pub(crate) fn has_two(&self) -> bool {
        matches!(self.name.as_str(), "mskor" | "cmpswap" | "cmpstore" | "wrap")
    }

    /// The new value. `data` and `other` are the first and second data operand.
    pub(crate) fn apply(&self, old: u64, data: u64, other: u64) -> u64 {
        let mask = if self.bits == 64 { u64::MAX } else { 0xffff_ffff };
        let signed = |value: u64| if self.bits == 64 { value as i64 } else { i64::from(value as u32 as i32) };
        let (old, data, other) = (old & mask, data & mask, other & mask);
        let float = self.kind == 'f';
        let value = match self.name.as_str() {
            "add" if float => add::<F32>(old, data, Rules::IEEE),
            "add" => old.wrapping_add(data),
            "sub" => old.wrapping_sub(data),
            "rsub" => data.wrapping_sub(old),
            "csub" => old.saturating_sub(data),
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

fn same<F: Format>(a: u64, b: u64) -> bool {
    let (a, b): (F, F) = (of(a), of(b));
    !a.is_nan() && a == b
}
