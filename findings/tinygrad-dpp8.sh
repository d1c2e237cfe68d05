#!/usr/bin/env bash
# Packages: tinygrad 0.14.0 (PyPI), llvm-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: the instruction decoder of tinygrad (tinygrad.renderer.amd, made from AMD's machine-readable ISA) reads a VOP2
# with DPP8 as four bytes, for RDNA3 and RDNA4. It prints the marker as if it were a register, `v_xor_b32_e32(v[3],
# DPP8, v[2])`, and the next word, which holds the first register and the eight lane selectors, is then read as an
# instruction of its own. Depending on the selectors that is another plausible instruction or an error at the wrong
# place. DPP16 has a format there and is right, and so are VOP1 and VOP2 with a literal.
#
# Matters to: users of that decoder on code that others compiled (compilers do make DPP8); decoders made from the
# machine-readable ISA, where the length depends on the value of the first source.
# Documentation: AMD's RDNA3 ISA document: source 233 or 234 means that a word of DPP8 follows.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
python tinygrad==0.14.0
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'
run_python -c 'import importlib.metadata as m; print("tinygrad", m.version("tinygrad"))'

read_all() { # BYTES ISA: the instructions in them
    run_python - "$1" "$2" <<'PY'
import sys
from tinygrad.renderer.amd import decode_inst
data, found = bytes.fromhex(sys.argv[1]), []
while data:
    instruction = decode_inst(data + bytes(8), sys.argv[2])
    size = len(instruction.to_bytes())
    found.append(f"{instruction.op_name.lower()} of {size} bytes")
    data = data[size:]
print(", ".join(found))
PY
}
check() { # CPU ISA TEXT EXPECTED RECORDED
    compare "$2: $3" "$4" "$5" "$(read_all "$(encode llvm "$1" "$3")" "$2")"
}
dpp8='v_xor_b32_dpp v3, v1, v2 dpp8:[7,6,5,4,3,2,1,0]'
check gfx1100 rdna3 "$dpp8" "v_xor_b32 of 8 bytes" "v_xor_b32_e32 of 4 bytes, v_dot2acc_f32_f16_e32 of 4 bytes"
check gfx1201 rdna4 "$dpp8" "v_xor_b32 of 8 bytes" "v_xor_b32_e32 of 4 bytes, v_add_f64_e32 of 4 bytes"
check gfx1100 rdna3 'v_xor_b32_dpp v3, v1, v2 row_shl:1' "v_xor_b32 of 8 bytes" "v_xor_b32_e32 of 8 bytes"
finish
