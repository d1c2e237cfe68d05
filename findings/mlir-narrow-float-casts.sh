#!/usr/bin/env bash
# Package: mlir-22-tools 1:22.1.8-1~deb13u5 (Debian trixie), mlir-opt. Date: 2026-11-29.
#
# Seen: casts to the number formats of MX data in MLIR give numbers of three kinds. The constant folder takes -0.25 for a
# number of f8E8M0FNU, which has no sign, and stores 0xfd, which is 2^126; 0.0 becomes 0x00, which is 2^-127.
# Infinity becomes 0 in f4E2M1FN, where 3e38 becomes 6. The pass arith-expand, by which targets without an instruction get
# their code, rounds half up to FP4 where both neighbours are as near (1.25, 2.5 and 5 become 1.5, 3 and 6, though 0.25
# becomes 0), also where `to_nearest_even` is written, loses the sign of -0.25, and cuts to the power of two below for
# f8E8M0FNU (1.9999 becomes 1), dropping the sign there too.
#
# Matters to: MX kernels for AMD GPUs before gfx950, which has the conversions; tests that compare such a kernel with
# numpy's ml_dtypes or with the instruction.
# Documentation: OCP's "Microscaling Formats (MX) Specification": E8M0 is 2^(bits-127) and has no sign and no zero, FP4 uses
# roundTiesToEven; MLIR's arith dialect: truncf rounds by the mode given.
source "$(dirname "$0")/common.bash"
debian mlir trixie mlir-22-tools=1:22.1.8-1~deb13u5
run mlir mlir-opt --version | sed -n 's/^ *//; /version/p'

cast() { # NUMBER TYPE PASS [MODE]: the bits after a cast from f32
    local integer=i8
    [ "$2" = f4E2M1FN ] && integer=i4
    printf 'func.func @f() -> %s {\n %%a = arith.constant %s : f32\n %%b = arith.truncf %%a %s : f32 to %s\n' \
        $integer "$1" "${4:-}" "$2" >"$work/a.mlir"
    printf ' %%c = arith.bitcast %%b : %s to %s\n return %%c : %s\n}\n' "$2" $integer $integer >>"$work/a.mlir"
    run mlir mlir-opt --pass-pipeline="builtin.module($3canonicalize)" "$work/a.mlir" |
        sed -n 's/.*arith.constant \(-*[0-9]*\) : i.*/\1/p' | while read -r bits; do
            printf '0x%0*x\n' $((${integer#i} / 4)) $((bits & ((1 << ${integer#i}) - 1)))
        done
}
expand='arith-expand{include-f8e8m0=true include-f4e2m1=true},'
for line in '0.25 0x7d,_which_is_0.25 0x7d' '-0.25 0xff,_which_is_NaN 0xfd' '0.0 0xff_or_an_error 0x00'; do
    read -r number expected now <<<"$line"
    compare "folded: $number in f8E8M0FNU" "${expected//_/ }" "$now" "$(cast "$number" f8E8M0FNU '')"
done
compare "folded: infinity in f4E2M1FN" "0x7, which is 6, as for 3e38" 0x0 "$(cast 0x7F800000 f4E2M1FN '')"
compare "expanded: 3e38 in f4E2M1FN" 0x7 0x7 "$(cast 3.0e38 f4E2M1FN "$expand")"
while read -r number expected now; do
    compare "expanded: $number in f4E2M1FN" "$expected" "$now" "$(cast "$number" f4E2M1FN "$expand")"
done <<'LIST'
0.25 0x0 0x0
0.75 0x2 0x2
1.25 0x2 0x3
1.75 0x4 0x4
2.5 0x4 0x5
3.5 0x6 0x6
5.0 0x6 0x7
-0.25 0x8 0x0
LIST
compare "expanded: 2.5 in f4E2M1FN, to_nearest_even" 0x4 0x5 "$(cast 2.5 f4E2M1FN "$expand" to_nearest_even)"
compare "expanded: 1.9999 in f8E8M0FNU" "0x80, which is 2" 0x7f "$(cast 1.9999 f8E8M0FNU "$expand")"
compare "expanded: -6.0 in f8E8M0FNU" "0xff, which is NaN" 0x81 "$(cast -6.0 f8E8M0FNU "$expand")"
finish
