#!/usr/bin/env bash
# Packages: mlir-22-tools 1:22.1.8-1~deb13u5, rocm-device-libs-17 6.0+git20231212.5a852ed-2 (Debian trixie). Date: 2026-11-29.
#
# Seen: MLIR builds a module for gfx1100 or gfx1201 of two halves that disagree: the code has waves of 32 lanes, and the
# device library that is linked into it is told that waves have 64. The option `wave64` of rocdl-attach-target
# ("Use Wave64 mode") is on by default, and sets only the library's switch, not the wave. So a sum over the wave by
# `__ockl_wfred_add_i32` looks for the upper 32 lanes in exec_hi and reads lane 0 once more; with `wave64=false` it does
# not, and the wave has 32 lanes as before. With `features=+wavefrontsize64` both are 64. gfx900 is right by default.
#
# Matters to: code generators upon MLIR that call the device library by the default target; emulators: exec_hi is read in
# a kernel of wave32.
# Documentation: rocdl-attach-target's help; ROCm's device libraries, OCKL: __oclc_wavefrontsize64 says which wave the
# code is for; LLVM's "User Guide for AMDGPU Backend": gfx10 and later have wavefrontsize32 by default.
source "$(dirname "$0")/common.bash"
debian mlir trixie mlir-22-tools=1:22.1.8-1~deb13u5
debian library trixie rocm-device-libs-17=6.0+git20231212.5a852ed-2
run mlir mlir-opt --version | sed -n 's/^ *//; /version/p'
echo "rocm-device-libs-17 6.0+git20231212.5a852ed-2"

cat >"$work/sum.mlir" <<'M'
gpu.module @m {
  llvm.func @__ockl_wfred_add_i32(i32) -> i32
  llvm.func @k(%a: i32, %p: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
    %r = llvm.call @__ockl_wfred_add_i32(%a) : (i32) -> i32
    llvm.store %r, %p : i32, !llvm.ptr<1>
    llvm.return
  }
}
M
build() { # CPU OPTION...: the lanes of a wave in the code, and those that the sum is written for
    run mlir mlir-opt --rocdl-attach-target="chip=$*" \
        --gpu-module-to-binary="format=isa toolkit=$work/library/usr/lib/llvm-17/lib/clang/17" "$work/sum.mlir" |
        sed 's/\\0A/\n/g; s/\\09/ /g' >"$work/isa"
    printf 'wave of %s, sum of ' "$(sed -n 's/.*\.wavefront_size: *//p' "$work/isa")"
    if grep -q 'v_readlane_b32\|exec_hi' "$work/isa"; then echo 64; else echo 32; fi
}
compare gfx900 "wave of 64, sum of 64" "wave of 64, sum of 64" "$(build gfx900)"
for chip in gfx1030 gfx1100 gfx1201; do
    compare "$chip" "wave of 32, sum of 32" "wave of 32, sum of 64" "$(build $chip)"
    compare "$chip, wave64=true" "wave of 64, sum of 64" "wave of 32, sum of 64" "$(build $chip wave64=true)"
    compare "$chip, wave64=false" "wave of 32, sum of 32" "wave of 32, sum of 32" "$(build $chip wave64=false)"
    compare "$chip, features=+wavefrontsize64" "wave of 64, sum of 64" "wave of 64, sum of 64" \
        "$(build $chip features=+wavefrontsize64)"
done
build gfx1100 >/dev/null
compare "gfx1100: the sum reads exec_hi" no yes "$(grep -q exec_hi "$work/isa" && echo yes || echo no)"
finish
