#!/usr/bin/env bash
# Package: float8 0.7.0 (a crate). Date: 2026-11-29.
#
# Seen: `MAX` of both types is one code below the largest finite number: F8E4M3::MAX is 416 and F8E5M2::MAX 49152, while
# conversion gives 448 and 57344 (0x7e, 0x7b). So values that the crate makes itself are greater than its maximum, and
# `x.clamp(MIN, MAX)` changes them. Infinity in f32 becomes 57344 in F8E5M2, which has an infinity: the code 0x7c read
# from memory is infinite, and through f32 and back it is 0x7b. NaN loses its sign and its low bit: 0xfd becomes 0x7f.
#
# Matters to: emulators of the FP8 conversions and matrix instructions that take the type from this crate, and tests
# that use MAX as the edge.
# Documentation: the crate says of from_f32 that a number too large to fit gives an infinity, and that it is modelled
# after the half crate, where MAX is the largest finite number.
source "$(dirname "$0")/common.bash"
need cargo
program_with float8 0.7.0
cat >"$work/crate/src/main.rs" <<'R'
use float8::{F8E4M3, F8E5M2};

fn main() {
    println!("{} {}", F8E4M3::MAX.to_f32(), F8E5M2::MAX.to_f32());
    println!("{} {}", F8E4M3::from_f32(1e9).to_f32(), F8E5M2::from_f32(1e9).to_f32());
    println!("{} {}", F8E4M3::from_f32(1e9) > F8E4M3::MAX, F8E5M2::from_f32(1e9) > F8E5M2::MAX);
    println!("{:?}", F8E5M2::from_f32(f32::INFINITY).to_f32());
    for code in [0x7c, 0xfc, 0xfd] {
        print!("{:02x} ", F8E5M2::from_f32(F8E5M2::from_bits(code).to_f32()).to_bits());
    }
}
R
(cd "$work/crate" && cargo build -q --target-dir "$work/target") || missing "float8 =0.7.0"
echo "float8 0.7.0"
seen=$("$work/target/debug/finding")
line() { sed -n "$1p" <<<"$seen" | sed 's/ $//'; }
compare "F8E4M3::MAX, F8E5M2::MAX" "448 57344" "416 49152" "$(line 1)"
compare "from_f32(1e9)" "inf inf" "448 57344" "$(line 2)"
compare "from_f32(1e9) > MAX" "false false" "true true" "$(line 3)"
compare "F8E5M2::from_f32(infinity)" inf 57344.0 "$(line 4)"
compare "codes 7c fc fd of F8E5M2 through f32" "7c fc fd" "7b fb 7f" "$(line 5)"
finish
