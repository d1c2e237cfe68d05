#!/usr/bin/env bash
# Package: pciutils 1:3.13.0-2 (Debian trixie), lspci -F. Date: 2026-11-29.
#
# Seen: lspci, reading a dump of configuration space, shows the upper half of a 64-bit BAR as a region of its own when
# that half is not zero. With BAR 0 at 0xf800000000 there is "Region 1: Memory at <unassigned> (32-bit, prefetchable)", as
# the low bits of 0xf8 are read as type bits; at 0x100000000 it is "Region 1: I/O ports at <unassigned> [disabled]". Region 0 has the
# whole address, so the half is counted twice. A BAR below 4 GiB has no such line.
#
# Matters to: emulators and virtual machine monitors that check their configuration space by a dump and `lspci -F`: cards
# with large BARs lie above 4 GiB, and the extra line looks like a mistake of the device.
# Documentation: lspci's manual: -F reads the output of an earlier `lspci -x` and shows it as if it came from the machine;
# the PCI specification: the register after a 64-bit BAR is its upper half.
source "$(dirname "$0")/common.bash"
need python3
debian pci trixie pciutils=1:3.13.0-2
run pci lspci --version

regions() { # ADDRESS: what lspci shows of a device with one 64-bit prefetchable BAR there
    python3 - "$1" >"$work/dump" <<'PY'
import struct, sys
space = bytearray(64)
struct.pack_into("<HHHH", space, 0, 0x1002, 0x744C, 2, 0)
struct.pack_into("<BBH", space, 8, 0, 0, 0x0300)
struct.pack_into("<Q", space, 16, int(sys.argv[1], 0) | 0xC)
print("03:00.0 VGA compatible controller")
for at in range(0, 64, 16):
    print(f"{at:02x}:", *(f"{byte:02x}" for byte in space[at:at + 16]))
PY
    run pci lspci -n -v -F "$work/dump" 2>/dev/null | sed -n 's/^\t\(\(Memory\|I\/O ports\) at.*\)/\1/p' | paste -sd';'
}
compare "BAR at 0xe0000000" "one region" "Memory at e0000000 (64-bit, prefetchable)" "$(regions 0xe0000000)"
compare "BAR at 0xf800000000" "one region" \
    "Memory at f800000000 (64-bit, prefetchable);Memory at <unassigned> (32-bit, prefetchable)" "$(regions 0xf800000000)"
compare "BAR at 0x100000000" "one region" \
    "Memory at 100000000 (64-bit, prefetchable);I/O ports at <unassigned> [disabled]" "$(regions 0x100000000)"
finish
