#!/usr/bin/env bash
# Packages: llvm-22, lld-22 and clang-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: ld.lld links two objects with kernels into one code object with two NT_AMDGPU_METADATA notes, one behind the
# other in one PT_NOTE. Each is a whole map with its own `amdhsa.kernels`, and neither names the kernel of the other
# object. There is no warning, and both kernels are in the symbol table. `ld.lld -r` does the same. (HIP's usual
# builds link bitcode before, so they have one.)
#
# Matters to: loaders and emulators, which take the first note and then miss half of the kernels, or must read all; build
# scripts that link code objects by hand.
# Documentation: LLVM's "User Guide for AMDGPU Backend" describes the note as the metadata of the code object, and
# `amdhsa.kernels` as a list with one map for each kernel in it.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 lld-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
run llvm ld.lld --version

for name in first second; do
    echo "__attribute__((amdgpu_kernel)) void $name(__attribute__((address_space(1))) int *p) { *p = 1; }" >"$work/$name.c"
    run llvm clang --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -O2 -c "$work/$name.c" -o "$work/$name.o"
done
notes() { # FILE: the kernels that each note names
    run llvm llvm-readelf -n "$1" | awk '/NT_AMDGPU_METADATA/ { printf "%s", sep "note:"; sep = "; " }
        $1 == ".name:" { printf " %s", $2 } END { print "" }'
}
compare "an object of one" "note: first" "note: first" "$(notes "$work/first.o")"
run llvm ld.lld -shared "$work/first.o" "$work/second.o" -o "$work/both.so"
compare "ld.lld -shared" "note: first second" "note: first; note: second" "$(notes "$work/both.so")"
run llvm ld.lld -r "$work/first.o" "$work/second.o" -o "$work/both.o"
compare "ld.lld -r" "note: first second" "note: first; note: second" "$(notes "$work/both.o")"
compare "kernel descriptors" "first.kd second.kd" "first.kd second.kd" \
    "$(run llvm llvm-readelf --dyn-syms "$work/both.so" | grep -o '[a-z]*\.kd' | sort | paste -sd' ')"
finish
