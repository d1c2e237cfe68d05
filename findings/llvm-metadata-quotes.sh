#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc and llvm-readelf. Date: 2026-11-29.
#
# Seen: between `.amdgpu_metadata` and `.end_amdgpu_metadata`, quotes do not make a string. llvm-mc drops them and then
# looks at what is inside: "12" becomes the integer 12, "0x10" 16, "010" 8 (octal), "true" a boolean, "nan" a float, and
# the empty string "" the float 0.0. Only the tag `!str` keeps a string. Unquoted `+5` is a float, though 5 is an integer,
# and a number of more than 64 bits becomes a 32-bit float. llvm-readelf prints such values without quotes, and marks
# strings that need it by `!str`, so its output reads back.
#
# Matters to: writers of assembly for kernels (an unset string of a template is not "no string" but a number); readers of
# the msgpack note, who must expect any type in any vendor key; tools that pass metadata through a YAML library.
# Documentation: LLVM's "User Guide for AMDGPU Backend" says that the directive takes YAML; in YAML a quoted scalar is a string.
source "$(dirname "$0")/common.bash"
need python3
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

stored() { # SCALAR: type and value in the note
    cat >"$work/kernel.s" <<S
.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - { .name: k, .symbol: k.kd, .kernarg_segment_size: 8, .kernarg_segment_align: 8, .group_segment_fixed_size: 0,
      .private_segment_fixed_size: 0, .wavefront_size: 32, .sgpr_count: 1, .vgpr_count: 1,
      .max_flat_workgroup_size: 256, .own: $1 }
...
.end_amdgpu_metadata
S
    run llvm llvm-mc -triple=amdgcn-amd-amdhsa -mcpu=gfx1100 -filetype=obj "$work/kernel.s" -o "$work/kernel.o"
    run llvm llvm-objcopy --dump-section ".note=$work/note" "$work/kernel.o"
    python3 - "$work/note" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
at = data.index(b"\xa4.own") + 5
kind = data[at]
if kind < 0x80: print("integer", kind)
elif kind & 0xe0 == 0xa0: print("string", repr(data[at + 1:at + 1 + (kind & 31)].decode()))
elif kind in (0xc2, 0xc3): print("boolean", kind == 0xc3)
elif kind == 0xca: print("float", struct.unpack(">f", data[at + 1:at + 5])[0])
elif kind == 0xcb: print("float", struct.unpack(">d", data[at + 1:at + 9])[0])
else: print(f"type {kind:#x}")
PY
}
compare 'own: "12"' "string '12'" "integer 12" "$(stored '"12"')"
compare 'own: "0x10"' "string '0x10'" "integer 16" "$(stored '"0x10"')"
compare 'own: "010"' "string '010'" "integer 8" "$(stored '"010"')"
compare 'own: "true"' "string 'true'" "boolean True" "$(stored '"true"')"
compare 'own: "nan"' "string 'nan'" "float nan" "$(stored '"nan"')"
compare 'own: ""' "string ''" "float 0.0" "$(stored '""')"
compare 'own: !str "12"' "string '12'" "string '12'" "$(stored '!str "12"')"
compare 'own: +5' "integer 5" "float 5.0" "$(stored '+5')"
compare 'own: 18446744073709551616' "an error" "float 1.8446744073709552e+19" "$(stored 18446744073709551616)"
finish
