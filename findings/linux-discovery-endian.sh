#!/usr/bin/env bash
# Package: linux-source-6.12 6.12.117-1 (Debian trixie), drivers/gpu/drm/amd/include/discovery.h. Date: 2026-11-29.
#
# Seen: the layout of an entry of the IP discovery table depends on macros that the header does not set, in two ways.
# `struct ip_v4` has its byte of sub-revision and variant only if LITTLEENDIAN_CPU or BIGENDIAN_CPU is defined, which
# is done in the display code's os_types.h; compiled without that, the struct is packed and its base addresses begin
# at byte 7 in place of 8. `struct ip_v3`, right above, asks for __BIG_ENDIAN instead. The kernel defines that on
# big-endian machines only, but the C library's <endian.h> defines it everywhere (as a number), so a program that
# includes <endian.h>, or <sys/types.h> which does so, reads the two halves of the byte the wrong way round on x86-64.
#
# Matters to: tools and emulators that read or make discovery tables with the kernel's header, as is usual: they get
# shifted addresses, or the variant in place of the sub-revision, and no diagnostic.
# Documentation: the comments of the header call both fields by name and give the table one layout.
source "$(dirname "$0")/common.bash"
need cc tar xz
debian linux trixie linux-source-6.12=6.12.117-1
echo "linux-source-6.12 6.12.117-1"

tar -C "$work" --wildcards -xJf "$work/linux/usr/src/linux-source-6.12.tar.xz" '*/drivers/gpu/drm/amd/include/discovery.h'
header=$(find "$work/linux-source-6.12" -name discovery.h)
cat >"$work/layout.c" <<'C'
#include FIRST
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#define DECLARE_FLEX_ARRAY(type, name) struct { struct { } empty_##name; type name[]; }
#define __packed __attribute__((packed))
#include HEADER

int main(void)
{
    uint8_t entry[16] = { [7] = 0x21 };
    struct ip_v3 *v3 = (struct ip_v3 *)entry;
    printf("%zu %zu %d\n", offsetof(struct ip_v3, base_address), offsetof(struct ip_v4, base_address), v3->sub_revision);
    return 0;
}
C
layout() { # FIRST-HEADER OPTION...: offsets of base_address in v3 and v4, and the sub-revision in the byte 0x21
    local first=$1
    shift
    cc -DFIRST="<$first>" -DHEADER="\"$header\"" "$@" "$work/layout.c" -o "$work/layout"
    "$work/layout"
}
[ "$(printf '\1\0' | od -An -td2 | tr -d ' ')" = 1 ] || missing "a little-endian machine"
compare "<stdint.h> first: v3 base, v4 base, sub-revision" "8 8 1" "8 7 1" "$(layout stdint.h)"
compare "<stdint.h> first, LITTLEENDIAN_CPU defined" "8 8 1" "8 8 1" "$(layout stdint.h -DLITTLEENDIAN_CPU)"
compare "<endian.h> first, LITTLEENDIAN_CPU defined" "8 8 1" "8 8 2" "$(layout endian.h -DLITTLEENDIAN_CPU)"
compare "<sys/types.h> first, LITTLEENDIAN_CPU defined" "8 8 1" "8 8 2" "$(layout sys/types.h -DLITTLEENDIAN_CPU)"
finish
