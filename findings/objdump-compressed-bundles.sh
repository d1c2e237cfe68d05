#!/usr/bin/env bash
# Packages: llvm-22 and clang-tools-22 1:22.1.8-1~deb13u5, clang-tools-19 1:19.1.7-3+b1 (Debian trixie). Date: 2026-11-30.
#
# Seen: `llvm-objdump --offloading` of LLVM 22 takes the code objects out of a HIP program with compressed bundles, names them
# right, gives them their right sizes, exits with 0, and fills them with other bytes: those that the host's file has at the
# offset that the code has in the decompressed bundle, counted from the beginning of the file, so ELF headers and padding.
# Without compression the files are right. LLVM 23.1.4 is right in both cases.
# The other way is no better for programs of more than one source file, whose section .hip_fatbin has one bundle behind the
# other: clang-offload-bundler 22 cannot read that when it is compressed ("Src size is incorrect"), and sees the first bundle
# alone when it is not. And version 19 reads no compressed bundle of 22 ("Unknown frame descriptor"), as the header has grown
# to version 3; with COMPRESSED_BUNDLE_FORMAT_VERSION=2 in the environment 22 writes one that 19 reads.
#
# Matters to: those who disassemble the kernels of a program or a library, and find zeros or an x86 header; scripts that
# test the exit status or the size.
# Documentation: clang's "Clang Offload Bundler", compressed bundles: the header has a version and the size of the whole; the
# manual of llvm-objdump has --offloading and does not except compressed ones.
source "$(dirname "$0")/common.bash"
need cmp
debian new trixie llvm-22=1:22.1.8-1~deb13u5 clang-tools-22=1:22.1.8-1~deb13u5
debian old trixie clang-tools-19=1:19.1.7-3+b1
run new llvm-objdump --version | sed -n 's/^ *//; /version/p'

: >"$work/host"
for chip in gfx1100 gfx1201; do
    echo 's_endpgm' | run new llvm-mc -triple=amdgcn-amd-amdhsa -mcpu=$chip -filetype=obj -o "$work/$chip.o"
done
bundle() { # CPU OPTION...: $work/CPU.bundle
    run new clang-offload-bundler -type=o -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--"$1" \
        -input="$work/host" -input="$work/$1.o" -output="$work/$1.bundle" "${@:2}"
}
program() { # OPTION...: an object of the host with two bundles, as two source files leave them, and its section alone
    bundle gfx1100 "$@"
    bundle gfx1201 "$@"
    printf '.section .hip_fatbin,"a"\n.p2align 12\n.incbin "%s"\n' "$work/gfx1100.bundle" >"$work/a.s"
    printf '.p2align 12\n.incbin "%s"\n' "$work/gfx1201.bundle" >>"$work/a.s"
    run new llvm-mc -triple=x86_64-linux-gnu -filetype=obj "$work/a.s" -o "$work/program"
    run new llvm-objcopy --dump-section .hip_fatbin="$work/section" "$work/program"
}
extracted() { # NUMBER CPU: how the file that llvm-objdump takes out of the program compares
    local file=$work/program.$1.hip-amdgcn-amd-amdhsa--$2 size at=139
    size=$(wc -c <"$work/$2.o")
    rm -f "$work"/program.?.*
    run new llvm-objdump --offloading "$work/program" >"$work/log" || { echo "status $?" && return; }
    [ "$(wc -c <"$file")" = "$size" ] || { echo "another size" && return; }
    if cmp -s "$file" "$work/$2.o"; then
        echo "the code object"
    elif tail -c "+$((at + 1))" "$work/program" | head -c "$size" | cmp -s - "$file"; then
        echo "its size, the bytes of the program from $at"
    else
        echo "its size, other bytes"
    fi
}
listed() { # ROOT FILE: the targets of GPUs, or the complaint
    { run "$1" clang-offload-bundler -type=o -list -input="$work/$2" 2>&1 || true; } |
        sed -n 's/.*\(error: \)/\1/p; s/^hip-amdgcn-amd-amdhsa--//p' | sort | paste -sd' '
}
program
compare "llvm-objdump --offloading, first bundle" "the code object" "the code object" "$(extracted 0 gfx1100)"
compare "llvm-objdump --offloading, second bundle" "the code object" "the code object" "$(extracted 1 gfx1201)"
compare "clang-offload-bundler -list of the section" "gfx1100 gfx1201" gfx1100 "$(listed new section)"
compare "19, one bundle" gfx1100 gfx1100 "$(listed old gfx1100.bundle)"
program -compress
compare "compressed, llvm-objdump --offloading, first bundle" "the code object" "its size, the bytes of the program from 139" \
    "$(extracted 0 gfx1100)"
compare "compressed, llvm-objdump --offloading, second bundle" "the code object" "its size, the bytes of the program from 139" \
    "$(extracted 1 gfx1201)"
compare "compressed, one bundle" gfx1100 gfx1100 "$(listed new gfx1100.bundle)"
unreadable="error: Failed to decompress input: Could not decompress embedded file contents:"
compare "compressed, the section" "gfx1100 gfx1201" "$unreadable Src size is incorrect" "$(listed new section)"
compare "compressed, 19, one bundle" gfx1100 "$unreadable Unknown frame descriptor" "$(listed old gfx1100.bundle)"
COMPRESSED_BUNDLE_FORMAT_VERSION=2 bundle gfx1100 -compress
compare "compressed, version 2, 19, one bundle" gfx1100 gfx1100 "$(listed old gfx1100.bundle)"
finish
