#!/usr/bin/env bash
# Package: linux-source-6.12 6.12.117-1 (Debian trixie), drivers/gpu/drm/amd/include/asic_reg. Date: 2026-11-29.
#
# Seen: the shift and the mask of a field disagree for three fields of the 1.6 million in amdgpu's register headers.
# gfx11's GL1C_UTCL0_CNTL1__FORCE_IN_ORDER has shift 27 and mask 0x06000000, which is two bits of which one belongs to
# FORCE_MISS; gfx11.5's has 0x08000000. gfx10.1's and gfx10.3's SQ_DEBUG_STS_LOCAL__VM_BUSY has shift 24 and the mask of
# bit 18. REG_SET_FIELD shifts by one and masks by the other, and so writes zero there.
# 3911 masks of nbif_6_1 end in `__MASK` in place of `_MASK`, so that REG_GET_FIELD does not compile with any of its
# fields, and dpcs_4_2_3 has shifts without masks for 34595 fields.
#
# Matters to: device models and decoders of register dumps that are made from these headers, as most are: take the bits
# from one of the two, and check it by the other.
# Documentation: drivers/gpu/drm/amd/amdgpu/amdgpu.h, REG_SET_FIELD: both come from the same name, REG__FIELD.
source "$(dirname "$0")/common.bash"
need python3 tar xz
debian linux trixie linux-source-6.12=6.12.117-1
echo "linux-source-6.12 6.12.117-1"

tar -C "$work" --wildcards -xJf "$work/linux/usr/src/linux-source-6.12.tar.xz" '*/drivers/gpu/drm/amd/include/asic_reg/*_sh_mask.h'
python3 - "$work"/linux-source-6.12/drivers/gpu/drm/amd/include/asic_reg >"$work/seen" <<'PY'
import glob, os, re, sys
define = re.compile(r"#define\s+(\w+?)(__SHIFT|_MASK)\s+(0[xX][0-9a-fA-F]+|\d+)")
fields, doubled, without = 0, {}, {}
for path in sorted(glob.glob(sys.argv[1] + "/*/*_sh_mask.h")):
    block = os.path.basename(path)[:-len("_sh_mask.h")]
    shifts, masks = {}, {}
    for line in open(path, errors="replace"):
        if found := define.match(line):
            (shifts if found[2] == "__SHIFT" else masks)[found[1]] = int(found[3], 0)
    doubled[block] = sum(name.endswith("_") for name in masks)
    without[block] = sum(name not in masks and name + "_" not in masks for name in shifts)
    for name in shifts.keys() & masks.keys():
        fields += 1
        lowest = (masks[name] & -masks[name]).bit_length() - 1
        if lowest != shifts[name]:
            print("disagree", block, name, shifts[name], f"{masks[name]:#010x}")
print("fields", fields)
print("doubled", doubled["nbif_6_1"])
print("without", without["dpcs_4_2_3"])
PY
seen() { sed -n "s/^$1 //p" "$work/seen" | sort | paste -sd';'; }
compare "fields with shift and mask" "more than a million" 1637645 "$(seen fields)"
compare "gc_11_0_0: shift and lowest bit of the mask differ" "no field" \
    "GL1C_UTCL0_CNTL1__FORCE_IN_ORDER 27 0x06000000" "$(seen 'disagree gc_11_0_0')"
for block in gc_10_1_0 gc_10_3_0; do
    compare "$block: the same" "no field" "SQ_DEBUG_STS_LOCAL__VM_BUSY 24 0x00040000" "$(seen "disagree $block")"
done
compare "blocks with such a field" 0 3 "$(grep -c ^disagree "$work/seen")"
compare "nbif_6_1: masks that end in __MASK" 0 3911 "$(seen doubled)"
compare "dpcs_4_2_3: fields without a mask" 0 34595 "$(seen without)"
finish
