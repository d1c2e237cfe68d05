#!/usr/bin/env bash
# Packages: llvm-17 1:17.0.6-22+b2, llvm-19 1:19.1.7-3+b1, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc.
# Date: 2026-11-29.
#
# Seen: `v_fma_mix_f32` begins with d3a0 on gfx906 and with cc20 on gfx10 to gfx12, where d0 to d3 is not VOP3P. LLVM 22
# reads the gfx906 bytes as that instruction for gfx1030, gfx1100 and gfx1201 too. LLVM 17 did so (gfx12 is not in it),
# LLVM 19 refused them, and LLVM 22 takes them again. The text assembles to cc20, so nothing but a disassembler shows it.
#
# Matters to: those who test a decoder against llvm-mc ("it decodes, so it exists") or count the opcodes of a chip by
# it; the set of valid words of a chip depends on the version, and not in one direction.
# Documentation: AMD's RDNA2, RDNA3 and RDNA4 ISA documents list V_FMA_MIX_F32 in VOP3P alone.
source "$(dirname "$0")/common.bash"
debian llvm17 trixie llvm-17=1:17.0.6-22+b2
debian llvm19 trixie llvm-19=1:19.1.7-3+b1
debian llvm22 trixie llvm-22=1:22.1.8-1~deb13u5
for root in llvm17 llvm19 llvm22; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

text='v_fma_mix_f32 v0, v1, v2, v3'
foreign=$(encode llvm22 gfx906 "$text")
own=$(encode llvm22 gfx1100 "$text")
compare "bytes of gfx906: $text" "those of its ISA document" "00 00 a0 d3 01 05 0e 04" "$foreign"
compare "bytes of gfx1100: $text" "those of its ISA document" "00 00 20 cc 01 05 0e 04" "$own"
refused='warning: invalid instruction encoding'
for chip in gfx1030 gfx1100; do
    compare "LLVM 17, $chip: the bytes $foreign" "$refused" "$text" "$(decode llvm17 $chip "$foreign")"
done
for chip in gfx1030 gfx1100 gfx1201; do
    compare "LLVM 19, $chip: the bytes $foreign" "$refused" "$refused" "$(decode llvm19 $chip "$foreign" | cut -d';' -f1)"
    compare "LLVM 22, $chip: the bytes $foreign" "$refused" "$text" "$(decode llvm22 $chip "$foreign")"
done
finish
