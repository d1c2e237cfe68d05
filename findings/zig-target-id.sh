#!/usr/bin/env bash
# Packages: ziglang 0.17.0 (PyPI), llvm-22 and clang-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: zig builds objects for AMD GPUs that ask for another machine than clang's. With `-mcpu gfx942` zig's object says
# `xnack-` and `sramecc-` (e_flags 0xa4c): it may run only where SRAM-ECC is off. clang's for the same CPU says "any" for
# both (0x54c). gfx906 is the same. The target in the metadata has a word that clang's has not:
# `amdgcn-amd-amdhsa-unknown-gfx1100` where clang writes `amdgcn-amd-amdhsa--gfx1100`.
# `zig cc -target amdgcn-amdhsa` compiles for none of the CPUs tried: it asks for wavefronts of 32 and of 64 at once.
#
# Matters to: loaders and emulators, which must compare target IDs by meaning and not as text, and which should refuse
# zig's gfx942 objects on a device with SRAM-ECC; users of zig who wonder why.
# Documentation: LLVM's "User Guide for AMDGPU Backend": a feature that a target ID leaves out is "any"; zig's list of
# targets has amdgcn-amdhsa.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
python ziglang==0.17.0
export ZIG_LOCAL_CACHE_DIR=$work/zig ZIG_GLOBAL_CACHE_DIR=$work/zig
printf 'zig '
run_python -m ziglang version
run llvm clang --version | sed -n 1p

echo 'export fn k(p: *addrspace(.global) u32) callconv(.amdgcn_kernel) void { p.* = 1; }' >"$work/k.zig"
echo '__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) int *p) { *p = 1; }' >"$work/k.c"
flags() { run llvm llvm-readelf -h "$1" | sed -n 's/ *Flags: *//p'; }
target() { run llvm llvm-readelf -n "$1" | sed -n "s/^amdhsa.target: *//p" | tr -d "'"; }
declare -A recorded_zig=([gfx906]="0xa2f, gfx906, xnack-, sramecc-" [gfx942]="0xa4c, gfx942, xnack-, sramecc-")
declare -A recorded_clang=([gfx906]="0x52f, gfx906, xnack, sramecc" [gfx942]="0x54c, gfx942, xnack, sramecc")
for chip in gfx906 gfx942; do
    run_python -m ziglang build-obj -target amdgcn-amdhsa-none -mcpu $chip -O ReleaseSmall "-femit-bin=$work/zig.o" "$work/k.zig"
    run llvm clang --target=amdgcn-amd-amdhsa -mcpu=$chip -nogpulib -O2 -c "$work/k.c" -o "$work/clang.o"
    compare "clang, $chip" "${recorded_clang[$chip]}" "${recorded_clang[$chip]}" "$(flags "$work/clang.o")"
    compare "zig, $chip" "${recorded_clang[$chip]}" "${recorded_zig[$chip]}" "$(flags "$work/zig.o")"
done
run_python -m ziglang build-obj -target amdgcn-amdhsa-none -mcpu gfx1100 -O ReleaseSmall "-femit-bin=$work/zig.o" "$work/k.zig"
compare "zig, gfx1100: amdhsa.target" "amdgcn-amd-amdhsa--gfx1100" "amdgcn-amd-amdhsa-unknown-gfx1100" "$(target "$work/zig.o")"
for chip in gfx906 gfx1100; do
    compare "zig cc -mcpu=$chip" "an object" \
        "error: invalid feature combination: 'wavefrontsize32' and 'wavefrontsize64' are mutually exclusive" \
        "$({ run_python -m ziglang cc -target amdgcn-amdhsa -mcpu=$chip -c "$work/k.c" -o "$work/cc.o" 2>&1 && echo "an object"; } |
            grep -v '^warning' | head -1 || true)"
done
finish
