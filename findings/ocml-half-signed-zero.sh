#!/usr/bin/env bash
# Packages: clang-17 1:17.0.6-22+b2, rocm-device-libs-17 6.0+git20231212.5a852ed-2 (Debian trixie). Date: 2026-11-29.
#
# Seen: three functions of ROCm's device library lose the sign of zero in half precision. expm1, sinh and tanh of -0 are
# +0 in f16; sinh and tanh of f32 and f64 keep it, and so do asin, atan, sin and tan of f16. In OpenCL C the optimizer
# hides this for constants: it has a table of its own, by which expm1(-0.0h) is -0, so that a constant and a variable of
# the same value differ. (The script asks the library by its inner names, which HIP uses, and which the optimizer's
# table does not know.) And ilogb of NaN is INT_MAX, which is FP_ILOGBNAN for OpenCL C; HIP code takes that macro from
# the C library of the host, where it is INT_MIN on x86-64 (for zero both have INT_MIN), so `ilogb(x) == FP_ILOGBNAN` is
# false for NaN on the device, and true for zero alone.
#
# Matters to: those who compare half-precision kernels bit by bit with a CPU; code that divides by the result; ports of
# CPU code that looks for NaN by ilogb.
# Documentation: the OpenCL C specification refers to the edge cases of C99, Annex F: expm1, sinh and tanh of a zero are
# that zero; C99 7.12.6.5: ilogb of NaN is FP_ILOGBNAN.
source "$(dirname "$0")/common.bash"
need cc
debian clang trixie clang-17=1:17.0.6-22+b2 rocm-device-libs-17=6.0+git20231212.5a852ed-2
run clang clang --version | sed -n 1p

folded() { # TYPE EXPRESSION: the constant that a kernel stores; inner_NAME(x) is the library's own function
    local name=${2%%(*} suffix
    case $1 in half) suffix=f16 ;; float | int) suffix=f32 ;; double) suffix=f64 ;; esac
    {
        echo '#pragma OPENCL EXTENSION cl_khr_fp16 : enable'
        [[ $name = inner_* ]] && echo "$1 $name($1) __asm(\"__ocml_${name#inner_}_$suffix\");"
        echo "kernel void k(global $1 *p) { p[0] = $2; }"
    } >"$work/k.cl"
    run clang clang --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -resource-dir "$work/clang/usr/lib/llvm-17/lib/clang/17" \
        -x cl -cl-std=CL2.0 -O2 -S -emit-llvm -o - "$work/k.cl" | sed -n 's/ *store [a-z0-9]* \([^,]*\), ptr.*/\1/p' |
        sed 's/^0xH8000$/-0/; s/^0xH0000$/+0/; s/^-0\.0*e+00$/-0/; s/^0\.0*e+00$/+0/'
}
for function in expm1 sinh tanh; do
    compare "half $function(-0), by the library" -0 +0 "$(folded half "inner_$function(-0.0h)")"
    compare "half $function(-0), by the optimizer's table" -0 -0 "$(folded half "$function(-0.0h)")"
    [ $function = expm1 ] && continue # not folded in the wider types
    compare "float $function(-0), by the library" -0 -0 "$(folded float "inner_$function(-0.0f)")"
    compare "double $function(-0), by the library" -0 -0 "$(folded double "inner_$function(-0.0)")"
done
for function in asin atan sin tan; do compare "half $function(-0), by the library" -0 -0 "$(folded half "inner_$function(-0.0h)")"; done
printf '#include <math.h>\nnan FP_ILOGBNAN\nzero FP_ILOGB0\n' | cc -E -P - >"$work/macros"
macro() { echo $(($(sed -n "s/^$1 //p" "$work/macros"))); }
compare "ilogb(NAN) on the device" "$(macro nan), as FP_ILOGBNAN of the C library" 2147483647 "$(folded int 'ilogb((float)NAN)')"
compare "FP_ILOGBNAN of the C library" -2147483648 -2147483648 "$(macro nan)"
compare "ilogb(0) on the device" "$(macro zero), as FP_ILOGB0 of the C library" -2147483648 "$(folded int 'ilogb(0.0f)')"
finish
