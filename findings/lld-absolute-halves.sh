#!/usr/bin/env bash
# Packages: llvm-22 and lld-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: ld.lld cannot link what llvm-mc of the same version writes. `s_mov_b32 s0, table@abs32@lo` becomes
# R_AMDGPU_ABS32_LO (1), and the pair with @abs32@hi R_AMDGPU_ABS32_HI (2). llvm-readelf names both; ld.lld says
# "unknown relocation (1)" and "(2)", for shared objects and for executables, also where the symbol is absolute and
# nothing is left for the loader. @rel32@lo and @rel32@hi link.
#
# Matters to: authors of assembly and of compilers who follow the list of relocations; loaders, which hold code for two
# relocations that come to them from other linkers only.
# Documentation: LLVM's "User Guide for AMDGPU Backend" lists both as static and dynamic relocations.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 lld-22=1:22.1.8-1~deb13u5
run llvm ld.lld --version

link() { # LINE LINKER-ARGUMENT...
    printf '.text\n%s\n s_endpgm\n.globl table\ntable = 0x123456789a\n.globl near\n.hidden near\nnear:\n s_endpgm\n' \
        "$1" >"$work/a.s"
    shift
    run llvm llvm-mc -triple=amdgcn-amd-amdhsa -mcpu=gfx1100 -filetype=obj "$work/a.s" -o "$work/a.o"
    { run llvm ld.lld "$work/a.o" -o "$work/a.out" "$@" 2>&1 && echo linked; } |
        sed -n 's/.*\(unknown relocation ([0-9]*)\).*/\1/p; /^linked$/p'
}
for kind in -shared '-e near'; do
    # shellcheck disable=SC2086
    compare "ld.lld $kind: s_mov_b32 s0, table@abs32@lo" linked "unknown relocation (1)" \
        "$(link 's_mov_b32 s0, table@abs32@lo' $kind || true)"
    # shellcheck disable=SC2086
    compare "ld.lld $kind: s_mov_b32 s0, table@abs32@hi" linked "unknown relocation (2)" \
        "$(link 's_mov_b32 s0, table@abs32@hi' $kind || true)"
    # shellcheck disable=SC2086
    compare "ld.lld $kind: s_add_u32 s0, s0, near@rel32@lo+4" linked linked \
        "$(link 's_add_u32 s0, s0, near@rel32@lo+4' $kind || true)"
done
link 's_mov_b32 s0, table@abs32@lo' -shared >/dev/null || true
compare "llvm-readelf -r" R_AMDGPU_ABS32_LO R_AMDGPU_ABS32_LO \
    "$(run llvm llvm-readelf -r "$work/a.o" | grep -o 'R_AMDGPU_[A-Z0-9_]*' || echo none)"
finish
