#!/usr/bin/env bash
# Packages: llvm-19 1:19.1.7-3+b1, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-30.
#
# Seen: for gfx942, LLVM 22 drops `sc1` without a word from atomics of doubles that return to accumulation registers: a
# system-wide atomic becomes one of a smaller scope. The bytes with it, which LLVM 19 made, are no instruction. The same
# atomics on vector registers, those that return nothing, and atomics of integers are right. `global_atomic_add_f32` and
# `global_atomic_pk_add_f16` cannot return to accumulation registers any more. LLVM 23.1.4 does the same as 22.
#
# Matters to: hand-written kernels of MI300 that keep accumulators in AGPRs; readers of objects that older compilers made.
# Documentation: AMD's CDNA3 ISA document: SC1 and ACC are fields of the FLAT encoding, which all of these have.
source "$(dirname "$0")/common.bash"
debian old trixie llvm-19=1:19.1.7-3+b1
debian new trixie llvm-22=1:22.1.8-1~deb13u5
for root in old new; do run $root llvm-mc --version | sed -n 's/^ *//; /version/p'; done

text='flat_atomic_add_f64 a[2:3], v[2:3], a[4:5] sc0 sc1'
bytes='00 00 3d df 02 04 80 02'
compare "LLVM 19: $text" "$bytes" "$bytes" "$(encode old gfx942 "$text")"
compare "LLVM 22: $text" "$bytes" "00 00 3d dd 02 04 80 02" "$(encode new gfx942 "$text")"
compare "LLVM 22: the bytes $bytes" "$text" "warning: invalid instruction encoding" "$(decode new gfx942 "$bytes" | cut -d';' -f1)"
text='flat_atomic_add_f64 v[2:3], v[2:3], v[4:5] sc0 sc1'
compare "LLVM 22: $text" "00 00 3d df 02 04 00 02" "00 00 3d df 02 04 00 02" "$(encode new gfx942 "$text")"
text='flat_atomic_add_x2 a[2:3], v[2:3], a[4:5] sc0 sc1'
compare "LLVM 22: $text" "00 00 89 df 02 04 80 02" "00 00 89 df 02 04 80 02" "$(encode new gfx942 "$text")"
for text in 'global_atomic_add_f32 a1, v[2:3], a4, off sc0' 'global_atomic_pk_add_f16 a1, v[2:3], a4, off sc0'; do
    bytes=$(encode old gfx942 "$text")
    compare "LLVM 19: the bytes of $text" "$text" "$text" "$(decode old gfx942 "$bytes")"
    compare "LLVM 22: $text" "$bytes" "error: operands are not valid for this GPU or mode" "$(encode new gfx942 "$text")"
done
finish
