#!/usr/bin/env bash
# Packages: elfutils 0.192-4, lld-22 and llvm-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: eu-elflint takes the section `.relro_padding`, which ld.lld puts into every output with RELRO, for one of the
# kind of `.relr.dyn`: "has wrong type: expected RELR, is NOBITS". Only the first letters are the same. It is so
# for x86-64 as for an AMDGPU code object. For the latter, eu-elflint calls machine 224 unknown and the OS ABI 64
# unsupported, while eu-readelf of the same package names the machine "AMD GPU" and neither the ABI nor the note.
#
# Matters to: projects that check code objects with a second tool and cannot tell these lines from damage.
# Documentation: eu-elflint's manual: it reports what does not comply with the gABI; `.relro_padding` does.
source "$(dirname "$0")/common.bash"
debian elf trixie elfutils=0.192-4
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 lld-22=1:22.1.8-1~deb13u5
run elf eu-elflint --version | sed -n 1p
run llvm ld.lld --version

shared() { # TRIPLE CPU TEXT: a shared object with RELRO
    printf '.text\n.globl f\nf:\n %s\n.section .data.rel.ro,"aw"\n.quad 1\n' "$3" >"$work/a.s"
    run llvm llvm-mc -triple="$1" -mcpu="$2" -filetype=obj "$work/a.s" -o "$work/a.o"
    run llvm ld.lld -shared -z relro "$work/a.o" -o "$work/a.so"
}
about() { { run elf eu-elflint --gnu-ld "$work/a.so" 2>&1 || true; } | sed -n "s/^section \[[ 0-9]*\] //; /$1/p" | head -1; }

wrong="'.relro_padding' has wrong type: expected RELR, is NOBITS"
shared x86_64-linux-gnu x86-64 ret
compare "eu-elflint, x86-64" "nothing about .relro_padding" "$wrong" "$(about relro_padding)"
shared amdgcn-amd-amdhsa gfx1100 s_endpgm
compare "eu-elflint, gfx1100" "nothing about .relro_padding" "$wrong" "$(about relro_padding)"
compare "eu-elflint, gfx1100: machine" "AMD GPU, as eu-readelf says" "unknown machine type 224" "$(about machine\ type)"
compare "eu-readelf, gfx1100: machine" "AMD GPU" "AMD GPU" \
    "$(run elf eu-readelf -h "$work/a.so" | sed -n 's/ *Machine: *//p')"
compare "eu-readelf, gfx1100: OS/ABI" "a name" "<unknown>: 64" \
    "$(run elf eu-readelf -h "$work/a.so" | sed -n 's/ *OS\/ABI: *//p')"
finish
