#!/usr/bin/env bash
# Packages: llvm-19 1:19.1.7-3+b1, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc and llvm-objdump. Date: 2026-11-29.
#
# Seen: the disassembler drops the bits that say which half of a register a 16-bit instruction uses. For gfx1200 and
# gfx1201, LLVM 22 reads the bytes of `v_add_f16 v3.h, 1.0, v0.h` as `v_add_f16_e64 v3, 1.0, v0`, and that text assembles
# to the low halves; nothing is said. In the 32-bit encoding the high half of v64 is "v192" with a complaint in a comment.
# LLVM 19 does the same for gfx1100, where LLVM 22 is right. The assembler for gfx1201 takes neither `v3.h` nor
# `op_sel:[0,1,1]`. With `-mattr=+real-true16` the bytes are read and written as on gfx1100; llvm-objdump needs it too,
# as nothing in the file says so.
#
# Matters to: readers of Mesa's shaders, as its compiler ACO uses the high halves on these chips, and its listings come
# from LLVM; tests of a decoder against llvm-mc.
# Documentation: AMD's RDNA3 and RDNA4 ISA documents: OPSEL of VOP3 selects the half of each operand, and bit 7 of a VGPR in
# VOP1, VOP2 and VOPC of 16 bits is the half.
source "$(dirname "$0")/common.bash"
debian old trixie llvm-19=1:19.1.7-3+b1
debian new trixie llvm-22=1:22.1.8-1~deb13u5
for root in old new; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

text='v_add_f16_e64 v3.h, 1.0, v0.h'
whole='v_add_f16_e64 v3, 1.0, v0'
bytes=$(encode new gfx1100 "$text")
compare "LLVM 22, gfx1100: $text" "03 50 32 d5 f2 00 02 00" "03 50 32 d5 f2 00 02 00" "$bytes"
compare "LLVM 22, gfx1100: those bytes" "$text" "$text op_sel:[0,1,1]" "$(decode new gfx1100 "$bytes")"
compare "LLVM 19, gfx1100: those bytes" "$text" "$whole" "$(decode old gfx1100 "$bytes")"
for chip in gfx1200 gfx1201; do
    compare "LLVM 22, $chip: those bytes" "$text" "$whole" "$(decode new $chip "$bytes")"
    compare "LLVM 22, $chip: $whole" "not those bytes, or no text" "03 00 32 d5 f2 00 02 00" "$(encode new $chip "$whole")"
    compare "LLVM 22, $chip: ${text/_e64/}" "the bytes" "error: operands are not valid for this GPU or mode" \
        "$(encode new $chip "${text/_e64/}")"
    compare "LLVM 22, $chip: $whole op_sel:[0,1,1]" "the bytes" "error: not a valid operand." "$(encode new $chip "$whole op_sel:[0,1,1]")"
done
short='v_sub_f16_e32 v1.l, v1.l, v64.h'
bytes2=$(encode new gfx1100 "$short")
compare "LLVM 22, gfx1100: $short" "01 81 03 66" "01 81 03 66" "$bytes2"
compare "LLVM 22, gfx1201: those bytes" "$short" \
    "v_sub_f16_e32 v1, v1, v192/*Invalid register, operand has 'VGPR_32_Lo128' register class*/" "$(decode new gfx1201 "$bytes2")"
# The same out of a file: the object has the bytes as data.
printf '.text\n.byte 0x%s\n' "${bytes// /,0x}" |
    run new llvm-mc -triple=amdgcn-amd-amdhsa -mcpu=gfx1201 -filetype=obj -o "$work/a.o"
listing() { run new llvm-objdump -d "$@" "$work/a.o" | sed -n 's/^\t\(v_[^/]*[^ /]\) *\/\/.*/\1/p'; }
compare "llvm-objdump, gfx1201" "$text" "$whole" "$(listing)"
compare "llvm-objdump --mattr=+real-true16, gfx1201" "$text" "$text op_sel:[0,1,1]" "$(listing --mattr=+real-true16)"
finish
