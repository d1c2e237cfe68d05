#!/usr/bin/env bash
# Packages: llvm-22 1:22.1.8-1~deb13u5, llvm-19 1:19.1.7-3+b1 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: `v_pk_fmac_f16 v250, -1.0, v111` is four bytes with an inline constant on gfx10 and gfx90a. For gfx11 and
# gfx12, LLVM 22 writes eight bytes with the literal 0x0000bc00, where LLVM 19 wrote the inline constant as before. LLVM
# 22 still reads the four bytes as `-1.0`, so that its own disassembly assembles to other bytes of another length. The
# two differ in value as well where inline constants of packed operands count for both halves: the literal has -1.0
# in the low half and 0 in the high one. Integers (`1`) stay inline.
#
# Matters to: tests that take disassembly, assemble it and compare; hand-written kernels that move between versions,
# as each branch over the instruction changes; emulators that must know what an inline constant means here.
# Documentation: LLVM's "Syntax of AMDGPU Instruction Operands" lists -1.0 as a floating-point inline constant.
source "$(dirname "$0")/common.bash"
debian new trixie llvm-22=1:22.1.8-1~deb13u5
debian old trixie llvm-19=1:19.1.7-3+b1
for root in old new; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

text='v_pk_fmac_f16 v250, -1.0, v111'
inline='f3 de f4 79'
for chip in gfx1030 gfx1100 gfx1201; do
    compare "LLVM 19, $chip: $text" "$inline" "$inline" "$(encode old $chip "$text")"
done
compare "LLVM 22, gfx1030: $text" "$inline" "$inline" "$(encode new gfx1030 "$text")"
for chip in gfx1100 gfx1201; do
    compare "LLVM 22, $chip: $text" "$inline" "ff de f4 79 00 bc 00 00" "$(encode new $chip "$text")"
    compare "LLVM 22, $chip: the bytes $inline" "$text" "$text" "$(decode new $chip "$inline")"
done
finish
