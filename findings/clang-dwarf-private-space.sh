#!/usr/bin/env bash
# Package: clang-22 and llvm-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: where clang puts a local variable of a kernel, in DWARF, depends on the source language. In OpenCL C its location
# ends with "address space 5", private memory of the lane. In C the location is the same offset from the same frame base
# (an offset in scratch memory), but ends with "address space 1", which is the generic one: a debugger that does as it is
# told reads a flat address near zero. Pointers to local memory have DW_AT_address_class 3 in both languages. A variable
# in local memory (`local int a[4]`) has no location at all.
#
# Matters to: debuggers, and emulators that show variables from DWARF; those who test a DWARF reader with OpenCL and then
# meet code of other languages.
# Documentation: LLVM's "User Guide for AMDGPU Backend", AMDGPU DWARF address space mapping: 0x01 is generic, 0x05 private_lane.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
run llvm clang --version | sed -n 1p

cat >"$work/k.c" <<'C'
__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) int *p) { int x[4] = {1, 2, 3, 4}; *p = x[*p & 3]; }
C
cat >"$work/k.cl" <<'C'
kernel void k(global int *p) { local int shared[4]; int x[4] = {1, 2, 3, 4}; shared[*p & 3] = 1; *p = x[*p & 3]; }
C
location() { # FILE NAME
    run llvm clang --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -g -O0 \
        -resource-dir "$work/llvm/usr/lib/llvm-22/lib/clang/22" -c "$work/$1" -o "$work/k.o"
    run llvm llvm-dwarfdump --name="$2" "$work/k.o" >"$work/entry"
    grep -q "DW_AT_name" "$work/entry" || { echo "no such variable" && return; }
    sed -n 's/.*DW_AT_location[[:space:]]*//p' "$work/entry" | sed 's/fbreg +[0-9]*/fbreg +N/' | grep . || echo none
}
compare "OpenCL C: int x[4]" "(DW_OP_fbreg +N, DW_OP_lit5, DW_OP_swap, DW_OP_xderef)" \
    "(DW_OP_fbreg +N, DW_OP_lit5, DW_OP_swap, DW_OP_xderef)" "$(location k.cl x)"
compare "C: int x[4]" "(DW_OP_fbreg +N, DW_OP_lit5, DW_OP_swap, DW_OP_xderef)" \
    "(DW_OP_fbreg +N, DW_OP_lit1, DW_OP_swap, DW_OP_xderef)" "$(location k.c x)"
compare "OpenCL C: local int shared[4]" "an address in address space 3" none "$(location k.cl shared)"
finish
