#!/usr/bin/env bash
# Packages: clang-tools-19 1:19.1.7-3+b1, clang-tools-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: clang-offload-bundler 22 drops the GPU of an entry whose target has one dash before it. With
# `-targets=...,hip-amdgcn-amd-amdhsa-gfx1201` the entry of the bundle is called `hip-amdgcn-amd-amdhsa--`; no error,
# no warning. Version 19 put in the missing dash and wrote `hip-amdgcn-amd-amdhsa--gfx1201`. So the same build script
# makes a bundle that a loader finds nothing in. The tool itself finds it by the short spelling, and so hides the loss,
# and gives it out for any other GPU in that spelling: gfx906 gets the code of gfx1201.
#
# Matters to: build scripts; loaders of HIP's fat binaries, which compare the name of the entry with the device.
# Documentation: clang's "Clang Offload Bundler" names an entry by kind, triple and target ID, and says of none that it
# is dropped.
source "$(dirname "$0")/common.bash"
debian old trixie clang-tools-19=1:19.1.7-3+b1
debian new trixie clang-tools-22=1:22.1.8-1~deb13u5
for root in old new; do
    run $root clang-offload-bundler --version 2>&1 | sed -n 's/^ *//; /version/p'
done

: >"$work/host"
echo code-of-gfx1201 >"$work/device"
entry() { # ROOT: the name of the device's entry
    run "$1" clang-offload-bundler -type=o -output="$work/$1.bundle" -input="$work/host" -input="$work/device" \
        -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa-gfx1201 2>&1
    grep -ao 'hip[a-z0-9-]*' "$work/$1.bundle" | sed 's/code-of-.*//'
}
extract() { # ROOT TARGET
    { run "$1" clang-offload-bundler -type=o -unbundle -input="$work/$1.bundle" -output="$work/out" -targets="$2" 2>&1 &&
        cat "$work/out"; } | sed "s/.*error: /error: /"
}
compare "19, -targets=hip-amdgcn-amd-amdhsa-gfx1201" "hip-amdgcn-amd-amdhsa--gfx1201, or an error" \
    "hip-amdgcn-amd-amdhsa--gfx1201" "$(entry old)"
compare "22, the same" "hip-amdgcn-amd-amdhsa--gfx1201, or an error" "hip-amdgcn-amd-amdhsa--" "$(entry new)"
compare "19, unbundle hip-amdgcn-amd-amdhsa--gfx1201" code-of-gfx1201 code-of-gfx1201 \
    "$(extract old hip-amdgcn-amd-amdhsa--gfx1201 || true)"
compare "22, the same" code-of-gfx1201 "error: Can't find bundles for hip-amdgcn-amd-amdhsa--gfx1201" \
    "$(extract new hip-amdgcn-amd-amdhsa--gfx1201 || true)"
compare "22, unbundle hip-amdgcn-amd-amdhsa-gfx906" "an error" code-of-gfx1201 \
    "$(extract new hip-amdgcn-amd-amdhsa-gfx906 || true)"
finish
