#!/usr/bin/env bash
# Package: triton 3.9.0 (PyPI), its compiler for AMD GPUs, which needs no GPU. Date: 2026-11-29.
#
# Seen: a cast from FP8 to bf16 makes numbers of infinity and NaN for the three chips tried, gfx90a, gfx942 and gfx1100:
# E5M2 gives 65536 for infinity and 98304 for NaN, E4M3 gives 480 for NaN. The same values cast to f32 (and infinity to
# f16) stay infinite and NaN, so `x.to(bf16)` and `x.to(f32).to(bf16)` differ. The kernel here casts constants, which
# the compiler folds, so that the result is in its output.
# The other way round, infinity in f32 becomes the largest number of E5M2, which has an infinity of its own, and NaN in
# E5M2 with the bias of 16, which has none.
#
# Matters to: kernels that look for overflow in FP8 data by NaN or infinity after widening to bf16.
# Documentation: OCP's "8-bit Floating Point Specification": 7c of E5M2 is infinity, 7d to 7f and 7f of E4M3 are NaN.
source "$(dirname "$0")/common.bash"
python triton==3.9.0
run_python -c 'import triton; print("triton", triton.__version__)'
export TRITON_CACHE_DIR=$work/cache TRITON_DEFAULT_FP_FUSION=1

# The source of a kernel must be in a file.
cat >"$work/cast.py" <<'PY'
import re, sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def cast(y, bits: tl.constexpr, raw: tl.constexpr, source: tl.constexpr, target: tl.constexpr, whole: tl.constexpr):
    value = tl.full((64,), bits, raw).to(source, bitcast=True)
    tl.store(y + tl.arange(0, 64), value.to(target).to(whole, bitcast=True))

integers = {8: tl.int8, 16: tl.int16, 32: tl.int32}
chip, source, target, bits = sys.argv[1], getattr(tl, sys.argv[2]), getattr(tl, sys.argv[3]), int(sys.argv[4], 16)
raw, whole = (integers[kind.primitive_bitwidth] for kind in (source, target))
size = source.primitive_bitwidth
arguments = {"bits": bits - (bits >> size - 1 << size), "raw": raw, "source": source, "target": target, "whole": whole}
kernel = triton.compile(ASTSource(cast, {"y": "*" + str(whole).replace("int", "i")} | dict.fromkeys(arguments, "constexpr"), arguments),
                        GPUTarget("hip", chip, 32 if chip.startswith("gfx1") else 64), options={"num_warps": 1})
store = next(line for line in kernel.asm["llir"].splitlines() if re.search(r"call .*buffer\.store|^ *store ", line))
folded = re.search(r"i\d+ (?:splat \(i\d+ )?(-?\d+)", store)
print(f"{int(folded.group(1)) % (1 << target.primitive_bitwidth):0{target.primitive_bitwidth // 4}x}" if folded else "by an instruction")
PY
cast() { run_python -W ignore "$work/cast.py" "$@"; }
for chip in gfx90a gfx942 gfx1100; do
    compare "$chip: E5M2 infinity to f32" 7f800000 7f800000 "$(cast $chip float8e5 float32 7c)"
    compare "$chip: E5M2 infinity to bf16" 7f80 4780 "$(cast $chip float8e5 bfloat16 7c)"
    compare "$chip: E5M2 NaN to bf16" 7fc0 47c0 "$(cast $chip float8e5 bfloat16 7e)"
    compare "$chip: E4M3 NaN to f32" 7fc00000 7fc00000 "$(cast $chip float8e4nv float32 7f)"
    compare "$chip: E4M3 NaN to bf16" 7fc0 43f0 "$(cast $chip float8e4nv bfloat16 7f)"
done
compare "gfx1100: E5M2 infinity to f16" 7c00 7c00 "$(cast gfx1100 float8e5 float16 7c)"
compare "gfx1100: f32 infinity to E5M2" 7c 7b "$(cast gfx1100 float32 float8e5 7f800000)"
compare "gfx1100: f32 infinity to E5M2 with the bias of 16" "7f or 80" 80 "$(cast gfx1100 float32 float8e5b16 7f800000)"
compare "gfx1100: f32 1e6 to E5M2 with the bias of 16" "7f or 80" 7f "$(cast gfx1100 float32 float8e5b16 49742400)"
finish
