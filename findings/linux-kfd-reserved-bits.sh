#!/usr/bin/env bash
# Packages: linux-libc-dev 6.12.117-1, libhsakmt-dev 6.2.4+ds-1 (Debian trixie). Date: 2026-11-29.
#
# Seen: the kernel's header for a node's `capability` in sysfs (linux/kfd_sysfs.h) gives five bits both a meaning and to
# the reserved ones: HSA_CAP_RESERVED is 800f8000, and bits 15 to 18 of it say that the debugger is supported, that a trap at
# the start of a wave can be overridden, and so on; bit 19 is the former one for SRAM-ECC. Only bit 31 is free. Bit 30
# (precise ALU operations) is not in that mask, and is reserved in ROCm's header for the same word (hsakmt), where the
# two reserved bits are 30 and 31. The masks for memory, caches and links in the kernel's header overlap with nothing.
#
# Matters to: programs and emulators that clear or check reserved bits by the mask: a node with a debugger has four of
# them set.
# Documentation: none but the headers: "reserved" is what has no meaning.
source "$(dirname "$0")/common.bash"
need cc
debian headers trixie linux-libc-dev=6.12.117-1 libhsakmt-dev=6.2.4+ds-1
echo "linux-libc-dev 6.12.117-1, libhsakmt-dev 6.2.4+ds-1"
include=$work/headers/usr/include

shared() { # GROUP: the defined bits of the group that its reserved mask covers
    {
        printf '#include <stdio.h>\n#include <linux/kfd_sysfs.h>\nint main(void) {\n'
        sed -n "s/^#define \(HSA_$1_[A-Z0-9_]*\)[[:space:]].*/\1/p" "$include/linux/kfd_sysfs.h" |
            grep -v '_RESERVED$\|_SHIFT$\|DOORBELL_TYPE_[P0-9]\|MEM_FLAGS_[A-Z]*_SHIFT' |
            sed "s/.*/if ((unsigned)& \& (unsigned)HSA_$1_RESERVED) printf(\"%08x \", (unsigned)& \& (unsigned)HSA_$1_RESERVED);/"
        printf 'return 0;\n}\n'
    } >"$work/a.c"
    cc -I"$include" "$work/a.c" -o "$work/a.out" && "$work/a.out" | sed 's/ $//' | grep . || echo none
}
for group in MEM_FLAGS CACHE_TYPE IOLINK_FLAGS; do
    compare "$group: bits of a meaning that are reserved too" none none "$(shared $group)"
done
compare "CAP: bits of a meaning that are reserved too" none "00008000 00010000 00020000 00040000 00080000" "$(shared CAP)"

printf '#include <stdio.h>\n#include <hsakmt/hsakmttypes.h>\n#include <linux/kfd_sysfs.h>\nint main(void) {
HSA_CAPABILITY c = { .Value = 0 };\nc.ui32.Reserved = ~0u;\nprintf("%%08x %%08x\\n", c.Value, c.Value & HSA_CAP_%s);
return 0;\n}\n' TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED >"$work/b.c"
cc -w -I"$include" "$work/b.c" -o "$work/b.out"
compare "hsakmt: the reserved bits, and those of them with a meaning in the kernel" "80000000 00000000" "c0000000 40000000" \
    "$("$work/b.out")"
finish
