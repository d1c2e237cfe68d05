#!/usr/bin/env bash
# Packages: llvm-19 1:19.1.7-3+b1, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: of `v_fma_mixlo_f16` and `v_fma_mixhi_f16` with DPP the disassembler for gfx11 and gfx12 loses a bit of the control:
# bytes that LLVM 22 itself makes of `quad_perm:[0,0,0,2]` are listed as `quad_perm:[0,0,0,0]`, and that text assembles
# to other bytes. `v_fma_mix_f32` and LLVM 19 are right. LLVM 23.1.4 does the same as 22.
#
# Matters to: readers of listings of mixed-precision code, where lane 3 of each quad seems to take another lane's value;
# tests of a decoder against llvm-mc.
# Documentation: AMD's RDNA3 ISA document, DPP16: DPP_CTRL is nine bits, of which the lowest eight are the permutation.
source "$(dirname "$0")/common.bash"
debian old trixie llvm-19=1:19.1.7-3+b1
debian new trixie llvm-22=1:22.1.8-1~deb13u5
for root in old new; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

for chip in gfx1100 gfx1201; do
    for name in mixlo_f16 mixhi_f16; do
        text="v_fma_${name}_e64_dpp v1, v2, v3, v4 quad_perm:[0,0,0,2] row_mask:0xf bank_mask:0xf"
        bytes=$(encode new $chip "$text")
        compare "LLVM 19, $chip: $bytes" "$text" "$text" "$(decode old $chip "$bytes")"
        compare "LLVM 22, $chip: $bytes" "$text" "${text/0,2]/0,0]}" "$(decode new $chip "$bytes")"
    done
    text="v_fma_mix_f32_e64_dpp v1, v2, v3, v4 quad_perm:[0,0,0,2] row_mask:0xf bank_mask:0xf"
    bytes=$(encode new $chip "$text")
    compare "LLVM 22, $chip: $bytes" "$text" "$text" "$(decode new $chip "$bytes")"
done
finish
