#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-30.
#
# Seen: the disassembler lists vector registers that no wave has. A tuple whose first register is near the end of the file is
# printed as if the file went on: v[255:256] of a double, v[254:257] of a load, v[252:259] of a matrix. The assembler refuses
# each of these texts. Of scalar registers a tuple that leaves the file is no instruction.
#
# Matters to: disassemblers that are held against llvm-mc over random words, where such texts count as instructions; tools that
# assemble a listing again; decoders that size a register file by what was listed.
# Documentation: LLVM's "User Guide for AMDGPU Backend", vector registers: v0 to v255.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

# beyond CPU BYTES TEXT: bytes are listed as TEXT, which the assembler does not take.
beyond() {
    compare "$1: $2" "no instruction" "$3" "$(decode llvm "$1" "$2")"
    compare "$1: $3" "an error" "error: register index is out of range" "$(encode llvm "$1" "$3")"
}

beyond gfx1100 "ff 00 27 d7 00 05 02 00" "v_add_f64 v[255:256], v[0:1], v[2:3]"
beyond gfx1100 "00 00 5e dc 00 00 7c fe" "global_load_b128 v[254:257], v[0:1], off"
beyond gfx942 "f8 00 cc d3 02 09 e2 07" "v_mfma_f32_32x32x8_f16 v[248:263], v[2:3], v[4:5], v[248:263]"
beyond gfx950 "00 00 ad d3 fc 09 02 04" "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[252:259], v[4:11], v[0:3]"
compare "gfx1100: 00 19 10 f4 00 00 00 f8 (sixteen scalars from s100 on)" "no instruction" \
    "warning: invalid instruction encoding" "$(decode llvm gfx1100 "00 19 10 f4 00 00 00 f8")"
finish
