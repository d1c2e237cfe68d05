#!/usr/bin/env bash
# Packages: clang-17 1:17.0.6-22+b2, rocm-device-libs-17 6.0+git20231212.5a852ed-2 (Debian trixie); llvm-22
# 1:22.1.8-1~deb13u5 for the second half. Date: 2026-11-29.
#
# Seen: in OpenCL C, `pow(x, 0.5f)` of one kernel depends on whether another kernel of the file calls `sqrt`. Alone,
# pow(-INFINITY, 0.5f) is infinity. With a kernel beside it that uses sqrt, the compiler turns pow into that sqrt, which is
# NaN there (and -0 for -0). No option for fast arithmetic is given: the pass replaces the call wherever the library's
# sqrt happens to be in the module. With -O0 both give the call.
# `powr` is worse off: powr(-3.0f, 2.0f) is 9 and powr(NAN, 0.0f) is 1, where the device library's own powr, asked under
# its inner name __ocml_powr_f32, gives NaN for both. LLVM 22 folds powr in the same way.
#
# Matters to: those who compare results of a GPU, an emulator and a CPU with a kernel cut out of a larger file; writers of
# tests for edge cases, whose outcome depends on the optimisation level.
# Documentation: the OpenCL C specification, "Edge Case Behavior": pow(-inf, y) is +inf for y > 0 that is no odd integer;
# powr(x, y) is NaN for x < 0, and for x NaN.
source "$(dirname "$0")/common.bash"
debian clang trixie clang-17=1:17.0.6-22+b2 llvm-17=1:17.0.6-22+b2 rocm-device-libs-17=6.0+git20231212.5a852ed-2
debian llvm22 trixie llvm-22=1:22.1.8-1~deb13u5
run clang clang --version | sed -n 1p
run llvm22 opt --version | sed -n 's/^ *//; /version/p'

cat >"$work/alone.cl" <<'C'
float inner(float x, float y) __asm("__ocml_powr_f32");
kernel void k(global float *p) { p[0] = pow(-INFINITY, 0.5f); }
kernel void r(global float *p) { p[0] = powr(-3.0f, 2.0f); }
kernel void n(global float *p) { p[0] = powr(NAN, 0.0f); }
kernel void ri(global float *p) { p[0] = inner(-3.0f, 2.0f); }
kernel void ni(global float *p) { p[0] = inner(NAN, 0.0f); }
C
{ cat "$work/alone.cl"; echo 'kernel void other(global float *p) { p[0] = sqrt(p[1]); }'; } >"$work/beside.cl"
stored() { # FILE KERNEL LEVEL: what the kernel stores
    run clang clang --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -resource-dir "$work/clang/usr/lib/llvm-17/lib/clang/17" \
        -x cl -cl-std=CL2.0 "$3" -S -emit-llvm -o "$work/out.ll" "$work/$1.cl"
    awk -v start="@$2(" 'index($0, start) && /^define/ { inside = 1 } inside && /(call|store) float/ { print } /^}/ { inside = 0 }' \
        "$work/out.ll" | sed -n 's/.*call float @\([^(]*\)(float[a-z ]* \([^,)]*\).*/\1(\2)/p
            s/.*store float \(0x[0-9A-F]*\|[0-9.e+-]*\),.*/\1/p' | sed 's/0x7FF0000000000000/infinity/; s/0xFFF0000000000000/-infinity/
            s/0x7FF[8-F][0-9A-F]*/NaN/' | head -1
}
compare "pow(-inf, 0.5f), -O0" "_Z3powff(-infinity)" "_Z3powff(-infinity)" "$(stored beside k -O0)"
compare "pow(-inf, 0.5f), -O2, alone" infinity infinity "$(stored alone k -O2)"
compare "pow(-inf, 0.5f), -O2, beside a kernel with sqrt" infinity "llvm.sqrt.f32(-infinity)" "$(stored beside k -O2)"
compare "powr(-3, 2), -O2" NaN "9.000000e+00" "$(stored alone r -O2)"
compare "__ocml_powr_f32(-3, 2), -O2" NaN NaN "$(stored alone ri -O2)"
compare "powr(NaN, 0), -O2" NaN "1.000000e+00" "$(stored alone n -O2)"
compare "__ocml_powr_f32(NaN, 0), -O2" NaN NaN "$(stored alone ni -O2)"

cat >"$work/a.ll" <<'LL'
target triple = "amdgcn-amd-amdhsa"
declare float @_Z4powrff(float, float)
define float @square() {
  %r = call float @_Z4powrff(float -3.0, float 2.0)
  ret float %r
}
LL
compare "LLVM 22: powr(-3, 2), opt -O1" NaN "9.000000e+00" \
    "$(run llvm22 opt -S -O1 "$work/a.ll" -o - | sed -n 's/ *ret float //p')"
finish
