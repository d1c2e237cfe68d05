#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: the inline constant 1/(2*pi) (source operand 248) is not the nearest number to 1/(2*pi) in every format. In f32
# and f16 it is (0x3e22f983, 0x3118); in f64 and bf16 it is the next one towards zero (0x3fc45f306dc9c882, 0x3e22). So
# `1 / (2 * math.pi)`, printed in full and used in an f64 instruction, is no inline constant: llvm-mc makes a literal and
# warns that it drops the low 32 bits. In bf16 the decimal 0.15915494 gives 248, and the rounded 0x3e23 a literal.
#
# Matters to: emulators that compute the constant in place of copying its bits (one ulp off in v_add_f64, exact in the
# f32 tests), compilers that match it by value.
# Documentation: LLVM's "Syntax of AMDGPU Instruction Operands" and AMD's ISA documents call the value 1/(2*pi).
source "$(dirname "$0")/common.bash"
need python3
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

# The nearest values, from the first digits of 1/(2*pi) by exact arithmetic.
read -r f64 f32 f16 bf16 text <<<"$(python3 - <<'PY'
from fractions import Fraction
import math, struct
exact = Fraction(1591549430918953357688837633725, 10**31)
def nearest(precision, bias, width):
    exponent = -3  # 2**-3 <= 1/(2*pi) < 2**-2
    mantissa = round(exact / Fraction(2) ** (exponent - precision + 1))
    return f"{((exponent + bias) << (precision - 1)) + mantissa - (1 << (precision - 1)):#0{width + 2}x}"
nearest64 = nearest(53, 1023, 16)
assert nearest64 == f"{struct.unpack('<Q', struct.pack('<d', 1 / (2 * math.pi)))[0]:#018x}"
print(nearest64, nearest(24, 127, 8), nearest(11, 15, 4), nearest(8, 127, 4), 1 / (2 * math.pi))
PY
)"
inline() { # INSTRUCTION: whether its first source is 248, which is the first byte of four or the fifth of eight
    local now
    now=$(encode llvm gfx1100 "$1")
    case $now in
    *warning*) echo "literal, with: ${now%%;*}" ;;
    *) [[ " $now " =~ ^\ (([0-9a-f]{2}\ ){4})?f8\  ]] && echo inline || echo literal ;;
    esac
}
compare "f32, nearest $f32" inline inline "$(inline "v_add_f32 v0, $f32, v1")"
compare "f16, nearest $f16" inline inline "$(inline "v_add_f16 v0, $f16, v1")"
dropped="literal, with: warning: Can't encode literal as exact 64-bit floating-point operand. Low 32-bits will be set to zero"
compare "f64, nearest $text = $f64" inline "$dropped" "$(inline "v_add_f64 v[0:1], $text, v[2:3]")"
compare "f64, one less, 0x3fc45f306dc9c882" literal inline "$(inline 'v_add_f64 v[0:1], 0x3fc45f306dc9c882, v[2:3]')"
compare "bf16, nearest $bf16" inline literal "$(inline "v_dot2_bf16_bf16 v0, $bf16, v1, v2")"
compare "bf16, one less, 0x3e22" literal inline "$(inline 'v_dot2_bf16_bf16 v0, 0x3e22, v1, v2')"
finish
