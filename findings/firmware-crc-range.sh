#!/usr/bin/env bash
# Package: firmware-amd-graphics 20250410-2 (Debian trixie, non-free-firmware). Date: 2026-11-29.
#
# Seen: `crc32` in the header of amdgpu's firmware files is a checksum of the payload in 37 of 525 files only: those of
# UVD, VCE, VCN and ISP. In 355 files it is the same CRC-32 (that of zlib) over all from byte 32, where the common header
# ends, to the end of the file: the rest of the header and the padding are in it. In the other 133 (SMU, half of RLC, most
# of PSP's) it is neither. In 55 files, nearly all of RLC and SMU, the payload that the common header names is not the
# last of the file: other sections come behind it.
#
# Matters to: loaders, emulators and tools that make or check such files: a check by the comment refuses nine of ten
# valid files. The kernel never checks it, so a device model cannot rely on it either.
# Documentation: Linux 6.12, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h: "crc32 checksum of the payload".
source "$(dirname "$0")/common.bash"
need python3
debian firmware 'trixie non-free-firmware' firmware-amd-graphics=20250410-2
echo "firmware-amd-graphics 20250410-2"

seen=$(python3 - "$work/firmware/usr/lib/firmware/amdgpu" <<'PY'
import collections, os, struct, sys, zlib
counts, ends = collections.Counter(), 0
for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    if os.path.islink(path):
        continue
    data = open(path, "rb").read()
    size, _, _, _, _, _, _, length, offset, checksum = struct.unpack_from("<IIHHHHIIII", data)
    assert size == len(data), name
    ends += offset + length != size
    if zlib.crc32(data[offset:offset + length]) == checksum:
        counts["payload"] += 1
    elif zlib.crc32(data[32:]) == checksum:
        counts["from byte 32"] += 1
    else:
        counts["neither"] += 1
for key in ("payload", "from byte 32", "neither"):
    print(counts[key])
print(ends)
PY
)
line() { sed -n "$1p" <<<"$seen"; }
compare "checksum of the payload" 525 37 "$(line 1)"
compare "checksum of all from byte 32" 0 355 "$(line 2)"
compare "checksum of neither" 0 133 "$(line 3)"
compare "files that do not end with the payload" 0 55 "$(line 4)"
finish
