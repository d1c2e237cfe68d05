#!/usr/bin/env bash
# Packages: llvm-17 1:17.0.6-22+b2, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: a decimal number in a bf16 operand of gfx1100 changed its value between versions. LLVM 17 accepts
# `v_dot2_bf16_bf16 v0, 1.5, v1, v2` and writes 0x3e00, which is 1.5 in f16 and 0.125 in bf16. LLVM 22 writes 0x3fc0. And
# 0x3f80, the bf16 bits of 1.0, is a literal in LLVM 17 and the inline constant 1.0 in LLVM 22, four bytes shorter.
#
# Matters to: kernels with bf16 constants in inline assembly, which compile under both without a word and compute with
# another number; expected bytes in tests of assemblers.
# Documentation: AMD's RDNA3 ISA document, V_DOT2_BF16_BF16: all operands are bf16, as the name says.
source "$(dirname "$0")/common.bash"
debian old trixie llvm-17=1:17.0.6-22+b2
debian new trixie llvm-22=1:22.1.8-1~deb13u5
for root in old new; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

text='v_dot2_bf16_bf16 v0, 1.5, v1, v2'
compare "LLVM 17: $text" "the literal 0x3fc0" "00 00 67 d6 ff 02 0a 04 00 3e 00 00" "$(encode old gfx1100 "$text")"
compare "LLVM 22: $text" "the literal 0x3fc0" "00 00 67 d6 ff 02 0a 04 c0 3f 00 00" "$(encode new gfx1100 "$text")"
text='v_dot2_bf16_bf16 v0, 0x3f80, v1, v2'
compare "LLVM 17: $text" "the inline constant 242" "00 00 67 d6 ff 02 0a 04 80 3f 00 00" "$(encode old gfx1100 "$text")"
compare "LLVM 22: $text" "the inline constant 242" "00 00 67 d6 f2 02 0a 04" "$(encode new gfx1100 "$text")"
finish
