#!/usr/bin/env bash
# Package: firmware-amd-graphics 20250410-2 (Debian trixie, non-free-firmware). Date: 2026-11-29.
#
# Seen: two fields of the common header of amdgpu's firmware files do not say what they are called after.
# `header_size_bytes` of vega20_rlc.bin and raven2_rlc.bin is 104, the size of an RLC header of version 2.0; they say
# version 2.1 (156 bytes in the other 13 such files), and the fields from byte 104 on are there and filled: sizes and
# offsets of the save and restore lists. A reader that stops at the header's size loses the lists.
# `ip_version_major` and `_minor` differ from the version in the file's name for 32 of the 156 files that are named by
# one: those of gc_11_5 say 11.0, those of sdma_6_1 6.0, and most TA and TOC files of psp_14_0 13.0.
#
# Matters to: tools that sort firmware by its header, and loaders and emulators that bound their reads by it.
# Documentation: Linux 6.12, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h: "size of just the header in bytes", "IP version".
source "$(dirname "$0")/common.bash"
need python3
debian firmware 'trixie non-free-firmware' firmware-amd-graphics=20250410-2
echo "firmware-amd-graphics 20250410-2"

python3 - "$work/firmware/usr/lib/firmware/amdgpu" >"$work/seen" <<'PY'
import os, re, struct, sys
named, other, rlc = 0, [], {}
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    if os.path.islink(path):
        continue
    data = open(path, "rb").read()
    _, header, major, minor, ip_major, ip_minor = struct.unpack_from("<IIHHHH", data)
    if found := re.match(r"(?:gc|sdma|vcn|psp|smu|dcn|vpe)_(\d+)_(\d+)_\d+[_.]", name):
        named += 1
        if (ip_major, ip_minor) != (int(found[1]), int(found[2])):
            other.append(f"{name} {ip_major}.{ip_minor}")
    if "_rlc" in name and (major, minor) == (2, 1):
        rlc.setdefault(header, []).append((name, any(data[104:156])))
print("other", len(other), "of", named)
print(*(line for line in other if line.startswith(("gc_11_5_0_me.", "sdma_6_1_0", "psp_14_0_1_toc"))), sep="\n")
print("rlc 156", len(rlc[156]))
print("rlc 104", *(f"{name} {'filled' if filled else 'empty'}" for name, filled in rlc[104]))
PY
seen() { sed -n "s/^$1 //p" "$work/seen"; }
compare "RLC 2.1: files with a header of 156 bytes" 15 13 "$(seen 'rlc 156')"
compare "RLC 2.1: files with a header of 104 bytes, and bytes 104 to 155" "none" \
    "raven2_rlc.bin filled vega20_rlc.bin filled" "$(seen 'rlc 104')"
compare "files with another IP version than their name" "0 of 156" "32 of 156" "$(seen other)"
compare "gc_11_5_0_me.bin" 11.5 11.0 "$(seen gc_11_5_0_me.bin)"
compare "sdma_6_1_0.bin" 6.1 6.0 "$(seen sdma_6_1_0.bin)"
compare "psp_14_0_1_toc.bin" 14.0 13.0 "$(seen psp_14_0_1_toc.bin)"
finish
