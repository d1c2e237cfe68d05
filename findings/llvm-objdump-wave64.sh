#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-objdump. Date: 2026-11-29.
#
# Seen: llvm-objdump lists the code of wave64 kernels of gfx10 to gfx12 as if it were wave32. A comparison that writes
# s[4:5] is listed with s4, vcc as vcc_lo, and a matrix multiplication that writes the four registers v[0:3] with eight,
# v[0:7]; on gfx1201 its inputs grow too. The text is valid assembly of the same bytes, so it looks right. llvm-objdump
# could know: with -D it prints `.amdhsa_wavefront_size32 0` from the descriptor of the same kernel, and the metadata has
# `.wavefront_size: 64`. The ELF flags do not have it. The listing is right with --mattr=+wavefrontsize64.
#
# Matters to: readers of such listings (GCC's kernels are wave64, and HIP's with -mwavefrontsize64), and programs that
# take the registers that an instruction writes from them.
# Documentation: LLVM's "User Guide for AMDGPU Backend": ENABLE_WAVEFRONT_SIZE32 of the descriptor says how the kernel
# runs; the manual of llvm-objdump has --mattr for features and no word on this one.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-objdump --version | sed -n 's/^ *//; /version/p'

object() { # CPU LINE
    cat >"$work/a.s" <<S
.amdgcn_target "amdgcn-amd-amdhsa--$1"
.text
k: $2
 s_endpgm
.section .rodata,"a"
.p2align 6
.amdhsa_kernel k
 .amdhsa_next_free_vgpr 32
 .amdhsa_next_free_sgpr 16
 .amdhsa_wavefront_size32 0
.end_amdhsa_kernel
S
    run llvm llvm-mc -triple=amdgcn-amd-amdhsa -mcpu="$1" -mattr=+wavefrontsize64 -filetype=obj "$work/a.s" -o "$work/a.o"
}
listed() { # OPTION...: the first instruction
    run llvm llvm-objdump -d --no-show-raw-insn -j .text "$@" "$work/a.o" | grep -A1 '<k>:' |
        sed -n 's/^[[:space:]]*//; s/[[:space:]]*\/\/.*//; 2p'
}
while IFS='|' read -r chip line now; do
    object "$chip" "$line"
    compare "$chip: $line" "$line" "$now" "$(listed)"
    compare "$chip: with --mattr=+wavefrontsize64" "$line" "$line" "$(listed --mattr=+wavefrontsize64)"
done <<'LIST'
gfx1030|v_cmp_eq_u32_e64 s[4:5], v0, v1|v_cmp_eq_u32_e64 s4, v0, v1
gfx1100|v_cmp_eq_u32_e32 vcc, v0, v1|v_cmp_eq_u32_e32 vcc_lo, v0, v1
gfx1100|v_wmma_f32_16x16x16_f16 v[0:3], v[8:15], v[16:23], v[0:3]|v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
gfx1201|v_wmma_f32_16x16x16_f16 v[0:3], v[8:9], v[16:17], v[0:3]|v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:19], v[0:7]
LIST
compare "the descriptor, by the same tool" ".amdhsa_wavefront_size32 0" ".amdhsa_wavefront_size32 0" \
    "$(run llvm llvm-objdump -d -j .rodata "$work/a.o" | sed -n 's/^[[:space:]]*\(.amdhsa_wavefront_size32 .*\)/\1/p')"
finish
