#!/usr/bin/env bash
# Packages: llvm-22 and clang-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: llvm-objdump prints a kernel descriptor as `.amdhsa_` directives, but leaves out `.amdhsa_user_sgpr_count`. clang
# gives each gfx1100 kernel 15 user SGPRs, though it enables 2. Put the directives of the disassembly back through
# llvm-mc, and the descriptor says 2: the work-group's id then arrives in s2, and the code still reads s15.
# On gfx906, gfx90a and gfx942 the directives do not assemble at all: they say `.amdhsa_reserve_xnack_mask 0`, which
# llvm-mc refuses for a target that may have XNACK. And `--disassemble-symbols=NAME.kd` says "missing symbol" for a
# symbol that is there, unless -D is given too.
#
# Matters to: those who patch kernels by disassembly, edit and reassembly; emulators and runtimes that test their reading
# of descriptors by such a round trip; anybody who takes the enabled user SGPRs for their number.
# Documentation: LLVM's "User Guide for AMDGPU Backend" derives the number from the enabled ones where it is not given;
# the manual of llvm-objdump says that --disassemble-symbols disassembles the named symbols and implies -d.
source "$(dirname "$0")/common.bash"
need od
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
run llvm clang --version | sed -n 1p

# shellcheck disable=SC2016
echo '__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) int *p) { *p = 1; }' >"$work/k.c"
descriptor() { # OBJECT: its 64 bytes
    run llvm llvm-objcopy --dump-section ".rodata=$work/bytes" "$1" "$work/copy.o"
    od -An -v -tx1 -w64 "$work/bytes" | sed 's/^ //'
}
user_sgprs() { # BYTES: bits 5:1 of COMPUTE_PGM_RSRC2, byte 52
    echo $((0x$(cut -d' ' -f53 <<<"$1") >> 1 & 31))
}
directives() { # CPU: compiles, disassembles the descriptor and wraps it as a source
    run llvm clang --target=amdgcn-amd-amdhsa -mcpu="$1" -nogpulib -O2 -c "$work/k.c" -o "$work/k.o"
    { printf '.globl k\nk:\n s_endpgm\n.rodata\n.p2align 6\n'
      run llvm llvm-objdump -D -j .rodata "$work/k.o" | sed -n '/^\.amdhsa_kernel/,$p'; } >"$work/again.s"
}
again() { run llvm llvm-mc -triple=amdgcn-amd-amdhsa -mcpu="$1" -filetype=obj "$work/again.s" -o "$work/again.o"; }

directives gfx1100
before=$(descriptor "$work/k.o")
again gfx1100
after=$(descriptor "$work/again.o")
compare "gfx1100: user SGPRs by clang" "15, or the 2 that it enables" 15 "$(user_sgprs "$before")"
compare "gfx1100: user SGPRs after disassembly and assembly" 15 2 "$(user_sgprs "$after")"
compare "gfx1100: other bytes that differ" 0 0 \
    "$(($(cmp -l <(tr ' ' '\n' <<<"$before") <(tr ' ' '\n' <<<"$after") | awk '{ line[int(($1 - 1) / 3)] } END { print length(line) }') - 1))"
for chip in gfx906 gfx90a gfx942; do
    directives $chip
    compare "$chip: assembling the disassembly" "no error" "error: .amdhsa_reserve_xnack_mask does not match target id" \
        "$({ again $chip 2>&1 || true; } | sed -n 's/.*error: /error: /p' | head -1)"
done
directives gfx1100
compare "llvm-objdump --disassemble-symbols=k.kd" "the descriptor" "failed to disassemble missing symbol k.kd" \
    "$(run llvm llvm-objdump --disassemble-symbols=k.kd "$work/k.o" 2>&1 | sed -n "s/.*: \(failed.*\)/\1/p")"
finish
