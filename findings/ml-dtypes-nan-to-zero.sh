#!/usr/bin/env bash
# Packages: ml_dtypes 0.6.0, numpy 2.3.5 (PyPI). Date: 2026-11-29.
#
# Seen: NaN becomes minus zero in ml_dtypes' FP4 and FP6 types, which have no NaN, without numpy's warning of an invalid
# value. Infinity and numbers that are too large become the largest one there, while float8_e4m3fn, which has no infinity
# either, makes NaN of them, and float8_e5m2 infinity. In float8_e8m0fnu zero becomes NaN, the negative numbers too, and
# every number halfway between two powers of two goes up, also where the lower one has the even code.
#
# Matters to: writers of reference values for the scaled matrix instructions of gfx950 and gfx1250, and of conversions
# with and without saturation: one package does all kinds, by type.
# Documentation: the OCP specification of the MX formats leaves NaN to the implementation for FP4 and FP6; the README of
# ml_dtypes says that these types have no infinity and that the representation of NaN is undefined.
source "$(dirname "$0")/common.bash"
python ml_dtypes==0.6.0 numpy==2.3.5
run_python -c 'import ml_dtypes, numpy; print("ml_dtypes", ml_dtypes.__version__, "numpy", numpy.__version__)'

convert() { # TYPE VALUE...
    run_python - "$@" <<'PY'
import sys, warnings
import ml_dtypes, numpy
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cast = numpy.array([float(x) for x in sys.argv[2:]], numpy.float32).astype(getattr(ml_dtypes, sys.argv[1]))
print(*(float(x) for x in cast), *("warned" for _ in caught[:1]))
PY
}
for kind in float4_e2m1fn float6_e2m3fn float6_e3m2fn; do
    compare "NaN as $kind" "a warning, or an error" "-0.0" "$(convert $kind nan)"
done
compare "-inf, 1e9 as float4_e2m1fn" "NaN as in float8_e4m3fn, or the largest" "-6.0 6.0" "$(convert float4_e2m1fn -inf 1e9)"
compare "-inf, 1e9 as float8_e4m3fn" "NaN, or the largest as in float4_e2m1fn" "nan nan" "$(convert float8_e4m3fn -inf 1e9)"
compare "-inf, 1e9 as float8_e5m2" "-inf inf" "-inf inf" "$(convert float8_e5m2 -inf 1e9)"
compare "0, -1 as float8_e8m0fnu" "the smallest, NaN" "nan nan" "$(convert float8_e8m0fnu 0 -1)"
compare "1.5, 3, 6, 12 as float8_e8m0fnu" "up and down in turn, as ties go to even codes" "2.0 4.0 8.0 16.0" \
    "$(convert float8_e8m0fnu 1.5 3 6 12)"
finish
