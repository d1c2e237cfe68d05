#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mc. Date: 2026-11-29.
#
# Seen: how llvm-mc reads an integer in a 64-bit operand depends on whether it fits an inline constant.
# `v_add_f64 v[0:1], v[0:1], 64` adds the number with the bits 0x0000000000000040, and with 65 the number with the bits
# 0x0000004100000000: the literal is the high half. Neither is the number that was written, and nothing is said, though
# a float that loses bits in the same place gets a warning. `0x3ff00000` there is the inline constant 1.0.
# In 64-bit integer operations two different numbers have the same bytes: -256 (0xffffffffffffff00) and 0xffffff00.
# Whichever way the hardware extends the 32 bits, one of the two texts is another number than the one computed with.
#
# Matters to: generators of test programs, which must not count up through 64; assemblers that check their operands by
# value; emulators tested with values from such texts.
# Documentation: LLVM's "Syntax of AMDGPU Instruction Operands" gives integer numbers of 64 bits; the rule for the halves
# is in AMD's ISA documents.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'

add='v_add_f64 v[0:1], v[0:1],'
compare "$add 64" "64.0, or an error" "00 00 27 d7 00 81 01 00" "$(encode llvm gfx1100 "$add 64")"
compare "$add 65" "like 64" "00 00 27 d7 00 ff 01 00 41 00 00 00" "$(encode llvm gfx1100 "$add 65")"
compare "$add 65.0" "the literal 0x40504000" "00 00 27 d7 00 ff 01 00 00 40 50 40" "$(encode llvm gfx1100 "$add 65.0")"
compare "$add 0x3ff00000" "a literal" "as 1.0" \
    "$([ "$(encode llvm gfx1100 "$add 0x3ff00000")" = "$(encode llvm gfx1100 "$add 1.0")" ] && echo as 1.0 || echo other)"
for operation in 's_and_b64 s[0:1], s[0:1],' 's_mov_b64 s[0:1],'; do
    signed=$(encode llvm gfx1100 "$operation -256")
    unsigned=$(encode llvm gfx1100 "$operation 0xffffff00")
    full=$(encode llvm gfx1100 "$operation 0xffffffffffffff00")
    compare "$operation -256, 0xffffff00 and 0xffffffffffffff00" "one of two numbers is an error" \
        "the same bytes" "$([ "$signed" = "$unsigned" ] && [ "$unsigned" = "$full" ] && echo the same bytes || echo "$signed | $unsigned | $full")"
done
finish
