#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-30.
#
# Seen: the rotating mode of `ds_swizzle_b32` has a direction, a count and a mask of lane bits that stay as they are. The
# notation `swizzle(ROTATE, direction, count)` has no place for the mask, and the disassembler uses it for every mask: three
# different exchanges have one text, and the text assembles to the one without a mask. A number as offset keeps all
# bits, but the assembler's own listing shows the notation again. Where it has no name for a mode (0xa0e4) it prints the number.
#
# Matters to: programs that disassemble, change and assemble; readers of listings of reductions within parts of a wave.
# Documentation: AMD's RDNA3 ISA document, DS_SWIZZLE_B32: in rotate mode offset[4:0] is the mask of the bits that stay.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

for chip in gfx942 gfx1201; do
    op=7a
    [ $chip = gfx1201 ] && op=d4
    for mask in a0 a1 b8; do
        bytes="$mask c0 $op d8 02 00 00 01"
        compare "$chip: offset:0xc0$mask" "$bytes" "$bytes" "$(encode llvm $chip "ds_swizzle_b32 v1, v2 offset:0xc0$mask")"
        text=$(decode llvm $chip "$bytes")
        compare "$chip: $bytes" "a text for this mask alone" "ds_swizzle_b32 v1, v2 offset:swizzle(ROTATE,0,5)" "$text"
        compare "$chip: that text assembled" "$bytes" "a0 c0 $op d8 02 00 00 01" "$(encode llvm $chip "$text")"
    done
    compare "$chip: a mode without a name" "a number" "ds_swizzle_b32 v1, v2 offset:41188" \
        "$(decode llvm $chip "e4 a0 $op d8 02 00 00 01")"
done
finish
