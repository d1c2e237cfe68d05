#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-30.
#
# Seen: of the gfx9 encodings with SDWA, `v_nop` alone is read as eight bytes only if its second dword is 0. With the selects
# that the assembler writes for every other instruction (0x06: the whole register) it is listed as four bytes, and its second
# dword as an instruction of its own, which the program does not have. `v_nop` with DPP is read as eight bytes with any
# permutation, as `v_mov_b32` with SDWA is with any selects.
#
# Matters to: readers of listings, tools that patch or count instructions, and tests of a decoder against llvm-mc:
# from there on the listing is out of step.
# Documentation: AMD's MI300 ISA document, SDWA: the source 249 says that a dword of selects is the next one.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

compare "gfx942: v_nop_sdwa" "f9 00 00 7e and selects of whole registers" "f9 00 00 7e 00 00 00 00" "$(encode llvm gfx942 v_nop_sdwa)"
compare "gfx942: f9 00 00 7e 00 06 06 06" "v_nop_sdwa" "v_nop;v_subrev_f32_e32 v3, s0, v3" \
    "$(decode llvm gfx942 "f9 00 00 7e 00 06 06 06")"
compare "gfx942: f9 00 00 7e 00 16 06 06" "v_nop_sdwa" "v_nop;v_subrev_f32_e32 v3, s0, v11" \
    "$(decode llvm gfx942 "f9 00 00 7e 00 16 06 06")"
other=$(encode llvm gfx942 "v_mov_b32_sdwa v0, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD")
compare "gfx942: v_mov_b32_sdwa" "selects of whole registers" "f9 02 00 7e 00 06 06 00" "$other"
text="v_nop quad_perm:[1,0,0,0] row_mask:0xa bank_mask:0xf"
compare "gfx942: fa 00 00 7e 00 01 00 af" "$text" "$text" "$(decode llvm gfx942 "fa 00 00 7e 00 01 00 af")"
finish
