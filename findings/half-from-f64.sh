#!/usr/bin/env bash
# Package: half 2.7.1 (a crate). Date: 2026-11-29.
#
# Seen: `f16::from_f64` and `bf16::from_f64` of the half crate drop low bits of the mantissa before they round, so a
# number just above the middle of two neighbours goes to the lower one: 1 + 2^-11 + 2^-40 becomes 1.0 in place of
# 1.0009765625, both in the code that uses the processor's F16C and in `from_f64_const`, which does not. For numbers
# that are exact in f32 the result is right. Python's struct module, format "e", rounds the same numbers right.
#
# Matters to: emulators that compute in f64 and store 16 bits (fused operations, transcendentals), as the error passes
# any test with inputs of f32.
# Documentation: the crate says of both that values are "rounded to the nearest representable" one.
source "$(dirname "$0")/common.bash"
need cargo python3
program_with half 2.7.1
cat >"$work/crate/src/main.rs" <<'R'
use half::{bf16, f16};

fn main() {
    for (name, step) in [("f16", -10), ("bf16", -7)] {
        let value = 1.0 + 2f64.powi(step - 1) + 2f64.powi(-40);
        let (run, constant) = if name == "f16" {
            (f16::from_f64(value).to_f64(), f16::from_f64_const(value).to_f64())
        } else {
            (bf16::from_f64(value).to_f64(), bf16::from_f64_const(value).to_f64())
        };
        println!("{name} from_f64 {run} from_f64_const {constant}");
    }
}
R
(cd "$work/crate" && cargo build -q --target-dir "$work/target") || missing "half =2.7.1"
echo "half 2.7.1"
seen=$("$work/target/debug/finding")
compare "f16, 1 + 2^-11 + 2^-40" "f16 from_f64 1.0009765625 from_f64_const 1.0009765625" \
    "f16 from_f64 1 from_f64_const 1" "$(sed -n 1p <<<"$seen")"
compare "the same by Python's struct" 1.0009765625 1.0009765625 \
    "$(python3 -c 'import struct; print(struct.unpack("<e", struct.pack("<e", 1 + 2**-11 + 2**-40))[0])')"
compare "bf16, 1 + 2^-8 + 2^-40" "bf16 from_f64 1.0078125 from_f64_const 1.0078125" \
    "bf16 from_f64 1 from_f64_const 1" "$(sed -n 2p <<<"$seen")"
finish
