#!/usr/bin/env bash
# Packages: llvm-22 and clang-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: an integer that becomes a bfloat16 is rounded twice in the code that clang makes for AMD GPUs: to f32, and from
# there to 16 bits. 0x80800001 lies just above the middle of two neighbours; f32 drops the last bit, and the middle
# goes to the even neighbour, 0x80000000, the farther one. The same expression with a constant is folded with one rounding
# and gives 0x81000000. So it is on all of gfx942, gfx950, gfx1100, gfx1201 and gfx1250. A double goes through f32
# too, but there the code corrects the f32 to odd in between, and the result is right.
#
# Matters to: tests that compare a kernel with constants from the same compiler; references for bf16 made of integers.
# Documentation: LLVM's Language Reference: uitofp rounds a value that does not fit by the default rounding mode, to the
# nearest; C23, 6.3.1.4: the nearest higher or lower value is taken, by the rounding direction.
source "$(dirname "$0")/common.bash"
need python3
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
run llvm clang --version | sed -n 1p

cat >"$work/k.c" <<'C'
typedef __attribute__((address_space(1))) __bf16 *out;
__attribute__((amdgpu_kernel)) void variable(out p, unsigned x) { *p = (__bf16)x; }
__attribute__((amdgpu_kernel)) void constant(out p) { *p = (__bf16)0x80800001u; }
C
compile() { # CPU
    run llvm clang --target=amdgcn-amd-amdhsa -mcpu="$1" -nogpulib -O2 -S "$work/k.c" -o "$work/k.s"
}
steps() { # conversions of the variable; without an instruction for bf16, the last bit that stays is taken out and added
    sed -n '/^variable:/,/s_endpgm/p' "$work/k.s" | grep -oE '[vs]_(cvt|bfe)[a-z0-9_]*' | sed 's/_e[0-9]*$//' | paste -sd' '
}
stored() { # what the kernel with the constant stores
    sed -n '/^constant:/,/s_endpgm/p' "$work/k.s" | grep -oE '0x4f0[0-9a-f]' | head -1
}
twice=$(python3 - <<'PY'
import struct
def upper(bits):  # an f32, rounded to the upper 16 bits, ties to even
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
f32 = struct.unpack("<I", struct.pack("<f", 0x80800001))[0]
print(f"{upper(f32):#06x}")
PY
)
compare "0x80800001 by way of f32" 0x4f01 0x4f00 "$twice"
while read -r chip conversions; do
    compile "$chip"
    compare "$chip: the constant" 0x4f01 0x4f01 "$(stored)"
    compare "$chip: conversions of the variable" "one rounding, or one to odd in between" "$conversions" "$(steps)"
done <<'LIST'
gfx942 v_cvt_f32_u32 v_bfe_u32
gfx950 v_cvt_f32_u32 v_cvt_pk_bf16_f32
gfx1100 v_cvt_f32_u32 v_bfe_u32
gfx1201 s_cvt_f32_u32 s_bfe_u32
gfx1250 s_cvt_f32_u32 v_cvt_pk_bf16_f32
LIST
finish
