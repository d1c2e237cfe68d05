#!/usr/bin/env bash
# Packages: llvm-22 and clang-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-30.
#
# Seen: the metadata of a code object cannot tell a newline in a format string of printf from a backslash and an n. For
# OpenCL C, LLVM writes a newline as `\n`, a colon as `\72` and some other control characters by their letters, and leaves
# a backslash as it is. So printf("C:\\new\\files") and printf("C:\new\files") have the same entry under amdhsa.printf, and
# a runtime that undoes the escapes, as ROCm's does, prints a line break and a form feed for the first. Tab and escape are
# not escaped: a tab is a tab, and `\t` is a backslash and a t, so a reader that undoes all escapes of C is wrong too. LLVM
# 17 and 19 write the same.
# HIP with -mprintf-kind=buffered uses the same key in another way: nothing is escaped, the ID is 0, a hash stands before
# the format, and the count of arguments is 0 though there are two.
#
# Matters to: writers of a runtime or an emulator that prints the buffer; users whose paths and patterns come out broken.
# Documentation: LLVM's "User Guide for AMDGPU Backend", amdhsa.printf: ID:N:S[0]:...:S[N-1]:FormatString, where N is the
# number of arguments less one and FormatString the string that was passed to printf; it names no escapes.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
run llvm clang --version | sed -n 1p

compiled() { # OPTION...: the source on standard input to the notes of an object for gfx1100
    run llvm clang -resource-dir "$work/llvm/usr/lib/llvm-22/lib/clang/22" -nogpulib -O1 "$@" -S - -o "$work/k.s"
    run llvm llvm-mc -triple=amdgcn-amd-amdhsa -mcpu=gfx1100 -filetype=obj "$work/k.s" -o "$work/k.o"
    run llvm llvm-objcopy --dump-section .note="$work/notes" "$work/k.o"
}
entry() { # 'LITERAL': the entry of printf("<LITERAL>") in OpenCL C without its ID, a control character as \xNN
    printf 'kernel void k() { printf("<%s>"); }\n' "$1" |
        compiled -x cl -cl-std=CL2.0 --target=amdgcn-amd-amdhsa -mcpu=gfx1100
    grep -ao '<[^>]*>' "$work/notes" | sed 's/\t/\\x09/g; s/\x1b/\\x1b/g; s/^<//; s/>$//'
}
while IFS='|' read -r literal now; do
    compare "OpenCL C: $literal" "an entry that no other string has" "$now" "$(entry "$literal")"
done <<'LIST'
C:\\new\\files|C\72\new\files
C:\new\files|C\72\new\files
a\\72b|a\72b
a:b|a\72b
LIST
compare 'OpenCL C: a\tb' 'a\tb, as a newline is a\nb' 'a\x09b' "$(entry 'a\tb')"
compare 'OpenCL C: a\\tb' 'a\\tb' 'a\tb' "$(entry 'a\\tb')"
compare 'OpenCL C: \033[1m' '\33[1m' '\x1b[1m' "$(entry '\033[1m')"

compiled -x hip --offload-device-only --offload-arch=gfx1100 -nogpuinc -mprintf-kind=buffered <<'HIP'
extern "C" __attribute__((device)) int printf(const char *, ...);
__attribute__((global)) void k(int a) { printf("<C:\\new %d %d\n>", a, a); }
HIP
compare 'HIP, buffered: C:\\new %d %d\n, two arguments' 'ID:2:4:4:C\72\\new %d %d\n' '0:0:HASH,C:\new %d %d\x0a' \
    "$(tr '\n' '\1' <"$work/notes" | grep -ao '0:0:[0-9a-f]*,<[^>]*>' | sed 's/:[0-9a-f]*,</:HASH,/; s/\x01/\\x0a/; s/>$//')"
finish
