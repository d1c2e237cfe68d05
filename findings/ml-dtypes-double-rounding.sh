#!/usr/bin/env bash
# Packages: ml_dtypes 0.6.0, numpy 2.3.5 (PyPI). Date: 2026-11-29.
#
# Seen: an array of float64 that is cast to one of ml_dtypes' small floats is rounded twice, first to float32. A number
# just above the middle of two neighbours becomes the middle, and the middle then goes to the even one: the farther of
# the two. The constructor of the same type, given the same Python float, rounds once and is right, except that of
# bfloat16. So `float8_e4m3fn(x)` and `numpy.array([x]).astype(float8_e4m3fn)[0]` differ. numpy's own float16 rounds
# once in both.
#
# Matters to: those who make expected values for conversion instructions from float64 arrays, which is the usual way.
# Documentation: the README of ml_dtypes says nothing of rounding; both forms look like the same conversion.
source "$(dirname "$0")/common.bash"
python ml_dtypes==0.6.0 numpy==2.3.5
run_python -c 'import ml_dtypes, numpy; print("ml_dtypes", ml_dtypes.__version__, "numpy", numpy.__version__)'

convert() { # TYPE: neighbour of 1, then "just above the middle" by constructor and by cast
    run_python - "$1" <<'PY'
import sys
import ml_dtypes, numpy
kind = numpy.float16 if sys.argv[1] == "float16" else getattr(ml_dtypes, sys.argv[1])
step = float(ml_dtypes.finfo(kind).eps)
value = 1 + step / 2 + 2.0 ** -40
print("next", 1 + step, "constructor", float(kind(value)), "cast", float(numpy.array([value]).astype(kind)[0]))
PY
}
while read -r kind next constructor cast; do
    compare "$kind(1 + half a step + 2**-40)" "next $next constructor $next cast $next" \
        "next $next constructor $constructor cast $cast" "$(convert "$kind")"
done <<'LIST'
float16 1.0009765625 1.0009765625 1.0009765625
bfloat16 1.0078125 1.0 1.0
float8_e4m3fn 1.125 1.125 1.0
float8_e4m3fnuz 1.125 1.125 1.0
float8_e5m2 1.25 1.25 1.0
float6_e2m3fn 1.125 1.125 1.0
float6_e3m2fn 1.25 1.25 1.0
float4_e2m1fn 1.5 1.5 1.0
LIST
finish
