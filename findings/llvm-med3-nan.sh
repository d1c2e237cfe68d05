#!/usr/bin/env bash
# Packages: llvm-17 1:17.0.6-22+b2, llvm-19 1:19.1.7-3+b1, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), opt.
# Date: 2026-11-29.
#
# Seen: the median of 3, 1 and NaN (llvm.amdgcn.fmed3) is folded to 3 by LLVM 17 and 19 if the NaN is the third operand,
# and to 1 if it is the first or the second. v_med3_f32 gives the smallest for any of them. It is not only constants:
# with a NaN known in the third place, med3(x, y, NaN) becomes the maximum of x and y, and with one in another place the
# minimum. So the value changes with the optimisation level. LLVM 22 has the minimum in all three.
#
# Matters to: tests of an emulator or a GPU against values folded by the compiler; kernels that clamp by med3 and rely on
# what NaN becomes.
# Documentation: AMD's RDNA3 ISA document, V_MED3_F32: with a NaN in any source the result is that of V_MIN3_F32, and the
# minimum of a number and NaN is the number.
source "$(dirname "$0")/common.bash"
debian llvm17 trixie llvm-17=1:17.0.6-22+b2
debian llvm19 trixie llvm-19=1:19.1.7-3+b1
debian llvm22 trixie llvm-22=1:22.1.8-1~deb13u5
for root in llvm17 llvm19 llvm22; do run $root opt --version | sed -n 's/^ *//; /version/p'; done

folded() { # ROOT OPERAND OPERAND OPERAND: the value, or the operation that is left
    printf 'target triple = "amdgcn-amd-amdhsa"\ndeclare float @llvm.amdgcn.fmed3.f32(float, float, float)\n' >"$work/a.ll"
    printf 'define float @f(float %%x, float %%y) {\n  %%r = call float @llvm.amdgcn.fmed3.f32(float %s, float %s, float %s)
  ret float %%r\n}\n' "$2" "$3" "$4" >>"$work/a.ll"
    run "$1" opt -S -O1 -mcpu=gfx1100 "$work/a.ll" -o - |
        sed -n 's/.* call .*@\(llvm\.[a-z0-9.]*\)(\(.*\)).*/\1/p; s/ *ret float \([0-9].*\)/\1/p' | head -1
}
nan=0x7FF8000000000000
for root in llvm17 llvm19 llvm22; do
    third=3.000000e+00 kept=llvm.maxnum.f32
    [ $root = llvm22 ] && third=1.000000e+00 kept=llvm.minnum.f32
    compare "$root: med3(NaN, 3, 1)" 1.000000e+00 1.000000e+00 "$(folded $root $nan 3.0 1.0)"
    compare "$root: med3(3, NaN, 1)" 1.000000e+00 1.000000e+00 "$(folded $root 3.0 $nan 1.0)"
    compare "$root: med3(3, 1, NaN)" 1.000000e+00 $third "$(folded $root 3.0 1.0 $nan)"
    compare "$root: med3(NaN, x, y)" llvm.minnum.f32 llvm.minnum.f32 "$(folded $root $nan %x %y)"
    compare "$root: med3(x, y, NaN)" llvm.minnum.f32 $kept "$(folded $root %x %y $nan)"
done
finish
