#!/usr/bin/env bash
# Package: libdrm-common 2.4.124-2 (Debian trixie), /usr/share/libdrm/amdgpu.ids. Date: 2026-11-29.
#
# Seen: the pair of device ID and revision is no key of libdrm's table of names. Seven pairs stand there twice with
# different names: 743F C3 is first "AMD Radeon RX 6500" and in the next line "AMD Radeon RX 6500M". libdrm searches from
# the top and takes the first; a program that reads the file into a map gets the last. The separator is a comma and a
# tab, and the third line that is no comment is not an entry but the version of the format.
#
# Matters to: monitors and runtimes that read the file by themselves and show another name than `rocminfo` and Mesa do;
# emulators that choose a name for their device.
# Documentation: the head of the file: "device_id, revision_id, product_name", and nothing on repeated pairs.
source "$(dirname "$0")/common.bash"
need python3
debian drm trixie libdrm-common=2.4.124-2
echo "libdrm-common 2.4.124-2"

twice=$(python3 - "$work/drm/usr/share/libdrm/amdgpu.ids" <<'PY'
import sys
first, twice = {}, []
for line in open(sys.argv[1]):
    fields = [field.strip() for field in line.split(",", 2)]
    if line.startswith("#") or len(fields) < 3:
        continue
    key = (fields[0].upper(), fields[1].upper())
    if first.setdefault(key, fields[2]) != fields[2]:
        twice.append(f"{' '.join(key)}: {first[key]} | {fields[2]}")
print("\n".join(twice))
PY
)
compare "pairs with two names" 0 7 "$(grep -c . <<<"$twice")"
compare "743F C3" "one name" "743F C3: AMD Radeon RX 6500 | AMD Radeon RX 6500M" "$(grep '^743F C3' <<<"$twice")"
compare "15D8 DB" "one name" "15D8 DB: AMD Radeon Vega 3 Graphics | AMD Radeon Vega 8 Graphics" "$(grep '^15D8 DB' <<<"$twice")"
finish
