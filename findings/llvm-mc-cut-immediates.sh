#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: llvm-mc takes numbers that do not fit their field and writes the low bits, without an error or a warning.
# The offset of a MUBUF instruction has 12 bits on all chips before gfx12. llvm-mc accepts 16: `offset:4096` is encoded
# as offset 0, and the error for 65536 even asks for "a 16-bit unsigned offset". `-show-encoding` prints the full
# number beside the cut bytes, so a reader of the listing sees nothing. The same happens to `dmask:0x1f`,
# `bank_mask:0x1f`, `s_nop 0x10000`, and a fourth element of `op_sel` of a three-operand instruction is dropped.
# LLVM 17 and 19 do the same.
#
# Matters to: authors of assembly, who read other memory than they wrote; assemblers and test generators that take
# "llvm-mc accepts it" for "it can be encoded"; comparisons of an own assembler with llvm-mc.
# Documentation: LLVM's "Syntax of AMDGPU Instruction Modifiers" gives offset12 as {0..0xFFF}, dmask and bank_mask as
# {0..15}, and op_sel one element for each operand.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

same() { # CPU TEXT FITTING-TEXT: both have the same bytes
    local cut fit
    cut=$(encode llvm "$1" "$2")
    fit=$(encode llvm "$1" "$3")
    compare "$1: $2" "an error, as the number does not fit" "the bytes of '$3'" \
        "$([ "$cut" = "$fit" ] && echo "the bytes of '$3'" || echo "$cut")"
}
for chip in gfx900 gfx942 gfx1030 gfx1100; do
    same $chip 'buffer_load_dword v0, off, s[0:3], s4 offset:4096' 'buffer_load_dword v0, off, s[0:3], s4'
    same $chip 'buffer_store_dword v0, off, s[0:3], s4 offset:12345' 'buffer_store_dword v0, off, s[0:3], s4 offset:57'
done
compare "gfx1100: offset:65536" "an error that names 12 bits" "error: expected a 16-bit unsigned offset" \
    "$(encode llvm gfx1100 'buffer_load_dword v0, off, s[0:3], s4 offset:65536')"
same gfx1100 'image_load v[0:3], v0, s[0:7] dmask:0x1f dim:SQ_RSRC_IMG_1D' \
    'image_load v[0:3], v0, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_1D'
same gfx1100 'v_mov_b32_dpp v0, v1 row_shl:1 bank_mask:0x1e' 'v_mov_b32_dpp v0, v1 row_shl:1 bank_mask:0xe'
same gfx1100 's_nop 0x10000' 's_nop 0'
same gfx1100 'v_pk_fma_f16 v0, v1, v2, v3 op_sel:[1,0,0,1]' 'v_pk_fma_f16 v0, v1, v2, v3 op_sel:[1,0,0]'
finish
